-- Who came in by an invitation, and whether a machine came in by a login: it may ask again, with the secret of the first time.
alter table invite add person bigint;
alter table login add came boolean not null default false;
