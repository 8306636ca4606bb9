"""Sessions as databases of messages in a tree, in the form whose own agent goes on with them.

A session that was read from such a database is written row by row as it was, with its own ids. Any other is made from
its events: what an answer said and called is one message, the results of its calls the next, as its API wants it.
What that form has no place for, such as thoughts, stays here. A call whose result never came is answered by the words
that its own repair uses, because a history with half of its results is refused.
"""

from __future__ import annotations

import base64
import hashlib
import sqlite3
from bisect import bisect_right
from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory import ids
from backstory.agents import jsonl
from backstory.agents.ah import rows
from backstory.agents.contract import SessionFile
from backstory.agents.jsonl import LineReader
from backstory.bounds import INTEGER_MAX, added
from backstory.model import AssistantText, Compacted, Error, Outcome, ToolCall, ToolResult, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from backstory.agents.contract import ExportSource, KeptLog

Row = dict[str, Any]

STEERING, SUMMARY = "[STEERING] ", "[COMPACTION SUMMARY]"
NO_RESULT = "error: tool execution was interrupted (session resumed)"
ENDING, QUEUE_ENDING = ".db", ".queue.db"
SCHEMA = """
create table if not exists messages (
  id text primary key, parent_id text references messages(id), role text not null, seq integer not null,
  created_at integer not null, input_tokens integer, output_tokens integer, stop_reason text, model text,
  api_latency_ms integer);
create table if not exists content_blocks (
  id text primary key, message_id text not null references messages(id), block_type text not null,
  seq integer not null, content text, tool_id text, tool_name text, tool_input text, tool_output text,
  is_error integer default 0, duration_ms integer, details text);
create table if not exists context (key text primary key, value text not null);
create table if not exists events (
  id text primary key, message_id text references messages(id), event_type text not null,
  created_at integer not null, details text);
create index if not exists idx_messages_parent on messages(parent_id);
create index if not exists idx_content_blocks_message on content_blocks(message_id);
create index if not exists idx_events_message on events(message_id);
create index if not exists idx_events_type on events(event_type);
"""
QUEUE_SCHEMA = """
create table if not exists queue_messages (
  id text primary key, message_type text not null, content text not null, created_at integer not null,
  consumed_at integer);
create table if not exists session_lock (
  key text primary key, owner_pid integer not null, started_at integer not null, heartbeat_at integer not null);
create index if not exists idx_queue_type on queue_messages(message_type);
create index if not exists idx_queue_consumed on queue_messages(consumed_at);
"""
_COLUMNS = {
    "messages": ("id", "parent_id", "role", "seq", "created_at", "input_tokens", "output_tokens", "stop_reason",
                 "model", "api_latency_ms"),
    "content_blocks": ("id", "message_id", "block_type", "seq", "content", "tool_id", "tool_name", "tool_input",
                       "tool_output", "is_error", "duration_ms", "details"),
    "events": ("id", "message_id", "event_type", "created_at", "details"),
    "queue_messages": ("id", "message_type", "content", "created_at", "consumed_at"),
}  # fmt: skip
_NOT_NULL: Row = {"role": "", "seq": 0, "created_at": 0, "block_type": "", "event_type": "", "content": None}
_STOPS = {Outcome.COMPLETED: "end_turn", Outcome.CANCELLED: "interrupted", Outcome.FAILED: "error"}
"""The end of a run, as its agent names it. One that crashed writes nothing."""
_GIVEN = ("block_type", "content", "tool_id", "tool_name", "tool_input", "tool_output", "is_error", "duration_ms")


def files_of(session: ExportSource, agent: str, folder: str) -> list[SessionFile]:
    """The files of a session: one, and a second where texts wait for it. ``agent``: whose own rows are kept."""
    row = next(session.rows("sessions", _Whole.__struct_fields__), None)
    if row is None:
        return []
    whole = _Whole(*row)
    # Of a database that was written anew the last reading counts; of copies that went on apart each one does.
    own = list({log.path: log for log in session.logs() if log.agent == agent}.values())
    if not own:
        return [SessionFile(name=f"{folder}/{whole.uid}{ENDING}", write=lambda path: _write(path, session, whole))]
    native_id = own[-1].native_id
    name, called = native_id if rows.is_ulid(native_id) else whole.uid, _called(whole)
    files = [SessionFile(name=f"{folder}/{name}{ENDING}", write=lambda path: write_kept(path, own, called))]
    if any(line.table == rows.QUEUE for line in _lines(own)):
        files.append(SessionFile(name=f"{folder}/{name}{QUEUE_ENDING}", write=lambda path: _write_queue(path, own)))
    return files


class _Whole(Struct, frozen=True):
    """A session as a whole. Its fields are columns."""

    uid: str
    name: str
    number: int | None
    created_at: str
    leaf_uid: str | None
    leaf_seq: int | None


def _called(whole: _Whole) -> str | None:
    """Return the name that a person gave the session here."""
    return whole.name if whole.name and whole.name != f"S{whole.number}" else None


class _File:
    """A database on its way into an empty file: one transaction, that ends with the ``with`` it is used in."""

    def __init__(self, path: Path, schema: str) -> None:
        self._path, self._schema = path, schema
        self.counts: dict[str, int] = {}

    def __enter__(self) -> _File:
        self.db = sqlite3.connect(self._path, isolation_level=None)
        self.db.text_factory = _text
        # The form wants it, and what stands in the journal goes into the file when it is closed.
        self.db.execute("pragma journal_mode = wal")
        self.db.execute("pragma synchronous = normal")
        self.db.executescript(self._schema)
        self.db.execute("begin immediate")
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        with closing(self.db):
            if failed is None:
                tables = [table for table in _COLUMNS if f" {table} (" in self._schema]
                self.counts = {
                    table: self.db.execute(f"select count(*) from {table}").fetchone()[0] for table in tables
                }
                self.db.execute("commit")

    def insert(self, table: str, row: Row, rowid: int | None = None) -> None:
        """A row, of which the columns that the form has are kept."""
        names = _COLUMNS[table]
        values = [_bound(row.get(name), name) for name in names]
        marks = ["cast(? as text)" if is_text else "?" for is_text, _ in values]
        self.db.execute(
            f"insert or ignore into {table}(rowid, {', '.join(names)}) values (?, {', '.join(marks)})",
            (rowid, *(value for _, value in values)),
        )

    def know(self, key: str, value: Any) -> None:
        """Something of the session as a whole."""
        if value is not None:
            is_text, bound = _bound(value, "")
            mark = "cast(? as text)" if is_text else "?"
            self.db.execute(f"insert or replace into context(key, value) values (?, {mark})", (key, bound))


def _bound(value: Any, name: str) -> tuple[bool, Any]:
    """A value as SQLite takes it, and whether it is text that is given as bytes."""
    if isinstance(value, dict):
        (kind, data), *_ = value.items()
        if kind == rows.REAL:
            return False, float(data)
        return kind == rows.TEXT_BYTES, base64.b64decode(data)
    return False, _NOT_NULL.get(name) if value is None else value


def _text(data: bytes) -> Any:
    """A text out of the file; as lines have it, where it is none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {rows.TEXT_BYTES: base64.b64encode(data).decode()}


# rows as they were --------------------------------------------------------------------------------------------


class _Line(Struct):
    table: str = ""
    row: Row = field(default_factory=dict)
    blocks: list[Row] = field(default_factory=list)


_decoder = msgspec.json.Decoder(_Line)


def _lines(logs: Sequence[KeptLog]) -> Iterator[_Line]:
    """The records of a session's logs, one log after the other; rows that several of them have are the same."""
    for log in logs:
        reader = LineReader()
        for data in log.read():
            for _, _, line in reader.lines(data):
                yield from jsonl.decode(line, _decoder) if line is not None else ()


def write_kept(path: Path, logs: Sequence[KeptLog], called: str | None = None) -> dict[str, int]:
    """Write a session that was read from such a database as it was; gives how many rows of each kind it has.

    ``called``: the name that a person gave it since.
    """
    with _File(path, SCHEMA) as file:
        known: Row = {}
        changes: list[Any] = []
        last = None
        places = iter(_places(line.row.get("created_at") for line in _lines(logs) if line.table == "messages"))
        for line in _lines(logs):
            row = line.row
            if line.table == "messages":
                file.insert("messages", row, next(places))
                last = row.get("id")
                for block in line.blocks:
                    file.insert("content_blocks", block)
            elif line.table in ("content_blocks", "events"):
                file.insert(line.table, row)
                changes += [row.get("details")] if row.get("event_type") == "state_change" else []
            elif line.table == rows.SESSION:
                # Where it stood there is written for each database anew.
                known.pop(rows.CURRENT, None)
                known.pop(rows.STATE, None)
            elif line.table == "context":
                known[row["key"]] = row.get("value")
            elif line.table == "conversations":
                known[rows.STATE] = row.get("state")
        implied = {rows.CURRENT: last, rows.STATE: rows.state_after(changes)}
        known |= {rows.NAME: called} if called is not None else {}
        for key, value in (implied | known).items():
            file.know(key, value)
        _answer_open_calls(file)
    return file.counts


def _places(times: Iterable[Any]) -> list[int]:
    """Return the order of messages by their times: the branch that continues was written last."""
    numbered = [(at if isinstance(at, int) else 0, place) for place, at in enumerate(times)]
    order = sorted(range(len(numbered)), key=lambda place: numbered[place])
    rowids = [0] * len(numbered)
    for rowid, place in enumerate(order, start=1):
        rowids[place] = rowid
    return rowids


def _answer_open_calls(file: _File) -> None:
    """Give every call a result whose message has results of others: with some missing, its own repair gives none."""
    missing = file.db.execute(
        "select r.id, r.created_at, c.tool_id, (select max(seq) from content_blocks where message_id = r.id) "
        "from messages r join content_blocks c on c.message_id = r.parent_id and c.block_type = 'tool_use' "
        "where r.role = 'user' and exists "
        "(select 1 from content_blocks where message_id = r.id and block_type = 'tool_result') and not exists "
        "(select 1 from content_blocks where message_id = r.id and tool_id = c.tool_id) order by r.rowid, c.seq"
    ).fetchall()
    added: dict[str, int] = {}
    for message_id, at, tool_id, seq in missing:
        added[message_id] = added.get(message_id, seq) + 1
        block = {
            "id": _new_id(message_id, f"result {tool_id}", at * 1000),
            "message_id": message_id,
            "block_type": "tool_result",
            "seq": added[message_id],
            "tool_id": tool_id,
            "tool_output": NO_RESULT,
            "is_error": 1,
        }
        file.insert("content_blocks", block)


def _write_queue(path: Path, logs: Sequence[KeptLog]) -> dict[str, int]:
    taken = (line.row for line in _lines(logs) if line.table == rows.CONSUMED)
    consumed = {row["id"]: row["consumed_at"] for row in taken}
    with _File(path, QUEUE_SCHEMA) as file:
        for line in _lines(logs):
            if line.table == rows.QUEUE:
                file.insert(rows.QUEUE, line.row | {"consumed_at": consumed.get(line.row.get("id"))})
    return file.counts


# made from events ---------------------------------------------------------------------------------------------


class _Turn(Struct, frozen=True):
    """A turn. Its fields are columns."""

    id: int
    uid: str
    first_seq: int
    last_seq: int
    parent_uid: str | None
    parent_seq: int | None
    prompt: str
    started: int | None
    ended: int | None
    model: str | None
    outcome: str | None
    stop_reason: str | None
    api_latency_ms: int | None
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None


class _EventRow(Struct, frozen=True):
    """An event. Its first fields are columns."""

    id: int
    seq: int
    part: int
    turn_id: int | None
    kind: str
    at: int | None
    text: str | None


class _Call(Struct, frozen=True):
    """A call, the event of its result, and how long it took."""

    tool_id: str
    result: int | None
    duration_ms: int | None


class _Written(Struct, frozen=True):
    """A message that was written: the record it stands for, its id, and how deep it is."""

    seq: int
    id: str
    depth: int


_EVENT_COLUMNS = (
    *_EventRow.__struct_fields__[:-1],
    f"iif(kind in ('{Compacted.kind}', '{Error.kind}'), event_text(data), null)",
)


def _write(path: Path, session: ExportSource, whole: _Whole) -> dict[str, int]:
    with _File(path, SCHEMA) as file:
        columns = ", ".join(_GIVEN)
        # In a file of its own beside the memory: what tools gave back may be large.
        file.db.execute(f"create temp table given(id integer primary key, {columns})")
        file.db.executemany(
            f"insert into given(id, {columns}) values (?{', ?' * len(_GIVEN)})",
            session.rows("content_blocks", ("id", *_GIVEN)),
        )
        _Telling(file, session, whole).write()
    return file.counts


class _Telling:
    """Writes the turns of one session, each behind the one it follows."""

    def __init__(self, file: _File, session: ExportSource, whole: _Whole) -> None:
        self._file, self._session, self._whole = file, session, whole
        self._at = ids.parse_time_ms(whole.created_at) or 0
        self._written: dict[str, list[_Written]] = {}
        """The messages of each turn, by its uid."""
        self._followed: dict[str, _Written | None] = {}
        """The message that each turn follows, by its uid."""
        self._by_event: dict[int, str] = {}
        self._summaries: dict[str, _Written] = {}
        """The summary that stands behind a message."""
        self._results: dict[str, deque[int]] = {}
        """The results that no call was found for yet, by the call's id: they may come in a later turn."""
        self._tip: _Written | None = None
        self._current: list[_Written] = []
        self._last_answer: str | None = None

    def write(self) -> None:
        """All of it."""
        # The views count turns anew for each row, so the rest of what they show is read from the tables.
        # A branch that was removed is gone, like there.
        there = {turn_id for turn_id, removed in self._session.rows("turns", ("id", "removed")) if removed is None}
        turns = [_Turn(*row) for row in self._session.rows("main.turns", _Turn.__struct_fields__)]
        of: dict[int | None, list[_EventRow]] = {}
        for row in self._session.rows("main.events", _EVENT_COLUMNS):
            event = _EventRow(*row)
            of.setdefault(event.turn_id, []).append(event)
        for event in sorted((each for events in of.values() for each in events), key=_order):
            if event.kind == ToolResult.kind and event.turn_id in there:
                self._results.setdefault(self._call_of(event), deque()).append(event.id)
        for turn in sorted(turns, key=lambda each: (each.first_seq, each.id)):
            if turn.id in there:
                self._turn(turn, sorted(of.get(turn.id, []), key=_order))
        self._file.know(rows.NAME, _called(self._whole))
        last = self._tip.id if self._tip is not None else None
        current = self._by_event.get(self._session.tip() or 0, last)
        end = self._whole.leaf_seq or next((turn.last_seq for turn in turns if turn.uid == self._whole.leaf_uid), None)
        while current in self._summaries and (end is None or self._summaries[current].seq <= end):
            current = self._summaries[current].id
        self._file.know(rows.CURRENT, current)
        self._file.know(rows.STATE, rows.CLOSED)

    def _turn(self, turn: _Turn, events: list[_EventRow]) -> None:
        self._tip, self._last_answer = self._parent(turn), None
        self._followed[turn.uid] = self._tip
        self._current = self._written.setdefault(turn.uid, [])
        self._at = turn.started or self._at
        if turn.prompt and not any(event.kind == UserMessage.kind for event in events):
            self._user(turn.first_seq, f"prompt {turn.uid}", turn.prompt)
        self._events(turn, events)
        self._end(turn)
        if not self._current and self._tip is not None:
            # What follows a turn that left nothing follows what that followed.
            self._current.append(self._tip)

    def _events(self, turn: _Turn, events: list[_EventRow]) -> None:
        answer: list[_EventRow] = []
        has_prompt = bool(self._current)
        for event in events:
            if event.kind in (AssistantText.kind, ToolCall.kind):
                answer.append(event)
                continue
            if event.kind in (UserMessage.kind, ToolResult.kind, Compacted.kind):
                self._answer(turn, answer)
                answer = []
            self._at = event.at or self._at
            match event.kind:
                case UserMessage.kind:
                    (text,) = self._given(event.id, "content")
                    self._user(event.seq, f"{event.id}", f"{STEERING if has_prompt else ''}{text or ''}", event.id)
                    has_prompt = True
                case Compacted.kind if event.text:
                    before = self._tip
                    self._user(event.seq, f"{event.id}", f"{SUMMARY}\n{event.text}")
                    if before is not None and self._tip is not None:
                        self._summaries[before.id] = self._tip
                case Error.kind:
                    self._event(None, "error", f"{event.id}", error=event.text or "")
                case ToolResult.kind:
                    self._stray(turn, event)
        self._answer(turn, answer)

    def _answer(self, turn: _Turn, answer: list[_EventRow]) -> None:
        """An answer with all that it called, and behind it a message with what came of each call."""
        answer = [event for event in answer if event.kind == ToolCall.kind or self._given(event.id, "content")[0]]
        if not answer:
            return
        self._at = answer[0].at or self._at
        message = self._message(answer[0].seq, f"answer {answer[0].id}", "assistant", model=turn.model)
        self._last_answer = message.id
        calls: list[_Call] = []
        for place, event in enumerate(answer):
            self._by_event[event.id] = message.id
            block = dict(zip(_GIVEN, self._given(event.id, *_GIVEN), strict=True))
            if event.kind == ToolCall.kind:
                waiting = self._results.get(self._call_of(event))
                result = waiting.popleft() if waiting else None
                calls.append(_Call(block["tool_id"] or f"call_{event.id}", result, block.pop("duration_ms")))
                block |= {"tool_id": calls[-1].tool_id, "tool_input": _as_object(block["tool_input"])}
            self._block(message, place, block)
        if calls:
            self._came_back(answer[0].seq, calls)
            # Who goes on from a call takes its result along.
            self._by_event |= {event.id: self._current[-1].id for event in answer}

    def _came_back(self, seq: int, calls: list[_Call]) -> None:
        """Write results in the place of their calls' record, so that a fork from there takes them along."""
        message = self._message(seq, f"results {calls[0].tool_id} {seq}", "user")
        for place, call in enumerate(calls):
            output, is_error = NO_RESULT, 1
            if call.result is not None:
                output, is_error = self._given(call.result, "tool_output", "is_error")
                self._by_event[call.result] = message.id
            block = {"block_type": "tool_result", "tool_id": call.tool_id, "duration_ms": call.duration_ms}
            self._block(message, place, block | {"tool_output": output or "", "is_error": is_error})

    def _stray(self, turn: _Turn, event: _EventRow) -> None:
        """A result whose call is missing: its call is written without its input."""
        waiting = self._results[self._call_of(event)]
        if event.id not in waiting:
            return
        waiting.remove(event.id)
        tool_id, name = self._given(event.id, "tool_id", "tool_name")
        tool_id = tool_id or f"call_{event.id}"
        message = self._message(event.seq, f"call {event.id}", "assistant", model=turn.model)
        self._block(message, 0, {"block_type": "tool_use", "tool_id": tool_id, "tool_name": name, "tool_input": "{}"})
        self._came_back(event.seq, [_Call(tool_id, event.id, None)])

    def _end(self, turn: _Turn) -> None:
        """Write the tokens of the turn on its last answer, and how it ended."""
        self._at = turn.ended or self._at
        ending = _STOPS.get(Outcome(turn.outcome)) if turn.outcome else None
        if self._last_answer is not None:
            self._used(turn, self._last_answer, turn.stop_reason or ending)
        if ending is not None:
            self._event(None, "agent_end", f"end {turn.uid}", stop_reason=ending)

    def _used(self, turn: _Turn, answer: str, stop: str | None) -> None:
        used = (turn.input_tokens, turn.cache_read_tokens, turn.cache_write_tokens)
        all_input = None if used == (None, None, None) else min(added(*used), INTEGER_MAX)
        self._file.db.execute(
            "update messages set input_tokens = ?, output_tokens = ?, stop_reason = ?, api_latency_ms = ? where id = ?",
            (all_input, turn.output_tokens, stop, turn.api_latency_ms, answer),
        )
        if (all_input, turn.output_tokens) != (None, None):
            fields = {
                "message_id": answer,
                "input_tokens": turn.input_tokens,
                "output_tokens": turn.output_tokens,
                "cache_creation_input_tokens": turn.cache_write_tokens,
                "cache_read_input_tokens": turn.cache_read_tokens,
                "api_latency_ms": turn.api_latency_ms,
                "model": turn.model,
            }
            self._event(answer, "api_call_end", f"call {turn.uid}", **fields)

    def _parent(self, turn: _Turn) -> _Written | None:
        """The message that a turn's prompt follows: the last one that its fork point has behind it."""
        before = self._written.get(turn.parent_uid or "")
        if not before:
            return None
        if turn.parent_seq is None:
            return before[-1]
        place = bisect_right([each.seq for each in before], turn.parent_seq)
        # A prompt without words is no message: what follows it follows what it followed.
        return before[place - 1] if place else self._followed.get(turn.parent_uid or "")

    def _user(self, seq: int, key: str, text: str, event_id: int | None = None) -> None:
        if not text.strip():
            return
        message = self._message(seq, f"user {key}", "user")
        self._block(message, 0, {"block_type": "text", "content": text})
        if event_id is not None:
            self._by_event[event_id] = message.id

    def _message(self, seq: int, key: str, role: str, **more: Any) -> _Written:
        parent = self._tip
        written = _Written(seq, self._id(key), parent.depth + 1 if parent is not None else 0)
        row = {"id": written.id, "parent_id": parent.id if parent is not None else None, "role": role}
        self._file.insert("messages", {**row, "seq": written.depth, "created_at": self._at // 1000, **more})
        self._tip = written
        self._current.append(written)
        return written

    def _block(self, message: _Written, place: int, block: Row) -> None:
        about = {"id": self._id(f"{message.id} {place}"), "message_id": message.id, "seq": place, "is_error": 0}
        self._file.insert("content_blocks", about | block)

    def _event(self, about: str | None, kind: str, key: str, /, **fields: Any) -> None:
        at = self._at // 1000
        known = {name: value for name, value in fields.items() if value is not None}
        details = msgspec.json.encode({"event_type": kind, "timestamp": at, **known}).decode()
        row = {"id": self._id(f"{kind} {key}"), "message_id": about, "event_type": kind, "created_at": at}
        self._file.insert("events", {**row, "details": details})

    def _given(self, event_id: int, *columns: str) -> tuple[Any, ...]:
        """Return the values of an event's block."""
        found = self._file.db.execute(f"select {', '.join(columns)} from given where id = ?", (event_id,)).fetchone()
        return found if found is not None else (None,) * len(columns)

    def _call_of(self, event: _EventRow) -> str:
        """Return the id that a call and its result share; without one, the turn."""
        return self._given(event.id, "tool_id")[0] or f"turn {event.turn_id}"

    def _id(self, key: str) -> str:
        return _new_id(self._whole.uid, key, self._at)


def _order(event: _EventRow) -> tuple[int, int]:
    return event.seq, event.part


def _as_object(given: Any) -> str:
    """Return the input of a call, as the JSON object that it has to be."""
    try:
        is_object = isinstance(msgspec.json.decode(given or "{}"), dict)
    except (msgspec.DecodeError, RecursionError):
        is_object = False
    return (given or "{}") if is_object else msgspec.json.encode({"input": given}).decode()


def _new_id(of: str, key: str, at_ms: int) -> str:
    """A ULID that is the same each time: its time, and a hash in the place of chance."""
    digest = hashlib.sha256(f"{of}\0{key}".encode("utf-8", "surrogatepass")).digest()
    return ids.new_uid(min(max(at_ms, 0), (1 << 48) - 1), digest)
