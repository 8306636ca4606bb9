"""What a session's events add up to: files touched, refs named, what came of calls, checkpoints.

Events come in the order of their log. A call counts when its result is there: only then is it known what it did. Calls
that still wait are few, and are kept with the log's state, so that it makes no difference in how many pieces a log is
read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backstory.bounds import INTEGER_MAX
from backstory.derive.facts import DerivedFacts, FoundCheckpoint, FoundResult, FoundTouch
from backstory.derive.ref_values import WRITTEN_MAX
from backstory.derive.text_refs import refs_in_text
from backstory.lazy import lazy_regex
from backstory.model import AssistantText, At, Compacted, FoundRef, Ref, ToolCall, ToolResult, UserMessage, encoded

if TYPE_CHECKING:
    from backstory.model import Event

WAITING_MAX = 200
"""The most calls that may wait for their results; the oldest give way."""
WAITING_INPUT_MAX = WRITTEN_MAX
"""A waiting call's input is kept up to about so many characters for each of its texts."""
_EXIT = lazy_regex(
    r"(?:\A|\n|<)(?:Process |Command |)(?:[Ee]xit(?:ed with)?(?: exit)? code:?|EXIT_CODE=) ?(-?\d{1,19})\b"
)
_EXIT_CHARS = 400


class _Waiting(Struct, frozen=True):
    where: At
    call: ToolCall


_pending = msgspec.json.Decoder(dict[str, _Waiting])


class Deriver:
    """Takes a log's events one by one. ``state`` is what an earlier one left."""

    def __init__(self, state: bytes | None = None) -> None:
        self._waiting: dict[str, _Waiting] = _pending.decode(state) if state else {}
        self._found = DerivedFacts()

    def take(self, event: Event, where: At, cwd: str | None) -> None:
        """Note what an event says. ``cwd`` is the session's folder."""
        match event:
            case UserMessage(content=text) | AssistantText(text=text):
                self._note(refs_in_text(text), where)
            case ToolCall():
                self._waiting[event.tool_use_id or f"{where.seq}.{where.part}"] = _Waiting(where, event)
                if len(self._waiting) > WAITING_MAX:
                    self._waiting.pop(next(iter(self._waiting)))
            case ToolResult():
                self._result(event, where, cwd)
            case Compacted() if event.summary.strip():
                self._found.checkpoints.append(FoundCheckpoint(where, event.summary))

    def cut(self, cwd: str | None) -> DerivedFacts:
        """What was found since the last cut; relative paths begin in ``cwd``."""
        found, self._found = self._found, DerivedFacts()
        if not found.touches:
            return found
        from backstory.derive.file_touches import place

        found.touches = [
            replace(each, path=place(each.path, cwd, None)[0], to=each.to and place(each.to, cwd, None)[0])
            for each in found.touches
        ]
        return found

    def state(self) -> bytes | None:
        """The calls that wait for their results; None when there are none."""
        if not self._waiting:
            return None
        return encoded({key: _shortened(waiting) for key, waiting in self._waiting.items()})

    def _result(self, result: ToolResult, where: At, cwd: str | None) -> None:
        waiting = self._waiting.pop(result.tool_use_id, None)
        if waiting is None:
            return
        # What shell commands touch and name is parsed where there are calls.
        from backstory.derive.file_touches import resolve_touches
        from backstory.derive.refs import refs_in_call

        call, at = waiting.call, waiting.where
        code = exit_code(result.content)
        is_error = result.is_error or bool(code)
        self._found.results.append(FoundResult((at.seq, at.part), (where.seq, where.part), is_error, code))
        for each in resolve_touches(call, result, cwd):
            self._found.touches.append(FoundTouch(at, each.path, each.action, each.tool, each.to))
        self._note(refs_in_call(call, result), at)

    def _note(self, refs: list[Ref], where: At) -> None:
        self._found.refs += [FoundRef(where, ref) for ref in refs]


def exit_code(output: str) -> int | None:
    """The exit code that a command's output names, at its beginning or its end.

    >>> exit_code("Exit code 2\\nno such file"), exit_code("ok")
    (2, None)
    """
    for text in (output[:_EXIT_CHARS], output[-_EXIT_CHARS:]):
        found = _EXIT.search(text) if "xit" in text or "EXIT" in text else None
        if found:
            code = int(found.group(1))
            return code if -INTEGER_MAX - 1 <= code <= INTEGER_MAX else None
    return None


def _shortened(waiting: _Waiting) -> _Waiting:
    """A waiting call without what a long text in its input holds: the state of a log stays small."""
    given = waiting.call.input
    if not isinstance(given, dict):
        return waiting
    short = {key: value[:WAITING_INPUT_MAX] if isinstance(value, str) else value for key, value in given.items()}
    return _Waiting(waiting.where, replace(waiting.call, input=short))
