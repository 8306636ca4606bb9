-- What an organisation's people read of one another. Row-level security lets no index of words be used, so what goes over
-- all sessions is asked through functions of an account that sees every tenant: each names one, that of the transaction.

create function is_asked(of_tenant bigint) returns boolean
language sql stable as $$ select of_tenant = nullif(current_setting('backstory.tenant', true), '')::bigint $$;

grant select on session to backstory_search;
create policy of_search on session for select to backstory_search using (true);

-- among: the repositories that the one who asks may see; null: all.
create function repositories_of(of_tenant bigint, among text[])
returns table (repository text, sessions bigint, events bigint, people bigint, last_active timestamptz)
language sql stable security definer set search_path = backstory as $$
  select s.repository, count(distinct (s.person, s.uid)), sum(s.events)::bigint, count(distinct s.person),
    max(s.last_active)
  from session s
  where s.tenant = of_tenant and is_asked(of_tenant) and (among is null or s.repository = any(among))
  group by 1 order by 5 desc nulls last, 1
$$;

grant create on schema backstory to backstory_search;
alter function repositories_of(bigint, text[]) owner to backstory_search;
revoke create on schema backstory from backstory_search;
revoke all on function repositories_of(bigint, text[]) from public;
grant execute on function repositories_of(bigint, text[]) to backstory_app;
