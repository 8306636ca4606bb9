"""The other side of a pull, and its tasks; and a machine over ssh, which does them."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Protocol

from msgspec import Struct

from backstory.errors import FarEndBroken
from backstory.exchange.frames import FrameDamaged
from backstory.sync.wire import (
    CUT,
    OFFERS_MAX,
    WANTS_AT_ONCE,
    FramesBegin,
    FramesEnd,
    FramesFail,
    Offered,
    Ready,
    Wanted,
    heard,
    say,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from backstory.sync.far_end import FarEnd
    from backstory.sync.pull_plan import SentPoint, SessionOffer, Want
    from backstory.sync.spool import FrameSpool


UNASKED = "it sends what nobody asked for"


class Arrived(Struct, frozen=True, kw_only=True):
    """A session whose frames came, or the ``reason`` that it cannot be sent."""

    want: Want
    sent: SentPoint | None = None
    reason: str = ""


class FrameSource(Protocol):
    """The other side of a pull. ``id`` is its own, ``name`` what a person calls it."""

    id: str
    name: str
    is_masked: bool
    """True where what comes is masked, and without the bytes of logs."""
    passed_over: list[str]
    """The files that are not taken, each with the reason."""
    files_read: set[str]
    """The files that were read to their end, and need not be read again."""

    def offers(self) -> list[SessionOffer]:
        """Return what it has."""

    def fetch(self, wants: Sequence[Want], spool_of: Callable[[Want], FrameSpool]) -> Iterator[Arrived]:
        """Put the frames of sessions into their spools, and yield each session whose frames are all there.

        Raises FarEndBroken.
        """


class FarSource:
    """A machine over ssh, which was greeted."""

    is_masked = False

    def __init__(self, far: FarEnd, name: str, store_id: str) -> None:
        self._far, self.name, self.id = far, name, store_id
        self.passed_over, self.files_read = list[str](), set[str]()

    def offers(self) -> list[SessionOffer]:
        """Read all that it offers. Raises FarEndBroken."""
        offers = list["SessionOffer"]()
        while not isinstance(words := heard(self._far.answers), Ready):
            if not isinstance(words, Offered) or len(offers) >= OFFERS_MAX:
                raise FarEndBroken("it offers what cannot be offered")
            offers.append(words.offer)
        return offers

    def fetch(self, wants: Sequence[Want], spool_of: Callable[[Want], FrameSpool]) -> Iterator[Arrived]:
        for at in range(0, len(wants), WANTS_AT_ONCE):
            asked = wants[at : at + WANTS_AT_ONCE]
            self._say(*(Wanted(want=each) for each in asked), Ready())
            for want in asked:
                came = heard_session(self._far.answers, want, spool_of)
                if came is None:
                    raise FarEndBroken(UNASKED)
                yield came
            if not isinstance(heard(self._far.answers), Ready):
                raise FarEndBroken(UNASKED)

    def _say(self, *words: Wanted | Ready) -> None:
        try:
            say(self._far.asked, *words)
            self._far.asked.flush()
        except OSError as refused:
            raise FarEndBroken(CUT) from refused


def heard_session(answers: IO[bytes], want: Want, spool_of: Callable[[Want], FrameSpool]) -> Arrived | None:
    """Hear the frames of one session, to its end; None where the other side ends before. Raises FarEndBroken."""
    spool: FrameSpool | None = None
    while True:
        words = heard(answers)
        if isinstance(words, bytes) and spool is not None:
            try:
                spool.add(words)
            except FrameDamaged as refused:
                raise FarEndBroken(f"a frame of session {want.uid} is damaged: {refused}") from refused
            if spool.heads[0].session != want.uid:
                raise FarEndBroken(UNASKED)
        elif isinstance(words, FramesBegin) and words.uid == want.uid and spool is None:
            spool = spool_of(want)
            if words.kept != len(spool):
                spool.shorten()
        elif isinstance(words, FramesEnd) and words.uid == want.uid and spool is not None:
            return Arrived(want=want, sent=words.sent)
        elif isinstance(words, FramesFail) and words.uid == want.uid:
            return Arrived(want=want, reason=words.reason)
        elif isinstance(words, Ready):
            return None
        else:
            raise FarEndBroken(UNASKED)
