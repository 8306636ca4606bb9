-- Whether a session is named by all of its uid is said by those that one may see. The one of before stays for a server of
-- before, which may still answer.

grant create on schema backstory to backstory_search;
create function uids_not_alone(of_tenant bigint, among text[], uids text[], shown int)
returns table (uid text)
language sql stable security definer set search_path = backstory as $$
  select each from unnest(uids) each
  where is_asked(of_tenant) and exists (
    select from session s where s.tenant = of_tenant and s.uid collate "C" >= left(each, shown)
      and s.uid collate "C" < left(each, shown) || '[' and s.uid <> each
      and (among is null or s.repository = any(among)))
$$;
alter function uids_not_alone(bigint, text[], text[], int) owner to backstory_search;
revoke create on schema backstory from backstory_search;
revoke all on function uids_not_alone(bigint, text[], text[], int) from public;
grant execute on function uids_not_alone(bigint, text[], text[], int) to backstory_app;
