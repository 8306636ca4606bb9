"""Logs in the store: their rows, and their bytes as checked chunks. Functions take the connection, never commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.store import codec

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

FRAMES_MAX = 64
"""So many small chunks may gather before they are folded."""
TAIL_BYTES = 4096
"""How much before ``read_to`` is hashed, to tell an append from a rewrite."""


class Log(Struct, frozen=True):
    """One log as the store knows it. Offsets are bytes; see schema.sql."""

    id: int
    session_id: int
    agent: str
    kind: str
    native_id: str
    relpath: str
    path: str
    modified: int | None
    first_hash: str | None
    tail_hash: str | None
    read_to: int
    parsed_to: int
    tail_seq: int | None
    generation: int
    state: bytes | None


class SeenPlace(Struct, frozen=True, kw_only=True):
    """A file as it was when last looked at. ``log_id`` is None when it gave nothing, for ``reason``."""

    path: str
    agent: str
    log_id: int | None
    device: int
    inode: int
    size: int
    mtime_ns: int
    reason: str | None = None


class Chunk(Struct, frozen=True):
    """Bytes of a log, packed. ``records`` records end in it, numbered on from ``first_seq``."""

    start: int
    length: int
    first_seq: int
    records: int
    digest: bytes
    frame: bytes


_LOG_COLUMNS = (
    "id, session_id, agent, kind, native_id, relpath, path, modified, first_hash, tail_hash, "
    "read_to, parsed_to, tail_seq, generation, state"
)


def pack(start: int, data: bytes, first_seq: int, records: int) -> Chunk:
    """A chunk of ``data``, which lies at ``start`` in its log."""
    return Chunk(start, len(data), first_seq, records, codec.chunk_digest(data), codec.pack_chunk(data))


def get(db: apsw.Connection, log_id: int) -> Log | None:
    """The log with this id."""
    for row in db.execute(f"select {_LOG_COLUMNS} from logs where id = ?", (log_id,)):
        return _log(row)
    return None


def of_native_id(db: apsw.Connection, agent: str, native_id: str) -> list[Log]:
    """All logs of one session of an agent, oldest first."""
    rows = db.execute(
        f"select {_LOG_COLUMNS} from logs where agent = ? and native_id = ? order by id", (agent, native_id)
    )
    return [_log(row) for row in rows]


def of_session(db: apsw.Connection, session_id: int) -> list[Log]:
    """All logs of a session, oldest first."""
    rows = db.execute(f"select {_LOG_COLUMNS} from logs where session_id = ? order by id", (session_id,))
    return [_log(row) for row in rows]


def all_logs(db: apsw.Connection) -> list[Log]:
    """Every log in the store, oldest first."""
    return [_log(row) for row in db.execute(f"select {_LOG_COLUMNS} from logs order by id")]


def places(db: apsw.Connection) -> dict[str, SeenPlace]:
    """Every file that was looked at, by path."""
    rows = db.execute("select path, agent, log_id, device, inode, size, mtime_ns, reason from log_places")
    return {
        path: SeenPlace(
            path=path, agent=agent, log_id=log, device=dev, inode=ino, size=size, mtime_ns=mtime, reason=why
        )
        for path, agent, log, dev, ino, size, mtime, why in rows
    }


def remember_place(db: apsw.Connection, place: SeenPlace) -> None:
    """Note how a file was found, so that it need not be opened again while it stays so."""
    db.execute(
        "insert into log_places(path, agent, log_id, device, inode, size, mtime_ns, reason) "
        "values (?, ?, ?, ?, ?, ?, ?, ?) on conflict(path) do update set agent = excluded.agent, "
        "log_id = excluded.log_id, device = excluded.device, inode = excluded.inode, size = excluded.size, "
        "mtime_ns = excluded.mtime_ns, reason = excluded.reason",
        (place.path, place.agent, place.log_id, place.device, place.inode, place.size, place.mtime_ns, place.reason),
    )


def insert_chunks(db: apsw.Connection, log_id: int, chunks: list[Chunk]) -> None:
    """Store chunks of a log."""
    db.executemany(
        "insert into chunks(log_id, start, length, first_seq, records, sha256, data) values (?, ?, ?, ?, ?, ?, ?)",
        [(log_id, c.start, c.length, c.first_seq, c.records, c.digest, c.frame) for c in chunks],
    )


def append(db: apsw.Connection, log_id: int, start: int, data: bytes, first_seq: int, records: int) -> None:
    """Keep bytes that were written here, not read from a file: a chunk, and the log's own columns."""
    insert_chunks(db, log_id, [pack(start, data, first_seq, records)])
    end = start + len(data)
    tail = read(db, log_id, max(end - TAIL_BYTES, 0), TAIL_BYTES)
    db.execute(
        "update logs set read_to = ?, parsed_to = ?, tail_hash = ?, frames = frames + 1 where id = ?",
        (end, end, codec.text_digest(tail), log_id),
    )
    if db.execute("select frames from logs where id = ?", (log_id,)).get >= FRAMES_MAX:
        fold(db, log_id, idle=False)


def read(db: apsw.Connection, log_id: int, start: int, length: int) -> bytes:
    """The bytes of a log from ``start`` on, ``length`` of them or as many as there are; raises CodecError."""
    end = start + length
    pieces = []
    for at, data in _chunks_between(db, log_id, start, end):
        pieces.append(data[max(start - at, 0) : end - at])
    return b"".join(pieces)


def stream(db: apsw.Connection, log_id: int) -> Iterator[bytes]:
    """A log's bytes, a chunk at a time; raises CodecError. No statement stays open between two."""
    at = 0
    while True:
        found = db.execute(
            "select length, sha256, data from chunks where log_id = ? and start = ?", (log_id, at)
        ).fetchone()
        if found is None:
            return
        length, digest, frame = found
        yield codec.unpack_chunk(frame, length, digest)
        at += length


def chunk_marks(db: apsw.Connection, log_id: int) -> list[tuple[int, int, int, int, bytes]]:
    """(start, length, first_seq, records, sha256) of each chunk of a log, in order."""
    return list(
        db.execute(
            "select start, length, first_seq, records, sha256 from chunks where log_id = ? order by start", (log_id,)
        )
    )


def fold(db: apsw.Connection, log_id: int, *, idle: bool) -> None:
    """Join small chunks of a log into larger ones.

    While a log grows, only neighbours of like size are joined, so that a byte is rewritten a handful of
    times however many appends there are; an idle log is folded into chunks as large as they come.
    """
    marks = chunk_marks(db, log_id)
    while marks:
        run, marks = _last_run(marks, idle=idle)
        if len(run) > 1:
            _join(db, log_id, run)
        if not idle:
            break
    db.execute("update logs set frames = 0 where id = ?", (log_id,))


def _last_run(
    marks: list[tuple[int, int, int, int, bytes]], *, idle: bool
) -> tuple[list[tuple[int, int, int, int, bytes]], list[tuple[int, int, int, int, bytes]]]:
    """The chunks at the end that may become one, and those before them."""
    first = len(marks) - 1
    _, total, next_seq, numbered, _ = marks[first]
    while first > 0:
        _, length, seq, records, _ = marks[first - 1]
        follows = not records or not numbered or seq + records == next_seq
        if not follows or total + length > codec.CHUNK_BYTES or (not idle and length > 2 * total):
            break
        first, total, numbered = first - 1, total + length, numbered + records
        next_seq = seq if records else next_seq
    return marks[first:], marks[:first]


def _join(db: apsw.Connection, log_id: int, run: list[tuple[int, int, int, int, bytes]]) -> None:
    start, end = run[0][0], run[-1][0] + run[-1][1]
    first_seq = next((seq for _, _, seq, records, _ in run if records), run[0][2])
    data = read(db, log_id, start, end - start)
    db.execute("delete from chunks where log_id = ? and start >= ? and start < ?", (log_id, start, end))
    insert_chunks(db, log_id, [pack(start, data, first_seq, sum(records for _, _, _, records, _ in run))])


def _chunks_between(db: apsw.Connection, log_id: int, start: int, end: int) -> list[tuple[int, bytes]]:
    rows: list[tuple[Any, ...]] = db.execute(
        "select start, length, sha256, data from chunks where log_id = ?1 and start < ?3 and start >= "
        "coalesce((select max(start) from chunks where log_id = ?1 and start <= ?2), 0) order by start",
        (log_id, start, end),
    ).fetchall()
    return [(at, codec.unpack_chunk(frame, length, digest)) for at, length, digest, frame in rows]


def _log(row: tuple[Any, ...]) -> Log:
    values = dict(zip(Log.__struct_fields__, row, strict=True))
    values["state"] = codec.unpack_text(values["state"]) if values["state"] else None
    return Log(**values)
