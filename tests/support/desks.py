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
        (self.shell.cwd / ".git").mkdir()
        (self.shell.cwd / ".git/config").write_text('[remote "origin"]\n\turl = git@github.com:me/tool.git\n', "utf-8")
        logs = folder / ".claude/projects/x"
        logs.mkdir(parents=True)
        for number in range(sessions):
            uid = f"{number:08}-0000-4000-8000-000000000000"
            at: dict[str, Any] = {"cwd": str(self.shell.cwd), "sessionId": uid}
            lines = (user(f"work {number}", uuid="u", **at), answer("done", uuid="a", parent="u", **at))
            (logs / f"{uid}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        self.allow("true")

    def allow(self, enabled: str) -> None:
        for key, value in (("sync.repositories", "me/tool"), ("sync.enabled", enabled)):
            assert self.shell("config", "set", key, value).code == 0

    def log_in(self, person: str = "anna", code: str = "") -> None:
        """Come in, by default as the first admin of a new organisation."""
        words = ("login", self.address, "--code", "-", "--person", person)
        assert self.shell(*words, typed=f"{code or self.team.people.found('The team')}\n").code == 0

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
