"""Sessions in databases that their agents write meanwhile: those that changed are read, and what is new is added.

A database is opened only if its files are not as they were. Where its shared memory lies beside it, a program has it
open: it is read in place then, whatever its size, and no file is made or changed. Else it is copied with its WAL to a
folder of ours, which is removed at once; what a killed process left of one goes with the next import. Then
each session's mark says whether its rows are read at all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import bounds
from backstory.agents import foreign
from backstory.agents.contract import UnreadableDatabase, UnreadRows
from backstory.agents.jsonl import lines_in, lines_of
from backstory.errors import in_words
from backstory.ingest import databases
from backstory.ingest.databases import DatabaseRows, Done, Unread, WrittenMeanwhile, row_log_name
from backstory.ingest.news import MISSING, mtime_of
from backstory.ingest.record_source import record_key
from backstory.store.private import make_private_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from backstory.agents.contract import Agent
    from backstory.agents.foreign import ForeignDatabase
    from backstory.store import FileStamp, Log, Store

ASIDE = "aside"
"""The folder of copies, beside the store."""
WAL = "-wal"
LATER = "there was no time to read it"
WAL_MODE_AT = 18
"""The bytes of a database's header that say by 2 that its newest changes stand in a WAL."""


class Known(Struct, frozen=True, kw_only=True):
    """The state of databases when they were read before. ``aside``: the folder for copies."""

    seen: Mapping[str, FileStamp]
    """Their files as they were then."""
    stamps_of: Callable[[list[str]], Mapping[str, FileStamp]]
    """Returns what is noted of logs by their paths."""
    aside: Path


class Moment(Struct, frozen=True, kw_only=True):
    """A short time for reading: until ``is_over``, no database is copied and no session read of more bytes."""

    bytes_max: int
    is_over: Callable[[], bool]


def changed_sessions(
    chosen: Iterable[Agent], environ: Mapping[str, str], home: Path, known: Known, noted: dict[str, dict[str, int]]
) -> Iterator[DatabaseRows | Unread | Done]:
    """The sessions of these agents' databases that are new or changed, each with all its rows.

    ``noted`` receives the mtime of each database and its WAL, as they were before, by agent; see ``news``.
    """
    remove_leftovers(known.aside)
    for agent in chosen:
        if agent.live is not None:
            files = noted.setdefault(agent.name, {})
            found = agent.live.databases(environ, home)
            # To find out where a path leads to costs more than that nothing lies there, as mostly.
            files |= {str(each): MISSING for each in found if _is_absent(each)}
            for database in dict.fromkeys(databases.itself(each) for each in found if str(each) not in files):
                if (unnamed := databases.not_text(database)) is not None:
                    yield unnamed
                    continue
                files |= {path: mtime_of(path) for path in (str(database), f"{database}{WAL}")}
                yield from changed_of(agent, database, known)


def _is_absent(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        # To read it says why it cannot be.
        return False
    return False


def changed_of(
    agent: Agent, database: Path, known: Known, moment: Moment | None = None
) -> Iterator[DatabaseRows | Unread | Done]:
    """The sessions of a database that are new or changed; in a moment, as far as that goes."""
    try:
        files = databases.files_of(agent, database)
        if not files or all(known.seen.get(each.path) == each for each in files):
            return
        is_whole = True
        with _opened(agent, database, known.aside, moment) as db:
            _refuse_without_wal(db, database)
            for each in _changed_in(agent, database, db, known, moment):
                # What is wrong with a session is said by who has time, so that one looks at it again.
                is_whole &= not isinstance(each, Unread) or (each.is_final and moment is None)
                yield each
        if is_whole:
            yield Done(places=files)
    except WrittenMeanwhile:
        yield Unread(path=str(database), reason="it was written all the time; it is read the next time")
    except UnreadableDatabase as refused:
        yield Unread(path=str(database), reason=str(refused))
    except Exception as unforeseen:
        # What one database holds must not cost the others.
        yield Unread(path=str(database), reason=in_words(unforeseen))


def _changed_in(
    agent: Agent, database: Path, db: ForeignDatabase, known: Known, moment: Moment | None
) -> Iterator[DatabaseRows | Unread]:
    assert agent.live is not None
    marks = {native_id: (mark, _ns(at)) for native_id, (mark, at) in agent.live.marks(db).items()}
    names = {native_id: row_log_name(database.name, native_id) for native_id in marks}
    paths = {native_id: f"{database.parent}{os.sep}{name}" for native_id, name in names.items()}
    stamps = known.stamps_of(list(paths.values()))
    wanted = {
        native_id
        for native_id, mark in marks.items()
        # A mark stands where files have their inode.
        if (stamp := stamps.get(paths[native_id])) is None or (stamp.inode, stamp.mtime_ns) != mark
    }
    # Where no session has a row, what there is of their messages is to be named.
    for found in agent.live.sessions(db, wanted) if wanted or not marks else ():
        native_id = found.native_id
        path = paths[native_id] if native_id in paths else str(database)
        if moment is not None and moment.is_over():
            yield Unread(path=path, reason=LATER)
            return
        if isinstance(found, UnreadRows):
            yield Unread(path=path, reason=found.reason, is_final=found.is_final and not (moment and found.is_large))
        elif native_id is not None and native_id in wanted:
            mark, mtime_ns = marks[native_id]
            yield DatabaseRows(
                agent=agent, native_id=native_id, path=path, relpath=names[native_id], mtime_ns=mtime_ns,
                content=found.content, mark=mark, is_live=True,
            )  # fmt: skip


def _ns(at: int) -> int:
    return min(max(at, 0), bounds.INTEGER_MAX // 1_000_000) * 1_000_000


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _refuse_without_wal(db: ForeignDatabase, database: Path) -> None:
    """Raise UnreadableDatabase for an empty database, most of all where its WAL, with all that it holds, is gone."""
    if not db.is_empty:
        return
    with database.open("rb") as file:
        header = file.read(WAL_MODE_AT + 2)
    if header[WAL_MODE_AT:] != b"\2\2":
        raise UnreadableDatabase("it is empty")
    wal = database.with_name(f"{database.name}{WAL}")
    if not wal.exists():
        raise UnreadableDatabase(f"it is empty, and {wal.name} is not beside it, where its content stood")
    raise UnreadableDatabase(f"it is empty, and {wal.name} beside it, where its content stood, cannot be read")


@contextmanager
def _opened(agent: Agent, database: Path, aside: Path, moment: Moment | None) -> Iterator[ForeignDatabase]:
    assert agent.live is not None
    only, limit = agent.live.tables, foreign.SESSION_BYTES_MAX if moment is None else moment.bytes_max
    with ExitStack() as opening:
        if (db := _in_place(database, only, limit, opening)) is None:
            if sum(each.size for each in databases.files_of(agent, database)) > limit and moment is not None:
                raise UnreadableDatabase(LATER)
            folder = opening.enter_context(_folder_aside(aside))
            databases.copied(agent, database, folder)
            db = opening.enter_context(foreign.opened(folder / database.name, _text, only=only, limit=limit))
        yield db


def _in_place(database: Path, only: frozenset[str], limit: int, opening: ExitStack) -> ForeignDatabase | None:
    """Open a database where it lies, if nothing is made or changed by that, until ``opening`` ends."""
    # Where one of the two is missing, SQLite would make it.
    if not all(database.with_name(f"{database.name}{ending}").is_file() for ending in ("-shm", WAL)):
        return None
    with suppress(UnreadableDatabase), ExitStack() as trying:
        db = trying.enter_context(foreign.opened_in_place(database, _text, only=only, limit=limit))
        _ = db.is_empty
        opening.push(trying.pop_all())
        return db
    return None


@contextmanager
def _folder_aside(aside: Path) -> Iterator[Path]:
    """Make a folder for a copy, which is locked as long as it is used."""
    make_private_folder(aside)
    folder = Path(tempfile.mkdtemp(dir=aside))
    held = _locked(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)
        with suppress(OSError):
            aside.rmdir()


def remove_leftovers(aside: Path) -> None:
    """Remove copies that no process uses any more."""
    with suppress(OSError):
        for folder in list(aside.iterdir()):
            if (held := _locked(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(held)
        aside.rmdir()


def _locked(folder: Path) -> int | None:
    """A lock on a folder, None if another process has it."""
    import fcntl

    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def with_new_rows(store: Store, rows: DatabaseRows, kept: list[Log]) -> bytes:
    """Return the newest kept log of a session with those lines behind it that say anything new."""
    if not kept:
        return rows.content
    newest = max(kept, key=lambda log: (log.path == rows.path, log.id))
    last: dict[str, bytes] = {}
    for _, _, line in lines_of(store.stream_log(newest.id)):
        if line:
            last[record_key(rows.agent, line)] = _digest(line)
    new = [line for line in lines_in(rows.content) if last.get(record_key(rows.agent, line)) != _digest(line)]
    before = b"".join(store.stream_log(newest.id))
    return before + b"".join(b"%s\n" % line for line in new)


def _digest(line: bytes) -> bytes:
    return hashlib.sha256(line).digest()
