-- What the server derives from frames: sessions as lists have them, turns with what was said and used, and the jobs that
-- are still to do that. All of it can be made again.

-- version: of the rules; epoch, frames: what it was derived from; listed: as `list --json` has it.
create table derivation (
  tenant bigint not null,
  person bigint not null,
  session text not null,
  machine text not null,
  version int not null,
  epoch int not null,
  frames int not null,
  listed json not null,
  heading text not null,
  name text not null,
  native_id text,
  parent text,
  relation text,
  is_run boolean not null,
  agents text[] not null,
  branches text[] not null,
  project text,
  primary key (tenant, person, session, machine)
);
create index derivation_of_native on derivation (tenant, native_id collate "C") where native_id is not null;
create index derivation_of_name on derivation (tenant, name) where name <> '';

-- tools: by their names, how often each was called, failed, and gave no result. Costs are in dollars.
create table turn (
  tenant bigint not null,
  person bigint not null,
  session text not null,
  machine text not null,
  number int not null,
  uid text not null,
  first_seq bigint not null,
  last_seq bigint not null,
  agent text not null,
  model text,
  native_id text,
  is_run boolean not null,
  outcome text,
  started timestamptz,
  ended timestamptz,
  removed timestamptz,
  duration_ms bigint,
  api_latency_ms bigint,
  input_tokens bigint,
  output_tokens bigint,
  cache_read_tokens bigint,
  cache_write_tokens bigint,
  cache_write_1h_tokens bigint,
  largest_input_tokens bigint,
  reasoning_tokens bigint,
  tokens_source text,
  cost_usd double precision,
  cost_source text,
  low_usd double precision,
  high_usd double precision,
  tools json not null,
  -- The prompt, what the model said, and how the input of each tool begins; words: the same, to be found by.
  said text not null,
  words tsvector not null,
  primary key (tenant, person, session, machine, number)
);
create index turn_of_words on turn using gin (tenant, words);
create index turn_of_uid on turn (tenant, uid);
create index turn_of_run on turn (tenant, person, native_id) where is_run;

-- revision: raised by all that is new, so that what came while it was worked on is not taken for done. free_at: from when
-- on somebody may take it. error: the name of what the last try raised, without content.
create table job (
  tenant bigint not null,
  person bigint not null,
  session text not null,
  machine text not null,
  revision int not null,
  free_at timestamptz not null,
  tries int not null,
  version int not null,
  error text,
  primary key (tenant, person, session, machine)
);
create index job_in_order on job (tenant, free_at);

grant select on derivation, turn, job, frame to backstory_search;
create policy of_search on derivation for select to backstory_search using (true);
create policy of_search on turn for select to backstory_search using (true);
create policy of_search on job for select to backstory_search using (true);

-- Who works jobs off knows of no tenant before.
create function tenants_with_jobs(until timestamptz, most_tries int) returns setof bigint
language sql stable security definer set search_path = backstory as $$
  select distinct tenant from job where free_at <= until and tries < most_tries order by 1
$$;
create function tenants() returns setof bigint
language sql stable security definer set search_path = backstory as $$ select tenant from organisation order by 1 $$;

grant create on schema backstory to backstory_search;
alter function tenants_with_jobs(timestamptz, int) owner to backstory_search;
alter function tenants() owner to backstory_search;
revoke create on schema backstory from backstory_search;
revoke all on function tenants_with_jobs(timestamptz, int), tenants() from public;
grant execute on function tenants_with_jobs(timestamptz, int), tenants() to backstory_app;
