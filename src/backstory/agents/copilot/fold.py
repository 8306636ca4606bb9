"""Folds a session record by record: turns, calls, tokens."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field, structs

from backstory.agents import numbers, turn_fold
from backstory.agents.copilot.places import NAME
from backstory.agents.copilot.tools import (
    EDITOR_COMMANDS,
    TOOLS,
    arguments_in,
    edited_path,
    exit_code_of,
    path_in,
    result_text,
)
from backstory.agents.copilot.values import as_text, tokens_in
from backstory.agents.turn_fold import TurnFold, TurnState, lengthen, remember
from backstory.bounds import LOST, added
from backstory.model import (
    HOST_TYPE,
    PARTIAL,
    Command,
    Compacted,
    Event,
    FoundRef,
    Hook,
    Init,
    LogIdentity,
    ModelSwitch,
    Plan,
    Thinking,
    Tokens,
    Tool,
    Turn,
    Unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable

HELPERS_MAX = 500
"""The most helpers of a session that are known at once."""


class Helpers(Struct):
    """The calls that began the helpers of a session, by the helpers' ids."""

    calls: dict[str, str] = field(default_factory=dict)

    def named(self, events: list[Event], kind: str, data: dict[str, Any], helper: Any) -> list[Event]:
        """Return the events of a helper's record, with the call by which it is at work if that is known."""
        parent, own = data.get("parentToolCallId"), helper if isinstance(helper, str) else ""
        if kind == "subagent.started" and own and isinstance(call_id := data.get("toolCallId"), str):
            remember(self.calls, own, call_id, HELPERS_MAX)
        call_id = parent if isinstance(parent, str) else self.calls.get(own, "")
        return [
            msgspec.structs.replace(each, tool_use_id=call_id) if isinstance(each, Hook) else each for each in events
        ]


class State(TurnState, kw_only=True):
    """The state of a reader between two readings: bounded, whatever the log's size."""

    helpers: Helpers = field(default_factory=Helpers)
    has_prompts: bool = False
    """True if the session has begun to be used since it was started: until then, choosing a model switches none."""
    selected: str | None = None
    routed: str | None = None
    """The model that ``auto`` was last turned into."""
    thought: tuple[str, str] = ("", "")
    """The kind of record that held the last thinking, and its digest: some builds write it twice."""
    is_running: bool = False
    has_answered: bool = False
    has_receipts: bool = False
    answer: tuple[str, int] = ("", 0)
    """The last request without a receipt and its output tokens: an answer may come in several records."""
    total: Tokens = field(default_factory=Tokens)
    counted: Tokens = field(default_factory=Tokens)
    """The tokens given to turns since that total was written."""
    turns_counted: int = 0
    counted_before: list[Tokens] = field(default_factory=list)
    """The tokens counted since that total before each turn that began since, but for the first of very many."""
    latency: turn_fold.Total = field(default_factory=turn_fold.Total)
    messages: list[Any] = field(default_factory=list)
    """A document's messages, for as long as it has no timeline."""
    messages_bytes: int = 0
    has_timeline: bool = False
    first_id: str = ""
    recent_ids: list[str] = field(default_factory=list)
    """The ids of the last records."""
    has_copies: bool = False


TURNS_COUNTED_MAX, RECENT_IDS = 64, 16
_BESIDE = (Hook, Command, Init, ModelSwitch, Compacted, Unknown)


class Fold(TurnFold[State]):
    """The facts of a session, whatever form its records have. See ``contract.LogReader``."""

    def __init__(self, identity: LogIdentity, state: bytes | None) -> None:
        super().__init__(NAME, identity, state, State)
        self._refs: list[FoundRef] = []

    def _note_place(self, context: Any) -> None:
        if isinstance(context, dict):
            session = self._state.session
            session.cwd = session.cwd or as_text(context.get("cwd")) or None
            if branch := as_text(context.get("branch")):
                session.on_branch(branch)
            session.repository = as_text(context.get("repository")) or session.repository
            session.note_value(HOST_TYPE, as_text(context.get("hostType") or context.get("host_type")))

    def _select(self, model: str) -> list[Event]:
        if not model or model == self._state.selected:
            return []
        self._state.selected, self._state.routed = model, None
        return [ModelSwitch(model=model)] if self._state.has_prompts else []

    def _begin_prompt(self, native_id: str, prompt: str, at: int | None, seq: int) -> None:
        self._state.turns_counted += 1
        # What is counted grows where it is.
        self._state.counted_before.append(msgspec.structs.replace(self._state.counted))
        del self._state.counted_before[:-TURNS_COUNTED_MAX]
        # A prompt may come while the agent works: then it goes on working, for this one.
        self._state.has_answered, self._state.has_prompts = False, True
        self._begin_turn(native_id, prompt, at, seq)

    def _thinking(self, kind: str, text: str) -> list[Event]:
        """Return the thinking, unless the last thinking is the same, from a record of the other kind."""
        if not text:
            return []
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        last, self._state.thought = self._state.thought, (kind, digest)
        return [] if last[1] == digest and last[0] != kind else [Thinking(text=text)]

    def _requests(self, data: dict[str, Any]) -> list[Event]:
        requests = data.get("toolRequests")
        asked = [each for each in requests if isinstance(each, dict)] if isinstance(requests, list) else []
        events: list[Event] = []
        for each in asked:
            events += self._call(as_text(each.get("toolCallId")), as_text(each.get("name")), each.get("arguments"))
        return events

    def _typed_command(self, data: dict[str, Any]) -> Command:
        """A shell command that the user typed after a ``!``; the model had no part in it."""
        self._started(data)
        command = as_text(arguments_in(data.get("arguments")).get("command"))
        return Command(name=f"! {command or as_text(data.get('toolName'))}")

    def _started(self, data: dict[str, Any]) -> list[Event]:
        """A call that no answer asked for, such as one that code of the model's makes."""
        call_id = as_text(data.get("toolCallId"))
        if call_id in self._state.calls.by_id:
            return []
        return self._call(call_id, as_text(data.get("toolName")), data.get("arguments"))

    def _call(self, call_id: str, name: str, arguments: Any) -> list[Event]:
        given = arguments_in(arguments)
        tool, path = TOOLS.get(name, Tool.OTHER), path_in(given)
        if name == "str_replace_editor":
            tool = EDITOR_COMMANDS.get(as_text(given.get("command")), tool)
        call = self._state.calls.open(call_id, name, tool, path, given)
        plan = as_text(given.get("summary")) if name == "exit_plan_mode" else ""
        return [call, Plan(name=name, content=plan)] if plan else [call]

    def _result(self, data: dict[str, Any]) -> Event:
        call_id = as_text(data.get("toolCallId"))
        call = self._state.calls.close(call_id)
        content = result_text(data)
        if data.get("isUserRequested") is True:
            return Command(name="", output=content)
        call.path = call.path or edited_path(data.get("fileEdits"))
        is_error = data.get("success") is False or exit_code_of(data, call.tool, content) != 0
        return call.result(call_id, content, is_error=is_error)

    def _note_end(self, events: list[Event], at: int | None) -> None:
        if (turn := self._state.turn) is None:
            return
        for event in events:
            # What comes when a turn is over, such as a warning or another model, does not make it longer.
            if not isinstance(event, _BESIDE):
                lengthen(turn, at)
                return

    def _note_receipt(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            usage = {}
        self._state.has_receipts = True
        self._count(tokens_in(usage))
        self._give_latency(usage.get("duration"))
        turn = self._state.turn
        if turn is not None and not usage.get("parentToolCallId"):
            turn.model = as_text(usage.get("model")) or turn.model
            turn.stop_reason = as_text(usage.get("finishReason")) or turn.stop_reason

    def _note_answer_tokens(self, data: dict[str, Any]) -> None:
        """The output tokens of a request that has no receipt; each of its records may have them."""
        output = numbers.tokens(data.get("outputTokens"), "outputTokens")
        if output is None or self._state.has_receipts:
            return
        key = as_text(data.get("apiCallId")) or as_text(data.get("messageId"))
        last, before = self._state.answer
        known = before if key and key == last else 0
        self._state.answer = (key, max(known, output))
        more = LOST if output == LOST else max(output - known, 0)
        # Nearly every answer comes here, so nothing is made anew.
        self._state.counted.output = added(self._state.counted.output, more)
        if self._state.turn is not None:
            self._state.turn.tokens.output = added(self._state.turn.tokens.output, more)
            self._state.turn.tokens_source = self._state.turn.tokens_source or "reported"
            self._note_unknown_input(self._state.turn)

    def _note_compaction_tokens(self, data: dict[str, Any]) -> None:
        window, turn = numbers.count(data.get("tokenLimit"), "context_window"), self._state.turn
        if window and turn is not None:
            turn.context_window = window
        used = data.get("compactionTokensUsed")
        if isinstance(used, dict):
            self._give(tokens_in(used))
            if turn is not None:
                self._note_unknown_input(turn)
            # Without receipts the time of the turn's other requests is not known.
            self._give_latency(used.get("duration") if self._state.has_receipts else None)

    def _note_unknown_input(self, turn: Turn) -> None:
        """Note that a request without a receipt has no known input until the process gives its total."""
        if self._state.counted.output and not self._state.has_receipts and turn.tokens.input is not None:
            turn.tokens_source = PARTIAL

    def _note_totals(self, metrics: Any, latency_ms: Any) -> None:
        """Note the total of a process: it gives the tokens that its requests did not count."""
        if not isinstance(metrics, dict) or not metrics:
            return
        state, total = self._state, Tokens()
        for each in metrics.values():
            usage = each.get("usage") if isinstance(each, dict) else None
            total = sum_of(total, tokens_in(usage if isinstance(usage, dict) else {}))
        grown = since(total, state.total, state.counted)
        total_ms = numbers.count(latency_ms, "api_latency_ms")
        lasted_ms = state.latency.grown_ms(total_ms, state.turns_seen, is_anew=grown is total)
        if not state.has_receipts:
            self._give_latency(lasted_ms)
        counted, turns_counted = self._counted_by(grown)
        rest = above_zero(difference(grown, counted))
        # A total without what was counted does not say what the rest of that is.
        is_short = _has_less(grown, counted)
        if any(msgspec.structs.astuple(rest)):
            self._give(rest)
            if state.turn is not None and state.turn.model is None and len(metrics) == 1:
                # A turn that failed before its first answer names no model, and now holds this one's tokens.
                state.turn.model = next(iter(metrics))
            if state.turn is not None and is_short:
                state.turn.tokens_source = PARTIAL
            elif state.turn is not None and turns_counted > 1:
                state.turn.tokens_source = "run"
            elif state.turn is not None and turns_counted == 1:
                state.turn.tokens_source = "reported"
        elif state.turn is not None and state.turn.tokens_source and not is_short:
            # A zero that is written is known, too.
            self._give(rest)
        self._count_anew(total)

    def _count_anew(self, total: Tokens) -> None:
        state = self._state
        state.total, state.counted, state.turns_counted, state.counted_before = total, Tokens(), 0, []

    def _counted_by(self, total: Tokens) -> tuple[Tokens, int]:
        """Return the part of a total that was counted, and the number of turns with it.

        Of one that lacks what was counted that is what its own process counted, if it went on with a session that
        another left, or read it anew: the last turns, whose output is just its.
        """
        state = self._state
        if _has_less(total, state.counted):
            for place, before in enumerate(state.counted_before):
                own = difference(state.counted, before)
                if own.output == total.output:
                    return own, len(state.counted_before) - place
        return state.counted, state.turns_counted

    def _count(self, tokens: Tokens) -> None:
        self._state.counted = sum_of(self._state.counted, tokens)
        self._give(tokens)

    def _give(self, tokens: Tokens) -> None:
        turn = self._state.turn
        if turn is not None:
            turn.tokens = sum_of(turn.tokens, tokens)
            turn.tokens_source = turn.tokens_source or "reported"

    def _give_latency(self, total: Any) -> None:
        """Add how long the model took for a request to the turn that it was for."""
        lasted_ms, turn = numbers.count(total, "api_latency_ms"), self._state.turn
        if lasted_ms is not None and turn is not None:
            turn.api_latency_ms = added(lasted_ms, turn.api_latency_ms)


def _has_less(total: Tokens, counted: Tokens) -> bool:
    """Return True if requests were counted that a total does not hold."""
    return (total.output or 0) < (counted.output or 0)


# token sums -----------------------------------------------------------------------------------------------------------
# Arithmetic with the tokens of a turn, each kind for itself.


def each(how: Callable[[int | None, int | None], int | None], one: Tokens, other: Tokens) -> Tokens:
    """Every kind of ``one`` with that of ``other``."""
    return Tokens(**{name: how(getattr(one, name), getattr(other, name)) for name in Tokens.__struct_fields__})


def sum_of(one: Tokens, other: Tokens) -> Tokens:
    """Both together."""
    return each(lambda this, that: that if this is None else added(this, that), one, other)


def difference(one: Tokens, other: Tokens) -> Tokens:
    """Return the part by which ``one`` is larger, which may be below zero."""
    return each(_less, one, other)


def _less(this: int | None, that: int | None) -> int | None:
    if this is None:
        return None
    return LOST if LOST in (this, that) else this - (that or 0)


def above_zero(tokens: Tokens) -> Tokens:
    """The same without what is below zero."""
    return each(lambda this, _: None if this is None else max(this, 0), tokens, tokens)


def since(total: Tokens, before: Tokens, counted: Tokens) -> Tokens:
    """By how much a process's total grew; ``total`` itself where it was counted anew.

    It starts again at zero where a session is not resumed but read anew, as after a rewind: then it has shrunk, or it
    is nearer to what was counted since than its growth is.
    """
    grown = difference(total, before)
    output = counted.output or 0
    has_shrunk = any(each is not None and each < 0 for each in structs.astuple(grown))
    is_anew = abs((total.output or 0) - output) < abs((grown.output or 0) - output)
    return total if has_shrunk or is_anew else grown
