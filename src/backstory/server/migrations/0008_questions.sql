-- Questions over all sessions of an organisation. How often something was derived there, for those who ask what changed.
create table derived (
  tenant bigint primary key,
  times bigint not null
);
grant select on derived, audit to backstory_search;
create policy of_search on derived for select to backstory_search using (true);
create policy of_search on frame for select to backstory_search using (true);
create policy of_search on audit for select to backstory_search using (true);

-- As lists go on, in one direction, so that a place in them is a place in the index.
drop index session_of_time;
create index session_in_order on session
  (tenant, coalesce(last_active, '-infinity') desc, uid collate "C" desc, person desc, machine collate "C" desc);
create index session_of_uid on session (tenant, uid collate "C");
create index session_of_identity on session (tenant, person, substr(uid, 11));

-- The sessions that are listed: of two machines' copies the longer one, and none of which all is shown elsewhere, as the
-- conditions of a store have it (HIDDEN, IS_REPEATED, a subagent's where its parent is). Each is looked up for a session of
-- the page: without the offsets, and in several conditions, whole tables would be read.
create view listed_session as
select s.*, coalesce(d.agents, array[s.agent]) as agents, coalesce(d.branches, array[s.branch]) as branches,
  coalesce(d.heading, lower(s.title), '') as heading, d.project, d.name, d.native_id
from session s
left join derivation d on d.tenant = s.tenant and d.person = s.person and d.session = s.uid and d.machine = s.machine
where case when exists (
  select from frame f join session o on o.tenant = f.tenant and o.person = f.person and o.uid = f.session
    and o.machine = f.machine and o.epoch = f.epoch and f.number <= o.frames
  where f.tenant = s.tenant and f.person = s.person and f.session = s.uid and f.epoch = s.epoch and f.chain = s.chain
    and f.machine <> s.machine and (f.number < o.frames or f.machine < s.machine) offset 0) then false
when coalesce(d.relation, '') = 'subagent' and exists (
  select from session p where p.tenant = s.tenant and p.person = s.person and substr(p.uid, 11) = d.parent offset 0)
  then false
when not coalesce(d.is_run, true) and d.native_id is not null and exists (
  select from turn r where r.tenant = s.tenant and r.person = s.person and r.is_run and r.native_id = d.native_id
    and not exists (
      select from turn t where t.tenant = s.tenant and t.person = s.person and t.session = s.uid
        and t.machine = s.machine and not exists (
          select from turn c where c.tenant = s.tenant and c.person = s.person and c.session = r.session
            and c.machine = r.machine and c.uid = t.uid and c.native_id = d.native_id offset 0) offset 0) offset 0)
  then false
when coalesce(d.relation, '') = 'retold' and exists (
  select from turn t join turn c on c.tenant = t.tenant and c.uid = t.uid and c.person = t.person
    and c.session <> t.session
  join derivation o on o.tenant = c.tenant and o.person = c.person and o.session = c.session and o.machine = c.machine
  where t.tenant = s.tenant and t.person = s.person and t.session = s.uid and t.machine = s.machine
    and not o.is_run and o.relation is distinct from 'retold' and not exists (
      select from turn m where m.tenant = s.tenant and m.person = s.person and m.session = s.uid
        and m.machine = s.machine and not exists (
          select from turn h where h.tenant = o.tenant and h.person = o.person and h.session = o.session
            and h.machine = o.machine and h.uid = m.uid offset 0) offset 0) offset 0)
  then false
when not coalesce(d.is_run, true) and coalesce(d.relation, '') = 'continuation' and exists (
  select from turn t where t.tenant = s.tenant and t.person = s.person and t.session = s.uid and t.machine = s.machine
    offset 0)
  and not exists (
    select from turn t where t.tenant = s.tenant and t.person = s.person and t.session = s.uid
      and t.machine = s.machine and not case when length(t.native_id) = 36 and substr(t.native_id, 15, 1) = '5' then
        exists (
          select from turn c join derivation o on o.tenant = c.tenant and o.person = c.person
            and o.session = c.session and o.machine = c.machine
          where c.tenant = t.tenant and c.uid = t.uid and c.person = t.person and c.session <> t.session
            and (o.relation is not distinct from 'retold',
              coalesce(length(c.native_id) = 36 and substr(c.native_id, 15, 1) = '5', false), c.session collate "C")
              < (false, true, t.session collate "C") offset 0)
        else false end offset 0)
  then false else true end;

-- A condition is null where nobody asks for it; wanted_branch is a regular expression. The place is that behind which
-- the list goes on. Planned anew each time, by what is asked, and never by reading whole tables: a page is found by
-- walking the list.
create function sessions_found(
  of_tenant bigint, among text[], wanted_person bigint, wanted_agent text, wanted_repository text, wanted_branch text,
  wanted_since timestamptz, wanted_until timestamptz, wanted_title text,
  place_active timestamptz, place_uid text, place_person bigint, place_machine text, most bigint
)
returns table (person bigint, uid text, machine text, last_active timestamptz)
language plpgsql stable security definer set search_path = backstory set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  return query execute $sql$
    select s.person, s.uid, s.machine, s.last_active from listed_session s
    where s.tenant = $1 and is_asked($1)
      and ($2 is null or s.repository = any($2))
      and ($3 is null or s.person = $3)
      and ($4 is null or $4 = any(s.agents))
      and ($5 is null or lower(s.repository) = $5 or lower(s.project) = $5
        or right(lower(s.repository), length($5) + 1) = '/' || $5 or right(lower(s.project), length($5) + 1) = '/' || $5)
      and ($6 is null or exists (select from unnest(s.branches) branch where branch ~ $6))
      and ($7 is null or coalesce(s.last_active, $7) >= $7)
      and ($8 is null or s.created < $8)
      and ($9 is null or position($9 in s.heading) > 0)
      and ($10 is null or (coalesce(s.last_active, '-infinity'), s.uid collate "C", s.person, s.machine collate "C")
        < ($10, $11, $12, $13))
    order by coalesce(s.last_active, '-infinity') desc, s.uid collate "C" desc, s.person desc,
      s.machine collate "C" desc
    limit $14
  $sql$ using of_tenant, among, wanted_person, wanted_agent, wanted_repository, wanted_branch, wanted_since,
    wanted_until, wanted_title, place_active, place_uid, place_person, place_machine, most;
end
$$;

-- way: uid, name, uid prefix, native, native beginning (of no subagent), native prefix.
create function sessions_called(of_tenant bigint, among text[], way text, words text, most bigint)
returns table (uid text)
language plpgsql stable security definer set search_path = backstory as $$
declare
  condition text := case way
    when 'uid' then 's.uid collate "C" = $3'
    when 'name' then 'd.name = $3'
    when 'uid prefix' then 's.uid collate "C" >= $3 and s.uid collate "C" < $3 || ''['''
    when 'native' then 'd.native_id collate "C" = $3'
    when 'native beginning' then 'd.native_id collate "C" >= $3 and d.native_id collate "C" < $3 || U&''\+10FFFF'' '
      'and position(''/'' in d.native_id) = 0'
    when 'native prefix' then 'd.native_id collate "C" >= $3 and d.native_id collate "C" < $3 || U&''\+10FFFF''' end;
begin
  return query execute format($sql$
    select distinct s.uid from session s %s
    where s.tenant = $1 and is_asked($1) and ($2 is null or s.repository = any($2)) and %s
    order by 1 limit $4
  $sql$, case when way like 'uid%' then '' else 'join derivation d on d.tenant = s.tenant and d.person = s.person '
      'and d.session = s.uid and d.machine = s.machine and d.tenant = $1' end, condition)
  using of_tenant, among, words, most;
end
$$;

-- Those of these uids of which another one of the organisation has the same beginning.
create function uids_not_alone(of_tenant bigint, uids text[], shown int)
returns table (uid text)
language sql stable security definer set search_path = backstory as $$
  select each from unnest(uids) each
  where is_asked(of_tenant) and exists (
    select from session s where s.tenant = of_tenant and s.uid collate "C" >= left(each, shown)
      and s.uid collate "C" < left(each, shown) || '[' and s.uid <> each)
$$;

create function change_token(of_tenant bigint) returns text
language sql stable security definer set search_path = backstory as $$
  select coalesce((select sum(generation) from person where tenant = of_tenant), 0) || '.'
    || coalesce((select max(number) from audit where tenant = of_tenant), 0) || '.'
    || coalesce((select times from derived where tenant = of_tenant), 0)
  where is_asked(of_tenant)
$$;

-- Turns by their words, the best first; search asks with it.
create function turns_with(of_tenant bigint, among text[], wanted tsquery, most bigint)
returns table (person bigint, session text, machine text, number int, rank real)
language plpgsql stable security definer set search_path = backstory as $$
begin
  return query execute $sql$
    select t.person, t.session, t.machine, t.number, ts_rank(t.words, $3) from turn t
    where t.tenant = $1 and is_asked($1) and t.words @@ $3 and t.removed is null
      and ($2 is null or exists (select from session s where s.tenant = t.tenant and s.person = t.person
        and s.uid = t.session and s.machine = t.machine and s.repository = any($2)))
    order by 5 desc, t.session, t.number limit $4
  $sql$ using of_tenant, among, wanted, most;
end
$$;

grant create on schema backstory to backstory_search;
alter view listed_session owner to backstory_search;
alter function sessions_found(bigint, text[], bigint, text, text, text, timestamptz, timestamptz, text, timestamptz, text,
  bigint, text, bigint) owner to backstory_search;
alter function sessions_called(bigint, text[], text, text, bigint) owner to backstory_search;
alter function uids_not_alone(bigint, text[], int) owner to backstory_search;
alter function change_token(bigint) owner to backstory_search;
alter function turns_with(bigint, text[], tsquery, bigint) owner to backstory_search;
revoke create on schema backstory from backstory_search;
revoke all on function sessions_found(bigint, text[], bigint, text, text, text, timestamptz, timestamptz, text,
  timestamptz, text, bigint, text, bigint), sessions_called(bigint, text[], text, text, bigint),
  uids_not_alone(bigint, text[], int), change_token(bigint), turns_with(bigint, text[], tsquery, bigint) from public;
grant execute on function sessions_found(bigint, text[], bigint, text, text, text, timestamptz, timestamptz, text,
  timestamptz, text, bigint, text, bigint), sessions_called(bigint, text[], text, text, bigint),
  uids_not_alone(bigint, text[], int), change_token(bigint), turns_with(bigint, text[], tsquery, bigint)
  to backstory_app;
