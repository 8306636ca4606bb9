"""Sessions of a store in frames, with the bytes of their logs: from where they were sent last, or all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory.ask import session_marks
from backstory.bounds import iso
from backstory.errors import SessionNotFound
from backstory.exchange import frames
from backstory.exchange.frames import PIECE_BYTES, START, head_of
from backstory.exchange.json_lines import RemovedLine
from backstory.export.exporting import Chosen
from backstory.export.portable import ExportedBytes, JsonExport
from backstory.model import encoded
from backstory.sync.pull_plan import SentPoint, SessionOffer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.ask.session_marks import MarkedSession
    from backstory.store import Store
    from backstory.sync.pull_plan import Want


class SentFrame(Struct, frozen=True):
    """A frame, and its number among those that the session is sent in now."""

    number: int
    data: bytes


class _LogLength(Struct, frozen=True):
    length: int


class FrameSender:
    """Sends what is asked for of a store. Sessions of stores from elsewhere are not offered, and not sent."""

    def __init__(self, store: Store) -> None:
        self._store = store
        nothing = list[session_marks.MarkedSession]()
        self._marked = {each.uid: each for each in store.ask_or(nothing, session_marks.marks)}

    def offers(self) -> Iterator[SessionOffer]:
        """Yield all that can be asked for."""
        for each in self._marked.values():
            yield SessionOffer(uid=each.uid, mark=each.mark)

    def send(self, want: Want) -> Iterator[SentFrame | SentPoint]:
        """Yield the frames that are asked for, then the point that they lead to.

        A frame that came before is left out; one with the number 0 begins anew. Raises SessionNotFound for a session
        that is not offered, or is gone since, and StoreDamaged.
        """
        marked = self._marked.get(want.uid)
        if marked is None:
            raise SessionNotFound(want.uid)
        if not marked.id:
            yield from removal(marked.uid, marked.mark, want)
            return
        session = _Session(self._store, marked, want.sent)
        skipped = want.frames
        if skipped:
            *_, last = [None, *(each.data for each in session.frames(skipped))]
            if last is None or head_of(last).chain != want.chain:
                skipped = 0
        for each in session.frames():
            if each.number >= skipped:
                yield each
        yield session.point()


def removal(uid: str, mark: str, want: Want) -> Iterator[SentFrame | SentPoint]:
    """Yield the frame that says that a session was removed, by the mark of that, and the point behind it."""
    at = iso(int(mark.removeprefix(session_marks.REMOVED))) or ""
    epoch = 1 if want.sent is None else want.sent.epoch + 1
    lines = [encoded(RemovedLine(uid=uid, at=at)) + b"\n"]
    (data,) = frames.frames(lines, session=uid, epoch=epoch)
    yield SentFrame(0, data)
    yield SentPoint(epoch=epoch, upto=START, chain=head_of(data).chain, mark=mark)


class _Session:
    """A session that is sent: from where it was sent to if it only went on since, else as a new epoch."""

    def __init__(self, store: Store, marked: MarkedSession, sent: SentPoint | None) -> None:
        self._store, self._marked = store, marked
        self._sidecars = store.ask(session_marks.sidecars_mark, marked.id)
        self._sent = sent if sent is not None and sent.history == history_of(store, marked.id, sent) else None
        self._epoch = 1 if sent is None else sent.epoch if self._sent is not None else sent.epoch + 1
        self._upto, self._chain = START, ""
        self._logs = list[int]()

    def frames(self, most: int | None = None) -> Iterator[SentFrame]:
        """Yield them, or so many of the first."""
        sent, self._logs = self._sent, []
        self._upto, self._chain = (START, "") if sent is None else (sent.upto, sent.chain)
        after, kept = dict[str, tuple[int, int]](), dict[str, ExportedBytes]()
        if sent is not None:
            after[self._marked.uid] = sent.upto
            kept[self._marked.uid] = ExportedBytes(logs=sent.logs, has_sidecars=sent.sidecars == self._sidecars)
        export = JsonExport(has_bytes=True, now=self._store.now(), piece_bytes=PIECE_BYTES)
        chosen = [Chosen(store=self._store, ids=[self._marked.id], is_exact=True)]
        lines = export.lines(chosen, removed=False, after=after, kept=kept)
        made = frames.frames(
            self._seen(lines), session=self._marked.uid, epoch=self._epoch, after=self._upto, prev=self._chain,
            has_bytes=True,
        )  # fmt: skip
        for number, data in enumerate(made):
            if number == most:
                return
            head = head_of(data)
            self._upto, self._chain = head.upto, head.chain
            yield SentFrame(number, data)
        if not self._chain:
            raise SessionNotFound(self._marked.uid)

    def point(self) -> SentPoint:
        """Return the point that all frames lead to."""
        point = SentPoint(
            epoch=self._epoch, upto=self._upto, chain=self._chain, mark=self._marked.mark, logs=tuple(self._logs),
            sidecars=self._sidecars,
        )  # fmt: skip
        return msgspec.structs.replace(point, history=history_of(self._store, self._marked.id, point))

    def _seen(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines of the session alone, of which the lengths of its logs are noted."""
        for line in lines:
            if line.startswith(b'{"type":"log"'):
                self._logs.append(msgspec.json.decode(line, type=_LogLength).length)
            if not line.startswith((b'{"type":"backstory"', b'{"type":"end"')):
                yield line


def history_of(store: Store, session_id: int, sent: SentPoint) -> str:
    """Return the hash of all that a session has up to a point; see ``session_marks.history``."""

    def tail(log_id: int, length: int) -> bytes:
        start = max(length - session_marks.TAIL_BYTES, 0)
        return store.read_log(log_id, start, length - start)

    return store.ask(session_marks.history, session_id, sent.upto, sent.logs, tail)
