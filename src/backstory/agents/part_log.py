"""Reads the lines that ``part_tables`` makes: a session, its messages, and their parts, each a row.

A row that was changed comes again, behind the rows that came since. Of a part only what is new in it becomes events: a
call that was running has its result then. Tokens come with a message's end; those from a cache are not in ``input``.
A compaction's request is no part of the conversation, so its tokens are in no turn.

A turn is known by the time and the text of its prompt, because a copy of a session keeps both, and no id.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory import bounds
from backstory.agents import jsonl, numbers
from backstory.agents.turn_fold import TurnFold, TurnState, lengthen, remember, without_prompt
from backstory.lazy import lazy_regex
from backstory.model import (
    PARTIAL,
    AssistantText,
    Compacted,
    Error,
    Event,
    Hook,
    Init,
    LogIdentity,
    Outcome,
    Parsed,
    Relation,
    Retry,
    Thinking,
    Tokens,
    Tool,
    Turn,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from backstory.agents.contract import LogRoot

TOOLS = {
    "read": Tool.READ, "edit": Tool.EDIT, "multiedit": Tool.EDIT, "patch": Tool.EDIT, "apply_patch": Tool.EDIT,
    "write": Tool.WRITE, "bash": Tool.SHELL, "grep": Tool.GREP, "glob": Tool.GLOB, "list": Tool.GLOB,
    "task": Tool.TASK, "webfetch": Tool.FETCH, "websearch": Tool.SEARCH, "codesearch": Tool.SEARCH,
}  # fmt: skip
KEPT_PARTS = frozenset({"agent", "compaction", "file", "patch", "snapshot", "step-finish", "step-start"})
"""Parts that say nothing that is shown; their rows are kept."""
MESSAGES_MAX = 32
"""The most messages that are remembered; a part that belongs to an older one is looked up in the log."""
OPEN_TURNS_MAX = 8
"""The most turns behind the present one that are remembered because an answer of theirs has not ended."""
CALLED_OFF = "MessageAbortedError"
_PLACEHOLDER = lazy_regex(r"(?:New|Child) session - \d{4}-\d\d-\d\dT")
_FIRST = b'{"table":"session",'


class _Data(Struct):
    """The JSON of a message's row, or of a part's, as far as it is read."""

    role: Any = None
    time: Any = None
    error: Any = None
    summary: Any = None
    model_id: Any = field(default=None, name="modelID")
    tokens: Any = None
    cost: Any = None
    finish: Any = None
    type: Any = None
    text: Any = None
    synthetic: Any = None
    ignored: Any = None
    tool: Any = None
    call_id: Any = field(default=None, name="callID")
    state: Any = None
    attempt: Any = None
    prompt: Any = None


class _Row(Struct):
    """A row of any of the tables, as far as it is read."""

    id: Any = None
    message_id: Any = None
    time_created: Any = None
    directory: Any = None
    title: Any = None
    version: Any = None
    model: Any = None
    parent_id: Any = None
    data: _Data | str | None = None


class _Line(Struct):
    """A line: a row and its table."""

    table: str
    row: _Row
    copied_from: str | None = None


_line, _data = msgspec.json.Decoder(_Line), msgspec.json.Decoder(_Data)


class _Message(Struct, array_like=True):
    """The facts of a message that its parts and its later rows need."""

    is_users: bool
    created: int | None
    is_summary: bool
    turn: str | None = None
    """The turn that it belongs to, by its uid."""
    is_done: bool = False


class _State(TurnState, kw_only=True):
    """The state of a reader between two readings."""

    has_begun: bool = False
    messages: dict[str, _Message] = field(default_factory=dict)
    last_part: str = ""
    """The greatest id of a part: those of new ones are greater."""
    unfinished: dict[str, int] = field(default_factory=dict)
    """Texts that may still grow, by their parts, with how many letters of them are events."""
    prompted: str = ""
    """The message whose first text began the present turn."""
    open_turns: dict[str, Turn] = field(default_factory=dict)
    """Turns that one which was queued followed before they had ended, by their uids."""


class PartLogs:
    """See ``contract.LogPart``. Its logs are rows of a database; files it has none."""

    is_whole = staticmethod(jsonl.is_whole)

    def __init__(self, name: str) -> None:
        self._name = name

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        return []

    def is_log(self, path: Path) -> bool:
        return False

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        line = next(jsonl.lines_in(head), b"")
        # Its first row may be larger than what is given: then it is no JSON.
        first = _read(line) if line.startswith(_FIRST) else None
        if first is None or not isinstance(native_id := first.row.id, str) or not native_id:
            return None
        if isinstance(parent := first.row.parent_id, str) and parent:
            return LogIdentity(native_id=native_id, parent_native_id=parent, relation=Relation.SUBAGENT)
        relation = Relation.FORK if first.copied_from else None
        return LogIdentity(native_id=native_id, parent_native_id=first.copied_from, relation=relation)

    def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> PartReader:
        return PartReader(self._name, identity, state, earlier)

    def native_id_of(self, line: bytes) -> str | None:
        read = _read(line)
        return f"{read.table}/{read.row.id}" if read is not None and isinstance(read.row.id, str) else None


def _read(line: bytes) -> _Line | None:
    read = jsonl.first(line, _line)
    if read is not None and isinstance(read.row.data, str):
        # JSON over several lines, and what is JSON only with every tolerance, is kept as text.
        read.row.data = jsonl.first(read.row.data.encode("utf-8", "surrogatepass"), _data) or read.row.data
    return read


class PartReader(TurnFold[_State]):
    """See ``contract.LogReader``."""

    def __init__(
        self, agent: str, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]
    ) -> None:
        super().__init__(agent, identity, state, _State)
        self._earlier = earlier if state else None
        self._parts: set[str] = set()
        self._older: dict[str, _Message] = {}

    def read(self, line: bytes, seq: int) -> Parsed:
        if (read := _read(line)) is None:
            return Parsed(None, [(0, self.unknown.emit("no row"))], self._turn_at(seq))
        row, at = read.row, numbers.time_ms(read.row.time_created)
        match read.table:
            case "session":
                return Parsed(at, list(enumerate(self._session(row, read.copied_from))), None)
            case "message" if isinstance(row.data, _Data) and isinstance(row.id, str):
                events = self._message(row.id, row.data, at)
            case "part" if isinstance(row.data, _Data) and isinstance(row.id, str):
                events = self._part(row.id, str(row.message_id), row.data, at, seq)
            case "message" | "part":
                events = [self.unknown.emit(f"{read.table} that is no JSON")]
            case _:
                events = [self.unknown.emit(read.table)]
        return Parsed(at, list(enumerate(events)), self._turn_at(seq))

    def _session(self, row: _Row, origin: str | None) -> list[Event]:
        session, has_begun = self._state.session, self._state.has_begun
        self._state.has_begun = True
        session.cwd = _text(row.directory) or session.cwd
        session.agent_version = _text(row.version) or session.agent_version
        title = _text(row.title).strip()
        if title and _PLACEHOLDER.match(title) is None:
            session.title = title
        if has_begun:
            return []
        begun: list[Event] = [Init(cwd=session.cwd or "", model=_model(row.model), version=session.agent_version or "")]
        if origin:
            words = f"Copied from {origin}: inferred, because both begin with the same messages at the same times."
            begun.append(Hook(name="copy", output=words))
        return begun

    # messages ---------------------------------------------------------------------------------------------------------

    def _message(self, native_id: str, data: _Data, at: int | None) -> list[Event]:
        message, turn = self._message_of(native_id), self._state.turn
        if message is None:
            created = numbers.time_ms(_get(data.time, "created")) or at
            is_users = data.role == "user"
            uid = turn.uid if turn is not None and not is_users else None
            message = _Message(is_users, created, data.summary is True and not is_users, uid)
            self._remember(native_id, message)
        if message.is_users or message.is_done:
            return []
        completed = numbers.time_ms(_get(data.time, "completed"))
        message.is_done = completed is not None or data.error is not None
        events: list[Event] = [_error(data.error)] if data.error is not None else []
        if not message.is_summary and (answered := self._turn_of(message)) is not None:
            self._note_answer(answered, data, completed)
        return events

    def _turn_of(self, message: _Message) -> Turn | None:
        """The turn that an answer belongs to; one before the present one is noted as changed."""
        turn = self._state.turn
        if turn is not None and turn.uid == message.turn:
            return turn
        if (earlier := self._state.open_turns.get(message.turn or "")) is not None:
            self._touched[earlier.uid] = earlier
        return earlier

    def _is_open(self, turn: Turn) -> bool:
        return any(each.turn == turn.uid and not each.is_done for each in self._state.messages.values())

    def _storable(self) -> _State:
        opened = {uid: without_prompt(turn) for uid, turn in self._state.open_turns.items()}
        return msgspec.structs.replace(super()._storable(), open_turns=opened)

    def _note_answer(self, turn: Turn, data: _Data, completed: int | None) -> None:
        turn.model = _text(data.model_id) or turn.model
        finish = _text(data.finish)
        if data.error is not None:
            turn.outcome = Outcome.CANCELLED if _get(data.error, "name") == CALLED_OFF else Outcome.FAILED
        elif completed is None or finish in ("", "tool-calls", "unknown"):
            turn.outcome = None
        else:
            turn.outcome, turn.stop_reason = Outcome.COMPLETED, finish
        lengthen(turn, completed)
        # What an answer used is written when it ends.
        turn.tokens_source = PARTIAL if self._is_open(turn) else "reported"
        if completed is None and data.error is None:
            return
        if isinstance(data.tokens, dict) and (more := _tokens(data.tokens)) is not None:
            _add(turn.tokens, more)
        cost = numbers.amount(data.cost, "cost")
        if cost:
            turn.cost_usd, turn.cost_source = (turn.cost_usd or 0.0) + cost, "reported"

    def _message_of(self, native_id: str) -> _Message | None:
        found = self._state.messages.get(native_id) or self._older.get(native_id)
        if found is None and self._earlier is not None and self._state.messages and self._is_old(native_id):
            self._look_back()
            found = self._older.get(native_id)
        return found

    def _is_old(self, native_id: str) -> bool:
        """Return True if a message may be older than those that are remembered; ids grow."""
        return len(self._state.messages) >= MESSAGES_MAX and native_id < max(self._state.messages)

    def _remember(self, native_id: str, message: _Message) -> None:
        messages = self._state.messages
        messages[native_id] = message
        if len(messages) > MESSAGES_MAX:
            oldest = next(iter(messages))
            self._older[oldest] = messages.pop(oldest)

    def _look_back(self) -> None:
        """Learn which rows came before this reading began."""
        if self._earlier is None:
            return
        earlier, self._earlier = self._earlier, None
        past = PartReader(self._agent, LogIdentity(native_id=self._native_id), None, tuple)
        for line in earlier():
            past.read(line, 0)
        self._parts |= past._parts
        self._older |= past._older | past._state.messages

    # parts ------------------------------------------------------------------------------------------------------------

    def _part(self, native_id: str, of: str, data: _Data, at: int | None, seq: int) -> list[Event]:
        kind = _text(data.type)
        is_known = self._was_read(native_id)
        message = self._message_of(of)
        if message is None:
            return [] if is_known else [self.unknown.emit("part without a message")]
        if kind == "tool":
            return self._tool(native_id, data, is_known=is_known)
        if is_known and native_id not in self._state.unfinished:
            return []
        match kind:
            case "text" if message.is_users:
                return self._said(of, message, data, at, seq)
            case "subtask" if message.is_users:
                return self._typed(of, message, _text(data.prompt), at, seq)
            case "text" | "reasoning":
                return self._written(native_id, kind, message, data)
            case "retry":
                reason = _text(_get(_get(data.error, "data"), "message")) or _text(_get(data.error, "name"))
                return [Retry(attempt=numbers.count(data.attempt, "attempt") or 0, message=reason)]
            case _ if kind in KEPT_PARTS:
                return []
        return [self.unknown.emit(f"part/{kind}")]

    def _was_read(self, native_id: str) -> bool:
        """Return True if an earlier line was of the same part; notes that this one is."""
        if native_id > self._state.last_part:
            self._state.last_part = native_id
            self._parts.add(native_id)
            return False
        if native_id not in self._parts:
            self._look_back()
        is_known = native_id in self._parts or native_id in self._state.unfinished
        self._parts.add(native_id)
        return is_known

    def _said(self, of: str, message: _Message, data: _Data, at: int | None, seq: int) -> list[Event]:
        text = _text(data.text)
        if data.synthetic or data.ignored:
            return [Hook(name="synthetic", output=text)] if text.strip() else []
        return self._typed(of, message, text, at, seq)

    def _typed(self, of: str, message: _Message, text: str, at: int | None, seq: int) -> list[Event]:
        if not text.strip():
            return []
        if self._state.prompted != of:
            self._state.prompted = of
            self._leave_turn()
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
            self._begin_turn(f"{message.created}/{digest}", text, message.created or at, seq)
        return [UserMessage(content=text)]

    def _leave_turn(self) -> None:
        """Remember the present turn, where a prompt that was queued follows while it is answered."""
        turn, opened = self._state.turn, self._state.open_turns
        if turn is not None and self._is_open(turn):
            remember(opened, turn.uid, turn, OPEN_TURNS_MAX)

    def _written(self, native_id: str, kind: str, message: _Message, data: _Data) -> list[Event]:
        text, unfinished = _text(data.text), self._state.unfinished
        shown = unfinished.pop(native_id, 0)
        if _get(data.time, "end") is None and not message.is_done:
            remember(unfinished, native_id, len(text), MESSAGES_MAX)
        text = text[shown:]
        if not text.strip():
            return []
        if message.is_summary:
            return [Compacted(summary=text)] if kind == "text" else []
        return [AssistantText(text=text) if kind == "text" else Thinking(text=text)]

    def _tool(self, native_id: str, data: _Data, *, is_known: bool) -> list[Event]:
        state = data.state if isinstance(data.state, dict) else {}
        status, name, calls = state.get("status"), _text(data.tool), self._state.calls
        is_open = native_id in calls.by_id
        if status == "pending" or (is_known and not is_open and native_id not in self._state.unfinished):
            if status == "pending" and not is_known:
                self._state.unfinished[native_id] = 0
            return []
        self._state.unfinished.pop(native_id, None)
        given = found if isinstance(found := state.get("input"), dict) else {}
        call_id = _text(data.call_id) or native_id
        events: list[Event] = []
        if not is_open:
            path = _text(given.get("filePath")) or None
            call = calls.open(native_id, name, TOOLS.get(name, Tool.OTHER), path, given)
            events.append(msgspec.structs.replace(call, tool_use_id=call_id))
        if status in ("completed", "error"):
            exit_code = _get(state.get("metadata"), "exit")
            has_failed = status == "error" or (isinstance(exit_code, int) and exit_code != 0)
            content = _text(state.get("error" if status == "error" else "output"))
            result = calls.close(native_id).result(call_id, content, is_error=has_failed)
            events.append(msgspec.structs.replace(result, duration_ms=_span(state.get("time"))))
        return events


def _error(error: Any) -> Error:
    name = _text(_get(error, "name"))
    message = _text(_get(_get(error, "data"), "message")) or name or "It failed."
    return Error(message=message, code="interrupted" if name == CALLED_OFF else name)


def _tokens(given: dict[str, Any]) -> Tokens | None:
    """The tokens of an answer; None where it has none at all."""
    cache = given.get("cache")
    more = Tokens(
        input=numbers.tokens(given.get("input"), "input"),
        output=numbers.tokens(given.get("output"), "output"),
        cache_read=numbers.tokens(_get(cache, "read"), "cache.read"),
        cache_write=numbers.tokens(_get(cache, "write"), "cache.write"),
        reasoning=numbers.tokens(given.get("reasoning"), "reasoning"),
    )
    parts = (more.input, more.output, more.cache_read, more.cache_write, more.reasoning)
    if not any(parts):
        return None
    # Some providers count what the model thought in its output, others beside it; the total says which.
    counted = sum(each or 0 for each in parts)
    if more.reasoning and more.output is not None and given.get("total") in (None, counted):
        more.output = bounds.added(more.output, more.reasoning)
    return more


def _add(tokens: Tokens, more: Tokens) -> None:
    read = bounds.added(bounds.added(more.input or 0, more.cache_read), more.cache_write)
    tokens.largest_input = numbers.largest_input(tokens, read)
    for name in ("input", "output", "cache_read", "cache_write", "reasoning"):
        if (value := getattr(more, name)) is not None:
            setattr(tokens, name, bounds.added(getattr(tokens, name), value))


def _span(time: Any) -> int | None:
    start, end = numbers.time_ms(_get(time, "start")), numbers.time_ms(_get(time, "end"))
    return end - start if start is not None and end is not None and end >= start else None


def _model(value: Any) -> str:
    """The model of a session: its row has an object, as text."""
    try:
        found = msgspec.json.decode(value) if isinstance(value, str) else value
    except msgspec.DecodeError:
        return ""
    return _text(_get(found, "id"))


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
