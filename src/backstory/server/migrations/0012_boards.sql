-- The context boards of a repository as a machine sent them. items: lines of JSON, masked.
create table board (
  tenant bigint not null,
  person bigint not null,
  machine text not null,
  repository text not null,
  items bytea not null,
  primary key (tenant, person, machine, repository)
);
