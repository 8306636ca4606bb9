"""Sessions as JSON lines: all that is kept of them, in a form that any program reads. docs/json-format.md explains it.

A session is written as far as it had come when its first line was written, some rows at a time.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from backstory import __version__
from backstory.bounds import NUMBER_MAX, iso
from backstory.conversation.board import CONTENT_CHARS_MAX, DESCRIPTION_CHARS_MAX
from backstory.conversation.compact import compact_event
from backstory.derive import index_text
from backstory.derive.secrets import texts_in
from backstory.errors import StoreDamaged
from backstory.exchange import portable
from backstory.exchange.json_lines import (
    FORMAT,
    PIECE_BYTES,
    RANGES_AT_ONCE,
    BoardLine,
    BytesLine,
    End,
    EventLine,
    FileHead,
    NumbersLine,
    RowLine,
    SessionEnd,
    SidecarLine,
    decoder,
    why_too_much,
)
from backstory.export.full_form import FullForms
from backstory.export.held_lines import held
from backstory.ids import session_identity
from backstory.model import Parts, encoded, event_from_json, event_to_json
from backstory.store import codec
from backstory.store.tables import logs, sidecars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from backstory.derive.secrets import Redactor
    from backstory.exchange.json_lines import Line, LogLine, SummaryLine, TurnLine
    from backstory.exchange.portable import Extent
    from backstory.export.exporting import Chosen
    from backstory.model import Event
    from backstory.store import Store, StoredEvent

L = TypeVar("L")
ROWS_AT_ONCE = 500
WHOLE = (0, -1)
"""The place before the first event."""
FORESEEN_CHARS = 2_000_000
"""The text of events that are looked through at once for what tells a secret."""
TEXT_CHARS_CUT = 100_000
ITEMS_CUT = 5
"""The part kept of a text or a list in a line that has too much."""


class ExportedBytes(Struct, frozen=True, kw_only=True):
    """The bytes of a session that were exported before.

    ``logs``: of its logs in order, how many of each. ``has_sidecars``: the files beside them are as they were.
    """

    logs: tuple[int, ...] = ()
    has_sidecars: bool = False


class TellingRecords(Struct):
    """The secrets that a session tells, by their masks, and the records that tell each of them first.

    ``besides``: those that its other lines tell.
    """

    records: list[int] = field(default_factory=list)
    told: set[str] = field(default_factory=set)
    besides: set[str] = field(default_factory=set)

    def note(self, seq: int | None, told: set[str]) -> None:
        """Note what a record tells, or another line."""
        if seq is None:
            self.besides |= told
        elif not told <= self.told:
            self.told |= told
            self.records.append(seq)


class JsonExport:
    """Writes sessions as lines. ``redactor`` masks their secrets, and leaves the logs' bytes out.

    ``piece_bytes``: the most bytes of a log in one line. ``is_taught``: the redactor knows what the events tell that
    were exported before, so these are not read again.
    """

    def __init__(
        self, *, has_bytes: bool, now: int, redactor: Redactor | None = None, piece_bytes: int = PIECE_BYTES,
        is_taught: bool = False,
    ) -> None:  # fmt: skip
        self._has_bytes, self._is_taught = has_bytes and redactor is None, is_taught
        self._now, self._redactor, self._piece_bytes = now, redactor, piece_bytes
        self._after: Mapping[str, tuple[int, int]] = {}
        self._kept: Mapping[str, ExportedBytes] = {}
        self.counts: Counter[str] = Counter()
        """Numbers of sessions, turns and events written, and of bytes of logs."""
        self.bare: list[tuple[str, int, int]] = []
        """Events that were exported before with a secret that only later ones tell: uid, seq, part."""
        self.telling = TellingRecords()
        """The records of the session that is written now; those of each are in ``told_by``, by uid."""
        self.told_by: dict[str, TellingRecords] = {}
        self.damaged: list[StoreDamaged] = []
        """Errors for which sessions were left out of a file of all."""

    def lines(
        self,
        chosen: Sequence[Chosen],
        *,
        removed: bool,
        after: Mapping[str, tuple[int, int]] | None = None,
        kept: Mapping[str, ExportedBytes] | None = None,
    ) -> Iterator[bytes]:
        """All lines. ``removed``: also which sessions people removed, and the context boards.

        ``after``: by uid of a session the numbers of the last event that was exported before: only events behind it are
        given, and turns that go on behind it; ``kept``: the bytes that were exported before, which are not given again.
        In such a file the sessions are not whole. With a redactor the lines come once all are made: no secret that any
        text told stands bare in any of them. Events that were exported before are learned from, too; ``bare`` then
        names those with a secret that only later ones tell.
        """
        self._after, self._kept = after or {}, kept or {}
        if self._has_bytes and self._after.keys() != self._kept.keys():
            raise ValueError("from a point on: how many bytes of the logs were exported before has to be said, too")
        lines = self._lines(chosen, removed=removed)
        return lines if self._redactor is None else self._masked(self._redactor, chosen, lines)

    def _masked(self, redactor: Redactor, chosen: Sequence[Chosen], lines: Iterator[bytes]) -> Iterator[bytes]:
        for _, _, whole in self._earlier(chosen):
            redactor.learn(whole)
        known = redactor.known
        yield from held(lines, redactor, self._masked_again)
        late = redactor.known_since(known) if self._after and not self._is_taught else None
        for uid, place, whole in self._earlier(chosen) if late is not None else ():
            if late is not None and any(any(late.places_in(text)) for text in texts_in(whole)):
                self.bare.append((uid, *place))

    def _earlier(self, chosen: Sequence[Chosen]) -> Iterator[tuple[str, tuple[int, int], Event]]:
        """The events that were exported before, with the uids of their sessions and their numbers."""
        for each in chosen if self._after and not self._is_taught else ():
            for session in each.store.several_sessions(_ids(each)):
                forms, after, parts = FullForms(each.store), WHOLE, Parts()
                until = self._after.get(session.uid, WHOLE)
                while after < until and (window := each.store.events(session, after=after, limit=ROWS_AT_ONCE)):
                    for stored, whole in self._expanded(window, forms):
                        if (place := (stored.seq, parts.of(stored.seq, stored.part))) <= until:
                            yield session.uid, place, whole
                    after = (window[-1].seq, window[-1].part)

    def _lines(self, chosen: Sequence[Chosen], *, removed: bool) -> Iterator[bytes]:
        yield _encoded(
            FileHead(
                format=FORMAT, made_by=f"backstory {__version__}", exported=iso(self._now) or "",
                bytes=self._has_bytes, redacted=self._redactor is not None,
            )
        )  # fmt: skip
        written: set[str] = set()
        for each in chosen:
            for session_id in _ids(each):
                try:
                    extent = each.store.ask(partial(portable.extent, session_id=session_id))
                except StoreDamaged as refused:
                    if not removed:
                        raise
                    self.damaged.append(refused)
                else:
                    yield from self._session(each.store, session_id, extent, written)
        for each in chosen if removed else ():
            for line in each.store.ask(portable.removed):
                if session_identity(line.uid) not in written:
                    written.add(session_identity(line.uid))
                    yield _encoded(line)
        for each in chosen if removed else ():
            # What an untrusted store says is given to nobody.
            for item in [] if each.store.is_elsewhere else each.store.ask(portable.board_lines):
                yield self.board_line(item)
        yield _encoded(End(sessions=self.counts["sessions"]))

    def _session(self, store: Store, session_id: int, extent: Extent | None, written: set[str]) -> Iterator[bytes]:
        """The lines of a session; none of one that was ``written`` already, from another store."""
        if extent is None or session_identity(extent.session.uid) in written:
            return
        written.add(session_identity(extent.session.uid))
        before = Counter(self.counts)
        if extent.session.uid not in self._after:
            self.told_by.pop(extent.session.uid, None)
        self.telling = self.told_by.setdefault(extent.session.uid, TellingRecords())
        if self._redactor is not None:
            self._redactor.foresee([extent.session, *extent.logs.values()])
        yield self._line(extent.session)
        kept = self._kept.get(extent.session.uid, ExportedBytes())
        for log_id, log in extent.logs.items():
            yield from self._log(store, log_id, log, kept)
        yield from self._turns(store, session_id, extent)
        yield from self._events(store, session_id, extent)
        for branch in store.ask(lambda db: portable.branches(db, session_id)):
            # What moved on since is named by its turn.
            is_there = (branch.leaf_seq or 0) < extent.session.next_seq
            yield self._line(branch if is_there else replace(branch, leaf_seq=None))
        yield from self._summaries(store, session_id, extent)
        done = self.counts - before
        yield _encoded(
            SessionEnd(uid=extent.session.uid, turns=done["turns"], events=done["events"], bytes=done["bytes"])
        )
        self.counts["sessions"] += 1

    def _log(self, store: Store, log_id: int, log: LogLine, kept: ExportedBytes) -> Iterator[bytes]:
        yield self._line(log)
        if not self._has_bytes:
            return
        ranges = [
            (each.start, each.stop, each.first_seq, each.records)
            for each in store.ask(logs.seq_ranges, log_id)
            if each.stop <= log.length
        ]
        for at in range(0, len(ranges), RANGES_AT_ONCE):
            yield _encoded(NumbersLine(log=log.log, ranges=ranges[at : at + RANGES_AT_ONCE]))
        begin = kept.logs[log.log - 1] if log.log <= len(kept.logs) else 0
        for at in range(begin, log.length, self._piece_bytes):
            data = store.read_log(log_id, at, min(self._piece_bytes, log.length - at))
            if not data:
                raise StoreDamaged(store.path, f"a log ends at byte {at:,}, and was to have {log.length:,}")
            yield _encoded(BytesLine(log=log.log, start=at, sha256=codec.text_digest(data), data=data))
        self.counts["bytes"] += log.length - begin
        for each in [] if kept.has_sidecars else store.ask(sidecars.of_log, log_id):
            data = store.ask(sidecars.read, each.id)
            yield _encoded(
                SidecarLine(
                    log=log.log, name=each.name, mtime_ns=each.mtime_ns, sha256=codec.text_digest(data), data=data
                )
            )

    def _turns(self, store: Store, session_id: int, extent: Extent) -> Iterator[bytes]:
        def page(after: int) -> list[tuple[int, TurnLine]]:
            return store.ask(lambda db: portable.turns(db, session_id, after, ROWS_AT_ONCE, since))

        since, _ = self._after.get(extent.session.uid, WHOLE)
        for turn in self._foreseen(_pages(page)):
            if turn.first_seq < extent.session.next_seq:
                last_seq = min(turn.last_seq, extent.session.next_seq - 1)
                yield self._line(replace(turn, last_seq=last_seq))
                self.counts["turns"] += 1

    def _events(self, store: Store, session_id: int, extent: Extent) -> Iterator[bytes]:
        uids: dict[int, str] = {}
        said = self._after.get(extent.session.uid, WHOLE)
        # A record's parts are numbered from its first one.
        after = (said[0] - 1, NUMBER_MAX)
        forms, parts = FullForms(store), Parts()
        while window := store.events(session_id, after=after, limit=ROWS_AT_ONCE):
            wanted = {each.turn_id for each in window if each.turn_id is not None}
            if wanted - uids.keys():
                uids = dict(store.ask(partial(portable.turn_uids, ids=wanted)))
            for stored, whole in self._expanded(window, forms):
                if stored.seq < extent.session.next_seq:
                    part = parts.of(stored.seq, stored.part)
                    if (stored.seq, part) > said:
                        yield self._event(stored, whole, part, uids.get(stored.turn_id or 0), extent)
                        self.counts["events"] += 1
            after = (window[-1].seq, window[-1].part)

    def _expanded(self, window: Sequence[StoredEvent], forms: FullForms) -> Iterator[tuple[StoredEvent, Event]]:
        """Events with their full forms; what is to be masked is looked through some events at a time."""
        if self._redactor is None:
            yield from ((stored, forms.expand(stored)) for stored in window)
            return
        waiting, chars = list[tuple["StoredEvent", "Event"]](), 0
        for stored in window:
            waiting.append((stored, forms.expand(stored)))
            chars += stored.char_len or 0
            if chars > FORESEEN_CHARS or stored is window[-1]:
                self._redactor.foresee([whole for _, whole in waiting])
                yield from waiting
                waiting, chars = [], 0

    def _foreseen(self, lines: Iterator[L]) -> Iterator[L]:
        """Lines, looked through many at a time where they are to be masked."""
        while self._redactor is not None and (some := list(islice(lines, ROWS_AT_ONCE))):
            self._redactor.foresee(some)
            yield from some
        yield from lines

    def _event(self, stored: StoredEvent, whole: Event, part: int, turn: str | None, extent: Extent) -> bytes:
        more: dict[str, Any] = {}
        if self._redactor is not None:
            whole = self._redactor.value(whole)
            if told := self._redactor.take_told():
                self.telling.note(stored.seq, told)
        else:
            more = _where(stored, extent) if self._has_bytes else {}
            if compact_event(whole) != stored.event:
                more["short"] = msgspec.Raw(event_to_json(stored.event))
            if index_text.char_len(whole) != stored.char_len:
                more["chars"] = stored.char_len
        place: dict[str, Any] = {"seq": stored.seq, "part": part, "turn": turn, "at": iso(stored.at)}
        line = EventLine(**place, **more, event=msgspec.Raw(event_to_json(whole)))
        if why_too_much(text := encoded(line) + b"\n") is None:
            return text
        # All of such an event is in the bytes of its log.
        chars, compact = index_text.char_len(whole), compact_event(whole)
        line = replace(line, chars=chars, event=msgspec.Raw(event_to_json(compact)))
        if why_too_much(text := encoded(line) + b"\n") is None:
            return text
        more = {name: each for name, each in more.items() if name != "short"} | {"chars": chars}
        return _encoded(EventLine(**place, **more, event=msgspec.Raw(event_to_json(_cut(compact)))))

    def _summaries(self, store: Store, session_id: int, extent: Extent) -> Iterator[bytes]:
        def page(after: int) -> list[tuple[int, SummaryLine]]:
            return store.ask(lambda db: portable.summaries(db, session_id, after, ROWS_AT_ONCE))

        for summary in self._foreseen(_pages(page)):
            if summary.after_seq < extent.session.next_seq:
                yield self._line(summary)

    def board_line(self, line: BoardLine) -> bytes:
        """Return the line of a board's item: masked, it may be longer, and is cut to what an item may have."""
        if self._redactor is None:
            return _encoded(line)
        mask: Callable[[str], str] = self._redactor.text
        return _encoded(
            replace(
                line,
                repository=mask(line.repository),
                branch=mask(line.branch),
                description=mask(line.description)[:DESCRIPTION_CHARS_MAX],
                content=mask(line.content)[:CONTENT_CHARS_MAX],
            )
        )

    def _masked_again(self, text: bytes) -> bytes:
        """A line, masked anew."""
        line = decoder().decode(text)
        if isinstance(line, EventLine) and self._redactor is not None:
            event = event_to_json(self._redactor.value(event_from_json(bytes(line.event))))
            return _encoded(replace(line, event=msgspec.Raw(event)))
        if isinstance(line, BoardLine):
            return self.board_line(line)
        return self._line(line) if isinstance(line, RowLine) else text

    def _line(self, line: RowLine) -> bytes:
        if self._redactor is None:
            return _encoded(line)
        line = portable.masked(line, self._redactor.text)
        if told := self._redactor.take_told():
            self.telling.note(None, told)
        return _encoded(line)


def _pages(page: Callable[[int], list[tuple[int, L]]]) -> Iterator[L]:
    """The lines of all pages; ``page`` gives those behind an id, each with its own."""
    after = 0
    while rows := page(after):
        yield from (line for _, line in rows)
        after = rows[-1][0]


def _ids(chosen: Chosen) -> list[int]:
    """The sessions that were chosen, with those of their subagents, and the agents' own logs of their runs."""
    if chosen.is_all_but:
        left_out = frozenset(chosen.ids)
        return [each for each in chosen.store.ask(portable.session_ids) if each not in left_out]
    return chosen.ids if chosen.is_exact else chosen.store.ask(lambda db: portable.families(db, chosen.ids))


def _where(stored: StoredEvent, extent: Extent) -> dict[str, Any]:
    """Return the place of an event's record among the bytes that are written."""
    log = extent.logs.get(stored.log_id or 0)
    if log is None or stored.position is None or stored.length is None:
        return {}
    if stored.position + stored.length > log.length:
        return {}
    return {"log": log.log, "position": stored.position, "length": stored.length}


def _encoded(line: Line) -> bytes:
    text = encoded(line) + b"\n"
    return text if why_too_much(text) is None else encoded(_cut(line)) + b"\n"


def _cut(value: Any) -> Any:
    """A value of a line that has too much, with so little of each text and list that the line has room."""
    match value:
        case msgspec.Struct():
            return replace(value, **{name: _cut(each) for name, each in asdict(value).items()})
        case str() if len(value) > TEXT_CHARS_CUT:
            return f"{value[:TEXT_CHARS_CUT]}…"
        case list():
            return [_cut(each) for each in value[:ITEMS_CUT]]
        case dict():
            return {}
        case _:
            return value
