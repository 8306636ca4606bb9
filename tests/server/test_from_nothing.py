"""docs/server.md, "From nothing": two people type it, line by line, and search together."""

from __future__ import annotations

import re
import shlex
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.claude_records import answer, user
from tests.support.going import until
from tests.support.served import RunningServer
from tests.support.shell import Done, Shell
from tests.support.shown_commands import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SECTION = (ROOT / "docs" / "server.md").read_text("utf-8").partition("\n## From nothing\n")[2].partition("\n## ")[0]
SHOWN = "http://127.0.0.1:7421"
MINUTES = 10


def blocks(kind: str) -> list[list[str]]:
    """The lines of each block of the section, without those of other programs."""
    found = [block.splitlines() for block in re.findall(rf"```{kind}\n(.*?)```", SECTION, re.DOTALL)]
    return [[line for line in lines if not line.startswith("pipx ")] for lines in found]


class Newcomer:
    """A person's machine: an agent wrote a log there in a clone, and nothing of ours was ever typed."""

    def __init__(self, folder: Path, name: str, prompt: str) -> None:
        folder.mkdir()
        self.shell = Shell(folder)
        self.shell.environ |= {"LOGNAME": name, "USER": name}
        (self.shell.cwd / ".git").mkdir()
        (self.shell.cwd / ".git/config").write_text('[remote "origin"]\n\turl = git@github.com:me/app.git\n', "utf-8")
        uid = f"{name * 2:.8}-0000-4000-8000-000000000000"
        at: dict[str, Any] = {"cwd": str(self.shell.cwd), "sessionId": uid}
        log = folder / ".claude/projects/x" / f"{uid}.jsonl"
        log.parent.mkdir(parents=True)
        log.write_bytes(user(prompt, uuid="u0", **at) + b"\n" + answer("done", uuid="a0", parent="u0", **at) + b"\n")

    def types(self, line: str) -> Done:
        """Type a line of the document."""
        program, *words = shlex.split(line)
        assert program == "backstory"
        done = self.shell(*words)
        assert done.code == 0, (line, done.err)
        return done


@pytest.mark.slow
def test_a_small_team_goes_from_nothing_to_searching_together(folder: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    serves, begins, joins, sends, searches = blocks("sh")
    anna = Newcomer(tmp_path / "anna", "anna", "Why do we hit the rate limit?")
    ben = Newcomer(tmp_path / "ben", "ben", "Rename the module")
    assert serves == ["backstory serve"]
    (tmp_path / "server").mkdir()
    server = RunningServer(folder, tmp_path / "server")
    try:
        login, invite = (line.replace(SHOWN, server.address) for line in begins)
        anna.types(login.replace("bki_…", server.code))
        printed = anna.types(invite).out.strip()
        assert [re.sub(r"bki_\S+", "bki_…", printed).replace(server.address, SHOWN)] == joins
        ben.types(printed)
        for line in sends:
            for person in (anna, ben):
                person.types(line)
        (search,) = searches
        until(lambda: 'waiting_sessions": 0' in ben.shell(*shlex.split(search)[1:], "--json").out)
        for person in (anna, ben):
            found = person.types(search)
            assert "Why do we hit the rate limit?" in found.out
        told = (found.out + found.err).replace(server.address, SHOWN)
        assert [masked(line) for line in told.splitlines()] == [masked(line) for line in blocks("text")[1]]
    finally:
        server.end()
    assert time.monotonic() - began < MINUTES * 60


def masked(line: str) -> str:
    """A line without what is another one on each machine."""
    return re.sub(r"\b01[0-9A-Z]{10,}\b|\b20\d\d-\d\d-\d\d\b", "…", line)
