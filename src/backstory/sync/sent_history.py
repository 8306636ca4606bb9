"""Hashes of the masked lines that were sent of a session: they say whether those would be sent now.

They go on from where they were, so of a session that only went on nothing is read again but the rows of its past.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec
from msgspec import Struct

from backstory.exchange.frames import START, FramePoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NOTHING = "0" * 64
_MOST = 1 << 256


class SentHistory(NamedTuple):
    """The words of a note. ``local``: of the rows that were read; '' if it is not known that they were the same ones.

    ``head``: of the lines that are sent each time: those of the session, and the turns that may still go on.
    """

    events: str = NOTHING
    turns: str = NOTHING
    head: str = ""
    local: str = ""

    @classmethod
    def of(cls, words: str) -> Self | None:
        """Read the words; None of others."""
        parts = words.split(" ")
        return cls(*parts) if len(parts) == len(cls._fields) else None

    def __str__(self) -> str:
        return " ".join(self)


def of_frames(lines: Iterable[bytes]) -> SentHistory:
    """The hashes of the lines of a session's frames, in which some are said again: each counts as it was said last.

    Without the end of the session ``head`` is '': there is more to come.
    """
    said, place = SaidLines(), msgspec.json.Decoder(_Place).decode
    heads, turns, is_end = list[bytes](), dict[str, bytes](), False

    def events() -> Iterator[bytes]:
        nonlocal is_end
        for line in lines:
            at = place(line)
            is_end = at.type == "session_end"
            if at.type == "event":
                yield line
            elif at.type == "turn":
                turns[at.uid] = line
            else:
                if at.type == "session":
                    heads.clear()
                heads.append(line)

    for each in (events(), turns.values(), heads):
        for _ in said.read(each):
            pass
    found = said.history()
    return found if is_end else found._replace(head="")


class _Place(Struct, frozen=True):
    type: str
    uid: str = ""
    seq: int = 0
    part: int = 0
    last_seq: int = 0
    length: int = 0


class SaidLines:
    """Reads the lines of a session; behind ``before``, if they are those behind ``upto``.

    ``until``: a point for which the hashes are asked besides those for the end. ``logs``: the lengths of the logs.
    """

    def __init__(
        self, *, before: SentHistory | None = None, upto: FramePoint = START, until: FramePoint | None = None
    ) -> None:
        self._begun = before or SentHistory()
        self.upto, self.logs, self._until = upto, list[int](), until
        self._turns = list[tuple[int, int]]()
        self._events, self._then = bytes.fromhex(self._begun.events), b""
        self._head = hashlib.sha256()
        self._decode = msgspec.json.Decoder(_Place).decode

    def read(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the lines, read."""
        for line in lines:
            at = self._decode(line)
            if at.type == "event":
                if self._until is not None and (at.seq, at.part) > self._until and not self._then:
                    self._then = self._events
                self._events = hashlib.sha256(self._events + line).digest()
                self.upto = FramePoint(at.seq, at.part)
            elif at.type == "turn":
                self._turns.append((at.last_seq, int.from_bytes(hashlib.sha256(line).digest(), "big")))
            elif at.type != "session_end":
                self._head.update(line)
                if at.type == "log":
                    self.logs.append(at.length)
            yield line

    def history(self, local: str = "") -> SentHistory:
        """The hashes of all that was read."""
        going_on = self._sum(self.upto.seq, len(self._turns) and max(last for last, _ in self._turns) + 1)
        head = hashlib.sha256(self._head.digest() + going_on.to_bytes(32, "big")).hexdigest()
        return SentHistory(self._events.hex(), self._turns_before(self.upto.seq), head, local)

    def is_as(self, sent: SentHistory) -> bool:
        """Return True if this is what was sent."""
        return self.history(sent.local) == sent

    def begins_as(self, sent: SentHistory) -> bool:
        """Return True if what was sent up to ``until`` is as it was."""
        if self._until is None:
            return False
        events = (self._then or self._events).hex()
        return (events, self._turns_before(self._until.seq)) == (sent.events, sent.turns)

    def _turns_before(self, seq: int) -> str:
        # A turn that goes on behind a point is no part of what was said up to it.
        return f"{(int(self._begun.turns, 16) + self._sum(0, seq)) % _MOST:064x}"

    def _sum(self, first: int, behind: int) -> int:
        return sum(each for last, each in self._turns if first <= last < behind) % _MOST
