-- A copy that is a beginning of another machine's counts no events of its own.

grant create on schema backstory to backstory_search;
drop function repositories_of(bigint, text[]);
create function repositories_of(of_tenant bigint, among text[])
returns table (repository text, sessions bigint, events bigint, people bigint, last_active timestamptz)
language sql stable security definer set search_path = backstory as $$
  select s.repository, count(distinct (s.person, s.uid)), sum(s.events)::bigint, count(distinct s.person),
    max(s.last_active)
  from session s
  where s.tenant = of_tenant and is_asked(of_tenant) and (among is null or s.repository = any(among))
    and not exists (
      select from frame f join session o on o.tenant = f.tenant and o.person = f.person and o.uid = f.session
        and o.machine = f.machine and o.epoch = f.epoch and f.number <= o.frames
      where f.tenant = s.tenant and f.person = s.person and f.session = s.uid and f.epoch = s.epoch and f.chain = s.chain
        and f.machine <> s.machine and (f.number < o.frames or f.machine < s.machine))
  group by 1 order by 5 desc nulls last, 1
$$;
alter function repositories_of(bigint, text[]) owner to backstory_search;
revoke create on schema backstory from backstory_search;
revoke all on function repositories_of(bigint, text[]) from public;
grant execute on function repositories_of(bigint, text[]) to backstory_app;
