"""Sessions that were pruned in part: when and what, and the hashes of the bytes that were there. Never commits.

The pruned bytes of a log are as many as its agent wrote, so places in it stay. A chunk may be joined with others or
cut anew; the ranges here are those of the bytes that were overwritten, whatever chunks they are in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backstory.derive.pruning import MARK, Pruning
from backstory.model import DOCUMENT_LINE
from backstory.store import codec
from backstory.store.schema import fetch, fetch_one, json_list
from backstory.store.tables import lent, logs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    import apsw

WHOLE = -1
"""In place of an offset: how far a log was pruned."""
DOCUMENT = "document"
"""The word in such a row for a log that is the kept form of files that their agent writes anew."""
FOLDER_LINE = b'{"backstory_folder":'


class PruneNote(NamedTuple):
    """The words for what was pruned of a session, when, and the number that its next record got then."""

    what: str
    at: int
    next_seq: int

    @property
    def words(self) -> list[str]:
        """``prompts``, ``summaries``, ``tool-outputs``, ``images``."""
        return self.what.split()

    @property
    def pruning(self) -> Pruning:
        """The same as a value."""
        return Pruning.of(self.words)


class Range(NamedTuple):
    """Bytes of a log that were overwritten, and the hash of those that were there."""

    start: int
    length: int
    sha256: bytes

    @property
    def stop(self) -> int:
        """Their end."""
        return self.start + self.length


def noted(db: apsw.Connection, session_id: int, source: str = "main") -> PruneNote | None:
    """Return what was pruned of a session; None where it is whole."""
    asked = f"select what, at, length from {source}.pruned where session_id = ? and log_id = 0"
    return fetch_one(db, PruneNote, asked, (session_id,))


def note(db: apsw.Connection, session_id: int, what: Pruning, at: int, next_seq: int) -> None:
    """Note that a session is pruned in part."""
    db.execute(
        "insert or replace into pruned(session_id, log_id, name, start, length, what, at) "
        "values (?, 0, '', 0, ?, ?, ?)",
        (session_id, next_seq, " ".join(what.words), at),
    )


def ranges(db: apsw.Connection, log_id: int) -> list[Range]:
    """The bytes of a log that were overwritten, in order."""
    asked = "select start, length, sha256 from pruned where log_id = ? and name = '' and start >= 0 order by start"
    return fetch(db, Range, asked, (log_id,))


def add_range(db: apsw.Connection, session_id: int, log_id: int, found: Range) -> None:
    """Note bytes that are overwritten."""
    db.execute(
        "insert into pruned(session_id, log_id, name, start, length, sha256) values (?, ?, '', ?, ?, ?)",
        (session_id, log_id, *found),
    )


def note_log(db: apsw.Connection, session_id: int, log_id: int, read_to: int) -> None:
    """Note how far a log is pruned."""
    beginning = logs.look_at(db, log_id, 0, max(len(DOCUMENT_LINE), len(FOLDER_LINE)))
    db.execute(
        "insert or replace into pruned(session_id, log_id, name, start, length, what) values (?, ?, '', ?, ?, ?)",
        (session_id, log_id, WHOLE, read_to, DOCUMENT if beginning.startswith((DOCUMENT_LINE, FOLDER_LINE)) else None),
    )


def unsettled(db: apsw.Connection) -> list[int]:
    """The sessions of which a log came since they were pruned that may say again what went.

    That is a log that was rewritten, and the kept form of a document, which says again what is not as it was.
    """
    return [
        session_id
        for (session_id,) in fetch(
            db,
            tuple[int],
            "select distinct p.session_id from pruned p join logs l on l.session_id = p.session_id "
            "left join pruned w on w.session_id = p.session_id and w.log_id = l.id and w.name = '' and w.start = ? "
            "where p.log_id = 0 and (w.length is null or (w.what = ? and l.read_to > w.length))",
            (WHOLE, DOCUMENT),
        )
    ]


def note_sidecar(db: apsw.Connection, session_id: int, log_id: int, name: str, size: int, sha256: bytes) -> None:
    """Note that a file beside a log was overwritten; of several times the first one counts."""
    db.execute(
        "insert or ignore into pruned(session_id, log_id, name, start, length, sha256) values (?, ?, ?, 0, ?, ?)",
        (session_id, log_id, name, size, sha256),
    )


def gaps(found: Iterable[Range], start: int, stop: int) -> list[tuple[int, int]]:
    """The parts between two places that no range has: their starts and stops.

    >>> gaps([Range(2, 3, b"")], 0, 9)
    [(0, 2), (5, 9)]
    """
    left, at = list[tuple[int, int]](), start
    for each in found:
        if each.stop <= at or each.start >= stop:
            continue
        if each.start > at:
            left.append((at, each.start))
        at = each.stop
    return [*left, (at, stop)] if at < stop else left


def is_original(db: apsw.Connection, log_id: int, read: Callable[[int, int], bytes], stop: int) -> bool:
    """Return True if bytes up to ``stop``, given by their start and length, are those that a log had before."""
    found = ranges(db, log_id)
    within = [each for each in found if each.stop <= stop]
    if any(codec.chunk_digest(read(each.start, each.length)) != each.sha256 for each in within):
        return False
    return all(
        read(at, part_end - at) == logs.read(db, log_id, at, part_end - at) for at, part_end in gaps(found, 0, stop)
    )


def is_overwritten(db: apsw.Connection, log_id: int, name: str = "") -> bool:
    """Return True if bytes of a log were overwritten, or those of the file beside it with this name."""
    asked = "select exists (select 1 from pruned where log_id = ? and name = ? and start >= 0)"
    return bool(db.execute(asked, (log_id, name)).get)


def overwrite(db: apsw.Connection, log_id: int, new: logs.Chunk) -> None:
    """Put a chunk in the place of the one that begins there and is as long, and note the hash of what was there."""
    session_id = int(db.execute("select session_id from logs where id = ?", (log_id,)).get)
    before = logs.read(db, log_id, new.start, new.length)
    for start, stop in gaps(ranges(db, log_id), new.start, new.start + new.length):
        part = before[start - new.start : stop - new.start]
        # Bytes beside the ones that go, in the same chunk, were there before, too.
        add_range(db, session_id, log_id, Range(start, stop - start, codec.chunk_digest(part)))
    _set_chunk(db, log_id, new)


def free_borrowers(db: apsw.Connection, log_id: int) -> None:
    """Give the chunks that are made of a log bytes of their own: it is about to have others."""
    for chunk_id, length, digest, frame in fetch(
        db, tuple[int, int, bytes, bytes], "select id, length, sha256, data from chunks where lender = ?", (log_id,)
    ):
        data = lent.unpacked(db, "main", length, digest, frame, log_id)
        db.execute("update chunks set data = ?, lender = null where id = ?", (codec.pack_chunk(data), chunk_id))


def is_file_pruned(db: apsw.Connection, log_id: int, name: str) -> bool:
    """Return True if a file beside a log, or beside another one of its session, was overwritten."""
    asked = (
        "select exists (select 1 from pruned where name = ?2 and start >= 0 "
        "and session_id = (select session_id from logs where id = ?1))"
    )
    return bool(db.execute(asked, (log_id, name)).get)


def blank_file(size: int) -> bytes:
    """The bytes in place of a file beside a log that was pruned: as many as it has."""
    mark = MARK.encode()
    return mark.ljust(size) if size >= len(mark) else b" " * size


def is_settled(db: apsw.Connection, session_id: int) -> bool:
    """Return True if nothing came to a session's logs, and no log to the session, since it was pruned."""
    return not db.execute(
        "select exists (select 1 from logs l where l.session_id = ?1 and l.read_to is not "
        "(select length from pruned where session_id = ?1 and log_id = l.id and name = '' and start = ?2))",
        (session_id, WHOLE),
    ).get


# copies of a session --------------------------------------------------------------------------------------------------


def is_table_there(db: apsw.Connection, source: str) -> bool:
    """Return True if another store has the table: one of a stranger's may be of an earlier schema."""
    return bool(db.execute(f"select exists (select 1 from {source}.sqlite_schema where name = 'pruned')").get)


def words_in(db: apsw.Connection, source: str, session_id: int) -> list[str]:
    """``PruneNote.words`` of a session of another store; empty where it is whole."""
    found = noted(db, session_id, source) if is_table_there(db, source) else None
    return [] if found is None else found.words


def copy_log(db: apsw.Connection, source: str, theirs: int, session_id: int, ours: int, start: int = 0) -> None:
    """Note of a log what the other store's copy of it notes, from a place on: those bytes came as they are there."""
    if not is_table_there(db, source):
        return
    db.execute(
        "insert or ignore into pruned(session_id, log_id, name, start, length, sha256, what) "
        f"select ?, ?, name, start, length, sha256, what from {source}.pruned "
        "where log_id = ? and (start + length > ? or name <> '' or start = ?)",
        (session_id, ours, theirs, start, WHOLE),
    )


def copy_note(db: apsw.Connection, source: str, theirs: int, session_id: int) -> None:
    """Note of a session that came what the other store notes of it, unless something is noted here."""
    if is_table_there(db, source):
        db.execute(
            "insert or ignore into pruned(session_id, log_id, name, start, length, what, at) "
            f"select ?, 0, '', 0, length, what, at from {source}.pruned where session_id = ? and log_id = 0",
            (session_id, theirs),
        )


def range_at(db: apsw.Connection, schema: str, log_id: int, at: int) -> Range | None:
    """The overwritten bytes of a log in which a place is."""
    return fetch_one(
        db,
        Range,
        f"select start, length, sha256 from {schema}.pruned where log_id = ? and name = '' and start between 0 and ? "
        "and start + length > ?",
        (log_id, at, at),
    )


def note_again(db: apsw.Connection, uid: str, before: PruneNote, old: Collection[str]) -> None:
    """Note that ``old`` turns are pruned of a session that took the place of a pruned one: they are not yet."""
    (session_id, next_seq), *_ = fetch(
        db,
        tuple[int, int],
        "select s.id, (select coalesce(max(last_seq) + 1, 1) from turns where session_id = s.id "
        "and uid in (select value from json_each(?))) from sessions s where s.uid = ?",
        (json_list(sorted(old)), uid),
    )
    came = noted(db, session_id)
    what = before.pruning if came is None else before.pruning | came.pruning
    db.execute("delete from pruned where session_id = ? and start = ?", (session_id, WHOLE))
    note(db, session_id, what, before.at, next_seq)


# brought back ---------------------------------------------------------------------------------------------------------


def sessions(db: apsw.Connection) -> list[int]:
    """The ids of the sessions that were pruned in part."""
    return [each for (each,) in fetch(db, tuple[int], "select session_id from pruned where log_id = 0 order by 1")]


def files(db: apsw.Connection, log_id: int) -> list[tuple[str, bytes]]:
    """The files beside a log that were overwritten: the name of each, and the hash of what it was."""
    asked = "select name, sha256 from pruned where log_id = ? and name <> ''"
    return fetch(db, tuple[str, bytes], asked, (log_id,))


def put_all_back(db: apsw.Connection, log_id: int, found: Iterable[tuple[Range, bytes]]) -> None:
    """Put bytes of a log back that were overwritten; the caller knows by their hashes that they were there."""
    free_borrowers(db, log_id)
    for each, data in found:
        _put_back(db, log_id, each, data)


def _put_back(db: apsw.Connection, log_id: int, found: Range, data: bytes) -> None:
    for mark in logs.chunk_marks(db, log_id):
        start, stop = max(mark.start, found.start), min(mark.start + mark.length, found.stop)
        if start < stop:
            whole = bytearray(logs.read(db, log_id, mark.start, mark.length))
            whole[start - mark.start : stop - mark.start] = data[start - found.start : stop - found.start]
            _set_chunk(db, log_id, logs.pack(mark.start, bytes(whole)))
    db.execute("delete from pruned where log_id = ? and name = '' and start = ?", (log_id, found.start))


def put_file_back(db: apsw.Connection, log_id: int, name: str, data: bytes) -> None:
    """The same of a file beside a log."""
    db.execute(
        "update sidecars set sha256 = ?, data = ? where log_id = ? and name = ?",
        (codec.chunk_digest(data), codec.pack_chunk(data), log_id, name),
    )
    db.execute("delete from pruned where log_id = ? and name = ?", (log_id, name))


def note_whole(db: apsw.Connection, session_id: int) -> bool:
    """Note that nothing of a session is pruned any more, if that is so; returns whether it is."""
    left = "select exists (select 1 from pruned where session_id = ? and log_id > 0 and start >= 0)"
    if db.execute(left, (session_id,)).get:
        return False
    db.execute("delete from pruned where session_id = ?", (session_id,))
    return True


def _set_chunk(db: apsw.Connection, log_id: int, new: logs.Chunk) -> None:
    db.execute(
        "update chunks set sha256 = ?, data = ?, lender = null where log_id = ? and start = ?",
        (new.digest, new.frame, log_id, new.start),
    )
