"""Writes sessions into a new file, in the schema that AZUREAL has had since 2026-03-16.

All that is asked for is first put into temporary tables, which SQLite keeps in a file of its own, then a session after
the other is chosen from there: its events up to the record that its next prompt follows, along the branch that leads
there. So little is in memory, however many turns there are. The session that was active last is written last, because
that is how AZUREAL knows. A session that was read from such a file is written from its rows as they were.
"""

from __future__ import annotations

import base64
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory import ids
from backstory.agents.azureal import cells, rows
from backstory.agents.azureal.places import NAME, VERSION
from backstory.agents.azureal.reader import Line, record, tagged
from backstory.agents.contract import StoreContent
from backstory.agents.jsonl import LineReader
from backstory.bounds import INTEGER_MAX
from backstory.model import Complete, Outcome, UserMessage, event_from_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from backstory.agents.contract import ExportSource, KeptLog

SCHEMA = f"""
CREATE TABLE IF NOT EXISTS sessions (
    id               INTEGER PRIMARY KEY,
    name             TEXT NOT NULL DEFAULT '',
    worktree         TEXT NOT NULL DEFAULT '',
    created          TEXT NOT NULL DEFAULT (datetime('now')),
    completed        INTEGER,
    duration_ms      INTEGER,
    cost_usd         REAL,
    last_claude_uuid TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS events (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id INTEGER NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    seq        INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    data       TEXT NOT NULL,
    char_len   INTEGER NOT NULL DEFAULT 0,
    UNIQUE(session_id, seq)
);
CREATE INDEX IF NOT EXISTS idx_events_session ON events(session_id, seq);
CREATE TABLE IF NOT EXISTS compactions (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id INTEGER NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    after_seq  INTEGER NOT NULL,
    summary    TEXT NOT NULL,
    created    TEXT NOT NULL DEFAULT (datetime('now'))
);
CREATE INDEX IF NOT EXISTS idx_compactions_session ON compactions(session_id);
CREATE TABLE IF NOT EXISTS meta ( key TEXT PRIMARY KEY, value TEXT NOT NULL );
INSERT OR IGNORE INTO meta(key, value) VALUES ('schema_version', '{VERSION}');
"""
_STAGES = """
create temp table session(
  number integer primary key, source integer, id integer, name text, branch text, created text, updated text,
  leaf_uid text, leaf_seq integer, is_kept integer not null default 0, unique (source, id));
create temp table turn(
  number integer, id integer, uid text, parent_uid text, parent_seq integer, first_seq integer, last_seq integer,
  prompt text, outcome text, duration_ms integer, cost_usd real, has_times integer, has_tokens integer, removed integer,
  primary key (number, id)) without rowid;
create index temp.turn_uid on turn(number, uid);
create index temp.turn_parent on turn(number, parent_uid);
create temp table event(
  number integer, turn_id integer, seq integer, part integer, place integer, kind text, data blob, char_len integer,
  loses text);
create index temp.event_number on event(number, seq, part, place);
create index temp.event_turn on event(number, turn_id);
create temp table summary(number integer, after_seq integer, summary text, created text);
create temp table path(turn_id integer primary key, upto integer, last_seq integer);
create temp table chosen(place integer primary key, seq integer, kind text, data blob, char_len integer, loses text);
"""
_PATH = """
with recursive up(uid, upto) as (
  select ?2, ?3
  union
  select t.parent_uid, t.parent_seq from up join turn t indexed by turn_uid on t.number = ?1 and t.uid = up.uid
    where t.parent_uid is not null
)
insert or ignore into path
select t.id, iif(up.upto between t.first_seq and t.last_seq, up.upto, t.last_seq), t.last_seq
from up join turn t indexed by turn_uid on t.number = ?1 and t.uid = up.uid
"""
_WHOLE = """
update path set upto = last_seq where upto < last_seq and not exists (
  select 1 from event e where e.number = ? and e.turn_id = path.turn_id and e.seq > path.upto and e.kind is not null)
"""
"""A turn that is left where it says nothing more is whole."""
_CHOSEN = """
insert into chosen(seq, kind, data, char_len, loses)
select e.seq, e.kind, e.data, e.char_len, e.loses from event e left join path p on p.turn_id = e.turn_id
where e.number = ? and (e.turn_id is null or e.seq <= p.upto) order by e.seq, e.part, e.place
"""
_LAST_PART = 1 << 40
"""Behind all that a record says."""
_BRANCHES_LEFT = """
select count(*) from turn t where t.number = ?1 and t.removed is null
  and t.id not in (select turn_id from path)
  and not exists (select 1 from turn c where c.number = ?1 and c.parent_uid = t.uid and c.removed is null)
"""
_RESTS_LEFT = """
select count(*) from path p join turn t on t.number = ?1 and t.id = p.turn_id where p.upto < p.last_seq
  and not exists (select 1 from turn c where c.number = ?1 and c.parent_uid = t.uid and c.parent_seq > p.upto)
"""
"""A branch may also begin in a turn, behind the record that it is left at, with no turn after it."""


def write(path: Path, sources: Iterable[ExportSource], *, exact: bool) -> StoreContent:
    """Fill an empty file. ``exact``: only with what was read from such files."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        # Nobody knows the file before it is whole, so nothing in it is ever taken back.
        db.execute("pragma journal_mode = off")
        db.execute("pragma synchronous = off")
        db.executescript(SCHEMA + _STAGES)
        db.execute("begin")
        file = _File(db)
        for number, source in enumerate(sources):
            file.stage(number, source, exact=exact)
        file.write()
        db.execute("commit")
        db.execute("pragma journal_mode = delete")
    return StoreContent(rows=file.counts, reduced={name: count for name, count in file.reduced.items() if count})


class _Session(Struct, frozen=True):
    """A session that is written. All but its first fields are columns."""

    number: int
    """The number of the session in the file."""
    staged: int
    """Its number in the temporary tables."""
    source: int
    id: int
    name: str
    branch: str
    created: str
    leaf_uid: str | None
    leaf_seq: int | None
    is_kept: int


class _Ending(Struct, frozen=True):
    """The content of a badge. Its fields are columns."""

    completed: int | None = None
    duration_ms: int | None = None
    cost_usd: float | None = None


class _File:
    """A file on its way."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db, self._encoder = db, cells.Encoder()
        self.counts: dict[str, int] = {}
        self.reduced: Counter[str] = Counter()
        self._kept: dict[tuple[int, int], KeptLog] = {}

    # what there is -----------------------------------------------------------------------------------------------

    def stage(self, number: int, source: ExportSource, *, exact: bool) -> None:
        """Put what a source has into the temporary tables."""
        # Of a file that was written anew the last reading counts.
        self._kept |= {(number, log.session_id): log for log in source.logs() if log.agent == NAME}
        numbers = self._sessions(number, source, exact=exact)
        if not numbers:
            return
        self._turns(numbers, source)
        self._events(numbers, source)
        for of, after_seq, summary, created, undone in source.rows(
            "compactions", ("session_id", "after_seq", "summary", "created", "undone")
        ):
            if of in numbers and not undone:
                self._insert("summary", numbers[of], after_seq, summary, created)

    def _sessions(self, number: int, source: ExportSource, *, exact: bool) -> dict[int, int]:
        """Note the sessions; returns the numbers of those that are written from their events, by their ids."""
        made: dict[int, int] = {}
        columns = ("id", "name", "number", "title", "branch", "created_at", "updated_at", "leaf_uid", "leaf_seq")
        for of, name, own_number, title, branch, *rest in source.rows("sessions", columns):
            is_kept = (number, of) in self._kept
            if exact and not is_kept:
                continue
            given = name if name and name != f"S{own_number}" else title
            self._db.execute(
                "insert into session(source, id, name, branch, created, updated, leaf_uid, leaf_seq, is_kept) "
                "values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (number, of, given or "", branch or "", *rest, is_kept),
            )
            if not is_kept:
                (made[of],) = self._db.execute("select last_insert_rowid()").fetchone()
        return made

    def _turns(self, numbers: dict[int, int], source: ExportSource) -> None:
        columns = (
            "session_id", "id", "uid", "parent_uid", "parent_seq", "first_seq", "last_seq", "prompt", "outcome",
            "duration_ms", "cost_usd", "started is not null", "coalesce(input_tokens, output_tokens) is not null",
            "removed",
        )  # fmt: skip
        for of, *turn in source.rows("main.turns", columns):
            if of in numbers:
                self._insert("turn", numbers[of], *turn)

    def _events(self, numbers: dict[int, int], source: ExportSource) -> None:
        columns = ("session_id", "turn_id", "seq", "part", "char_len", "event_json(data)")
        for of, turn_id, seq, part, chars, json in source.rows("main.events", columns):
            if of not in numbers:
                continue
            event = event_from_json(json.encode())
            # How a turn ended stands with the turn.
            made = list(cells.told(event)) if event.kind != Complete.kind else []
            loses = cells.loses(event, chars)
            for place, each in enumerate(made):
                self._stage_event(numbers[of], turn_id, seq, part, each, place, loses if place == 0 else None)
            if not made and loses is not None:
                self._insert("event", numbers[of], turn_id, seq, part, 0, None, None, 0, loses)

    def _stage_event(
        self, number: int, turn_id: int | None, seq: int, part: int, each: cells.Told, place: int, loses: str | None
    ) -> None:
        data = self._encoder.packed(each.json)
        self._insert("event", number, turn_id, seq, part, place, each.kind, data, each.char_len, loses)

    def _insert(self, table: str, *values: Any) -> None:
        self._db.execute(f"insert into {table} values ({', '.join('?' * len(values))})", values)

    # what is written --------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Write the sessions, that which was active last at the end; their numbers are in the order they were made."""
        columns = ", ".join(_Session.__struct_fields__[2:])
        found = self._db.execute(
            f"select row_number() over (order by created, number), number, {columns} from session "
            "order by updated, number"
        )
        for session in [_Session(*row) for row in found]:
            if session.is_kept:
                self._write_kept(session)
            else:
                self._write_made(session)
        self.counts = {
            table: self._db.execute(f"select count(*) from main.{table}").fetchone()[0]
            for table in ("sessions", "events", "compactions")
        }

    def _write_made(self, session: _Session) -> None:
        """Write a session from its events."""
        staged = session.staged
        self._db.execute("delete from path")
        self._db.execute("delete from chosen")
        self._db.execute(_PATH, (staged, *self._leaf(session)))
        self._db.execute(_WHOLE, (staged,))
        self._add_prompts(staged)
        ending = self._add_endings(staged)
        self._db.execute(_CHOSEN, (staged,))
        created = _when(session.created)
        self._session(session.number, session.name, session.branch, created, ending)
        self._db.execute(
            "insert into main.events(session_id, seq, kind, data, char_len) "
            "select ?, row_number() over (order by place), kind, data, char_len from chosen where kind is not null "
            "order by place",
            (session.number,),
        )
        self._write_summaries(session.number, staged)
        self._count(staged)

    def _leaf(self, session: _Session) -> tuple[str | None, int | None]:
        """The turn and the record that the next prompt follows."""
        sql = "select uid from turn where number = ? and removed is null"
        here = self._db.execute(f"{sql} and uid = ?", (session.staged, session.leaf_uid)).fetchone()
        if here is not None:
            return here[0], session.leaf_seq
        last = self._db.execute(f"{sql} order by first_seq desc, id desc limit 1", (session.staged,)).fetchone()
        return (last[0] if last is not None else None), None

    def _add_prompts(self, staged: int) -> None:
        """Stage the prompts of turns that have no event of theirs."""
        missing = self._db.execute(
            "select t.id, t.first_seq, t.prompt from turn t join path p on p.turn_id = t.id where t.number = ?1 "
            "and t.prompt <> '' and not exists (select 1 from event where number = ?1 and turn_id = t.id "
            f"and kind = '{UserMessage.kind}')",
            (staged,),
        )
        for turn_id, seq, prompt in missing.fetchall():
            for each in cells.told(UserMessage(content=prompt)):
                self._stage_event(staged, turn_id, seq, -1, each, 0, None)

    def _add_endings(self, staged: int) -> _Ending:
        """Stage how turns ended; returns how the last one did."""
        last = _Ending()
        found = self._db.execute(
            "select t.id, t.last_seq, t.outcome, t.duration_ms, t.cost_usd from turn t join path p on p.turn_id = t.id "
            "where t.number = ? and p.upto >= t.last_seq order by t.first_seq, t.id",
            (staged,),
        )
        for turn_id, seq, outcome, duration_ms, cost_usd in found:
            last = _Ending()
            if outcome in (Outcome.COMPLETED, Outcome.FAILED):
                success = outcome == Outcome.COMPLETED
                last = _Ending(int(success), duration_ms or 0, float(cost_usd or 0))
                each = cells.complete(success, duration_ms, cost_usd)
                self._stage_event(staged, turn_id, seq, _LAST_PART, each, 0, None)
        return last

    def _write_summaries(self, number: int, staged: int) -> None:
        """The summaries of the branch, each behind the last event that it covers."""
        for after_seq, summary, created in self._db.execute(
            "select after_seq, summary, created from summary where number = ?1 and exists (select 1 from path p "
            "join turn t on t.number = ?1 and t.id = p.turn_id where after_seq between t.first_seq and p.upto)",
            (staged,),
        ).fetchall():
            sql = "select count(*) from chosen where kind is not null and seq <= ?"
            (after,) = self._db.execute(sql, (after_seq,)).fetchone()
            self._compaction(number, after, summary, _when(created))

    def _count(self, staged: int) -> None:
        """Add up what is not in the file."""
        lost = "select loses, count(*) from chosen where loses is not null group by loses"
        self.reduced.update(dict(self._db.execute(lost).fetchall()))
        for left_out in (_BRANCHES_LEFT, _RESTS_LEFT):
            self.reduced["branches"] += self._db.execute(left_out, (staged,)).fetchone()[0]
        times, tokens = self._db.execute(
            "select sum(has_times), sum(has_tokens) from turn t join path p on p.turn_id = t.id where t.number = ?",
            (staged,),
        ).fetchone()
        self.reduced["turn_times"] += times or 0
        self.reduced["turn_tokens"] += tokens or 0

    def _session(self, number: int, name: str, worktree: str, created: str | None, ending: _Ending) -> None:
        self._db.execute(
            "insert into main.sessions(id, name, worktree, created, completed, duration_ms, cost_usd) "
            "values (?, ?, ?, coalesce(?, '1970-01-01 00:00:00'), ?, ?, ?)",
            (number, name, worktree, created, *msgspec.structs.astuple(ending)),
        )

    def _compaction(self, number: int, after_seq: int, summary: str, created: str | None) -> None:
        if after_seq:
            self._db.execute(
                "insert into main.compactions(session_id, after_seq, summary, created) "
                "values (?, ?, ?, coalesce(?, '1970-01-01 00:00:00'))",
                (number, after_seq, summary, created),
            )

    # rows as they were ------------------------------------------------------------------------------------------

    def _write_kept(self, session: _Session) -> None:
        """Write a session that was read from such a file."""
        known = {rows.WORKTREE: session.branch}
        ending, created = _Ending(), _when(session.created)
        self._session(session.number, session.name, "", created, ending)
        for line in _lines(self._kept[session.source, session.id]):
            row = line.row if isinstance(line.row, dict) else {}
            match line.table:
                case rows.SESSION:
                    created = _text(row.get("created")) or created
                case rows.WORKTREE:
                    known[rows.WORKTREE] = _text(row.get("value")) or ""
                case rows.COMPACTIONS:
                    after, at = _number(row.get("after_seq")), _text(row.get("created"))
                    self._compaction(session.number, int(after), _text(row.get("summary")) or "", at)
                case rows.EVENTS:
                    self._kept_event(session.number, line, row)
                    ending = _after(ending, line, str(row.get("kind")))
        self._db.execute(
            "update main.sessions set worktree = ?, created = ?, completed = ?, duration_ms = ?, cost_usd = ? "
            "where id = ?",
            (known[rows.WORKTREE], created, *msgspec.structs.astuple(ending), session.number),
        )

    def _kept_event(self, number: int, line: Line, row: dict[str, Any]) -> None:
        kind, seq, char_len = _text(row.get("kind")) or "", int(_number(row.get("seq"))), row.get("char_len")
        # What was no event there is the same bytes here.
        is_odd = isinstance(line.bytes, str)
        data = base64.b64decode(line.bytes) if is_odd else self._encoder.packed(bytes(line.event))
        self._db.execute(
            "insert or ignore into main.events(session_id, seq, kind, data, char_len) values (?, ?, ?, ?, ?)",
            (number, seq, kind, data, int(_number(char_len))),
        )


def _lines(log: KeptLog) -> Iterator[Line]:
    reader = LineReader()
    for data in log.read():
        for _, _, line in reader.lines(data):
            found = record(line) if line is not None else None
            if found is not None:
                yield found


def _after(ending: _Ending, line: Line, kind: str) -> _Ending:
    """The badge after one more event."""
    if kind == Complete.kind:
        _, body = tagged(line)
        duration_ms, cost_usd = int(_number(body.get("duration_ms"))), float(_number(body.get("cost_usd")))
        return _Ending(int(body.get("success") is True), duration_ms, cost_usd)
    return _Ending() if kind in cells.CONTENT_KINDS else ending


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> int | float:
    """A number that a column holds; 0 for anything else."""
    return value if isinstance(value, int | float) and abs(value) <= INTEGER_MAX else 0


def _when(at: Any) -> str | None:
    """A time as SQLite writes it, in UTC."""
    ms = ids.parse_time_ms(at) if isinstance(at, str) else None
    if ms is None:
        return None
    from datetime import UTC, datetime

    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
