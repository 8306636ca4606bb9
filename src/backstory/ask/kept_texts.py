"""Marks of all that a store keeps as bytes: who has them knows later what came since, without reading it."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import apsw


class ChunkEnd(NamedTuple):
    """The end of a chunk in its log, and the hash of its bytes as they are now."""

    end: int
    sha256: bytes


class KeptSidecar(NamedTuple):
    """A file beside a log, with the session that it goes with."""

    id: int
    session_id: int
    name: str
    size: int
    sha256: bytes


class KeptText(NamedTuple):
    """A text that is in no log: a summary that this program had written, or the prompt of a run."""

    id: int
    session_id: int
    seq: int
    text: str


def store_id(db: apsw.Connection) -> str:
    """Return the id of the store, which a copy of its file has, too."""
    return str(db.execute("select value from meta where key = 'store_id'").get)


def chunk_ends(db: apsw.Connection) -> dict[int, list[ChunkEnd]]:
    """Return the chunks of each log in their order, by its id."""
    rows = db.execute("select log_id, start + length, sha256 from chunks order by log_id, start")
    return {log: [ChunkEnd(end, digest) for _, end, digest in of_log] for log, of_log in groupby(rows, itemgetter(0))}


def files(db: apsw.Connection) -> list[KeptSidecar]:
    """Return the files beside logs, in the order of these."""
    asked = "select c.id, l.session_id, c.name, c.size, c.sha256 from sidecars c join logs l on l.id = c.log_id"
    return [KeptSidecar(*row) for row in db.execute(f"{asked} order by c.log_id, c.name")]


def summaries(db: apsw.Connection) -> list[KeptText]:
    """Return the summaries that this program had written."""
    asked = "select id, session_id, after_seq, summary from compactions order by session_id, after_seq"
    return [KeptText(*row) for row in db.execute(asked)]


def run_prompts(db: apsw.Connection) -> list[KeptText]:
    """Return the prompts of runs: an agent's stream need not repeat them."""
    asked = (
        "select id, session_id, first_seq, prompt from turns where prompt != '' "
        "and uid in (select turn_uid from logs where turn_uid is not null) order by id"
    )
    return [KeptText(*row) for row in db.execute(asked)]
