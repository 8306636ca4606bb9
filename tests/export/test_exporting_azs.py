"""Sessions written for AZUREAL: read here with SQLite and zstandard alone, as its own code does."""

from __future__ import annotations

import json
import resource
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from click.testing import CliRunner

from backstory import agents
from backstory.cli import cli
from backstory.conversation.tree import Point
from backstory.errors import CannotWrite, FileInTheWay
from backstory.export.exporting import WrittenFile, everything, export
from backstory.ingest.ingest import ingest
from backstory.model import (
    AssistantText,
    Compacted,
    Complete,
    Error,
    Event,
    ModelSwitch,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)
from backstory.store import Store, open_store
from backstory.store.tables import compactions
from backstory.store.tables.compactions import NewCompaction
from tests.support import azs_files
from tests.support.azs_files import CASES, AzsFile
from tests.support.clock import NOW
from tests.support.machines import SMALL, Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = {
    "UserMessage": "28b52ffd00581901007b22557365724d657373616765223a7b22636f6e74656e74223a2268656c6c6f227d7d",
    "Compacting": "28b52ffd005861000022436f6d70616374696e6722",
    "ModelSwitch": "28b52ffd00580101007b224d6f64656c537769746368223a7b226d6f64656c223a226f707573227d7d",
}
"""What AZUREAL's own encoder makes of three events."""
OPENING = """
PRAGMA journal_mode = DELETE; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;
CREATE TABLE IF NOT EXISTS sessions (id INTEGER PRIMARY KEY);
CREATE INDEX IF NOT EXISTS idx_events_session ON events(session_id, seq);
CREATE INDEX IF NOT EXISTS idx_compactions_session ON compactions(session_id);
UPDATE meta SET value='3' WHERE key='schema_version';
"""
"""What it does whenever it opens a file, as far as the tables are there."""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "own.bks", now=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "out" / "sessions.azs"


def written(store: Store, target: Path, *, force: bool = False, exact: bool = False) -> WrittenFile:
    return export("azs", everything([store]), target, exact=exact, force=force, now=NOW)


def made(store: Store, target: Path, *events: Event) -> WrittenFile:
    store.append_events(store.create_session(worktree="/home/dev/work"), events)
    return written(store, target)


# an independent reader ----------------------------------------------------------------------------------------


def ask(path: Path, sql: str, *values: Any) -> list[Any]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(sql, values).fetchall()


def load(path: Path, session: int = 1) -> list[Any]:
    """A session's events as AZUREAL loads them: a cell that is no blob fails all of them."""
    found = []
    for kind, data in ask(path, "select kind, data from events where session_id = ? order by seq", session):
        assert isinstance(data, bytes)
        event = json.loads(zstandard.ZstdDecompressor().decompressobj().decompress(data))
        assert kind == (event if isinstance(event, str) else next(iter(event)))
        found.append(event)
    return found


# the format ---------------------------------------------------------------------------------------------------


def test_its_bytes_are_those_of_its_own_encoder(store: Store, target: Path) -> None:
    made(store, target, UserMessage(content="hello"), Compacted(), ModelSwitch(model="opus"))
    rows = ask(target, "select kind, hex(data), char_len, seq from events order by seq")
    assert [(kind, data.lower(), length, seq) for kind, data, length, seq in rows] == [
        ("UserMessage", GOLDEN["UserMessage"], 5, 1), ("Compacting", GOLDEN["Compacting"], 0, 2),
        ("ModelSwitch", GOLDEN["ModelSwitch"], 0, 3),
    ]  # fmt: skip


def test_it_opens_as_its_own_files_do(store: Store, target: Path, tmp_path: Path) -> None:
    made(store, target, UserMessage(content="hello"))
    with closing(sqlite3.connect(target)) as db:
        assert db.execute("pragma journal_mode").fetchone() == ("delete",)
        db.executescript(OPENING)
        assert db.execute("select value from meta where key = 'schema_version'").fetchone() == ("3",)
        db.execute("insert into sessions(worktree) values ('main')")
        db.execute("insert into events(session_id, seq, kind, data, char_len) values (2, 1, 'Hook', x'00', 0)")
        db.commit()
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
    own = AzsFile(tmp_path / "own.azs").path
    columns = 'select m.name, c.name, c.type, c."notnull", c.pk from sqlite_master m, pragma_table_info(m.name) c'
    assert ask(target, f"{columns} order by 1, 2") == ask(own, f"{columns} order by 1, 2")


def test_keys_stand_in_the_order_of_their_bytes(store: Store, target: Path) -> None:
    given = {"file_path": "/a", "z": {"é": 1, "b": [{"d": 1, "a": 2}]}, "Z": 1, "old_string": "x"}
    made(store, target, ToolCall(tool_use_id="t", tool_name="Edit", tool=Tool.EDIT, file_path="/a", input=given))
    (call,) = load(target)
    body = call["ToolCall"]
    assert list(body) == ["tool_use_id", "tool_name", "file_path", "input"]
    assert json.dumps(body["input"], ensure_ascii=False) == (
        '{"Z": 1, "file_path": "/a", "old_string": "x", "z": {"b": [{"a": 2, "d": 1}], "é": 1}}'
    )


def test_lengths_are_bytes_of_the_compact_form(store: Store, target: Path) -> None:
    call = ToolCall(tool_use_id="t", tool_name="Bash", tool=Tool.SHELL, input={"command": "ä", "timeout": 9})
    result = ToolResult(tool_use_id="t", tool_name="Bash", tool=Tool.SHELL, content="one\ntwo\nüber")
    made(store, target, UserMessage(content="größer"), call, result, AssistantText(text="大きく"))
    rows = ask(target, "select kind, char_len from events order by seq")
    assert rows == [
        ("UserMessage", 8), ("ToolCall", len("Bash") + len('{"command":"ä"}'.encode())), ("ToolResult", 9),
        ("AssistantText", 9),
    ]  # fmt: skip
    assert load(target)[2]["ToolResult"]["content"] == "two\nüber"


def test_a_turn_that_ended_has_its_badge(store: Store, target: Path) -> None:
    made(store, target, UserMessage(content="q"), Complete(success=True, duration_ms=5000, cost_usd=0.25))
    assert load(target)[-1] == {"Complete": {"success": True, "duration_ms": 5000, "cost_usd": 0.25}}
    assert ask(target, "select completed, duration_ms, cost_usd, last_claude_uuid from sessions") == [
        (1, 5000, 0.25, "")
    ]


def test_a_turn_that_goes_on_has_none(store: Store, target: Path) -> None:
    made(store, target, UserMessage(content="q"), Complete(success=False), UserMessage(content="again"))
    assert ask(target, "select completed, duration_ms, cost_usd from sessions") == [(None, None, None)]
    assert load(target)[1] == {"Complete": {"success": False, "duration_ms": 0, "cost_usd": 0.0}}


def test_times_are_as_sqlite_writes_them(store: Store, target: Path) -> None:
    made(store, target, UserMessage(content="q"))
    ((created,),) = ask(target, "select created from sessions")
    assert ask(target, "select datetime(?)", created) == [(created,)]


def test_what_it_has_no_kind_for_is_a_hook_and_never_an_answer(store: Store, target: Path) -> None:
    made(store, target, UserMessage(content="q"), Error(message="no credit"), Thinking(text="hm"))
    assert load(target)[1:] == [{"Hook": {"name": "error", "output": "no credit"}}]


def test_a_summary_stands_behind_the_last_event_that_it_covers(store: Store, target: Path) -> None:
    session = store.create_session(worktree="/w")
    store.append_events(session, [UserMessage(content="a"), Thinking(text="x"), AssistantText(text="b")])
    after = [each.seq for each in store.events(session)][-1]
    store.append_events(session, [UserMessage(content="c")])
    assert store.decide(compactions.add, session.id, NewCompaction(after_seq=after, summary="They said b."))
    written(store, target)
    assert ask(target, "select session_id, after_seq, summary from compactions") == [(1, 2, "They said b.")]


def test_the_session_that_was_active_last_is_listed_first_there(store: Store, target: Path) -> None:
    first, second = (store.create_session(worktree="/w") for _ in range(2))
    store.append_events(second, [UserMessage(content="second")])
    store.append_events(first, [UserMessage(content="first")])
    written(store, target)
    rows = ask(target, "select session_id from events group by session_id order by max(id) desc")
    assert len(rows) == 2
    assert [row[0] for row in ask(target, "select id from sessions order by id")] == [1, 2]


# what it cannot hold ------------------------------------------------------------------------------------------


def test_what_has_no_place_is_reported(store: Store, target: Path) -> None:
    done = made(
        store, target, UserMessage(content="q"), Thinking(text="hm"),
        ToolCall(tool_use_id="t", tool_name="Bash", tool=Tool.SHELL, input={"command": "ls", "timeout": 3}),
        ToolResult(tool_use_id="t", tool_name="Bash", tool=Tool.SHELL, content="a\nb\nc"), Compacted(summary="All."),
    )  # fmt: skip
    wanted = {"thoughts": 1, "full_calls": 1, "full_results": 1, "summaries": 1}
    assert {name: done.reduced.get(name) for name in wanted} == wanted


def test_nothing_is_reported_of_what_is_all_there(machine: Machine, target: Path, tmp_path: Path) -> None:
    folder = tmp_path / "worktree"
    azs_files.conversation(folder / ".azureal" / "sessions.azs")
    read_azs(machine, folder)
    assert written(machine.store, target).reduced == {}


def test_of_several_branches_the_current_one_is_there(machine: Machine, target: Path) -> None:
    from tests.support import ah_files

    project = machine.home / "project"
    ah_files.CASES["tree"][0](project / ".ah" / ah_files.file_name("tree"))
    ingest(machine.store, [agents.load("ah")], environ={"PWD": str(project)}, home=machine.home, now=NOW)
    done = written(machine.store, target)
    prompts = [each["UserMessage"]["content"] for each in load(target) if "UserMessage" in each]
    assert prompts == ["Hello", "Tell me about Python"]
    assert done.reduced["branches"] == 1


def test_what_stands_behind_a_record_that_was_checked_out_is_left_out(store: Store, target: Path) -> None:
    session = store.create_session(worktree="/w")
    store.append_events(session, [UserMessage(content="q"), AssistantText(text="a"), AssistantText(text="b")])
    store.append_events(session, [Complete(success=True)])
    first, *_ = store.turns(session)
    seqs = {each.event.text: each.seq for each in store.events(session) if isinstance(each.event, AssistantText)}
    store.checkout(session, Point(first.uid, seqs["a"]))
    done = written(store, target)
    assert load(target) == [{"UserMessage": {"content": "q"}}, {"AssistantText": {"text": "a"}}]
    assert done.reduced["branches"] == 1
    store.checkout(session, Point(first.uid, seqs["b"]))
    done = written(store, target, force=True)
    assert (len(load(target)), "branches" in done.reduced) == (4, False)


# there and back -----------------------------------------------------------------------------------------------


def read_azs(machine: Machine, folder: Path) -> None:
    chosen = [agents.load("azureal")]
    report = ingest(machine.store, chosen, environ={"PWD": str(folder)}, home=machine.home, now=NOW)
    assert report.errors == []


def said(store: Store) -> list[tuple[Any, ...]]:
    """Prompts, answers and calls of every session, in their compact form, and how its turns ended."""
    sessions = []
    for session in store.sessions(subagents=True):
        rows: list[Any] = []
        for each in store.events(session):
            match each.event:
                case UserMessage(content=text) | AssistantText(text=text) if text:
                    rows.append((each.kind, text))
                case ToolCall() as call:
                    rows.append(
                        (call.tool_use_id, call.tool_name, call.file_path, json.dumps(call.input, sort_keys=True))
                    )
                case ToolResult() as result:
                    rows.append((result.tool_use_id, result.tool_name, result.content, result.is_error))
        if rows:
            sessions.append(tuple(rows))
    return sorted(sessions, key=str)


def test_what_was_said_and_done_is_the_same_where_it_is_read_again(
    machine: Machine, target: Path, tmp_path: Path
) -> None:
    # One of them was rewound: what was left behind is on no branch that is written.
    for name in SMALL:
        machine.put(name)
    machine.read()
    done = written(machine.store, target)
    there = Machine(tmp_path / "there")
    folder = tmp_path / "there" / "work"
    (folder / ".azureal").mkdir(parents=True)
    target.rename(folder / ".azureal" / "sessions.azs")
    read_azs(there, folder)
    assert "branches" not in done.reduced
    assert said(there.store) == said(machine.store)
    there.close()


@pytest.mark.parametrize("case", CASES)
def test_what_was_read_from_such_a_file_is_written_row_by_row_as_it_was(
    machine: Machine, target: Path, tmp_path: Path, case: str
) -> None:
    file = CASES[case][0](tmp_path / "worktree" / ".azureal" / "sessions.azs")
    read_azs(machine, tmp_path / "worktree")
    written(machine.store, target)
    for sql in (
        "select id, name, worktree, created from sessions",
        "select session_id, after_seq, summary, created from compactions",
        "select session_id, seq, kind, char_len from events",
    ):  # fmt: skip
        assert ask(target, sql) == ask(file.path, sql)
    before = [azs_files.unpacked(cell) for (cell,) in ask(file.path, "select data from events order by id")]
    assert load(target) == before


@pytest.mark.parametrize(
    "sql",
    [
        "update events set data = x'00' where seq = 13", "update events set data = cast('{' as blob)",
        "update events set char_len = 'long', kind = x'ff'", "update sessions set created = 7, worktree = x'00'",
        "update compactions set after_seq = 'x', summary = x'ff', created = 1.5",
        """update events set data = cast('{"Complete":{"duration_ms":[1],"cost_usd":1e999}}' as blob)""",
    ],
    ids=["no frame", "no JSON", "other types", "no times", "a bad summary", "a bad end"],
)  # fmt: skip
def test_odd_rows_keep_nothing_from_being_written(machine: Machine, target: Path, tmp_path: Path, sql: str) -> None:
    file = azs_files.conversation(tmp_path / "worktree" / ".azureal" / "sessions.azs")
    file.compaction(1, 3, "All.")
    file.run(sql)
    chosen = [agents.load("azureal")]
    ingest(machine.store, chosen, environ={"PWD": str(tmp_path / "worktree")}, home=machine.home, now=NOW)
    done = written(machine.store, target)
    assert (done.rows["sessions"], done.rows["events"]) == (1, 18)


def test_exactly_is_what_was_read_from_such_files_alone(machine: Machine, target: Path, tmp_path: Path) -> None:
    azs_files.conversation(tmp_path / "worktree" / ".azureal" / "sessions.azs")
    read_azs(machine, tmp_path / "worktree")
    machine.put("claude/resume")
    machine.read("claude")
    done = written(machine.store, target, exact=True)
    assert (done.rows["sessions"], done.left_out) == (1, 1)


# its place, and the command -----------------------------------------------------------------------------------


def test_a_file_that_is_there_is_left_unless_forced(store: Store, target: Path) -> None:
    made(store, target, UserMessage(content="q"))
    target.write_bytes(b"mine")
    with pytest.raises(FileInTheWay):
        written(store, target)
    assert target.read_bytes() == b"mine"
    written(store, target, force=True)
    assert len(load(target)) == 1


def test_the_file_is_its_owner_s_alone(store: Store, target: Path) -> None:
    made(store, target, UserMessage(content="q"))
    assert (target.stat().st_mode & 0o777, [each.name for each in target.parent.iterdir()]) == (0o600, [target.name])


def test_where_the_disk_is_full_nothing_is_left(store: Store, target: Path) -> None:
    store.append_events(store.create_session(worktree="/w"), [UserMessage(content=f"{n}" * 5_000) for n in range(200)])
    limit, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, limit[1]))
    try:
        with pytest.raises(CannotWrite):
            written(store, target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(target.parent.iterdir()) == []
    written(store, target)
    assert len(load(target)) == 200


def test_the_command_says_what_it_wrote_and_what_it_left_out(store: Store, target: Path) -> None:
    store.append_events(store.create_session(worktree="/w"), [UserMessage(content="q"), Thinking(text="hm")])
    store.close()
    args = ["--store", str(store.path), "export", "--all", "--format", "azs"]
    done = CliRunner().invoke(cli, [*args, "--json", "-o", str(target)])
    told = json.loads(done.stdout)
    assert (told["format"], told["row_counts"]["sessions"], told["reduced"]["thoughts"]) == ("azs", 1, 1)
    again = CliRunner().invoke(cli, [*args, "-o", str(target.with_name("two.azs"))])
    assert "This format has no place for 1 thought," in again.stderr
    assert "thoughts" not in again.stdout


PROGRAM = """
import sys
from pathlib import Path
from backstory.export.exporting import everything, export
from backstory.store import open_store
with open_store(Path(sys.argv[1])) as store:
    export("azs", everything([store]), Path(sys.argv[2]), exact=False, force=False, now=0)
print(peak_kib())
"""
TURNS_SMALL, TURNS_LARGE = 200, 6_000
KIB_MORE_MAX = 24 * 1024


@pytest.mark.slow
def test_many_turns_take_little_more_memory_than_few(tmp_path: Path) -> None:
    from tests.support.memory import PROGRAM as MEASURED

    peaks = []
    for count in (TURNS_SMALL, TURNS_LARGE):
        path = tmp_path / f"{count}.bks"
        with open_store(path, now=lambda: NOW) as store:
            session = store.create_session(worktree="/w")
            for start in range(0, count, 500):
                texts = [(f"{n} " * 100, f"{n}. " * 500) for n in range(start, min(start + 500, count))]
                pairs = ([UserMessage(content=asked), AssistantText(text=told)] for asked, told in texts)
                store.append_events(session, [event for pair in pairs for event in pair])
        command = [sys.executable, "-c", MEASURED + PROGRAM, str(path), str(tmp_path / f"{count}.azs")]
        environ = {"PYTHONPATH": ":".join(each for each in sys.path if each)}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
        peaks.append(int(done.stdout))
    assert peaks[1] - peaks[0] < KIB_MORE_MAX
