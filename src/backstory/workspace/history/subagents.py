"""The subagent that a call started: its result names it, or it began with the words that the call gave it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from backstory.export.native_log import ID_CHARS_MIN
from backstory.model import Relation, Tool, ToolCall, ToolResult
from backstory.workspace.history.entries import entries_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.workspace.history.blocks import ShownEntry
    from backstory.workspace.located import LocatedSession

PROMPT_CHARS_MIN = 12
"""A shorter prompt may be that of several."""


class ComingSession(Protocol):
    """The part of a session that tells where in another one it began."""

    @property
    def uid(self) -> str: ...
    @property
    def relation(self) -> str | None: ...
    @property
    def native_id(self) -> str | None: ...
    @property
    def shown_title(self) -> str: ...


class Subagents:
    """The subagents among the sessions that come from one, each by the call that started it."""

    def __init__(self, located: LocatedSession, children: Sequence[ComingSession]) -> None:
        self._located = located
        self._children = [each for each in children if each.relation == Relation.SUBAGENT]
        self._prompts: dict[str, str] | None = None

    def started_by(self, shown: ShownEntry) -> ComingSession | None:
        """The subagent that a call started; None for any other call, and where nothing says which."""
        call = shown.event
        if not self._children or not isinstance(call, ToolCall) or call.tool != Tool.TASK:
            return None
        return self._named_by(shown) or self._begun_with(shown, call)

    def _named_by(self, shown: ShownEntry) -> ComingSession | None:
        if shown.answer is None or shown.answer.seq is None:
            return None
        for entry in entries_of(self._located, [shown.answer.seq], "full"):
            result = entry.event
            if isinstance(result, ToolResult) and entry.outline.part == shown.answer.part:
                for each in self._children:
                    own_id = (each.native_id or "").rpartition("/")[2]
                    if len(own_id) >= ID_CHARS_MIN and own_id in result.content:
                        return each
        return None

    def _begun_with(self, shown: ShownEntry, call: ToolCall) -> ComingSession | None:
        if self._prompts is None:
            self._prompts = {each.uid: _first_prompt(self._located, each) for each in self._children}
        for entry in entries_of(self._located, [shown.key[0]], "full"):
            if entry.outline.part == shown.key[1] and isinstance(entry.event, ToolCall):
                given = _texts(entry.event.input)
                for each in self._children:
                    if self._prompts[each.uid] in given:
                        return each
        return None


def _first_prompt(located: LocatedSession, child: ComingSession) -> str:
    """The words with which a subagent began; a text that nobody gives where they are few or elsewhere."""
    if not located.store.has(child.uid):
        return "\0"
    turns = located.store.turns(located.store.session(child.uid))
    prompt = turns[0].prompt.strip() if turns else ""
    return prompt if len(prompt) >= PROMPT_CHARS_MIN else "\0"


def _texts(given: Any) -> set[str]:
    values = given.values() if isinstance(given, dict) else [given]
    return {each.strip() for each in values if isinstance(each, str)}
