-- What can be rebuilt from ground truth (see reindex). Text whose comment begins with plain is given to others as it is;
-- any other is masked where secrets are. No trigger touches the index: a SQLite without contentless-delete FTS5 must still
-- be able to delete a session. Rows of the index without an event are skipped.

create table if not exists turn_texts(
  turn_id integer primary key references turns(id) on delete cascade,
  answer  text not null                  -- the last thing the model said in the turn
);

create table if not exists written_turns(
  turn_id integer not null references turns(id) on delete cascade,
  key     integer not null,              -- of the id that the turn has in logs we write for agents
  primary key (turn_id, key)
) without rowid;
create index if not exists idx_written_turns_key on written_turns(key);

create table if not exists call_results(
  call_id   integer primary key,         -- events.id of a tool call
  result_id integer not null,            -- events.id of its result
  is_error  integer not null,            -- 1 = it failed
  exit_code integer                      -- of a command, where the result has it
);

create table if not exists session_files(
  id            integer primary key,
  session_id    integer not null references sessions(id) on delete cascade,
  file_path     text not null,           -- absolute, where that is known
  tool_name     text not null,           -- of the first touch, the agent's word
  action        text not null,           -- plain: of all touches the one that says most: create, rename, delete, edit, read
  turn_id       integer,                 -- turns.id of the first touch
  first_seq     integer not null,        -- record of the first touch
  first_seen_at integer                  -- its time
);
create unique index if not exists idx_session_files_path on session_files(file_path, session_id);
create index if not exists idx_session_files_session on session_files(session_id);

create table if not exists file_touches(
  file_id integer not null references session_files(id) on delete cascade,
  seq     integer not null,              -- record of the call, with its part: see events
  part    integer not null,
  action  text not null,                 -- plain: read | edit | create | delete | rename
  to_path text,                          -- where a rename led
  primary key (file_id, seq, part)
) without rowid;
create index if not exists idx_file_touches_to on file_touches(to_path) where to_path is not null;

create table if not exists session_refs(
  id         integer primary key,
  session_id integer not null references sessions(id) on delete cascade,
  ref_type   text not null,              -- plain: pr | issue | commit
  ref_value  text not null,              -- 12, a hash; owner/repo#12 where it is not the session's repository
  host       text,                       -- github.com
  repository text,                       -- owner/repo
  turn_id    integer,                    -- turns.id of the first mention
  seq        integer not null,           -- record of the first mention
  created_at integer,                    -- its time
  unique (session_id, ref_type, ref_value)
);
create index if not exists idx_session_refs_type_value on session_refs(ref_type, ref_value);

create table if not exists session_branches(
  session_id integer not null references sessions(id) on delete cascade,
  branch     text not null,              -- a git branch that the session was on; sessions.branch is the last
  primary key (session_id, branch)
) without rowid;
create index if not exists idx_session_branches_branch on session_branches(branch);

create table if not exists session_values(
  session_id integer not null references sessions(id) on delete cascade,
  key        text not null,              -- plain: host_type; context: and a key that its user gave a value
  value      text not null,              -- as its log or a file beside it says
  primary key (session_id, key)
) without rowid;

create table if not exists checkpoints(
  id                integer primary key,
  session_id        integer not null references sessions(id) on delete cascade,
  checkpoint_number integer not null,    -- 1, 2, ... in the session
  seq               integer,             -- record of the compaction; NULL: known from a file beside the log
  title             text,
  overview          text,                -- all of a summary that has no sections
  history           text,
  work_done         text,
  technical_details text,
  important_files   text,
  next_steps        text,
  created_at        integer,
  unique (session_id, checkpoint_number)
);

create table if not exists side_texts(
  sidecar_id integer primary key references sidecars(id) on delete cascade,   -- a file beside a log whose text is found
  session_id integer not null references sessions(id) on delete cascade,      -- the session that it is found under
  event_id   integer                     -- events.id of the result that it is the whole of; NULL: it is found as a file
);
create index if not exists idx_side_texts_session on side_texts(session_id);

create table if not exists record_ids(
  id     integer primary key,
  log_id integer not null references logs(id) on delete cascade,
  ids    blob not null                   -- of its records, in order: 8 bytes of the agent's own id of each
);
create index if not exists idx_record_ids_log on record_ids(log_id);

create table if not exists summaries(
  id         integer primary key,
  log_id     integer not null references logs(id) on delete cascade,   -- where it stands
  leaf       blob not null,              -- 8 bytes of the id of the record that the conversation ended with
  title      text not null,              -- what the conversation was called
  is_settled integer not null default 0  -- 0: whose title it is is to be found out
);
create index if not exists idx_summaries_leaf on summaries(leaf);
create index if not exists idx_summaries_log on summaries(log_id);
create index if not exists idx_summaries_unsettled on summaries(leaf) where is_settled = 0;

create table if not exists summary_leaves(
  leaf  blob not null,                   -- summaries.leaf
  piece integer not null references record_ids(id) on delete cascade,
  place integer not null,                -- which record of the piece
  primary key (leaf, piece)
) without rowid;
create index if not exists idx_summary_leaves_piece on summary_leaves(piece);

create table if not exists lent_titles(
  session_id integer primary key references sessions(id) on delete cascade,   -- its title is a summary's
  summary_id integer references summaries(id) on delete set null   -- NULL: it is there no more
);
create index if not exists idx_lent_titles_summary on lent_titles(summary_id);

create table if not exists list_keys(
  session_id integer primary key references sessions(id) on delete cascade,
  most_usd   real,                       -- what its own turns cost at most, by the prices that meta names; NULL: nobody knows
  heading    text                        -- its title as a filter compares it; NULL: the row is to be worked out anew
);
create index if not exists idx_list_keys_open on list_keys(session_id) where heading is null;

-- A summary of compactions is a row, too: below those of events, with rowid = -compactions.id and source_type 'summary'.
-- Below these are the rows of side_texts that are files, and of the sections of checkpoints: see docs/file-format.md.
-- The column came with version 11. What changes a path and knows no hash leaves none that is wrong.
create index if not exists idx_logs_path_hash on logs(path_hash) where size is not null;
-- It came with version 15. A home store mostly has none, which a list would look for in all of its sessions.
create index if not exists idx_sessions_owned on sessions(owner) where owner is not null;
create trigger if not exists path_changed after update of path on logs
when new.path is not old.path and new.path_hash is old.path_hash begin
  update logs set path_hash = null where id = new.id;
end;

create virtual table if not exists search_index using fts5(
  content,                               -- the searchable text of one event; rowid = events.id
  session_id unindexed,                  -- sessions.id
  source_type unindexed,                 -- NULL: an event; summary | workspace_artifact | checkpoint_history ...
  source_id unindexed,                   -- the record's number in the session
  scope unindexed,                       -- prompt | command | answer | thinking | tool_input | tool_output | system | file
  content='', contentless_delete=1, contentless_unindexed=1,
  tokenize="unicode61 remove_diacritics 2"
);

-- Rows about events that go, also when a client deletes them without foreign_keys=ON.
create trigger if not exists session_gone_derived after delete on sessions begin
  delete from session_files where session_id = old.id;
  delete from session_refs where session_id = old.id;
  delete from checkpoints where session_id = old.id;
end;
-- By itself: a store of before keeps the trigger above as it was.
create trigger if not exists session_gone_said_beside after delete on sessions begin
  delete from side_texts where session_id = old.id;
  delete from session_values where session_id = old.id;
end;
create trigger if not exists sidecar_gone after delete on sidecars begin
  delete from side_texts where sidecar_id = old.id;
end;
create trigger if not exists turn_gone_written after delete on turns begin
  delete from written_turns where turn_id = old.id;
end;
create trigger if not exists session_gone_branches after delete on sessions begin
  delete from session_branches where session_id = old.id;
end;
create trigger if not exists session_gone_lent after delete on sessions begin
  delete from lent_titles where session_id = old.id;
end;
create trigger if not exists log_gone_summaries after delete on logs begin
  delete from record_ids where log_id = old.id;
  delete from summaries where log_id = old.id;
end;
create trigger if not exists record_ids_gone after delete on record_ids begin
  delete from summary_leaves where piece = old.id;
end;
create trigger if not exists summary_leaf_gone after delete on summary_leaves begin
  update summaries set is_settled = 0 where leaf = old.leaf;
end;
create trigger if not exists summary_gone after delete on summaries begin
  update lent_titles set summary_id = null where summary_id = old.id;
end;
create trigger if not exists session_file_gone after delete on session_files begin
  delete from file_touches where file_id = old.id;
end;
create trigger if not exists event_gone_derived after delete on events when old.kind = 'ToolCall' begin
  delete from call_results where call_id = old.id;
end;

-- What a list is sorted and filtered by is worked out anew once anything changes that it comes from, whoever changes it.
create trigger if not exists list_key after insert on sessions begin
  insert or ignore into list_keys(session_id) values (new.id);
end;
create trigger if not exists list_key_gone after delete on sessions begin
  delete from list_keys where session_id = old.id;
end;
create trigger if not exists list_key_session after update of name, title, cost_usd on sessions
when new.name is not old.name or new.title is not old.title or new.cost_usd is not old.cost_usd begin
  update list_keys set heading = null where session_id = new.id and heading is not null;
end;
create trigger if not exists list_key_turn after insert on turns begin
  update list_keys set heading = null where session_id = new.session_id and heading is not null;
end;
create trigger if not exists list_key_turn_gone after delete on turns begin
  update list_keys set heading = null where session_id = old.session_id and heading is not null;
end;
create trigger if not exists list_key_turn_changed after update of session_id, first_seq, prompt, agent, model, started,
  input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, largest_input_tokens,
  cost_usd on turns begin
  update list_keys set heading = null where session_id in (old.session_id, new.session_id) and heading is not null;
end;

-- How full a context is, is known no more once anything changes that it is counted from; then it is counted anew.
create trigger if not exists context_turn after insert on turns begin
  update sessions set context_chars = null where id = new.session_id and context_chars is not null;
end;
create trigger if not exists context_turn_gone after delete on turns begin
  update sessions set context_chars = null where id = old.session_id and context_chars is not null;
end;
create trigger if not exists context_turn_changed after update of first_seq, last_seq, parent_uid, parent_seq, removed on turns
when new.first_seq is not old.first_seq or new.last_seq is not old.last_seq or new.parent_uid is not old.parent_uid
  or new.parent_seq is not old.parent_seq or new.removed is not old.removed begin
  update sessions set context_chars = null where id = new.session_id and context_chars is not null;
end;
create trigger if not exists context_leaf after update of leaf_uid, leaf_seq on sessions
when new.leaf_uid is not old.leaf_uid or new.leaf_seq is not old.leaf_seq begin
  update sessions set context_chars = null where id = new.id;
end;
create trigger if not exists context_summary after insert on compactions begin
  update sessions set context_chars = null where id = new.session_id and context_chars is not null;
end;
create trigger if not exists context_summary_changed after update of after_seq, summary, undone on compactions begin
  update sessions set context_chars = null where id = new.session_id and context_chars is not null;
end;
create trigger if not exists context_summary_gone after delete on compactions begin
  update sessions set context_chars = null where id = old.session_id and context_chars is not null;
end;
