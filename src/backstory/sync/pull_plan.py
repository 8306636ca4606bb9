"""The plan of a pull: the sessions to be sent, of those that one side offers and the other side holds. Pure.

A side is a machine of one person, a folder that both see, or later a server: it has sessions in frames, up to a point.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.ask.session_marks import REMOVED
from backstory.exchange.frames import FramePoint
from backstory.exchange.json_lines import Digest, Offset, Seq, Uid
from backstory.ids import session_identity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class SentPoint(Struct, frozen=True, kw_only=True):
    """The state of a session as frames brought it. ``mark``, ``history`` and ``sidecars`` are the sender's own words.

    ``logs``: the lengths of its logs. ``chain``: of the last frame. ``telling``: the records that tell its secrets.
    """

    epoch: Seq
    upto: FramePoint
    chain: Digest
    mark: str
    history: str = ""
    logs: tuple[Offset, ...] = ()
    sidecars: str = ""
    telling: tuple[int, ...] = ()


class SessionOffer(Struct, frozen=True, kw_only=True):
    """A session that a side has, and the mark of its state."""

    uid: Uid
    mark: str

    @property
    def is_removal(self) -> bool:
        """True if a person removed it there."""
        return self.mark.startswith(REMOVED)


class Want(Struct, frozen=True, kw_only=True):
    """A session that is to be sent, from behind ``sent`` on; None: all of it.

    ``chain`` is of the last of ``frames`` frames that came of it before the line was cut.
    """

    uid: Uid
    sent: SentPoint | None = None
    frames: Offset = 0
    chain: str = ""


class Here(StrEnum):
    """The state of a session on the side that pulls."""

    OWN = "own"
    """It is read from its own log here, or from the store that owns it: what comes from elsewhere never changes it."""
    PULLED = "pulled"
    REMOVED = "removed"


def wanted(offers: Iterable[SessionOffer], held: Mapping[str, SentPoint], here: Mapping[str, Here]) -> list[Want]:
    """Decide what is asked for: sessions that are new, or of which the other side has another state than it sent last.

    ``held``: by uid what came of the other side. ``here``: by identity what is here. Of two offers of one session the
    first counts. A session that was removed on either side stays removed there, and its own log's stays as it is.
    """
    wants, seen = list[Want](), set[str]()
    for each in offers:
        identity = session_identity(each.uid)
        if identity in seen:
            continue
        seen.add(identity)
        state, sent = here.get(identity), held.get(each.uid)
        if state in (Here.OWN, Here.REMOVED):
            continue
        if each.is_removal:
            if sent is None or sent.mark != each.mark:
                wants.append(Want(uid=each.uid, sent=sent))
        elif state is None:
            wants.append(Want(uid=each.uid))
        elif sent is None or sent.mark != each.mark:
            wants.append(Want(uid=each.uid, sent=sent))
    return wants


def changed(offers: Iterable[SessionOffer], held: Mapping[str, SentPoint]) -> list[Want]:
    """Decide what is to be pushed: sessions whose state is another one than was pushed last."""
    return [
        Want(uid=each.uid, sent=sent)
        for each in offers
        if (sent := held.get(each.uid)) is None or sent.mark != each.mark
    ]
