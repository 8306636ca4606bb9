"""A store with one of everything that can be asked for."""

from __future__ import annotations

import itertools
from contextlib import closing
from typing import TYPE_CHECKING

import apsw

from backstory.model import AssistantText, Thinking, ToolCall, ToolResult, UserMessage
from backstory.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400_000
BEGUN = 1_790_000_000_000 - DAY
OUTPUT = "\n".join(f"line {n}" for n in range(10))


def fill(path: Path) -> None:
    """A store with one of everything that can be asked for.

    Session 1 ran in a project and named a pull request; 2 went on from it, with a copy of its turn; 3 is the agent's
    own log of 1's run, so it is not shown; 4 is a helper that 3 began; 5 has two branches.
    """
    with open_store(path, now=itertools.count(BEGUN).__next__) as store:
        first = store.create_session("Fix the build")
        store.append_events(first, [
            UserMessage(content="Why is it red?"), Thinking(text="hm"),
            ToolCall(tool_use_id="t1", tool_name="Bash", tool="SHELL", input={"command": "make | tee log"}),
            ToolResult(tool_use_id="t1", tool_name="Bash", tool="SHELL", content=OUTPUT, is_error=True),
            AssistantText(text="A comma deadlock."),
        ])  # fmt: skip
        second = store.create_session()
        copied = [UserMessage(content="Why is it red?"), AssistantText(text="A comma deadlock.")]
        store.append_events(second, [*copied, UserMessage(content="Go on | now")])
    with closing(apsw.Connection(str(path))) as db, db:
        db.execute(HISTORY)


HISTORY = f"""
update sessions set repository = 'octo/app', branch = 'main', cwd = '/w/app', root = '/w/app',
  project = 'github.com/octo/app', cost_usd = 0.5, last_active = {BEGUN + 1234} where id = 1;
update turns set uid = 'TURN', native_id = 'native', agent = 'one', model = 'big', input_tokens = 10,
  output_tokens = 20, cache_read_tokens = 30, cost_usd = 0.5, cost_source = 'reported', tokens_source = 'reported',
  stop_reason = 'end_turn', started = {BEGUN + 7}, ended = {BEGUN + 1234}, duration_ms = 1227 where id = 1;
update sessions set leaf_uid = 'TURN' where id = 1;
update turns set uid = 'TURN', agent = 'one', model = 'big', input_tokens = 10, output_tokens = 20, cost_usd = 0.5,
  cost_source = 'reported' where id = 2;
update turns set agent = 'two', model = 'small', output_tokens = 5, cost_usd = 0.25, parent_uid = 'TURN' where id = 3;
update sessions set parent_id = 1, relation = 'continuation', created = '2026-09-20T14:13:20.100Z' where id = 2;
insert into sessions(id, uid, native_id, created)
  values (3, '0000000000LOGLOGLOGLOGLOG1', 'native', '2026-09-20T00:00:00.000Z');
insert into turns(id, session_id, uid, first_seq, last_seq, agent, cost_usd) values (4, 3, 'TURN', 1, 1, 'one', 9);
insert into events(id, session_id, seq, turn_id, kind, data)
  values (100, 3, 1, 4, 'ToolCall', '{{"ToolCall":{{"tool_name":"Bash","tool":"SHELL"}}}}');
insert into sessions(id, uid, native_id, created, parent_id, relation, title)
  values (4, '0000000000HELPERHELPERHELP', 'native/h', '2026-09-20T00:00:00.000Z', 3, 'subagent', 'Look around');
insert into turns(id, session_id, uid, first_seq, last_seq, agent, model, prompt, started, output_tokens)
  values (5, 4, 'HELP', 1, 1, 'one', 'small', 'Look', {BEGUN}, 7);
insert into sessions(id, uid, created) values (5, '0000000000BRANCHBRANCHBRAN', '2026-09-20T00:00:00.000Z');
insert into turns(id, session_id, uid, parent_uid, first_seq, last_seq, agent) values
  (6, 5, 'R', null, 1, 2, 'one'), (7, 5, 'A', 'R', 3, 3, 'one'), (8, 5, 'B', 'R', 4, 4, 'one');
insert into events(id, session_id, seq, turn_id, kind, data) values
  (201, 5, 1, 6, 'UserMessage', '{{"UserMessage":{{"content":"root"}}}}'),
  (202, 5, 2, 6, 'AssistantText', '{{"AssistantText":{{"text":"yes"}}}}'),
  (203, 5, 3, 7, 'UserMessage', '{{"UserMessage":{{"content":"a"}}}}'),
  (204, 5, 4, 8, 'UserMessage', '{{"UserMessage":{{"content":"b"}}}}');
insert or replace into call_results(call_id, result_id, is_error, exit_code)
  select c.id, r.id, 1, 2 from events c join events r on r.session_id = 1 and r.seq = 4
  where c.session_id = 1 and c.seq = 3;
update events set at = {BEGUN + 100} where session_id = 1 and seq = 3;
update events set at = {BEGUN + 350} where session_id = 1 and seq = 4;
delete from session_files; delete from session_refs;
insert into session_files(id, session_id, file_path, tool_name, action, turn_id, first_seq, first_seen_at) values
  (1, 1, '/w/app/src/a.py', 'Edit', 'edit', 1, 3, {BEGUN}), (2, 1, '/etc/hosts', 'Read', 'read', 1, 3, {BEGUN}),
  (3, 2, '/w/app/src/a.py', 'Write', 'create', 3, 3, null), (4, 3, '/w/app/src/a.py', 'Edit', 'edit', 4, 1, null);
insert into file_touches(file_id, seq, part, action) values (1, 3, 0, 'read'), (1, 3, 1, 'edit'), (3, 3, 0, 'create');
insert into session_refs(session_id, ref_type, ref_value, host, repository, turn_id, seq, created_at) values
  (1, 'pr', '12', 'github.com', 'octo/app', 1, 5, {BEGUN + 1}), (3, 'pr', '12', 'github.com', 'octo/app', 4, 1, null);
insert into checkpoints(session_id, checkpoint_number, title, overview, created_at)
  values (1, 1, 'Begun', 'All', {BEGUN});
"""
