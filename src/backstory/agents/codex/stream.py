"""Reads the output of ``codex exec --json``: items with a short id each, printed when they start and end.

Only ``turn.completed`` and ``turn.failed`` say how it ended; calls that Codex refused are named on stderr alone.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.agents import jsonl
from backstory.agents.codex.records import (
    KEPT_STREAM,
    KEPT_STREAM_ITEMS,
    ItemResult,
    TurnError,
    decode_fitting,
    fitted,
    plain_text,
)
from backstory.agents.codex.retries import is_retry, retry_of
from backstory.agents.codex.tools import TOOLS, arguments_of, inner_command
from backstory.agents.codex.usage import Usage, added_to
from backstory.agents.contract import Ending, SteerState, Streamed
from backstory.agents.turn_fold import UnknownCounts
from backstory.lazy import lazy_regex
from backstory.model import (
    AssistantText,
    Complete,
    Error,
    Event,
    Hook,
    Init,
    Outcome,
    Plan,
    Thinking,
    Tokens,
    Tool,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:
    from backstory.agents.contract import Exit


_STDERR_LINES_HELD_MAX = 20
_TERMINAL_CODES = lazy_regex(r"\x1b\[[0-9;]*m")
_STDERR_ERROR = lazy_regex(r"(?:^|\s)ERROR\s+(?:[^\s{]+\{[^}]*\}:?\s*)*(?:[\w:]*\w:\s+)?(?:error=)?(.*)")


class _FileChange(Struct):
    kind: str = ""
    path: str = ""


class _Item(Struct):
    type: str = ""
    id: str | None = None
    text: str | None = None
    message: str | None = None
    status: str | None = None
    command: str | None = None
    aggregated_output: str | None = None
    exit_code: int | None = None
    changes: list[Any] | None = None
    server: str | None = None
    tool: str | None = None
    arguments: dict[str, Any] | str | None = None
    result: ItemResult | list[Any] | str | None = None
    error: TurnError | str | None = None
    query: Any = None
    action: Any = None
    prompt: Any = None
    receiver_thread_ids: Any = None
    agents_states: Any = None


class _Record(Struct):
    type: str = ""
    thread_id: str | None = None
    item: _Item | None = None
    usage: Usage | None = None
    message: str | None = None
    error: TurnError | str | None = None


_decoder = msgspec.json.Decoder(_Record)


class StreamReader:
    """Understands the output of one run. See ``contract.StreamReader``."""

    def __init__(self) -> None:
        self.native_id: str | None = None
        self.steering: SteerState | None = None
        self.unknown = UnknownCounts()
        self._calls: set[str] = set()
        self._completed = False
        self._failed = False
        self._usage: Usage | None = None
        self._last_error = ""
        self._said_why = False
        self._refused: list[ToolCall] = []
        self._held: deque[str] = deque(maxlen=_STDERR_LINES_HELD_MAX)

    def read(self, line: bytes) -> Streamed:
        if not line.strip():
            return Streamed([])
        try:
            records = decode_fitting(line, _decoder)
        except jsonl.NotJson:
            return Streamed([(0, self._not_a_record(line))])
        slots: list[Event | None] = []
        for record in records:
            slots += self._record(record)
        # A call that was emitted before leaves its slot empty, so that parts never depend on what came before.
        events = [(part, event) for part, event in enumerate(slots) if event is not None]
        return Streamed(events, takes_number=any(record.type != "item.updated" for record in records))

    def stderr(self, line: bytes) -> list[Event]:
        text = _TERMINAL_CODES.sub("", line.decode("utf-8", "replace")).strip()
        if found := _STDERR_ERROR.search(text):
            self._said_why = True
            if (refused := refused_on_stderr(found.group(1))) is not None:
                self._refused.append(_with_inner_command(refused))
            return [Error(message=found.group(1), code="stderr")]
        if text:
            self._held.append(text)
        return []

    def ended(self, exit: Exit) -> Ending:
        outcome = self._outcome(exit)
        # A total of nothing is none: a review has one, because its requests are another thread's.
        usage = self._usage if self._usage is not None and self._usage.spent() else None
        return Ending(
            outcome=outcome,
            error=self._why(exit) if outcome in (Outcome.FAILED, Outcome.CRASHED) else None,
            # A run is a thread of its own, so the thread's total is the run's.
            tokens=added_to(Tokens(), usage) if usage else Tokens(),
            tokens_source="reported" if usage else None,
            refused=list(self._refused),
        )

    # records ------------------------------------------------------------------------------------------------

    def _record(self, record: _Record) -> list[Event | None]:
        item = record.item or _Item()
        match record.type:
            case "thread.started":
                first, self.native_id = self.native_id is None, self.native_id or record.thread_id
                return [Init() if first else None]
            case "item.started":
                return self._started(item)
            case "item.updated":
                return []
            case "item.completed":
                return self._done(item)
            case "error":
                return self._error(record.message or "")
            case "turn.failed":
                self._failed = True
                return [Error(message=_error_text(record.error) or self._last_error)]
            case "turn.completed":
                self._completed, self._usage = True, record.usage or self._usage
                return [Complete(success=True)]
            case kind:
                return [] if kind in KEPT_STREAM else [self.unknown.emit(kind or "record without a type")]

    def _started(self, item: _Item) -> list[Event | None]:
        call = _call_of(item)
        if call is None:
            return [] if item.type in KEPT_STREAM_ITEMS else [self.unknown.emit(f"item/{item.type}")]
        self._calls.add(call.tool_use_id)
        return [call]

    def _done(self, item: _Item) -> list[Event | None]:
        text = item.text or ""
        match item.type:
            case "agent_message":
                return [AssistantText(text=text)] if text else []
            case "reasoning":
                return [Thinking(text=text)] if text else []
            case "plan":
                return [Plan(name="plan", content=text)] if text else []
            case "error":
                return [Hook(name="warning", output=item.message or "")]
            case _:
                return self._call_done(item)

    def _call_done(self, item: _Item) -> list[Event | None]:
        call = _call_of(item)
        if call is None:
            return [] if item.type in KEPT_STREAM_ITEMS else [self.unknown.emit(f"item/{item.type}")]
        is_known = call.tool_use_id in self._calls
        self._calls.discard(call.tool_use_id)
        if item.status == DECLINED:
            self._refused.append(call)
        result = ToolResult(
            tool_use_id=call.tool_use_id,
            tool_name=call.tool_name,
            tool=call.tool,
            file_path=call.file_path,
            content=_result_text(item),
            is_error=item.status in ("failed", DECLINED) or item.exit_code not in (None, 0),
        )
        return [None if is_known else call, result]

    def _error(self, message: str) -> list[Event | None]:
        if is_retry(message):
            return [retry_of(message)]
        # The turn's failure says it again; it is remembered for a run that is cut off before that.
        self._last_error = message
        return []

    def _not_a_record(self, line: bytes) -> Event:
        text = line.decode("utf-8", "replace").strip()
        return self.unknown.emit("not JSON") if text.startswith("{") else Hook(name="stdout", output=text)

    # what it came to ----------------------------------------------------------------------------------------

    def _outcome(self, exit: Exit) -> Outcome:
        if self._failed:
            return Outcome.FAILED
        if self._completed and exit.code == 0:
            return Outcome.COMPLETED
        if exit.was_cancelled:
            return Outcome.CANCELLED
        if exit.signal is not None or exit.code == 0:
            return Outcome.CRASHED
        return Outcome.FAILED

    def _why(self, exit: Exit) -> str | None:
        if self._failed:
            return None
        error = self._last_error or "\n".join(self._held)
        return None if self._said_why and not error and exit.was_seen else exit.why(error)


def _call_of(item: _Item) -> ToolCall | None:
    """The call that an item of a run is about; None when it is about none."""
    path, given = None, dict[str, Any]()
    match item.type:
        case "command_execution":
            name, given = "shell", {"command": inner_command(item.command or "")}
        case "file_change":
            path = next((each.path for each in _changes(item)), None)
            name, given = "apply_patch", {"changes": item.changes}
        case "mcp_tool_call":
            name, given = f"{item.server or ''}.{item.tool or ''}", arguments_of(item.arguments)
        case "web_search":
            name, given = "web_search", {"query": item.query, "action": item.action}
        case "collab_tool_call":
            name, given = item.tool or "", {"prompt": item.prompt, "receiver_thread_ids": item.receiver_thread_ids}
        case _:
            return None
    tool = TOOLS.get(name, Tool.OTHER)
    return ToolCall(tool_use_id=item.id or "", tool_name=name, tool=tool, file_path=path, input=given)


def _result_text(item: _Item) -> str:
    match item.type:
        case "command_execution":
            return item.aggregated_output or ""
        case "file_change":
            return "\n".join(f"{each.kind} {each.path}" for each in _changes(item))
        case "mcp_tool_call":
            content = item.result.content if isinstance(item.result, ItemResult) else item.result
            return plain_text(content) or _error_text(item.error)
        case "collab_tool_call":
            return plain_text(item.agents_states or None)
        case _:
            return ""


def _changes(item: _Item) -> list[_FileChange]:
    return [fitted(each, _FileChange) for each in item.changes or () if isinstance(each, dict)]


def _with_inner_command(call: ToolCall) -> ToolCall:
    command = call.input.get("command")
    return msgspec.structs.replace(call, input={"command": inner_command(command)}) if command else call


def _error_text(error: TurnError | str | None) -> str:
    return (error.message if isinstance(error, TurnError) else error) or ""


# calls that codex's sandbox or approval policy refused ----------------------------------------------------------------


DECLINED = "declined"
_PATCH = lazy_regex(r"patch rejected: ")
_COMMAND = lazy_regex(r'reject command\b|Rejected\(\\?"`(?P<command>.*)` rejected: ')


def refused_on_stderr(message: str) -> ToolCall | None:
    """The call whose refusal an error on stderr is about; None for any other error.

    >>> refused_on_stderr("patch rejected: writing is blocked by read-only sandbox").tool_name
    'apply_patch'
    """
    if _PATCH.search(message):
        return ToolCall(tool_name="apply_patch", tool=Tool.EDIT)
    if found := _COMMAND.search(message):
        command = found.group("command")
        return ToolCall(tool_name="shell", tool=Tool.SHELL, input={"command": command} if command else {})
    return None
