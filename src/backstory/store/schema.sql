-- A backstory store: ground truth. docs/file-format.md explains it; derived.sql holds what can be rebuilt.
-- Times are integer milliseconds since 1970, UTC, NULL where the record has none; sessions.created and
-- compactions.created are ISO 8601. Every row goes with its session (foreign_keys=ON).

create table meta(
  key   text primary key,                -- schema_version, store_id, derived_version, next_number, erased, linked, here PATH, decided UID
  value text not null
) without rowid;

create table dictionaries(
  id     integer primary key,            -- the dictionary id inside every zstd frame made with it
  sha256 text not null unique,           -- of data
  data   blob not null                   -- the dictionary, so that the file alone is enough to read it
);

create table sessions(
  id               integer primary key autoincrement,
  uid              text not null unique  -- ULID: 10 characters of time, 16 of identity
                   default ('0' || substr(hex(randomblob(13)), 2)),
  owner            text,                 -- store_id of the store that runs it; NULL = the log it is read from
  number           integer,              -- 3 for S3; never given again
  name             text not null default '',    -- what a person called it; '' = 'S' and its number
  title            text,                 -- what its agent called it
  worktree         text not null default '',    -- path of the git worktree it belongs to
  project          text,                 -- normalised remote URL of its repository, else the root's path
  repository       text,                 -- owner/name, where the remote says so
  branch           text,                 -- git branch, the last one named
  cwd              text,                 -- the folder it began in
  root             text,                 -- root of the worktree that holds cwd, as this machine had it
  created          text not null         -- ISO 8601, UTC
                   default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  last_active      integer,              -- time of its newest event
  completed        integer,              -- 1 = its last turn succeeded, 0 = it did not, NULL = not ended
  duration_ms      integer,              -- sum over its turns
  cost_usd         real,                 -- sum over its turns, as far as known
  last_claude_uuid text not null default '',    -- native id of a run whose output is not yet stored, of any agent
  last_native_id   text generated always as (last_claude_uuid) virtual,
  native_id        text,                 -- the agent's own id of it, when read from a log
  parent_id        integer references sessions(id) on delete set null,
  parent_identity  text,                 -- the last 16 characters of its parent's uid, also when that is not here
  relation         text,                 -- subagent | fork | continuation | unread: no conversation
  leaf_uid         text,                 -- uid of the turn that the next prompt follows
  leaf_seq         integer,              -- the record it follows, where a person chose one; NULL = the turn's last
  leaf_at          integer,              -- when a checkout or a run decided that, ms; NULL = not known
  next_seq         integer not null default 1,  -- the number its next record gets
  elsewhere        text,                 -- path of the store from elsewhere that it was taken from; NULL = it was not
  context_chars    integer,              -- characters of its context since the summary in force; NULL = not known
  context_limit    integer,              -- from how many on it is summarised, when that was counted; NULL = not known
  imported         integer,              -- when a JSON export of it was imported, ms; NULL = it was not, or more came since
  unique (owner, number)
);
create unique index idx_sessions_identity on sessions(substr(uid, 11));
create index idx_sessions_parent on sessions(parent_id);
create index idx_sessions_parent_identity on sessions(parent_identity) where parent_identity is not null;
create index idx_sessions_active on sessions(last_active);
create index idx_sessions_repo on sessions(repository);
create index idx_sessions_cwd on sessions(cwd);
create index idx_sessions_native on sessions(native_id) where native_id is not null;

create table logs(
  id          integer primary key autoincrement,
  session_id  integer not null references sessions(id) on delete cascade,
  turn_uid    text,                      -- the turn whose stream it is; NULL for a whole session's log
  agent       text not null,             -- whose format it is in
  kind        text not null,             -- file | stream | stderr | api, or "copy " and one of these
  native_id   text not null,             -- the agent's id of the session
  path        text not null default '',  -- absolute path where it was last seen
  root_chars  integer,                   -- so many characters of path lead to the agent's own folder; NULL: see relpath
  relpath     text not null default '',  -- path below that folder, where it is not the rest of path
  modified    integer,                   -- mtime in ms of the file when last read
  first_hash  blob,                      -- sha256 of its first record (of 64 KB of it); NULL until that is whole
  tail_hash   blob,                      -- sha256 of the 4 KB before read_to
  read_to     integer not null default 0,-- bytes kept
  parsed_to   integer not null default 0,-- bytes behind the last whole record; what follows may still grow
  tail_seq    integer,                   -- number already given to the record behind parsed_to, if it looks whole
  generation  integer not null default 1,-- raised when the file was rewritten
  frames      integer not null default 0,-- small chunks waiting to be folded; -1 = packed as small as can be
  state       blob,                      -- the adapter's state at parsed_to (JSON, zstd); NULL: its bytes say it
  pending     blob,                      -- calls whose result had not come at parsed_to (JSON, zstd)
  derived     integer not null default 0,-- version of what was derived from it; see derived.sql
  gone        integer,                   -- when its file was first found to be gone, ms
  cwd         text,                      -- the folder that a run was in
  told_to     integer,                   -- what stands behind it is kept as bytes only; NULL: all is parsed
  device      integer,                   -- the file at path as stat returned it when it was last read, as in log_places;
  inode       integer,                   -- NULL where that was not noted
  size        integer,
  mtime_ns    integer,
  ctime_ns    integer,
  reason      text,
  path_hash   integer                    -- of path, to find it by; NULL: not known
);
create index idx_logs_session on logs(session_id);
create index idx_logs_turn on logs(turn_uid) where turn_uid is not null;
create unique index idx_logs_identity on logs(agent, native_id, generation) where kind = 'file';
create index idx_logs_mtime on logs(mtime_ns) where size is not null;

create table log_places(
  path     text primary key,             -- a file that was looked at and that is not where a log was last seen
  agent    text not null,
  log_id   integer references logs(id) on delete set null,   -- NULL: it gave nothing, for the reason beside it
  device   integer not null,
  inode    integer not null,
  size     integer not null,             -- as stat returned it when it was last read
  mtime_ns integer not null,
  reason   text,                         -- why it gave nothing: empty | forgotten; beside a log: why not all of it
  ctime_ns integer                       -- as stat returned it; NULL = not known
) without rowid;
create index idx_log_places_log on log_places(log_id);

create table numbers(
  log_id    integer not null references logs(id) on delete cascade,
  start     integer not null,            -- offset of the first record of a run of consecutive numbers
  stop      integer not null,            -- offset behind the last one; lines outside every run have no number
  first_seq integer not null,            -- number of the first record; each line that holds anything counts one on
  records   integer not null,
  primary key (log_id, start)
) without rowid;

create table chunks(
  id        integer primary key,
  log_id    integer not null references logs(id) on delete cascade,
  start     integer not null,            -- offset of its first byte in the log
  length    integer not null,            -- bytes of the log in it
  sha256    blob not null,               -- of those bytes
  data      blob not null,               -- those bytes, as one zstd frame
  unique (log_id, start)
);

create table sidecars(
  id       integer primary key,
  log_id   integer not null references logs(id) on delete cascade,
  name     text not null,                -- path relative to the log's folder: workspace.yaml, tool-results/x.txt
  size     integer not null,             -- bytes of the file when last read
  mtime_ns integer not null,
  sha256   blob not null,                -- of its bytes
  data     blob not null,                -- its bytes, as one zstd frame
  unique (log_id, name)
);

create table turns(
  id                 integer primary key autoincrement,
  session_id         integer not null references sessions(id) on delete cascade,
  uid                text not null,      -- the same in every copy of the turn
  parent_uid         text,               -- the turn it follows in this session; NULL at a root
  parent_seq         integer,            -- the record it follows; NULL at a root
  first_seq          integer not null,   -- number of its prompt
  last_seq           integer not null,
  agent              text not null,
  model              text,
  native_id          text,               -- the agent's own id of it
  prompt             text not null default '',  -- as typed
  started            integer,
  ended              integer,
  outcome            text,               -- completed | failed | cancelled | crashed; NULL = not known, or not ended
  stop_reason        text,               -- the model's word; lost: a crash left it without an ending
  api_latency_ms     integer,
  duration_ms        integer,            -- as reported, else from started to ended
  input_tokens       integer,            -- not from a cache
  output_tokens      integer,
  cache_read_tokens  integer,
  cache_write_tokens integer,
  cache_write_1h_tokens integer,         -- part of cache_write_tokens: held for an hour; NULL = not known of all
  largest_input_tokens integer,          -- of its largest request, caches included; NULL = not known of each
  reasoning_tokens   integer,            -- part of output_tokens
  tokens_source      text,               -- reported: as the agent counted them; partial: output is at least
                                         -- this; log: only its own log did; run: of several turns
  cost_usd           real,
  cost_source        text,               -- reported: as the agent said
  prefix_chars       integer,            -- length of the context sent before the prompt
  prefix_sha256      text,               -- and its hash
  removed            integer,            -- when a person removed its branch, ms; NULL = it is there
  context_window     integer,            -- what its model can take, in tokens, as the agent says; NULL = not known
  unique (session_id, uid)
);
create index idx_turns_uid on turns(uid);
create index idx_turns_native on turns(native_id);
create index idx_turns_written on turns(native_id) where length(native_id) = 36 and substr(native_id, 15, 1) = '5';
create index idx_turns_removed on turns(session_id) where removed is not null;
create index idx_turns_session on turns(session_id, first_seq);

create table branches(
  id         integer primary key,
  session_id integer not null references sessions(id) on delete cascade,
  name       text not null,              -- what a person called the branch
  leaf_uid   text not null,              -- uid of the turn at its tip; the name moves with what follows it
  leaf_seq   integer,                    -- the record at its tip, where that is not the turn's last
  created    integer not null,           -- ms
  moved      integer,                    -- when a turn took it on to where it is, ms; NULL = not since it was given
  unique (session_id, name)
);

create table events(
  id         integer primary key autoincrement,
  session_id integer not null references sessions(id) on delete cascade,
  seq        integer not null,           -- number of its record
  part       integer not null default 0, -- which event of the record
  turn_id    integer,                    -- turns.id in the same session; NULL before the first prompt
  at         integer,                    -- when
  kind       text not null,              -- UserMessage, AssistantText, ToolCall, ToolResult, Complete, ...
  data       text not null,              -- the compact form: JSON, zstd with a dictionary of this file (a blob)
  char_len   integer not null default 0, -- characters of the original event
  log_id     integer,                    -- logs.id where its record lies
  position   integer,                    -- offset of the record in the log
  length     integer,                    -- bytes of the record
  unique (session_id, seq, part)
);

create table compactions(
  id         integer primary key autoincrement,
  session_id integer not null references sessions(id) on delete cascade,
  after_seq  integer not null,           -- the last record that the summary covers
  summary    text not null,
  created    text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  agent      text,                       -- who wrote it
  undone     integer not null default 0, -- 1: no longer in force
  model      text,                       -- and with which model
  input_tokens       integer,            -- what it took, retries and steps together; NULL = not known
  output_tokens      integer,
  cache_read_tokens  integer,
  cache_write_tokens integer,
  cost_usd           real,               -- as the agent said
  duration_ms        integer
);
create index idx_compactions_session on compactions(session_id);

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

create table forgotten(
  uid text primary key,                  -- a session that a person removed: nothing brings it back unasked
  at  integer not null
) without rowid;

-- A session goes whole, also when a client deletes it without foreign_keys=ON.
create trigger session_gone after delete on sessions begin
  delete from events where session_id = old.id;
  delete from turns where session_id = old.id;
  delete from logs where session_id = old.id;
  delete from branches where session_id = old.id;
  delete from compactions where session_id = old.id;
  update sessions set parent_id = null where parent_id = old.id;
end;
create trigger log_gone after delete on logs begin
  delete from chunks where log_id = old.id;
  delete from numbers where log_id = old.id;
  delete from sidecars where log_id = old.id;
  update log_places set log_id = null where log_id = old.id;
end;
create trigger turn_gone after delete on turns begin
  delete from turn_texts where turn_id = old.id;
end;
