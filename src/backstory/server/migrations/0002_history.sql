-- Sessions as their people sent them, in frames. Two people who hold a session of one uid have a row and frames each.

-- Makes marks of uids that are gone, which tell nothing without it.
alter table organisation add key bytea not null default uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());

-- epoch and frames: up to where the session is whole; what a later epoch has so far is seen once that is whole, too.
create table session (
  tenant bigint not null,
  person bigint not null,
  uid text not null,
  repository text not null,
  epoch int not null,
  frames int not null,
  events bigint not null,
  title text,
  agent text,
  branch text,
  created timestamptz,
  last_active timestamptz,
  generation bigint not null,
  primary key (tenant, person, uid)
);
create index session_of_time on session (tenant, last_active desc nulls last, uid);

-- head: the first line of the frame, as it came; data: what follows it. number: from 1, in each epoch.
create table frame (
  tenant bigint not null,
  person bigint not null,
  session text not null,
  epoch int not null,
  number int not null,
  chain bytea not null,
  events int not null,
  is_end boolean not null,
  generation bigint not null,
  head text not null,
  data bytea not null,
  primary key (tenant, person, session, epoch, number),
  unique (tenant, person, session, epoch, chain)
);
alter table frame alter data set storage external;
create index frame_of_generation on frame (tenant, person, generation, session, number);

-- Sessions that a person took out: they do not come again. mark: HMAC of the uid with the organisation's key.
create table removal (
  tenant bigint not null,
  person bigint not null,
  mark bytea not null,
  at timestamptz not null,
  generation bigint not null,
  primary key (tenant, person, mark)
);
