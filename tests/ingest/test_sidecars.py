"""What lies beside a log: kept byte for byte, given back, asked for what it says, and nothing else touched."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from backstory import agents
from backstory.export.full_form import FullForms
from backstory.ingest import discover as discovering
from backstory.ingest import sidecars
from backstory.ingest.discover import discover
from backstory.ingest.ingest import ingest
from backstory.ingest.sidecars import gather, reapply_sidecars
from backstory.model import ToolResult
from backstory.store.tables import sidecars as stored_sidecars
from tests.support.clock import NOW
from tests.support.every import every
from tests.support.machines import CLAUDE_FOLDER, claude_line, lies, lines, looked_up, restored

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from backstory.ingest.report import IngestReport
    from backstory.store import Session
    from tests.support.machines import Machine

SESSION = "514f3844-2975-44e4-a4d0-211fd59e36e9"
FOLDER = Path(".copilot/session-state") / SESSION
LOG = FOLDER / "events.jsonl"
CLAUDE_SESSION = "011ed182-7e99-4421-9c41-c873947f9fe6"

WORKSPACE = f"""\
id: {SESSION}
cwd: /home/dev/work
name: Mend the gate
user_named: false
"""
SUMMARY = "<overview>We counted.</overview>\n<history>1. To 3.</history>\n<next_steps>Go on.</next_steps>"
INDEX = """\
# Checkpoint History

| # | Title | File |
|---|-------|------|
| 1 | Counting to three | 001-counting.md |
| 2 | And \\| further | 002-and-further.md |
"""


def record(kind: str, at: int, **data: Any) -> bytes:
    said = {"type": kind, "data": data, "id": f"{at:08}-0000", "timestamp": f"2026-11-21T21:00:{at:02}.000Z"}
    return json.dumps(said).encode()


def begun(**more: Any) -> list[bytes]:
    return [record("session.start", 0, sessionId=SESSION, version=1, **more), record("user.message", 1, content="Go")]


def compacted(at: int, summary: str = SUMMARY) -> bytes:
    told = f"{summary}\n<checkpoint_title>From the log</checkpoint_title>"
    return record("session.compaction_complete", at, success=True, summaryContent=told)


@pytest.fixture
def session(machine: Machine) -> Path:
    """The folder of a session with a log and a workspace.yaml."""
    machine.write(LOG, lines(*begun()))
    machine.write(FOLDER / "workspace.yaml", WORKSPACE.encode())
    return machine.home / FOLDER


def read(machine: Machine) -> IngestReport:
    return machine.read("claude", "copilot")


def the_session(machine: Machine) -> Session:
    (found,) = machine.store.sessions()
    return found


def kept(machine: Machine) -> dict[str, bytes]:
    """The content of every sidecar in the store, by name."""
    store = machine.store
    return {
        each.name: store.ask(stored_sidecars.read, each.id)
        for log in store.logs()
        for each in store.ask(stored_sidecars.of_log, log.id)
    }


def checkpoints(machine: Machine) -> list[Any]:
    return looked_up(
        machine.store_path,
        "select checkpoint_number, title, overview, next_steps, seq from checkpoints order by checkpoint_number",
    )


def reasons(report: IngestReport) -> dict[str, str]:
    return {Path(each.path).name: each.reason for each in (*report.gave_nothing, *report.errors)}


# kept and given back ------------------------------------------------------------------------------------------


def test_what_lies_beside_a_log_is_kept_byte_for_byte(machine: Machine, session: Path) -> None:
    beside = {
        "workspace.yaml": WORKSPACE.encode(),
        "plan.md": b"# Plan\r\n\xff not UTF-8 \0",
        "checkpoints/index.md": INDEX.encode(),
        "checkpoints/001-counting.md": SUMMARY.encode(),
        "files/deep/er/notes.txt": b"",
        "research/report.md": b"# Report",
    }
    for name, data in beside.items():
        machine.write(FOLDER / name, data)
    report = read(machine)
    assert report.errors == []
    assert kept(machine) == beside
    assert report.total("companions_read") == len(beside)


def test_restore_puts_it_beside_the_log_with_its_time(machine: Machine, session: Path, tmp_path: Path) -> None:
    path = machine.write(FOLDER / "files/notes.txt", b"mine")
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    read(machine)
    (told,) = restored(machine.store, tmp_path / "out")
    found = tmp_path / "out/copilot/session-state" / SESSION / "files/notes.txt"
    assert found.read_bytes() == b"mine"
    assert (found.stat().st_mtime_ns, found.stat().st_mode & 0o777) == (1_700_000_000_123_456_789, 0o600)
    assert msgspec.to_builtins(told)["companions"][0] == {
        "name": "files/notes.txt",
        "written": str(found),
        "bytes": 4,
        "sha256": hashlib.sha256(b"mine").hexdigest(),
        "error": None,
    }


def test_what_is_restored_reads_as_the_same_session(
    machine: Machine, session: Path, another: Callable[[], Machine]
) -> None:
    machine.write(FOLDER / "checkpoints/001-counting.md", SUMMARY.encode())
    machine.write(FOLDER / "checkpoints/index.md", INDEX.encode())
    read(machine)
    other = another()
    restored(machine.store, other.home)
    (other.home / "copilot").rename(other.home / ".copilot")
    read(other)
    assert (kept(other), checkpoints(other)) == (kept(machine), checkpoints(machine))
    assert the_session(other).title == the_session(machine).title == "Mend the gate"


def test_a_file_that_differs_is_not_overwritten(machine: Machine, session: Path, tmp_path: Path) -> None:
    read(machine)
    (told,) = restored(machine.store, tmp_path / "out")
    theirs = lies(told.companions[0])
    theirs.write_bytes(b"other")
    (told,) = restored(machine.store, tmp_path / "out")
    assert told.error is None
    assert "workspace.yaml exists and differs" in (told.companions[0].error or "")
    assert theirs.read_bytes() == b"other"


def test_a_name_in_a_store_leads_nowhere_else(machine: Machine, session: Path, tmp_path: Path) -> None:
    read(machine)
    looked_up(machine.store_path, "update sidecars set name = '../../../../../escaped.yaml'")
    (told,) = restored(machine.store, tmp_path / "out")
    assert (told.error, told.companions[0].written) == (None, None)
    assert "is not a path inside the folder" in (told.companions[0].error or "")
    assert list(tmp_path.rglob("escaped*")) == []


def test_nothing_that_is_as_it_was_is_opened(
    machine: Machine, session: Path, files_opened: Callable[[], AbstractContextManager[list[str]]]
) -> None:
    read(machine)
    with files_opened() as opened:
        assert read(machine).total("companions_read") == 0
    assert opened == []


def test_what_changed_takes_the_place_of_what_was(machine: Machine, session: Path) -> None:
    read(machine)
    machine.write(FOLDER / "workspace.yaml", WORKSPACE.encode() + b"branch: main\n")
    assert read(machine).total("companions_read") == 1
    assert kept(machine) == {"workspace.yaml": WORKSPACE.encode() + b"branch: main\n"}


def test_what_is_gone_stays_kept(machine: Machine, session: Path) -> None:
    read(machine)
    (session / "workspace.yaml").unlink()
    assert read(machine).errors == []
    assert kept(machine) == {"workspace.yaml": WORKSPACE.encode()}


def test_what_comes_later_is_found_though_the_log_is_as_it_was(machine: Machine, session: Path) -> None:
    read(machine)
    machine.write(FOLDER / "plan.md", b"# Plan")
    assert read(machine).total("logs_read") == 0
    assert kept(machine)["plan.md"] == b"# Plan"


def test_a_session_that_lies_in_two_places_is_read_once(machine: Machine, session: Path) -> None:
    elsewhere = Path("state/.copilot/session-state") / SESSION
    machine.write(elsewhere / "events.jsonl", lines(*begun()))
    machine.write(elsewhere / "workspace.yaml", b"name: Another\n")
    chosen = [agents.load("copilot")]
    for expected in (1, 0):
        environ = {"XDG_STATE_HOME": str(machine.home / "state")}
        report = ingest(machine.store, chosen, environ=environ, home=machine.home, now=NOW)
        assert report.total("companions_read") == expected
    assert the_session(machine).title == "Mend the gate"


def test_a_rewritten_log_takes_over_what_lies_beside_it(machine: Machine, session: Path, tmp_path: Path) -> None:
    machine.write(FOLDER / "plan.md", b"# Plan")
    read(machine)
    (session / "plan.md").unlink()
    machine.write(LOG, lines(*begun(copilotVersion="2"), record("user.message", 2, content="On")))
    read(machine)
    machine.write(FOLDER / "workspace.yaml", b"name: Anew\n")
    read(machine)
    assert kept(machine) == {"plan.md": b"# Plan", "workspace.yaml": b"name: Anew\n"}
    assert machine.store.verify().problems == []
    restored(machine.store, tmp_path / "out")


def test_what_is_gone_stays_kept_when_its_log_gives_way_to_another(machine: Machine, session: Path) -> None:
    machine.write(FOLDER / "plan.md", b"# Plan")
    read(machine)
    (session / "plan.md").unlink()
    machine.write(LOG, lines(record("session.info", 5, message="new"), *begun()))
    read(machine)
    assert len(machine.store.logs()) == 1
    assert kept(machine) == {"plan.md": b"# Plan", "workspace.yaml": WORKSPACE.encode()}


def test_a_removed_session_leaves_nothing(machine: Machine, session: Path) -> None:
    read(machine)
    machine.store.remove(the_session(machine))
    read(machine)
    assert looked_up(machine.store_path, "select count(*) from sidecars") == [(0,)]


def test_damage_is_told(machine: Machine, session: Path) -> None:
    read(machine)
    assert machine.store.verify().problems == []
    looked_up(machine.store_path, "update sidecars set sha256 = zeroblob(32)")
    (problem,) = machine.store.verify().problems
    assert "workspace.yaml: the bytes do not match their checksum" in problem


# what it says -------------------------------------------------------------------------------------------------


def test_a_renamed_session_has_its_new_title_though_its_log_is_as_it_was(machine: Machine, session: Path) -> None:
    read(machine)
    assert the_session(machine).title == "Mend the gate"
    machine.write(FOLDER / "workspace.yaml", b"name: The gate\nuser_named: true\n")
    assert read(machine).total("logs_read") == 0
    assert the_session(machine).title == "The gate"


@pytest.mark.parametrize(("is_given", "expected"), [("true", "Mend the gate"), ("false", "Told by the log")])
def test_only_a_persons_title_comes_before_the_logs(
    machine: Machine, session: Path, is_given: str, expected: str
) -> None:
    titled = record("session.title_changed", 2, title="Told by the log")
    machine.write(LOG, lines(*begun(), titled))
    machine.write(FOLDER / "workspace.yaml", WORKSPACE.replace("false", is_given).encode())
    read(machine)
    assert the_session(machine).title == expected
    machine.write(LOG, lines(*begun(), titled, record("user.message", 3, content="On")))
    read(machine)
    assert the_session(machine).title == expected


def test_a_title_that_is_taken_away_stays(machine: Machine, session: Path) -> None:
    read(machine)
    machine.write(FOLDER / "workspace.yaml", b"cwd: /elsewhere\n")
    read(machine)
    assert the_session(machine).title == "Mend the gate"


def test_where_a_session_was_is_taken_only_if_its_log_does_not_say(machine: Machine, session: Path) -> None:
    machine.write(LOG, lines(*begun(context={"cwd": "/src", "repository": "dev/own"})))
    workspace = "cwd: /else\nrepository: dev/else\nbranch: side\n"
    machine.write(FOLDER / "workspace.yaml", workspace.encode())
    read(machine)
    found = the_session(machine)
    assert (found.cwd, found.repository, found.branch) == ("/src", "dev/own", "side")


def test_a_checkpoint_that_the_log_tells_too_is_one_with_the_title_of_the_index(
    machine: Machine, session: Path
) -> None:
    machine.write(LOG, lines(*begun(), compacted(2)))
    machine.write(FOLDER / "checkpoints/001-counting.md", SUMMARY.encode())
    machine.write(FOLDER / "checkpoints/index.md", INDEX.encode())
    read(machine)
    assert checkpoints(machine) == [(1, "Counting to three", "We counted.", "Go on.", 3)]


def test_a_checkpoint_of_which_only_a_file_is_left_has_its_number(machine: Machine, session: Path) -> None:
    # A rewind took the first compaction out of the log, and left its file.
    machine.write(LOG, lines(*begun(), compacted(2, "<overview>Second.</overview>")))
    machine.write(FOLDER / "checkpoints/001-counting.md", SUMMARY.encode())
    machine.write(FOLDER / "checkpoints/002-and-further.md", b"<overview>Second.</overview>\n")
    machine.write(FOLDER / "checkpoints/index.md", INDEX.encode())
    read(machine)
    expected = [(1, "Counting to three", "We counted.", "Go on.", None), (2, "And | further", "Second.", None, 3)]
    assert checkpoints(machine) == expected


def test_a_compaction_that_the_log_tells_after_its_file_is_no_second_one(machine: Machine, session: Path) -> None:
    machine.write(FOLDER / "checkpoints/001-counting.md", SUMMARY.encode())
    read(machine)
    assert checkpoints(machine) == [(1, None, "We counted.", "Go on.", None)]
    machine.write(LOG, lines(*begun(), compacted(2)))
    read(machine)
    assert checkpoints(machine) == [(1, "From the log", "We counted.", "Go on.", 3)]


def test_a_checkpoint_whose_number_another_one_has_gets_the_next(machine: Machine, session: Path) -> None:
    machine.write(LOG, lines(*begun(), compacted(2, "Something else.")))
    machine.write(FOLDER / "checkpoints/001-counting.md", SUMMARY.encode())
    read(machine)
    assert [row[:3] for row in checkpoints(machine)] == [(1, "From the log", "Something else.\n"
        "<checkpoint_title>From the log</checkpoint_title>"), (2, None, "We counted.")]  # fmt: skip


def test_a_title_of_the_index_that_changed_is_taken(machine: Machine, session: Path) -> None:
    machine.write(FOLDER / "checkpoints/001-counting.md", SUMMARY.encode())
    read(machine)
    machine.write(FOLDER / "checkpoints/index.md", INDEX.encode())
    read(machine)
    assert checkpoints(machine)[0][1] == "Counting to three"


def test_telling_again_changes_nothing(machine: Machine, session: Path) -> None:
    machine.write(LOG, lines(*begun(), compacted(2), compacted(3, "<overview>Third.</overview>")))
    machine.write(FOLDER / "checkpoints/001-counting.md", SUMMARY.encode())
    machine.write(FOLDER / "checkpoints/002-and-further.md", b"<overview>Second.</overview>")
    read(machine)
    before = (checkpoints(machine), the_session(machine))
    (log,) = machine.store.logs()
    reapply_sidecars(machine.store, log)
    assert (checkpoints(machine), the_session(machine)) == before


# a result that stands in a file -------------------------------------------------------------------------------

SPILLED = (
    "<persisted-output>\nOutput too large (60KB). Full output saved to: {}\n\n"
    "Preview (first 2KB):\n1\n2\n...\n</persisted-output>"
)
SPILLED_FILE = "b4n2lbpdx.txt"
WHOLE = "".join(f"{n}\n" for n in range(12_000))


def spilled_session(*, helper: str | None = None) -> bytes:
    """A Claude log in which a command's result was too long for it."""
    path = f"/home/dev/.claude/projects/-home-dev-work/{CLAUDE_SESSION}/tool-results/{SPILLED_FILE}"
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "seq 12000"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": SPILLED.format(path)}
    more: dict[str, Any] = {"sessionId": CLAUDE_SESSION}
    more |= {"isSidechain": True, "agentId": helper} if helper else {}
    return lines(
        claude_line("user", "u1", "Count", **more),
        claude_line("assistant", "u2", **more, message={"role": "assistant", "content": [call]}),
        claude_line("user", "u3", **more, message={"role": "user", "content": [result]}),
    )


def full_results(machine: Machine, session: Session) -> list[str]:
    full = FullForms(machine.store)
    told = [full.expand(each) for each in machine.store.events(session)]
    return [each.content for each in told if isinstance(each, ToolResult)]


def test_a_results_full_form_is_what_the_file_beside_the_log_holds(machine: Machine) -> None:
    machine.write(CLAUDE_FOLDER / f"{CLAUDE_SESSION}.jsonl", spilled_session())
    machine.write(CLAUDE_FOLDER / CLAUDE_SESSION / "tool-results" / SPILLED_FILE, WHOLE.encode())
    read(machine)
    assert kept(machine) == {f"{CLAUDE_SESSION}/tool-results/{SPILLED_FILE}": WHOLE.encode()}
    assert full_results(machine, the_session(machine)) == [WHOLE]


def test_without_the_file_it_is_what_the_log_has(machine: Machine) -> None:
    machine.write(CLAUDE_FOLDER / f"{CLAUDE_SESSION}.jsonl", spilled_session())
    read(machine)
    (told,) = full_results(machine, the_session(machine))
    assert told.startswith("<persisted-output>")


def test_a_helpers_result_may_stand_beside_its_parents_log(machine: Machine) -> None:
    machine.write(CLAUDE_FOLDER / f"{CLAUDE_SESSION}.jsonl", spilled_session())
    helper = CLAUDE_FOLDER / CLAUDE_SESSION / "subagents/agent-a1.jsonl"
    machine.write(helper, spilled_session(helper="a1"))
    machine.write(CLAUDE_FOLDER / CLAUDE_SESSION / "tool-results" / SPILLED_FILE, WHOLE.encode())
    read(machine)
    (child,) = machine.store.children(the_session(machine))
    assert full_results(machine, child) == [WHOLE]


@every(
    ("below", "log"),
    [
        ("p/s/tool-results/b4.txt", "p/s.jsonl"),
        ("p/s/workflows/r1.json", "p/s.jsonl"),
        ("p/s/subagents/workflows/r1/journal.jsonl", "p/s.jsonl"),
        ("p/s/subagents/agent-a1.meta.json", "p/s/subagents/agent-a1.jsonl"),
        ("p/agent-a1.meta.json", "p/agent-a1.jsonl"),
        ("p/s/tool-results/deep/b4.txt", None),
        ("p/memory/notes.md", None),
        ("tool-results/b4.txt", None),
    ],
)
def test_what_a_claude_session_keeps_beside_its_log(below: str, log: str | None) -> None:
    keeper = agents.load("claude").sidecars
    assert keeper is not None
    assert keeper.log_of(PurePath(below)) == (PurePath(log) if log else None)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"description":1}', b"[" * 100_000])
def test_a_broken_description_of_a_helper_says_nothing(content: bytes) -> None:
    keeper = agents.load("claude").sidecars
    assert keeper is not None
    assert keeper.read("agent-a1.meta.json", content).title is None


def test_a_helper_is_called_what_it_was_asked_for(machine: Machine) -> None:
    machine.write(CLAUDE_FOLDER / f"{CLAUDE_SESSION}.jsonl", spilled_session())
    helper = CLAUDE_FOLDER / CLAUDE_SESSION / "subagents/agent-a1.jsonl"
    machine.write(helper, spilled_session(helper="a1"))
    machine.write(
        helper.with_name("agent-a1.meta.json"), b'{"agentType":"general-purpose","description":"Count files"}'
    )
    read(machine)
    (child,) = machine.store.children(the_session(machine))
    assert (child.title, the_session(machine).title) == ("Count files", None)


# what is no sidecar, or a bad one ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "inuse.4711.lock", ".workspace-fork.lock", "session.db", "session.db-wal", "files/cache.sqlite3",
        "files/.env", "files/.env.local", "files/credentials.json", "files/id_ed25519", "files/server.pem",
        "rewind-snapshots/index.json", "shell-logs/1.log", "checkpoints/notes.txt", "else.yaml",
    ],
)  # fmt: skip
def test_locks_databases_secrets_and_what_is_none_of_ours_are_left_alone(
    machine: Machine, session: Path, name: str
) -> None:
    machine.write(FOLDER / name, b"secret")
    assert read(machine).errors == []
    assert kept(machine).keys() == {"workspace.yaml"}


def test_a_file_that_is_too_large_is_told_with_its_size_and_hash_once(
    machine: Machine, session: Path, files_opened: Callable[[], AbstractContextManager[list[str]]]
) -> None:
    data = b"x" * (sidecars.SIDECAR_BYTES_MAX + 1)
    machine.write(FOLDER / "files/huge.txt", data)
    (problem,) = read(machine).errors
    assert problem.path.endswith("huge.txt")
    assert f"{len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()}" in problem.reason
    with files_opened() as opened:
        report = read(machine)
    assert (opened, report.errors, "above the limit" in reasons(report)["huge.txt"]) == ([], [], True)
    assert kept(machine).keys() == {"workspace.yaml"}


def test_a_file_that_is_no_longer_too_large_is_kept(machine: Machine, session: Path) -> None:
    machine.write(FOLDER / "files/huge.txt", b"x" * (sidecars.SIDECAR_BYTES_MAX + 1))
    read(machine)
    machine.write(FOLDER / "files/huge.txt", b"small")
    assert read(machine).errors == []
    assert kept(machine)["files/huge.txt"] == b"small"


@pytest.mark.parametrize(("first", "is_kept"), [(b"\x89PNG\0", False), (b"text ", True)])
def test_of_large_files_only_texts_are_kept(machine: Machine, session: Path, first: bytes, is_kept: bool) -> None:
    machine.write(FOLDER / "files/large", first + b"x" * sidecars.BINARY_BYTES_MAX)
    report = read(machine)
    assert ("files/large" in kept(machine), bool(report.errors)) == (is_kept, not is_kept)


def test_a_file_of_the_largest_size_is_kept(machine: Machine, session: Path) -> None:
    machine.write(FOLDER / "files/large.txt", b"x" * sidecars.SIDECAR_BYTES_MAX)
    assert read(machine).errors == []
    assert len(kept(machine)["files/large.txt"]) == sidecars.SIDECAR_BYTES_MAX


def test_of_very_many_files_the_nearest_are_kept(
    machine: Machine, session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovering, "SIDECARS_MAX", 5)
    for n in range(20):
        machine.write(FOLDER / f"files/{n:02}.txt", b"x")
    machine.write(FOLDER / "checkpoints/001-counting.md", SUMMARY.encode())
    report = read(machine)
    nearest = {"workspace.yaml", "checkpoints/001-counting.md", "files/00.txt", "files/01.txt", "files/02.txt"}
    assert kept(machine).keys() == nearest
    assert reasons(report)["events.jsonl"] == "22 files beside it, of which the first 5 are kept"


def test_a_link_is_not_followed(machine: Machine, session: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("not the session's")
    (session / "plan.md").symlink_to(tmp_path / "outside.txt")
    report = read(machine)
    assert kept(machine).keys() == {"workspace.yaml"}
    assert "link" in reasons(report)["plan.md"]


def test_a_folder_that_is_a_link_is_not_followed(machine: Machine, session: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "notes.txt").write_text("not the session's")
    (session / "files").symlink_to(outside)
    report = read(machine)
    assert kept(machine).keys() == {"workspace.yaml"}
    assert "link" in reasons(report)["notes.txt"]


def test_a_session_whose_own_folder_is_a_link_has_its_sidecars(machine: Machine, session: Path) -> None:
    moved = machine.home / "moved"
    session.rename(moved)
    session.symlink_to(moved)
    assert read(machine).errors == []
    assert kept(machine) == {"workspace.yaml": WORKSPACE.encode()}


def test_what_became_a_link_after_it_was_seen_is_not_followed(machine: Machine, session: Path, tmp_path: Path) -> None:
    read(machine)
    candidates, _ = discover([agents.load("copilot")], {}, machine.home)
    (tmp_path / "outside.yaml").write_text("name: Elsewhere\n")
    (session / "workspace.yaml").unlink()
    (session / "workspace.yaml").symlink_to(tmp_path / "outside.yaml")
    changed = [msgspec.structs.replace(each, sidecars=_touched(each)) for each in candidates]
    (log,) = machine.store.logs()
    gathered = gather(machine.store, [(each, log.id) for each in changed], set())
    assert len(gathered.problems) == 1
    assert kept(machine) == {"workspace.yaml": WORKSPACE.encode()}


def test_what_vanished_after_it_was_seen_is_no_trouble(machine: Machine, session: Path) -> None:
    read(machine)
    machine.write(FOLDER / "plan.md", b"# Plan")
    candidates, _ = discover([agents.load("copilot")], {}, machine.home)
    (session / "plan.md").unlink()
    (log,) = machine.store.logs()
    gathered = gather(machine.store, [(each, log.id) for each in candidates], set())
    assert (gathered.problems, gathered.read) == ([], {})


def test_a_log_that_is_removed_meanwhile_gets_none(machine: Machine, session: Path) -> None:
    read(machine)
    candidates, _ = discover([agents.load("copilot")], {}, machine.home)
    gather(machine.store, [(each, 4711) for each in candidates], set())
    assert looked_up(machine.store_path, "select log_id = 4711 from sidecars") == [(0,)]


def test_what_cannot_be_read_is_told(machine: Machine, session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.write(FOLDER / "plan.md", b"# Plan")

    def refuse(path: str, *_: object) -> Any:
        if path.endswith("plan.md"):
            raise PermissionError(13, "Permission denied")
        return opened(path)

    opened = sidecars._opened
    monkeypatch.setattr(sidecars, "_opened", refuse)
    (problem,) = read(machine).errors
    assert (Path(problem.path).name, problem.reason) == ("plan.md", "Permission denied")
    assert kept(machine).keys() == {"workspace.yaml"}


def test_a_folder_with_the_name_of_a_file_is_no_trouble(machine: Machine, session: Path) -> None:
    (session / "plan.md").mkdir()
    (session / "checkpoints/001-counting.md").mkdir(parents=True)
    assert read(machine).errors == []
    assert kept(machine).keys() == {"workspace.yaml"}


def test_a_pipe_in_the_place_of_a_file_does_not_block(machine: Machine, session: Path) -> None:
    os.mkfifo(session / "plan.md")
    report = read(machine)
    assert reasons(report)["plan.md"] == "it is no regular file"


def test_a_name_that_is_not_utf8_is_told(machine: Machine, session: Path) -> None:
    path = os.fsencode(session / "files") + b"/caf\xe9.txt"
    (session / "files").mkdir()
    try:
        with open(path, "wb") as file:  # noqa: PTH123 - a name of bytes
            file.write(b"x")
    except OSError:
        pytest.skip("this file system takes no such name")
    report = read(machine)
    assert kept(machine).keys() == {"workspace.yaml"}
    assert any("not UTF-8" in each.reason for each in report.gave_nothing)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe\0",
        b"name: [broken\n",
        b"name\n: :\n",
        b"- name: x\n",
        b"{" * 100_000,
        b"name: &a *a\n",
        b"\t\n: x",
    ],
)
def test_a_broken_workspace_says_nothing_and_is_kept(machine: Machine, session: Path, data: bytes) -> None:
    machine.write(FOLDER / "workspace.yaml", data)
    assert read(machine).errors == []
    assert the_session(machine).title is None
    assert kept(machine) == {"workspace.yaml": data}


def test_a_file_beside_no_log_is_not_looked_for(machine: Machine) -> None:
    machine.write(FOLDER / "workspace.yaml", WORKSPACE.encode())
    assert read(machine).errors == []
    assert not machine.store.exists


def _touched(each: discovering.Candidate) -> tuple[discovering.SidecarFile, ...]:
    return tuple(msgspec.structs.replace(file, mtime_ns=1) for file in each.sidecars)
