"""Sessions, written in the form of another tool's store: an agent's file knows the form, this reads our stores for it.

That store is one file, or a file for each session in a folder. Each file is written beside its place and moved there
when it is whole, so that it is there as a whole or not at all.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from backstory import agents
from backstory.agents.contract import KeptFile, KeptLog, StoreContent
from backstory.ask import readonly
from backstory.conversation.board import repository_key
from backstory.errors import BackstoryError, CannotWrite, FileInTheWay, SqlTooBig
from backstory.export.full_form import FullForms
from backstory.export.redacted import RedactedSource, learn
from backstory.store.private import make_folder, publish, sync
from backstory.store.tables import boarding, sidecars

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from backstory.agents.contract import Agent, ExportSource, SessionFile
    from backstory.ask.readonly import Answer
    from backstory.conversation.board import BoardItem
    from backstory.derive.secrets import Redactor
    from backstory.model import Event
    from backstory.store import Log, Session, Store, StoredEvent

ROWS_AT_ONCE = 1_000
TIMEOUT_S = 600.0
"""Rows of a view that take a moment; only a store that cannot be read takes this long."""
VALUE_BYTES_MAX = 256 * 1024 * 1024
"""The largest output of a tool that is written; a line of a log is read up to a quarter of it."""
PIECE_BYTES = 4 * 1024 * 1024
JOURNALS = ("-wal", "-journal")
LOG_FILE = "file"
"""The kind of log that an agent wrote itself."""


class Chosen(Struct, frozen=True, kw_only=True):
    """Sessions of one store: those of these ids, or all but those."""

    store: Store
    ids: list[int] = field(default_factory=list)
    is_all_but: bool = False
    is_exact: bool = False
    """Those alone: not with those of their subagents."""
    notes: list[BoardItem] = field(default_factory=list)
    """The items of context boards that go with them."""


class WrittenFile(Struct, frozen=True, kw_only=True):
    """A file that was written: in whose form, how large, and how many rows of each kind it has."""

    format: str
    file: str
    exact: bool
    bytes: int
    rows: dict[str, int]
    left_out: int
    """Sessions without a log of that agent's own, where it was to be exact."""
    masked: dict[str, int] | None = None
    """Number of masked values, by the names of shapes; None if nothing was to be masked."""
    reduced: dict[str, int] = field(default_factory=dict)
    """Number of things that this form has no place for, by name."""


class NotWritten(Struct, frozen=True, kw_only=True):
    """A file that could not be written, whose session (by its uid) that is, and why."""

    format: str
    file: str
    session: str
    reason: str


def formats() -> list[str]:
    """The forms in which sessions can be written: most are called as their agent."""
    return sorted(_writers())


def writes_folder(name: str) -> bool:
    """Return True if sessions become files of their own in this form."""
    return _writers()[name].session_export is not None


def _writers() -> dict[str, Agent]:
    """The agents in whose form sessions can be written, by what that is called."""
    known = list(map(agents.load, agents.names()))
    folders = {each.name: each for each in known if each.session_export is not None}
    return folders | {each.export.format: each for each in known if each.export is not None}


def everything(stores: Iterable[Store]) -> list[Chosen]:
    """All sessions of several stores; one that is in two of them is taken from the first."""
    seen: set[str] = set()
    chosen = []
    for store in stores:
        here = store.sessions(subagents=True)
        twice = [session.id for session in here if session.uid in seen]
        seen |= {session.uid for session in here}
        chosen.append(Chosen(store=store, ids=twice, is_all_but=True))
    return chosen


def these(found: Iterable[tuple[Store, Session]]) -> list[Chosen]:
    """Sessions that were named, each once."""
    by_store: dict[str, tuple[Store, dict[int, None]]] = {}
    for store, session in found:
        by_store.setdefault(str(store.path), (store, {}))[1][session.id] = None
    return [Chosen(store=store, ids=list(ids)) for store, ids in by_store.values()]


def with_notes(chosen: Sequence[Chosen], home: Store, *, everything: bool) -> list[Chosen]:
    """Sessions with the boards of their repositories, or with ``everything`` all boards; none of an untrusted store.

    ``home``: the store that has the boards.
    """
    if home.is_elsewhere:
        return list(chosen)
    boards = boarding.boards(home)
    if not everything and boards:
        wanted = {key for each in chosen for key in _Source(each).repositories()}
        boards = [each for each in boards if each.repository in wanted]
    notes = [item for key in boards for item in boarding.items(home, key)]
    return [replace(each, notes=notes if n == 0 else []) for n, each in enumerate(chosen)]


def export(
    name: str, chosen: Iterable[Chosen], target: Path, *, exact: bool, force: bool, now: int,
    redactor: Redactor | None = None,
) -> WrittenFile:  # fmt: skip
    """Write sessions into a new file in the form ``name``; see ``contract.ExportPart`` for ``exact``.

    ``redactor``: masks the secrets of all that is written. Raises FileInTheWay for a file that is there, unless
    ``force``, and CannotWrite.
    """
    agent = _writers()[name]
    writer = agent.export
    assert writer is not None
    sources = [_Source(each) for each in chosen]
    _check_place(target, force=force)
    if any(target.resolve() == each.path.resolve() for each in sources):
        raise CannotWrite(target, "it is the store itself")
    given = [each.given(redactor) for each in sources]
    content, size = _write(lambda path: writer.write_store(path, given, exact=exact, now=now), target, force=force)
    left_out = sum(each.sessions_without_logs_of(agent.name) for each in sources) if exact else 0
    return WrittenFile(
        format=name, file=str(target), exact=exact, bytes=size, rows=content.rows, left_out=left_out,
        masked=redactor.counts if redactor is not None else None, reduced=content.reduced,
    )  # fmt: skip


def export_each(
    name: str, chosen: Iterable[Chosen], folder: Path, *, force: bool, redactor: Redactor | None = None
) -> list[WrittenFile | NotWritten]:
    """Write each session into files of its own below a folder, in the form ``name``.

    Nothing is written when a file is in the way: raises FileInTheWay, unless ``force``. A session that cannot be read
    or written keeps no other from it; where that is so of every one, what the first of them raised is raised.
    """
    writer = _writers()[name].session_export
    assert writer is not None
    sources = [
        (_Source(Chosen(store=each.store, ids=[session_id])).given(redactor), uid)
        for each in chosen
        for session_id, uid in _Source(each).session_ids()
    ]
    files = [(folder / file.name, file, uid) for source, uid in sources for file in writer.session_files(source)]
    for target, _, _ in files:
        _check_place(target, force=force)
    done: list[WrittenFile | NotWritten] = []
    first: BackstoryError | None = None
    for target, file, uid in files:
        try:
            done.append(_write_one(name, target, file, force=force, redactor=redactor))
        except BackstoryError as failed:
            first = first or failed
            done.append(NotWritten(format=name, file=str(target), session=uid, reason=str(failed)))
    if first is not None and not any(isinstance(each, WrittenFile) for each in done):
        raise first
    return done


def _write_one(name: str, target: Path, file: SessionFile, *, force: bool, redactor: Redactor | None) -> WrittenFile:
    before = Counter(redactor.counts if redactor is not None else ())
    content, size = _write(lambda path: StoreContent(rows=file.write(path)), target, force=force)
    masked = None if redactor is None else dict(Counter(redactor.counts) - before)
    return WrittenFile(
        format=name, file=str(target), exact=False, bytes=size, rows=content.rows, left_out=0, masked=masked
    )


class _Source:
    """The questions that an agent's file may ask of one store's chosen sessions. See ``contract.ExportSource``."""

    def __init__(self, chosen: Chosen) -> None:
        self._store = chosen.store
        self._forms = _Forms(chosen.store)
        self._ids, self._is_all_but = frozenset(chosen.ids), chosen.is_all_but
        self._notes = chosen.notes

    @property
    def path(self) -> Path:
        return self._store.path

    def given(self, redactor: Redactor | None) -> ExportSource:
        """Return the source for the agent's file: this one, or one with its secrets masked."""
        if redactor is None:
            return self
        learn(redactor, self._store, (session_id for session_id, _ in self.session_ids()))
        return RedactedSource(self, redactor)

    def rows(self, view: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        sql = f"select id, {', '.join(columns)} from {view} where id in (select value from json_each(?)) order by id"
        at_once = ROWS_AT_ONCE
        for wanted in self._ids_in(view):
            # To put rows in order all of them are read, so only some are asked for at a time.
            while wanted:
                some = wanted[:at_once]
                try:
                    answer = self._ask(sql, [msgspec.json.encode(some).decode()])
                except SqlTooBig:
                    if len(some) == 1:
                        raise
                    at_once = len(some) // 2
                    continue
                yield from (row[1:] for row in answer.rows)
                last = answer.rows[-1][0] if answer.truncated else some[-1]
                wanted = [each for each in wanted if each > last]

    def _ids_in(self, view: str) -> Iterator[list[int]]:
        """The ids of a view's rows, in order, some at a time."""
        of = "id" if view == "sessions" else "session_id"
        among = "not in" if self._is_all_but else "in"
        sql = f"select id from {view} where id > ? and {of} {among} (select value from json_each(?)) order by id"
        sessions, found = msgspec.json.encode(sorted(self._ids)).decode(), [0]
        while found:
            answer = self._ask(sql, [found[-1], sessions])
            found = [row[0] for row in answer.rows]
            yield found
            if not answer.truncated:
                return

    def _ask(self, sql: str, parameters: list[Any]) -> Answer:
        return readonly.execute(
            self._store.path, sql, limit=ROWS_AT_ONCE, parameters=parameters, timeout_s=TIMEOUT_S,
            full_form=self._full_form, value_bytes_max=VALUE_BYTES_MAX,
        )  # fmt: skip

    def _full_form(self, session_id: int, seq: int, part: int | None) -> Event | None:
        after = (seq, (part if part is not None else 0) - 1)
        found = next(iter(self._store.events(session_id, after=after, limit=1)), None)
        is_it = found is not None and found.seq == seq and part in (None, found.part)
        return self._forms.expand(found) if found is not None and is_it else None

    def logs(self) -> Iterator[KeptLog]:
        mine = [each for each in self._store.logs() if each.kind == LOG_FILE and self._has(each.session_id)]
        for log in sorted(mine, key=lambda each: (each.agent, each.native_id, each.generation)):
            yield KeptLog(
                session_id=log.session_id,
                agent=log.agent,
                native_id=log.native_id,
                path=log.path,
                read=_reading(self._store, log),
                beside=_beside(self._store, log),
            )

    def session_ids(self) -> list[tuple[int, str]]:
        """The sessions by their numbers in the store, and their uids."""
        return [(session_id, uid) for session_id, uid in self.rows("sessions", ["id", "uid"])]

    def tip(self) -> int | None:
        """The event that the next prompt of the session follows, of one session; None where it has none."""
        sql = "select value from context where session_id = ? and key = 'current_message'"
        found = self._ask(sql, sorted(self._ids)).rows
        return found[0][0] if found else None

    def notes(self) -> list[BoardItem]:
        return self._notes

    def repositories(self) -> set[str]:
        """Return the names of the sessions' boards."""
        places = self.rows("sessions", ["repository", "coalesce(root, cwd, project)"])
        return {repository_key(name, folder) for name, folder in places if name or folder}

    def sessions_without_logs_of(self, agent: str) -> int:
        """Return the number of the sessions that have no log of that agent's own."""
        having = {log.session_id for log in self.logs() if log.agent == agent}
        return sum(1 for (session_id,) in self.rows("sessions", ["id"]) if session_id not in having)

    def _has(self, session_id: int) -> bool:
        return (session_id in self._ids) != self._is_all_but


class _Forms(FullForms):
    """Full forms of events that come in the order of their logs: a piece of a log is read once, not for each event."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._piece: tuple[int, int, bytes] = (0, 0, b"")
        """The log, where in it the piece begins, and the piece."""

    def record(self, stored: StoredEvent) -> bytes:
        if stored.log_id is None or stored.position is None or stored.length is None:
            return b""
        log_id, start, data = self._piece
        if log_id != stored.log_id or not start <= stored.position <= start + len(data) - stored.length:
            start = stored.position
            data = self._store.read_log(stored.log_id, start, max(stored.length, PIECE_BYTES))
            self._piece = (stored.log_id, start, data)
        return data[stored.position - start : stored.position - start + stored.length]


def _reading(store: Store, log: Log) -> Callable[[], Iterable[bytes]]:
    return lambda: store.stream_log(log.id)


def _beside(store: Store, log: Log) -> Callable[[], list[KeptFile]]:
    def file(sidecar_id: int, name: str) -> KeptFile:
        return KeptFile(name=name, read=lambda: store.ask(sidecars.read, sidecar_id))

    return lambda: [file(each.id, each.name) for each in store.ask(sidecars.of_log, log.id)]


def _check_place(target: Path, *, force: bool) -> None:
    if os.path.lexists(target) and not force:
        raise FileInTheWay(target)
    for journal in (target.with_name(f"{target.name}{ending}") for ending in JOURNALS):
        # SQLite would take what stands in it for changes to the new file.
        if os.path.lexists(journal):
            raise CannotWrite(target, f"{journal.name} lies beside it, so a program has it open or has crashed")


def _write(fill: Callable[[Path], StoreContent], target: Path, *, force: bool) -> tuple[StoreContent, int]:
    """Write the file whole or not at all; returns what it has and its size."""
    whole = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        make_folder(target.parent)
        os.close(os.open(whole, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        try:
            content = fill(whole)
            size = whole.stat().st_size
            _move(whole, target, force=force)
        finally:
            for left in (whole, *(whole.with_name(f"{whole.name}{ending}") for ending in ("-wal", "-shm"))):
                with suppress(OSError):
                    left.unlink()
    except (OSError, sqlite3.Error) as refused:
        raise CannotWrite(target, getattr(refused, "strerror", None) or str(refused)) from refused
    return content, size


def _move(whole: Path, target: Path, *, force: bool) -> None:
    sync(whole)
    try:
        whole.replace(target) if force else publish(whole, target)
    except FileExistsError as refused:
        raise FileInTheWay(target) from refused
