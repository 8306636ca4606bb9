"""Sidecars: small files that an agent keeps beside a log and rewrites whole. Functions take the connection, never
commit.

The store keeps each as last read, also if its file is gone. Their facts about the session come from the reader; this
module only decides which value has priority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from backstory.derive.checkpoints import SECTIONS, Texts, texts_of
from backstory.lazy import lazy_module
from backstory.model import SessionFacts
from backstory.store import codec, schema
from backstory.store.intake import coverage, derived_tables
from backstory.store.schema import fetch
from backstory.store.tables import turns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import apsw

    from backstory.store.tables import event_rows, pruned, side_texts
    from backstory.store.tables.side_texts import SideText
else:
    event_rows = lazy_module("backstory.store.tables.event_rows")
    pruned = lazy_module("backstory.store.tables.pruned")
    side_texts = lazy_module("backstory.store.tables.side_texts")

TOO_LARGE = "too_large"
"""The reason why a sidecar was not stored; see log_places."""

Mark = tuple[int, int]
"""A sidecar's size in bytes and its mtime in ns, which show whether it changed."""


class Sidecar(Struct, frozen=True, kw_only=True):
    """A sidecar to store. ``name``: its path below the log's folder, with slashes."""

    name: str
    size: int
    mtime_ns: int
    digest: bytes
    frame: bytes


class StoredSidecar(Struct, frozen=True, kw_only=True):
    """A stored sidecar."""

    id: int
    name: str
    size: int
    mtime_ns: int
    digest: bytes


class SidecarFacts(Struct, frozen=True, kw_only=True):
    """The facts of a log's sidecars together."""

    session: SessionFacts = field(default_factory=SessionFacts)
    """Its title replaces the log's; its folder and branch only fill gaps."""
    project: str | None = None
    root: str | None = None
    checkpoints: dict[int, str] = field(default_factory=dict)
    """The texts of checkpoints, by number."""
    checkpoint_titles: dict[int, str] = field(default_factory=dict)
    outcome: str | None = None
    """The outcome of the session's last turn; it fills a gap."""


class SidecarBatch(Struct, frozen=True, kw_only=True):
    """The new sidecars of one log; ``facts`` if they may have new ones."""

    log_id: int
    sidecars: list[Sidecar] = field(default_factory=list)
    texts: list[SideText] = field(default_factory=list)
    """Those of the log whose text is to be found; the others that changed are not."""
    facts: SidecarFacts | None = None


def pack(name: str, mtime_ns: int, data: bytes) -> Sidecar:
    """Pack a sidecar for the store."""
    return Sidecar(
        name=name, size=len(data), mtime_ns=mtime_ns, digest=codec.chunk_digest(data), frame=codec.pack_chunk(data)
    )


def marks(db: apsw.Connection, log_ids: Collection[int] | None = None) -> dict[tuple[int, str], Mark]:
    """Return the mark of every sidecar of these logs (None: of all), by log and name, as last read."""
    asked = "select log_id, name, size, mtime_ns from sidecars"
    if log_ids is None:
        rows = db.execute(asked)
    else:
        rows = db.execute(f"{asked} where log_id in (select value from json_each(?))", (schema.json_list(log_ids),))
    return {(log_id, name): (size, mtime_ns) for log_id, name, size, mtime_ns in rows}


def of_log(db: apsw.Connection, log_id: int) -> list[StoredSidecar]:
    """Return the sidecars of a log, ordered by name."""
    asked = "select id, name, size, mtime_ns, sha256 from sidecars where log_id = ? order by name"
    return fetch(db, StoredSidecar, asked, (log_id,))


def around(db: apsw.Connection, log_id: int) -> list[tuple[int, StoredSidecar]]:
    """The sidecars of a log, and those beside other logs that are results of its session, each with its log's id."""
    rows: list[Any] = db.execute(
        "select log_id, id, name, size, mtime_ns, sha256 from sidecars where log_id = ?1 union all "
        "select c.log_id, c.id, c.name, c.size, c.mtime_ns, c.sha256 from side_texts t "
        "join sidecars c on c.id = t.sidecar_id and c.log_id <> ?1 "
        "where t.session_id = (select session_id from logs where id = ?1) and t.event_id is not null order by 1, 3",
        (log_id,),
    ).fetchall()
    return [
        (of, StoredSidecar(id=id_, name=name, size=size, mtime_ns=mtime, digest=digest))
        for of, id_, name, size, mtime, digest in rows
    ]


def read(db: apsw.Connection, sidecar_id: int) -> bytes:
    """Return a sidecar's verified bytes; empty if it is not here. Raises CodecError."""
    row = db.execute("select size, sha256, data from sidecars where id = ?", (sidecar_id,)).fetchone()
    return codec.unpack_chunk(row[2], row[0], row[1], codec.dictionaries_of(db)) if row else b""


def ending_in(db: apsw.Connection, log_id: int, ending: str) -> int | None:
    """Return the id of a sidecar with this end of its name: of this log, or of one of its parent session."""
    found: int | None = db.execute(
        "select c.id from logs own join sessions s on s.id = own.session_id "
        "join logs l on l.session_id in (s.id, s.parent_id) join sidecars c on c.log_id = l.id "
        # A subagent's files lie with its parent's log.
        "where own.id = ?1 and substr(c.name, -length(?2)) = ?2 order by l.id = ?1 desc, c.id desc limit 1",
        (log_id, ending),
    ).get
    return found


def write_all(db: apsw.Connection, batches: Sequence[SidecarBatch]) -> None:
    """Store or replace sidecars of several logs and their facts."""
    for batch in batches:
        write(db, batch)


def write(db: apsw.Connection, batch: SidecarBatch) -> None:
    """Store or replace sidecars of a log and their facts; ignored if the log is gone."""
    found = db.execute("select session_id, path from logs where id = ?", (batch.log_id,)).fetchone()
    if found is None:
        return
    session_id, path = found
    has_pruned = bool(batch.sidecars) and bool(db.execute(schema.HAS_PRUNED).get)
    for each in batch.sidecars:
        if has_pruned and pruned.is_file_pruned(db, batch.log_id, each.name):
            each = pruned_file(each)
        # A rewritten log takes over its sidecars.
        other = "name = ? and log_id in (select id from logs where session_id = ? and path = ? and id <> ?)"
        values = (each.name, session_id, path, batch.log_id)
        event_rows.delete_files(db, other, values)
        db.execute(f"delete from sidecars where {other}", values)
        db.execute(
            "insert into sidecars(log_id, name, size, mtime_ns, sha256, data) values (?, ?, ?, ?, ?, ?) "
            "on conflict(log_id, name) do update set size = excluded.size, mtime_ns = excluded.mtime_ns, "
            "sha256 = excluded.sha256, data = excluded.data",
            (batch.log_id, each.name, each.size, each.mtime_ns, each.digest, each.frame),
        )
    if batch.facts is not None:
        _apply_facts(db, session_id, batch.facts)
    # Behind the facts: these say of which repository the session is, and so whether it is indexed.
    side_texts.put(db, batch.log_id, batch.texts)


def pruned_file(each: Sidecar) -> Sidecar:
    """A file as it is kept once it was pruned, whatever it holds by now."""
    return pack(each.name, each.mtime_ns, pruned.blank_file(each.size))


def move(db: apsw.Connection, log_id: int, to_log: int) -> None:
    """Move a log's sidecars to another log of its session, except those that it has itself."""
    db.execute("update or ignore sidecars set log_id = ? where log_id = ?", (to_log, log_id))


def check(db: apsw.Connection, log_id: int) -> Iterator[str]:
    """Return the problems of a log's sidecars."""
    for each in of_log(db, log_id):
        try:
            read(db, each.id)
        except codec.CodecError as refused:
            yield f"{each.name}: {refused}"


def _apply_facts(db: apsw.Connection, session_id: int, facts: SidecarFacts) -> None:
    said, was_covered = facts.session, coverage.is_covered(db, session_id)
    db.execute(
        "update sessions set title = coalesce(?, title), cwd = coalesce(cwd, ?), branch = coalesce(branch, ?), "
        "repository = coalesce(repository, ?), project = coalesce(project, ?), root = coalesce(root, ?) where id = ?",
        (said.title, said.cwd, said.branch, said.repository, facts.project, facts.root, session_id),
    )
    derived_tables.note_values(db, session_id, said.values)
    if facts.outcome is not None:
        db.execute(
            "update turns set outcome = ? where outcome is null and id = "
            "(select id from turns where session_id = ? order by first_seq desc, id desc limit 1)",
            (facts.outcome, session_id),
        )
        turns.sum_up(db, session_id)
    coverage.settle(db, session_id, was_covered=was_covered)
    if (facts.checkpoints or facts.checkpoint_titles) and coverage.is_covered(db, session_id):
        _merge_checkpoints(db, session_id, facts)


def _merge_checkpoints(db: apsw.Connection, session_id: int, facts: SidecarFacts) -> None:
    """Merge the checkpoints of the log with those of files: equal texts are the same checkpoint.

    Such a checkpoint gets the number and the title of its file. Others keep their number if it is free, and else get
    the next one.
    """
    event_rows.delete_sections(db, "session_id = ?", (session_id,))
    db.execute("delete from checkpoints where session_id = ? and seq is null", (session_id,))
    columns = ", ".join(SECTIONS)
    rows: list[tuple[Any, ...]] = db.execute(
        f"select checkpoint_number, {columns} from checkpoints where session_id = ? order by seq", (session_id,)
    ).fetchall()
    in_log: dict[int, Texts] = {number: tuple(texts) for number, *texts in rows}
    in_files = {number: texts_of(text) for number, text in sorted(facts.checkpoints.items())}
    # The agent numbers its files; the log has the same summaries without numbers.
    same = _pairs(in_files, in_log)
    others = [number for number in in_log if number not in same.values()]
    taken = set(same)
    numbers = {known: number for number, known in same.items()} | {each: _free(each, taken) for each in others}
    # Two rows must never have the same number, not even for a moment.
    db.execute("update checkpoints set checkpoint_number = -checkpoint_number where session_id = ?", (session_id,))
    db.executemany(
        "update checkpoints set checkpoint_number = ?, title = coalesce(?, title) "
        "where session_id = ? and checkpoint_number = ?",
        [
            (number, facts.checkpoint_titles.get(number) if number in same else None, session_id, -known)
            for known, number in numbers.items()
        ],
    )
    db.executemany(
        f"insert into checkpoints(session_id, checkpoint_number, title, {columns}) "
        f"values (?, ?, ?, {', '.join('?' * len(SECTIONS))})",
        [
            (session_id, _free(number, taken), facts.checkpoint_titles.get(number), *texts)
            for number, texts in in_files.items()
            if number not in same
        ],
    )
    side_texts.index_sections(db, session_id)


def _pairs(in_files: dict[int, Texts], in_log: dict[int, Texts]) -> dict[int, int]:
    """Map each file's number to that of the log's checkpoint with the same text, if there is one."""
    unmatched = list(in_log)
    same: dict[int, int] = {}
    for number, texts in in_files.items():
        # Each is matched once: an agent may write the same words twice.
        known = next((each for each in unmatched if in_log[each] == texts), None)
        if known is not None:
            same[number] = known
            unmatched.remove(known)
    return same


def _free(number: int, taken: set[int]) -> int:
    """Reserve this number, or the next one if it is taken."""
    free = number if number not in taken else max(taken) + 1
    taken.add(free)
    return free
