-- From schema 5 to 6: a session may be pruned in part. Nothing that is there is packed anew here.

create table pruned(
  session_id integer not null references sessions(id) on delete cascade, -- a session that was pruned in part
  log_id     integer not null,           -- a log of it; 0: the session as a whole
  name       text not null,              -- a file beside the log; '' = the log itself
  start      integer not null,           -- offset of bytes that were overwritten; -1: how far the log was pruned
  length     integer not null,           -- of them; of the session: the number that its next record got then
  sha256     blob,                       -- of the bytes that were there
  what       text,                       -- of the session: prompts | summaries: all but these; tool-outputs, images: these
  at         integer,                    -- when, ms
  primary key (session_id, log_id, name, start)
) without rowid;
create index idx_pruned_log on pruned(log_id);

drop trigger if exists session_gone;
create trigger session_gone after delete on sessions begin
  delete from events where session_id = old.id;
  delete from turns where session_id = old.id;
  delete from logs where session_id = old.id;
  delete from branches where session_id = old.id;
  delete from compactions where session_id = old.id;
  delete from pruned where session_id = old.id;
  update sessions set parent_id = null where parent_id = old.id;
end;
drop trigger if exists log_gone;
create trigger log_gone after delete on logs begin
  delete from chunks where log_id = old.id;
  delete from numbers where log_id = old.id;
  delete from sidecars where log_id = old.id;
  delete from pruned where log_id = old.id;
  update log_places set log_id = null where log_id = old.id;
end;
