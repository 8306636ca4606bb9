"""A small database read without a lock, so that a reader who is stopped keeps nobody from writing.

A transaction of a rollback journal makes the journal, changes the file, counts up the change counter in its header, and
removes the journal. What was read while there was no journal and the counter stood still is what one transaction left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from pathlib import Path

HEADER_BYTES = 100
READ_BYTES_MAX = 64 * 1024 * 1024
_FORMATS_AT, _COUNTER_AT = slice(18, 20), slice(24, 28)
_ROLLBACK_FORMATS = b"\x01\x01"
"""The header of a file whose journal is a rollback journal."""

Stamp = tuple[int, int, int, bytes]


def stamp(db: apsw.Connection, path: Path) -> Stamp | None:
    """What changes with each transaction; None where the file does not say. Takes no lock."""
    try:
        status = path.stat()
    except OSError:
        return None
    if status.st_size < HEADER_BYTES:
        return None
    # Through SQLite's own descriptor: closing another one would take the locks of this process away.
    _, header = db.read("main", 0, 0, HEADER_BYTES)
    if header[_FORMATS_AT] != _ROLLBACK_FORMATS:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, header[_COUNTER_AT]


def copy_of(db: apsw.Connection, path: Path) -> apsw.Connection | None:
    """A copy in memory of a connection's file; None while it is written, where only a lock gives an answer."""
    before = stamp(db, path)
    if before is None or before[1] > READ_BYTES_MAX or _has_journal(path):
        return None
    is_whole, content = db.read("main", 0, 0, before[1])
    if not is_whole or _has_journal(path) or stamp(db, path) != before:
        return None
    copy = apsw.Connection(":memory:")
    copy.deserialize("main", content)
    return copy


def _has_journal(path: Path) -> bool:
    return path.with_name(path.name + "-journal").exists()
