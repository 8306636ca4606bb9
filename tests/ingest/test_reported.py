"""Subagents of which only their parent's log reports."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.ingest import ingest as ingest_module
from backstory.ingest import log_reader
from backstory.ingest import reported as reported_module
from backstory.ingest.discover import discover
from backstory.ingest.ingest import ingest_these
from backstory.ingest.reindex import reindex
from backstory.ingest.reported import reported_logs
from backstory.model import Relation
from backstory.store.intake import rederiving
from tests.support.clock import NOW
from tests.support.machines import CLAUDE_FOLDER, claude_line, claude_log, conversation, lines, restored

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backstory.store import RecordBatch, Session, Written
    from tests.support.machines import Machine

PARENT = "a1b2c3"
LOG = claude_log(PARENT)
OWN_LOG = CLAUDE_FOLDER / PARENT / "subagents" / "agent-a58.jsonl"


def said(kind: str, uuid: str, text: str) -> dict[str, Any]:
    body: Any = text if kind == "user" else [{"type": "text", "text": text}]
    message = {"role": kind, "content": body}
    if kind == "assistant":
        message |= {"id": "m1", "model": "claude-x", "usage": {"input_tokens": 7, "output_tokens": 3}}
    return {"type": kind, "uuid": uuid, "timestamp": "2026-11-21T21:00:05.000Z", "message": message}


def report(message: dict[str, Any], agent: str = "a58") -> bytes:
    data = {"type": "agent_progress", "agentId": agent, "message": message, "prompt": "look"}
    return claude_line("progress", f"p-{message['uuid']}", data=data, timestamp="2026-11-21T21:00:09.000Z")


ASKED, ANSWERED = said("user", "h1", "look for pelicans"), said("assistant", "h2", "three pelicans")
PARENTS = lines(*conversation(2), report(ASKED), report(ANSWERED))
ITS = {"sessionId": PARENT, "isSidechain": True, "cwd": "/w"}
OWN = lines(*(json.dumps(ITS | each).encode() for each in (ASKED, ANSWERED)))


@pytest.fixture
def always_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_module, "WORKER_BYTES", 0)


def subagents(machine: Machine) -> list[Session]:
    return [each for each in machine.store.sessions(subagents=True) if each.relation == Relation.SUBAGENT]


def test_a_subagent_that_only_its_parents_log_reports_is_a_session_below_it(machine: Machine) -> None:
    machine.write(LOG, PARENTS)
    assert machine.read("claude").errors == []
    (child,) = subagents(machine)
    (parent,) = machine.store.sessions()
    (turn,) = machine.store.turns(child)
    assert (child.native_id, turn.prompt, turn.tokens.output) == (f"{PARENT}/a58", "look for pelicans", 3)
    assert child.parent_uid == parent.uid


def test_it_is_found_by_what_was_said(machine: Machine) -> None:
    machine.write(LOG, PARENTS)
    machine.read("claude")
    found = machine.store.execute_read_only("select count(*) from search_index where search_index match 'pelicans'")
    assert found.rows[0][0] > 0


def test_a_log_of_its_own_takes_the_place_of_the_reports(machine: Machine) -> None:
    machine.write(LOG, PARENTS)
    machine.read("claude")
    (reported,) = subagents(machine)
    machine.write(OWN_LOG, OWN + lines(json.dumps(said("assistant", "h3", "and a gull")).encode()))
    assert machine.read("claude").errors == []
    (child,) = subagents(machine)
    assert child.uid == reported.uid
    assert [log.relpath.rpartition("/")[2] for log in machine.store.logs(child)] == [OWN_LOG.name]
    assert [event.event.kind for event in machine.store.events(child)] == [
        "UserMessage", "AssistantText", "AssistantText",
    ]  # fmt: skip


def test_it_makes_no_difference_whether_the_reports_were_read_before_the_log_itself(
    machine: Machine, another: Callable[[], Machine]
) -> None:
    other_machine = another()
    machine.write(LOG, PARENTS)
    machine.read("claude")
    machine.write(OWN_LOG, OWN)
    machine.read("claude")
    other_machine.write(LOG, PARENTS)
    other_machine.write(OWN_LOG, OWN)
    other_machine.read("claude")
    assert machine.content() == other_machine.content()


def test_a_subagent_whose_own_log_lies_there_is_read_from_it_alone(machine: Machine) -> None:
    machine.write(LOG, PARENTS)
    machine.write(OWN_LOG, OWN)
    machine.read("claude")
    assert [log.relpath.endswith(".jsonl") for log in machine.store.logs()] == [True, True]


@pytest.mark.usefixtures("always_two")
def test_the_second_process_makes_no_difference(machine: Machine, another: Callable[[], Machine]) -> None:
    for each in (machine, other_machine := another()):
        each.write(LOG, PARENTS)
    machine.read("claude")
    ingest_these(other_machine.store, discover([agents.load("claude")], {}, other_machine.home)[0])
    assert len(subagents(machine)) == 1
    assert machine.content() == other_machine.content()


def test_subagents_of_a_new_log_are_read_along_with_it(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_module, "reported_logs", lambda *_: pytest.fail("the log is read a second time"))
    machine.write(LOG, PARENTS)
    assert machine.read("claude").errors == []
    assert len(subagents(machine)) == 1


@pytest.mark.parametrize("block_bytes", [1, 700, 100_000])
def test_it_makes_no_difference_in_which_slices_the_parents_log_is_read(
    machine: Machine, another: Callable[[], Machine], monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    for each in (machine, other_machine := another()):
        each.write(LOG, PARENTS + lines(report(said("user", "h3", "and gulls"))).rstrip(b"\n"))
    machine.read("claude")
    monkeypatch.setattr(log_reader, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(log_reader, "SLICE_BYTES", block_bytes)
    assert other_machine.read("claude").errors == []
    assert [event.event.kind for event in machine.store.events(subagents(machine)[0])] == [
        "UserMessage", "AssistantText", "UserMessage",
    ]  # fmt: skip
    assert machine.content() == other_machine.content()


def test_reports_that_cannot_be_read_along_are_read_afterwards(
    machine: Machine, another: Callable[[], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (machine, other_machine := another()):
        each.write(LOG, PARENTS)
    machine.read("claude")
    monkeypatch.setattr(reported_module.SubagentLogs, "_take", lambda *_: 1 / 0)
    assert other_machine.read("claude").errors == []
    assert machine.content() == other_machine.content()


def test_what_of_a_subagent_is_not_understood_is_said_of_its_log(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = reported_module.SubagentLogs.batches
    monkeypatch.setattr(
        reported_module.SubagentLogs,
        "batches",
        lambda self: [each._replace(problem="odd") for each in batches(self) or ()],
    )
    machine.write(LOG, PARENTS)
    (problem,) = machine.read("claude").errors
    assert problem.path.endswith(f"{LOG.name}#a58")
    assert "odd" in problem.reason


def test_what_a_subagent_said_is_kept_as_its_parents_log_has_it(machine: Machine) -> None:
    machine.write(LOG, lines(*conversation(2), report(ASKED), report(said("assistant", "h2", "a \u00e9lan"))))
    machine.read("claude")
    (log,) = machine.store.logs(subagents(machine)[0])
    assert b'"text": "a \\u00e9lan"' in machine.store.read_log(log.id, 0, log.read_to)


def test_a_reader_that_was_stopped_before_the_parent_was_stored_loses_no_subagent(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.write(LOG, PARENTS)
    write = machine.store.append

    def stopped(pieces: list[RecordBatch]) -> list[Written]:
        write([each for each in pieces if "#" in each.relpath])
        raise KeyboardInterrupt

    monkeypatch.setattr(machine.store, "append", stopped)
    with pytest.raises(KeyboardInterrupt):
        machine.read("claude")
    monkeypatch.undo()
    assert machine.read("claude").errors == []
    assert len(subagents(machine)) == 1


def test_a_subagent_goes_on_with_its_parents_log(machine: Machine) -> None:
    machine.write(LOG, lines(*conversation(2), report(ASKED)))
    machine.read("claude")
    machine.write(LOG, PARENTS)
    assert machine.read("claude").errors == []
    (child,) = subagents(machine)
    assert [event.event.kind for event in machine.store.events(child)] == ["UserMessage", "AssistantText"]
    assert len(machine.store.logs(child)) == 1


def test_reading_twice_changes_nothing(machine: Machine) -> None:
    machine.write(LOG, PARENTS)
    machine.read("claude")
    before = machine.content()
    machine.write(LOG, PARENTS + lines(report(said("user", "x1", "else"), "../b")))
    machine.read("claude")
    assert {uid: each for uid, each in machine.content().items() if uid == subagents(machine)[0].uid} == {
        uid: each for uid, each in before.items() if uid == subagents(machine)[0].uid
    }


def test_an_id_that_is_no_name_makes_no_session(machine: Machine) -> None:
    machine.write(LOG, lines(*conversation(2), report(ASKED, "../b"), report(ASKED, "")))
    assert machine.read("claude").errors == []
    assert subagents(machine) == []


def test_reindex_tells_it_again(machine: Machine) -> None:
    machine.write(LOG, PARENTS)
    machine.read("claude")
    before = machine.content()
    done = reindex(machine.store, now=NOW, events_too=True)
    assert done.failed == []
    assert machine.content() == before


def test_reindex_finds_those_that_an_earlier_version_did_not_look_for(machine: Machine) -> None:
    machine.write(LOG, PARENTS)
    machine.read("claude")
    before = machine.content()
    (child,) = subagents(machine)
    machine.store.write(rederiving.drop_all_reported, [log.id for log in machine.store.logs(child)])
    reindex(machine.store, now=NOW, events_too=True)
    assert machine.content() == before


def test_it_is_not_written_out(machine: Machine, tmp_path: Path) -> None:
    machine.write(LOG, PARENTS)
    machine.read("claude")
    (told,) = restored(machine.store, tmp_path / "out")
    assert (told.error, told.original.endswith(LOG.name)) == (None, True)


def test_it_goes_with_its_parent_and_stays_away(machine: Machine) -> None:
    machine.write(LOG, PARENTS)
    machine.read("claude")
    (parent,) = (each for each in machine.store.sessions(subagents=True) if each.native_id == PARENT)
    machine.store.remove(parent.id)
    machine.read("claude")
    assert machine.store.sessions(subagents=True) == []


def test_reports_are_read_in_blocks_also_from_a_file_without_a_buffer(tmp_path: Path) -> None:
    class Counted(io.FileIO):
        reads = 0

        def readinto(self, buffer: Any) -> int:
            Counted.reads += 1
            return super().readinto(buffer)

        def read(self, size: int | None = -1) -> bytes:
            Counted.reads += 1
            return super().read(size)

    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"type":"progress"}\n' * 10_000)
    with Counted(path) as file:
        assert list(reported_logs(agents.load("claude"), str(path), file, path.stat().st_size)) == []
        assert file.tell() == path.stat().st_size
    assert Counted.reads < 10
