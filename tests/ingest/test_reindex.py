"""What is derived can be derived again from the bytes alone, and comes out the same."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory.agents.claude import tools
from backstory.exchange import replication
from backstory.ingest.reindex import BULK_SESSIONS, reindex
from backstory.store import open_store
from backstory.store.intake import derived_tables, ingesting, rederiving
from tests.support import make_golden
from tests.support.clock import NOW
from tests.support.machines import (
    CASES,
    SMALL,
    Machine,
    case,
    claude_log,
    conversation,
    differences,
    lines,
    looked_up,
    prompts,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

ALL = sorted(
    f"{each.parent.name}/{each.name}"
    for agent in ("claude", "codex")
    for each in (CASES / agent).iterdir()
    if len(list(each.rglob("*.jsonl"))) == 1
)
EMPTIED = ("session_files", "file_touches", "session_refs", "call_results", "checkpoints", "turn_texts")


def tampered(machine: Machine, *statements: str) -> None:
    with closing(apsw.Connection(str(machine.store_path))) as db:
        for statement in statements:
            db.execute(statement)


def test_the_wal_stays_short_beside_its_file_while_all_is_derived_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingesting, "WAL_PAGES", 10)
    for number in range(BULK_SESSIONS):
        machine.write(claude_log(f"s{number}"), lines(*conversation(40, 1_000 * number)))
    machine.read("claude")
    machine.store.close()
    wal, lengths = machine.store_path.with_name(f"{machine.store_path.name}-wal"), list[int]()
    done = reindex(machine.store, now=NOW, progress=lambda *_: lengths.append(wal.stat().st_size))
    assert done.sessions == BULK_SESSIONS
    # With what one session changes, where it would be more than the file.
    assert max(lengths) < machine.store_path.stat().st_size / 2


@pytest.mark.parametrize("events_too", [False, True])
def test_a_reindex_tells_when_a_session_began_and_leaves_its_uid(machine: Machine, events_too: bool) -> None:
    machine.write(claude_log("s"), lines(*conversation(2)))
    machine.read()
    before = machine.content()
    tampered(machine, "update sessions set created = '2026-11-21T21:00:02.500Z'")
    reindex(machine.store, now=NOW, events_too=events_too)
    assert differences(before, machine.content()) == []


@pytest.mark.parametrize("events_too", [False, True])
def test_a_reindex_changes_nothing_of_what_an_ingest_stored(machine: Machine, events_too: bool) -> None:
    for name in ALL:
        machine.put(name)
    machine.read()
    before = machine.content()
    done = reindex(machine.store, now=NOW, events_too=events_too)
    assert done.failed == []
    assert differences(machine.content(), before) == []
    assert machine.store.verify().problems == []


@pytest.mark.parametrize("events_too", [False, True])
def test_what_is_derived_comes_back_when_it_was_lost(machine: Machine, events_too: bool) -> None:
    for name in SMALL:
        machine.put(name)
    machine.read()
    before = machine.content()
    tampered(
        machine, *[f"delete from {table}" for table in EMPTIED], "delete from search_index where rowid > 0",
    )  # fmt: skip
    assert differences(machine.content(), before) != []
    shutil.rmtree(machine.home)
    reindex(machine.store, now=NOW, events_too=events_too)
    assert differences(machine.content(), before) == []


def test_with_force_events_are_read_from_the_bytes_again(machine: Machine) -> None:
    for name in SMALL:
        machine.put(name)
    machine.read()
    before = machine.content()
    tampered(
        machine,
        'update events set data = \'{"AssistantText":{"text":"forged"}}\' where kind = \'AssistantText\'',
        "update turns set prompt = 'forged', outcome = 'failed'",
    )
    reindex(machine.store, now=NOW)
    assert differences(machine.content(), before) != []
    reindex(machine.store, now=NOW, events_too=True)
    assert differences(machine.content(), before) == []


def test_an_adapter_that_learned_something_tells_it_of_old_logs(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.put("claude/tools")
    monkeypatch.setattr(tools, "TOOLS", {})
    machine.read()
    monkeypatch.undo()
    told = [each for each in machine.store.events(1) if each.kind == "ToolCall"]
    assert {each.event.tool for each in told} == {"OTHER"}  # type: ignore[attr-defined]
    reindex(machine.store, now=NOW, events_too=True)
    again = [each for each in machine.store.events(1) if each.kind == "ToolCall"]
    assert {each.event.tool for each in again} & {"READ", "SHELL"}  # type: ignore[attr-defined]
    assert [each.seq for each in again] == [each.seq for each in told]


@pytest.mark.parametrize("name", ["claude/resume", "codex/resume"])
def test_a_log_goes_on_after_a_reindex_with_force_as_without(
    machine: Machine, another: Callable[[], Machine], name: str
) -> None:
    whole = case(name)
    half = whole[: len(whole) // 2]
    machine.put(name, half)
    machine.read()
    reindex(machine.store, now=NOW, events_too=True)
    machine.put(name)
    machine.read()
    at_once = another()
    at_once.put(name)
    at_once.read()
    assert differences(machine.content(), at_once.content()) == []


def test_sessions_whose_logs_are_gone_are_kept_and_counted(machine: Machine) -> None:
    path = machine.put("claude/tools")
    machine.put("codex/mcp")
    machine.read()
    before = machine.content()
    data = path.read_bytes()
    path.unlink()
    assert reindex(machine.store, now=NOW).gone == 1
    assert reindex(machine.store, now=NOW + 1).gone == 1
    assert looked_up(machine.store_path, "select gone from logs where gone is not null") == [(NOW,)]
    assert differences(machine.content(), before) == []
    path.write_bytes(data)
    assert reindex(machine.store, now=NOW).gone == 0


def test_a_store_that_an_earlier_version_derived_is_derived_by_the_next_ingest(tmp_path: Path) -> None:
    old = make_golden.derived_earlier(tmp_path / "old.bks")
    with open_store(old, now=lambda: NOW) as store:
        assert reindex(store, now=NOW, only_stale=True).sessions == 2
        assert reindex(store, now=NOW, only_stale=True).sessions == 0
    found = looked_up(old, "select file_path, action from session_files")
    assert found == [("/f.py", "read")]
    version = looked_up(old, "select value from meta where key = 'derived_version'")
    assert version == [(str(derived_tables.TABLES_VERSION),)]


def test_what_an_earlier_version_derived_of_a_log_that_grew_since_is_derived_anew(machine: Machine) -> None:
    data = case("claude/tools")
    half = data.rindex(b"\n", 0, len(data) - 1) + 1
    path = machine.put("claude/tools", data[:half])
    machine.read()
    tampered(machine, "update logs set derived = 1", *(f"delete from {table}" for table in EMPTIED))
    path.write_bytes(data)
    machine.read()
    reindex(machine.store, now=NOW, only_stale=True)
    derived = machine.content()
    reindex(machine.store, now=NOW)
    assert differences(derived, machine.content()) == []


def test_what_is_copied_out_of_a_store_that_was_brought_forward_is_derived_anew(tmp_path: Path) -> None:
    old, copy = make_golden.derived_earlier(tmp_path / "old.bks"), tmp_path / "copy.bks"
    with open_store(old, now=lambda: NOW) as project, open_store(copy, now=lambda: NOW) as home:
        project.make_ready()
        assert replication.pull_sessions(home, project) == 2
        assert reindex(home, now=NOW, only_stale=True).sessions == 2
    assert looked_up(copy, "select file_path, action from session_files") == [("/f.py", "read")]


def test_a_reindex_that_was_killed_is_finished_by_the_next(machine: Machine) -> None:
    for name in SMALL:
        machine.put(name)
    machine.read()
    before = machine.content()
    machine.store.close()
    code = (
        "import os, signal, sys\n"
        "from backstory.ingest.reindex import reindex\n"
        "from backstory.store import open_store\n"
        "def stop(done, total):\n"
        "    if done == total // 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "reindex(open_store(sys.argv[1], shared=True), now=0, progress=stop)\n"
    )
    tampered(machine, "update logs set derived = 0")
    killed = subprocess.run([sys.executable, "-c", code, str(machine.store_path)], env=dict(os.environ), check=False)
    assert killed.returncode == -signal.SIGKILL
    left = reindex(machine.store, now=NOW, only_stale=True)
    assert 0 < left.sessions < len(before)
    assert differences(machine.content(), before) == []


def test_one_session_that_cannot_be_told_again_does_not_keep_the_others_from_it(machine: Machine) -> None:
    machine.put("claude/tools")
    machine.put("codex/mcp")
    machine.read()
    tampered(machine, "update chunks set data = x'00' where log_id = 1")
    done = reindex(machine.store, now=NOW)
    assert (done.sessions, len(done.failed)) == (1, 1)


def test_what_cannot_be_told_again_keeps_what_was_derived(machine: Machine) -> None:
    machine.put("claude/tools")
    machine.read()
    before = looked_up(machine.store_path, "select file_path from session_files")
    assert before != []
    tampered(machine, "update chunks set data = x'00'")
    assert len(reindex(machine.store, now=NOW).failed) == 1
    assert looked_up(machine.store_path, "select file_path from session_files") == before


def test_what_is_read_while_a_session_is_told_again_is_not_lost(
    machine: Machine, another: Callable[[], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = case("claude/resume")
    machine.put("claude/resume", whole[: len(whole) // 2])
    machine.read()
    change = machine.store.change

    def changed(what: Any, *args: Any, **options: Any) -> Any:
        done = change(what, *args, **options)
        if what is rederiving.clear:
            machine.put("claude/resume")
            machine.read()
        return done

    monkeypatch.setattr(machine.store, "change", changed)
    reindex(machine.store, now=NOW, events_too=True)
    monkeypatch.undo()
    reindex(machine.store, now=NOW, only_stale=True)
    at_once = another()
    at_once.put("claude/resume")
    at_once.read()
    assert differences(machine.content(), at_once.content()) == []


def command(machine: Machine, *words: str) -> subprocess.CompletedProcess[str]:
    environ: dict[str, Any] = {**os.environ, "HOME": str(machine.home), "BACKSTORY_HOME": str(machine.home / "bh")}
    return subprocess.run(
        [sys.executable, "-m", "backstory", *words], env=environ, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("words", [("reindex",), ("chronicle", "reindex")])
def test_the_command_says_what_it_did(machine: Machine, words: tuple[str, ...]) -> None:
    machine.put("claude/tools")
    done = command(machine, *words)
    assert done.stderr.startswith("Reindexing sessions into the store…\n")
    assert done.stdout.startswith("✓ Reindex complete: 1 session, ")
    assert done.returncode == 0


def test_the_command_says_what_went_wrong(machine: Machine) -> None:
    machine.put("claude/tools")
    command(machine, "ingest")
    with closing(apsw.Connection(str(machine.home / "bh" / "store.db"))) as db:
        db.execute("update chunks set data = x'00'")
    done = command(machine, "reindex", "--derived")
    assert done.returncode == 1
    assert done.stdout.startswith("⚠ Reindex completed with errors: ")
    assert "session " in done.stderr


@pytest.mark.parametrize("events_too", [False, True])
def test_a_prompt_on_a_last_line_without_its_end_is_a_turn_also_after_a_reindex(
    machine: Machine, events_too: bool
) -> None:
    machine.write(claude_log("s"), lines(*conversation(2)) + conversation(1, start=2)[0])
    machine.read()
    before = machine.content()
    assert prompts(machine.store) == ["word0 said", "word2 said"]
    reindex(machine.store, now=NOW, events_too=events_too)
    assert differences(machine.content(), before) == []
