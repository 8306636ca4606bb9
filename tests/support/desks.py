"""A machine of a person, with commands as they are typed, that is logged in to a team's server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.support.claude_records import answer, user
from tests.support.forked import COMMAND
from tests.support.shell import Shell
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.team import Team

SESSIONS = 41


class Desk:
    """A machine that is logged in to a server, with sessions of one repository that may leave."""

    def __init__(self, folder: Path, team: Team, address: str, sessions: int = SESSIONS) -> None:
        self.team, self.address = team, address
        self.shell = Shell(folder)
        self._logs = folder / ".claude/projects/x"
        self._logs.mkdir(parents=True)
        self._clone(self.shell.cwd, "git@github.com:me/tool.git")
        for number in range(sessions):
            self._works(self.shell.cwd, f"{number:08}", f"work {number}")
        self.allow("true")

    def allow(self, enabled: str) -> None:
        for key, value in (("sync.repositories", "me/tool"), ("sync.enabled", enabled)):
            assert self.shell("config", "set", key, value).code == 0

    def log_in(self, person: str = "anna", code: str = "") -> None:
        """Come in, by default as the first admin of a new organisation."""
        words = ("login", self.address, "--code", "-", "--person", person)
        assert self.shell(*words, typed=f"{code or self.team.people.found('The team')}\n").code == 0

    def come_in_beside(self, other: Desk) -> None:
        """Come in as the person of another machine."""
        waiting = self.team.people.wait("desk")
        assert self.team.ask("POST", "/v1/login/approve", other.token(), {"code": waiting.code})[0] == 200
        let_in = self.team.people.come_in(waiting.login)
        assert let_in is not None
        assert self.shell("login", self.address, "--token", "-", typed=f"{let_in.token}\n").code == 0

    def goes_on(self, text: str) -> None:
        """Go on with the first session."""
        self._works(self.shell.cwd, f"{0:08}", text)

    def works_elsewhere(self, remote: str) -> None:
        """Work in a repository with another remote, too."""
        folder = self.shell.cwd.with_name("elsewhere")
        self._clone(folder, remote)
        self._works(folder, "e" * 8, "work elsewhere")

    def _clone(self, folder: Path, remote: str) -> None:
        (folder / ".git").mkdir(parents=True)
        (folder / ".git/config").write_text(f'[remote "origin"]\n\turl = {remote}\n', "utf-8")

    def _works(self, folder: Path, name: str, text: str) -> None:
        uid = f"{name}-0000-4000-8000-000000000000"
        log = self._logs / f"{uid}.jsonl"
        before = log.read_bytes().count(b"\n") if log.exists() else 0
        at: dict[str, Any] = {"cwd": str(folder), "sessionId": uid}
        # Turns are told apart by these ids, also those of several sessions.
        mine = f"{name}-{before}"
        asked = user(text, uuid=f"u{mine}", parent=f"a{name}-{before - 2}" if before else None, **at)
        with log.open("ab") as file:
            file.write(asked + b"\n" + answer("done", uuid=f"a{mine}", parent=f"u{mine}", **at) + b"\n")

    def token(self) -> str:
        """The secret of the login."""
        kept = json.loads((self.shell.home / "backstory/server.json").read_text("utf-8"))
        return str(kept["token"])

    def there(self) -> int:
        """The number of sessions that the server has of this machine."""
        status = self.shell("sync", "status", "--json")
        return int(status.json()["confirmed_count"])

    def on_terminal(self, answer: str = "") -> tuple[int | None, str]:
        """Reindex on a terminal; the exit code, and what was seen. ``answer``: to its question, if it asks one."""
        words = [*COMMAND, "reindex"]
        with Terminal(words, self.shell.cwd, self.shell.environ, is_copied=True) as terminal:
            if answer:
                terminal.until("[Cancel]")
                terminal.type(answer)
            seen = terminal.end()
            return terminal.process.returncode, seen
