"""Whatever one log, sidecar or database raises while it is read or stored is its own trouble: the rest is done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory import agents, errors, ids
from backstory.agents.claude.log import Logs
from backstory.agents.claude.reader import Reader
from backstory.ingest import ingest as ingesting
from backstory.ingest import log_reader, readers, worker
from backstory.ingest.reindex import reindex
from backstory.model import LogIdentity
from backstory.store import RecordBatch
from backstory.store.intake import append, derived_tables
from backstory.store.tables import event_rows, logs, sidecars, turns
from tests.support.clock import NOW
from tests.support.machines import (
    CLAUDE_FOLDER,
    Machine,
    bytes_of,
    claude_line,
    claude_log,
    kept,
    lines,
    looked_up,
    prompts,
    sha256,
)
from tests.support.writing import WRITING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from backstory.ingest.report import IngestReport

GUILTY, INNOCENT = "guilty", ("first", "third")
NEEDED_FOR_BYTES = {"write", "_insert_session", "_insert_log", "insert_chunks"}
"""Without these not even the bytes of a log can be kept."""


class Fault:
    """Makes a function of the store raise while the guilty log is written, until it is mended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
        self._patch, self._error = monkeypatch, error
        self._is_guilty = self.is_mended = False
        self.raised = 0

    def break_(self, module: ModuleType, name: str) -> None:
        write, whole = append.write, getattr(module, name)

        def watched(db: apsw.Connection, piece: RecordBatch, *more: Any) -> append.Written:
            self._is_guilty = GUILTY in piece.path
            if name == "write":
                self._raise()
            return write(db, piece, *more)

        def faulty(*values: Any, **more: Any) -> Any:
            self._raise()
            return whole(*values, **more)

        self._patch.setattr(append, "write", watched)

        def faulty_for_all(db: apsw.Connection, uids: set[str]) -> None:
            # It is asked once for all logs of a transaction.
            self._is_guilty = ids.turn_uid("claude", "guilty-1") in uids
            self._raise()
            whole(db, uids)

        def faulty_for_texts(db: apsw.Connection, session_id: int, texts: list[event_rows.Text]) -> None:
            # Texts are indexed when all logs of a transaction are written.
            self._is_guilty = any(GUILTY in text for *_, text in texts)
            self._raise()
            whole(db, session_id, texts)

        if name == "index_texts":
            self._patch.setattr(module, name, faulty_for_texts)
        elif name == "link_copies":
            self._patch.setattr(module, name, faulty_for_all)
        elif name != "write":
            self._patch.setattr(module, name, faulty)

    def _raise(self) -> None:
        if self._is_guilty and not self.is_mended:
            self.raised += 1
            raise self._error


def write_three(machine: Machine) -> dict[str, bytes]:
    written = {}
    for name in (INNOCENT[0], GUILTY, INNOCENT[1]):
        call = {"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "/w/a.py"}}
        result = {"type": "tool_result", "tool_use_id": "t", "content": "see #12"}
        written[name] = lines(
            claude_line("user", f"{name}-1", f"asked {name}"),
            claude_line("assistant", f"{name}-2", message={"id": "m", "content": [call], "usage": {"input_tokens": 5}}),
            claude_line("user", f"{name}-3", message={"content": [result]}),
            claude_line("assistant", f"{name}-4", f"answered {name}"),
        )
        machine.write(claude_log(name), written[name])
    return written


def listed(report: IngestReport) -> dict[str, str]:
    return {each.path.rpartition("/")[2].removesuffix(".jsonl"): each.reason for each in report.errors}


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a machine has of three logs that all can be stored."""
    machine = Machine(tmp_path_factory.mktemp("untouched"))
    write_three(machine)
    machine.read()
    found = machine.content()
    machine.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "error",
    [
        OverflowError("Python int too large"),
        apsw.ConstraintError("NOT NULL constraint failed"),
        RuntimeError("refused"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize(("module", "name"), WRITING, ids=[name for _, name in WRITING])
def test_a_log_that_cannot_be_stored_keeps_no_other_out_and_is_stored_when_it_can_be(
    machine: Machine,
    untouched: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    name: str,
    error: Exception,
) -> None:
    written = write_three(machine)
    fault = Fault(monkeypatch, error)
    fault.break_(module, name)
    report = machine.read()
    assert fault.raised
    assert list(listed(report)) == [GUILTY]
    assert listed(report)[GUILTY].count(str(error)) == 1
    assert prompts(machine.store) == [f"asked {each}" for each in INNOCENT]
    bytes_kept = kept(machine.store)
    assert (sha256(written[GUILTY]) in bytes_kept) == (name not in NEEDED_FOR_BYTES)
    assert machine.store.verify().problems == []
    fault.is_mended = True
    assert machine.read().errors == []
    assert machine.content() == untouched
    assert machine.read().total("logs_read") == 0
    assert machine.store.verify().problems == []


@pytest.mark.parametrize("error", [errors.DiskFull, errors.StoreBusy, errors.StoreReadOnly], ids=lambda e: e.__name__)
def test_what_is_wrong_with_the_store_itself_ends_the_reading(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, error: type[errors.BackstoryError]
) -> None:
    write_three(machine)
    fault = Fault(monkeypatch, error(str(machine.store_path)))
    fault.break_(append, "insert_events")
    with pytest.raises(error):
        machine.read()


def test_what_comes_behind_an_end_that_could_not_be_stored_is_kept_too_and_all_is_told_later(
    machine: Machine, another: Callable[[], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    written, untouched = write_three(machine), another()
    write_three(untouched)
    machine.read()
    more = lines(claude_line("user", "guilty-5", "asked more"), claude_line("assistant", "guilty-6", "said more"))
    machine.write(claude_log(GUILTY), written[GUILTY] + more)
    untouched.write(claude_log(GUILTY), written[GUILTY] + more)
    untouched.read()
    fault = Fault(monkeypatch, OverflowError("too large"))
    fault.break_(append, "insert_events")
    for _ in range(2):
        assert list(listed(machine.read())) == [GUILTY]
        assert sha256(written[GUILTY] + more) in kept(machine.store)
        assert sorted(prompts(machine.store)) == ["asked first", "asked guilty", "asked third"]
    fault.is_mended = True
    assert machine.read().errors == []
    assert [turn.prompt for turn in machine.store.turns(machine.store.session(GUILTY))] == [
        "asked guilty",
        "asked more",
    ]
    assert machine.store.verify().problems == []


def test_what_is_kept_as_bytes_only_is_told_from_them_when_its_file_is_gone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write_three(machine)
    fault = Fault(monkeypatch, OverflowError("too large"))
    fault.break_(turns, "upsert")
    machine.read()
    (machine.home / claude_log(GUILTY)).unlink()
    assert list(listed(machine.read())) == [GUILTY]
    assert sha256(written[GUILTY]) in kept(machine.store)
    fault.is_mended = True
    assert machine.read().errors == []
    assert sorted(prompts(machine.store)) == ["asked first", "asked guilty", "asked third"]
    assert sha256(written[GUILTY]) in kept(machine.store)
    assert looked_up(machine.store_path, "select count(*) from logs where told_to is not null") == [(0,)]


def test_a_log_of_several_slices_that_cannot_be_stored_half_way_is_kept_whole(
    machine: Machine, another: Callable[[], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    big = lines(*(claude_line("user", f"u{n}", f"{n} " + "x" * 200_000) for n in range(20)))
    monkeypatch.setattr("backstory.ingest.log_reader.SLICE_BYTES", 1_000_000)
    monkeypatch.setattr("backstory.ingest.log_reader.BLOCK_BYTES", 1_000_000)
    machine.write(claude_log(GUILTY), big)
    untouched = another()
    untouched.write(claude_log(GUILTY), big)
    untouched.read()
    fault = Fault(monkeypatch, OverflowError("too large"))
    fault.break_(append, "insert_events")
    whole = append.insert_events
    seen: list[int] = []

    def third_time(*values: Any) -> Any:
        seen.append(1)
        fault.is_mended = len(seen) < 3
        return whole(*values)

    monkeypatch.setattr(append, "insert_events", third_time)
    assert list(listed(machine.read())) == [GUILTY]
    (log,) = machine.store.logs()
    assert bytes_of(machine.store, log.id) == (len(big), sha256(big))
    assert machine.store.verify().problems == []
    fault.is_mended = True
    monkeypatch.setattr(append, "insert_events", whole)
    assert machine.read().errors == []
    assert machine.content() == untouched.content()


# adapters --------------------------------------------------------------------------------------------------------


def test_a_record_that_its_adapter_fails_at_is_kept_and_the_others_are_read(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, read = write_three(machine), Reader._record

    def fails(self: Reader, record: Any, at: int | None, seq: int) -> Any:
        if record.uuid == "guilty-2":
            raise KeyError("usage")
        return read(self, record, at, seq)

    monkeypatch.setattr(Reader, "_record", fails)
    report = machine.read()
    assert listed(report) == {GUILTY: "kept, but not all of it could be understood (KeyError: 'usage')"}
    assert report.unknown_records == {"failed at": 1}
    assert kept(machine.store) == sorted(map(sha256, written.values()))
    session = machine.store.session(GUILTY)
    assert [each.kind for each in machine.store.events(session)] == [
        "UserMessage", "Unknown", "ToolResult", "AssistantText",
    ]  # fmt: skip
    assert reindex(machine.store, now=NOW, events_too=True).failed == []
    monkeypatch.undo()
    assert reindex(machine.store, now=NOW, events_too=True).failed == []
    assert "ToolCall" in [each.kind for each in machine.store.events(session)]


@pytest.mark.parametrize("name", ["__init__", "state", "touched"])
def test_a_log_whose_reader_fails_is_kept_as_bytes_and_told_when_it_works(
    machine: Machine, another: Callable[[], Machine], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    written, untouched = write_three(machine), another()
    write_three(untouched)
    untouched.read()
    whole, identify = getattr(Reader, name), Logs.identify
    # Of a short log no state is asked for.
    monkeypatch.setattr(log_reader, "STATELESS_BYTES", 0)
    guilty: list[bool] = []

    def looked_at(self: Logs, path: Any, head: bytes) -> Any:
        guilty[:] = [GUILTY in path.name]
        return identify(self, path, head)

    def fails(self: Reader, *values: Any) -> Any:
        if guilty[0]:
            raise AttributeError("no such thing")
        return whole(self, *values)

    monkeypatch.setattr(Logs, "identify", looked_at)
    monkeypatch.setattr(Reader, name, fails)
    report = machine.read()
    reason = "its bytes are kept, but not what they say (AttributeError: no such thing)"
    assert listed(report) == {GUILTY: reason}
    assert sha256(written[GUILTY]) in kept(machine.store)
    assert prompts(machine.store) == [f"asked {each}" for each in INNOCENT]
    monkeypatch.undo()
    assert machine.read().errors == []
    assert machine.content() == untouched.content()


def test_an_adapter_that_fails_at_the_look_of_a_log_leaves_that_log_out(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_three(machine)
    identify = Logs.identify

    def fails(self: Logs, path: Any, head: bytes) -> Any:
        if GUILTY in path.name:
            raise IndexError("out of range")
        return identify(self, path, head)

    monkeypatch.setattr(Logs, "identify", fails)
    assert listed(machine.read()) == {GUILTY: "IndexError: out of range"}
    monkeypatch.undo()
    assert machine.read().errors == []
    assert len(prompts(machine.store)) == 3


def test_what_fails_in_the_second_process_is_read_in_the_first(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_three(machine)
    monkeypatch.setattr(ingesting, "WORKER_BYTES", 1)
    monkeypatch.setattr(readers, "AHEAD_BYTES", 0)
    undone = worker.JobOutcome(is_last=True, is_undone=True)
    given = iter([None, undone, None])
    outcome = worker.Worker.outcome

    def lost(self: worker.Worker) -> worker.JobOutcome:
        return outcome(self) if next(given, None) is None else (outcome(self), undone)[1]

    monkeypatch.setattr(worker.Worker, "outcome", lost)
    assert machine.read().errors == []
    assert len(prompts(machine.store)) == 3


def test_a_reader_that_fails_in_the_second_process_says_so_and_goes_on(machine: Machine) -> None:
    job = worker.Job(
        agent="claude", identity=LogIdentity(native_id="x"), session_uid="0" * 26, created=0, path="/nonexistent\0",
        relpath="", place=_place(), next_seq=1, first_hash=None,
    )  # fmt: skip
    (outcome,) = worker.parse(job, agents.load("claude"))
    assert outcome.is_undone
    assert outcome.is_last


def _place() -> Any:
    return logs.FileStamp(path="/x", agent="claude", log_id=None, device=0, inode=0, size=0, mtime_ns=0)


# what lies beside ------------------------------------------------------------------------------------------------


def test_a_sidecar_that_cannot_be_stored_keeps_no_other_out(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    write_three(machine)
    for name in (*INNOCENT, GUILTY):
        machine.write(CLAUDE_FOLDER / name / "tool-results" / f"{name}.txt", b"spilled")
    write = sidecars.write

    def fails(db: apsw.Connection, beside: sidecars.SidecarBatch) -> None:
        if any(GUILTY in each.name for each in beside.sidecars):
            raise OverflowError("too large")
        write(db, beside)

    monkeypatch.setattr(sidecars, "write", fails)
    report = machine.read()
    assert [(each.path.rpartition("/")[2], each.reason) for each in report.errors] == [
        ("guilty.txt", "OverflowError: too large")
    ]
    assert len(machine.store.ask_or({}, sidecars.marks)) == 2
    monkeypatch.undo()
    assert machine.read().errors == []
    assert len(machine.store.ask_or({}, sidecars.marks)) == 3


def test_what_a_sidecar_says_that_could_not_be_stored_is_told_by_the_next_reading(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.write(CLAUDE_FOLDER / "s/subagents/agent-a.jsonl", lines(claude_line("user", "a1", "look at it")))
    machine.write(CLAUDE_FOLDER / "s/subagents/agent-a.meta.json", json.dumps({"description": "Looks"}).encode())
    tell = sidecars._apply_facts
    monkeypatch.setattr(sidecars, "_apply_facts", lambda *_: 1 / 0)
    assert [each.reason for each in machine.read().errors] == ["ZeroDivisionError: division by zero"]
    assert len(machine.store.ask_or({}, sidecars.marks)) == 1
    monkeypatch.setattr(sidecars, "_apply_facts", tell)
    machine.read()
    reindex(machine.store, now=NOW, only_stale=True)
    (session,) = machine.store.sessions(subagents=True)
    assert session.title == "Looks"


# deriving --------------------------------------------------------------------------------------------------------


def test_a_session_that_cannot_be_told_again_keeps_no_other_from_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_three(machine)
    machine.read()
    guilty = machine.store.session(GUILTY)
    write = derived_tables.write

    def fails(db: apsw.Connection, session_id: int, *more: Any) -> None:
        if session_id == guilty.id:
            raise OverflowError("too large")
        write(db, session_id, *more)

    monkeypatch.setattr(derived_tables, "write", fails)
    done = reindex(machine.store, now=NOW)
    assert [(each.session, each.reason) for each in done.failed] == [(guilty.uid, "OverflowError: too large")]
    assert done.sessions == 2
    monkeypatch.undo()
    assert reindex(machine.store, now=NOW, only_stale=True).failed == []
