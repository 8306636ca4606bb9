"""Sessions that the earliest builds kept as one JSON document each, written anew after every step.

It is ``{sessionId, startTime, chatMessages: [...], timeline: [...]}``, indented. Each element of its lists is a record
here, and so is what stands before the first and behind the last one: a record ends with the line that closes it, so a
document that was cut off still says what it says. One that is not indented is a single record.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct, field

from backstory import ids
from backstory.agents import jsonl, numbers
from backstory.agents.copilot.fold import Fold
from backstory.agents.copilot.values import as_text, attachments_in, hooks, plain_text
from backstory.conversation.context import strip_context
from backstory.lazy import lazy_regex
from backstory.model import AssistantText, Error, Event, Outcome, Parsed, UserMessage

_ROOT_KEYS = frozenset({"sessionId", "startTime", "chatMessages", "timeline", "selectedModel"})
_BOM = b"\xef\xbb\xbf"
_OPENING = lazy_regex(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:sessionId|startTime|chatMessages|timeline|selectedModel)"\s*:')
_INDENT = lazy_regex(rb'(?:\xef\xbb\xbf)?\{\r?\n([ \t]{1,16})"')
_SESSION = lazy_regex(rb'"sessionId"\s*:\s*"([^"\\]{1,200})"')
_STARTED = lazy_regex(rb'"startTime"\s*:\s*"([^"\\]{1,40})"')
_any = msgspec.json.Decoder()


class Piece(Struct, kw_only=True):
    """The content of a record: elements of the two lists, and the rest by its names."""

    rest: dict[str, Any] = field(default_factory=dict)
    messages: list[Any] = field(default_factory=list)
    entries: list[Any] = field(default_factory=list)
    is_end: bool = False
    """True if the document ends with it."""


def record_end(head: bytes) -> re.Pattern[bytes]:
    """Return the pattern of the last line of each record, from the document's beginning."""
    indent = _INDENT.match(head)
    element = rb"(?:%b\},?|\}|\{.*\})\s*\Z" % re.escape(indent.group(1) * 2) if indent else rb"\}\s*\Z|\{.*\}\s*\Z"
    return re.compile(element)


def session_of(head: bytes) -> str | None:
    """The id of the session whose document begins like this; None for another kind of document, "" without one."""
    if not _OPENING.match(head):
        return None
    found = _SESSION.search(head)
    return found.group(1).decode("utf-8", "replace") if found else ""


def started_ms(head: bytes) -> int:
    """Return the begin of the session, ms since 1970; 0 if the document's beginning does not give it."""
    found = _STARTED.search(head) if _OPENING.match(head) else None
    return ids.parse_time_ms(found.group(1).decode("utf-8", "replace")) or 0 if found else 0


def is_record(line: bytes) -> bool:
    """Return True if these bytes are a record of a document, not a line of a log."""
    # What nearly every line of a log begins with is looked at first.
    return not line.startswith(b'{"type":') and (b"\n" in line or _OPENING.match(line) is not None)


def is_closed(record: bytes) -> bool:
    """Return True if a document ends with these bytes."""
    first, _, last = record.rstrip().rpartition(b"\n")
    if first:
        return last == b"}"
    found = piece(record)
    return found is not None and found.is_end


def native_id_of(record: bytes) -> str | None:
    """The id of the one element that a record holds."""
    found = piece(record)
    elements = [*found.entries, *found.messages] if found is not None and not found.rest else []
    session_id = elements[0].get("id") if len(elements) == 1 and isinstance(elements[0], dict) else None
    return session_id if isinstance(session_id, str) and session_id else None


def piece(record: bytes) -> Piece | None:
    """Return the content of a record; None if it is no part of a document."""
    text = record.removeprefix(_BOM).strip(b"\0 \t\r\n").removesuffix(b",")
    goes_on = text.startswith(b"]")
    if goes_on:
        text = b"{" + text[1:].lstrip().removeprefix(b",")
    for ending in (b"", b"]}"):
        try:
            (found,) = jsonl.decode(text + ending, _any)
        except (jsonl.NotJson, ValueError):
            continue
        if goes_on or (isinstance(found, dict) and not _ROOT_KEYS.isdisjoint(found)):
            return _of_root(found, is_end=not ending)
        return _of_element(found)
    return None


def _of_root(root: dict[str, Any], *, is_end: bool) -> Piece:
    lists = {name: root.pop(name, None) for name in ("chatMessages", "timeline")}
    messages, entries = (each if isinstance(each, list) else [] for each in lists.values())
    return Piece(rest=root, messages=messages, entries=entries, is_end=is_end)


def _of_element(found: Any) -> Piece:
    # Which list it stands in is not on its lines: a message has a role, an entry a type.
    if isinstance(found, dict) and "role" in found and "type" not in found:
        return Piece(messages=[found])
    return Piece(entries=[found])


# document fold --------------------------------------------------------------------------------------------------------
# Sessions of the earliest builds: one document, with a timeline of what was on the screen.


_MESSAGES_BYTES_MAX = 4 * 1024 * 1024
"""The most bytes of a document's messages that wait for a timeline that repeats them."""
_ADDED = lazy_regex(r"\s*<(current_datetime|reminder)>.*?</\1>", re.DOTALL)
"""Text that the earliest builds put behind a prompt."""


class DocumentFold(Fold):
    """Folds the records of a session that is one document."""

    def _document(self, record: bytes, seq: int) -> Parsed:
        """A record of a document: what stands in it of its two lists, and what it says of the session."""
        state, found = self._state, piece(record)
        if found is None:
            return Parsed(None, [(0, self.unknown.emit("not JSON"))], self._turn_at(seq))
        at, events = numbers.time_ms(found.rest.get("startTime")), list[Event | None]()
        self._note_document(found.rest)
        if found.messages and not state.has_timeline:
            self._keep_messages(found.messages, len(record))
        for entry in found.entries:
            state.has_timeline, state.messages = True, []
            at = (numbers.time_ms(entry.get("timestamp")) if isinstance(entry, dict) else None) or at
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
