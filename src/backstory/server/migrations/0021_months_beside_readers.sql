-- A month is put in its place while somebody reads all, as a copy does: that waits for readers only where a partition for all
-- else is beside. There is none any more, for whoever writes has the month made; the one that was holds what is too old.
alter table turn_text detach partition turn_text_other;
alter table turn_text attach partition turn_text_other for values in ('0001-01-01');

-- How many sessions are still to be derived as they are now, without those that were given up (server/jobs.py's TRIES_MAX).
grant create on schema backstory to backstory_search;
set local role backstory_search;
create or replace function sessions_waiting(of_tenant bigint, among text[]) returns bigint
language sql stable security definer set search_path = backstory as $$
  select count(distinct (j.person, j.session)) from job j
  where j.tenant = of_tenant and is_asked(of_tenant) and j.tries < 5 and (among is null or exists (
    select from session s where s.tenant = j.tenant and s.person = j.person and s.uid = j.session
      and s.machine = j.machine and s.repository = any(among)))
$$;
reset role;
revoke create on schema backstory from backstory_search;
