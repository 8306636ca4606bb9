-- The state of a server for those who run it: of all organisations together.
create function state_of_server(most_tries int)
returns table (waiting bigint, longest_s double precision, given_up bigint, bytes bigint)
language sql stable security definer set search_path = backstory as $$
  select count(*) filter (where tries < most_tries),
    coalesce(extract(epoch from now() - min(free_at) filter (where tries < most_tries and free_at < now())), 0)::float8,
    count(*) filter (where tries >= most_tries), pg_database_size(current_database())
  from job
$$;

grant create on schema backstory to backstory_search;
alter function state_of_server(int) owner to backstory_search;
revoke create on schema backstory from backstory_search;
revoke all on function state_of_server(int) from public;
grant execute on function state_of_server(int) to backstory_app;
