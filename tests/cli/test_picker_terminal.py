"""The terminal of the picker: bytes to keys, lines to bytes, and modes that are given back."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import termios
from typing import TYPE_CHECKING

import pytest

from backstory.cli import output
from backstory.cli.picker.state import Key
from backstory.cli.picker.terminal import Keys, Terminal
from tests.support.going import until

if TYPE_CHECKING:
    from collections.abc import Iterator


def typed(text: str) -> list[Key]:
    return [Key("text", text)]


def names(*found: str) -> list[Key]:
    return [Key(each) for each in found]


SEQUENCES: dict[bytes, list[Key]] = {
    b"\r": names("enter"),
    b"\t": names("tab"),
    b"\x7f": names("backspace"),
    b"\x08": names("backspace"),
    b"\x03\x12\x0f\x15\x17\x0e\x10": names("ctrl-c", "ctrl-r", "ctrl-o", "ctrl-u", "ctrl-w", "ctrl-n", "ctrl-p"),
    b"\x1b[A\x1b[B\x1b[C\x1b[D": names("up", "down", "right", "left"),
    b"\x1bOA\x1bOB": names("up", "down"),
    b"\x1b[H\x1b[F\x1b[1~\x1b[4~": names("home", "end", "home", "end"),
    b"\x1b[5~\x1b[6~\x1b[3~": names("pageup", "pagedown", "delete"),
    b"\x1bOP\x1b[11~\x1b[[A": names("f1", "f1", "f1"),
    "heron レート 🎉".encode(): typed("heron レート 🎉"),
    b"a\x1b[Bb": [*typed("a"), *names("down"), *typed("b")],
    b"\x1b[200~one\rtwo\x1b[A\x03\x1b[201~x": [*typed("one two [A "), *typed("x")],
    b"\x1b[200~\x1b[201~": [],
    b"\x1b\x1b[A": names("escape", "up"),
    b"\x1b[1;5A\x1b[99~\x1bx\x00\x1c": [],
    "\u202e\x9b31m".encode(): typed("  31m"),
}
"""Bytes as terminals send them, and the keys that they are."""


@pytest.mark.parametrize("data", SEQUENCES, ids=repr)
def test_bytes_are_keys(data: bytes) -> None:
    assert Keys().read(data) == SEQUENCES[data]


@pytest.mark.parametrize("data", SEQUENCES, ids=repr)
def test_bytes_that_come_one_by_one_are_the_same_keys(data: bytes) -> None:
    keys, found = Keys(), list[Key]()
    for byte in data:
        found += keys.read(bytes([byte]))
    assert joined(found) == joined(SEQUENCES[data])


def joined(keys: list[Key]) -> list[Key]:
    """Keys with the texts of those that follow one another in one."""
    found = list[Key]()
    for key in keys:
        if key.text and found and found[-1].text:
            found[-1] = Key("text", found[-1].text + key.text)
        else:
            found.append(key)
    return found


def test_an_escape_is_a_key_once_nothing_follows_it() -> None:
    keys = Keys()
    assert (keys.read(b"\x1b"), keys.is_waiting, keys.flushed(), keys.is_waiting) == ([], True, names("escape"), False)
    assert (keys.read(b"\x1b["), keys.flushed(), keys.read(b"a")) == ([], [], typed("a"))


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    assert Keys().read(b"\xffa") == typed("\ufffda")


# painting -------------------------------------------------------------------------------------------------------------


class Pty:
    """A terminal of which both ends are ours."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self.terminal = Terminal(self.theirs, self.theirs, is_coloured=True)

    def sent(self, end: str = "\x1b[?25h") -> str:
        """What was sent since, to an end; by default to that of a painting."""
        seen = b""
        while not seen.endswith(end.encode()):
            seen += os.read(self.ours, 65536)
        return seen.decode()


@pytest.fixture
def opened() -> Iterator[Pty]:
    made = Pty()
    yield made
    os.close(made.ours)
    os.close(made.theirs)


def test_only_lines_that_differ_are_painted(opened: Pty) -> None:
    with opened.terminal as terminal:
        terminal.paint(["one", "two"], 0)
        assert re.findall("one|two", opened.sent()) == ["one", "two"]
        terminal.paint(["one", "other"], 0)
        assert re.findall("one|two|other", opened.sent()) == ["other"]


def test_nothing_of_a_line_acts_but_its_style(opened: Pty) -> None:
    with opened.terminal as terminal:
        opened.sent("\x1b[2J")
        terminal.paint(["\x1b[2J\x07\x9b1m\n\t\u202e" + output.style("x", fg="red"), "<4af0" * 5], 3)
        sent = opened.sent()
    assert r"\x1b[2J\x07\x9b1m  \u202e" in sent
    assert set(re.findall("\x1b[^a-zA-Z]*[a-zA-Z]", sent)) == {
        "\x1b[?25l", "\x1b[?25h", "\x1b[0m", "\x1b[2J", "\x1b[1;1H", "\x1b[2;1H", "\x1b[1;4H", "\x1b[2K", "\x1b[31m",
    }  # fmt: skip
    assert sent.count("\x1b[2J") == 1, "the one with which the screen begins"


def test_the_modes_are_given_back_also_after_a_fault(opened: Pty) -> None:
    before = termios.tcgetattr(opened.theirs)
    with pytest.raises(ZeroDivisionError), opened.terminal:
        assert termios.tcgetattr(opened.theirs) != before
        _ = 1 / 0
    assert termios.tcgetattr(opened.theirs) == before
    assert opened.sent("\x1b[?25h\x1b[?1049l")


def test_what_was_typed_ahead_is_for_nobody_else(opened: Pty) -> None:
    with opened.terminal:
        os.write(opened.ours, b"rm -r .\r")
        until(lambda: select.select([opened.theirs], [], [], 0)[0])
    os.set_blocking(opened.theirs, False)
    with pytest.raises(BlockingIOError):
        os.read(opened.theirs, 100)


def test_another_size_ends_a_wait_and_has_every_line_painted_anew(opened: Pty) -> None:
    with opened.terminal as terminal:
        terminal.paint(["one", "two"], 0)
        opened.sent()
        signal.raise_signal(signal.SIGWINCH)
        assert terminal.read(None) == []
        terminal.paint(["one", "two"], 0)
        assert re.findall("one|two", opened.sent()) == ["one", "two"]


def test_a_wake_ends_a_wait_and_a_terminal_that_is_gone_ends_the_keys(opened: Pty) -> None:
    with opened.terminal as terminal:
        terminal.wake()
        assert terminal.read(None) == []
        os.write(opened.ours, b"x")
        assert terminal.read(None) == typed("x")
        os.close(opened.ours)
        assert terminal.read(None) is None
        terminal.paint(["nobody sees it"], 0)
    opened.ours = os.open(os.devnull, os.O_RDONLY)


@pytest.mark.parametrize("width", [1, 3, 5, 8, 20])
def test_a_line_is_cut_with_its_colours(width: int) -> None:
    line = f"ab{output.style('cde', bold=True)}レート{output.style('x' * 10, fg='red')}"
    cut = output.cut(line, width)
    plain, painted = (output.for_screen(cut, is_coloured=each) for each in (False, True))
    assert (output.columns(plain) <= width, plain.endswith("…")) == (True, True)
    assert painted.count("\x1b[0m") == 2, "each colour ends"
    assert output.cut(line, 100) == line
