"""Folds the entries of one log into events, turns and facts about the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from backstory.agents import jsonl, numbers
from backstory.agents.pi.places import NAME
from backstory.agents.pi.records import Block, Line, Message, Usage, decoder, ids_decoder, words_of
from backstory.agents.turn_fold import OpenCall, TurnFold, TurnState, end_of, lengthen, remember
from backstory.bounds import added
from backstory.conversation.context import strip_context, typed_part
from backstory.model import (
    PARTIAL,
    AssistantText,
    Command,
    Compacted,
    Error,
    Event,
    Hook,
    Init,
    LogIdentity,
    ModelSwitch,
    Outcome,
    Parsed,
    Thinking,
    Tokens,
    Tool,
    ToolCall,
    Turn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

KEPT = frozenset({"custom", "label", "thinking_level_change"})
"""Types of entries that say nothing that is shown; their bytes are kept."""
TOOLS = {
    "read": Tool.READ, "edit": Tool.EDIT, "write": Tool.WRITE, "bash": Tool.SHELL, "grep": Tool.GREP,
    "find": Tool.GLOB, "ls": Tool.GLOB,
}  # fmt: skip
SAID = ("user", "assistant", "toolResult")
PROMPTS_KNOWN_MAX = 2_000
"""The most prompts to which a later one can go back."""
Place = tuple[str | None, int | None]
"""The turn, by its uid, and the record of an entry; both None before the first prompt."""


class State(TurnState, kw_only=True):
    """The state of a reader between two readings: bounded, whatever the log's size."""

    last_id: str | None = None
    last_place: Place = (None, None)
    last_role: str = ""
    last_time: int | None = None
    """The time of the last message, as the message itself has it."""
    prompts: dict[str, tuple[str, int]] = field(default_factory=dict)
    """The turn and the record of each prompt, by its entry's id."""
    model: str | None = None
    has_cost: bool = True
    """False if a request of the turn has none."""


class Reader(TurnFold[State]):
    """Folds one log. See ``contract.LogReader``."""

    def __init__(self, identity: LogIdentity, stored: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> None:
        super().__init__(NAME, identity, stored, State)
        self._earlier = earlier
        self._places: dict[str, Place] = {}

    def read(self, line: bytes, seq: int) -> Parsed:
        try:
            records = jsonl.decode(line, decoder)
        except jsonl.NotJson:
            return Parsed(None, [(0, self.unknown.emit("not JSON"))], self._turn_at(seq))
        at, events = None, list[Event]()
        for record in records:
            at = numbers.time_ms(record.timestamp)
            events += self._entry(record, at, seq)
        return Parsed(at, list(enumerate(events)), self._turn_at(seq))

    def _entry(self, record: Line, at: int | None, seq: int) -> list[Event]:
        if record.type == "session":
            return self._header(record)
        above = self._above(record)
        if record.type == "message":
            events = self._message(record, record.message or Message(), at, seq, above)
        else:
            events = self._beside(record)
        turn = self._state.turn
        is_said = record.message is not None and record.message.role in SAID
        # What goes back in the tree and begins no turn leaves the next prompt there.
        goes_on = turn is not None and (is_said or above[0] == turn.uid)
        self._stand(record.id, (turn.uid, seq) if turn is not None and goes_on else above)
        return events

    # the tree -----------------------------------------------------------------------------------------------

    def _above(self, record: Line) -> Place:
        """The place of the entry that this one follows."""
        state = self._state
        if record.id is None or record.parent_id == state.last_id:
            # The oldest logs have no ids: each entry follows the one before it.
            return state.last_place
        if record.parent_id is None:
            return (None, None)
        found = self._places.get(record.parent_id) or state.prompts.get(record.parent_id)
        return found or self._long_ago(record.parent_id)

    def _long_ago(self, entry: str) -> Place:
        """The place of an entry that was read before the state was kept: records are counted from its turn's prompt."""
        parents, order = dict[str, str | None](), dict[str, int]()
        for line in self._earlier():
            known = jsonl.first(line, ids_decoder)
            if known is not None and known.id is not None:
                parents[known.id], order[known.id] = known.parent_id, len(order)
        above: str | None = entry
        while above is not None and above not in self._state.prompts and above in order:
            # A parent that comes later would lead around in a circle.
            parent = parents[above]
            above = parent if parent is None or order.get(parent, len(order)) < order[above] else None
        if above is None or above not in order:
            return (None, None) if entry in order else self._state.last_place
        uid, first = self._state.prompts[above]
        return (uid, first + order[entry] - order[above])

    def _stand(self, entry: str | None, place: Place) -> None:
        """Note where the log stands after an entry: the next prompt follows it."""
        state = self._state
        state.last_id, state.last_place = entry, place
        if entry is not None:
            self._places[entry] = place
        uid, seq = place
        is_newest = state.turn is None or uid == state.turn.uid
        state.session.leaf = None if is_newest or uid is None or seq is None else (uid, seq)

    def _begin(self, record: Line, prompt: str, at: int | None, seq: int, above: Place) -> None:
        state = self._state
        # An id is unique in its session only, and a fork keeps both.
        native_id = f"{record.id}@{record.timestamp}" if record.id else ""
        is_next = record.parent_id == state.last_id and above[0] == end_of(state.turn)[0]
        parent = None if is_next or record.id is None else above
        turn = self._begin_turn(native_id, prompt, at, seq, parent)
        turn.model, state.has_cost = state.model, True
        if record.id:
            remember(state.prompts, record.id, (turn.uid, seq), PROMPTS_KNOWN_MAX)

    # entries ------------------------------------------------------------------------------------------------

    def _header(self, record: Line) -> list[Event]:
        """Take the first line; another one stands where two sessions were put into one file."""
        state = self._state
        state.session.cwd = state.session.cwd or record.cwd
        state.last_id, state.last_place = None, (None, None)
        return [Init(cwd=record.cwd or "")]

    def _beside(self, record: Line) -> list[Event]:
        state = self._state
        match record.type:
            case "model_change":
                before, state.model = state.model, record.model_id or state.model
                is_other = before is not None and before != state.model
                return [ModelSwitch(model=state.model or "")] if is_other else []
            case "session_info":
                state.session.title = (record.name or "").strip() or None
                return []
            case "compaction":
                return [Compacted(summary=record.summary or "")]
            case "branch_summary":
                return [Hook(name="branch summary", output=record.summary or "")]
            case "custom_message":
                return [Hook(name=record.custom_type or "custom message", output=words_of(record.content))]
            case kind:
                return [] if kind in KEPT else [self.unknown.emit(kind or "record without a type")]

    def _message(self, record: Line, message: Message, at: int | None, seq: int, above: Place) -> list[Event]:
        state, made = self._state, numbers.time_ms(message.timestamp)
        match message.role:
            case "user":
                events = self._user(record, message, at, seq, above)
            case "assistant":
                events = self._answer(message, at)
            case "toolResult":
                events = self._result(message, at)
            case "bashExecution":
                # The person typed it behind a "!": the model had no part in it.
                mark = "!!" if message.exclude_from_context else "!"
                return [Command(name=f"{mark} {message.command or ''}", output=message.output or "")]
            case "system":
                # The model's instructions, which the agent wrote.
                return []
            case "custom" | "hookMessage":
                return [Hook(name=message.custom_type or "custom message", output=words_of(message.content))]
            case "branchSummary":
                return [Hook(name="branch summary", output=words_of(message.content))]
            case "compactionSummary":
                return [Compacted(summary=words_of(message.content))]
            case role:
                return [self.unknown.emit(f"message/{role}")]
        state.last_role, state.last_time = message.role, made
        return events

    def _user(self, record: Line, message: Message, at: int | None, seq: int, above: Place) -> list[Event]:
        text = words_of(message.content)
        prompt = strip_context(text)
        if not prompt.strip():
            return [Hook(name="context", output=text)] if text.strip() else []
        prompt, event = typed_part(prompt)
        if self._is_given_meanwhile(message, record):
            return [event]
        self._begin(record, prompt, at, seq, above)
        return [event]

    def _is_given_meanwhile(self, message: Message, record: Line) -> bool:
        """Return True if the words were typed while a tool ran, and given to the model with its result."""
        state, typed = self._state, numbers.time_ms(message.timestamp)
        is_next = record.parent_id == state.last_id and state.turn is not None
        if not is_next or state.last_role != "toolResult" or typed is None or state.last_time is None:
            return False
        return typed < state.last_time

    def _answer(self, message: Message, at: int | None) -> list[Event]:
        turn, events = self._state.turn, list[Event]()
        if isinstance(message.content, str):
            events += [AssistantText(text=message.content)] if message.content.strip() else []
        else:
            for block in message.content or ():
                events += self._block(Block(type="text", text=block) if isinstance(block, str) else block)
        if turn is not None:
            turn.model = self._state.model = message.model or self._state.model
            turn.stop_reason = message.stop_reason or turn.stop_reason
            lengthen(turn, at)
            self._count(turn, message)
        match message.stop_reason:
            case "error":
                events.append(Error(message=message.error_message or "the request failed"))
            case "aborted":
                events.append(Error(message=message.error_message or "aborted", code="interrupted"))
        if turn is not None:
            turn.outcome = _outcome(message.stop_reason)
        return events

    def _block(self, block: Block) -> list[Event]:
        match block.type:
            case "text":
                return [AssistantText(text=block.text)] if block.text and block.text.strip() else []
            case "thinking":
                return [Thinking(text=block.thinking)] if block.thinking else []
            case "toolCall":
                given = block.arguments if isinstance(block.arguments, dict) else {}
                return [self._call(block.id or "", block.name or "", given)]
            case "image":
                return [AssistantText(text="[image]")]
            case kind:
                return [self.unknown.emit(f"assistant/{kind}")]

    def _call(self, call_id: str, name: str, given: dict[str, object]) -> ToolCall:
        path = given.get("path")
        tool = TOOLS.get(name, Tool.OTHER)
        return self._state.calls.open(call_id, name, tool, path if isinstance(path, str) else None, given)

    def _result(self, message: Message, at: int | None) -> list[Event]:
        call_id, name = message.tool_call_id or "", message.tool_name or ""
        call = self._state.calls.by_id.pop(call_id, None) or OpenCall(name, TOOLS.get(name, Tool.OTHER))
        result = call.result(call_id, words_of(message.content), is_error=message.is_error is True)
        details = bytes(message.details)
        if details not in (b"", b"{}", b"null"):
            result = msgspec.structs.replace(result, details=details.decode("utf-8", "replace"))
        if self._state.turn is not None:
            lengthen(self._state.turn, at)
            self._state.turn.outcome = None
        return [result]

    # tokens -------------------------------------------------------------------------------------------------

    def _count(self, turn: Turn, message: Message) -> None:
        """Add a request's tokens and cost; of one that was broken off the agent knows neither."""
        usage = message.usage or Usage()
        spent = Tokens(
            input=numbers.tokens(usage.input, "input_tokens"),
            output=numbers.tokens(usage.output, "output_tokens"),
            cache_read=numbers.tokens(usage.cache_read, "cache_read_tokens"),
            cache_write=numbers.tokens(usage.cache_write, "cache_write_tokens"),
            reasoning=numbers.tokens(usage.reasoning, "reasoning_tokens"),
        )
        sent = added(spent.input, spent.cache_read, spent.cache_write)
        if not sent and not spent.output:
            if message.stop_reason in ("aborted", "error"):
                turn.tokens_source = PARTIAL
            return
        before = turn.tokens
        turn.tokens = Tokens(
            input=added(before.input, spent.input),
            output=added(before.output, spent.output),
            cache_read=added(before.cache_read, spent.cache_read),
            cache_write=added(before.cache_write, spent.cache_write),
            reasoning=before.reasoning if spent.reasoning is None else added(before.reasoning, spent.reasoning),
            largest_input=numbers.largest_input(before, sent),
        )
        turn.tokens_source = turn.tokens_source or "reported"
        self._pay(turn, numbers.amount(usage.cost.total if usage.cost else None, "cost_usd"))

    def _pay(self, turn: Turn, cost: float | None) -> None:
        # A model whose price the agent does not know costs 0 there.
        self._state.has_cost = self._state.has_cost and bool(cost)
        is_known = self._state.has_cost and cost is not None
        turn.cost_usd = (turn.cost_usd or 0) + cost if is_known and cost is not None else None
        turn.cost_source = "reported" if is_known else None


def _outcome(stop_reason: str | None) -> Outcome | None:
    match stop_reason:
        case "error":
            return Outcome.FAILED
        case "aborted":
            return Outcome.CANCELLED
        case None | "toolUse":
            return None
        case _:
            return Outcome.COMPLETED


def id_of(line: bytes) -> str | None:
    """The id of an entry; of the first line that of its session."""
    found = jsonl.first(line, ids_decoder)
    return found.id if found is not None else None
