"""Folds the records of one file into events, turns and facts about the session.

A record may come several times: answered, then with its calls, and after a resume once more in a list of all that is
still in the conversation. Its first dress counts, and of each later one what the earlier ones did not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory import ids
from backstory.agents import jsonl, numbers
from backstory.agents.gemini import prompts
from backstory.agents.gemini.places import NAME
from backstory.agents.gemini.records import Call, Changes, Line, Message, Usage, decoder, plain_text
from backstory.agents.gemini.tools import has_failed, path_in, result_text, tool_of, unframed
from backstory.agents.turn_fold import TurnFold, TurnState, end_of, lengthen, remember
from backstory.bounds import LOST, added, less
from backstory.model import (
    AssistantText,
    Error,
    Event,
    Hook,
    LogIdentity,
    Outcome,
    Parsed,
    Relation,
    Thinking,
    Tokens,
    Tool,
    Turn,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_RECENT = 32
"""The last records that a state remembers; those before them are found in the log's lines again."""
_PROMPTS = 64
_CANCELLED = "Request cancelled"
_LAST_CALL = "complete_task"
"""With which a subagent hands over what it came to."""


Slots = list[Event | None]
"""The events of a record, each at the place that it has in the record alone; None for one that was told before."""


class Seen(Struct, array_like=True):
    """The parts of a record that its dresses so far had."""

    has_text: bool = False
    has_thoughts: bool = False
    calls: int = 0
    last_call: str = ""
    tokens: Usage | None = None


class State(TurnState, kw_only=True):
    """The state of a reader between two readings: bounded, whatever the log's size."""

    recent: dict[str, Seen] = field(default_factory=dict)
    newest: int = 0
    """The time of the newest record."""
    prompts: dict[str, tuple[str | None, int | None]] = field(default_factory=dict)
    """The place that each of the last prompts follows: a turn, by its uid, and its last record."""
    behind: tuple[str | None, int | None] | None = None
    """The place that the next prompt follows, where that is not the end of the last turn."""


class Reader(TurnFold[State]):
    """Folds one file. See ``contract.LogReader``."""

    def __init__(self, identity: LogIdentity, stored: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> None:
        super().__init__(NAME, identity, stored, State)
        self._is_subagent = identity.relation == Relation.SUBAGENT
        self._seen = dict(self._state.recent)
        self._known_from = self._state.newest
        self._earlier = earlier if stored else None

    def _storable(self) -> State:
        recent = dict(list(self._seen.items())[-_RECENT:])
        return msgspec.structs.replace(super()._storable(), recent=recent)

    def read(self, line: bytes, seq: int) -> Parsed:
        try:
            lines = jsonl.decode(line, decoder)
        except jsonl.NotJson:
            return Parsed(None, [(0, self.unknown.emit("not JSON"))], self._turn_at(seq))
        at: int | None = None
        slots: Slots = []
        for each in lines:
            found_at, found = self._line(each, seq)
            at, slots = found_at or at, slots + found
        events = [(part, event) for part, event in enumerate(slots) if event is not None]
        return Parsed(at, events, self._turn_at(seq) if events else None)

    def _line(self, line: Line, seq: int) -> tuple[int | None, Slots]:
        if line.set is not None:
            return self._changes(line.set, seq)
        if line.rewind_to is not None:
            self._state.behind = self._state.prompts.get(line.rewind_to, self._state.behind)
            return None, []
        if line.type is None and line.session_id is not None:
            # One in mid-file is that of a client which goes on with the session.
            self._note_folder(line.directories[0] if line.directories else None)
            return None, []
        return self._message(line, seq)

    def _changes(self, changes: Changes, seq: int) -> tuple[int | None, Slots]:
        if isinstance(changes.summary, str) and changes.summary.strip() and not self._is_subagent:
            self._state.session.title = changes.summary.strip()
        at: int | None = None
        slots: Slots = []
        for message in changes.messages or ():
            found_at, found = self._message(message, seq)
            slots += found
            at = found_at if any(found) else at
        self._note_active([message.id for message in changes.messages or () if message.id in self._state.prompts])
        return at, slots

    def _note_active(self, listed: list[str | None]) -> None:
        """Note the place that the next prompt follows, from the prompts that are still in the conversation."""
        if not listed or (turn := self._state.turn) is None:
            return
        last = ids.turn_uid(NAME, listed[-1] or "")
        dropped = (place for place in self._state.prompts.values() if place[0] == last)
        self._state.behind = None if last == turn.uid else next(dropped, None)

    def _note_folder(self, folder: str | None) -> None:
        self._state.session.cwd = self._state.session.cwd or folder

    def _message(self, message: Message, seq: int) -> tuple[int | None, Slots]:
        at = numbers.time_ms(message.timestamp)
        self._look_back(message, at)
        self._state.newest = max(self._state.newest, at or 0)
        match message.type:
            case "user":
                return at, self._user(message, at, seq)
            case "gemini":
                return self._answer(message, at, seq)
            case "info" | "warning" | "error":
                return at, self._notice(message, at)
            case kind:
                return at, [self.unknown.emit(kind or "record without a type")]

    # what is known of a record ----------------------------------------------------------------------------------------

    def _look_back(self, message: Message, at: int | None) -> None:
        """Read the lines before the state's once more, for a record that may be one of theirs."""
        if self._earlier is None or message.id in self._seen or (at is not None and at > self._known_from):
            return
        earlier, self._earlier = self._earlier, None
        recent, self._seen = self._seen, {}
        for line in earlier():
            try:
                lines = jsonl.decode(line, decoder)
            except jsonl.NotJson:
                continue
            for each in lines:
                for one in (each, *((each.set.messages or ()) if each.set is not None else ())):
                    self._news(one)
        self._seen = {key: seen for key, seen in self._seen.items() if key not in recent} | recent

    def _is_new(self, message: Message) -> bool:
        """Return True if a record comes for the first time."""
        return message.id is None or self._news(message) is not None

    def _news(self, message: Message) -> tuple[Seen, Seen] | None:
        """Return what of a record was seen before and now; None where that is the same."""
        key = message.id
        if key is None:
            return None
        before = self._seen.get(key)
        old = before or Seen()
        calls = message.calls or []
        now = Seen(
            has_text=old.has_text or bool(message.type == "gemini" and plain_text(message.content).strip()),
            has_thoughts=old.has_thoughts or bool(message.thoughts),
            calls=max(old.calls, len(calls)),
            last_call=calls[-1].id if len(calls) > old.calls else old.last_call,
            tokens=message.tokens or old.tokens,
        )
        # The last ones that were met are those that a state remembers.
        self._seen.pop(key, None)
        self._seen[key] = now
        return None if now == before else (old, now)

    # a person, and the client -----------------------------------------------------------------------------------------

    def _user(self, message: Message, at: int | None, seq: int) -> Slots:
        text = plain_text(message.content)
        if prompts.is_context(text):
            self._note_folder(prompts.folder_in(text))
            return []
        untyped = prompts.untyped(text, message.content)
        if not self._is_new(message):
            return [None] * (1 if untyped is None else len(untyped))
        if untyped is not None:
            return list(untyped)
        prompt = prompts.typed(message)
        self._begin(message, prompt, at, seq)
        return [UserMessage(content=prompt)]

    def _begin(self, message: Message, prompt: str, at: int | None, seq: int) -> Turn:
        place, self._state.behind = self._state.behind or end_of(self._state.turn), None
        if message.id is not None:
            remember(self._state.prompts, message.id, place, _PROMPTS)
        return self._begin_turn(message.id or "", prompt, at, seq, place)

    def _notice(self, message: Message, at: int | None) -> Slots:
        text = plain_text(message.content)
        if not text.strip():
            return []
        if not self._is_new(message):
            return [None]
        turn = self._state.turn
        if message.type == "error":
            self._end(turn, Outcome.FAILED, at)
            return [Error(message=text)]
        if text.startswith(_CANCELLED):
            self._end(turn, Outcome.CANCELLED, at)
            return [Error(message=text, code="interrupted")]
        return [Hook(name=message.type or "", output=text)]

    def _end(self, turn: Turn | None, outcome: Outcome, at: int | None) -> None:
        if turn is not None:
            turn.outcome = outcome
            lengthen(turn, at)

    # the model --------------------------------------------------------------------------------------------------------

    def _answer(self, message: Message, at: int | None, seq: int) -> tuple[int | None, Slots]:
        before = self._seen.get(message.id or "", Seen())
        news = self._news(message)
        calls, text = message.calls or [], plain_text(message.content)
        words = (filter(None, (each.subject, each.description)) for each in message.thoughts or ())
        thoughts = [thought for each in words if (thought := "\n".join(map(str, each))).strip()]
        slots: Slots = [None if before.has_thoughts else Thinking(text=each) for each in thoughts]
        if text.strip():
            slots.append(None if before.has_text else AssistantText(text=text))
        told = self._told(calls, before)
        for call in calls[:told]:
            slots += self._call(call, is_told=True)
        if news is None:
            return at, slots
        # A log may begin in the midst of a conversation whose prompt it does not hold.
        turn = self._state.turn or self._begin(message, "", at, seq)
        # Its tokens count also where the record has no event.
        self._touched[turn.uid] = turn
        for call in calls[told:]:
            slots += self._call(call, is_told=False)
            at = max(at or 0, numbers.time_ms(call.timestamp) or 0) or None
        turn.model = message.model or turn.model
        if message.tokens is not None and message.tokens != before.tokens:
            turn.tokens = _with_usage(turn.tokens, message.tokens, before.tokens)
            turn.tokens_source = "reported"
        if any(slots):
            is_end = calls[-1].name == _LAST_CALL if calls else text.strip() and _is_all(text, message.tokens)
            turn.outcome = Outcome.COMPLETED if is_end else None
            lengthen(turn, at)
        return at, slots

    def _told(self, calls: list[Call], before: Seen) -> int:
        """Return the number of calls that earlier dresses had: those come first, in the same order."""
        if not before.calls:
            return 0
        return next((at + 1 for at, call in enumerate(calls) if call.id == before.last_call), 0)

    def _call(self, call: Call, *, is_told: bool) -> Slots:
        """Return a call, and its result if it has ended, which an earlier dress may not have had."""
        given = call.args if isinstance(call.args, dict) else {}
        slots: Slots = [None]
        if not is_told:
            slots = [self._state.calls.open(call.id, call.name, tool_of(call), path_in(given), given)]
        if call.result is None and call.status not in ("success", "error", "cancelled"):
            return slots
        if call.id not in self._state.calls.by_id:
            return [*slots, None]
        content, opened = result_text(call), self._state.calls.close(call.id)
        said = unframed(content) if opened.tool == Tool.SHELL else content
        return [*slots, opened.result(call.id, said, is_error=has_failed(call, opened.tool, content))]


def _is_all(text: str, tokens: Usage | None) -> bool:
    """Return True if an answer's text may be all that the model said.

    A token is a byte at least. Where there were more of them the model called a tool, too, and a call is written only
    when it has ended: one that was interrupted is nowhere.
    """
    said = tokens.output or 0 if tokens is not None else 0
    return said == LOST or said <= len(text.encode("utf-8", "replace"))


def _with_usage(tokens: Tokens, usage: Usage, before: Usage | None) -> Tokens:
    """A turn's tokens with those of a request; ``before``: the part of them that was counted with an earlier dress."""
    read, output = (LOST if each is None else each for each in (usage.input, usage.output))
    read = added(read, usage.tool)
    cached, thoughts, largest = usage.cached or 0, usage.thoughts or 0, tokens.largest_input
    if before is None:
        largest = numbers.largest_input(tokens, read)
    else:
        read = less(read, added(before.input, before.tool))
        output, cached = less(output, before.output or 0), less(cached, before.cached or 0)
        thoughts = less(thoughts, before.thoughts or 0)
    return Tokens(
        # What came from a cache is counted as input too.
        input=added(tokens.input, less(read, cached)),
        # Thoughts are output, and counted beside it.
        output=added(tokens.output, output, thoughts),
        cache_read=added(tokens.cache_read, cached),
        reasoning=added(tokens.reasoning, thoughts),
        largest_input=largest,
    )
