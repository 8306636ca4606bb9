"""Everything that can be derived, made again from the bytes that are kept; no agent's file is needed for it.

A session is cleared and told again, a slice to a transaction. A log is marked when all of it is told, so that one
that was left half way is told again by the next reindex or ingest.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct, field

from backstory import agents
from backstory.agents import bounded
from backstory.derive.deriver import Deriver
from backstory.derive.facts import RecordFacts
from backstory.errors import SessionNotFound, in_words
from backstory.ingest import sidecars
from backstory.ingest.ingest import read_reported, understand
from backstory.ingest.log_reader import SLICE_BYTES, placed_lines
from backstory.ingest.sources import created_ms
from backstory.ingest.unread import identified, is_unread, reader_of
from backstory.model import AssistantText, At, LogIdentity, OwnLine, Unknown, event_from_json
from backstory.store import slices
from backstory.store.logs import API, FAILED, FILE, LINE_BYTES_MAX, OVERSIZE, STDERR, STREAM
from backstory.store.replicate import COPY
from backstory.store.retelling import Retold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.derive.facts import Found
    from backstory.model import Event
    from backstory.store import Log, Session, Store

BULK_SESSIONS = 50
"""From so many sessions on the index is merged once at the end."""
_own = msgspec.json.Decoder(OwnLine)


class Failed(Struct, frozen=True):
    """A session that could not be told again, and why. What was derived of it before is gone; its bytes are not."""

    session: str
    reason: str


class Reindexed(Struct, kw_only=True):
    """What a reindex came to; ``stored`` counts the rows of the whole store, by what they are."""

    sessions: int = 0
    gone: int = 0
    stored: dict[str, int] = field(default_factory=dict)
    failed: list[Failed] = field(default_factory=list)


def reindex(
    store: Store,
    *,
    now: int,
    events_too: bool = False,
    only_stale: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Reindexed:
    """Derive again what is derived: of every session, or with ``only_stale`` of those that an older version derived.

    ``events_too``: also what their records say, with today's adapters. ``progress`` is told sessions done and to do.
    """
    done = Reindexed()
    todo = store.sessions_to_derive(only_stale=only_stale)
    with store.bulk(is_bulk=len(todo) >= BULK_SESSIONS):
        for number, session_id in enumerate(todo, 1):
            try:
                session = store.session(session_id)
            except SessionNotFound:
                # It was removed meanwhile.
                continue
            try:
                _tell_again(store, session, events_too=events_too)
                done.sessions += 1
            except Exception as refused:
                done.failed.append(Failed(session.uid, in_words(refused)))
            progress(number, len(todo))
    if not only_stale:
        done.gone = store.mark_gone([log.id for log in store.logs() if _is_gone(log)], now)
        done.stored = store.counts()
    return done


def _is_gone(log: Log) -> bool:
    # Of a log out of a database it is the database's path that counts.
    path = log.path.rpartition("#")[0] or log.path
    return log.kind == FILE and bool(path) and not Path(log.path).exists() and not Path(path).exists()


def _tell_again(store: Store, session: Session, *, events_too: bool) -> None:
    understood = [understand(store, log) for log in store.logs(session) if is_unread(log.native_id)]
    if any(understood):
        # What it was is told in the session that it is of.
        return
    told: set[str] = set()
    # What cannot be told again is found out before anything is cleared.
    logs = [(log, _telling(store, log)) for log in store.logs(session)]
    store.clear_derived(session.id)
    for log, telling in logs:
        for piece in _retold(store, session, log, telling):
            told |= {turn.uid for turn in piece.turns}
            store.retell(piece, events_too=events_too)
    store.retell_unlogged(session.id)
    for log in store.logs(session):
        sidecars.tell_again(store, log)
    if events_too and session.number is None:
        store.drop_turns_but(session.id, told, {log.id: log.told_end for log, _ in logs})
    for log, telling in logs:
        if isinstance(telling, _File) and telling.has_reports:
            # An earlier version did not make sessions of what a log reports.
            read_reported(store, log)


class _Telling(Protocol):
    """Reads a log's records again."""

    created: int
    """When the session began, as the log says; 0 where it does not."""

    def read(self, line: bytes, seq: int) -> tuple[int | None, str | None, list[tuple[int, Event]]]:
        """When, in which turn, which events."""

    def finish(self, piece: Retold) -> None:
        """Note what else is known by now."""

    def finish_turns(self, piece: Retold) -> None:
        """Note the turns alone, as they stand behind a record that may still grow."""

    def note_found(self, found: Found) -> None:
        """Add what stands by itself since the last call."""


def _retold(store: Store, session: Session, log: Log, telling: _Telling) -> Iterator[Retold]:
    """A log's records, read again by today's adapter, some megabytes at a time; the last piece says that it is."""
    deriver, size, is_past = Deriver(), 0, False
    piece = Retold(session_id=session.id, log_id=log.id, told_end=log.told_end)
    cwd = store.run_folder(log.id) or session.cwd
    for start, line, seq in placed_lines(store, log):
        if log.tail_seq == seq and not is_past:
            # What a record that may still grow says is not part of the state to go on from.
            is_past, piece.pending = True, deriver.state()
            telling.finish(piece)
        told = len(piece.events)
        try:
            _tell_record(piece, deriver, telling, line, seq, start, cwd)
        except Exception:
            # As when it was read first: the record is kept, and the others are told.
            del piece.events[told:]
            piece.events.append(slices.packed(Unknown(type=FAILED), seq, 0, None, None, start, len(line)))
        size += len(line)
        if size >= SLICE_BYTES and not is_past:
            piece.found = deriver.cut(cwd)
            telling.note_found(piece.found)
            telling.finish(piece)
            yield piece
            piece, size = Retold(session_id=session.id, log_id=log.id, told_end=log.told_end), 0
    piece.found, piece.is_last, piece.created = deriver.cut(cwd), True, telling.created
    telling.note_found(piece.found)
    if is_past:
        telling.finish_turns(piece)
    else:
        piece.pending = deriver.state()
        telling.finish(piece)
    yield piece


def _tell_record(
    piece: Retold, deriver: Deriver, telling: _Telling, line: bytes, seq: int, start: int, cwd: str | None
) -> None:
    at, turn_uid, events = telling.read(line, seq)
    for part, event in events:
        piece.events.append(slices.packed(event, seq, part, turn_uid, at, start, len(line)))
        deriver.take(event, At(seq, part, turn_uid, at), cwd)
        if turn_uid is not None and isinstance(event, AssistantText):
            piece.answers[turn_uid] = event.text


class _File:
    """A session's own log."""

    def __init__(self, store: Store, log: Log) -> None:
        agent = agents.load(log.agent)
        identity, self.created = LogIdentity(native_id=log.native_id), 0
        if not is_unread(log.native_id):
            # Where its beginning does not say whose it is any more, it did when the log was first read.
            told, head = identified(agent, Path(log.path or log.relpath), partial(store.read_log, log.id))
            identity, self.created = told or identity, created_ms(agent, log.path or log.relpath, head)
        self._reader = reader_of(agent, identity, None, tuple)
        self._facts = RecordFacts()
        self.has_reports = False
        """Whether the log reports of subagents."""

    def read(self, line: bytes, seq: int) -> tuple[int | None, str | None, list[tuple[int, Event]]]:
        if len(line) > LINE_BYTES_MAX:
            # Like when it was read first: such a line is kept, and not understood.
            return None, None, [(0, Unknown(type=OVERSIZE))]
        parsed = self._reader.read(line, seq)
        self._facts.take(parsed)
        self.has_reports = self.has_reports or parsed.has_reports
        self.created = self.created or parsed.at or 0
        return parsed.at, parsed.turn.uid if parsed.turn else None, parsed.events

    def finish(self, piece: Retold) -> None:
        piece.state, piece.facts = self._reader.state(), self._reader.session
        self.finish_turns(piece)

    def finish_turns(self, piece: Retold) -> None:
        piece.turns = [*piece.turns, *self._reader.touched()]

    def note_found(self, found: Found) -> None:
        self._facts.move_to(found)


class _Stream:
    """An output of a run."""

    created = 0

    def __init__(self, log: Log, kind: str, turn_uid: str | None) -> None:
        self._reader = bounded.stream_reader(agents.load(log.agent))
        self._is_error, self._turn_uid = kind == STDERR, turn_uid

    def read(self, line: bytes, seq: int) -> tuple[int | None, str | None, list[tuple[int, Event]]]:
        events = list(enumerate(self._reader.stderr(line))) if self._is_error else self._reader.read(line).events
        return None, self._turn_uid, events

    def finish(self, piece: Retold) -> None:
        return

    def finish_turns(self, piece: Retold) -> None:
        return

    def note_found(self, found: Found) -> None:
        return


class _Own:
    """The lines that a session of ours was appended with."""

    created = 0

    def read(self, line: bytes, seq: int) -> tuple[int | None, str | None, list[tuple[int, Event]]]:
        told = _own.decode(line)
        return told.at, told.turn, [(0, event_from_json(bytes(told.event)))]

    def finish(self, piece: Retold) -> None:
        return

    def finish_turns(self, piece: Retold) -> None:
        return

    def note_found(self, found: Found) -> None:
        return


def _telling(store: Store, log: Log) -> _Telling:
    kind = log.kind.removeprefix(COPY)
    if kind == API:
        return _Own()
    if kind in (STREAM, STDERR):
        return _Stream(log, kind, store.turn_uid_of(log.id))
    return _File(store, log)
