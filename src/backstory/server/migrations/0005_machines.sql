-- A shelf belongs to a machine of a person: two histories of one session that two machines have are both there.

-- name: as the machine's login said it; seen: the day on which it sent something last.
create table machine (
  tenant bigint not null,
  person bigint not null,
  id text not null,
  name text not null,
  seen date not null,
  primary key (tenant, person, id)
);

-- Before this no machine was noted: what is there is of one without a name.
alter table session add machine text not null default '00000000000000000000000000';
alter table frame add machine text not null default '00000000000000000000000000';
alter table session alter machine drop default;
alter table frame alter machine drop default;

-- chain: of the last frame that is seen.
alter table session add chain bytea;
alter table session no force row level security;
alter table frame no force row level security;
alter table machine disable row level security;
update session s set chain = f.chain from frame f
where f.tenant = s.tenant and f.person = s.person and f.session = s.uid and f.epoch = s.epoch and f.number = s.frames;
insert into machine select tenant, person, machine, '', max(coalesce(last_active, 'epoch'))::date from session
group by tenant, person, machine;
alter table session force row level security;
alter table frame force row level security;

alter table session drop constraint session_pkey, add primary key (tenant, person, uid, machine);
create index session_of_machine on session (tenant, person, machine, uid);
alter table frame drop constraint frame_pkey, drop constraint frame_tenant_person_session_epoch_chain_key,
  add primary key (tenant, person, session, machine, epoch, number),
  add unique (tenant, person, session, epoch, chain, machine);
drop index frame_of_generation;
create index frame_of_generation on frame (tenant, person, machine, generation, session, number);
