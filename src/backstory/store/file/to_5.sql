-- From schema 4 to 5: a chunk may be made of bytes of another log. Nothing that is there is packed anew here.

alter table chunks add column lender integer;
create index idx_chunks_lender on chunks(lender) where lender is not null;
create table lent(
  log_id    integer not null,            -- a log that is gone, and that chunks still have as their lender
  start     integer not null,            -- as in chunks
  length    integer not null,
  sha256    blob not null,
  data      blob not null,
  primary key (log_id, start)
) without rowid;
create trigger log_lent before delete on logs when exists (select 1 from chunks where lender = old.id) begin
  insert or ignore into lent(log_id, start, length, sha256, data)
    select log_id, start, length, sha256, data from chunks where log_id = old.id and lender is null;
end;

-- What was packed as small as could be then can be made of its parent's log now.
update logs set frames = 0 where frames = -1 and instr(path, '.jsonl#') > 0;

-- Two indexes that begin alike become one, and none has rows that nobody looks for. What the tables of schema 4 have in
-- themselves stays.
drop index idx_sessions_parent;
drop index idx_sessions_repo;
drop index idx_turns_uid;
create unique index idx_sessions_number on sessions(owner, number) where number is not null;
create index idx_sessions_parent on sessions(parent_id) where parent_id is not null;
create index idx_sessions_repo on sessions(repository) where repository is not null;
create unique index idx_turns_uid on turns(uid, session_id);
-- derived.sql makes this one anew.
drop index if exists idx_session_files_path;
drop index if exists idx_checkpoints_session;
