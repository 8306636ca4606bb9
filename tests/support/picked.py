"""The picker for tests: without a terminal, with a list in memory that answers as a ``Reader`` does; and on one."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import termios
import time
from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.picker import layout, state
from backstory.cli.picker.state import (
    Counted,
    CountQuestion,
    Found,
    Key,
    Listed,
    ListQuestion,
    PickRow,
    Previewed,
    PreviewQuestion,
    State,
    StoreChanged,
)
from backstory.workspace.history.sessions import END
from tests.support.forked import COMMAND
from tests.support.going import DEADLINE_S
from tests.support.painted import Painted
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from backstory.cli.picker.state import Answer, Question


def row(title: str, *, seq: int | None = None, snippet: str = "") -> PickRow:
    uid = "".join(letter for letter in title if letter.isalnum()).rjust(12, "0")
    return PickRow(
        uid=uid, seq=seq, mark="✓", colour="green", when="yesterday", agent="claude", project="acme/shop", title=title,
        snippet=snippet,
    )  # fmt: skip


class Picked:
    """A picker whose questions are answered at once. ``here``: the rows of this project, ``others`` of all others."""

    def __init__(
        self, here: Sequence[PickRow], others: Sequence[PickRow] = (),
        texts: Callable[[str], Sequence[PickRow]] = lambda _: (),
        **how: object,
    ) -> None:  # fmt: skip
        self.here, self.others, self.texts = [*here], [*others], texts
        self.asked: list[Question] = []
        self._last: dict[type, Question] = {}
        self.now = state.resized(State(**how), 80, 24)  # type: ignore[arg-type]
        self.settle()

    def settle(self, idle_ms: float = 0) -> None:
        """Answer all that is asked."""
        while fresh := [each for each in state.questions(self.now, idle_ms) if self._last.get(type(each)) != each]:
            self._last[type(fresh[0])] = fresh[0]
            self.asked.append(fresh[0])
            self.now = state.answered(self.now, self.answer(fresh[0]))

    def answer(self, question: Question) -> Answer:
        match question:
            case ListQuestion():
                return self._listed(question)
            case CountQuestion():
                return Counted(question=question, total=len(self._rows(question.title, question.everywhere)))
            case PreviewQuestion():
                return Previewed(question=question, lines=(f"preview of {question.uid} @{question.seq}",))
            case _:
                return Found(question=question, rows=tuple(self.texts(question.words)))

    def _rows(self, title: str, everywhere: bool) -> list[PickRow]:
        rows = [*self.here, *self.others] if everywhere else self.here
        return [each for each in rows if title.casefold() in each.title.casefold()]

    def _listed(self, question: ListQuestion) -> Listed:
        rows = self._rows(question.title, question.everywhere)
        places = [each.uid for each in rows]
        first, last = 0, len(rows)
        if question.after is not None:
            first = places.index(question.after) + 1
            last = min(first + question.limit, len(rows))
        elif question.before is not None:
            last = len(rows) if question.before == END else places.index(question.before)
            first = max(last - question.limit, 0)
        else:
            last = min(question.limit, len(rows))
        part = rows[first:last]
        return Listed(
            question=question, rows=tuple(part), has_more=last < len(rows), has_earlier=first > 0,
            start=part[0].uid if part else None, end=part[-1].uid if part else None,
        )  # fmt: skip

    def press(self, *names: str) -> Picked:
        """Press keys; a name that is no key's is typed."""
        for name in names:
            key = Key(name) if name in state.KEYS and name != "text" else Key("text", name)
            self.now = state.pressed(self.now, key)
            self.settle()
        return self

    def change(self) -> Picked:
        """Let the store be another than it was."""
        self.now = state.answered(self.now, StoreChanged())
        self.settle()
        return self

    def resize(self, columns: int, lines: int) -> Picked:
        self.now = state.resized(self.now, columns, lines)
        self.settle()
        return self

    @property
    def lines(self) -> list[str]:
        return [output.for_screen(line, is_coloured=False).rstrip() for line in layout.lines(self.now)]

    @property
    def chosen(self) -> str:
        return self.now.row.title if self.now.row else ""

    @property
    def listed(self) -> list[str]:
        return [each.title for each in self.now.rows]


class OnTerminal(Terminal):
    """The picker on a terminal of its own, whose screen is looked at. Commands are copies where that is the same."""

    def __init__(
        self, words: Sequence[str], cwd: Path, environ: Mapping[str, str], *, width: int = 80, rows: int = 24,
        is_copied: bool = True, command: Sequence[str] = COMMAND,
    ) -> None:  # fmt: skip
        super().__init__([*command, *words], cwd, environ, width=width, rows=rows, is_copied=is_copied)
        self.screen = Painted(width, rows)
        self._fed = 0

    def until_seen(self, *words: str) -> str:
        """The screen, once all of these words are on it."""
        end = time.monotonic() + DEADLINE_S
        while not all(word in self.seen() for word in words):
            assert time.monotonic() < end, f"{words} in\n{self.screen.text()}"
            select.select([self._ours], [], [], 0.05)
        return self.screen.text()

    def seen(self) -> str:
        """The screen as it is now."""
        os.set_blocking(self._ours, False)
        self._take()
        self.screen.feed(self._seen[self._fed :])
        self._fed = len(self._seen)
        return self.screen.text()

    def resize(self, columns: int, rows: int) -> None:
        """Make the terminal another size."""
        self.seen()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(columns, rows)
        self.send(signal.SIGWINCH)

    def ended(self) -> tuple[int, str]:
        """How it ended, and what was printed after the picker was gone."""
        shown = self.end()
        assert self.modes() == self.before, "the terminal is not as it was"
        self.seen()
        assert not self.screen.modes.get("1049"), "the other screen is still shown"
        return self.process.returncode, shown.rpartition("\x1b[?1049l")[2]
