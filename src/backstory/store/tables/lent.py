"""Chunks that are made of bytes of another log: those of a subagent of which only its parent's log reports.

Such a chunk names its lender, the parent's log, and holds what to copy from where in it (``codec.pack_copies``). A
lender that is removed leaves its chunks in ``lent``, by a trigger, whoever removes it; ``settle`` then gives the chunks
that need them bytes of their own. No lender's chunk has a lender. Functions take the connection, never commit.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from backstory.store import codec
from backstory.store.schema import fetch

if TYPE_CHECKING:
    import apsw

LENDER_IS_GONE = "they are made of log {}, which lacks them"
CHUNK_IS_GONE = "log {} has no chunk at {} any more"
T = TypeVar("T")
KEPT_BYTES_MAX = 4 * codec.CHUNK_BYTES
"""The most of unpacked lenders that is kept: what one chunk copies may lie in three of their chunks."""


class LenderChunks:
    """The chunks of lenders that were unpacked last: those of many logs are made of one."""

    def __init__(self) -> None:
        # The digest is part of the key: chunks that were joined since have another one at the same place.
        self._kept: dict[tuple[int, int, bytes], bytes] = {}
        self._bytes = 0

    def bytes_of(self, db: apsw.Connection, key: tuple[int, int, bytes], length: int, find_frame: str) -> bytes:
        """The bytes of a chunk by its log, its start and its digest; its frame is what ``find_frame`` selects."""
        data = self._kept.pop(key, None)
        if data is None:
            (frame,) = found_chunk(db, tuple[bytes], find_frame, *key[:2])
            data = codec.unpack_beginning(frame, length, codec.dictionaries_of(db))
            self._bytes += len(data)
        # Put back behind all others: the first key is that of the chunk that was used least recently.
        self._kept[key] = data
        while self._bytes > KEPT_BYTES_MAX and len(self._kept) > 1:
            self._bytes -= len(self._kept.pop(next(iter(self._kept))))
        return data


def found_chunk(db: apsw.Connection, row: type[T], find: str, log_id: int, start: int) -> T:
    """The row of a chunk; raises CodecError where another process joined it with others since it was found."""
    found = fetch(db, row, find, (log_id, start))
    if not found:
        raise codec.CodecError(CHUNK_IS_GONE.format(log_id, start))
    return found[0]


def unpacked(
    db: apsw.Connection,
    schema: str,
    length: int,
    digest: bytes,
    frame: bytes,
    lender: int | None,
    kept: LenderChunks | None = None,
) -> bytes:
    """The bytes of a chunk of this schema, whatever it is made of; raises CodecError.

    ``kept``: for who asks for many chunks of this schema.
    """
    find = codec.dictionaries_of(db)
    if lender is None:
        return codec.unpack_chunk(frame, length, digest, find)
    return codec.unpack_copies(frame, length, digest, find, partial(_bytes, db, schema, lender, kept))


def _bytes(
    db: apsw.Connection, schema: str, lender: int, kept: LenderChunks | None, start: int, stop: int
) -> memoryview:
    """The bytes of a lender from ``start`` to ``stop``; that they are what was lent, the borrower's checksum says."""
    for rows in (f"{schema}.chunks where lender is null and", f"{schema}.lent where"):
        found = fetch(
            db,
            tuple[int, int, bytes],
            f"select start, length, sha256 from {rows} log_id = ?1 and start < ?3 and start >= "
            f"coalesce((select max(start) from {rows} log_id = ?1 and start <= ?2), 0) order by start",
            (lender, start, stop),
        )
        if found:
            break
    at, pieces = start, list[memoryview]()
    for begin, length, digest in found:
        if begin <= at < begin + length:
            # Who asks once needs no more than what is copied.
            until, chunks = (min(length, stop - begin), LenderChunks()) if kept is None else (length, kept)
            frame = f"select data from {rows} log_id = ? and start = ?"
            data = chunks.bytes_of(db, (lender, begin, digest), until, frame)
            pieces.append(memoryview(data)[at - begin : stop - begin])
            at = begin + length
    if at < stop:
        raise codec.CodecError(LENDER_IS_GONE.format(lender))
    # Mostly all of it is in one chunk, of which nothing is copied here.
    return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))


def copy_whole(db: apsw.Connection, source: str, log_id: int, copied: int) -> None:
    """Give a copy of a log, in this store, the chunks that are made of another log, as bytes of their own."""
    rows = fetch(
        db,
        tuple[int, int, bytes, bytes, int],
        f"select start, length, sha256, data, lender from {source}.chunks where log_id = ? and lender is not null",
        (log_id,),
    )
    kept = LenderChunks()
    for start, length, digest, frame, lender in rows:
        data = unpacked(db, source, length, digest, frame, lender, kept)
        db.execute(
            "insert into chunks(log_id, start, length, sha256, data) values (?, ?, ?, ?, ?)",
            (copied, start, length, digest, codec.pack_chunk(data)),
        )


def settle(db: apsw.Connection) -> None:
    """Give the chunks whose lender is gone bytes of their own, and forget the lender's."""
    asked = "select id, data, lender from chunks where lender in (select log_id from lent)"
    find, kept = codec.dictionaries_of(db), LenderChunks()
    # By their places in the lender, so that each of its chunks is unpacked once for all that are made of it.
    todo = sorted((lender, codec.first_copy(frame, find), chunk_id) for chunk_id, frame, lender in db.execute(asked))
    for _, _, chunk_id in todo:
        # One in memory at a time.
        row = "select length, sha256, data, lender from chunks where id = ?"
        ((length, digest, frame, lender),) = fetch(db, tuple[int, bytes, bytes, int], row, (chunk_id,))
        try:
            data = unpacked(db, "main", length, digest, frame, lender, kept)
        except codec.CodecError:
            # What is damaged stays as it is, with all that may help to mend it.
            continue
        db.execute("update chunks set data = ?, lender = null where id = ?", (codec.pack_chunk(data), chunk_id))
    db.execute("delete from lent where log_id not in (select lender from chunks where lender is not null)")
