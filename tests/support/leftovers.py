"""Looks for words in a store's files as somebody would who has only the files: in every byte, frame and index term."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import zstandard

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FRAME = b"\x28\xb5\x2f\xfd"
FRAME_BYTES_MAX = 1 << 20


def leftovers(folder: Path, word: str) -> set[str]:
    """Where below a folder a word is: ``FILE: how``."""
    return {
        f"{path.name}: {how}" for path in folder.rglob("*") if path.is_file() for how in _in_file(path, word.encode())
    }


def _in_file(path: Path, word: bytes) -> set[str]:
    data = path.read_bytes()
    found = {"as it is"} if word in data else set[str]()
    # The index cuts off what a term has in common with the one before it.
    if word[2:] in data:
        found.add("an index term")
    found |= {"in a frame" for text in unpacked_frames(data, _dictionaries(path, data)) if word in text}
    if data.startswith(b"SQLite format 3\0") and word.decode() in _terms(path):
        found.add("in the index's vocabulary")
    return found


def _dictionaries(path: Path, data: bytes) -> list[zstandard.ZstdCompressionDict | None]:
    if not data.startswith(b"SQLite format 3\0"):
        return [None]
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        if not db.execute("select count(*) from sqlite_schema where name = 'dictionaries'").get:
            return [None]
        rows = db.execute("select data from dictionaries").fetchall()
        return [None, *(zstandard.ZstdCompressionDict(kept) for (kept,) in rows if isinstance(kept, bytes))]
    finally:
        db.close()


def unpacked_frames(data: bytes, dictionaries: Sequence[zstandard.ZstdCompressionDict | None] = (None,)) -> list[bytes]:
    """What can be unpacked of every frame that begins anywhere, torn ones included."""
    found = []
    at = data.find(FRAME)
    while at >= 0:
        for each in dictionaries:
            reader = zstandard.ZstdDecompressor(dict_data=each).decompressobj()
            text = b""
            try:
                for start in range(at, min(len(data), at + FRAME_BYTES_MAX), 4096):
                    text += reader.decompress(data[start : start + 4096])
                    if reader.eof:
                        break
            except zstandard.ZstdError:
                pass
            found.append(text)
        at = data.find(FRAME, at + 4)
    return found


def _terms(path: Path) -> set[str]:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        if not db.execute("select count(*) from sqlite_schema where name = 'search_index'").get:
            return set()
        db.execute("create virtual table temp.terms using fts5vocab(main, search_index, row)")
        return {str(term) for (term,) in db.execute("select term from temp.terms")}
    finally:
        db.close()
