-- What `backstory sql` shows: views of its own connection, beside the tables, which are main.NAME.
-- The comments behind the names are what `backstory sql --schema` prints. Times are ISO 8601, UTC, with milliseconds
-- and Z, except in messages. claimed(id) are the sessions that claims.CLAIMED describes: their runs are shown instead.
-- How long something took while the clock was set back is not known: it is NULL, not less than 0.

-- sessions: One row per session, subagents' too. An agent's own log of runs that are here themselves is not shown.
create temp view sessions(
  id,                 -- number of the session in this store; what session_id means in every other view
  uid,                -- ULID, the same on every machine
  name,               -- what a person called it, else S and its number, else ''
  agent,              -- the agents at work in it, as in 'first, second'
  project,            -- normalised remote URL of its repository, else a folder
  cwd,                -- the folder it began in
  repository,         -- owner/name, where the remote says so
  branch,             -- git branch, the last one named
  summary,            -- its name, else its agent's title for it, else the beginning of its first prompt
  created_at,         -- when it began
  updated_at,         -- time of its newest event
  number,             -- 3 for S3; NULL when its log owns it
  title,              -- what its agent called it
  parent_id,          -- sessions.id of the session it comes from
  parent,             -- and its uid
  relation,           -- how it comes from there: subagent, fork, continuation; unread: nobody understands it; retold: another program's record
  turns,              -- how many turns, copies too
  events,             -- how many events
  duration_ms,        -- sum over its turns
  cost_usd,           -- sum of what its agent reported for its turns, copies too; for what they cost see usage
  completed,          -- 1 = its last turn succeeded, 0 = it did not, NULL = not ended, or not known
  host_type,          -- github or ado, as its agent says, else as the remote's address shows; NULL = not known
  native_id,          -- the agent's own id of it, where it was read from a log
  worktree,           -- path of the git worktree it belongs to
  root,               -- root of the worktree that holds cwd
  gone_at,            -- when reindex first found its agent's logs gone; NULL = they are there, or were not looked for
  leaf_uid,           -- turns.uid of the turn that the next prompt follows
  leaf_seq            -- the record of it, where a person chose one: @N; NULL = its last
) as
select s.id, s.uid,
  case when s.name <> '' then s.name when s.number is not null then 'S' || s.number else '' end,
  (select group_concat(agent, ', ') from (select agent from main.turns where session_id = s.id and agent <> 'api'
    union select agent from main.logs where session_id = s.id and kind <> 'api' and agent <> 'api' order by 1)),
  here(s.project, s.created), here(s.cwd, s.created), s.repository, s.branch,
  coalesce(nullif(s.name, ''), s.title,
    (select substr(prompt, 1, 200) from main.turns t where session_id = s.id order by s.relation is 'subagent'
      and exists (select 1 from main.turns where uid = t.uid and session_id = s.parent_id), first_seq, id limit 1)),
  strftime('%Y-%m-%dT%H:%M:%fZ', s.created),
  coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', s.last_active / 1000.0, 'unixepoch'),
    strftime('%Y-%m-%dT%H:%M:%fZ', s.created)),
  s.number, s.title,
  coalesce((select shown from temp.claimed where id = s.parent_id), s.parent_id),
  (select uid from main.sessions
    where id = coalesce((select shown from temp.claimed where id = s.parent_id), s.parent_id)),
  s.relation,
  (select count(*) from main.turns where session_id = s.id),
  (select count(*) from main.events where session_id = s.id),
  s.duration_ms, s.cost_usd, s.completed,
  coalesce((select value from main.session_values where session_id = s.id and key = 'host_type'),
    case when s.project like 'github.com/%' then 'github'
    when s.project like '%dev.azure.com/%' or s.project like '%visualstudio.com/%' then 'ado' end),
  s.native_id, here(nullif(s.worktree, ''), s.created), here(s.root, s.created),
  (select strftime('%Y-%m-%dT%H:%M:%fZ', max(gone) / 1000.0, 'unixepoch') from main.logs
    where session_id = s.id and kind = 'file' having count(*) = count(gone)),
  s.leaf_uid, s.leaf_seq
from main.sessions s
where s.id not in (select id from temp.claimed);

-- turns: One row per prompt with all that followed. A turn that was copied by a resume, fork or continuation has one in each session.
create temp view turns(
  id,                 -- number of the turn in this store
  session_id,         -- sessions.id
  turn_index,         -- 0, 1, ... in the session, in the order of the prompts, all branches
  agent,              -- who answered
  model,              -- with which model
  user_message,       -- the prompt as typed
  assistant_response, -- the last thing the model said
  timestamp,          -- when the prompt was given
  ended_at,           -- when the turn's last event happened
  uid,                -- the same in every copy of the turn
  is_copy,            -- 1: an earlier session, or the one its log was written of, holds the same turn; leave these out of sums
  parent_uid,         -- uid of the turn it follows
  parent_seq,         -- the record it follows
  first_seq,          -- number of its prompt: @N
  last_seq,           -- number of its last record
  native_id,          -- the agent's own id of it
  outcome,            -- completed, failed, cancelled, crashed; NULL = not known, or not ended
  stop_reason,        -- the model's word
  api_latency_ms,     -- how long the model took
  duration_ms,        -- as reported, else from its first to its last event
  input_tokens,       -- not from a cache
  output_tokens,      -- reasoning included
  cache_read_tokens,  -- read from a cache
  cache_write_tokens, -- written to a cache
  cache_write_1h_tokens, -- part of cache_write_tokens: held for an hour; NULL = the agent does not say
  largest_input_tokens, -- input of the largest request, caches included; NULL = the agent does not say
  reasoning_tokens,   -- part of output_tokens
  tokens_source,      -- reported: by the agent; partial: a count is missing, so they are at least these; log: known only from its own log; run: of several turns
  cost_usd,           -- as its agent said, else computed from tokens and prices; NULL where it is unknown, or only at least known
  cost_source,        -- reported: as the agent said; NULL where it said nothing
  prefix_chars,       -- length of the context that was sent before the prompt
  prefix_sha256,      -- and its hash
  rewound,            -- 1: left behind by a rewind or another branch: not on the current branch
  removed,            -- when a person removed its branch; NULL = it is there
  context_window,     -- what its model can take, in tokens; NULL = the agent does not say
  cost_kind,          -- as in usage
  low_usd,            -- what it cost at least; cost_usd where that is known
  high_usd            -- as in usage
) as
select t.id, t.session_id,
  (select count(*) from main.turns b where b.session_id = t.session_id and (b.first_seq, b.id) < (t.first_seq, t.id)),
  t.agent, t.model, t.prompt, (select answer from main.turn_texts where turn_id = t.id),
  strftime('%Y-%m-%dT%H:%M:%fZ', t.started / 1000.0, 'unixepoch'),
  strftime('%Y-%m-%dT%H:%M:%fZ', t.ended / 1000.0, 'unixepoch'),
  t.uid,
  exists (select 1 from main.turns o join main.sessions os on os.id = o.session_id
    where o.uid = t.uid and o.id <> t.id
    -- One of a log that we wrote for an agent is a copy of all others; see docs/file-format.md.
    and (os.relation is 'retold', iif(length(o.native_id) = 36 and substr(o.native_id, 15, 1) = '5', 1, 0), os.uid)
      < ((select relation is 'retold' from main.sessions where id = t.session_id), iif(length(t.native_id) = 36 and substr(t.native_id, 15, 1) = '5', 1, 0), (select uid from main.sessions where id = t.session_id))
    and os.id not in (select id from temp.claimed)),
  t.parent_uid, t.parent_seq, t.first_seq, t.last_seq, t.native_id, t.outcome, t.stop_reason, t.api_latency_ms,
  t.duration_ms, t.input_tokens, t.output_tokens, t.cache_read_tokens, t.cache_write_tokens, t.cache_write_1h_tokens,
  t.largest_input_tokens, t.reasoning_tokens, t.tokens_source, turn_cost(t.session_id, t.id, 'usd'), t.cost_source,
  t.prefix_chars, t.prefix_sha256, is_rewound(t.session_id, t.uid),
  strftime('%Y-%m-%dT%H:%M:%fZ', t.removed / 1000.0, 'unixepoch'), t.context_window,
  turn_cost(t.session_id, t.id, 'kind'),
  turn_cost(t.session_id, t.id, 'low_usd'), turn_cost(t.session_id, t.id, 'high_usd')
from main.turns t
where t.session_id not in (select id from temp.claimed);

-- branches: One row per branch that was not removed, and one per name of a record that is no tip.
create temp view branches(
  session_id,         -- sessions.id
  leaf,               -- number of the branch, as `backstory tree branches` has it; NULL where only a name is
  name,               -- what a person called it, as in 'first, second'; NULL = nothing
  seq,                -- the record at its tip: @N
  turn_uid,           -- turns.uid of the turn at its tip
  prompt,             -- of that turn
  depth,              -- how many turns are above that
  agent,              -- who answered there
  is_current,         -- 1: the next prompt follows it
  last_active         -- when its last event happened
) as
select t.session_id, branch_number(t.session_id, t.uid),
  (select group_concat(name, ', ') from (select name from main.branches where session_id = t.session_id
    and leaf_uid = t.uid and coalesce(leaf_seq, t.last_seq) >= t.last_seq order by created, id)),
  t.last_seq, t.uid, t.prompt, turn_depth(t.session_id, t.uid), t.agent, is_current(t.session_id, t.uid, t.last_seq),
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(t.ended, t.started) / 1000.0, 'unixepoch')
from main.turns t
where t.removed is null and branch_number(t.session_id, t.uid) is not null
  and t.session_id not in (select id from temp.claimed)
union all
select t.session_id, null, b.name, coalesce(b.leaf_seq, t.last_seq), t.uid, t.prompt, turn_depth(t.session_id, t.uid),
  t.agent, is_current(t.session_id, t.uid, coalesce(b.leaf_seq, t.last_seq)),
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(t.ended, t.started) / 1000.0, 'unixepoch')
from main.branches b join main.turns t on t.session_id = b.session_id and t.uid = b.leaf_uid
where t.removed is null and t.session_id not in (select id from temp.claimed)
  and (coalesce(b.leaf_seq, t.last_seq) < t.last_seq or branch_number(t.session_id, t.uid) is null);

-- session_files: One row per session and file that was read or written in it.
create temp view session_files(
  id,                 -- number of the row
  session_id,         -- sessions.id
  file_path,          -- absolute, where that is known
  action,             -- of all touches the one that says most: create, rename, delete, edit, read
  tool_name,          -- of the first touch, the agent's word
  turn_index,         -- turn of the first touch
  first_seen_at,      -- its time
  relative_path,      -- the path below the session's root; NULL outside it
  first_seq,          -- record of the first touch: @N
  touches             -- how often it was touched
) as
select f.id, f.session_id, f.file_path, f.action, f.tool_name,
  (select (select count(*) from main.turns b
    where b.session_id = t.session_id and (b.first_seq, b.id) < (t.first_seq, t.id))
    from main.turns t where t.id = f.turn_id),
  strftime('%Y-%m-%dT%H:%M:%fZ', f.first_seen_at / 1000.0, 'unixepoch'),
  (select substr(f.file_path, length(coalesce(s.root, s.cwd)) + 2) from main.sessions s where s.id = f.session_id
    and substr(f.file_path, 1, length(coalesce(s.root, s.cwd)) + 1) = coalesce(s.root, s.cwd) || '/'),
  f.first_seq,
  (select count(*) from main.file_touches where file_id = f.id)
from main.session_files f
where f.session_id not in (select id from temp.claimed);

-- session_refs: One row per session and pull request, issue or commit that was named in it.
create temp view session_refs(
  id,                 -- number of the row
  session_id,         -- sessions.id
  ref_type,           -- pr, issue or commit
  ref_value,          -- 12, or a hash; owner/repo#12 where it is not the session's repository
  repository,         -- owner/repo
  host,               -- github.com
  turn_index,         -- turn of the first mention
  seq,                -- record of the first mention: @N
  created_at          -- its time
) as
select r.id, r.session_id, r.ref_type, r.ref_value, r.repository, r.host,
  (select (select count(*) from main.turns b
    where b.session_id = t.session_id and (b.first_seq, b.id) < (t.first_seq, t.id))
    from main.turns t where t.id = r.turn_id),
  r.seq, strftime('%Y-%m-%dT%H:%M:%fZ', r.created_at / 1000.0, 'unixepoch')
from main.session_refs r
where r.session_id not in (select id from temp.claimed);

-- compactions: One row per summary that stands for the beginning of a session in contexts; what it covers is kept.
create temp view compactions(
  id,                 -- number of the row; search_index.rowid is -id
  session_id,         -- sessions.id
  after_seq,          -- the last record that it covers: @N
  summary,            -- its text
  created,            -- when it was made
  agent,              -- who wrote it
  model,              -- and with which model
  input_tokens,       -- what making it took; none of this is part of a turn
  output_tokens,      -- likewise
  cache_read_tokens,  -- likewise
  cache_write_tokens, -- likewise
  cost_usd,           -- likewise, as the agent said
  duration_ms,        -- likewise
  undone              -- 1 = it was taken back
) as
select c.id, c.session_id, c.after_seq, c.summary, c.created, c.agent, c.model, c.input_tokens, c.output_tokens,
  c.cache_read_tokens, c.cache_write_tokens, c.cost_usd, c.duration_ms, c.undone
from main.compactions c
where c.session_id not in (select id from temp.claimed);

-- checkpoints: One row per summary that an agent put in the place of its own history.
create temp view checkpoints(
  id,                 -- number of the row
  session_id,         -- sessions.id
  checkpoint_number,  -- 1, 2, ... in the session
  title,              -- what the agent called it
  overview,           -- all of a summary that has no sections
  history,            -- its section of that name
  work_done,          -- its section of that name
  technical_details,  -- its section of that name
  important_files,    -- its section of that name
  next_steps,         -- its section of that name
  created_at,         -- when it was made
  seq                 -- record of it: @N
) as
select c.id, c.session_id, c.checkpoint_number, c.title, c.overview, c.history, c.work_done, c.technical_details,
  c.important_files, c.next_steps, strftime('%Y-%m-%dT%H:%M:%fZ', c.created_at / 1000.0, 'unixepoch'), c.seq
from main.checkpoints c
where c.session_id not in (select id from temp.claimed);

-- tool_calls: One row per call of a tool, with what came of it.
create temp view tool_calls(
  id,                 -- number of the event: events.id
  session_id,         -- sessions.id
  turn_index,         -- the turn it was made in
  seq,                -- number of its record: @N
  part,               -- which event of the record
  tool_name,          -- the agent's word for the tool
  tool,               -- ours: READ, EDIT, WRITE, SHELL, GREP, GLOB, TASK, FETCH, SEARCH, OTHER
  file_path,          -- the file it was about
  command,            -- the command it ran
  is_error,           -- 1 = it failed, 0 = it did not, NULL = its result is not here
  exit_code,          -- of a command, where the result has it
  at,                 -- when it was called
  duration_ms,        -- as its agent reports, else until its result came
  tool_use_id,        -- the agent's id of the call
  result_seq,         -- number of the result's record: @N
  output,             -- the result in its compact form; event_full(session_id, result_seq) is all of it
  is_copy             -- 1: an earlier session, or the one its log was written of, holds the same turn
) as
select e.id, e.session_id,
  (select (select count(*) from main.turns b
    where b.session_id = t.session_id and (b.first_seq, b.id) < (t.first_seq, t.id))
    from main.turns t where t.id = e.turn_id),
  e.seq, e.part, event_field(e.data, 'tool_name'), event_field(e.data, 'tool'), event_field(e.data, 'file_path'),
  event_field(e.data, 'command'), c.is_error, c.exit_code,
  strftime('%Y-%m-%dT%H:%M:%fZ', e.at / 1000.0, 'unixepoch'), coalesce(event_field(r.data, 'duration_ms'), nullif(max(r.at - e.at, -1), -1)),
  event_field(e.data, 'tool_use_id'), r.seq,
  event_field(r.data, 'content'),
  coalesce((select v.is_copy from temp.turns v where v.id = e.turn_id), 0)
from main.events e left join main.call_results c on c.call_id = e.id left join main.events r on r.id = c.result_id
where e.kind = 'ToolCall' and e.session_id not in (select id from temp.claimed);

-- usage: One row per turn: what it used. A turn that is in several sessions counts in the earliest that knows what it used.
create temp view usage(
  session_id,         -- sessions.id
  turn_index,         -- turns.turn_index
  turn_uid,           -- turns.uid
  agent,              -- who answered
  model,              -- with which model
  at,                 -- when the prompt was given
  input_tokens,       -- not from a cache
  output_tokens,      -- reasoning included
  cache_read_tokens,  -- read from a cache
  cache_write_tokens, -- written to a cache
  cache_write_1h_tokens, -- part of cache_write_tokens: held for an hour; NULL = the agent does not say
  largest_input_tokens, -- input of the largest request, caches included; NULL = the agent does not say
  reasoning_tokens,   -- part of output_tokens
  cost_usd,           -- NULL where it is unknown, or only at least known
  cost_kind,          -- exact: as the agent said; computed: from tokens and prices; lower bound: at least low_usd; included: in what was reported for its parent; unknown
  duration_ms,        -- how long the turn took
  tokens_kind,        -- exact: as the agent counted; partial: a count is missing, so they are at least these; shared: given with the last of several turns; unknown
  low_usd,            -- what it cost at least; cost_usd where that is known
  high_usd            -- an estimate of what it cost at the most, where cost_kind is lower bound; else cost_usd. Not for sums
) as
select t.session_id, t.turn_index, t.uid, t.agent, t.model, t.timestamp, t.input_tokens, t.output_tokens,
  t.cache_read_tokens, t.cache_write_tokens, t.cache_write_1h_tokens, t.largest_input_tokens, t.reasoning_tokens,
  t.cost_usd, t.cost_kind, t.duration_ms,
  case when coalesce(t.input_tokens, t.output_tokens, t.cache_read_tokens, t.cache_write_tokens) is null then 'unknown'
    when t.tokens_source = 'run' then 'shared'
    when t.tokens_source = 'partial' or t.input_tokens is null or t.output_tokens is null then 'partial' else 'exact' end,
  t.low_usd, t.high_usd
from temp.turns t
-- A copy that alone knows what was used is no copy of that: a review's turn is in its parent's log, too, without tokens.
where not t.is_copy or (t.tokens_source is not null and not exists (select 1 from main.turns o
  join main.sessions os on os.id = o.session_id where o.uid = t.uid and o.id <> t.id
  and (o.tokens_source is not null or iif(length(o.native_id) = 36 and substr(o.native_id, 15, 1) = '5', 1, 0)
    < iif(length(t.native_id) = 36 and substr(t.native_id, 15, 1) = '5', 1, 0))
  and (os.relation is 'retold', iif(length(o.native_id) = 36 and substr(o.native_id, 15, 1) = '5', 1, 0), os.uid)
    < ((select relation is 'retold' from main.sessions where id = t.session_id), iif(length(t.native_id) = 36 and substr(t.native_id, 15, 1) = '5', 1, 0), (select uid from main.sessions where id = t.session_id))
  and os.id not in (select id from temp.claimed)));

-- events: One row per event: the smallest fact shown.
create temp view events(
  id,                 -- number of the event; search_index.rowid
  session_id,         -- sessions.id
  seq,                -- number of its record: @N
  part,               -- which event of the record
  turn_index,         -- the turn it is in; NULL before the first prompt
  kind,               -- UserMessage, AssistantText, Thinking, ToolCall, ToolResult, Error, ...
  at,                 -- when it happened
  text,               -- its words, in the compact form
  json,               -- all of its compact form
  char_len,           -- characters of the original event
  event_type,         -- as in ah: api_call_end (one per turn), tool_call_end, retry, error, compaction_complete, agent_end; of ah itself also state_change
  message_id,         -- messages.id of the answer or call that an api_call_end or tool_call_end is about
  created_at,         -- seconds since 1970, as in ah
  details             -- JSON as in ah; NULL where event_type is
) as
select e.id, e.session_id, e.seq, e.part,
  (select (select count(*) from main.turns b
    where b.session_id = t.session_id and (b.first_seq, b.id) < (t.first_seq, t.id))
    from main.turns t where t.id = e.turn_id),
  e.kind, strftime('%Y-%m-%dT%H:%M:%fZ', e.at / 1000.0, 'unixepoch'), event_text(e.data), event_json(e.data), e.char_len,
  case e.kind when 'ToolResult' then 'tool_call_end' when 'Retry' then 'retry' when 'Error' then 'error'
    when 'Compacted' then 'compaction_complete' when 'Complete' then 'agent_end'
    when 'Hook' then iif(event_field(e.data, 'is_state'), event_field(e.data, 'name'), null)
    else (select 'api_call_end' from temp.answers where id = e.id) end,
  case e.kind when 'ToolResult' then (select k.id from main.events k join main.call_results r on r.call_id = k.id
      where k.session_id = e.session_id and k.seq between (select first_seq from main.turns where id = e.turn_id)
      and e.seq and r.result_id = e.id order by k.seq desc limit 1)
    else (select id from temp.answers where id = e.id) end,
  e.at / 1000,
  case e.kind
    when 'ToolResult' then json_object('event_type', 'tool_call_end', 'timestamp', e.at / 1000,
      'tool_name', event_field(e.data, 'tool_name'), 'tool_output', '',
      'is_error', json(iif(event_field(e.data, 'is_error'), 'true', 'false')),
      'duration_ms', (select coalesce(event_field(e.data, 'duration_ms'), nullif(max(e.at - k.at, -1), -1))
        from main.events k join main.call_results r on r.call_id = k.id
        where k.session_id = e.session_id and k.seq between (select first_seq from main.turns where id = e.turn_id)
        and e.seq and r.result_id = e.id order by k.seq desc limit 1))
    when 'Retry' then json_object('attempt', event_field(e.data, 'attempt'), 'error', event_field(e.data, 'message'))
    when 'Error' then json_object('event_type', 'error', 'timestamp', e.at / 1000,
      'error', event_field(e.data, 'message'))
    when 'Hook' then iif(event_field(e.data, 'is_state'), event_field(e.data, 'output'), null)
    when 'Compacted' then json_object('event_type', 'compaction_complete', 'timestamp', e.at / 1000)
    when 'Complete' then (select json_object('event_type', 'agent_end', 'timestamp', e.at / 1000,
      'stop_reason', stop_reason, 'total_input_tokens', input_tokens, 'total_output_tokens', output_tokens)
      from main.turns where id = e.turn_id)
    else (select json_object('event_type', 'api_call_end', 'timestamp', e.at / 1000, 'message_id', e.id,
      'input_tokens', input_tokens, 'output_tokens', output_tokens, 'cache_creation_input_tokens', cache_write_tokens,
      'cache_read_input_tokens', cache_read_tokens, 'api_latency_ms', api_latency_ms,
      'model', (select model from main.turns where id = e.turn_id)) from temp.answers where id = e.id) end
from main.events e
where e.session_id not in (select id from temp.claimed);

-- search_index: The full-text index, for MATCH, rank and bm25(search_index): a row per event with words, per summary, per section of a checkpoint and per file.
create temp view search_index(
  rowid,              -- events.id; of what is no event a number below 0, of a summary -compactions.id
  content,            -- what MATCH looks in; reads as NULL, the words are in text
  session_id,         -- sessions.id
  source_type,        -- turn; checkpoint_overview, _history, _work_done, _technical, _files, _next_steps; workspace_artifact: a file
  source_id,          -- session_id:turn:turn_index, session_id:ckpt:checkpoint_number:source_type, session_id:workspace:path of the file
  scope,              -- prompt, command, answer, thinking, tool_input, tool_output, system, file
  seq,                -- number of the record: @N; NULL where no record says it
  file,               -- of a file its name, from the folder of its session; else NULL
  text,               -- the words, of an event in its compact form
  search_index,       -- what MATCH takes: where search_index match 'words'
  rank                -- how good a hit is, the least is the best; only with MATCH
) as
select f.rowid, f.content, f.session_id,
  case when f.rowid < 0 then iif(f.source_type = 'summary', 'checkpoint_overview', f.source_type)
    when exists (select 1 from main.checkpoints c join main.events e on e.id = f.rowid and e.kind = 'Compacted'
      where c.session_id = f.session_id and c.seq = e.seq) then 'checkpoint_overview' else 'turn' end,
  f.session_id || case
    when f.rowid >= 0 then coalesce((select ':ckpt:' || c.checkpoint_number || ':checkpoint_overview'
      from main.checkpoints c join main.events e on e.id = f.rowid and e.kind = 'Compacted'
      where c.session_id = f.session_id and c.seq = e.seq),
      ':turn:' || coalesce((select (select count(*) from main.turns b
        where b.session_id = t.session_id and (b.first_seq, b.id) < (t.first_seq, t.id))
        from main.events e join main.turns t on t.id = e.turn_id where e.id = f.rowid), 0))
    when f.source_type = 'summary' then ':ckpt:' || (
      coalesce((select max(checkpoint_number) from main.checkpoints where session_id = f.session_id), 0)
      + (select count(*) from main.compactions where session_id = f.session_id and id <= -f.rowid))
      || ':checkpoint_overview'
    when f.source_type = 'workspace_artifact' then ':workspace:' || (
      select rtrim(l.path, replace(l.path, '/', '')) || c.name from main.sidecars c join main.logs l on l.id = c.log_id
      where c.id = FILE_ROWS - f.rowid)
    else ':ckpt:' || (select checkpoint_number from main.checkpoints where id = (SECTION_ROWS - f.rowid) / SECTIONS_MAX)
      || ':' || f.source_type end,
  f.scope,
  iif(f.rowid > FILE_ROWS, f.source_id,
    (select seq from main.checkpoints where id = (SECTION_ROWS - f.rowid) / SECTIONS_MAX)),
  (select name from main.sidecars where id = FILE_ROWS - f.rowid and f.rowid > SECTION_ROWS),
  row_text(f.session_id, f.rowid), f.search_index, f.rank
from main.search_index f
where f.session_id not in (select id from temp.claimed) and case
  when f.rowid >= 0 then exists (select 1 from main.events where id = f.rowid)
  when f.rowid > FILE_ROWS then exists (select 1 from main.compactions where id = -f.rowid and undone = 0)
  when f.rowid > SECTION_ROWS then exists (
    select 1 from main.side_texts where sidecar_id = FILE_ROWS - f.rowid and event_id is null)
  else exists (select 1 from main.checkpoints where id = (SECTION_ROWS - f.rowid) / SECTIONS_MAX) end;

-- messages: ah's shape of a conversation: a row per prompt, answer, call and result of branches that were not removed.
create temp view messages(
  id,                 -- events.id
  session_id,         -- sessions.id; ah has a file for each session
  parent_id,          -- the message before it in its branch, where a fork begins the one it begins at; NULL at a root
  role,               -- user (prompts and results) or assistant (answers and calls)
  seq,                -- number of its record: @N
  created_at,         -- seconds since 1970, as in ah
  input_tokens,       -- of the whole turn, from caches, too, as in ah; on the turn's last assistant message
  output_tokens,      -- of the whole turn; on its last assistant message
  stop_reason,        -- the model's word; on the turn's last assistant message
  model,              -- on assistant messages
  api_latency_ms      -- how long the model took; on the turn's last assistant message
) as
select x.id, x.session_id,
  coalesce(
    (select p.id from main.events p where p.session_id = x.session_id and (p.seq, p.part) < (x.seq, x.part)
      and p.seq >= x.first_seq and p.turn_id = x.turn_id
      and p.kind in ('UserMessage', 'AssistantText', 'ToolCall', 'ToolResult') order by p.seq desc, p.part desc limit 1),
    message_above(x.session_id, x.turn_uid)),
  iif(x.is_assistant, 'assistant', 'user'), x.seq, coalesce(x.at, x.started) / 1000,
  iif(x.is_last, x.all_input, null), iif(x.is_last, x.output_tokens, null), iif(x.is_last, x.stop_reason, null),
  iif(x.is_assistant, x.model, null), iif(x.is_last, x.api_latency_ms, null)
from (
  select e.id, e.session_id, e.turn_id, e.seq, e.part, e.at, t.first_seq, t.uid as turn_uid, t.started, t.output_tokens,
    t.stop_reason, t.model, t.api_latency_ms, e.kind in ('AssistantText', 'ToolCall') as is_assistant,
    iif(coalesce(t.input_tokens, t.cache_read_tokens, t.cache_write_tokens) is null, null,
      coalesce(t.input_tokens, 0) + coalesce(t.cache_read_tokens, 0) + coalesce(t.cache_write_tokens, 0)) as all_input,
    e.id = (select p.id from main.events p where p.session_id = t.session_id and p.turn_id = t.id
      and p.seq between t.first_seq and t.last_seq and p.kind in ('AssistantText', 'ToolCall')
      order by p.seq desc, p.part desc limit 1) as is_last
  from main.events e join main.turns t on t.id = e.turn_id
  where e.kind in ('UserMessage', 'AssistantText', 'ToolCall', 'ToolResult') and t.removed is null
    and e.session_id not in (select id from temp.claimed)
) x;

-- content_blocks: ah's shape of what messages are made of: a block for each. Inputs and outputs are whole, so ask for few.
create temp view content_blocks(
  id,                 -- events.id
  message_id,         -- messages.id
  session_id,         -- sessions.id
  block_type,         -- text, tool_use or tool_result
  seq,                -- 0: a message has one block
  content,            -- the text of a text
  tool_id,            -- the agent's id of the call
  tool_name,          -- the agent's word for the tool; of results too
  tool_input,         -- JSON
  tool_output,        -- all of it
  is_error,           -- 1 = it failed
  duration_ms,        -- as its agent reports; of a tool_use else until its result came
  details             -- of a tool_result of ah: JSON as it has it
) as
select e.id, e.id, e.session_id,
  case e.kind when 'ToolCall' then 'tool_use' when 'ToolResult' then 'tool_result' else 'text' end, 0,
  iif(e.kind in ('UserMessage', 'AssistantText'), event_text(e.data), null),
  event_field(e.data, 'tool_use_id'), event_field(e.data, 'tool_name'),
  iif(e.kind = 'ToolCall', full_field(e.session_id, e.seq, e.part, e.data, 'input'), null),
  iif(e.kind = 'ToolResult', full_field(e.session_id, e.seq, e.part, e.data, 'content'), null),
  coalesce(event_field(e.data, 'is_error'), 0),
  iif(e.kind = 'ToolResult', event_field(e.data, 'duration_ms'),
    (select coalesce(event_field(r.data, 'duration_ms'), nullif(max(r.at - e.at, -1), -1)) from main.call_results c
    join main.events r on r.id = c.result_id where c.call_id = e.id)),
  iif(e.kind = 'ToolResult', nullif(full_field(e.session_id, e.seq, e.part, e.data, 'details'), ''), null)
from main.events e
where e.kind in ('UserMessage', 'AssistantText', 'ToolCall', 'ToolResult')
  and exists (select 1 from main.turns where id = e.turn_id and removed is null)
  and e.session_id not in (select id from temp.claimed);

-- context_values: The keys that people gave a value in a session's context: `context set`, or their agent's own files.
create temp view context_values(
  session_id,         -- sessions.id
  key,                -- of those that are set in both, the one that was set by `context set` is here
  value               -- as it was set
) as
select s.id, substr(m.key, 36), m.value from main.meta m join main.sessions s on s.uid = substr(m.key, 9, 26)
where m.key >= 'context ' and m.key < 'context!' and s.id not in (select id from temp.claimed)
union all
select v.session_id, substr(v.key, 9), v.value from main.session_values v
where v.key like 'context:%' and v.session_id not in (select id from temp.claimed)
  and not exists (select 1 from main.meta m join main.sessions s on s.id = v.session_id
    where m.key = 'context ' || s.uid || ' ' || substr(v.key, 9));

-- context: ah's shape of what is known of a session as a whole.
create temp view context(
  session_id,         -- sessions.id; ah has a file for each session
  key,                -- session_name, current_message or session_state; else as in context_values
  value               -- the name, the messages.id that the next prompt follows, processing or closed; else what it was set to
) as
select s.id, 'session_name', coalesce(nullif(s.name, ''), s.title) from main.sessions s
where coalesce(nullif(s.name, ''), s.title) is not null and s.id not in (select id from temp.claimed)
union all
select s.id, 'current_message', current_message(s.id) from main.sessions s
where current_message(s.id) is not null and s.id not in (select id from temp.claimed)
union all
select s.id, 'session_state', iif(s.last_native_id <> '', 'processing', 'closed') from main.sessions s
where s.id not in (select id from temp.claimed)
union all
select session_id, key, value from temp.context_values;

-- dynamic_context_items: Copilot's shape of the context boards: one row per repository, branch, src and name.
create temp view dynamic_context_items(
  repository,         -- owner/name, else local: and a folder
  branch,             -- git branch, else default
  src,                -- who wrote it: agent, user
  name,               -- what it is called
  description,        -- in a line
  content,            -- the item
  read_count,         -- how often it was read
  count               -- how many sessions began on its board since it was made
) as
select i.repository, i.branch, i.src, i.name, i.description, i.content, i.read_count,
  (select count(*) from main.sessions s where s.repository = i.repository and s.relation is null
    and s.elsewhere is null and s.created >= i.created
    and iif(s.branch is null or s.branch in ('', 'HEAD') or (length(s.branch) in (40, 64)
      and s.branch not glob '*[^0-9a-f]*'), 'default', s.branch) = i.branch)
  + iif(i.repository glob 'local:*', (select count(*) from main.sessions s where s.repository is null
    and s.relation is null and s.elsewhere is null and s.created >= i.created
    and 'local:' || here(coalesce(s.root, s.cwd, s.project), s.created) = i.repository
    and iif(s.branch is null or s.branch in ('', 'HEAD') or (length(s.branch) in (40, 64)
      and s.branch not glob '*[^0-9a-f]*'), 'default', s.branch) = i.branch), 0)
from (
  select iif(s.repository glob 'local:*', 'local:' || here(substr(s.repository, 7), s.created), s.repository) repository,
    s.branch, s.src, s.name, s.description, s.content, s.read_count, s.created, max(s.changed), s.removed
  from (select repository, branch, src, name, description, content, read_count, changed, removed,
    strftime('%Y-%m-%dT%H:%M:%fZ', created / 1000.0, 'unixepoch') as created from main.context_items) s
  group by 1, 2, 3, 4
) i where not i.removed;

-- assistant_usage_events: Copilot's shape of usage: one row per turn with known tokens.
create temp view assistant_usage_events(
  id,                       -- turns.id
  session_id,               -- sessions.id
  turn_index,               -- turns.turn_index
  agent_id,                 -- uid of the session, when it is a subagent's
  parent_tool_call_id,      -- NULL
  model,                    -- who answered
  copilot_usage_model,      -- NULL
  input_tokens,             -- from caches, too, as in Copilot
  output_tokens,            -- reasoning included
  cache_read_tokens,        -- part of input_tokens
  cache_write_tokens,       -- part of input_tokens
  reasoning_tokens,         -- part of output_tokens
  total_nano_aiu,           -- cost_usd times 1e11; NULL where it is unknown
  request_multiplier,       -- NULL
  duration_ms,              -- how long the model took
  time_to_first_token_ms,   -- NULL
  output_ttft_ms,           -- NULL
  inter_token_latency_ms,   -- NULL
  initiator,                -- agent in a subagent's session, else user
  api_endpoint,             -- NULL
  reasoning_effort,         -- NULL
  finish_reason,            -- the model's word
  content_filter_triggered, -- NULL
  token_details_json,       -- NULL
  created_at                -- when the prompt was given
) as
select t.id, t.session_id, t.turn_index, iif(s.relation = 'subagent', s.uid, null), null, t.model, null,
  coalesce(t.input_tokens, 0) + coalesce(t.cache_read_tokens, 0) + coalesce(t.cache_write_tokens, 0),
  t.output_tokens, t.cache_read_tokens, t.cache_write_tokens, t.reasoning_tokens,
  cast(round(t.cost_usd * 1e11) as integer), null, t.api_latency_ms, null, null, null,
  iif(s.relation = 'subagent', 'agent', 'user'), null, null, t.stop_reason, null, null, t.timestamp
from temp.turns t join main.sessions s on s.id = t.session_id
where not t.is_copy
  and coalesce(t.input_tokens, t.output_tokens, t.cache_read_tokens, t.cache_write_tokens) is not null;
