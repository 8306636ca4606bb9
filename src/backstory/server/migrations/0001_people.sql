-- Organisations, their people, and what lets them in. Every key begins with the tenant, so that a cluster may cut by it.

create table organisation (
  tenant bigint primary key,
  name text not null,
  created timestamptz not null
);

create table person (
  tenant bigint not null,
  id bigint not null,
  name text not null,
  role text not null check (role in ('reader', 'member', 'admin')),
  -- Counts what the person stored, in the transaction that stores it: who reads by it misses nothing.
  generation bigint not null default 0,
  created timestamptz not null,
  primary key (tenant, id),
  unique (tenant, name)
);

-- Who has one of these once may become a person. hash: SHA-256 of the code.
create table invite (
  tenant bigint not null,
  hash bytea not null,
  role text not null check (role in ('reader', 'member', 'admin')),
  created timestamptz not null,
  expires timestamptz not null,
  primary key (tenant, hash)
);

-- hash: SHA-256 of the secret. repositories: the keys that it is good for; null: all that the person may see.
create table token (
  tenant bigint not null,
  id text not null,
  person bigint not null,
  hash bytea not null,
  name text not null,
  scopes text[] not null,
  repositories text[],
  created timestamptz not null,
  expires timestamptz not null,
  -- The day of the last use, and no more: a request shall not write.
  used date,
  primary key (tenant, id)
);

-- What was done, without content. hash: SHA-256 of the one before and of this row, so none can be taken out unseen.
create table audit (
  tenant bigint not null,
  number bigint not null,
  at timestamptz not null,
  person bigint,
  action text not null,
  object text not null,
  hash bytea not null,
  primary key (tenant, number)
);

-- A machine that waits until a person lets it in. It has no tenant yet: all rows are of tenant 0. code: what a person types.
create table login (
  tenant bigint not null,
  hash bytea not null,
  code text not null,
  machine text not null,
  expires timestamptz not null,
  for_tenant bigint,
  for_person bigint,
  primary key (tenant, hash),
  unique (tenant, code)
);

-- The organisations that have no admin yet: before anybody is let in no tenant is known.
create function organisations_without_admin() returns setof bigint
language sql stable security definer set search_path = backstory as $$
  select tenant from organisation o
  where not exists (select from person p where p.tenant = o.tenant and p.role = 'admin')
$$;
create function has_organisation() returns boolean
language sql stable security definer set search_path = backstory as $$ select exists (select from organisation) $$;

grant usage on schema backstory to backstory_app, backstory_search;
grant select on organisation, person to backstory_search;
create policy of_search on organisation for select to backstory_search using (true);
create policy of_search on person for select to backstory_search using (true);
grant create on schema backstory to backstory_search;
alter function organisations_without_admin() owner to backstory_search;
alter function has_organisation() owner to backstory_search;
revoke create on schema backstory from backstory_search;
revoke all on function organisations_without_admin(), has_organisation() from public;
grant execute on function organisations_without_admin(), has_organisation() to backstory_app;
