"""What a key sends over the line: few enough bytes for one that takes 20 KB a second."""

from __future__ import annotations

import pytest

from tests.support.session_screens import SessionMachine
from tests.support.slow_line import SlowLine

pytestmark = pytest.mark.slow

MOST_BYTES = {(60, 20): 4_000, (80, 24): 6_000}
"""By the size of the terminal. A busy machine may paint twice what it opens: at once what is known, then the rest."""
WALK: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ("8 sessions", "❯")),
    ("j", ("> ✓ Add a rate",)),
    ("f", ("leave the field",)),
    ("ra", ("titles",)),
    ("\x1b", ("? keys",)),
    ("\x1b", ("8 sessions",)),
    ("/", ("leave the field",)),
    ("gateway", ("in texts", "»")),
    ("\x1b", ("? keys",)),
    ("\x1b", ("8 sessions",)),
    ("?", ("Next session",)),
    ("\x1b", ("!Next session",)),
    ("\x10", ("Search for commands",)),
    ("repo", ("Reports: stand-up",)),
    ("\x1b", ("!🔎",)),
    ("R", ("[1 Stand-up]",)),
    ("+++", ("all time",)),
    ("2", ("[2 Costs]", "> Sessions")),
    ("j", ("> ",)),
    ("3", ("[3 Activity]",)),
    ("4", ("[4 Tips]",)),
    ("s", ("8 sessions",)),
    ("G", ("8 sessions",)),
    ("\x1b[F", ("> ✓ Count requests",)),
    ("\r", ("Viel.", "completed")),
    ("K", ("!Viel.",)),
    ("[", ("Implement the",)),
    ("g", ("Count requests per person",)),
    ("\x1b[B", ("Implement the",)),
    ("\r", ("Implement the",)),
    ("t", ("Thinking is shown",)),
    ("?", ("Search in this session",)),
    ("\x1b", ("!Search in this session",)),
    ("/", ("Enter take it",)),
    ("gateway", ("gateway",)),
    ("\r", ("hit 1 of",)),
    ("n", ("hit 2 of",)),
    ("G", ("Viel.",)),
    ("b", ("2 turns",)),
    ("k", ("▸ ",)),
    ("v", ("Choose another turn",)),
    ("jv", ("branch 1",)),
    ("J", ("branches",)),
    ("\x1b", ("go there",)),
    ("n", ("A name for the branch",)),
    ("\x1b", ("!A name",)),
    ("\x1b", ("!◆",)),
    ("\x1b", ("!go there",)),
    ("e", ("Write the session to a file",)),
    ("\x1b", ("!Write the session",)),
    ("t", ("Thinking is hidden",)),
    ("p", ("to the agent",)),
    ("hello", ("hello",)),
    ("\x1b", ("s sessions",)),
    ("s", ("8 sessions",)),
    ("q", ()),
)
"""Keys through all screens, and what is seen after them."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> SessionMachine:
    return SessionMachine(tmp_path_factory.mktemp("line"))


@pytest.mark.parametrize("size", MOST_BYTES, ids=str)
def test_no_key_sends_more_than_a_slow_line_takes_in_a_moment(machine: SessionMachine, size: tuple[int, int]) -> None:
    with SlowLine(machine.project, machine.environ, "--all", size=size) as line:
        for keys, words in WALK:
            line.step(keys, keys, *words)
    assert [each for each in line.steps if each.sent > MOST_BYTES[size]] == []
