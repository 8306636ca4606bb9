"""An agent that was never read before: it is named, asked about where there is much of it, and given back."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support.forked import COMMAND
from tests.support.machines import SMALL
from tests.support.recorded import home_of
from tests.support.shell import Shell
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

LARGE = 1_000_000_000


def _large(home: Path) -> Path:
    """A file in the place of an agent's logs which is as long as is asked about, and takes no room."""
    log = home / ".claude" / "projects" / "p" / "large.jsonl"
    log.parent.mkdir(parents=True)
    with log.open("wb") as file:
        file.truncate(LARGE)
    return log


def test_a_large_agent_that_was_never_read_is_asked_about(bare: Shell) -> None:
    bare.put(*(name for name in SMALL if name.startswith("codex/")))
    _large(bare.home)
    with Terminal([*COMMAND, "ingest"], bare.cwd, bare.environ, is_copied=True) as terminal:
        terminal.until("claude was never read here: 1 file, 1000.0 MB. Read it now?")
        terminal.type("n\n")
        shown = terminal.end()
    assert "Left out: claude. To read only some agents from now on: backstory config set ingest.agents" in shown
    assert "codex" in shown.partition("Left out")[2]
    assert {each["agents"][0] for each in bare("list", "--all", "--json").json()["sessions"]} == {"codex"}


def test_nothing_is_asked_where_nobody_is_there_or_the_agent_was_named(bare: Shell) -> None:
    _large(bare.home)
    assert "never read" not in bare("ingest", "--agent", "codex").err
    log = _large(bare.home / "other")
    shutil.rmtree(log.parent)
    assert "never read" not in bare("ingest", "--agent", "claude", HOME=str(bare.home / "other")).err


def test_an_agent_of_which_all_is_new_is_named_beside_the_others(bare: Shell) -> None:
    of_claude, of_codex = ([name for name in SMALL if name.startswith(each)] for each in ("claude/", "codex/"))
    bare.put(*of_claude)
    bare("ingest")
    bare.put(*of_codex)
    told = bare("ingest").out
    assert "new sessions, all there is of codex (" in told


def test_a_session_of_a_database_is_given_back_as_rows_which_is_said(tmp_path: Path) -> None:
    shell = Shell(home_of(tmp_path, "opencode", "hello"))
    shell("ingest")
    done = shell("restore", "--all", "--to", "out")
    assert "1 session of a database: the rows that were read, a line of JSON for each.\n" in done.err
    (written,) = (shell.cwd / "out").rglob("*.db#*")
    assert {"session", "message", "part"} <= {json.loads(line)["table"] for line in written.read_text().splitlines()}
