-- What is searched of a turn, in a table of its own, by months: a search begins with the newest and ends when it has
-- enough, and questions about facts read no texts. It is all derived, so nothing is moved: the rules have another number,
-- and every session is derived again.

drop function turns_with(bigint, text[], tsquery, bigint);
drop index turn_of_words;
alter table turn drop column said, drop column words;

-- at: when it began, or its session was last active, never later than it was derived; month: the first day of
-- that, in UTC, 0001-01-01 for what is older than all agents. said: [seq, part, kind, scope, text] of each event; words: the same, to be found by. No removed turn is here.
create table turn_text (
  tenant bigint not null,
  person bigint not null,
  session text not null,
  machine text not null,
  number int not null,
  month date not null,
  at timestamptz not null,
  said json not null,
  words tsvector not null,
  primary key (tenant, person, session, machine, number, month)
) partition by list (month);
create index turn_text_of_words on turn_text using gin (tenant, words);

-- A partition is reached through its parent alone, and stands behind the same wall.
create function wall_turn_months(part text) returns void
language plpgsql set search_path = backstory as $$
declare
  name text;
begin
  execute format('alter table %I enable row level security', part);
  execute format('alter table %I force row level security', part);
  execute format('create policy of_tenant on %I to backstory_app '
    'using (tenant = nullif(current_setting(''backstory.tenant'', true), '''')::bigint)', part);
  foreach name in array array['session', 'machine', 'said', 'words'] loop
    execute format('alter table %I alter column %I set statistics 0', part, name);
  end loop;
end
$$;
create table turn_text_other partition of turn_text (check (month = '0001-01-01')) default;
select wall_turn_months('turn_text_other');

-- Make the partition of a month that has none. It is made beside and then put in its place: nobody who reads waits.
create function make_turn_month(of_month date) returns void
language plpgsql security definer set search_path = backstory set lock_timeout = '2s' as $$
declare
  part text := 'turn_text_' || to_char(of_month, 'YYYY_MM');
begin
  if of_month <> date_trunc('month', of_month) or of_month not between '2000-01-01' and '2199-12-01' then
    raise exception 'no month';
  end if;
  if to_regclass(part) is null then
    -- Whoever makes the same one waits, and finds it: in the table, because what is cached may be of before.
    perform pg_advisory_xact_lock(0x6261636C);
    if not exists (select from pg_class where relnamespace = 'backstory'::regnamespace and relname = part) then
      execute format('create table %I (like turn_text including all)', part);
      perform wall_turn_months(part);
      execute format('alter table turn_text attach partition %I for values in (%L)', part, of_month);
    end if;
  end if;
end
$$;
revoke all on function make_turn_month(date), wall_turn_months(text) from public;
grant execute on function make_turn_month(date) to backstory_app;

grant select on turn_text to backstory_search;
create policy of_search on turn_text for select to backstory_search using (true);

-- The sessions that have words, those with the newest hits first, and of each so many of its hits (per_session), with the
-- number of all. A session stands where its newest hit is. wanted: the words in any way; typed: as they were typed; the
-- other conditions are those of sessions_found, but for times, which are those of the turns. A helper's session that is
-- listed nowhere is one of its parent's. Month after month is asked, and no more when there are enough.
create function sessions_with(
  of_tenant bigint, among text[], wanted tsquery, typed tsquery, wanted_session text, wanted_person bigint,
  wanted_agent text, wanted_repository text, wanted_branch text, wanted_since timestamptz, wanted_until timestamptz,
  wanted_title text, place_at timestamptz, place_uid text, place_person bigint, place_machine text, per_session int,
  most bigint
)
returns table (person bigint, session text, machine text, number int, at timestamptz, hits bigint, is_typed boolean)
language plpgsql stable security definer set search_path = backstory set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan as $$
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
        select from (
          select s.* from listed_session s where s.tenant = of_tenant and s.person = one.person
            and s.uid = one.session and s.machine = one.machine
          union all
          select p.* from derivation d join listed_session p on p.tenant = d.tenant and p.person = d.person
            and substr(p.uid, 11) = d.parent
          where d.tenant = of_tenant and d.person = one.person and d.session = one.session and d.machine = one.machine
            and d.relation = 'subagent' and not exists (
              select from session s join frame f on f.tenant = s.tenant and f.person = s.person and f.session = s.uid
                and f.epoch = s.epoch and f.chain = s.chain and f.machine <> s.machine
              join session o on o.tenant = f.tenant and o.person = f.person and o.uid = f.session
                and o.machine = f.machine and o.epoch = f.epoch and f.number <= o.frames
              where s.tenant = d.tenant and s.person = d.person and s.uid = d.session and s.machine = d.machine
                and (f.number < o.frames or f.machine < s.machine))) s
        where (among is null or s.repository = any(among))
          and (wanted_agent is null or wanted_agent = any(s.agents))
          and (wanted_repository is null or lower(s.repository) = wanted_repository
            or lower(s.project) = wanted_repository
            or right(lower(s.repository), length(wanted_repository) + 1) = '/' || wanted_repository
            or right(lower(s.project), length(wanted_repository) + 1) = '/' || wanted_repository)
          and (wanted_branch is null or exists (select from unnest(s.branches) branch where branch ~ wanted_branch))
          and (wanted_title is null or position(wanted_title in s.heading) > 0));
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

-- How many sessions are still to be derived as they are now.
create function sessions_waiting(of_tenant bigint, among text[]) returns bigint
language sql stable security definer set search_path = backstory as $$
  select count(distinct (j.person, j.session)) from job j
  where j.tenant = of_tenant and is_asked(of_tenant) and (among is null or exists (
    select from session s where s.tenant = j.tenant and s.person = j.person and s.uid = j.session
      and s.machine = j.machine and s.repository = any(among)))
$$;

grant create on schema backstory to backstory_search;
alter function sessions_with(bigint, text[], tsquery, tsquery, text, bigint, text, text, text, timestamptz, timestamptz,
  text, timestamptz, text, bigint, text, int, bigint) owner to backstory_search;
alter function sessions_waiting(bigint, text[]) owner to backstory_search;
revoke create on schema backstory from backstory_search;
revoke all on function sessions_with(bigint, text[], tsquery, tsquery, text, bigint, text, text, text, timestamptz,
  timestamptz, text, timestamptz, text, bigint, text, int, bigint), sessions_waiting(bigint, text[]) from public;
grant execute on function sessions_with(bigint, text[], tsquery, tsquery, text, bigint, text, text, text, timestamptz,
  timestamptz, text, timestamptz, text, bigint, text, int, bigint), sessions_waiting(bigint, text[]) to backstory_app;
