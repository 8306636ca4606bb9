"""Reads the rows of a session: events, turns, facts. See ``rows`` for their lines.

A prompt begins a turn, and a ``Complete`` ends one. What an agent was told before a prompt may stand in rows that an
early build wrote, whole or in pieces; it is no prompt. Calls and results are what AZUREAL keeps of them, so they are
marked as compact. What it says that a turn cost is not believed of models that it has one price of its own for.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.agents import jsonl, numbers
from backstory.agents.azureal import rows
from backstory.agents.azureal.places import NAME
from backstory.agents.turn_fold import TurnFold, TurnState
from backstory.conversation.context import FOREIGN_TAG, strip_context, typed_part
from backstory.model import (
    AssistantText,
    Command,
    Compacted,
    Complete,
    Event,
    Hook,
    Init,
    ModelSwitch,
    Outcome,
    Parsed,
    Plan,
    Tool,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:
    from backstory.model import LogIdentity, Turn

TOOLS = {
    "read": Tool.READ, "edit": Tool.EDIT, "multiedit": Tool.EDIT, "notebookedit": Tool.EDIT, "write": Tool.WRITE,
    "bash": Tool.SHELL, "grep": Tool.GREP, "glob": Tool.GLOB, "task": Tool.TASK, "agent": Tool.TASK,
    "webfetch": Tool.FETCH, "websearch": Tool.SEARCH,
}  # fmt: skip
_OPEN, _CLOSE = f"<{FOREIGN_TAG}>", f"</{FOREIGN_TAG}>"
_INSTRUCTIONS = "# AGENTS.md instructions for "
_NO_MODELS = ("", "unknown", "codex")
"""The values in the place of a model if none is known."""
_FLAT_PRICED = ("gpt-", "codex")
"""Models whose turns it prices itself."""
_NEEDED = {
    "UserMessage": "content", "AssistantText": "text", "ToolCall": "tool_name", "ToolResult": "content",
    "Plan": "content", "Command": "name", "ModelSwitch": "model",
}  # fmt: skip
_DIGEST_CHARS = 8
_PATH_MAX = 1_000


class Line(Struct):
    """A record of rows."""

    table: Any = ""
    timestamp: Any = None
    row: Any = None
    event: msgspec.Raw = msgspec.Raw(b"")
    bytes: Any = None


class _State(TurnState, kw_only=True):
    """The state of a reader between two readings: bounded, whatever the log's size."""

    model: str | None = None
    """The model that answers from here on, as far as it was said."""
    has_answered: bool = False
    """True if the turn that goes on holds anything but its prompt."""
    last_seq: int = 0
    """The number of the last record."""
    is_in_context: bool = False
    """True if the user messages that follow still belong to a context that began in an earlier one."""


_decoder = msgspec.json.Decoder(Line)
_any_decoder = msgspec.json.Decoder(Any)


def record(line: bytes) -> Line | None:
    """A line's record; None for one that is no JSON object."""
    return jsonl.first(line, _decoder)


class Reader(TurnFold[_State]):
    """Folds one session. See ``contract.LogReader``."""

    def __init__(self, identity: LogIdentity, state: bytes | None) -> None:
        super().__init__(NAME, identity, state, _State)

    def read(self, line: bytes, seq: int) -> Parsed:
        found = record(line)
        row = found.row if found is not None else None
        if found is None or not isinstance(row, dict):
            return Parsed(None, [(0, self.unknown.emit("not JSON"))], None)
        at = numbers.time_ms(found.timestamp) if isinstance(found.timestamp, str) else None
        before, self._state.last_seq = self._state.last_seq, seq
        match found.table:
            case rows.EVENTS:
                events = self._event(found, row, seq)
            case rows.COMPACTIONS:
                events = [_summary(_text(row.get("summary")), is_in_place=seq == before + 1)]
            case _:
                return Parsed(at, list(enumerate(self._fact(_text(found.table), row))), None)
        return Parsed(at, list(enumerate(events)), self._turn_at(seq) if events or self._state.turn else None)

    def _fact(self, table: str, row: dict[str, Any]) -> list[Event]:
        """Note what a line says of the session as a whole."""
        session, value = self._state.session, _text(row.get("value"))
        match table:
            case rows.PLACE:
                session.cwd = _text(row.get("cwd")) or None
            case rows.NAME:
                session.title = value or None
            case rows.WORKTREE if value:
                session.on_branch(value)
            case rows.SESSION | rows.WORKTREE:
                pass
            case _:
                return [self.unknown.emit(table or "not JSON")]
        return []

    def _event(self, found: Line, row: dict[str, Any], seq: int) -> list[Event]:
        kind, body = tagged(found)
        if not isinstance(body.get(_NEEDED.get(kind, "")), str) and kind in _NEEDED:
            # What lacks its text is skipped there.
            return [self.unknown.emit(f"{kind} without {_NEEDED[kind]}")]
        if kind == "UserMessage":
            return self._user(_text(body.get("content")), row, seq)
        self._state.is_in_context = False
        if kind in ("AssistantText", "ToolCall", "ToolResult", "Plan", "Complete"):
            self._state.has_answered = True
        match kind:
            case "ToolCall" | "ToolResult":
                return [_call(body) if kind == "ToolCall" else _result(body)]
            case "Init" | "ModelSwitch":
                return [self._begun(kind, body)]
            case "Complete":
                return [self._complete(body)]
        event = _plain_event(kind, body)
        return [event] if event is not None else self._odd(kind)

    def _odd(self, kind: str) -> list[Event]:
        # Of what its parser found nothing to show in nothing is shown here.
        return [] if kind == "Filtered" else [self.unknown.emit(kind or "not JSON")]

    def _user(self, content: str, row: dict[str, Any], seq: int) -> list[Event]:
        prompt = self._prompt(content)
        if prompt is None:
            return []
        if content.lstrip().startswith(_INSTRUCTIONS) and "<INSTRUCTIONS>" in content:
            return [Hook(name="instructions", output=content)]
        typed, event = typed_part(prompt)
        place = row.get("seq") if isinstance(row.get("seq"), int) else seq
        digest = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
        # With the prompt, because of two copies of a file that went on apart each has another turn at this place.
        turn = self._begin_turn(f"{self._native_id}/{place}/{digest}", typed, None, seq)
        turn.model, self._state.has_answered = self._state.model, False
        return [event]

    def _prompt(self, content: str) -> str | None:
        """A prompt as typed; None for a context, or a piece of one."""
        if self._state.is_in_context:
            _, end, rest = content.partition(_CLOSE)
            self._state.is_in_context = not end
            return rest.lstrip("\n") if rest.strip() else None
        prompt = strip_context(content)
        self._state.is_in_context = _OPEN in content and _CLOSE not in content
        return None if self._state.is_in_context or (not prompt.strip() and content.strip()) else prompt

    def _begun(self, kind: str, body: dict[str, Any]) -> Event:
        """A new process, or another model: what it says of the model counts for the turn that it begins."""
        model, turn, session = _text(body.get("model")), self._state.turn, self._state.session
        if session.cwd is None and kind == "Init":
            # A file that lies in no worktree does not say by its place where it was written.
            session.cwd = _text(body.get("cwd")) or None
        if model not in _NO_MODELS:
            self._state.model = model
            if turn is not None and not self._state.has_answered and kind == "Init":
                turn.model = model
        return Init(cwd=_text(body.get("cwd")), model=model) if kind == "Init" else ModelSwitch(model=model)

    def _complete(self, body: dict[str, Any]) -> Event:
        success = body.get("success") is True
        # It writes 0 where nothing was said.
        duration_ms = numbers.count(body.get("duration_ms"), "duration_ms") or None
        cost_usd = numbers.amount(body.get("cost_usd"), "cost_usd") or None
        turn = self._state.turn
        if turn is not None:
            turn.outcome = Outcome.COMPLETED if success else Outcome.FAILED
            turn.duration_ms = duration_ms
            self._pay(turn, cost_usd)
        return Complete(success=success, duration_ms=duration_ms, cost_usd=cost_usd)

    def _pay(self, turn: Turn, cost_usd: float | None) -> None:
        if cost_usd is not None and turn.model is not None and not turn.model.startswith(_FLAT_PRICED):
            turn.cost_usd, turn.cost_source = cost_usd, "reported"


def _summary(text: str, *, is_in_place: bool) -> Event:
    """A summary of all before it. One that came when what follows it was here already has a number behind that."""
    return Compacted(summary=text) if is_in_place else Hook(name="summary", output=text)


def tagged(found: Line) -> tuple[str, dict[str, Any]]:
    """The kind of an event and what it holds."""
    value = _decoded(found)
    if isinstance(value, str):
        return value, {}
    if not isinstance(value, dict) or len(value) != 1:
        return "", {}
    ((kind, body),) = value.items()
    return kind, body if isinstance(body, dict) else {}


def _decoded(found: Line) -> Any:
    try:
        if not isinstance(found.bytes, str):
            return _any_decoder.decode(found.event)
        (value,) = jsonl.patiently(base64.b64decode(found.bytes, validate=True))
    except (ValueError, msgspec.DecodeError, RecursionError):
        return None
    return value


def _plain_event(kind: str, body: dict[str, Any]) -> Event | None:
    """The event of a kind that says all by itself; None for one that is not known."""
    name = _text(body.get("name"))
    match kind:
        case "AssistantText":
            return AssistantText(text=_text(body.get("text")))
        case "Plan":
            return Plan(name=name, content=_text(body.get("content")))
        case "Hook":
            return Hook(name=name, output=_text(body.get("output")))
        case "Command":
            return Command(name=name)
        case "Compacting" | "Compacted":
            # Both are banners: its agent had replaced its own context.
            return Compacted()
        case "MayBeCompacting":
            return Hook(name=kind, output="")
    return None


def _call(body: dict[str, Any]) -> ToolCall:
    name, given = _text(body.get("tool_name")), body.get("input")
    return ToolCall(
        tool_use_id=_text(body.get("tool_use_id")),
        tool_name=name,
        tool=_tool(name),
        file_path=_path(body),
        input=given if isinstance(given, dict) else {},
        is_compact=True,
    )


def _result(body: dict[str, Any]) -> ToolResult:
    name = _text(body.get("tool_name"))
    return ToolResult(
        tool_use_id=_text(body.get("tool_use_id")),
        tool_name=name,
        tool=_tool(name),
        file_path=_path(body),
        content=_text(body.get("content")),
        is_error=body.get("is_error") is True,
        is_compact=True,
    )


def _tool(name: str) -> str:
    return TOOLS.get(name.lower(), Tool.OTHER)


def _path(body: dict[str, Any]) -> str | None:
    return _text(body.get("file_path"))[:_PATH_MAX] or None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
