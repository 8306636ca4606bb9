-- What a search finds is of the repositories that are asked for, by its own row: its repository and its agents are its own,
-- and are among the words that are looked for, so that what is hidden is not even walked. A helper's session that is
-- listed nowhere is found by the branch and the title of the one that it works for, or of the one above that. For a token
-- of some repositories nothing that it may not see says a word: there a helper of a hidden session stands for itself.

grant create on schema backstory to backstory_search;
set local role backstory_search;
create or replace function sessions_with(
  of_tenant bigint, among text[], wanted tsquery, typed tsquery, wanted_session text, wanted_person bigint,
  wanted_agent text, wanted_repository text, wanted_branch text, wanted_since timestamptz, wanted_until timestamptz,
  wanted_title text, place_at timestamptz, place_uid text, place_person bigint, place_machine text, per_session int,
  most bigint
)
returns table (person bigint, session text, machine text, number int, at timestamptz, hits bigint, is_typed boolean)
language plpgsql stable security definer set search_path = backstory set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
set cpu_operator_cost = 1 as $$
#variable_conflict use_column
declare
  each record;
  one record;
  count bigint := 0;
begin
  if not is_asked(of_tenant) or most <= 0 then
    return;
  end if;
  for each in
    select month from (
      select case when c.relname = 'turn_text_other' then '0001-01-01' else to_date(right(c.relname, 7), 'YYYY_MM') end
      from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'turn_text'::regclass) m(month)
    where month = '0001-01-01' or (
      (wanted_since is null or (month + interval '1 month') at time zone 'UTC' > wanted_since)
      and (wanted_until is null or month::timestamp at time zone 'UTC' < wanted_until)
      and (place_at is null or month::timestamp at time zone 'UTC' <= place_at))
    order by month desc
  loop
    for one in execute format($sql$
      select t.person, t.session, t.machine from turn_text t
      where t.tenant = $1 and t.month = %L and t.words @@ $2 and ($3 is null or t.session = $3)
        and ($4 is null or t.person = $4) and ($5 is null or t.at >= $5) and ($6 is null or t.at < $6)
      group by t.person, t.session, t.machine
      having $7 is null or (max(t.at), t.session collate "C", t.person, t.machine collate "C") < ($7, $8, $9, $10)
      order by max(t.at) desc, t.session collate "C" desc, t.person desc, t.machine collate "C" desc
    $sql$, each.month) using of_tenant, wanted, wanted_session, wanted_person, wanted_since, wanted_until, place_at,
      place_uid, place_person, place_machine
    loop
      -- It was found where its newest hit is.
      continue when exists (
        select from turn_text n where n.tenant = of_tenant and n.person = one.person and n.session = one.session
          and n.machine = one.machine and n.month > each.month and n.words @@ wanted
          and (wanted_until is null or n.at < wanted_until));
      continue when not exists (
        select from session s
        left join derivation d on d.tenant = s.tenant and d.person = s.person and d.session = s.uid
          and d.machine = s.machine
        where s.tenant = of_tenant and s.person = one.person and s.uid = one.session and s.machine = one.machine
          and (among is null or s.repository = any(among))
          and (wanted_agent is null or wanted_agent = any(coalesce(d.agents, array[s.agent])))
          and (wanted_repository is null or lower(s.repository) = wanted_repository
            or lower(d.project) = wanted_repository
            or right(lower(s.repository), length(wanted_repository) + 1) = '/' || wanted_repository
            or right(lower(d.project), length(wanted_repository) + 1) = '/' || wanted_repository));
      continue when not exists (
        with recursive above(uid, machine, parent) as (
          select d.session, d.machine, case when d.relation = 'subagent' and not exists (
            select from session s join frame f on f.tenant = s.tenant and f.person = s.person and f.session = s.uid
              and f.epoch = s.epoch and f.chain = s.chain and f.machine <> s.machine
            join session o on o.tenant = f.tenant and o.person = f.person and o.uid = f.session
              and o.machine = f.machine and o.epoch = f.epoch and f.number <= o.frames
            where s.tenant = d.tenant and s.person = d.person and s.uid = d.session and s.machine = d.machine
              and (f.number < o.frames or f.machine < s.machine) offset 0) then d.parent end
          from derivation d where d.tenant = of_tenant and d.person = one.person and d.session = one.session
            and d.machine = one.machine
          union
          select s.uid, s.machine, case when d.relation = 'subagent' then d.parent end
          from above a cross join lateral (
            select p.* from session p where p.tenant = of_tenant and p.person = one.person
              and substr(p.uid, 11) = a.parent and (among is null or p.repository = any(among)) offset 0) s
          left join lateral (
            select o.* from derivation o where o.tenant = of_tenant and o.person = one.person and o.session = s.uid
              and o.machine = s.machine offset 0) d on true)
        select from above a cross join lateral (
          select o.* from session o where o.tenant = of_tenant and o.person = one.person and o.uid = a.uid
            and o.machine = a.machine offset 0) s
        left join lateral (
          select o.* from derivation o where o.tenant = of_tenant and o.person = one.person and o.session = a.uid
            and o.machine = a.machine offset 0) d on true
        where (wanted_branch is null or exists (
            select from unnest(coalesce(d.branches, array[s.branch])) branch where branch ~ wanted_branch))
          and (wanted_title is null or position(wanted_title in coalesce(d.heading, lower(s.title), '')) > 0)
          and (exists (
            select from listed_session l where l.tenant = of_tenant and l.person = one.person and l.uid = a.uid
              and l.machine = a.machine offset 0)
            or (among is not null and a.parent is not null and not exists (
              select from session p where p.tenant = of_tenant and p.person = one.person
                and substr(p.uid, 11) = a.parent and p.repository = any(among) offset 0))));
      return query
        select t.person, t.session, t.machine, t.number, t.at, count(*) over (), t.words @@ typed
        from turn_text t where t.tenant = of_tenant and t.person = one.person and t.session = one.session
          and t.machine = one.machine and t.words @@ wanted and (wanted_since is null or t.at >= wanted_since)
          and (wanted_until is null or t.at < wanted_until)
        order by t.at desc, t.number desc limit per_session;
      count := count + 1;
      if count = most then
        return;
      end if;
    end loop;
  end loop;
end
$$;
reset role;
revoke create on schema backstory from backstory_search;
