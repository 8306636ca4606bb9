"""A machine with runs of a repository that may leave, which are told to a team's server when a test says so."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from backstory.derive.secrets import Redactor
from backstory.errors import BackstoryError
from backstory.sync.live_masks import live_masks
from backstory.sync.notes import SyncNotes
from backstory.sync.opted import opted_in
from backstory.workspace.runs.telling import RunTeller, TellingRules
from tests.support.bench import Bench
from tests.support.clock import NOW
from tests.support.laptops import KEY, MACHINE, BrokenLine
from tests.support.senders import Sender

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.sync.live_masks import LiveMasks
    from backstory.workspace.workspace import Workspace
    from tests.support.team import Team


class FailingLine(BrokenLine):
    """A line to a server that refuses what it is told to."""

    def __init__(self, sender: Sender) -> None:
        super().__init__(sender)
        self.address, self.refuses, self.parts = "http://x", list[BackstoryError](), list[dict[str, Any]]()
        self.adds: dict[str, Any] = {}

    def ask(self, method: str, path: str, body: Any = None, *, repeats: bool = True) -> Any:
        if self.refuses:
            raise self.refuses.pop(0)
        found = super().ask(method, path, body)
        self.parts.append(body)
        return found | self.adds


class TellingMachine:
    """A machine with a run, which is told by a clock that the test sets."""

    def __init__(self, root: Path, team: Team) -> None:
        self.bench, self.sender = Bench(root), Sender(team, team.founded())
        origin = ("git", "-C", str(self.bench.project), "remote", "add", "origin", "git@github.com:me/app.git")
        subprocess.run(origin, check=True)
        self.line, self.said, self.now, self.opted = FailingLine(self.sender), list[str](), 0.0, ["me/app"]
        self.may, self.takes = True, False
        self.teller = self.new_teller()

    def new_teller(self) -> RunTeller:
        """What tells, as it is after a start."""
        remote: Any = self.line
        return RunTeller(
            self.bench.home, self.bench.environ([]), remote, self._masks,
            lambda _: TellingRules(self.may, self.takes), self.said.append, lambda: NOW, lambda: self.now,
        )  # fmt: skip

    def _masks(self, place: Workspace, uid: str, before: LiveMasks | None) -> LiveMasks | None:
        return live_masks(
            uid, place.stores, opted_in(self.opted, MACHINE.home), SyncNotes.read(self.bench.root / "notes"), MACHINE,
            lambda: Redactor(people=False, key=lambda: KEY), NOW, before,
        )  # fmt: skip

    def tells(self, seconds: float = 1.0) -> list[dict[str, Any]]:
        """What is told so much later."""
        self.now += seconds
        before = len(self.line.parts)
        self.teller.tick()
        return self.line.parts[before:]

    def there(self) -> list[str]:
        """The events that the server has, by their kinds and texts."""
        with self.sender.team.database.of(self.sender.tenant) as rows:
            found = rows.execute("select data from live order by run, number").fetchall()
        return [str(next(iter(next(iter(json.loads(data).values())).values()))) for (data,) in found]
