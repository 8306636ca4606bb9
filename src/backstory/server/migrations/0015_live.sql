-- Runs that go on, as their machines tell of them: what is here goes once the frames of a session have its turn.

-- state: running, over, or killed; news: counts the changes; first, last: the numbers of the events that are kept, 0 for
-- none; bytes: of these; takes: whether the machine takes messages for it; at: of the last word.
create table live_run (
  tenant bigint not null,
  person bigint not null,
  session text not null,
  machine text not null,
  run text not null,
  repository text not null,
  agent text not null,
  started timestamptz not null,
  state text not null,
  writing text not null,
  takes boolean not null,
  news bigint not null,
  first int not null,
  last int not null,
  bytes bigint not null,
  at timestamptz not null,
  primary key (tenant, person, session, machine, run)
);
create index live_run_of_time on live_run (tenant, at);
create index live_run_of_session on live_run (tenant, session);

-- data: an event in the words of the JSON format, masked.
create table live (
  tenant bigint not null,
  person bigint not null,
  session text not null,
  machine text not null,
  run text not null,
  number int not null,
  data text not null,
  at timestamptz not null,
  primary key (tenant, person, session, machine, run, number)
);
