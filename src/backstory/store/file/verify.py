"""Is the file whole? Every check names what is wrong and where. Reads only."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import apsw
from msgspec import Struct, field

from backstory.model import Unknown, event_from_json
from backstory.store import codec, schema
from backstory.store.file import connection, values
from backstory.store.intake import coverage
from backstory.store.schema import fetch
from backstory.store.tables import lent, logs, sidecars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PROBLEMS_MAX = 200
"""The most problems that are listed; a file with more is lost as a whole, not here and there."""
EVENTS_AT_ONCE = 5_000


class Verified(Struct, kw_only=True):
    """The things that were checked, how often, and the problems found."""

    checked: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    pruned: int = 0
    """The sessions that were pruned in part: what they lack is no damage."""

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.problems


def verify(db: apsw.Connection, progress: Callable[[int, int], None] = lambda done, total: None) -> Verified:
    """Check the file, its references, its index, every byte kept and every event; ``progress`` counts logs."""
    found = Verified(problems=list(_values(db)))
    if found.problems:
        _beside(db, found, progress)
    else:
        _check(db, found, progress)
    del found.problems[PROBLEMS_MAX:]
    return found


def _beside(db: apsw.Connection, found: Verified, progress: Callable[[int, int], None]) -> None:
    """Check the rest of a store that holds values of another kind, as far as they let it."""
    try:
        _check(db, found, progress)
    except (TypeError, ValueError, OverflowError, apsw.SQLError, apsw.TooBigError, codec.CodecError) as refused:
        found.problems.append(f"these values keep the rest from being checked: {refused}")
    for name in ("logs", "bytes", "sessions", "events"):
        found.checked.setdefault(name, 0)


def _check(db: apsw.Connection, found: Verified, progress: Callable[[int, int], None]) -> None:
    for name, check in (
        ("pages", pages),
        ("references", _references),
        ("index", _index),
        ("dictionaries", codec.dictionary_problems),
    ):
        found.problems += check(db)
        found.checked[name] = 1
    found.checked["logs"] = int(db.execute("select count(*) from logs").get)
    found.checked["bytes"] = 0
    unpacked = logs.UnpackedChunks(lent.LenderChunks())
    for n, log in enumerate(logs.stream_logs(db)):
        progress(n, found.checked["logs"])
        found.problems += _log(db, log, unpacked)
        found.checked["bytes"] += log.read_to
        if len(found.problems) > PROBLEMS_MAX:
            break
    found.checked["sessions"] = int(db.execute("select count(*) from sessions").get)
    found.checked["events"] = int(db.execute("select count(*) from events").get)
    found.pruned = int(db.execute("select count(*) from pruned where log_id = 0").get)
    found.problems += _events(db)


def _values(db: apsw.Connection) -> Iterator[str]:
    yield from values.of_no_session(db, is_bounded=False)
    for session_id, uid in fetch(db, tuple[int, str], "select id, uid from sessions order by id"):
        for problem in values.of_session(db, session_id, is_bounded=False):
            yield f"session {session_id} ({uid}): {problem}"


def damage(path: Path) -> list[str]:
    """Return the problems that SQLite finds in the pages of a file. Raises what ``connection.translated`` raises."""
    with connection.translated(path), closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as db:
        return pages(db)


def pages(db: apsw.Connection) -> list[str]:
    """Return the problems that SQLite finds in the file's pages."""
    said = [row[0] for row in db.execute("pragma integrity_check(20)")]
    return [] if said == ["ok"] else [f"file: {line}" for line in said]


def _references(db: apsw.Connection) -> Iterator[str]:
    try:
        lacking = db.execute("pragma foreign_key_check").fetchall()
    except apsw.SQLError as refused:
        # A table whose text is damaged may name columns that no other table has.
        lacking = []
        yield f"file: {refused}"
    for table, rowid, parent, _ in lacking:
        yield f"{table} row {rowid} points at a row of {parent} that is not there"
    for session, turn in db.execute(
        "select e.session_id, e.turn_id from events e left join turns t on t.id = e.turn_id "
        "and t.session_id = e.session_id where e.turn_id is not null and t.id is null group by 1, 2 limit 20"
    ).fetchall():
        yield f"events of session {session} name turn {turn}, which is not in it"
    for session, log in db.execute(
        "select e.session_id, e.log_id from events e left join logs l on l.id = e.log_id "
        "and l.session_id = e.session_id where e.log_id is not null and l.id is null group by 1, 2 limit 20"
    ).fetchall():
        yield f"events of session {session} name log {log}, which is not its own"
    for session, log, seq in db.execute(
        "select e.session_id, e.log_id, e.seq from events e where e.log_id is not null and not exists "
        "(select 1 from numbers n where n.log_id = e.log_id and e.position >= n.start and e.position < n.stop "
        "and e.seq >= n.first_seq and e.seq < n.first_seq + n.records) limit 20"
    ).fetchall():
        yield f"session {session} @{seq}: log {log} has no such number at its place"
    for session, numbered, highest in db.execute(
        "select s.id, s.next_seq, max(e.seq) from sessions s join events e on e.session_id = s.id "
        "group by s.id having max(e.seq) >= s.next_seq and s.next_seq > 1 limit 20"
    ).fetchall():
        yield f"session {session} has record {highest} but would number the next one {numbered}"


def _index(db: apsw.Connection) -> Iterator[str]:
    # The check is spelled as an insert, though it writes nothing; a file that cannot be written is spared it.
    if not db.readonly("main"):
        db.execute("pragma query_only = 0")
        try:
            db.execute("insert into search_index(search_index) values ('integrity-check')")
        except apsw.CorruptError as refused:
            yield f"search index: {refused}; it can be rebuilt from the bytes"
        finally:
            db.execute("pragma query_only = 1")
    rule = coverage.rule_of(db)
    if not rule.enabled or coverage.is_outdated(db):
        # Rows may be missing, until a reindex, or for as long as there is no index.
        return
    left_out = coverage.uncovered_ids(db)
    rows = fetch(
        db,
        tuple[int, int],
        f"select e.session_id, count(*) from events e where e.kind in {schema.TEXTS} and e.char_len > 0 "
        "and not exists (select 1 from search_index f where f.rowid = e.id) group by 1",
    )
    if missing := sum(count for session_id, count in rows if session_id not in left_out):
        yield f"search index: {missing} prompts and answers are not in it"


def _log(db: apsw.Connection, log: logs.Log, unpacked: logs.UnpackedChunks) -> Iterator[str]:
    at = 0
    for start, length, _ in logs.chunk_marks(db, log.id):
        if start != at:
            yield f"log {log.id} ({log.path}): bytes {at} to {start} are missing or kept twice"
        at = start + length
        try:
            logs.read(db, log.id, start, length, unpacked)
        except codec.CodecError as refused:
            yield f"log {log.id} ({log.path}): bytes {start} to {at}: {refused}"
    behind = 0
    for run in logs.seq_ranges(db, log.id):
        if run.start < behind or run.stop <= run.start or run.stop > log.read_to or run.records < 1:
            yield f"log {log.id} ({log.path}): the numbers of bytes {run.start} to {run.stop} cannot be right"
        behind = run.stop
    if at != log.read_to:
        yield f"log {log.id} ({log.path}): {at} bytes are kept and {log.read_to} were read"
    for problem in sidecars.check(db, log.id):
        yield f"log {log.id} ({log.path}): beside it {problem}"


class _EventRow(NamedTuple):
    """An event, and how far the log of its record was read. ``position`` and ``length`` are those in the log."""

    id: int
    session_id: int
    seq: int
    kind: str
    data: bytes | str
    position: int
    length: int
    read_to: int | None
    log_id: int | None


def _events(db: apsw.Connection) -> Iterator[str]:
    codecs: dict[int, codec.EventCodec] = {}
    last = 0
    while True:
        rows = fetch(
            db,
            _EventRow,
            "select e.id, e.session_id, e.seq, e.kind, e.data, e.position, e.length, l.read_to, e.log_id from events e "
            "left join logs l on l.id = e.log_id where e.id > ? order by e.id limit ?",
            (last, EVENTS_AT_ONCE),
        )
        if not rows:
            return
        for row in rows:
            where = f"event {row.id} (session {row.session_id} @{row.seq})"
            try:
                event = event_from_json(codec.unpack_event(db, codecs, row.data))
            except (codec.CodecError, ValueError) as refused:
                yield f"{where}: {refused}"
                continue
            if event.kind != row.kind and not isinstance(event, Unknown):
                yield f"{where}: filed as {row.kind}, says {event.kind}"
            if row.log_id is not None and (row.read_to is None or row.position + row.length > row.read_to):
                yield f"{where}: its record is not in log {row.log_id}"
        last = rows[-1].id
