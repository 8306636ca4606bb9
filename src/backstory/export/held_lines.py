"""Lines that wait, masked, until all secrets are known: one that is told late may stand in lines before it.

They wait in memory, and from some size on in a file without a name, which is gone with the process. A line is masked
again only if a secret that was met after it may be in it.
"""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.store.private import as_ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from backstory.derive.secrets import KnownSecrets, Redactor

HELD_BYTES = 32 * 1024 * 1024
"""Lines beyond this wait on the disk."""
PIECE_BYTES = 256 * 1024


class _Piece(Struct, frozen=True):
    """Some lines: their place in the file, and the number of secrets that were known before them."""

    start: int
    size: int
    known: int


def held(lines: Iterable[bytes], redactor: Redactor, again: Callable[[bytes], bytes]) -> Iterator[bytes]:
    """Yield lines once all of them are made. ``again`` masks one anew. Raises DiskFull, CannotWrite."""
    try:
        with tempfile.SpooledTemporaryFile(HELD_BYTES) as file:
            pieces = list(_put(lines, file.write, redactor))
            late = lru_cache(maxsize=4)(redactor.known_since)
            for piece in pieces:
                file.seek(piece.start)
                found = file.read(piece.size).splitlines(keepends=True)
                since = late(piece.known)
                if since is None or not _may_be_in(since, b"".join(found)):
                    yield from found
                else:
                    yield from (again(line) if _may_be_in(since, line) else line for line in found)
    except OSError as refused:
        raise as_ours(Path(tempfile.gettempdir()), refused) from refused


def _put(lines: Iterable[bytes], write: Callable[[bytes], int], redactor: Redactor) -> Iterator[_Piece]:
    waiting, size, start, known = list[bytes](), 0, 0, redactor.known
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size >= PIECE_BYTES:
            write(b"".join(waiting))
            yield _Piece(start, size, known)
            waiting, size, start, known = [], 0, start + size, redactor.known
    write(b"".join(waiting))
    yield _Piece(start, size, known)


def _may_be_in(known: KnownSecrets, line: bytes) -> bool:
    """Return True if one of the secrets may be in a line; one that JSON escapes may be written in many ways."""
    return known.has_escaped or any(known.places_in(line.decode()))
