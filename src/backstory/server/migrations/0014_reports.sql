-- What reports over many sessions need of each: its turns, and the work in it, packed (workspace/stores/report_store.py).
alter table derivation add figures bytea, add work bytea;
alter table derivation alter figures set storage external, alter work set storage external;

-- A page of these in the order of lists, also of sessions that lists do not show: a turn counts where it was first, which
-- the one who counts them finds out. First those that were active since a time, then those of which no time is known.
create function session_parts(
  of_tenant bigint, among text[], wanted_person bigint, wanted_repository text, wanted_since timestamptz,
  wanted_until timestamptz, has_work boolean, place_active timestamptz, place_uid text, place_person bigint,
  place_machine text, most bigint
)
returns table (person bigint, uid text, machine text, last_active timestamptz, events bigint, figures bytea, work bytea)
language plpgsql stable security definer set search_path = backstory set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  part text := $sql$
    (select s.person, s.uid, s.machine, s.last_active, s.events::bigint, d.figures, case when $7 then d.work end
    from session s
    left join derivation d on d.tenant = $1 and d.person = s.person and d.session = s.uid and d.machine = s.machine
    where s.tenant = $1 and is_asked($1) and %s
      and ($2 is null or s.repository = any($2))
      and ($3 is null or s.person = $3)
      and ($4 is null or lower(s.repository) = $4 or lower(d.project) = $4
        or right(lower(s.repository), length($4) + 1) = '/' || $4 or right(lower(d.project), length($4) + 1) = '/' || $4)
      and ($6 is null or s.created < $6)
      and ($8 is null or (coalesce(s.last_active, '-infinity'), s.uid collate "C", s.person, s.machine collate "C")
        < ($8, $9, $10, $11))
    order by coalesce(s.last_active, '-infinity') desc, s.uid collate "C" desc, s.person desc,
      s.machine collate "C" desc
    limit $12)
  $sql$;
begin
  return query execute case when wanted_since is null then format(part, 'true') else
    format(part, 'coalesce(s.last_active, ''-infinity'') >= $5') || ' union all '
    || format(part, 'coalesce(s.last_active, ''-infinity'') = ''-infinity''') || ' limit $12' end
  using of_tenant, among, wanted_person, wanted_repository, wanted_since, wanted_until, has_work, place_active, place_uid,
    place_person, place_machine, most;
end
$$;

grant create on schema backstory to backstory_search;
alter function session_parts(bigint, text[], bigint, text, timestamptz, timestamptz, boolean, timestamptz, text, bigint,
  text, bigint) owner to backstory_search;
revoke create on schema backstory from backstory_search;
revoke all on function session_parts(bigint, text[], bigint, text, timestamptz, timestamptz, boolean, timestamptz, text,
  bigint, text, bigint) from public;
grant execute on function session_parts(bigint, text[], bigint, text, timestamptz, timestamptz, boolean, timestamptz, text,
  bigint, text, bigint) to backstory_app;
