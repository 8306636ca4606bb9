"""Two logs of one session, read by two programs at once: each record has a number of its own, whoever writes first."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import apsw

from backstory import agents
from backstory.ingest.ingest import ingest
from backstory.store import open_store
from tests.support.clock import NOW
from tests.support.machines import Machine, claude_line, kept, lines, sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FIRST, SECOND = ".claude/projects/-v/s.jsonl", ".other/projects/-w/s.jsonl"
"""What a session said with two configurations: two logs, one session."""
BEGINNINGS = {
    FIRST: lines(claude_line("user", "u1", "asked here"), claude_line("assistant", "a1", "answered here")),
    SECOND: lines(claude_line("user", "u2", "asked there")),
}
MORE = {
    FIRST: lines(claude_line("user", "u3", "asked more here"), claude_line("assistant", "a3", "answered more here")),
    SECOND: lines(claude_line("assistant", "a2", "answered there"), claude_line("user", "u4", "asked more there")),
}
PROMPTS = ["asked here", "asked more here", "asked more there", "asked there"]


class Begins:
    """Counts the transactions that are begun to write, and does something before one of them."""

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self.seen = 0
        self._at, self._act = at, act

    def watch(self, db: apsw.Connection) -> None:
        db.exec_trace = self._heard

    def _heard(self, cursor: apsw.Cursor, statement: str, bindings: object) -> bool:
        if statement.lstrip().lower().startswith("begin"):
            self.seen += 1
            if self.seen == self._at:
                apsw.connection_hooks.remove(self.watch)
                self._act()
        return True


def read_other(machine: Machine) -> None:
    """Another program reads the second log, and knows nothing of the first one."""
    environ = {"CLAUDE_CONFIG_DIR": str(machine.home / ".other")}
    with open_store(machine.store_path, shared=True, now=lambda: NOW) as store:
        report = ingest(store, [agents.load("claude")], environ=environ, home=machine.home, now=NOW)
    assert report.errors == []


def interrupted(folder: Path, at: int) -> Iterator[Machine]:
    """A machine on which another program read its log before the ``at``-th transaction of ours."""
    machine = Machine(folder)
    for log, data in BEGINNINGS.items():
        machine.write(log, data)
    machine.read("claude")
    read_other(machine)
    # Its next connection is watched from the beginning.
    machine.store.close()
    for log in BEGINNINGS:
        machine.write(log, BEGINNINGS[log] + MORE[log])
    begins = Begins(at, lambda: read_other(machine))
    apsw.connection_hooks.append(begins.watch)
    try:
        machine.read("claude")
    finally:
        if begins.watch in apsw.connection_hooks:
            apsw.connection_hooks.remove(begins.watch)
    if begins.seen >= at:
        machine.read("claude")
        yield machine
    machine.close()


def test_two_logs_of_one_session_read_at_once_number_their_records_apart(tmp_path: Path) -> None:
    steps = 0
    for at in count(1):
        for machine in interrupted(tmp_path / str(at), at):
            steps += 1
            (session,) = machine.store.sessions()
            assert kept(machine.store) == sorted(sha256(BEGINNINGS[log] + MORE[log]) for log in BEGINNINGS)
            assert sorted(turn.prompt for turn in machine.store.turns(session)) == PROMPTS
            numbers = [each.seq for each in machine.store.events(session)]
            assert numbers == list(range(1, 8)), f"before transaction {at}"
            assert machine.store.verify().problems == []
        if steps < at:
            break
    assert steps >= 1
