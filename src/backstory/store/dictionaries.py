"""The zstd dictionaries that a file's frames were packed with: the file has them itself. Never commits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import apsw

from backstory.store import codec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.store.codec import FindsDictionaries


def keep_shipped(db: apsw.Connection) -> None:
    """Put those dictionaries that come with the package into a file, as far as they are not in it."""
    db.executemany(
        "insert or ignore into dictionaries(id, sha256, data) values (?, ?, ?)",
        [(each.id, codec.SHIPPED_SHA256[each.id], each.dictionary) for each in codec.shipped().values()],
    )


def of(db: apsw.Connection) -> FindsDictionaries:
    """Where the dictionaries of this file are found."""
    return partial(_find, db)


def _find(db: apsw.Connection, dictionary_id: int) -> bytes:
    ours = codec.shipped().get(dictionary_id)
    try:
        kept = db.execute("select sha256 from dictionaries where id = ?", (dictionary_id,)).get
        if ours is not None and (kept is None or kept == codec.SHIPPED_SHA256[dictionary_id]):
            return ours.dictionary
        data = db.execute(
            "select data from dictionaries where id = ? and length(data) <= ?",
            (dictionary_id, codec.DICTIONARY_BYTES_MAX),
        ).get
    except apsw.CorruptError:
        # The damage is elsewhere than in what is to be unpacked: what is in no other place need not be lost for it.
        if ours is None:
            raise
        return ours.dictionary
    if not isinstance(data, bytes):
        raise codec.CodecError(f"dictionary {dictionary_id} is not in this file")
    return data


def problems(db: apsw.Connection) -> Iterator[str]:
    """What is wrong with a file's dictionaries."""
    rows = db.execute(
        "select id, sha256, iif(length(data) <= ?, data, null) from dictionaries", (codec.DICTIONARY_BYTES_MAX,)
    ).fetchall()
    for dictionary_id, sha256, data in rows:
        if not isinstance(data, bytes):
            yield f"dictionary {dictionary_id} is none"
        elif codec.text_digest(data) != sha256 or codec.dictionary_id(data) != dictionary_id:
            yield f"dictionary {dictionary_id}: its bytes are not what was stored"
    for missing in codec.shipped().keys() - {row[0] for row in rows}:
        yield f"dictionary {missing} is not in this file"
