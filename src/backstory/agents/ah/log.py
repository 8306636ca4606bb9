"""ah's sessions: databases ``.ah/<ulid>.db`` in the folders it was used in, later one ``.ah/ah.db`` for all of them.

Source: its code up to 2026-03-29. Messages are a tree by ``parent_id``: a fork is a prompt under an earlier message. A
user message holds a prompt, the results of the calls before it, or what the agent itself put there, known by how its
text begins: a steering text, a warning, the summary of a compaction. ``seq`` is a message's depth, so it names none.
The context's ``current_message`` is the tip that the next prompt follows. Rows may be missing anywhere: of a parent
that is gone the branch goes on as a root, like there.

What a session used is in events of its calls (input without caches); in the first builds only in the messages (input
with caches). Texts that wait for a session lie in ``<ulid>.queue.db``. The lock there is no history. Which table has
which column names the version; see ``rows`` for how a database becomes lines of records.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory.agents import jsonl, numbers
from backstory.agents.ah import files, rows
from backstory.agents.turn_fold import OpenCall, TurnFold, TurnState, lengthen, remember, without_prompt
from backstory.bounds import LOST, added
from backstory.conversation.context import strip_context
from backstory.lazy import lazy_regex
from backstory.model import (
    CONTEXT,
    PARTIAL,
    AssistantText,
    Compacted,
    Complete,
    Error,
    Event,
    Hook,
    Init,
    LogIdentity,
    Outcome,
    Parsed,
    Retry,
    Tokens,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
    encoded,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from backstory.agents.contract import ExportSource, LogRoot, SessionFile, SessionRows, UnreadRows

NAME = "ah"
FOLDER = ".ah"
ENDING, QUEUE_ENDING = ".db", ".queue.db"

TOOLS = {
    "read": Tool.READ,
    "write": Tool.WRITE,
    "edit": Tool.EDIT,
    "bash": Tool.SHELL,
    "grep": Tool.GREP,
}
FAILED_STOPS = frozenset({"error", "budget_exceeded", "loop_detected", "deadline_exceeded"})
DONE_STOPS = frozenset({"end_turn", "stop_sequence"})
INTERRUPTED = "interrupted"
ITERATION = ("status", "metric_value", "baseline_value", "message")
STEERING, SUMMARY, LOOP = files.STEERING, files.SUMMARY, "[LOOP DETECTED]"
_SQLITE = b"SQLite format 3\0"
_REMINDER = lazy_regex(r"You must write the file `[^`]*` before finishing\. Please produce it now\.$")
_IMAGE = '{"__image__":'
"""The first characters of a result that is a picture."""

MESSAGES_KNOWN_MAX = 20_000
"""The number of messages back at which a fork is still known; one from before begins at a root."""
TURNS_OPEN_MAX = 32
_PATH_MAX = 1_000
_NUMBER_MAX = 2**53


class _Line(Struct):
    table: Any = ""
    timestamp: Any = None
    row: Any = None
    blocks: Any = None
    follows: Any = None


class _Message(Struct, array_like=True):
    """The remembered facts of a message: its record's number, its turn, and its depth."""

    seq: int
    turn_uid: str | None
    depth: int


class _State(TurnState, kw_only=True):
    """The state of a reader between two readings: bounded, whatever the log's size."""

    messages: dict[str, _Message] = field(default_factory=dict)
    earlier: dict[str, Turn] = field(default_factory=dict)
    """The turns before the last that messages may still come to."""
    tips: dict[str, int] = field(default_factory=dict)
    """The last message's record of each turn that messages may still come to."""
    last_message: str | None = None
    counted: tuple[str, int | None, int | None] = ("", None, None)
    """The answer whose tokens were taken from itself, until the event of its call has more; and these."""
    uncounted: dict[str, str] = field(default_factory=dict)
    """The answers that say no tokens, until the events of their calls do; each with its turn, by its uid."""
    timed: str = ""
    """The last answer that said itself how long the model took."""


_decoder = msgspec.json.Decoder(_Line)
_any_decoder = msgspec.json.Decoder()


class Logs:
    """See ``contract.LogPart``."""

    is_whole = staticmethod(jsonl.is_whole)

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        # It keeps no logs, only databases.
        return []

    def is_log(self, path: Path) -> bool:
        return False

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        records = list(filter(None, map(_record, jsonl.lines_in(head))))
        if not any(_is_ours(each) for each in records):
            return None
        row = records[0].row if records[0].table == rows.SESSION else None
        own = _text(row.get("id")) if isinstance(row, dict) else ""
        return LogIdentity(native_id=own or path.name.rpartition("#")[2])

    def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> Reader:
        return Reader(NAME, identity, state, _State)

    def native_id_of(self, line: bytes) -> str | None:
        found = _record(line)
        row = found.row if found is not None else None
        native_id = _text(row.get("id")) if isinstance(row, dict) else ""
        return f"{found.table}:{native_id}" if found is not None and native_id else None


class Databases:
    """See ``contract.DatabasePart``."""

    def databases(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        return self.databases_in(home)

    def databases_in(self, place: Path) -> list[Path]:
        """The databases of a folder, or the one at this path. A queue without a session is one, too: it holds texts."""
        folder = place if place.name == FOLDER else place / FOLDER
        try:
            if place.is_file() and (place.name.endswith(ENDING) or _is_database(place)):
                session = place.with_name(_session_name(place.name))
                return [session if session.exists() else place]
            names = {each.name for each in folder.iterdir() if each.name.endswith(ENDING)}
        except OSError:
            return []
        beside = {name for name in names if name.endswith(QUEUE_ENDING) and _session_name(name) in names}
        return [folder / name for name in sorted(names - beside)]

    def beside(self, database: Path) -> list[Path]:
        """The databases that belong to another, whether or not they are there."""
        if database.name.endswith(QUEUE_ENDING) or not database.name.endswith(ENDING):
            return []
        return [database.with_name(f"{database.name.removesuffix(ENDING)}{QUEUE_ENDING}")]

    def sessions_without_logs(self, database: Path, copy: Path) -> Iterator[SessionRows | UnreadRows]:
        queue = next((copy.with_name(each.name) for each in self.beside(database)), None)
        is_in_project = database.parent.name == FOLDER
        given = rows.Database(
            path=copy,
            queue=queue if queue is not None and queue.exists() else None,
            file_name=database.name,
            stem=_session_name(database.name).removesuffix(ENDING),
            folder=str(database.parent.parent) if is_in_project else None,
        )
        return rows.sessions_in(given)


class SessionExport:
    """See ``contract.SessionExportPart``."""

    def session_files(self, session: ExportSource) -> list[SessionFile]:
        """The files that a session of ours becomes in its own form, with their paths below a project's folder."""
        return files.files_of(session, NAME, FOLDER)


class Reader(TurnFold[_State]):
    """Folds one session. See ``contract.LogReader``."""

    def _storable(self) -> _State:
        earlier = {uid: without_prompt(turn) for uid, turn in self._state.earlier.items()}
        return msgspec.structs.replace(super()._storable(), earlier=earlier)

    def touched(self) -> Iterator[Turn]:
        """The turns that changed; what is known of one with an answer without tokens is a part."""
        lacking = {*self._state.uncounted.values()}
        for turn in super().touched():
            is_part = turn.tokens_source is not None and turn.uid in lacking
            yield msgspec.structs.replace(turn, tokens_source=PARTIAL) if is_part else turn

    def read(self, line: bytes, seq: int) -> Parsed:
        found = _record(line)
        if found is None or not isinstance(found.row, dict):
            return Parsed(None, [(0, self.unknown.emit("not JSON"))], None)
        table, row = _text(found.table), found.row
        at = rows.at_ms(row.get("created_at"), row.get("id"))
        at = at if at is not None else numbers.time_ms(_text(found.timestamp) or row.get("created_at"))
        if table == rows.MESSAGES:
            turn, events = self._message(found, row, at, seq)
        else:
            turn = self._turn_of(_text(row.get("message_id")))
            events = self._beside(table, row, turn)
        if turn is not None and self._open_turn(turn.uid) is not None:
            self._touch(turn, seq)
        return Parsed(at, list(enumerate(events)), turn)

    # messages -----------------------------------------------------------------------------------------------

    def _message(self, found: _Line, row: dict[str, Any], at: int | None, seq: int) -> tuple[Turn | None, list[Event]]:
        native_id, role, blocks = _text(row.get("id")), _text(row.get("role")), _dicts(found.blocks)
        follows = _text(found.follows) or _text(row.get("parent_id"))
        parent, depth = self._state.messages.get(follows), _number(row.get("seq")) or 0
        turn = self._turn_after(parent, depth)
        text = _texts(blocks) if role == "user" else ""
        if _begins_turn(text, blocks):
            turn, events = self._begin(native_id, strip_context(text), parent, at, seq), list[Event]()
            events.append(UserMessage(content=turn.prompt))
        else:
            events = [event for block in blocks for event in self._block(block, role)]
        if turn is not None:
            lengthen(turn, at)
        if role == "assistant":
            events += self._answered(turn, native_id, row)
        self._remember(native_id, seq, turn, depth)
        return turn, events

    def _turn_after(self, parent: _Message | None, depth: int) -> Turn | None:
        """The turn that a message goes on with."""
        if parent is None and depth:
            # Its parent is gone: it goes on from the message before it, if that stands higher in the tree.
            last = self._state.messages.get(self._state.last_message or "")
            parent = last if last is not None and last.depth < depth else None
        if parent is None or parent.turn_uid is None:
            return None
        # Of a turn that began long ago only the name is known.
        return self._open_turn(parent.turn_uid) or Turn(uid=parent.turn_uid, agent=NAME)

    def _open_turn(self, uid: str | None) -> Turn | None:
        """The turn called so, while messages may still come to it."""
        last = self._state.turn
        return last if last is not None and last.uid == uid else self._state.earlier.get(uid or "")

    def _begin(self, native_id: str, prompt: str, parent: _Message | None, at: int | None, seq: int) -> Turn:
        earlier, last = self._state.earlier, self._state.turn
        if last is not None:
            earlier[last.uid] = last
        if len(earlier) >= TURNS_OPEN_MAX:
            oldest = next(iter(earlier))
            del earlier[oldest]
            self._state.tips.pop(oldest, None)
        follows = (parent.turn_uid, self._behind(parent)) if parent is not None else (None, None)
        return self._begin_turn(native_id, prompt, at, seq, follows)

    def _behind(self, message: _Message) -> int:
        """The record that what follows a message follows: of a turn's last one all that the turn still holds."""
        turn = self._open_turn(message.turn_uid)
        is_last = turn is not None and self._state.tips.get(turn.uid) == message.seq
        return turn.last_seq if turn is not None and is_last else message.seq

    def _remember(self, native_id: str, seq: int, turn: Turn | None, depth: int) -> None:
        message = _Message(seq, turn.uid if turn is not None else None, depth)
        remember(self._state.messages, native_id, message, MESSAGES_KNOWN_MAX)
        if turn is not None and self._open_turn(turn.uid) is not None:
            self._state.tips[turn.uid] = seq
        newest = self._state.turn
        # What was said last goes on with an earlier turn where a fork begins behind one of that turn's calls.
        is_newest = turn is None or newest is None or turn.uid == newest.uid
        self._state.session.leaf = None if is_newest or turn is None else (turn.uid, seq)
        self._state.last_message = native_id

    def _answered(self, turn: Turn | None, native_id: str, row: dict[str, Any]) -> list[Event]:
        """Return the events of an answer's own columns: its end, its author, and its cost until its event has more."""
        stop = _text(row.get("stop_reason"))
        counts = (
            numbers.tokens(row.get("input_tokens"), "input_tokens"),
            numbers.tokens(row.get("output_tokens"), "output_tokens"),
        )
        if turn is not None:
            turn.stop_reason, turn.model = stop or turn.stop_reason, _text(row.get("model")) or turn.model
            turn.outcome = Outcome.COMPLETED if stop in DONE_STOPS else turn.outcome
            turn.outcome = Outcome.CANCELLED if stop == INTERRUPTED else turn.outcome
            if _took(turn, row):
                self._state.timed = native_id
            if counts != (None, None):
                _count(turn, Tokens(input=counts[0], output=counts[1]))
                self._state.counted = (native_id, *counts)
            else:
                remember(self._state.uncounted, native_id, turn.uid, MESSAGES_KNOWN_MAX)
        return [Error(message=INTERRUPTED, code=INTERRUPTED)] if stop == INTERRUPTED else []

    def _block(self, block: dict[str, Any], role: str) -> list[Event]:
        match _text(block.get("block_type")):
            case "text":
                text = _plain(block.get("content"))
                if not text:
                    return []
                return [AssistantText(text=text)] if role == "assistant" else [_put_in(text)]
            case "tool_use":
                return [self._called(block)]
            case "tool_result":
                return [self._result(block)]
            case kind:
                return [self.unknown.emit(f"block {kind}")]

    def _called(self, block: dict[str, Any]) -> ToolCall:
        name, given = _text(block.get("tool_name")), _given(block.get("tool_input"))
        path = _text(given.get("path"))[:_PATH_MAX] or None
        call_id, tool = _text(block.get("tool_id")), TOOLS.get(name, Tool.OTHER)
        return self._state.calls.open(call_id, name, tool, path, given)

    def _result(self, block: dict[str, Any]) -> ToolResult:
        call_id = _text(block.get("tool_id"))
        # A fork may hold another result of the same call, so it stays open.
        call = self._state.calls.by_id.get(call_id) or OpenCall(_text(block.get("tool_name")))
        output = _plain(block.get("tool_output"))
        content = "[image]" if output.startswith(_IMAGE) else output
        result = call.result(call_id, content, is_error=block.get("is_error") == 1)
        lasted_ms, details = numbers.count(block.get("duration_ms"), "duration_ms"), _plain(block.get("details"))
        return msgspec.structs.replace(result, duration_ms=lasted_ms, details=details)

    # all else -----------------------------------------------------------------------------------------------

    def _turn_of(self, message_id: str) -> Turn | None:
        """The turn of a message; the last one where that is not known."""
        found = self._state.messages.get(message_id)
        return self._state.turn if found is None else self._open_turn(found.turn_uid)

    def _beside(self, table: str, row: dict[str, Any], turn: Turn | None) -> list[Event]:
        """Return the events of records that are no messages."""
        match table:
            case rows.SESSION:
                cwd = _text(row.get("cwd"))
                self._state.session.cwd = cwd or None
                return [Init(cwd=cwd)] if cwd else []
            case rows.CONTEXT:
                return self._known(_text(row.get("key")), row.get("value"))
            case rows.EVENTS:
                return self._event(row, turn)
            case rows.QUEUE:
                return [Hook(name=f"queued {_text(row.get('message_type'))}", output=_plain(row.get("content")))]
            case rows.ITERATIONS:
                said = [f"{name}: {_plain(row[name])}" for name in ITERATION if row.get(name) is not None]
                return [Hook(name="work iteration", output="\n".join(said))]
            case rows.CONSUMED | rows.CONVERSATIONS:
                return []
            case _:
                return [self.unknown.emit(f"{table} without a message" if table == rows.BLOCKS else table)]

    def _known(self, key: str, value: Any) -> list[Event]:
        if key == rows.NAME:
            self._state.session.title = _plain(value) or None
            return []
        if key == rows.CURRENT:
            tip = self._state.messages.get(_text(value))
            self._state.session.leaf = (tip.turn_uid, self._behind(tip)) if tip is not None and tip.turn_uid else None
        elif key != rows.STATE:
            self._state.session.note_value(f"{CONTEXT}{key}", _plain(value))
        return [] if key == rows.STATE else [Hook(name=key, output=_plain(value))]

    def _event(self, row: dict[str, Any], turn: Turn | None) -> list[Event]:
        said = _given(row.get("details"))
        match _text(row.get("event_type")):
            case "api_call_end":
                self._call_ended(said, _text(row.get("message_id")), turn)
            case "compaction_complete" if turn is not None:
                _count(
                    turn,
                    Tokens(
                        input=_told_tokens(said, "input_tokens"),
                        output=_told_tokens(said, "output_tokens"),
                    ),
                )
            case "agent_end":
                return [self._ended(said, turn)]
            case "retry":
                return [Retry(attempt=_told_count(said, "attempt") or 0, message=_plain(said.get("error")))]
            case "error":
                return [Error(message=_plain(said.get("error")))]
            case "budget_exceeded":
                return [Error(message=f"more than {said.get('max_tokens')} tokens", code="budget_exceeded")]
            case "loop_detected":
                times = f"{said.get('consecutive_count')} times {_plain(said.get('turn_signature'))}"
                is_end = said.get("action") == "break"
                return [Error(message=times, code="loop_detected") if is_end else Hook(name="loop", output=times)]
            case "payload_warn":
                return [Hook(name="payload", output=f"{said.get('payload_bytes')} bytes")]
            case "compaction_triggered" if turn is not None:
                turn.context_window = _told_count(said, "context_limit") or turn.context_window
            case "state_change" as name:
                return [Hook(name=name, output=_plain(row.get("details")), is_state=True)]
            case "tool_call_end" | "compaction_triggered" | "compaction_complete":
                pass
            case kind:
                return [self.unknown.emit(f"event {kind}")]
        return []

    def _call_ended(self, said: dict[str, Any], message_id: str, turn: Turn | None) -> None:
        if turn is None:
            return
        self._state.uncounted.pop(message_id, None)
        given_input = given_output = None
        if message_id and self._state.counted[0] == message_id:
            _, given_input, given_output = self._state.counted
            self._state.counted = ("", None, None)
        tokens = Tokens(
            input=_instead(_told_tokens(said, "input_tokens"), given_input),
            output=_instead(_told_tokens(said, "output_tokens"), given_output),
            cache_read=_told_tokens(said, "cache_read_input_tokens"),
            cache_write=_told_tokens(said, "cache_creation_input_tokens"),
        )
        _count(turn, tokens)
        turn.model = _text(said.get("model")) or turn.model
        if self._state.timed != message_id:
            _took(turn, said)

    def _ended(self, said: dict[str, Any], turn: Turn | None) -> Complete:
        stop = _text(said.get("stop_reason"))
        outcome = Outcome.CANCELLED if stop == INTERRUPTED else Outcome.COMPLETED
        if stop in FAILED_STOPS or said.get("error"):
            outcome = Outcome.FAILED
        if turn is not None:
            turn.outcome, turn.stop_reason = outcome, stop or turn.stop_reason
        return Complete(success=outcome == Outcome.COMPLETED)


def _record(line: bytes) -> _Line | None:
    return jsonl.first(line, _decoder)


def _is_ours(record: _Line) -> bool:
    return _text(record.table) in rows.TOLD or isinstance(record.row, dict)


def _begins_turn(text: str, blocks: list[dict[str, Any]]) -> bool:
    """Return True if a user message is a prompt: words of the user's own, and no result of a call."""
    if not text or any(block.get("block_type") == "tool_result" for block in blocks):
        return False
    return not text.startswith((STEERING, SUMMARY, LOOP)) and _REMINDER.match(text) is None


def _put_in(text: str) -> Event:
    """A text in the user's place that is no prompt."""
    if text.startswith(STEERING):
        return UserMessage(content=text.removeprefix(STEERING))
    if text.startswith(SUMMARY):
        return Compacted(summary=text.removeprefix(SUMMARY).removeprefix("\n"))
    if text.startswith(LOOP):
        return Hook(name="loop", output=text)
    return Hook(name="reminder", output=text) if _REMINDER.match(text) else UserMessage(content=text)


def _count(turn: Turn, tokens: Tokens) -> None:
    """Add what a request used; without input or output the turn's are at least the rest."""
    for name in Tokens.__struct_fields__:
        more, before = getattr(tokens, name), getattr(turn.tokens, name)
        if more is not None:
            setattr(turn.tokens, name, added(more, before))
    is_part = turn.tokens_source == PARTIAL or tokens.input is None or tokens.output is None
    turn.tokens_source = PARTIAL if is_part else "reported"


def _took(turn: Turn, said: dict[str, Any]) -> bool:
    """Add how long the model took for an answer to its turn; whether that is said."""
    lasted = _told_count(said, "api_latency_ms")
    if lasted is not None:
        turn.api_latency_ms = added(lasted, turn.api_latency_ms)
    return lasted is not None


def _is_database(path: Path) -> bool:
    """Return True if a file of any name, which its user may have chosen, is a database."""
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _session_name(name: str) -> str:
    """The name of the database that a queue belongs to; any other as it is."""
    return f"{name.removesuffix(QUEUE_ENDING)}{ENDING}" if name.endswith(QUEUE_ENDING) else name


def _texts(blocks: list[dict[str, Any]]) -> str:
    texts = (_plain(block.get("content")) for block in blocks if block.get("block_type") == "text")
    return "\n".join(text for text in texts if text.strip())


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _given(value: Any) -> dict[str, Any]:
    """Return a column's JSON object; any other value as ``input``."""
    text = _plain(value)
    try:
        found = _any_decoder.decode(text) if text else {}
    except (msgspec.DecodeError, RecursionError):
        found = None
    # An empty table of its language is written as a list.
    if found == []:
        return {}
    return found if isinstance(found, dict) else {"input": text}


def _plain(value: Any) -> str:
    """A column's text, also where it held bytes that are none."""
    if isinstance(value, str) or value is None:
        return value or ""
    if isinstance(value, dict) and len(value) == 1:
        found = next(iter(value.values()))
        try:
            return base64.b64decode(found, validate=True).decode("utf-8", "replace")
        except (ValueError, TypeError):
            pass
    return encoded(value).decode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _told_count(row: dict[str, Any], name: str) -> int | None:
    return numbers.count(row.get(name), name)


def _told_tokens(row: dict[str, Any], name: str) -> int | None:
    return numbers.tokens(row.get(name), name)


def _instead(told: int | None, given: int | None) -> int | None:
    """Return the difference by which one count takes the place of another; None if either was lost."""
    if given is None:
        return told
    return LOST if told is None or LOST in (told, given) else told - given


def _number(value: Any) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and abs(value) < _NUMBER_MAX else None
