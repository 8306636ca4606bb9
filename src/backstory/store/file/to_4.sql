-- From schema 3 to 4: what stood twice of a log's row stands once. Chunks and events stay as they are packed.

alter table logs rename column first_hash to first_hex;
alter table logs rename column tail_hash to tail_hex;
alter table logs add column first_hash blob;
alter table logs add column tail_hash blob;
alter table logs add column root_chars integer;
alter table logs add column device integer;
alter table logs add column inode integer;
alter table logs add column size integer;
alter table logs add column mtime_ns integer;
alter table logs add column ctime_ns integer;
alter table logs add column reason text;

-- A hash that is none is as one that is not known: what is kept is then compared byte for byte. Of short logs no state
-- is kept; and what was packed as small as could be then can be packed smaller now.
update logs set
  first_hash = unhex(first_hex), tail_hash = unhex(tail_hex),
  state = iif(parsed_to <= 8192, null, state),
  frames = iif(frames = -1 and read_to <= 65536, 0, frames),
  root_chars = iif(relpath <> '' and substr(path, -length(relpath)) = relpath, length(path) - length(relpath), null),
  relpath = iif(relpath <> '' and substr(path, -length(relpath)) = relpath, '', relpath);
alter table logs drop column first_hex;
alter table logs drop column tail_hex;

create index idx_logs_path_end on logs(substr(path, -24)) where size is not null;
create index idx_logs_mtime on logs(mtime_ns) where size is not null;
create index idx_logs_turn on logs(turn_uid) where turn_uid is not null;

update logs set (device, inode, size, mtime_ns, ctime_ns, reason) = (
  select p.device, p.inode, p.size, p.mtime_ns, p.ctime_ns, p.reason from log_places p where p.path = logs.path
) where exists (
  select 1 from log_places p where p.path = logs.path and p.log_id = logs.id and p.agent = logs.agent
);
delete from log_places where exists (
  select 1 from logs l where l.id = log_places.log_id and l.path = log_places.path and l.size is not null
);

-- Names of branches are moved by what stores turns.
drop trigger if exists turn_follows;

-- What making a summary used, and how much of a session is told its next turn.
alter table compactions add column model text;
alter table compactions add column input_tokens integer;
alter table compactions add column output_tokens integer;
alter table compactions add column cache_read_tokens integer;
alter table compactions add column cache_write_tokens integer;
alter table compactions add column cost_usd real;
alter table compactions add column duration_ms integer;
alter table sessions add column context_chars integer;
alter table sessions add column context_limit integer;
alter table sessions add column imported integer;
alter table turns add column context_window integer;

-- When it was decided where a session goes on, and when a branch's name moved with a turn.
alter table sessions add column leaf_at integer;
alter table branches add column moved integer;

-- Turns of logs that we wrote for agents are found by their ids.
create index idx_turns_written on turns(native_id) where length(native_id) = 36 and substr(native_id, 15, 1) = '5';

-- The board: notes about a repository and a branch.
create table context_items(
  id          integer primary key,
  repository  text not null,             -- owner/name, else local: and a folder
  branch      text not null,             -- git branch, else default
  src         text not null,             -- agent | user
  name        text not null,             -- kebab-case
  description text not null default '',  -- one line
  content     text not null default '',  -- at most 4,000 characters; '' where it is removed
  author      text,                      -- the agent that wrote it; NULL = a person
  read_count  integer not null default 0,-- how often it was read
  created     integer not null,          -- ms; sessions that began since then are its count
  changed     integer not null,          -- when it was last written or removed, ms: of two copies the later one counts
  removed     integer not null default 0,-- 1: it was removed, and an older copy does not bring it back
  unique (repository, branch, src, name)
);
