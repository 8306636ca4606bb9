"""Folds the messages of one log into events, turns and facts about the session.

A message may come again, when a later version of its document has it in another form: only what is new in it counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory import bounds
from backstory.agents import documents, jsonl, numbers
from backstory.agents.cline.places import NAME
from backstory.agents.cline.records import (
    Block,
    Message,
    Metrics,
    blocks_of,
    decoder,
    head_decoder,
    ids_decoder,
)
from backstory.agents.cline.tools import path_in, result_of, tool_of
from backstory.agents.turn_fold import TurnFold, TurnState, lengthen
from backstory.conversation.context import strip_context, typed_part
from backstory.lazy import lazy_regex
from backstory.model import (
    AssistantText,
    Compacted,
    Event,
    Hook,
    Init,
    LogIdentity,
    Outcome,
    Parsed,
    Relation,
    Thinking,
    Turn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_RECENT = 32
"""The last messages that a state remembers; those before them are found in the lines again."""
_TYPED = lazy_regex(r"<user_input\b[^>]*>(.*)</user_input>", 16)
_NOTICE = lazy_regex(r"\s*<mode_notice\b[^>]*>.*?</mode_notice>\s*", 16)
_SUMMARY = "Context summary:"

Slots = list[Event | None]
"""The events of a message, each at the place that it has in the message alone; None for one that was told before."""


class Seen(Struct, array_like=True):
    """The parts of a message that its forms so far had."""

    blocks: int = 0
    tokens: tuple[int, int, int, int] = (0, 0, 0, 0)
    turn: str | None = None
    """The turn that it belongs to, by its uid."""


class State(TurnState, kw_only=True):
    """The state of a reader between two readings: bounded, whatever the log's size."""

    recent: dict[str, Seen] = field(default_factory=dict)
    repeats: bool = False
    """True if the present version has messages anew that stood there before."""
    has_begun: bool = False
    is_marked: bool = False
    """True if what a person typed is marked in this log."""


class Reader(TurnFold[State]):
    """Folds one log. See ``contract.LogReader``."""

    def __init__(self, identity: LogIdentity, stored: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> None:
        super().__init__(NAME, identity, stored, State)
        self._is_subagent = identity.relation == Relation.SUBAGENT
        self._seen = dict(self._state.recent)
        self._earlier = earlier if stored else None

    def _storable(self) -> State:
        recent = dict(list(self._seen.items())[-_RECENT:])
        return msgspec.structs.replace(super()._storable(), recent=recent)

    def read(self, line: bytes, seq: int) -> Parsed:
        found = documents.record(line)
        if not found.content:
            self._state.repeats = found.repeats
            return Parsed(None, [], None)
        try:
            if not found.is_element:
                return Parsed(None, self._around(found.content), None)
            (message, *more) = jsonl.decode(found.content, decoder)
        except jsonl.NotJson:
            return Parsed(None, [(0, self.unknown.emit("not JSON"))], self._turn_at(seq))
        if more:
            return Parsed(None, [(0, self.unknown.emit("several messages in one"))], self._turn_at(seq))
        at = numbers.time_ms(message.ts)
        events = [(part, event) for part, event in enumerate(self._message(message, at, seq)) if event is not None]
        return Parsed(at, events, self._turn_at(seq) if events else None)

    def _around(self, content: bytes) -> list[tuple[int, Event]]:
        (head, *_) = jsonl.decode(content, head_decoder)
        version = head.origin.version if head.origin is not None else None
        session = self._state.session
        session.agent_version = version or session.agent_version
        if self._state.has_begun:
            return []
        self._state.has_begun = True
        return [(0, Init(version=version or ""))]

    # what is known of a message ---------------------------------------------------------------------------------------

    def _before(self, message: Message) -> Seen:
        """Return the parts of a message that were told; none if it comes for the first time."""
        key = message.id or ""
        if self._state.repeats and key not in self._seen and self._earlier is not None:
            self._look_back()
        return self._seen.get(key, Seen())

    def _look_back(self) -> None:
        """Read the lines before the state's once more, for a message that may be one of theirs."""
        assert self._earlier is not None
        earlier, self._earlier = self._earlier, None
        recent, self._seen = self._seen, {}
        for line in earlier():
            found = documents.record(line)
            try:
                messages = jsonl.decode(found.content, decoder) if found.is_element else []
            except jsonl.NotJson:
                continue
            for message in messages:
                self._note(message, self._seen.get(message.id or "", Seen()))
        self._seen = {key: seen for key, seen in self._seen.items() if key not in recent} | recent

    def _note(self, message: Message, before: Seen, turn: Turn | None = None) -> None:
        if message.id:
            # The last ones that were met are those that a state remembers.
            self._seen.pop(message.id, None)
            self._seen[message.id] = Seen(
                max(before.blocks, len(blocks_of(message.content))),
                _counts(message.metrics) if message.metrics is not None else before.tokens,
                turn.uid if turn is not None else before.turn,
            )

    def _message(self, message: Message, at: int | None, seq: int) -> Slots:
        before = self._before(message)
        blocks = blocks_of(message.content)
        match message.role:
            case "user":
                slots = self._user(message, blocks, before, at, seq)
            case "assistant":
                slots = self._answer(message, blocks, before, at, seq)
            case role:
                slots = [self.unknown.emit(f"message/{role}")]
        self._note(message, before, self._state.turn if not before.blocks else None)
        return slots

    # a person, and results --------------------------------------------------------------------------------------------

    def _user(self, message: Message, blocks: list[Block], before: Seen, at: int | None, seq: int) -> Slots:
        slots: Slots = []
        texts = [block.text or "" for block in blocks if block.type == "text"]
        images = [block for block in blocks if block.type in ("image", "file")]
        for block in blocks[before.blocks :]:
            if block.type == "tool_result":
                slots.append(self._result(block, at))
            elif block.type not in ("text", "image", "file"):
                slots.append(self.unknown.emit(f"block/{block.type}"))
        told: Slots = [None] * before.blocks
        if before.blocks:
            return told + slots
        text = "\n".join(filter(None, texts))
        if text.strip() or (images and not slots):
            slots.append(self._typed(message, text or "[image]", bool(slots), at, seq))
        return slots

    def _typed(self, message: Message, text: str, has_results: bool, at: int | None, seq: int) -> Event:
        state, marked = self._state, _TYPED.search(text)
        if marked is None and state.turn is not None and (state.is_marked or has_results or self._is_subagent):
            # The client says this to the model.
            return Compacted(summary=text) if text.startswith(_SUMMARY) else Hook(name="client", output=text)
        state.is_marked = state.is_marked or marked is not None
        said = _NOTICE.sub("\n", marked[1]).strip() if marked is not None else text
        prompt = strip_context(said)
        if not prompt.strip():
            return Hook(name="context", output=text)
        prompt, event = typed_part(prompt)
        self._begin_turn(f"{self._native_id}/{message.id}" if message.id else "", prompt, at, seq)
        return event

    def _result(self, block: Block, at: int | None) -> Event:
        words, failed = result_of(block.content)
        turn = self._state.turn
        if turn is not None:
            lengthen(turn, at)
        return self._state.calls.close(block.tool_use_id).result(
            block.tool_use_id, words, is_error=failed or block.is_error is True
        )

    # the model --------------------------------------------------------------------------------------------------------

    def _answer(self, message: Message, blocks: list[Block], before: Seen, at: int | None, seq: int) -> Slots:
        state = self._state
        # A log may begin in the midst of a conversation whose prompt it does not hold.
        turn = state.turn or self._begin_turn(f"{self._native_id}/{message.id}" if message.id else "", "", at, seq)
        slots: Slots = [None] * before.blocks
        for block in blocks[before.blocks :]:
            slots.append(self._block(block))
        if before.turn in (None, turn.uid):
            # Its tokens count also where the message has no event.
            self._touch(turn, seq)
            turn.model = (message.model.id if message.model is not None else None) or turn.model
            if message.metrics is not None:
                _add(turn, message.metrics, before)
            if not before.blocks or len(blocks) > before.blocks:
                is_end = not any(block.type == "tool_use" for block in blocks)
                turn.outcome = Outcome.COMPLETED if is_end and any(slots) else None
                lengthen(turn, at)
        return slots

    def _block(self, block: Block) -> Event | None:
        match block.type:
            case "text":
                return AssistantText(text=block.text) if block.text and block.text.strip() else None
            case "thinking":
                return Thinking(text=block.thinking) if block.thinking and block.thinking.strip() else None
            case "tool_use":
                given = block.input if isinstance(block.input, dict) else {}
                return self._state.calls.open(block.id, block.name, tool_of(block.name), path_in(given), given)
            case "redacted_thinking":
                return None
            case kind:
                return self.unknown.emit(f"block/{kind}")


def _counts(metrics: Metrics) -> tuple[int, int, int, int]:
    """The input, the output and the cached parts of the input of a request."""
    read, output, cached, written = (
        numbers.tokens(each, name) or 0
        for each, name in (
            (metrics.input_tokens, "inputTokens"), (metrics.output_tokens, "outputTokens"),
            (metrics.cache_read_tokens, "cacheReadTokens"), (metrics.cache_write_tokens, "cacheWriteTokens"),
        )
    )  # fmt: skip
    return read, output, cached, written


def _add(turn: Turn, metrics: Metrics, before: Seen) -> None:
    """Add a request's tokens to its turn's; those of an earlier form of its message are in them already."""
    tokens, counts = turn.tokens, _counts(metrics)
    if counts == before.tokens:
        return
    if not any(before.tokens):
        tokens.largest_input = numbers.largest_input(tokens, counts[0])
    read, output, cached, written = (
        bounds.less(now, then) if now < bounds.LOST else now for now, then in zip(counts, before.tokens, strict=True)
    )
    tokens.input = bounds.added(tokens.input, bounds.less(bounds.less(read, cached), written))
    tokens.output = bounds.added(tokens.output, output)
    tokens.cache_read = bounds.added(tokens.cache_read, cached)
    tokens.cache_write = bounds.added(tokens.cache_write, written)
    turn.tokens_source = "reported"
    cost = numbers.amount(metrics.cost, "cost")
    if cost and not any(before.tokens):
        turn.cost_usd, turn.cost_source = (turn.cost_usd or 0.0) + cost, "reported"


def id_of(line: bytes) -> str | None:
    """The id of the message on a line of what is kept; None for other lines."""
    found = documents.record(line)
    ids = jsonl.first(found.content, ids_decoder) if found.is_element else None
    return ids.id or None if ids is not None else None
