"""``backstory tui`` on a terminal of its own, and where it cannot be opened."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from backstory.cli import output
from backstory.cli.app import App
from backstory.cli.commands import tui_command
from backstory.errors import ScreenNotInstalled
from tests.support.forked import COMMAND
from tests.support.machines import claude_line, claude_log, lines
from tests.support.picked import OnTerminal
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow
ACTING = re.compile(r"\x1b\]|\x07|\x9b|\u202e")
"""Characters that a terminal obeys and the screen never sends: titles, bells, letters that change the direction."""
POINTER = re.compile(r"\x1b\]22;[a-z]*(?:\x07|\x1b\\)")
"""The shape of the mouse's pointer, which Textual sets."""
OPENED, CLOSED = "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture
def birds(bare: Shell) -> Shell:
    path = bare.home / claude_log("log")
    path.parent.mkdir(parents=True)
    path.write_bytes(lines(claude_line("user", "u", "the heron"), claude_line("assistant", "a", "it flew")))
    assert bare("ingest").code == 0
    return bare


def test_it_is_a_screen_that_leaves_the_terminal_as_it_was(birds: Shell) -> None:
    with Terminal([*COMMAND, "tui", "--all"], birds.cwd, birds.environ, width=80, rows=24) as terminal:
        before = terminal.modes()
        terminal.until("the heron")
        terminal.type("\r")
        terminal.until("it flew")
        terminal.type("q")
        shown = terminal.end()
        assert (terminal.process.returncode, terminal.modes() == before) == (0, True)
    assert shown.count(OPENED) == shown.count(CLOSED) == 1
    assert ACTING.findall(POINTER.sub("", shown)) == []


def test_backstory_alone_opens_it_where_a_setting_says_so(birds: Shell) -> None:
    assert birds("config", "set", "list.face", "tui").code == 0
    with Terminal([*COMMAND], birds.home, birds.environ, width=80, rows=24) as terminal:
        terminal.until("? keys")
        terminal.type("q")
        terminal.end()
        assert terminal.process.returncode == 0


def test_without_a_terminal_it_says_what_shows_the_same(birds: Shell) -> None:
    done = birds("tui")
    assert (done.code, done.err) == (
        2,
        "backstory: The screen needs a terminal that can be painted. The same in plain text: `backstory list`.\n",
    )


def test_a_terminal_that_is_too_small_is_a_sentence(birds: Shell) -> None:
    with OnTerminal(["tui"], birds.cwd, birds.environ, width=59, rows=24) as terminal:
        code, shown = terminal.ended()
    assert (code, "59 columns and 24 lines, not 60 and 15" in " ".join(shown.split())) == (2, True)


def test_without_its_package_it_says_how_to_add_it(birds: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == "textual" else real(name))
    monkeypatch.setattr(output, "can_paint", lambda: True)
    done = CliRunner().invoke(tui_command.command, [], obj=App(birds.environ, birds.cwd))
    assert isinstance(done.exception, ScreenNotInstalled)
    assert (done.exception.exit_code, "textual" in str(done.exception)) == (69, True)
