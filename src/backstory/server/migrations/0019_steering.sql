-- Messages of people for runs of their own, until the machine that runs took them. text: '' once that was decided.
create table steering (
  tenant bigint not null,
  person bigint not null,
  session text not null,
  machine text not null,
  id text not null,
  text text not null,
  state text not null,
  reason text not null,
  at timestamptz not null,
  primary key (tenant, person, session, machine, id)
);
