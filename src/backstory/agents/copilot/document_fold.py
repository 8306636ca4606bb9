"""Sessions of the earliest builds: one document, with a timeline of what was on the screen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from backstory.agents.copilot import document
from backstory.agents.copilot.fold import Fold
from backstory.agents.copilot.values import as_text, as_time_ms, attachments_in, hooks, plain_text
from backstory.conversation.context import strip_context
from backstory.lazy import lazy_regex
from backstory.model import (
    AssistantText,
    Error,
    Event,
    Outcome,
    Parsed,
    UserMessage,
)

if TYPE_CHECKING:
    pass

_MESSAGES_BYTES_MAX = 4 * 1024 * 1024
"""The most bytes of a document's messages that wait for a timeline that repeats them."""
_ADDED = lazy_regex(r"\s*<(current_datetime|reminder)>.*?</\1>", re.DOTALL)
"""Text that the earliest builds put behind a prompt."""


class DocumentFold(Fold):
    """Folds the records of a session that is one document."""

    def _document(self, record: bytes, seq: int) -> Parsed:
        """A record of a document: what stands in it of its two lists, and what it says of the session."""
        state, found = self._state, document.piece(record)
        if found is None:
            return Parsed(None, [(0, self.unknown.emit("not JSON"))], self._turn_at(seq))
        at, events = as_time_ms(found.rest.get("startTime")), list[Event | None]()
        self._note_document(found.rest)
        if found.messages and not state.has_timeline:
            self._keep_messages(found.messages, len(record))
        for entry in found.entries:
            state.has_timeline, state.messages = True, []
            at = (as_time_ms(entry.get("timestamp")) if isinstance(entry, dict) else None) or at
            events += self._entry(entry if isinstance(entry, dict) else {}, at, seq)
            self._turn_at(seq)
        if found.is_end and not state.has_timeline:
            messages, state.messages = state.messages, []
            for message in messages:
                events += self._message(message, seq)
                self._turn_at(seq)
        return Parsed(at, [(part, event) for part, event in enumerate(events) if event is not None], self._turn_at(seq))

    def _keep_messages(self, messages: list[Any], size: int) -> None:
        self._state.messages_bytes += size
        if self._state.messages_bytes <= _MESSAGES_BYTES_MAX:
            self._state.messages += [each for each in messages if isinstance(each, dict)]

    def _note_document(self, rest: dict[str, Any]) -> None:
        state = self._state
        state.selected = as_text(rest.get("selectedModel")) or state.selected
        if state.turn is not None:
            state.turn.model = state.turn.model or state.selected

    def _entry(self, entry: dict[str, Any], at: int | None, seq: int) -> list[Event | None]:
        """Return the events of a timeline's entry; None in the place of an event that was emitted before."""
        kind, text = as_text(entry.get("type")), as_text(entry.get("text"))
        match kind:
            case "user":
                events: list[Event | None] = [*self._typed(entry, text, at, seq)]
            case "copilot":
                events = [AssistantText(text=text)] if text else []
            case "tool_call_requested" | "tool_call_completed":
                events = self._entry_call(kind, entry)
            case "info" | "warning":
                events = [*hooks(kind, text)]
            case "error":
                events = [Error(message=text)]
            case _:
                events = [self.unknown.emit(kind or "entry without a type")]
        self._note_entry(kind, [each for each in events if each is not None], at)
        return events

    def _typed(self, entry: dict[str, Any], text: str, at: int | None, seq: int) -> list[Event]:
        typed = strip_context(text)
        prompt = typed if typed.strip() else attachments_in(entry.get("imageAttachments"))
        if not prompt:
            return hooks("context", text)
        self._begin_prompt(as_text(entry.get("id")), prompt, at, seq)
        self._note_document({})
        return [UserMessage(content=prompt)]

    def _entry_call(self, kind: str, entry: dict[str, Any]) -> list[Event | None]:
        """A call with its result, which takes the second place also when the call came from another entry."""
        data = {name: entry.get(old) for name, old in (("toolCallId", "callId"), ("toolName", "name"))}
        call = self._started({**data, "arguments": entry.get("arguments")})
        if kind == "tool_call_requested":
            return [*call]
        result = entry.get("result")
        is_known = isinstance(result, dict)
        content = plain_text(result.get("log")) if isinstance(result, dict) else plain_text(result)
        is_good = not isinstance(result, dict) or result.get("type") == "success"
        done = self._result({**data, "success": is_good, "result": {"content": content}})
        return [call[0] if call else None, done if is_known or content else None]

    def _note_entry(self, kind: str, events: list[Event], at: int | None) -> None:
        turn = self._state.turn
        if turn is not None and kind == "copilot":
            turn.outcome = Outcome.COMPLETED
        elif turn is not None and kind == "error":
            turn.outcome = Outcome.FAILED
        elif turn is not None and kind.startswith("tool_call"):
            turn.outcome = None
        self._note_end(events, at)

    def _message(self, message: dict[str, Any], seq: int) -> list[Event]:
        """Return the events of a message to or from the model, in a document that has nothing better."""
        text = plain_text(message.get("content"))
        match message.get("role"):
            case "user":
                prompt = strip_context(_ADDED.sub("", text)).strip()
                if not prompt:
                    return hooks("context", text)
                self._begin_prompt("", prompt, None, seq)
                return [UserMessage(content=prompt)]
            case "assistant":
                said: list[Event] = [AssistantText(text=text)] if text else []
                calls = message.get("tool_calls")
                for each in calls if isinstance(calls, list) else []:
                    function = each.get("function") if isinstance(each, dict) else None
                    if isinstance(function, dict):
                        given = function.get("arguments")
                        said += self._call(as_text(each.get("id")), as_text(function.get("name")), given)
                return said
            case "tool":
                return [self._result({"toolCallId": message.get("tool_call_id"), "result": {"content": text}})]
            case "system" | "developer":
                return []
            case _:
                return [self.unknown.emit("message without a role")]
