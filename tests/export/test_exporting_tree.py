"""Sessions written for ah: its own client would go on with them. They are read here with SQLite alone."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory import agents
from backstory.agents.ah.files import write_kept
from backstory.agents.ah.log import Databases
from backstory.agents.contract import KeptLog, SessionRows
from backstory.ask.readonly import VALUE_BYTES_MAX
from backstory.cli import cli
from backstory.errors import CannotWrite, FileInTheWay
from backstory.export.exporting import NotWritten, WrittenFile, everything, export_each, formats
from backstory.ingest.ingest import ingest
from backstory.model import AssistantText, Compacted, ToolCall, ToolResult, Turn, UserMessage
from tests.support import ah_files
from tests.support.ah_files import CASES, SESSION, AhFile, call, result, ulid
from tests.support.clock import NOW
from tests.support.counts import examples
from tests.support.machines import Machine, claude_line, claude_log, lines

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

TABLES = ("messages", "content_blocks", "context", "events")
IN_ONE_SESSION = ("tree", "checked-out", "checked-out-inside", "busy", "followups", "roots")
"""Cases whose file is one of those that are written."""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path / "project"


def read(machine: Machine, project: Path) -> None:
    report = ingest(machine.store, [agents.load("ah")], environ={"PWD": str(project)}, home=machine.home, now=NOW)
    assert report.errors == []


def write(machine: Machine, target: Path, *, force: bool = False) -> list[WrittenFile | NotWritten]:
    return export_each("ah", everything([machine.store]), target, force=force)


def round_trip(machine: Machine, project: Path, target: Path, case: str) -> tuple[AhFile, Path]:
    """A case's file, and what it became on its way through our store."""
    file = CASES[case][0](project / ".ah" / ah_files.file_name(case))
    read(machine, project)
    write(machine, target)
    return file, target / ".ah" / f"{SESSION}.db"


# an independent reader ----------------------------------------------------------------------------------------


def ask(path: Path, sql: str, *values: Any) -> list[Any]:
    with closing(sqlite3.connect(path)) as db:
        db.text_factory = bytes
        return [tuple(map(_text, row)) for row in db.execute(sql, values).fetchall()]


def _text(value: Any) -> Any:
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


def current(path: Path) -> Any:
    found = ask(path, "select value from context where key = 'current_message'")
    return found[0][0] if found else None


def ancestry(path: Path, message: str) -> list[tuple[Any, ...]]:
    """Messages from the root to this one: id, role and depth."""
    return ask(
        path,
        "with recursive up(id, parent_id, role, seq) as (select id, parent_id, role, seq from messages where id = ? "
        "union all select m.id, m.parent_id, m.role, m.seq from messages m join up on m.id = up.parent_id) "
        "select id, role, seq from up order by seq",
        message,
    )


def leaves(path: Path) -> list[str]:
    sql = "select id from messages m where not exists (select 1 from messages where parent_id = m.id)"
    return [row[0] for row in ask(path, f"{sql} order by created_at desc, rowid")]


def blocks(path: Path, message: str) -> list[dict[str, Any]]:
    names = ("block_type", "content", "tool_id", "tool_name", "tool_input", "tool_output", "is_error")
    rows = ask(path, f"select {', '.join(names)} from content_blocks where message_id = ? order by seq", message)
    return [dict(zip(names, row, strict=True)) for row in rows]


def texts(path: Path, leaf: str) -> list[str]:
    """All texts of a branch."""
    found = [each for message, *_ in ancestry(path, leaf) for each in blocks(path, message)]
    return [each["content"] for each in found if each["block_type"] == "text"]


def refused_by_its_api(path: Path, leaf: str) -> list[str]:
    """What an API would not take of a branch: calls without their results behind them, results without calls."""
    wrong, calls = [], set[str]()
    for message, role, _ in ancestry(path, leaf):
        found = blocks(path, message)
        results = {each["tool_id"] for each in found if each["block_type"] == "tool_result"}
        if role == "assistant" and results:
            wrong.append(f"{message} has results in an answer")
        if results != calls and (results or calls):
            wrong.append(f"{message} has results {results} for calls {calls}")
        calls = {each["tool_id"] for each in found if each["block_type"] == "tool_use"}
        if not found:
            wrong.append(f"{message} is empty")
    return wrong


# its own sessions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", IN_ONE_SESSION)
def test_a_session_of_its_own_comes_back_with_every_row(
    machine: Machine, project: Path, target: Path, case: str
) -> None:
    file, written = round_trip(machine, project, target, case)
    for table in TABLES:
        rows = f"select * from {table} order by 1"
        assert (table, ask(written, rows)) == (table, ask(file.path, rows))


@pytest.mark.parametrize("case", ["busy", "followups"])
def test_texts_that_wait_come_back(machine: Machine, project: Path, target: Path, case: str) -> None:
    file, written = round_trip(machine, project, target, case)
    queue = written.with_name(f"{SESSION}.queue.db")
    rows = "select * from queue_messages order by rowid"
    assert ask(queue, rows) == ask(file.queue_path, rows) != []
    assert ask(queue, "select count(*) from session_lock") == [(0,)]


def test_a_session_without_texts_that_wait_gets_no_queue(machine: Machine, project: Path, target: Path) -> None:
    round_trip(machine, project, target, "tree")
    assert [each.name for each in (target / ".ah").iterdir()] == [f"{SESSION}.db"]


def test_messages_stand_in_the_order_in_which_they_were_written(machine: Machine, project: Path, target: Path) -> None:
    file, written = round_trip(machine, project, target, "checked-out")
    order = "select id from messages order by rowid"
    assert ask(written, order) == ask(file.path, order)


def test_of_calls_that_were_interrupted_every_one_gets_a_result(machine: Machine, project: Path, target: Path) -> None:
    file, written = round_trip(machine, project, target, "interrupted-between-calls")
    assert refused_by_its_api(file.path, current(file.path)) != []
    assert refused_by_its_api(written, current(written)) == []
    ours = {row[0]: row for row in ask(written, "select * from content_blocks")}
    for row in ask(file.path, "select * from content_blocks"):
        assert ours.pop(row[0]) == row
    ((added),) = ours.values()
    assert (added[5], added[8], added[9]) == (
        "toolu_2",
        "error: tool execution was interrupted (session resumed)",
        1,
    )


def test_an_early_session_gets_the_columns_that_it_lacked(machine: Machine, project: Path, target: Path) -> None:
    file = CASES["early"][0](project / ".ah" / f"{SESSION}.db")
    read(machine, project)
    write(machine, target)
    written = target / ".ah" / f"{SESSION}.db"
    rows = "select id, parent_id, role, seq, created_at from messages order by rowid"
    assert ask(written, rows) == ask(file.path, rows)
    assert ask(written, "select input_tokens, model from messages") == [(None, None)] * 4


def test_numbers_without_end_and_bytes_that_are_no_text_come_back(
    machine: Machine, project: Path, target: Path
) -> None:
    file = CASES["tree"][0](project / ".ah" / f"{SESSION}.db")
    file.ask("update content_blocks set duration_ms = 1e999, tool_id = cast(x'ff61' as text) where tool_id = 'toolu_1'")
    file.ask("update messages set api_latency_ms = -1e999 where seq = 1")
    file.ask("insert into context(key, value) values ('odd', x'00ff'), ('odder', cast(x'ff' as text))")
    read(machine, project)
    write(machine, target)
    for table in TABLES:
        rows = f"select * from {table} order by 1"
        assert ask(target / ".ah" / f"{SESSION}.db", rows) == ask(file.path, rows)


def test_copies_of_a_database_that_went_on_apart_become_one_tree(
    machine: Machine, project: Path, target: Path, tmp_path: Path
) -> None:
    file = CASES["tree"][0](project / ".ah" / f"{SESSION}.db")
    copied = tmp_path / "copy" / ".ah" / f"{SESSION}.db"
    copied.parent.mkdir(parents=True)
    copied.write_bytes(file.path.read_bytes())
    other = AhFile(copied, numbers_from=500)
    file.user("Here")
    other.user("There")
    read(machine, project)
    read(machine, tmp_path / "copy")
    write(machine, target)
    written = target / ".ah" / f"{SESSION}.db"
    assert {texts(written, leaf)[-1] for leaf in leaves(written)} == {"Lua is a scripting language", "Here", "There"}
    assert texts(written, current(written))[-1] == "There"


def test_the_name_that_a_person_gave_it_here_goes_along(machine: Machine, project: Path, target: Path) -> None:
    CASES["busy"][0](project / ".ah" / f"{SESSION}.db")
    read(machine, project)
    machine.store.rename(machine.store.session(SESSION), "beta")
    write(machine, target)
    names = "select value from context where key = 'session_name'"
    assert ask(target / ".ah" / f"{SESSION}.db", names) == [("beta",)]


def test_conversations_of_one_file_become_files(machine: Machine, project: Path, target: Path) -> None:
    file = CASES["single"][0](project / ".ah" / "ah.db")
    read(machine, project)
    write(machine, target)
    base = ah_files.START * 1000
    one, two = (target / ".ah" / f"{ulid(n, base + n)}.db" for n in (1, 2))
    assert [texts(path, current(path)) for path in (one, two)] == [[f"Question {n}", f"Answer {n}"] for n in (1, 2)]
    assert ask(one, "select value from context where key = 'session_name'") == [("alpha",)]
    assert ask(one, "select id from events union select id from events") == ask(
        file.path, "select id from events where conversation_id = ? order by id", ulid(1, base + 1)
    )


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=examples(25), deadline=None)
def test_any_tree_comes_back_with_every_row(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = AhFile(Path(folder, "in", f"{SESSION}.db"))
        grow(file, data)
        (rows,) = Databases().sessions_without_logs(file.path, file.path)
        assert isinstance(rows, SessionRows)
        log = KeptLog(session_id=1, agent="ah", native_id=SESSION, path="", read=lambda: [rows.content], beside=list)
        written = Path(folder, "out.db")
        written.touch()
        write_kept(written, [log])
        for table in TABLES:
            found = f"select * from {table} order by 1"
            assert ask(written, found) == ask(file.path, found)


def grow(file: AhFile, data: st.DataObject) -> None:
    """Let a tree grow: prompts anywhere, answers, deleted messages, tips chosen by hand, names, states."""
    made: list[str | None] = [None]
    kinds = ("prompt", "answer", "call", "delete", "checkout", "run", "name")
    for kind in data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=14)):
        at = data.draw(st.sampled_from(made))
        if kind == "prompt":
            made.append(file.user("Prompt", parent=at, wait=data.draw(st.integers(0, 1))))
        elif kind == "answer":
            made.append(file.answer("Answer", parent=at))
        elif kind == "call":
            called = file.answer(call("bash", f"toolu_{len(made)}", command="ls"), parent=at)
            made += [called, file.message("user", result(f"toolu_{len(made)}", "a"), parent=called)]
        elif kind == "delete":
            file.ask("delete from messages where id = ?", at)
            file.ask("delete from content_blocks where message_id = ?", at)
        elif kind == "checkout":
            file.know("current_message", at)
        elif kind == "run":
            file.begin()
            file.end()
        else:
            file.know("session_name", "named")
    if not file.ask("select id from messages"):
        file.user("At least one", parent=None)


# everybody else's ---------------------------------------------------------------------------------------------

FORKED = (
    ("user", "u0", None, "Hello"),
    ("assistant", "u1", "u0", "Hi there"),
    ("user", "u2", "u1", "About Lua"),
    ("assistant", "u3", "u2", "A language"),
    ("user", "u4", "u1", "About Python"),
    ("assistant", "u5", "u4", "A snake"),
)


def put_forked(machine: Machine) -> None:
    """A session of another agent with two branches."""
    records = [claude_line(kind, uuid, text, parentUuid=parent) for kind, uuid, parent, text in FORKED]
    machine.write(claude_log("s"), lines(*records))
    machine.read("claude")


def only_file(target: Path) -> Path:
    (path,) = (target / ".ah").iterdir()
    return path


def test_every_branch_of_a_session_is_there_and_the_current_one_is_current(machine: Machine, target: Path) -> None:
    put_forked(machine)
    write(machine, target)
    path = only_file(target)
    assert {tuple(texts(path, leaf)) for leaf in leaves(path)} == {
        ("Hello", "Hi there", "About Lua", "A language"),
        ("Hello", "Hi there", "About Python", "A snake"),
    }
    assert texts(path, current(path))[-1] == "A snake"


@pytest.mark.parametrize(
    "case",
    ["claude/tools", "claude/denied", "claude/tool-errors", "claude/sigkill-in-tool", "claude/background",
     "claude/compact", "codex/tools", "codex/code-mode", "codex/sigint-in-tool", "codex/mcp"],
)  # fmt: skip
def test_what_others_did_can_be_gone_on_with(machine: Machine, target: Path, case: str) -> None:
    machine.put(case)
    machine.read()
    write(machine, target)
    for path in (target / ".ah").iterdir():
        for leaf in leaves(path):
            assert refused_by_its_api(path, leaf) == []
        assert current(path) in leaves(path)


def test_a_result_is_there_with_all_of_its_output(machine: Machine, target: Path) -> None:
    output = "".join(f"line {n}\n" for n in range(50_000))
    used = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "seq"}}
    gave = {"type": "tool_result", "tool_use_id": "toolu_1", "content": output}
    machine.write(
        claude_log("s"),
        lines(
            claude_line("user", "u0", "Print"),
            claude_line("assistant", "u1", message={"role": "assistant", "content": [used]}),
            claude_line("user", "u2", message={"role": "user", "content": [gave]}),
        ),
    )
    machine.read("claude")
    write(machine, target)
    (row,) = ask(only_file(target), "select tool_output from content_blocks where block_type = 'tool_result'")
    assert row == (output,)
    (given,) = ask(only_file(target), "select tool_input from content_blocks where block_type = 'tool_use'")
    assert json.loads(given[0]) == {"command": "seq"}


@pytest.mark.parametrize("case", ["claude/tools", "claude/with-a-helper", "codex/tools", "codex/compact"])
def test_what_is_written_is_read_again_with_the_same_turns(
    machine: Machine, target: Path, tmp_path: Path, case: str
) -> None:
    machine.put(case)
    machine.read()
    write(machine, target)
    other = Machine(tmp_path / "other")
    read(other, target)
    for session in machine.store.sessions():
        again = other.store.turns(other.store.session(session.uid))
        assert list(map(shown, again)) == list(map(shown, machine.store.turns(session)))
    other.close()


def shown(turn: Turn) -> tuple[Any, ...]:
    tokens = turn.tokens
    return (
        turn.prompt,
        turn.outcome,
        turn.api_latency_ms,
        tokens.input,
        tokens.output,
        tokens.cache_read,
        tokens.cache_write,
    )


def test_a_session_of_ours_is_there_with_the_texts_that_came_between(machine: Machine, target: Path) -> None:
    session = machine.store.create_session(name="Garden")
    machine.store.append_events(
        session,
        [
            UserMessage(content="Dig"),
            ToolCall(tool_use_id="c1", tool_name="shovel", input={"deep": 2}),
            ToolCall(tool_use_id="c2", tool_name="rake"),
            ToolResult(tool_use_id="c2", tool_name="rake", content="raked", is_error=True),
            AssistantText(text="Dug."),
            Compacted(summary="We dug."),
        ],
    )
    write(machine, target)
    path = only_file(target)
    assert texts(path, current(path)) == ["Dig", "Dug.", "[COMPACTION SUMMARY]\nWe dug."]
    assert refused_by_its_api(path, current(path)) == []
    results = "select tool_id, tool_output, is_error from content_blocks where block_type = 'tool_result' order by seq"
    assert ask(path, results) == [
        ("c1", "error: tool execution was interrupted (session resumed)", 1),
        ("c2", "raked", 1),
    ]
    assert ask(path, "select value from context where key = 'session_name'") == [("Garden",)]


def test_a_fork_at_a_prompt_without_words_follows_what_that_followed(machine: Machine, target: Path) -> None:
    session = machine.store.create_session()
    machine.store.append_events(session, [UserMessage(content=" "), ToolCall(tool_use_id="c1", tool_name="shovel")])
    machine.store.checkout(session, machine.store.place(session, 1).point)
    machine.store.append_events(session, [UserMessage(content="Dig")])
    write(machine, target)
    path = only_file(target)
    assert [refused_by_its_api(path, leaf) for leaf in leaves(path)] == [[], []]
    assert texts(path, current(path)) == ["Dig"]


def test_a_removed_branch_is_not_written(machine: Machine, target: Path) -> None:
    session = machine.store.create_session()
    machine.store.append_events(session, [UserMessage(content="Dig"), AssistantText(text="Dug.")])
    machine.store.append_events(session, [UserMessage(content="Fill"), AssistantText(text="Filled.")])
    machine.store.remove_turns(session, [machine.store.turns(session)[1].uid])
    write(machine, target)
    path = only_file(target)
    assert [texts(path, leaf) for leaf in leaves(path)] == [["Dig", "Dug."]]
    assert current(path) == leaves(path)[0]


def test_where_a_person_went_back_to_is_current_though_a_summary_follows(machine: Machine, target: Path) -> None:
    session = machine.store.create_session()
    machine.store.append_events(
        session, [UserMessage(content="Dig"), AssistantText(text="Dug."), Compacted(summary="We dug.")]
    )
    machine.store.checkout(session, machine.store.place(session, 2).point)
    write(machine, target)
    path = only_file(target)
    assert texts(path, current(path)) == ["Dig", "Dug."]


def test_an_output_larger_than_what_sql_tells_is_there_whole(machine: Machine, target: Path) -> None:
    output = "0123456789abcdef" * (VALUE_BYTES_MAX // 16 + 1)
    session = machine.store.create_session()
    call = ToolCall(tool_use_id="c1", tool_name="cat")
    gave = ToolResult(tool_use_id="c1", tool_name="cat", content=output)
    machine.store.append_events(session, [UserMessage(content="Print"), call, gave])
    write(machine, target)
    found = ask(only_file(target), "select tool_output from content_blocks where block_type = 'tool_result'")
    assert found == [(output,)]


def test_a_session_that_cannot_be_told_keeps_no_other_from_being_written(machine: Machine, target: Path) -> None:
    put_forked(machine)
    damaged = machine.store.create_session()
    machine.store.append_events(damaged, [UserMessage(content="Dig"), AssistantText(text="Dug.")])
    with closing(sqlite3.connect(machine.store_path)) as db, db:
        db.execute("update events set data = x'28b52ffd' where session_id = ?", (damaged.id,))
    machine.store.close()
    args = ["--store", str(machine.store_path), "export", "--format", "ah", "-o", str(target), "--all", "--json"]
    done = CliRunner().invoke(cli, args)
    whole, missing = sorted(json.loads(done.stdout)["exports"], key=lambda each: "reason" in each)
    assert (done.exit_code, whole["row_counts"]["messages"], missing["uid"]) == (1, 6, damaged.uid)
    assert damaged.uid in done.stderr
    assert only_file(target) == Path(whole["file"])


def test_what_happened_between_calls_and_results_stands_behind_the_results(machine: Machine, target: Path) -> None:
    session = machine.store.create_session()
    machine.store.append_events(
        session,
        [
            UserMessage(content="Dig"),
            ToolCall(tool_use_id="c1", tool_name="shovel"),
            UserMessage(content="Not so deep"),
            ToolResult(tool_use_id="c1", tool_name="shovel", content="dug"),
            ToolResult(tool_use_id="c9", tool_name="ladder", content="whose call?"),
        ],
    )
    write(machine, target)
    path = only_file(target)
    assert refused_by_its_api(path, current(path)) == []
    outputs = ask(path, "select tool_output from content_blocks where block_type = 'tool_result' order by rowid")
    assert outputs == [("dug",), ("whose call?",)]


def test_a_fork_inside_a_call_takes_its_result_along(machine: Machine, target: Path) -> None:
    used = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    gave = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a"}
    records = [
        claude_line("user", "u0", "Look", parentUuid=None),
        claude_line("assistant", "u1", parentUuid="u0", message={"role": "assistant", "content": [used]}),
        claude_line("user", "u2", parentUuid="u1", message={"role": "user", "content": [gave]}),
        claude_line("assistant", "u3", "Seen", parentUuid="u2"),
        claude_line("user", "u4", "Another way", parentUuid="u1"),
    ]
    machine.write(claude_log("s"), lines(*records))
    machine.read("claude")
    with closing(sqlite3.connect(machine.store_path)) as db, db:
        db.execute("update turns set parent_seq = 2 where prompt = 'Another way'")
    write(machine, target)
    path = only_file(target)
    assert [refused_by_its_api(path, leaf) for leaf in leaves(path)] == [[], []]
    assert {tuple(texts(path, leaf)) for leaf in leaves(path)} == {("Look", "Another way"), ("Look", "Seen")}


def test_rows_are_such_as_its_client_writes(machine: Machine, target: Path) -> None:
    machine.put("claude/tools")
    machine.read("claude")
    write(machine, target)
    path = only_file(target)
    parents = "select m.seq, coalesce(p.seq, -1) from messages m left join messages p on p.id = m.parent_id"
    assert all(seq == parent + 1 for seq, parent in ask(path, parents))
    for (own,) in ask(path, "select id from messages union select id from content_blocks union select id from events"):
        assert len(own) == 26
        assert set(own) <= set(ah_files.ALPHABET)
    assert {row for (row,) in ask(path, "select typeof(created_at) from messages")} == {"integer"}
    assert {row for (row,) in ask(path, "select is_error from content_blocks")} <= {0, 1}
    assert all(1_700_000_000 < at < 1_900_000_000 for (at,) in ask(path, "select created_at from messages"))
    assert ask(path, "select value from context where key = 'session_state'") == [("closed",)]


def test_the_tables_are_those_of_its_client(machine: Machine, target: Path, tmp_path: Path) -> None:
    put_forked(machine)
    write(machine, target)
    its_own = AhFile(tmp_path / "own" / f"{SESSION}.db").path
    described = (
        "select s.name, c.* from sqlite_schema s, pragma_table_info(s.name) c where s.type = 'table' order by 1, 2"
    )
    indexes = "select name, tbl_name from sqlite_schema where type = 'index' order by 1"
    for question in (described, indexes, "pragma journal_mode"):
        assert ask(only_file(target), question) == ask(its_own, question)


def test_its_client_goes_on_with_the_current_branch(machine: Machine, target: Path) -> None:
    put_forked(machine)
    write(machine, target)
    file = AhFile(only_file(target), numbers_from=1000)
    own = file.user("And a third?")
    assert texts(file.path, own) == ["Hello", "Hi there", "About Python", "A snake", "And a third?"]


def test_how_long_the_model_took_is_on_a_turns_last_answer_in_sql_and_in_what_is_written(
    machine: Machine, target: Path
) -> None:
    machine.put("claude/tools")
    machine.read()
    write(machine, target)
    path = only_file(target)
    assert machine.store.execute_read_only("select api_latency_ms from turns").rows == [(143,)]
    told = "select role, api_latency_ms from messages where api_latency_ms is not null"
    assert machine.store.execute_read_only(told).rows == ask(path, told) == [("assistant", 143)]
    (details,) = ask(path, "select details from events where event_type = 'api_call_end'")
    assert json.loads(details[0])["api_latency_ms"] == 143


def test_what_its_client_added_is_read_back_as_the_same_session(
    machine: Machine, target: Path, project: Path, tmp_path: Path
) -> None:
    _, written = round_trip(machine, project, target, "tree")
    file = AhFile(written, numbers_from=1000)
    file.user("Elsewhere")
    file.answer("Went on")
    read(machine, target)
    prompts = [turn.prompt for turn in machine.store.turns(machine.store.session(SESSION))]
    assert prompts == ["Hello", "Tell me about Lua", "Tell me about Python", "Elsewhere"]


def test_an_export_is_the_same_each_time(machine: Machine, target: Path, tmp_path: Path) -> None:
    machine.put("claude/tools")
    machine.read("claude")
    write(machine, target)
    write(machine, tmp_path / "again")
    for table in TABLES:
        rows = f"select * from {table} order by rowid"
        assert ask(only_file(target), rows) == ask(only_file(tmp_path / "again"), rows)


# the files, and the command -----------------------------------------------------------------------------------


def test_a_file_in_the_way_keeps_all_from_being_written(machine: Machine, project: Path, target: Path) -> None:
    put_forked(machine)
    CASES["tree"][0](project / ".ah" / f"{SESSION}.db")
    read(machine, project)
    (target / ".ah").mkdir(parents=True)
    mine = target / ".ah" / f"{SESSION}.db"
    mine.write_bytes(b"mine")
    with pytest.raises(FileInTheWay):
        write(machine, target)
    assert [(each, each.read_bytes()) for each in (target / ".ah").iterdir()] == [(mine, b"mine")]
    assert len(write(machine, target, force=True)) == 2


def test_a_session_that_its_client_has_open_is_not_overwritten(machine: Machine, project: Path, target: Path) -> None:
    _, written = round_trip(machine, project, target, "tree")
    with closing(sqlite3.connect(written)) as db:
        db.execute("update context set value = 'processing' where key = 'session_state'")
        db.commit()
        with pytest.raises(CannotWrite, match="-wal"):
            write(machine, target, force=True)


def test_an_export_that_fails_leaves_nothing(machine: Machine, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_forked(machine)

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("backstory.agents.ah.files._File.know", full)
    with pytest.raises(CannotWrite, match="disk is full"):
        write(machine, target)
    assert list((target / ".ah").iterdir()) == []


def test_the_command_writes_a_file_for_each_session(machine: Machine, target: Path) -> None:
    put_forked(machine)
    machine.store.close()
    args = ["--store", str(machine.store_path), "export", "--format", "ah", "-o", str(target)]
    done = CliRunner().invoke(cli, [*args, "--json", "s"])
    (told,) = json.loads(done.stdout)["exports"]
    assert (told["format"], told["file"], told["row_counts"]["messages"]) == ("ah", str(only_file(target)), 6)
    assert isinstance(CliRunner().invoke(cli, [*args, "--all"]).exception, FileInTheWay)
    assert CliRunner().invoke(cli, [*args, "--all", "--exact"]).exit_code == 2


def test_its_form_can_be_written() -> None:
    assert "ah" in formats()
