"""Sessions that a machine of a person sent, offered to the others: their marks, then the frames that are asked for.

The words are those between two machines (docs/sync.md); an answer ends before all is said where it is long enough.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.exchange.frames import FrameHead
from backstory.server.database import one
from backstory.server.refusals import Refused
from backstory.server.shelves import CHANGES_BYTES, NOT_A_BEGINNING
from backstory.sync.pull_plan import SentPoint, SessionOffer, Want
from backstory.sync.wire import WANTS_AT_ONCE, FramesBegin, FramesEnd, FramesFail, Ready, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Cursor

    from backstory.server.database import TeamDatabase
    from backstory.server.people import Caller

OFFERS_AT_ONCE = 10_000


class OfferedPage(Struct, frozen=True, kw_only=True):
    """Some of the sessions of a machine, by uid."""

    offers: list[SessionOffer]
    has_more: bool


class ShelfOffers:
    """The shelves of a caller's machines, for the caller's others."""

    def __init__(self, database: TeamDatabase) -> None:
        self._database = database

    def offers(self, caller: Caller, machine: str, after: str) -> OfferedPage:
        """Return the sessions that a machine sent whole, with uids behind this one; no beginning of another's."""
        with self._database.of(caller.tenant) as rows:
            of = (caller.tenant, caller.person, machine, after, caller.among, caller.among, OFFERS_AT_ONCE + 1)
            found = rows.execute(_OFFERS.encode(), of).fetchall()
        offers = [SessionOffer(uid=uid, mark=bytes(chain).hex()) for uid, chain in found[:OFFERS_AT_ONCE]]
        return OfferedPage(offers=offers, has_more=len(found) > OFFERS_AT_ONCE)

    def frames(self, caller: Caller, machine: str, wants: Sequence[Want]) -> bytes:
        """Return the frames that are asked for, up to the one that makes the answer long enough. Raises Refused."""
        if len(wants) > WANTS_AT_ONCE:
            raise Refused(400, "too_many", f"At most {WANTS_AT_ONCE} sessions at once.")
        answer = _Answer()
        with self._database.of(caller.tenant) as rows:
            for want in wants:
                if answer.is_long():
                    break
                _Sending(rows, caller, machine, want).send(answer)
        say(answer, Ready())
        return answer.getvalue()


class _Answer(io.BytesIO):
    """An answer; ``frames``: the bytes of frames in it. Each has one at least, so who asks again comes on."""

    frames = 0

    def is_long(self) -> bool:
        return self.frames >= CHANGES_BYTES


class _Sending:
    """One session that is sent: what is behind the point up to which it came, if that is of what is seen now."""

    def __init__(self, rows: Cursor[Any], caller: Caller, machine: str, want: Want) -> None:
        self._rows, self._want = rows, want
        self._of = caller.tenant, caller.person, machine, want.uid
        self._row = rows.execute(_SEEN.encode(), (*self._of, caller.among, caller.among)).fetchone()

    def send(self, answer: _Answer) -> None:
        uid = self._want.uid
        if self._row is None:
            say(answer, FramesFail(uid=uid, reason="it is not there any more"))
            return
        epoch, count, chain = self._row
        kept, first = self._begin(epoch, count)
        say(answer, FramesBegin(uid=uid, kept=kept))
        # The last one is read in any case, since its head says up to where the session came.
        head, data = "", b""
        for number in range(min(first, count), count + 1):
            head, data = one(self._rows.execute(_FRAME, (*self._of, epoch, number)))
            if number >= first:
                if answer.is_long():
                    return
                answer.frames += answer.write(head.encode() + b"\n" + bytes(data))
        upto = msgspec.json.decode(head, type=FrameHead).upto
        mark = bytes(chain).hex()
        say(answer, FramesEnd(uid=uid, sent=SentPoint(epoch=epoch, upto=upto, chain=mark, mark=mark)))

    def _begin(self, epoch: int, count: int) -> tuple[int, int]:
        """The count of frames that came before and are still right, and the number of the next one."""
        want = self._want
        before = 0
        if want.sent is not None and want.sent.epoch == epoch:
            before = self._number(epoch, count, want.sent.chain)
        if want.frames:
            for base in (before, 0):
                if self._number(epoch, count, want.chain) == base + want.frames:
                    return want.frames, base + want.frames + 1
        return 0, before + 1 if before < count else 1

    def _number(self, epoch: int, count: int, chain: str) -> int:
        """The number of the frame with this chain; 0 without one that is seen."""
        try:
            asked = bytes.fromhex(chain)
        except ValueError:
            return 0
        row = self._rows.execute(_NUMBER, (*self._of, epoch, asked, count)).fetchone()
        return 0 if row is None else int(row[0])


_OF_TOKEN = "(%s::text[] is null or s.repository = any(%s))"
_OFFERS = f"""
select s.uid, s.chain from session s
where s.tenant = %s and s.person = %s and s.machine = %s and s.uid > %s and {_OF_TOKEN} and {NOT_A_BEGINNING}
order by s.uid limit %s
"""
# Who replaces or erases its frames changes this row: until the answer is made they stay.
_SEEN = f"""
select s.epoch, s.frames, s.chain from session s
where s.tenant = %s and s.person = %s and s.machine = %s and s.uid = %s and {_OF_TOKEN}
for share of s
"""
_NUMBER = """
select number from frame
where tenant = %s and person = %s and machine = %s and session = %s and epoch = %s
  and chain = %s and number <= %s
"""
_FRAME = """
select head, data from frame
where tenant = %s and person = %s and machine = %s and session = %s and epoch = %s and number = %s
"""
