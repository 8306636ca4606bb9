-- A backstory store: ground truth. docs/file-format.md explains it; derived.sql holds what can be rebuilt.
-- Times are integer milliseconds since 1970, UTC, NULL where the record has none; sessions.created and
-- compactions.created are ISO 8601. Every row goes with its session (foreign_keys=ON).
-- The first word on a column says how copies of a session treat it: kept is in all of them, local in none (keys, this
-- machine's files, marks of trust), derived is worked out anew where it cannot be taken over, and of what people decided
-- the later decision counts. Text is plain (ids, times, hashes, words of ours) or masked where secrets are.

create table meta(
  key   text primary key,                -- local masked: schema_version, store_id, derived_version, next_number, erased, linked, here PATH, decided UID, repositories, project_names, list_prices
  value text not null                    -- local masked
) without rowid;

create table dictionaries(
  id     integer primary key,            -- local: the dictionary id inside every zstd frame made with it
  sha256 text not null unique,           -- kept masked: of data
  data   blob not null                   -- kept: the dictionary, so that the file alone is enough to read it
);

create table sessions(
  id               integer primary key autoincrement, -- local
  uid              text not null unique  -- kept plain: ULID: 10 characters of time, 16 of identity
                   default ('0' || substr(hex(randomblob(13)), 2)),
  owner            text,                 -- kept plain: store_id of the store that runs it; NULL = the log it is read from
  number           integer,              -- kept: 3 for S3; never given again
  name             text not null default '',    -- decided masked: what a person called it; '' = 'S' and its number
  title            text,                 -- kept masked: what its agent called it
  worktree         text not null default '',    -- kept masked: path of the git worktree it belongs to
  project          text,                 -- kept masked: normalised remote URL of its repository, else the root's path
  repository       text,                 -- kept masked: owner/name, where the remote says so
  branch           text,                 -- kept masked: git branch, the last one named
  cwd              text,                 -- kept masked: the folder it began in
  root             text,                 -- kept masked: root of the worktree that holds cwd, as this machine had it
  created          text not null         -- kept plain: ISO 8601, UTC
                   default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  last_active      integer,              -- kept: time of its newest event
  completed        integer,              -- kept: 1 = its last turn succeeded, 0 = it did not, NULL = not ended
  duration_ms      integer,              -- kept: sum over its turns
  cost_usd         real,                 -- kept: sum over its turns, as far as known
  last_claude_uuid text not null default '',    -- local masked: native id of a run whose output is not yet stored, of any agent
  last_native_id   text generated always as (last_claude_uuid) virtual, -- local plain
  native_id        text,                 -- kept plain: the agent's own id of it, when read from a log
  parent_id        integer references sessions(id) on delete set null, -- local
  parent_identity  text,                 -- kept plain: the last 16 characters of its parent's uid, also when that is not here
  relation         text,                 -- kept plain: subagent | fork | continuation | unread: no conversation
  leaf_uid         text,                 -- decided plain: uid of the turn that the next prompt follows
  leaf_seq         integer,              -- decided: the record it follows, where a person chose one; NULL = the turn's last
  leaf_at          integer,              -- decided: when a checkout or a run decided that, ms; NULL = not known
  next_seq         integer not null default 1,  -- kept: the number its next record gets
  elsewhere        text,                 -- local masked: path of the store from elsewhere that it was taken from; NULL = it was not
  context_chars    integer,              -- derived: characters of its context since the summary in force; NULL = not known
  context_limit    integer,              -- derived: from how many on it is summarised, when that was counted; NULL = not known
  imported         integer               -- local: when a JSON export of it was imported, ms; NULL = it was not, or more came since
);
create unique index idx_sessions_identity on sessions(substr(uid, 11));
create unique index idx_sessions_number on sessions(owner, number) where number is not null;
create index idx_sessions_parent on sessions(parent_id) where parent_id is not null;
create index idx_sessions_parent_identity on sessions(parent_identity) where parent_identity is not null;
create index idx_sessions_active on sessions(last_active);
create index idx_sessions_repo on sessions(repository) where repository is not null;
create index idx_sessions_cwd on sessions(cwd);
create index idx_sessions_native on sessions(native_id) where native_id is not null;

create table logs(
  id          integer primary key autoincrement, -- local
  session_id  integer not null references sessions(id) on delete cascade, -- local
  turn_uid    text,                      -- kept plain: the turn whose stream it is; NULL for a whole session's log
  agent       text not null,             -- kept plain: whose format it is in
  kind        text not null,             -- kept plain: file | stream | stderr | api, or "copy " and one of these
  native_id   text not null,             -- kept plain: the agent's id of the session
  path        text not null default '',  -- kept masked: absolute path where it was last seen
  root_chars  integer,                   -- kept: so many characters of path lead to the agent's own folder; NULL: see relpath
  relpath     text not null default '',  -- kept masked: path below that folder, where it is not the rest of path; of a folder: /
  modified    integer,                   -- kept: mtime in ms of the file when last read
  first_hash  blob,                      -- kept: sha256 of its first record (of 64 KB of it); NULL until that is whole
  tail_hash   blob,                      -- kept: sha256 of the 4 KB before read_to
  read_to     integer not null default 0, -- kept: bytes kept
  parsed_to   integer not null default 0, -- kept: bytes behind the last whole record; what follows may still grow
  tail_seq    integer,                   -- kept: number already given to the record behind parsed_to, if it looks whole
  generation  integer not null default 1, -- kept: raised when the file was rewritten
  frames      integer not null default 0, -- kept: small chunks waiting to be folded; -1 = packed as small as can be
  state       blob,                      -- derived: the adapter's state at parsed_to (JSON, zstd); NULL: its bytes say it
  pending     blob,                      -- derived: calls whose result had not come at parsed_to (JSON, zstd)
  derived     integer not null default 0, -- derived: version of what was derived from it; see derived.sql
  gone        integer,                   -- local: when its file was first found to be gone, ms
  cwd         text,                      -- kept masked: the folder that a run was in
  told_to     integer,                   -- kept: what stands behind it is kept as bytes only; NULL: all is parsed
  device      integer,                   -- local: the file at path as stat returned it when it was last read, as in log_places;
  inode       integer,                   -- local: NULL where that was not noted
  size        integer,                   -- local
  mtime_ns    integer,                   -- local
  ctime_ns    integer,                   -- local
  reason      text,                      -- local masked
  path_hash   integer                    -- local: of path, to find it by; NULL: not known
);
create index idx_logs_session on logs(session_id);
create index idx_logs_turn on logs(turn_uid) where turn_uid is not null;
create unique index idx_logs_identity on logs(agent, native_id, generation) where kind = 'file';
create index idx_logs_mtime on logs(mtime_ns) where size is not null;

create table log_places(
  path     text primary key,             -- local masked: a file that was looked at and that is not where a log was last seen
  agent    text not null,                -- local masked
  log_id   integer references logs(id) on delete set null,   -- local: NULL: it gave nothing, for the reason beside it
  device   integer not null,             -- local
  inode    integer not null,             -- local
  size     integer not null,             -- local: as stat returned it when it was last read
  mtime_ns integer not null,             -- local
  reason   text,                         -- local masked: why it gave nothing: empty | forgotten; beside a log: why not all of it
  ctime_ns integer                       -- local: as stat returned it; NULL = not known
) without rowid;
create index idx_log_places_log on log_places(log_id);

create table numbers(
  log_id    integer not null references logs(id) on delete cascade, -- local
  start     integer not null,            -- kept: offset of the first record of a run of consecutive numbers
  stop      integer not null,            -- kept: offset behind the last one; lines outside every run have no number
  first_seq integer not null,            -- kept: number of the first record; each line that holds anything counts one on
  records   integer not null,            -- kept
  primary key (log_id, start)
) without rowid;

create table chunks(
  id        integer primary key,         -- local
  log_id    integer not null references logs(id) on delete cascade, -- local
  start     integer not null,            -- kept: offset of its first byte in the log
  length    integer not null,            -- kept: bytes of the log in it
  sha256    blob not null,               -- kept: of those bytes
  data      blob not null,               -- kept: those bytes, as one zstd frame; where there is a lender, what to copy from it
  lender    integer,                     -- local: logs.id of the log that parts of them are copied from; NULL: data has all
  unique (log_id, start)
);
create index idx_chunks_lender on chunks(lender) where lender is not null;

create table lent(
  log_id    integer not null,            -- local: a log that is gone, and that chunks still have as their lender
  start     integer not null,            -- local: as in chunks
  length    integer not null,            -- local
  sha256    blob not null,               -- local
  data      blob not null,               -- local
  primary key (log_id, start)
) without rowid;

create table sidecars(
  id       integer primary key,          -- local
  log_id   integer not null references logs(id) on delete cascade, -- local
  name     text not null,                -- kept masked: path relative to the log's folder: workspace.yaml, tool-results/x.txt
  size     integer not null,             -- kept: bytes of the file when last read
  mtime_ns integer not null,             -- kept
  sha256   blob not null,                -- kept: of its bytes
  data     blob not null,                -- kept: its bytes, as one zstd frame
  unique (log_id, name)
);

create table pruned(
  session_id integer not null references sessions(id) on delete cascade, -- local: a session that was pruned in part
  log_id     integer not null,           -- local: a log of it; 0: the session as a whole
  name       text not null,              -- kept masked: a file beside the log; '' = the log itself
  start      integer not null,           -- kept: offset of bytes that were overwritten; -1: how far the log was pruned
  length     integer not null,           -- kept: of them; of the session: the number that its next record got then
  sha256     blob,                       -- kept: of the bytes that were there
  what       text,                       -- kept plain: of the session: prompts | summaries: all but these; tool-outputs, images: these
  at         integer,                    -- kept: when, ms
  primary key (session_id, log_id, name, start)
) without rowid;
create index idx_pruned_log on pruned(log_id);

create table turns(
  id                 integer primary key autoincrement, -- local
  session_id         integer not null references sessions(id) on delete cascade, -- local
  uid                text not null,      -- kept plain: the same in every copy of the turn
  parent_uid         text,               -- kept plain: the turn it follows in this session; NULL at a root
  parent_seq         integer,            -- kept: the record it follows; NULL at a root
  first_seq          integer not null,   -- kept: number of its prompt
  last_seq           integer not null,   -- kept
  agent              text not null,      -- kept plain
  model              text,               -- kept masked
  native_id          text,               -- kept plain: the agent's own id of it
  prompt             text not null default '',  -- kept masked: as typed
  started            integer,            -- kept
  ended              integer,            -- kept
  outcome            text,               -- kept plain: completed | failed | cancelled | crashed; NULL = not known, or not ended
  stop_reason        text,               -- kept masked: the model's word; lost: a crash left it without an ending
  api_latency_ms     integer,            -- kept
  duration_ms        integer,            -- kept: as reported, else from started to ended
  input_tokens       integer,            -- kept: not from a cache
  output_tokens      integer,            -- kept
  cache_read_tokens  integer,            -- kept
  cache_write_tokens integer,            -- kept
  cache_write_1h_tokens integer,         -- kept: part of cache_write_tokens: held for an hour; NULL = not known of all
  largest_input_tokens integer,          -- kept: of its largest request, caches included; NULL = not known of each
  reasoning_tokens   integer,            -- kept: part of output_tokens
  tokens_source      text,               -- kept plain: reported: as the agent counted them; partial: output is at least
                                         -- this; log: only its own log did; run: of several turns
  cost_usd           real,               -- kept
  cost_source        text,               -- kept plain: reported: as the agent said
  prefix_chars       integer,            -- kept: length of the context sent before the prompt
  prefix_sha256      text,               -- kept plain: and its hash
  removed            integer,            -- decided: when a person removed its branch, ms; NULL = it is there
  context_window     integer             -- kept: what its model can take, in tokens, as the agent says; NULL = not known
);
create unique index idx_turns_uid on turns(uid, session_id);
create index idx_turns_native on turns(native_id);
create index idx_turns_written on turns(native_id) where length(native_id) = 36 and substr(native_id, 15, 1) = '5';
create index idx_turns_removed on turns(session_id) where removed is not null;
create index idx_turns_session on turns(session_id, first_seq);

create table branches(
  id         integer primary key,        -- local
  session_id integer not null references sessions(id) on delete cascade, -- local
  name       text not null,              -- decided masked: what a person called the branch
  leaf_uid   text not null,              -- decided plain: uid of the turn at its tip; the name moves with what follows it
  leaf_seq   integer,                    -- decided: the record at its tip, where that is not the turn's last
  created    integer not null,           -- decided: ms
  moved      integer,                    -- decided: when a turn took it on to where it is, ms; NULL = not since it was given
  unique (session_id, name)
);

create table events(
  id         integer primary key autoincrement, -- local
  session_id integer not null references sessions(id) on delete cascade, -- local
  seq        integer not null,           -- kept: number of its record
  part       integer not null default 0, -- kept: which event of the record
  turn_id    integer,                    -- local: turns.id in the same session; NULL before the first prompt
  at         integer,                    -- kept: when
  kind       text not null,              -- kept plain: UserMessage, AssistantText, ToolCall, ToolResult, Complete, ...
  data       text not null,              -- kept plain: the compact form: JSON, zstd with a dictionary of this file (a blob)
  char_len   integer not null default 0, -- kept: characters of the original event
  log_id     integer,                    -- local: logs.id where its record lies
  position   integer,                    -- kept: offset of the record in the log
  length     integer,                    -- kept: bytes of the record
  unique (session_id, seq, part)
);

create table compactions(
  id         integer primary key autoincrement, -- local
  session_id integer not null references sessions(id) on delete cascade, -- local
  after_seq  integer not null,           -- kept: the last record that the summary covers
  summary    text not null,              -- kept masked
  created    text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), -- kept plain
  agent      text,                       -- kept plain: who wrote it
  undone     integer not null default 0, -- decided: 1: no longer in force
  model      text,                       -- kept masked: and with which model
  input_tokens       integer,            -- kept: what it took, retries and steps together; NULL = not known
  output_tokens      integer,            -- kept
  cache_read_tokens  integer,            -- kept
  cache_write_tokens integer,            -- kept
  cost_usd           real,               -- kept: as the agent said
  duration_ms        integer             -- kept
);
create index idx_compactions_session on compactions(session_id);

create table context_items(
  id          integer primary key,       -- local
  repository  text not null,             -- decided masked: owner/name, else local: and a folder
  branch      text not null,             -- decided masked: git branch, else default
  src         text not null,             -- decided plain: agent | user
  name        text not null,             -- decided masked: kebab-case
  description text not null default '',  -- decided masked: one line
  content     text not null default '',  -- decided masked: at most 4,000 characters; '' where it is removed
  author      text,                      -- decided masked: the agent that wrote it; NULL = a person
  read_count  integer not null default 0, -- decided: how often it was read
  created     integer not null,          -- decided: ms; sessions that began since then are its count
  changed     integer not null,          -- decided: when it was last written or removed, ms: of two copies the later one counts
  removed     integer not null default 0, -- decided: 1: it was removed, and an older copy does not bring it back
  unique (repository, branch, src, name)
);

create table forgotten(
  uid text primary key,                  -- decided masked: a session that a person removed: nothing brings it back unasked
  at  integer not null                   -- decided
) without rowid;

-- A session goes whole, also when a client deletes it without foreign_keys=ON.
create trigger session_gone after delete on sessions begin
  delete from events where session_id = old.id;
  delete from turns where session_id = old.id;
  delete from logs where session_id = old.id;
  delete from branches where session_id = old.id;
  delete from compactions where session_id = old.id;
  delete from pruned where session_id = old.id;
  update sessions set parent_id = null where parent_id = old.id;
end;
create trigger log_lent before delete on logs when exists (select 1 from chunks where lender = old.id) begin
  insert or ignore into lent(log_id, start, length, sha256, data)
    select log_id, start, length, sha256, data from chunks where log_id = old.id and lender is null;
end;
create trigger log_gone after delete on logs begin
  delete from chunks where log_id = old.id;
  delete from numbers where log_id = old.id;
  delete from sidecars where log_id = old.id;
  delete from pruned where log_id = old.id;
  update log_places set log_id = null where log_id = old.id;
end;
create trigger turn_gone after delete on turns begin
  delete from turn_texts where turn_id = old.id;
end;
