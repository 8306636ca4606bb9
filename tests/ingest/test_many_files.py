"""What an ingest holds in memory does not grow with the number of files that are as they were."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory import agents
from backstory.ingest import ingest as ingest_module
from backstory.ingest.discover import Candidate, Looked, discover, stream_logs
from backstory.store import FileStamp
from backstory.store.tables import logs, sidecars
from backstory.store.tables import logs as stored_logs
from tests.support.machines import case, claude_line, claude_log, lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.machines import Machine

PROJECTS = Path(".claude/projects")
SESSIONS = Path(".copilot/session-state")
SESSION = "00000001-0000-4000-8000-000000000000"
COPILOT_LOG = case("copilot/tools")


def write_claude(machine: Machine, folder: str, name: str) -> Path:
    return machine.write(PROJECTS / folder / f"{name}.jsonl", lines(claude_line("user", f"u-{name}", name)))


def write_copilot(machine: Machine, session: str, *beside: str) -> Path:
    for name in beside:
        machine.write(SESSIONS / session / name, f"# {session} {name}".encode())
    return machine.write(SESSIONS / session / "events.jsonl", COPILOT_LOG)


def sidecar_names(found: Iterable[Candidate]) -> dict[str, list[str]]:
    return {Path(each.path).parent.name: sorted(file.name for file in each.sidecars) for each in found}


def alive(kind: type) -> int:
    return sum(type(each) is kind for each in gc.get_objects())


def test_logs_are_found_some_folders_at_a_time(machine: Machine) -> None:
    for folder in "abc":
        write_claude(machine, folder, folder)
    found = stream_logs([agents.load("claude")], {}, machine.home, [])
    first = Path(next(found).path)
    for folder in set("abc") - {first.stem}:
        shutil.rmtree(machine.home / PROJECTS / folder)
    assert list(found) == [], "what had not been looked at was not held"


def test_a_log_has_what_lies_beside_it_whichever_folders_follow(machine: Machine) -> None:
    sessions = {f"{number:08}-0000-4000-8000-000000000000": number for number in range(3)}
    for session, number in sessions.items():
        write_copilot(machine, session, "plan.md", *(f"checkpoints/{each:03}-x.md" for each in range(number)))
    found, _ = discover([agents.load("copilot")], {}, machine.home)
    assert sidecar_names(found) == {
        session: [*(f"checkpoints/{each:03}-x.md" for each in range(number)), "plan.md"]
        for session, number in sessions.items()
    }


def test_what_lies_beside_a_log_that_is_not_there_is_given_to_no_other(machine: Machine) -> None:
    write_copilot(machine, "00000001-0000-4000-8000-000000000000", "plan.md").unlink()
    write_copilot(machine, "00000002-0000-4000-8000-000000000000", "checkpoints/001-x.md")
    found, _ = discover([agents.load("copilot")], {}, machine.home)
    assert sidecar_names(found) == {"00000002-0000-4000-8000-000000000000": ["checkpoints/001-x.md"]}


def test_a_folder_and_a_subfolder_with_logs_are_found_in_order(machine: Machine) -> None:
    whole = write_claude(machine, "a", "whole")
    helper = machine.write(PROJECTS / "a" / "whole" / "subagents" / "agent-1.jsonl", whole.read_bytes())
    looked: list[Looked] = []
    found = [Path(each.path) for each in stream_logs([agents.load("claude")], {}, machine.home, looked)]
    assert found == [whole, helper]
    assert [each.found for each in looked if each.found] == [2]


@pytest.mark.parametrize("at_once", [1, 3])
def test_files_that_are_as_they_were_are_compared_a_few_at_a_time(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    for number in range(12):
        write_claude(machine, f"-folder-{number}", f"log-{number}")
    assert machine.read("claude").total("logs_read") == 12
    held = [0]
    compared = logs.stamps_of

    def stamps_of(db: apsw.Connection, paths: Any) -> Any:
        stamps = compared(db, paths)
        gc.collect()
        held.append(alive(Candidate) + alive(FileStamp))
        return stamps

    monkeypatch.setattr(ingest_module, "STAMPS_AT_ONCE", at_once)
    monkeypatch.setattr(logs, "stamps_of", stamps_of)
    report = machine.read("claude")
    assert (report.total("logs_seen"), report.total("logs_read")) == (12, 0)
    # Those compared now, each with what is known of it, those compared before, and what was just found.
    assert max(held) <= 3 * at_once + 1 < 12


def test_one_changed_file_of_many_is_read_and_no_other(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [write_claude(machine, f"-folder-{number}", f"log-{number}") for number in range(7)]
    machine.read("claude")
    monkeypatch.setattr(ingest_module, "STAMPS_AT_ONCE", 2)
    with paths[4].open("ab") as file:
        file.write(lines(claude_line("user", "more", "and more")))
    report = machine.read("claude")
    assert (report.total("logs_read"), report.total("events_new")) == (1, 1)


def test_sidecars_that_are_as_they_were_are_not_read_and_a_changed_one_is(machine: Machine) -> None:
    write_copilot(machine, SESSION, "plan.md", "checkpoints/001-x.md")
    assert machine.read("copilot").by_agent["copilot"].companions_read == 2
    assert machine.read("copilot").by_agent["copilot"].companions_read == 0
    machine.write(SESSIONS / SESSION / "plan.md", b"# Another plan")
    assert machine.read("copilot").by_agent["copilot"].companions_read == 1
    (log,) = machine.store.logs()
    assert {
        each.name: machine.store.ask(sidecars.read, each.id) for each in machine.store.ask(sidecars.of_log, log.id)
    }["plan.md"] == b"# Another plan"


def test_of_a_session_in_two_places_the_sidecars_that_are_stored_stay(machine: Machine) -> None:
    def place(folder: str, result: bytes) -> None:
        write_claude(machine, folder, SESSION)
        machine.write(PROJECTS / folder / SESSION / "tool-results" / "x.txt", result)

    place("-b", b"first")
    machine.read("claude")
    place("-a", b"copied before")
    place("-c", b"copied behind")
    for _ in range(2):
        assert machine.read("claude").by_agent["claude"].companions_read == 0
    (log,) = machine.store.logs()
    assert [machine.store.ask(sidecars.read, each.id) for each in machine.store.ask(sidecars.of_log, log.id)] == [
        b"first"
    ]


def test_every_log_is_verified_though_few_are_held(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        write_claude(machine, "-folder", f"log-{number}")
    machine.read("claude")
    monkeypatch.setattr(stored_logs, "LOGS_AT_ONCE", 3)
    told: list[tuple[int, int]] = []
    verified = machine.store.verify(lambda done, total: told.append((done, total)))
    assert (verified.ok, verified.checked["logs"]) == (True, 7)
    assert told == [(done, 7) for done in range(7)]


def test_of_many_logs_no_statement_is_planned_anew_for_each(machine: Machine) -> None:
    planned: list[object] = []

    def note(*looked_at: object) -> int:
        planned.append(looked_at)
        return apsw.SQLITE_OK

    def plans_for(*names: str) -> int:
        for name in names:
            lines_of_log = [claude_line("user", f"{name}1", "q"), claude_line("assistant", f"{name}2", "a")]
            machine.write(claude_log(name), lines(*lines_of_log))
        planned.clear()
        machine.read("claude")
        return len(planned)

    plans_for("a")
    for db in (machine.store.writer(), machine.store.reader()):
        # SQLite asks while it plans a statement, and never while one runs.
        db.authorizer = note
    few, many = (plans_for(*(f"{count}-{number}" for number in range(count))) for count in (13, 26))
    assert many - few < 10, (few, many)
