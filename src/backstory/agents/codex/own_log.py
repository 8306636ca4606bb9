"""The times and edits in the log of a run, for the items that ``codex exec --json`` prints.

The two share no ids. An item is found by what it says: a text by its words, a command by its line, an edit by the paths
that it changes. The same said twice is found in the order in which it was said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.agents import jsonl, numbers
from backstory.lazy import lazy_module
from backstory.model import (
    AssistantText,
    Complete,
    Event,
    Init,
    RunFacts,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backstory.agents.codex import records, tools
else:
    # Only the log of a run is read here.
    records = lazy_module("backstory.agents.codex.records")
    tools = lazy_module("backstory.agents.codex.tools")

Key = tuple[Hashable, ...]
_BEGIN: Key = ("begin",)
_END: Key = ("end",)


class OwnLogs:
    """See ``contract.OwnLogPart``."""

    def run_facts(self, stream: Iterable[tuple[int, bytes]], log: Iterable[bytes]) -> RunFacts:
        logged = _Logged()
        for line in log:
            logged.take(line)
        return _found_in(logged, stream)


class _Said(Struct):
    """An item of the log: when it began, when it ended, and what it changed."""

    began: int | None = None
    done: int | None = None
    changes: dict[str, Any] | None = None


class _Logged:
    """The items of a log, by content."""

    def __init__(self) -> None:
        self._said: dict[Key, deque[_Said]] = {}
        self._calls: dict[str, _Said] = {}

    def take(self, line: bytes) -> None:
        try:
            found = records.records_on(line)
        except jsonl.NotJson:
            return
        for record in found:
            self._record(record, numbers.time_ms(record.timestamp))

    def find(self, key: Key) -> _Said:
        """Return the first item not returned yet; an empty one if the log has none like it."""
        waiting = self._said.get(key)
        return waiting.popleft() if waiting else _Said()

    def _record(self, record: records.Record, at: int | None) -> None:
        match record:
            case records.SessionMetaLine():
                self._add(_BEGIN, at)
            case records.ResponseLine(payload=item):
                self._response(item, at)
            case records.EventLine(payload=records.EventMsg(type="task_complete" | "turn_complete")):
                self._add(_END, at)
            case records.EventLine(
                payload=records.EventMsg(type="item_completed", item=records.TurnItem() as item) as payload
            ):
                self._item(item, numbers.time_ms(payload.started_at_ms), at)
            case records.EventLine(payload=records.EventMsg(type="patch_apply_end") as payload):
                self._changed(payload.call_id, payload.changes, None, at)

    def _response(self, item: records.ResponseItem, at: int | None) -> None:
        call_id = item.call_id or item.id or ""
        if item.type == "message" and item.role == "assistant":
            self._add(("text", records.plain_text(item.content)), at)
        elif item.type == "reasoning":
            self._add(("thought", records.plain_text(item.summary) or records.plain_text(item.content)), at)
        elif item.type.endswith("_call"):
            name, given, _ = tools.call_of(item)
            is_shell = tools.TOOLS.get(item.name or name) == Tool.SHELL
            self._calls[call_id] = self._add(_command(given) if is_shell else ("call", name), at)
        elif item.type.endswith("_output") and call_id in self._calls:
            call = self._calls[call_id]
            call.done = call.done or at

    def _item(self, item: records.TurnItem, began: int | None, at: int | None) -> None:
        """Note an item's end, which may be a while after the model asked for it."""
        call = self._calls.get(item.id or "")
        match item.type:
            case "FileChange":
                self._changed(item.id, item.changes, began, at)
            case "McpToolCall":
                self._add(("call", f"{item.server or ''}.{item.tool or ''}"), began or _began(call), at)
            case "CommandExecution" if call is None:
                self._add(_command({"command": item.command}), began, at)
            case "CommandExecution" if call is not None:
                call.began, call.done = began or call.began, at

    def _changed(self, call_id: str | None, changes: Any, began: int | None, at: int | None) -> None:
        if isinstance(changes, dict):
            began = began or _began(self._calls.get(call_id or ""))
            self._add(_paths(changes), began, at).changes = changes

    def _add(self, key: Key, began: int | None, done: int | None = None) -> _Said:
        said = _Said(began, done)
        self._said.setdefault(key, deque()).append(said)
        return said


def _began(call: _Said | None) -> int | None:
    return None if call is None else call.began


def _found_in(logged: _Logged, stream: Iterable[tuple[int, bytes]]) -> RunFacts:
    from backstory.agents.codex.stream import StreamReader  # costs 0.6 ms, which most of ingest need not pay

    times: dict[int, int] = {}
    inputs: dict[int, dict[str, Any]] = {}
    reader, running = StreamReader(), dict[str, _Said]()
    for offset, line in stream:
        for _, event in reader.read(line).events:
            if isinstance(event, ToolResult):
                said = running.pop(event.tool_use_id, None) or _Said()
                at = said.done
            else:
                key = _key(event)
                said = _Said() if key is None else logged.find(key)
                at = said.began
            if isinstance(event, ToolCall):
                running[event.tool_use_id] = said
                if said.changes is not None:
                    inputs[offset] = {"changes": said.changes}
            if at is not None:
                times[offset] = at
    return RunFacts(times=times, inputs=inputs)


def _key(event: Event) -> Key | None:
    """Return the key of the printed item that an event is about."""
    match event:
        case Init():
            return _BEGIN
        case Complete():
            return _END
        case AssistantText(text=text):
            return "text", text
        case Thinking(text=text):
            return "thought", text
        case ToolCall(tool=Tool.SHELL, input=dict() as given):
            return _command(given)
        case ToolCall(tool=Tool.EDIT, input={"changes": list() as changes}):
            return _paths([each["path"] for each in changes if isinstance(each, dict) and "path" in each])
        case ToolCall(tool_name=name):
            return "call", name
        case _:
            return None


def _command(given: dict[str, Any]) -> Key:
    command = given.get("cmd") or given.get("command")
    if isinstance(command, list):
        words = [str(word) for word in command]
        return "command", words[-1] if len(words) == 3 and words[1] in ("-lc", "-c") else " ".join(words)
    return "command", tools.inner_command(command) if isinstance(command, str) else ""


def _paths(paths: Iterable[Any]) -> Key:
    return "change", frozenset(str(path) for path in paths)
