"""Folds the records of one session into events, turns and facts about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from backstory.agents import jsonl, numbers
from backstory.agents.turn_fold import TurnFold, TurnState, lengthen, remember
from backstory.agents.vibe.places import NAME
from backstory.agents.vibe.records import Change, Entry, Record, Snapshot, Usage, decoder, words_of
from backstory.agents.vibe.tools import facts_in, has_failed, path_in, result_text, tool_of
from backstory.bounds import added, less
from backstory.conversation.context import strip_context, typed_part
from backstory.lazy import lazy_regex
from backstory.model import (
    AssistantText,
    Compacted,
    Error,
    Event,
    Hook,
    Init,
    LogIdentity,
    Outcome,
    Parsed,
    Thinking,
    Tokens,
    Turn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SEEN_MAX = 2_000
"""The most entries that are remembered; for an older one the log is looked through."""
SUMMARIES_MAX = 8
OWED_MAX = 100
RUNNING = frozenset({"pending", "queued", "running", "in_progress", "awaiting_approval"})
"""States of an effect that has not ended."""
OUTCOMES = {
    "completed": Outcome.COMPLETED, "interrupted": Outcome.CANCELLED, "cancelled": Outcome.CANCELLED,
    "failed": Outcome.FAILED, "error": Outcome.FAILED,
}  # fmt: skip
TYPED = "turn_start"
"""The source of what a person typed to begin a turn."""
OWN = "harness"
"""The source of what the agent itself says, in whoever's place."""
_SUMMARY = lazy_regex(r"<compaction_summary>\n?(.*?)\n?</compaction_summary>", 16)
"""The summary in the model's context; a dot is a line break, too."""


class State(TurnState, kw_only=True):
    """The state of a reader between two readings: bounded, whatever the session's size."""

    seen: dict[str, int] = field(default_factory=dict)
    """The part of each entry that was said, by its id: the characters of its words, or 1 for an effect that ended."""
    newest: int = 0
    """The time when the newest entry was made."""
    model: str | None = None
    has_begun: bool = False
    latest: tuple[str, str] | None = None
    """The turn, by its own id, that the agent calls the latest, and its status."""
    total: Usage = field(default_factory=Usage)
    """The tokens of the session, as far as they were given to turns."""
    owed: dict[str, Tokens] = field(default_factory=dict)
    """Tokens of turns, by their own ids, whose prompts come behind."""
    summaries: dict[int, str] = field(default_factory=dict)
    """Summaries of compactions, by their lengths."""


class Reader(TurnFold[State]):
    """Folds one session. See ``contract.LogReader``."""

    def __init__(self, identity: LogIdentity, stored: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> None:
        super().__init__(NAME, identity, stored, State)
        self._earlier = earlier
        self._older: dict[str, int] | None = None

    def read(self, line: bytes, seq: int) -> Parsed:
        try:
            records = jsonl.decode(line, decoder)
        except jsonl.NotJson:
            return Parsed(None, [(0, self.unknown.emit("not JSON"))], self._turn_at(seq))
        at, events = None, list[Event]()
        for record in records:
            at = self._take(record, seq, events) or at
        self._settle()
        # What is said of the session, or given to the model, is of no turn: it comes before the turn that it is about.
        is_said = any(record.type is not None or record.payload is not None for record in records)
        return Parsed(at, list(enumerate(events)), self._turn_at(seq) if is_said else None)

    def _take(self, record: Record, seq: int, events: list[Event]) -> int | None:
        """Add the events of a record; returns its time."""
        if record.payload is not None:
            return self._changes(record.payload.delta, seq, events)
        if record.snapshot is not None:
            self._snapshot(record.snapshot)
        elif record.type is not None:
            return self._entry(record, seq, events)
        elif record.environment is not None:
            events += self._facts(record)
        elif record.turn_index is not None:
            self._context(record)
        else:
            events.append(self.unknown.emit("record without a type"))
        return None

    def _changes(self, changes: list[Change], seq: int, events: list[Event]) -> int | None:
        at = None
        for change in changes:
            if change.entry is not None:
                at = self._entry(change.entry, seq, events) or at
            if change.state is not None:
                self._snapshot(change.state)
            elif change.entry is None and change.op != "set_envelope":
                events.append(self.unknown.emit(f"journal/{change.op or 'change without a name'}"))
        return at

    # the session ------------------------------------------------------------------------------------------------------

    def _facts(self, record: Record) -> list[Event]:
        state, session = self._state, self._state.session
        session.cwd = (record.environment.working_directory if record.environment is not None else None) or session.cwd
        session.title = (record.title if isinstance(record.title, str) else "").strip() or session.title
        state.model = (record.config.model_name if record.config is not None else None) or state.model
        if record.git_branch:
            session.on_branch(record.git_branch)
        if state.has_begun:
            return []
        state.has_begun = True
        return [Init(cwd=session.cwd or "", model=state.model or "")]

    def _context(self, record: Record) -> None:
        """Take a message that the model is given: it says more than the conversation where it has a summary."""
        message = record.message if isinstance(record.message, dict) else {}
        found = _SUMMARY.search(words_of(message.get("content"))) if record.source == "injection" else None
        if found is not None:
            remember(self._state.summaries, len(found[1]), found[1], SUMMARIES_MAX)

    def _snapshot(self, snapshot: Snapshot) -> None:
        state, latest, session = self._state, snapshot.latest_turn, snapshot.session
        if session is not None and (title := (session.title or "").strip()):
            state.session.title = title
        if latest is None or latest.id is None:
            return
        state.latest = (latest.id, latest.status or "")
        if session is not None and session.token_usage is not None:
            self._owe(latest.id, session.token_usage, session.context_usage or Usage())

    def _owe(self, turn_id: str, total: Usage, context: Usage) -> None:
        """Give a turn the tokens that the session used since the last state that was seen."""
        state, before = self._state, self._state.total
        sent, cached, output = _amounts(total)
        sent_before, cached_before, output_before = _amounts(before)
        # An older state may be seen again: a sum of the session only grows.
        state.total = Usage(max(sent, sent_before), max(cached, cached_before), max(output, output_before))
        sent, cached, output = less(sent, sent_before), less(cached, cached_before), less(output, output_before)
        if not (sent or output):
            return
        more, owed = Tokens(input=less(sent, cached), output=output, cache_read=cached), state.owed.get(turn_id)
        more = more if owed is None else _sum(owed, more)
        largest = numbers.tokens(context.input_tokens, "contextUsage.inputTokens")
        more.largest_input = max(filter(None, (largest, owed.largest_input if owed else None)), default=None)
        remember(state.owed, turn_id, more, OWED_MAX)

    def _settle(self) -> None:
        """Note of the last turn what the state of the session says of it."""
        state, turn = self._state, self._state.turn
        if turn is None:
            return
        self._touched[turn.uid] = turn
        if (owed := state.owed.pop(turn.native_id, None)) is not None:
            largest = max(filter(None, (turn.tokens.largest_input, owed.largest_input)), default=None)
            turn.tokens = _sum(turn.tokens, owed)
            turn.tokens.largest_input, turn.tokens_source = largest, "reported"
        if state.latest is not None and state.latest[0] == turn.native_id:
            turn.outcome = OUTCOMES.get(state.latest[1])

    # the conversation -------------------------------------------------------------------------------------------------

    def _entry(self, entry: Entry, seq: int, events: list[Event]) -> int | None:
        at = numbers.time_ms(entry.created_at)
        said = self._said_of(entry, at or 0)
        match entry.type:
            case "message" if entry.role == "user":
                events += self._user(entry, said, at, seq)
            case "message" | "reasoning":
                events += self._words(entry, said)
            case "effect":
                events += self._effect(entry, said)
            case "checkpoint" if entry.kind == "compaction":
                events += self._compaction(entry, said)
            case "checkpoint" | "error" | "notice":
                events += self._notice(entry, said)
            case kind:
                events += [] if said else [self.unknown.emit(f"entry/{kind}")]
                self._note(entry, 1)
        turn = self._state.turn
        if turn is not None and turn.native_id == entry.turn_id:
            lengthen(turn, numbers.time_ms(entry.updated_at) or at)
        return at

    def _said_of(self, entry: Entry, at: int) -> int | None:
        """Return how much was said of an entry; None for a new one."""
        state, key = self._state, entry.id or ""
        said = state.seen.get(key)
        if said is None and len(state.seen) >= SEEN_MAX and at <= state.newest:
            said = self._long_ago().get(key)
        state.newest = max(state.newest, at)
        return said

    def _note(self, entry: Entry, said: int) -> None:
        remember(self._state.seen, entry.id or "", said, SEEN_MAX)

    def _long_ago(self) -> dict[str, int]:
        """The entries that were read before the state was kept."""
        if self._older is None:
            past = Reader(LogIdentity(native_id=self._native_id), None, tuple)
            seen = dict[str, int]()
            for line in self._earlier():
                past.read(line, 0)
                seen |= past._state.seen
                past._state.seen.clear()
            self._older = seen
        return self._older

    def _user(self, entry: Entry, said: int | None, at: int | None, seq: int) -> list[Event]:
        text = words_of(entry.content)
        if said is not None or not text.strip():
            return []
        self._note(entry, len(text))
        prompt = strip_context(text)
        if entry.source == OWN or not prompt.strip():
            return [Hook(name="context", output=text)]
        prompt, event = typed_part(prompt)
        turn = self._state.turn
        if entry.source != TYPED and turn is not None and turn.native_id == entry.turn_id:
            # Typed while the turn went on.
            return [event]
        begun = self._begin_turn(entry.turn_id or entry.id or "", prompt, at, seq)
        begun.model = self._state.model
        return [event]

    def _words(self, entry: Entry, said: int | None) -> list[Event]:
        text = words_of(entry.content) if entry.type == "message" else entry.text
        text = text if isinstance(text, str) else ""
        self._note(entry, len(text))
        new, events = text[said or 0 :], list[Event]()
        if new.strip():
            events.append(AssistantText(text=new) if entry.type == "message" else Thinking(text=new))
        self._end(entry, events, is_new=said is None)
        return events

    def _end(self, entry: Entry, events: list[Event], *, is_new: bool) -> None:
        """Note how the turn of an answer stands: after words of the model it may be over."""
        turn, outcome = self._turn_of(entry), entry.outcome
        if outcome is not None and outcome.type == "discarded":
            was_cancelled = outcome.cause in ("interrupt", "cancelled", "cancel")
            if is_new:
                events.append(Error(message=outcome.cause or "discarded", code="interrupted" if was_cancelled else ""))
            if turn is not None:
                turn.outcome = Outcome.CANCELLED if was_cancelled else Outcome.FAILED
        elif turn is not None:
            is_answer = entry.type == "message" and entry.generation_status == "completed"
            turn.outcome = Outcome.COMPLETED if is_answer else None

    def _turn_of(self, entry: Entry) -> Turn | None:
        turn = self._state.turn
        return turn if turn is not None and turn.native_id == entry.turn_id else None

    def _effect(self, entry: Entry, said: int | None) -> list[Event]:
        state, call_id, events = entry.state, entry.id or "", list[Event]()
        name = (entry.detail.tool_name if entry.detail is not None else None) or str(entry.title or "")
        if said is None:
            given = entry.detail.input if entry.detail is not None and isinstance(entry.detail.input, dict) else {}
            events.append(self._state.calls.open(call_id, name, tool_of(name), path_in(given), given))
            self._note(entry, 0)
        if said != 1 and state is not None and state.status is not None and state.status not in RUNNING:
            self._note(entry, 1)
            result = self._state.calls.close(call_id).result(call_id, result_text(state), is_error=has_failed(state))
            started, ended = numbers.time_ms(entry.created_at), numbers.time_ms(entry.updated_at)
            took = ended - started if started is not None and ended is not None and ended >= started else None
            events.append(msgspec.structs.replace(result, details=facts_in(state), duration_ms=took))
        if events and (turn := self._turn_of(entry)) is not None:
            turn.outcome = None
        return events

    def _compaction(self, entry: Entry, said: int | None) -> list[Event]:
        if entry.generation_status != "completed" or said == 1:
            return []
        self._note(entry, 1)
        length = entry.details.summary_length if entry.details is not None else None
        return [Compacted(summary=self._state.summaries.get(length, "") if isinstance(length, int) else "")]

    def _notice(self, entry: Entry, said: int | None) -> list[Event]:
        text = entry.message if isinstance(entry.message, str) else str(entry.title or "")
        if said is not None or not text.strip():
            return []
        self._note(entry, 1)
        if entry.type == "error":
            return [Error(message=text)]
        return [Hook(name=entry.kind or entry.type or "", output=text)]


def _amounts(usage: Usage) -> tuple[int, int, int]:
    """Input, cached input and output; what cannot be kept is lost."""
    found = (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens)
    return tuple(0 if each is None else each for each in found)  # type: ignore[return-value]


def _sum(one: Tokens, other: Tokens) -> Tokens:
    return Tokens(
        input=added(one.input, other.input), output=added(one.output, other.output),
        cache_read=added(one.cache_read, other.cache_read),
    )  # fmt: skip
