"""Changes of a store as a whole: removed, checked, derived anew, packed."""

from __future__ import annotations

import hashlib
import shutil
from contextlib import closing, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from backstory import errors
from backstory.lazy import lazy_module
from backstory.store import codec
from backstory.store.database import believed, merge_whole, reset_index, set_index
from backstory.store.file import connection, migrate
from backstory.store.intake import coverage
from backstory.store.schema import fetch
from backstory.store.tables import branches, logs, sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import apsw

    from backstory.store.database import Database
    from backstory.store.file import erasing, verify
    from backstory.store.file.verify import Verified
    from backstory.store.intake import append, derived_tables, own_log, rederiving
    from backstory.store.tables import decisions, lent, repositories, titles
    from backstory.store.tables.logs import Chunk, Log
else:
    append = lazy_module("backstory.store.intake.append")
    decisions = lazy_module("backstory.store.tables.decisions")
    lent = lazy_module("backstory.store.tables.lent")
    derived_tables = lazy_module("backstory.store.intake.derived_tables")
    erasing = lazy_module("backstory.store.file.erasing")
    own_log = lazy_module("backstory.store.intake.own_log")
    rederiving = lazy_module("backstory.store.intake.rederiving")
    repositories = lazy_module("backstory.store.tables.repositories")
    titles = lazy_module("backstory.store.tables.titles")
    verify = lazy_module("backstory.store.file.verify")


# removing -----------------------------------------------------------------------------------------------------------


def doomed(db: apsw.Connection, session_id: int) -> dict[str, list[Log]]:
    """The uids of what ``remove`` would remove with a session, itself too, each with its logs."""
    return {uid: logs.of_session(db, each) for each, uid in sessions.doomed(db, session_id)}


def remove(store: Database, session_ids: Sequence[int], *, erases: bool = True) -> list[str]:
    """Remove sessions and their subagents', with their bytes; return their uids. See ``Store.remove``.

    ``erases``: False where more are removed, behind which the caller erases.
    """

    def remove_all(db: apsw.Connection) -> list[str]:
        going, noted = [sessions.get(db, each).id for each in session_ids], sessions.project_names(db).upto
        erasing.note_removal(db)
        # It is merged once, when all are removed.
        set_index(db, automerge=0)
        uids = [uid for each in going for uid in sessions.remove(db, each, store.now())]
        for uid in uids:
            decisions.forget(db, uid)
        # A title may have been lent to another session by one that goes.
        titles.assign(db)
        if noted:
            repositories.note_names(db, store.moves, upto=noted)
        reset_index(db)
        return uids

    # The rows go in one transaction, and count as gone; to write the file anew comes behind it and may be repeated.
    removed = store.decide(remove_all)
    if erases:
        erase(store)
    return removed


def prune_turns(store: Database, session_id: int | None = None, only: Mapping[str, int] | None = None) -> int:
    """Drop for good what removed turns of one session, or of all, hold; return how many turns that were.

    ``only``: these turns, each with the time at which it was removed in another store.
    """
    todo = store.ask(branches.prunable) if session_id is None else [session_id]
    if only is not None:
        store.change(branches.mark_removed, todo, only)
    dropped = sum(_prune(store, each, only) for each in todo)
    if dropped:
        erase(store)
    return dropped


def _prune(store: Database, session_id: int, only: Collection[str] | None) -> int:
    """Drop what removed turns of a session hold; what they named first may be named elsewhere, too."""

    def prune(db: apsw.Connection) -> int | None:
        # What the turns name was read outside this transaction, and something was stored since.
        if (db.execute("select next_seq from sessions where id = ?", (session_id,)).get or 0) != next_seq:
            return None
        erasing.note_removal(db)
        count = branches.prune(db, session_id, only)
        derived_tables.write(db, session_id, named, turn_ids)
        return count

    for _ in range(append.APPEND_TRIES):
        next_seq, named, turn_ids = store.ask(own_log.refs_kept, session_id)
        if (count := store.change(prune)) is not None:
            return count
    raise errors.StoreBusy(store.path)


def erase(store: Database) -> None:
    """Leave nothing in the file of what was removed from it. See ``Store.erase``."""
    if not store.ask(erasing.is_due):
        return
    db = store.writer()
    # In this order: the index leaves free pages, the file drops them, the WAL still has the old ones; only then is it
    # done.
    for step in (
        lambda: merge_index(store),
        lambda: erasing.rewrite(db, store.path),
        lambda: erasing.empty_wal(db, store.path),
        lambda: store.write(erasing.note_done),
    ):
        erasing.patiently(store.path, step)


def free_room(store: Database) -> None:
    """Erase what was removed, and give its room back to the disk, also where that has little left."""
    if not store.ask(erasing.is_due):
        return
    _empty_wal(store)
    before, free = 0, store.ask(_free_pages)
    while free != before and not _has_room(store):
        # Some free pages at a time: what is left then takes less room to be written anew.
        store.give_pages_back(PAGES_AT_ONCE)
        _empty_wal(store)
        before, free = free, store.ask(_free_pages)
    try:
        erase(store)
    except errors.NotErased as refused:
        # What was tried in vain lies in the WAL, and would fill the disk.
        _empty_wal(store)
        needed, left = _room(store)
        if left < needed:
            raise errors.NotErased(store.path, errors.too_little(needed, left)) from refused
        raise
    _empty_wal(store)


def keep_wal_short(store: Database) -> None:
    """Empty the WAL where it is long: the disk may have little left."""
    with suppress(OSError):
        if store.path.with_name(f"{store.path.name}-wal").stat().st_size > min(WAL_BYTES, _free_bytes(store)):
            _empty_wal(store)


def check_room_for(store: Database, size: int) -> None:
    """Raise NoRoomLeft where the disk has less than rewriting records of so many packed bytes may take."""
    keep_wal_short(store)
    needed, free = CHANGED_BYTES + size * CHANGED_PART, _free_bytes(store)
    if free < needed:
        raise errors.NoRoomLeft(store.path, needed, free)


def _empty_wal(store: Database) -> None:
    # Readers may be in the way.
    with suppress(errors.StoreBusy):
        try:
            erasing.empty_wal(store.writer(), store.path)
        except errors.DiskFull as refused:
            # The pages that the file grows by.
            length = store.ask(lambda db: int(db.pragma("page_count")) * int(db.pragma("page_size")))
            needed = max(length - store.path.stat().st_size, connection.PAGE_SIZE)
            raise errors.WalStuck(store.path, needed) from refused


def _free_pages(db: apsw.Connection) -> int:
    return int(str(db.execute("pragma freelist_count").get))


# the file -----------------------------------------------------------------------------------------------------------


def merge_index(store: Database) -> None:
    """Merge all segments of the search index."""
    with connection.translated(store.path):
        merge_whole(store.writer(), store.path)


PACKED_BYTES_S, READ_BYTES_S, REWRITTEN_BYTES_S = 20_000_000, 100_000_000, 50_000_000
"""The bytes of logs that are packed in a second, those that are looked through, and those of a file written anew."""
PAGES_AT_ONCE = 16
"""The most free pages that are given back at a time on a nearly full disk: others take their places first."""
WAL_BYTES = 4 * 1024 * 1024
"""A longer WAL is emptied between two sessions that are pruned in part."""
CHANGED_BYTES, CHANGED_PART = 2 * 1024 * 1024, 4
"""The most bytes of pages that such a session changes, and those for each of its packed bytes: of 240 real ones none
changed half as much beyond three for each."""
ROOM_PART = 10
"""A file takes no more room than its own length and this part of it while it is made smaller."""
_TO_SETTLE = "exists (select 1 from lent)"


def merge_idle_chunks(store: Database, before: int) -> int:
    """Merge the small chunks of logs that were last written before this time (ms); return how many logs."""
    query = "select id from logs where frames > 1 and coalesce(modified, 0) < ?"

    def merge(db: apsw.Connection) -> int:
        idle = fetch(db, tuple[int], query, (before,))
        for (log_id,) in idle:
            logs.merge_chunks(db, log_id, idle=True)
        # Another program may have removed a log that others are made of.
        lent.settle(db)
        return len(idle)

    # Asked first, without a writer's lock: mostly there is nothing to merge.
    waiting = store.ask(lambda db: db.execute(f"select exists ({query}) or {_TO_SETTLE}", (before,)).get)
    return store.write(merge) if waiting else 0


def check(store: Database, progress: Callable[[int, int], None]) -> Verified:
    """Check everything that can be checked; see ``store/file/verify.py``."""
    # A connection of its own: what FTS5 remembers of the index in another is not renewed for this check.
    store.reader()
    with (
        believed(store.path) if store.is_elsewhere else nullcontext(),
        closing(connection.open_reader(store.path)) as db,
        connection.translated(store.path),
    ):
        if migrate.schema_version(db, store.path) < migrate.SCHEMA_VERSION:
            # The checks are of today's tables.
            raise errors.StoreOutdated(store.path)
        return verify.verify(db, progress)


class OptimizeWork(NamedTuple):
    """The work of making a file smaller: logs and bytes to pack, bytes of others to read, bytes to write anew."""

    logs: int
    packed_bytes: int
    read_bytes: int
    rewritten_bytes: int

    @property
    def seconds(self) -> float:
        """The time that it takes about, on a machine of today."""
        packing = self.packed_bytes / PACKED_BYTES_S
        return packing + self.read_bytes / READ_BYTES_S + self.rewritten_bytes / REWRITTEN_BYTES_S


def optimize_work(store: Database, before: int) -> OptimizeWork:
    """Estimate the work of ``optimize``, and of making subagents' logs of their parents' first."""

    def look(db: apsw.Connection) -> OptimizeWork:
        todo = f"select count(*), coalesce(sum(read_to), 0) from logs where {logs.TO_REPACK}"
        ((count, packed),) = fetch(db, tuple[int, int], todo, (logs.PACKED, before))
        read = sum(each.length for each in families(db, before))
        return OptimizeWork(count, packed, read, store.path.stat().st_size if erasing.is_due(db) else 0)

    return store.ask(look)


def check_room(store: Database) -> int:
    """The most bytes that making the file smaller may take meanwhile; raises NoRoom where the disk has fewer."""
    needed, free = _room(store)
    if free < needed:
        raise errors.NoRoom(store.path, needed, free)
    return needed


def _has_room(store: Database) -> bool:
    needed, free = _room(store)
    return free >= needed


def _room(store: Database) -> tuple[int, int]:
    """The most bytes that writing a file anew takes meanwhile, and those that are free on its disk."""
    size = store.path.stat().st_size
    return size + size // ROOM_PART, _free_bytes(store)


def _free_bytes(store: Database) -> int:
    return shutil.disk_usage(store.path.parent).free


def optimize(store: Database, before: int, progress: Callable[[int, int], None]) -> None:
    """Make the file smaller. See ``Store.optimize``."""
    todo = store.ask(logs.to_repack, before)
    for number, log_id in enumerate(todo, 1):
        # A chunk a transaction, so that writers get in between.
        start: int | None = 0
        while start is not None:
            start = store.change(partial(logs.repack, log_id=log_id, start=start))
        progress(number, len(todo))
    merge_index(store)
    store.give_pages_back()
    # The file is shorter then by what is free, before a WAL as long as the file may come.
    _empty_wal(store)
    erase(store)


# subagents' logs that are made of their parent's ----------------------------------------------------------------------


class LendingFamily(NamedTuple):
    """A log that reports of subagents, and the logs of those that have bytes of their own."""

    lender: int
    length: int
    borrowers: list[int]
    owned: list[int]
    """The bytes that each of these has of its own."""


class KeptChunk(NamedTuple):
    """A chunk: its place, its checksum, and its lender if it has one."""

    start: int
    length: int
    sha256: bytes
    lender: int | None


class RemadeChunk(NamedTuple):
    """A chunk of a subagent's log, and those made of its parent's bytes that are to take its place."""

    log_id: int
    chunk: KeptChunk
    made: list[Chunk]


def families(db: apsw.Connection, before: int, lender: int | None = None) -> list[LendingFamily]:
    """The logs that may lend their bytes, the newest of a session first; all were last written before this time (ms).

    Logs that are packed as small as they can be are left out. ``lender``: of this one only.
    """
    # Of one lender only its subagents' logs are looked at, not all of its agent's.
    alike = "p.agent = c.agent" if lender is None else "+p.agent = +c.agent"
    rows = fetch(
        db,
        tuple[int, int, int, int],
        "select p.id, p.read_to, c.id, (select sum(length) from chunks where log_id = c.id and lender is null) "
        "from logs c join sessions s on s.id = c.session_id "
        "join sessions m on substr(m.uid, 11) = s.parent_identity "
        f"join logs p on p.session_id = m.id and {alike} and p.kind = 'file' "
        "where c.kind = 'file' and c.frames <> ? and coalesce(c.modified, 0) < ? and instr(c.path, '.jsonl#') > 0 "
        "and instr(p.path, '.jsonl#') = 0 "
        "and exists (select 1 from chunks where log_id = c.id and lender is null) "
        f"{'' if lender is None else 'and p.id = ?'} order by p.generation desc, p.id",
        (logs.PACKED, before, *(() if lender is None else (lender,))),
    )
    found: dict[int, LendingFamily] = {}
    for log_id, length, borrower, owned in rows:
        family = found.setdefault(log_id, LendingFamily(log_id, length, [], []))
        family.borrowers.append(borrower)
        family.owned.append(owned)
    return list(found.values())


def kept_chunks(db: apsw.Connection, log_id: int) -> list[KeptChunk]:
    """The chunks of a log, in order."""
    return fetch(
        db, KeptChunk, "select start, length, sha256, lender from chunks where log_id = ? order by start", (log_id,)
    )


def is_smaller(made: Sequence[Chunk], packed: int) -> bool:
    """Return True if chunks take less room than one of this many bytes."""
    return sum(len(each.frame) for each in made) < packed


def lend(store: Database, remade: Sequence[RemadeChunk], kept: lent.LenderChunks) -> list[int]:
    """Store chunks as made of another log's bytes, in one transaction; return the logs of those that stay as they are.

    One does where that says other bytes, or takes more room, and where anything changed since it was asked for.
    """
    return store.change(lambda db: [each.log_id for each in remade if not _lend(db, *each, kept)])


def _lend(db: apsw.Connection, log_id: int, chunk: KeptChunk, made: list[Chunk], kept: lent.LenderChunks) -> bool:
    is_here = "log_id = ? and start = ? and length = ? and sha256 = ? and lender is null"
    packed = db.execute(f"select length(data) from chunks where {is_here}", (log_id, *chunk[:3])).get
    if packed is None or not is_smaller(made, packed):
        return False
    if not all(db.execute("select 1 from logs where id = ?", (each.lender,)).get for each in made):
        return False
    whole = hashlib.sha256()
    try:
        # Read as any reader will: only what is found there again may go.
        for each in made:
            whole.update(lent.unpacked(db, "main", each.length, each.digest, each.frame, each.lender, kept))
    except codec.CodecError:
        return False
    if whole.digest() != chunk.sha256:
        return False
    db.execute(f"delete from chunks where {is_here}", (log_id, *chunk[:3]))
    logs.insert_chunks(db, log_id, made)
    return True


# deriving again -----------------------------------------------------------------------------------------------------


def sessions_to_derive(store: Database, *, only_stale: bool) -> list[int]:
    """The ids of the sessions to derive again: all, or those that an earlier version derived."""
    store.make_ready()
    return store.ask_or([], rederiving.sessions, only_stale=only_stale)


def begin_reindex(db: apsw.Connection) -> None:
    """Empty the search index where the settings say that there is none."""
    if not coverage.rule_of(db).enabled:
        coverage.empty_index(db)


def note_reindexed(db: apsw.Connection, *, is_whole: bool) -> None:
    """Note that nothing is left that an earlier version derived; ``is_whole``: all is as the settings say."""
    migrate.note_derived(db)
    if is_whole:
        coverage.note_current(db)


def rederive_unlogged(store: Database, session_id: int) -> None:
    """Derive what no log of a session holds: the prompts of its runs."""
    batch = store.ask(rederiving.unlogged, session_id)
    if batch is not None:
        store.change(append.rederive, batch, events_too=False)
