"""Folds a thread record by record: its tasks, turns and their tree, calls, tokens."""

from __future__ import annotations

import hashlib
from typing import Any

from msgspec import field

from backstory import ids
from backstory.agents import numbers
from backstory.agents.codex.places import NAME
from backstory.agents.codex.prompts import IDE_CONTEXT
from backstory.agents.codex.records import EventMsg, ResponseItem, TokenUsageInfo, TurnContext
from backstory.agents.codex.tools import TOOLS, call_of, output_of
from backstory.agents.codex.usage import NOT_KNOWN, Usage, added_to
from backstory.agents.turn_fold import TurnFold, TurnState, lengthen
from backstory.conversation.context import strip_context, typed_part
from backstory.model import (
    AssistantText,
    Error,
    Event,
    LogIdentity,
    Outcome,
    Plan,
    Relation,
    Thinking,
    Tokens,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
)

_PATH_MAX = 200
_TELLINGS_MAX = 200
_OVER_MAX = 200


class State(TurnState, kw_only=True):
    """The state of a reader between two readings: bounded, whatever the log's size."""

    thread: str | None = None
    has_copies: bool = False
    has_events: bool = False
    model: str | None = None
    window: int | None = None
    """The most tokens that the model takes."""
    task: str | None = None
    task_root: str | None = None
    """The turn that a task is a part of, such as the review that it makes."""
    tells_tasks: bool = False
    task_prompts: int = 0
    task_error: str | None = None
    tellings: dict[str, dict[str, int]] = field(default_factory=dict)
    turn_task: str | None = None
    path: list[tuple[str, int]] = field(default_factory=list)
    totals: Usage | None = None
    over: list[str] = field(default_factory=list)
    """The last tasks that ended in this log: one that begins again is a copy, written by a fork in the same file."""
    is_copy: bool = False
    path_copied: list[tuple[str, int]] = field(default_factory=list)
    """The path as it was when copies began."""
    untold: list[tuple[str, int]] = field(default_factory=list)
    """The user's words that the model was sent, and the number of images, while no other record has the prompt."""
    untold_usage: Tokens | None = None
    """The tokens that were counted meanwhile: they are that prompt's."""


class Fold(TurnFold[State]):
    """The state of a log that is read, and what records do to it."""

    def __init__(self, identity: LogIdentity, state: bytes | None) -> None:
        super().__init__(NAME, identity, state, State)
        self._is_helper = identity.relation == Relation.SUBAGENT
        self._is_fork = identity.relation == Relation.FORK

    # tasks and calls ------------------------------------------------------------------------------------------

    def _begin_task(self, payload: TurnContext | EventMsg) -> None:
        state, task = self._state, payload.turn_id or None
        state.tells_tasks = True
        is_repeated = task in state.over and isinstance(payload, EventMsg)
        if task is None or task != state.task or is_repeated:
            state.task, state.task_prompts, state.task_error, state.tellings = task, 0, None, {}
            state.task_root = payload.root_turn_id or None
            state.untold, state.is_copy = [], task in state.over
            if state.is_copy:
                self._follow_copy(ids.turn_uid(NAME, task or ""))

    def _tool_call(self, item: ResponseItem) -> ToolCall:
        name, given, path = call_of(item)
        call_id = item.call_id or item.id or ""
        tool = TOOLS.get(item.name or name, Tool.OTHER)
        return self._state.calls.open(call_id, name, tool, path, given)

    def _tool_result(self, item: ResponseItem) -> ToolResult:
        call_id = item.call_id or ""
        content, failed = output_of(item.tools if item.output is None else item.output)
        return self._state.calls.close(call_id).result(call_id, content, is_error=failed)

    def _note_failure(self, call_id: str, failed: bool) -> None:
        if failed and (call := self._state.calls.by_id.get(call_id)):
            call.has_failed = True

    def _end_turn(self, payload: EventMsg, outcome: Outcome, duration_ms: int | None) -> Turn | None:
        """The turn that a task's end is about; none when the task had no prompt of its own."""
        turn, ours = self._state.turn, self._state.turn_task
        if payload.turn_id is not None:
            self._state.over = [*self._state.over, payload.turn_id][-_OVER_MAX:]
        root = self._state.task_root if ours == self._state.task else None
        if turn is None or not (payload.turn_id is None or ours is None or payload.turn_id in (ours, root)):
            return None
        turn.outcome, turn.duration_ms = outcome, duration_ms
        return turn

    def _note_window(self, given: object) -> None:
        """Note the most tokens that the model takes, as a task's begin and each count of tokens give it."""
        state, window = self._state, numbers.count(given, "context_window")
        state.window = window or state.window
        if window and state.turn is not None and state.task == state.turn_task:
            state.turn.context_window = window

    def _note_tokens(self, info: TokenUsageInfo | None) -> None:
        if info is None:
            return
        self._note_window(info.model_context_window)
        if info.total_token_usage is None:
            return
        state, total = self._state, info.total_token_usage
        before, state.totals = state.totals, total
        if before is None or total.spent() < before.spent():
            # Another count begins, and its first total may hold what a parent spent; one after a lost one, too.
            is_own = before is not None or not (self._is_fork or state.turns_seen > 1)
            grown = info.last_token_usage or (total if is_own else NOT_KNOWN)
        else:
            grown = total.since(before)
        if state.untold and state.task_prompts == 0 and not state.is_copy:
            state.untold_usage = added_to(state.untold_usage or Tokens(), grown, info.last_token_usage)
        elif state.turn is not None and (grown.spent() or state.turn.tokens_source is None):
            state.turn.tokens = added_to(state.turn.tokens, grown, info.last_token_usage)
            state.turn.tokens_source = "reported"

    # turns and their tree -------------------------------------------------------------------------------------

    def _prompt(self, channel: str, text: str, images: int, at: int | None, seq: int) -> Event | None:
        """Begin a turn, unless another channel has given this prompt of the task already."""
        text = strip_context(IDE_CONTEXT.sub("", text))
        shown = "\n".join([text] * bool(text.strip()) + ["[image]"] * images)
        if not shown or self._is_repeated(channel, text.strip()):
            return None
        prompt, event = typed_part(shown)
        self._begin_prompt(prompt, at, seq)
        return event

    def _is_repeated(self, channel: str, text: str) -> bool:
        # Counted per channel: the same words typed twice are two prompts, written twice each.
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        tellings = self._state.tellings
        counts = tellings.setdefault(digest, {})
        most = max(counts.values(), default=0)
        counts[channel] = counts.get(channel, 0) + 1
        if len(tellings) > _TELLINGS_MAX:
            tellings.pop(next(iter(tellings)))
        return counts[channel] <= most

    def _begin_prompt(self, prompt: str, at: int | None, seq: int) -> None:
        state = self._state
        state.task_prompts += 1
        native_id = state.task or f"{self._native_id}/{state.turns_seen + 1}"
        if state.task and state.task_prompts > 1:
            native_id = f"{state.task}/{state.task_prompts}"
        self._leave_turn()
        turn = self._begin_turn(native_id, prompt, at, seq)
        turn.model, turn.context_window, state.turn_task = state.model, state.window, state.task
        if state.untold_usage is not None:
            turn.tokens, turn.tokens_source, state.untold_usage = state.untold_usage, "reported", None
        state.session.leaf, state.path_copied = None, []
        # A turn that is repeated, as copies are, keeps its place.
        again = next((place for place, (known, _) in enumerate(state.path) if known == turn.uid), len(state.path))
        del state.path[again:]
        turn.parent_uid, turn.parent_seq = state.path[-1] if state.path else (None, None)
        state.path = [*state.path, (turn.uid, seq)][-_PATH_MAX:]

    def _leave_turn(self) -> None:
        """Note in the path where the turn ended that a new one follows, unless a rollback took it off."""
        turn, path = self._state.turn, self._state.path
        if turn is not None and path and path[-1][0] == turn.uid:
            path[-1] = (turn.uid, turn.last_seq)

    def _follow_copy(self, uid: str) -> None:
        """A fork goes on behind the last turn that it copied."""
        self._leave_turn()
        state = self._state
        state.path_copied = state.path_copied or list(state.path)
        place = next((place for place, (known, _) in enumerate(state.path_copied) if known == uid), None)
        if place is not None:
            state.path = state.path_copied[: place + 1]
            state.session.leaf = None if state.turn is not None and state.turn.uid == uid else state.path[-1]

    def _roll_back(self, turns: Any) -> None:
        self._leave_turn()
        count = numbers.count(turns, "num_turns") or 0
        if count > 0:
            del self._state.path[-count:]
            self._state.session.leaf = self._state.path[-1] if self._state.path else None

    def _close(self, turn: Turn, last: Event, at: int | None) -> None:
        state = self._state
        if state.task == state.turn_task:
            lengthen(turn, at)
        if state.tells_tasks:
            return
        # In a log without tasks the last thing said is how a turn ended.
        match last:
            case AssistantText() | Plan():
                turn.outcome = Outcome.COMPLETED
            case Error(code=code) if code != "interrupted":
                turn.outcome = Outcome.FAILED
            case ToolCall() | ToolResult() | Thinking() | UserMessage():
                turn.outcome = None
