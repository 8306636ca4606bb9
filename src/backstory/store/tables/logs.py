"""Logs in the store: their rows, and their bytes as checked chunks. Functions take the connection, never commit."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw
from msgspec import Struct, ValidationError, convert
from msgspec.structs import astuple

from backstory import ids
from backstory.lazy import lazy_module
from backstory.store import codec, schema
from backstory.store.schema import fetch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from backstory.store.tables import lent
else:
    lent = lazy_module("backstory.store.tables.lent")

FILE, STREAM, STDERR, API = "file", "stream", "stderr", "api"
JSON = "json"
"""The events of an imported session whose bytes were left out, as lines of JSON."""
"""Kinds of logs: an agent's own, the two outputs of a run, and what a session of ours was appended with."""
COPY = "copy "
"""Before the kind of a log whose bytes were copied with another session's turns; its own log stays with that one."""
OVERSIZE = "line over 64 MB"
FAILED = "failed at"
"""The type of a record that its adapter, or what is made of its events, failed at."""
UNPACKED_CHUNKS = 2
"""The most unpacked chunks that are kept: a record may begin in one and end in the next."""
FRAMES_MAX = 64
"""The most small chunks that may gather before they are merged."""
PACKED = -1
"""In place of their number: all chunks are packed as small as they can be."""
TO_REPACK = "frames <> ? and coalesce(modified, 0) < ? and read_to > 0"
SALVAGED_MAX = 10_000_000
"""The most ids that are tried where a damaged store cannot list its logs."""
LOGS_AT_ONCE = 500
TAIL_BYTES = 4096
"""The number of bytes before ``read_to`` that are hashed, to distinguish an append from a rewrite."""


class Log(Struct, frozen=True):
    """One log as the store knows it. Offsets are bytes; see schema.sql."""

    id: int
    session_id: int
    agent: str
    kind: str
    native_id: str
    path: str
    relpath: str
    modified: int | None
    first_hash: bytes | None
    tail_hash: bytes | None
    read_to: int
    parsed_to: int
    tail_seq: int | None
    generation: int
    told_to: int | None
    """The end of the parsed part, if storing the events behind it failed; None: all is parsed."""
    state: bytes | None
    """None where it is not kept: what the log's bytes say is told its reader again then."""

    @property
    def source_kind(self) -> str:
        """The kind of its source, also where its bytes are a copy."""
        return self.kind.removeprefix(COPY)

    @property
    def told_end(self) -> int:
        """The end of its parsed part."""
        return self.read_to if self.told_to is None else self.told_to


class FileStamp(Struct, frozen=True, kw_only=True):
    """A file as it was when last looked at. ``log_id`` is None when it gave nothing, for ``reason``.

    ``ctime_ns`` is None where it was not noted, as by earlier versions.
    """

    path: str
    agent: str
    log_id: int | None
    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int | None = None
    reason: str | None = None


class Chunk(Struct, frozen=True, gc=False, array_like=True):
    """Bytes of a log, packed."""

    start: int
    length: int
    digest: bytes
    frame: bytes
    lender: int | None = None
    """The log that its frame copies from; see ``lent``."""


class SeqRange(Struct):
    """Records with consecutive numbers, from byte ``start`` to ``stop`` of their log."""

    start: int
    stop: int
    first_seq: int
    records: int

    def takes(self, start: int, seq: int) -> bool:
        """Return True if a record at this place with this number goes on from here."""
        return start == self.stop and seq == self.first_seq + self.records


class ChunkMark(NamedTuple):
    """The start of a chunk, its length, and its checksum."""

    start: int
    length: int
    sha256: bytes


_LOG_COLUMNS = (
    "id, session_id, agent, kind, native_id, path, "
    "iif(relpath <> '' or root_chars is null, relpath, substr(path, root_chars + 1)), "
    "modified, first_hash, tail_hash, read_to, parsed_to, tail_seq, generation, told_to, state"
)


PLACED = "size = iif(path = ?1, size, null), path = ?1, root_chars = ?2, relpath = ?3, path_hash = ?4"
"""Sets a log's place; the stamp of a file elsewhere is not this one's. See ``placed``."""
_STAT = "device, inode, size, mtime_ns, ctime_ns, reason"
_STAMPS_OF_LOGS = f"select path, agent, id, {_STAT} from logs where size is not null"
_OTHER_STAMPS = f"select path, agent, log_id, {_STAT} from log_places"
_IS_ONE_OF = "path in (select value from json_each(?))"
_MAY_BE_ONE_OF = (
    "id in (select id from logs where size is not null and path_hash in (select value from json_each(?)) "
    "union all select id from logs where size is not null and path_hash is null)"
)
"""Other paths may have the same hash. One without a hash was written by an earlier version, or by another program."""
STAMPS_BY_PATH = f"{_STAMPS_OF_LOGS} and {_MAY_BE_ONE_OF} order by id"
_LAST = "order by mtime_ns desc limit ?"
LAST_STAMPS = f"{_STAMPS_OF_LOGS} {_LAST}"


def placed(path: str, relpath: str) -> tuple[str, int | None, str, int]:
    """The values for ``PLACED``: a path below the agent's own folder that is the end of ``path`` is not kept again."""
    if relpath and path.endswith(relpath):
        return path, len(path) - len(relpath), "", ids.path_hash(path)
    return path, None, relpath, ids.path_hash(path)


def hash_paths(db: apsw.Connection) -> None:
    """Give a hash to the paths that have none."""
    rows = fetch(db, tuple[int, str], "select id, path from logs where size is not null and path_hash is null")
    hashes = ((ids.path_hash(path), log_id) for log_id, path in rows)
    db.executemany("update logs set path_hash = ? where id = ?", hashes)


def pack(start: int, data: bytes) -> Chunk:
    """A chunk of ``data``, which lies at ``start`` in its log."""
    return Chunk(start, len(data), codec.chunk_digest(data), codec.pack_chunk(data))


def get(db: apsw.Connection, log_id: int) -> Log | None:
    """The log with this id."""
    for row in db.execute(f"select {_LOG_COLUMNS} from logs where id = ?", (log_id,)):
        return _log(row)
    return None


def run_folder(db: apsw.Connection, log_id: int) -> str | None:
    """The folder that the run whose stream a log is was in."""
    found = db.execute("select cwd from logs where id = ?", (log_id,)).get
    return None if found is None else str(found)


def turn_uid(db: apsw.Connection, log_id: int) -> str | None:
    """The turn whose stream a log is."""
    found = db.execute("select turn_uid from logs where id = ?", (log_id,)).get
    return None if found is None else str(found)


def pending(db: apsw.Connection, log_id: int) -> bytes | None:
    """The calls of a log whose results had not come when it was read."""
    kept = db.execute("select pending from logs where id = ?", (log_id,)).get
    return codec.unpack_text(kept) if kept else None


def unparsed(db: apsw.Connection) -> list[Log]:
    """The logs of which something is kept as bytes only: it could not be stored what that says."""
    rows = db.execute(f"select {_LOG_COLUMNS} from logs where told_to is not null order by id")
    return [_log(row) for row in rows]


def of_native_id(db: apsw.Connection, agent: str, native_id: str) -> list[Log]:
    """All logs of one session of an agent, oldest first."""
    rows = db.execute(
        f"select {_LOG_COLUMNS} from logs where agent = ? and native_id = ? and kind = 'file'", (agent, native_id)
    )
    # Sorted here: asked for each new log, and with an order SQLite plans the statement anew each time.
    return sorted((_log(row) for row in rows), key=lambda log: log.id)


def of_session(db: apsw.Connection, session_id: int) -> list[Log]:
    """All logs of a session, oldest first."""
    rows = db.execute(f"select {_LOG_COLUMNS} from logs where session_id = ? order by id", (session_id,))
    return [_log(row) for row in rows]


def all_logs(db: apsw.Connection) -> list[Log]:
    """Every log in the store, oldest first."""
    return [_log(row) for row in db.execute(f"select {_LOG_COLUMNS} from logs order by id")]


def stream_logs(db: apsw.Connection) -> Iterator[Log]:
    """The same, some of them in memory at a time; no statement stays open between two."""
    last = 0
    while True:
        rows = db.execute(
            f"select {_LOG_COLUMNS} from logs where id > ? order by id limit ?", (last, LOGS_AT_ONCE)
        ).fetchall()
        if not rows:
            return
        for row in rows:
            yield (log := _log(row))
        last = log.id


def salvaged(db: apsw.Connection) -> tuple[list[Log], list[int]]:
    """Every log whose row can be read, oldest first, without its reader's state; and the ids of the other ones.

    In a damaged file the rows on whole pages can still be found by their ids.
    """
    columns = _LOG_COLUMNS.replace("told_to, state", "null, null")
    with suppress(apsw.CorruptError, UnicodeDecodeError, ValidationError):
        # Damage may show only when a row is decoded, so each is checked to be what it should be.
        rows = db.execute(f"select {columns} from logs order by id")
        return [convert(dict(zip(Log.__struct_fields__, row, strict=True)), Log) for row in rows], []
    found, lost = [], []
    for log_id in range(1, _newest(db) + 1):
        try:
            for row in db.execute(f"select {columns} from logs where id = ?", (log_id,)):
                found.append(convert(dict(zip(Log.__struct_fields__, row, strict=True)), Log))
        except (apsw.CorruptError, UnicodeDecodeError, ValidationError):
            lost.append(log_id)
    return found, lost


def _newest(db: apsw.Connection) -> int:
    """The largest id of a log that anything readable names."""
    newest = 0
    # Each of the three may lie on a damaged page.
    for question in (
        "select seq from sqlite_sequence where name = 'logs'", "select max(id) from logs",
        "select max(log_id) from chunks",
    ):  # fmt: skip
        with suppress(apsw.Error):
            newest = max(newest, int(db.execute(question).get or 0))
    # A damaged page may say any number, and each id is tried.
    return min(newest, SALVAGED_MAX)


def file_stamps(db: apsw.Connection, reason: str | None = None) -> dict[str, FileStamp]:
    """Every file that was looked at, by path; with a reason those that gave nothing for it."""
    if reason is not None:
        # What a log stands for gave something.
        found = fetch(db, FileStamp, f"{_OTHER_STAMPS} where reason = ?", (reason,))
        return {stamp.path: stamp for stamp in found}
    # In this order: where a path has a row of each, the one beside the logs is the newer look.
    of_logs, others = fetch(db, FileStamp, f"{_STAMPS_OF_LOGS} order by id"), fetch(db, FileStamp, _OTHER_STAMPS)
    return {stamp.path: stamp for each in (of_logs, others) for stamp in each}


def stamps_of(db: apsw.Connection, paths: Iterable[str]) -> dict[str, FileStamp]:
    """These files as they were when they were looked at, by path; those that were."""
    wanted = set(paths)
    of_logs = fetch(db, FileStamp, STAMPS_BY_PATH, (_hashes(wanted),))
    others = fetch(db, FileStamp, f"{_OTHER_STAMPS} where {_IS_ONE_OF}", (schema.json_list(wanted),))
    return {stamp.path: stamp for each in (of_logs, others) for stamp in each if stamp.path in wanted}


def known_paths(db: apsw.Connection, paths: Collection[str]) -> set[str]:
    """Those of these paths whose files were looked at."""
    of_logs = db.execute(f"select path from logs where size is not null and {_MAY_BE_ONE_OF}", (_hashes(paths),))
    known = {str(path) for (path,) in of_logs}
    others = db.execute(f"select path from log_places where {_IS_ONE_OF}", (schema.json_list(paths),))
    return (known | {str(path) for (path,) in others}).intersection(paths)


def recent_stamps(db: apsw.Connection, limit: int) -> list[FileStamp]:
    """The files of logs that were written last, the last first."""
    of_logs = fetch(db, FileStamp, LAST_STAMPS, (limit,))
    others = fetch(db, FileStamp, f"{_OTHER_STAMPS} where log_id is not null {_LAST}", (limit,))
    return sorted([*of_logs, *others], key=lambda stamp: stamp.mtime_ns, reverse=True)[:limit]


def _hashes(paths: Iterable[str]) -> str:
    return schema.json_list(map(ids.path_hash, paths))


def newest(db: apsw.Connection) -> int:
    """The greatest id that a log was given, also where that log is gone."""
    # Ids are never given again, so that a log that came since can be told by its id alone.
    found = db.execute("select seq from sqlite_sequence where name = 'logs'").get
    return 0 if found is None else int(found)


def mark_stale(db: apsw.Connection, log_id: int) -> None:
    """Mark a log so that the next ingest derives its events again."""
    db.execute("update logs set derived = 0 where id = ?", (log_id,))


def remember_stamps(
    db: apsw.Connection, places: Iterable[FileStamp], moved: Iterable[tuple[int, str, str]] = ()
) -> None:
    """Note files as they are now, so that they need not be opened again.

    ``moved``: (log id, path, path below the agent's own folder) of logs that lie elsewhere now.
    """
    # A place first, then its stamp: a stamp counts only for the path that its row has.
    for log_id, path, relpath in moved:
        db.execute(f"update logs set {PLACED} where id = ?", (*placed(path, relpath), log_id))
    for place in places:
        remember_stamp(db, place)


def remember_stamp(db: apsw.Connection, place: FileStamp) -> None:
    """Note how a file was found, so that it need not be opened again while it stays so."""
    db.execute(
        "update logs set device = ?, inode = ?, size = ?, mtime_ns = ?, ctime_ns = ?, reason = ?, "
        "path_hash = ? where id = ? and path = ? and agent = ?",
        (
            place.device, place.inode, place.size, place.mtime_ns, place.ctime_ns, place.reason,
            ids.path_hash(place.path), place.log_id, place.path, place.agent,
        ),
    )  # fmt: skip
    # A file has its stamp in one place: with its log if that lies there, else beside the logs.
    if db.changes():
        db.execute("delete from log_places where path = ?", (place.path,))
        # An earlier generation may lie at the same path.
        db.execute(
            "update logs set size = null where session_id = (select session_id from logs where id = ?1) and id <> ?1 "
            "and path = ?2 and size is not null",
            (place.log_id, place.path),
        )
        return
    db.execute(
        f"insert into log_places({', '.join(FileStamp.__struct_fields__)}) "
        f"values ({', '.join('?' * len(FileStamp.__struct_fields__))}) on conflict(path) do update set "
        "agent = excluded.agent, log_id = excluded.log_id, device = excluded.device, inode = excluded.inode, "
        "size = excluded.size, "
        "mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, reason = excluded.reason",
        astuple(place),
    )


def keep_stamps(
    db: apsw.Connection, where: str, value: int, *, log_id: int | None = None, reason: str | None = None
) -> None:
    """Note apart from the logs that go how their files were found; ``where`` is a condition on logs.

    ``log_id``: the log that takes their place; ``reason``: why the files give nothing now.
    """
    db.execute(
        "insert or replace into log_places(path, agent, log_id, device, inode, size, mtime_ns, ctime_ns, reason) "
        f"select path, agent, ?, device, inode, size, mtime_ns, ctime_ns, coalesce(?, reason) from logs "
        f"where size is not null and {where}",
        (log_id, reason, value),
    )


def note_ctimes(db: apsw.Connection, ctimes: Mapping[str, int]) -> None:
    """Note the ctime of files, by path, of which it is not known yet."""
    db.executemany(
        "update log_places set ctime_ns = ? where path = ? and ctime_ns is null",
        [(ctime_ns, path) for path, ctime_ns in ctimes.items()],
    )
    unknown = fetch(db, tuple[int, str], "select id, path from logs where size is not null and ctime_ns is null")
    db.executemany(
        "update logs set ctime_ns = ? where id = ?",
        [(ctimes[path], log_id) for log_id, path in unknown if path in ctimes],
    )


def insert_chunks(db: apsw.Connection, log_id: int, chunks: list[Chunk]) -> None:
    """Store chunks of a log."""
    db.executemany(
        "insert into chunks(log_id, start, length, sha256, data, lender) values (?, ?, ?, ?, ?, ?)",
        [(log_id, c.start, c.length, c.digest, c.frame, c.lender) for c in chunks],
    )


def insert_seq_ranges(db: apsw.Connection, log_id: int, runs: list[SeqRange]) -> None:
    """Store the numbers of a log's next records; a run that goes on from the last one lengthens it."""
    for run in runs:
        db.execute(
            # A log is one long run of numbers then, and not a row for each time that it was read.
            "update numbers set stop = ?, records = records + ? where log_id = ? and stop = ? "
            "and first_seq + records = ?",
            (run.stop, run.records, log_id, run.start, run.first_seq),
        )
        if not db.changes():
            insert_seq_range(db, log_id, run)


def insert_seq_range(db: apsw.Connection, log_id: int, run: SeqRange) -> None:
    """Store numbers as a run of their own, as that of a last record that may still grow: it can be taken back."""
    db.execute(
        "insert into numbers(log_id, start, stop, first_seq, records) values (?, ?, ?, ?, ?)",
        (log_id, run.start, run.stop, run.first_seq, run.records),
    )


def seq_ranges(db: apsw.Connection, log_id: int) -> list[SeqRange]:
    """The numbers of a log's records, in the order of their places."""
    asked = "select start, stop, first_seq, records from numbers where log_id = ? order by start"
    return fetch(db, SeqRange, asked, (log_id,))


class UnpackedChunks:
    """The chunks that were unpacked last, so that reading record after record unpacks each of them once."""

    def __init__(self, lenders: lent.LenderChunks | None = None) -> None:
        # For who reads very many logs, in one thread.
        self._lenders = lenders
        # The digest is part of the key: chunks that were joined since have another one at the same place.
        self._kept: dict[tuple[int, int, bytes], bytes] = {}
        self._lock = threading.Lock()

    def bytes_of(self, db: apsw.Connection, log_id: int, mark: ChunkMark) -> bytes:
        """The bytes of a chunk; raises CodecError."""
        at, _, digest = mark
        key = log_id, at, digest
        # Taken out and put back, so that the oldest key is always the one that was used least recently.
        with self._lock:
            data = self._kept.pop(key, None)
        if data is None:
            data = _unpacked(db, log_id, mark, *_frame(db, log_id, at), self._lenders)
        with self._lock:
            self._kept[key] = data
            while len(self._kept) > UNPACKED_CHUNKS:
                del self._kept[next(iter(self._kept))]
        return data


def read(db: apsw.Connection, log_id: int, start: int, length: int, unpacked: UnpackedChunks | None = None) -> bytes:
    """The bytes of a log from ``start`` on, ``length`` of them or as many as there are; raises CodecError."""
    end, unpacked = start + length, unpacked or UnpackedChunks()
    pieces = [
        unpacked.bytes_of(db, log_id, mark)[max(start - mark[0], 0) : end - mark[0]]
        for mark in _chunks_between(db, log_id, start, end)
    ]
    return b"".join(pieces)


def look_at(db: apsw.Connection, log_id: int, start: int, length: int) -> bytes:
    """The same, unpacking no more than that: no checksum says that it is what was stored."""
    end, pieces = start + length, list[bytes]()
    for mark in _chunks_between(db, log_id, start, end):
        at = mark.start
        frame, lender = _frame(db, log_id, at)
        if lender is None:
            data = codec.unpack_beginning(frame, min(end - at, mark.length), codec.dictionaries_of(db))
        else:
            data = _unpacked(db, log_id, mark, frame, lender)[: end - at]
        pieces.append(data[max(start - at, 0) :])
    return b"".join(pieces)


def piece(db: apsw.Connection, log_id: int, at: int) -> bytes:
    """A log's bytes from a place to the end of the chunk that has it, b"" behind the last; raises CodecError."""
    asked = (
        "select start, length, sha256, data, lender from chunks where log_id = ? and start <= ? "
        "order by start desc limit 1"
    )
    for start, length, digest, frame, lender in fetch(
        db, tuple[int, int, bytes, bytes, int | None], asked, (log_id, at)
    ):
        if at < start + length:
            return _unpacked(db, log_id, ChunkMark(start, length, digest), frame, lender)[at - start :]
    return b""


def chunk_marks(db: apsw.Connection, log_id: int) -> list[ChunkMark]:
    """(start, length, sha256) of each chunk of a log, in order."""
    return fetch(db, ChunkMark, "select start, length, sha256 from chunks where log_id = ? order by start", (log_id,))


def merge_chunks(db: apsw.Connection, log_id: int, *, idle: bool) -> None:
    """Join small chunks of a log into larger ones.

    While a log grows, only neighbours of like size are joined, so that a byte is rewritten a handful of
    times however many appends there are; an idle log is merged into chunks as large as they come.
    """
    marks = _foldable(db, log_id)
    while marks:
        joined, marks = _last_neighbours(marks, idle=idle)
        if len(joined) > 1:
            _join(db, log_id, joined)
        # One round is enough: the last chunks are the only ones that have come since.
        if not idle:
            break
    db.execute("update logs set frames = 0 where id = ?", (log_id,))


def repack(db: apsw.Connection, log_id: int, start: int) -> int | None:
    """Join the chunks of a log from ``start`` on into one, as large as they come; gives where the next begins."""
    joined: list[ChunkMark] = []
    for mark in _foldable(db, log_id):
        if mark[0] >= start and (not joined or mark[0] + mark[1] - joined[0][0] <= codec.PACKED_BYTES):
            joined.append(mark)
        # No more than one frame a transaction: other writers wait meanwhile.
        elif joined:
            break
    if not joined:
        db.execute("update logs set frames = ? where id = ?", (PACKED, log_id))
        return None
    start, end = joined[0][0], joined[-1][0] + joined[-1][1]
    data = read(db, log_id, start, end - start)
    db.execute("delete from chunks where log_id = ? and start >= ? and start < ?", (log_id, start, end))
    insert_chunks(db, log_id, [Chunk(start, len(data), codec.chunk_digest(data), codec.pack_hard(data))])
    return end


def to_repack(db: apsw.Connection, before: int) -> list[int]:
    """The logs that were last written before this time (ms), and are not packed as small as they can be."""
    rows = db.execute(f"select id from logs where {TO_REPACK}", (PACKED, before))
    return [int(str(found)) for (found,) in rows]


def _last_neighbours(marks: list[ChunkMark], *, idle: bool) -> tuple[list[ChunkMark], list[ChunkMark]]:
    """The chunks at the end that may become one, and those before them."""
    first = len(marks) - 1
    total = marks[first][1]
    while first > 0:
        length = marks[first - 1][1]
        # A neighbour more than twice as large would be rewritten for little, and again with the next append.
        if total + length > codec.CHUNK_BYTES or (not idle and length > 2 * total):
            break
        first, total = first - 1, total + length
    return marks[first:], marks[:first]


def _join(db: apsw.Connection, log_id: int, joined: list[ChunkMark]) -> None:
    start, end = joined[0][0], joined[-1][0] + joined[-1][1]
    data = read(db, log_id, start, end - start)
    db.execute("delete from chunks where log_id = ? and start >= ? and start < ?", (log_id, start, end))
    insert_chunks(db, log_id, [pack(start, data)])


def _frame(db: apsw.Connection, log_id: int, at: int) -> tuple[bytes, int | None]:
    find = "select data, lender from chunks where log_id = ? and start = ?"
    return lent.found_chunk(db, tuple[bytes, int | None], find, log_id, at)


def _unpacked(
    db: apsw.Connection, log_id: int, mark: ChunkMark, frame: bytes, lender: int | None,
    kept: lent.LenderChunks | None = None,
) -> bytes:  # fmt: skip
    if lender is not None:
        try:
            return lent.unpacked(db, "main", *mark[1:], frame, lender, kept)
        except codec.CodecError:
            # Since its row was read another process may have removed the lender: it has bytes of its own then.
            frame, now = _frame(db, log_id, mark.start)
            if now is not None:
                raise
    return codec.unpack_chunk(frame, *mark[1:], codec.dictionaries_of(db))


def _foldable(db: apsw.Connection, log_id: int) -> list[ChunkMark]:
    """The chunks behind the last one that is made of another log: that one would get bytes of its own."""
    last = "coalesce((select max(start) from chunks where log_id = ?1 and lender is not null), -1)"
    asked = f"select start, length, sha256 from chunks where log_id = ?1 and start > {last} order by start"
    return fetch(db, ChunkMark, asked, (log_id,))


def _chunks_between(db: apsw.Connection, log_id: int, start: int, end: int) -> list[ChunkMark]:
    # The first chunk is found by the index, as the last that begins at or before the place.
    first = "coalesce((select max(start) from chunks where log_id = ?1 and start <= ?2), 0)"
    found = f"from chunks where log_id = ?1 and start < ?3 and start >= {first} order by start"
    return fetch(db, ChunkMark, f"select start, length, sha256 {found}", (log_id, start, end))


def _log(row: tuple[Any, ...]) -> Log:
    values = dict(zip(Log.__struct_fields__, row, strict=True))
    values["state"] = codec.unpack_text(values["state"]) if values["state"] else None
    for name in ("first_hash", "tail_hash"):
        if isinstance(values[name], str):
            # A process of the version before may still have had the store open when it was brought forward.
            values[name] = bytes.fromhex(values[name])
    return Log(**values)
