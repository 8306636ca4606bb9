"""Folds the records of one conversation into events, turns and facts about the session."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from backstory import bounds
from backstory.agents import jsonl, numbers
from backstory.agents.openhands.places import NAME
from backstory.agents.openhands.records import Line, Message, decoder, words_of
from backstory.agents.turn_fold import OpenCall, TurnFold, TurnState, lengthen, remember, without_prompt
from backstory.bounds import added
from backstory.model import (
    AssistantText,
    Compacted,
    Error,
    Event,
    Hook,
    Init,
    Outcome,
    Parsed,
    Thinking,
    Tokens,
    Tool,
    ToolCall,
    Turn,
    UserMessage,
)

if TYPE_CHECKING:
    from backstory.model import LogIdentity

KEPT = frozenset({"SystemPromptEvent", "ConversationStateUpdateEvent", "CondensationRequest", "TokenEvent",
                  "LLMCompletionLogEvent"})  # fmt: skip
"""Kinds of events that say nothing that is shown; their bytes are kept."""
TOOLS = {"TerminalAction": Tool.SHELL, "GrepAction": Tool.GREP, "GlobAction": Tool.GLOB, "TaskAction": Tool.TASK}
EDITOR = {"view": Tool.READ, "create": Tool.WRITE}
"""The tools that the editor's commands are; the others edit."""
SEEN_MAX = REQUESTS_MAX = 1_000
"""The most records that are known again, and the most requests whose answer or tokens are waited for."""


class State(TurnState, kw_only=True):
    """The state of a reader between two readings: bounded, whatever the conversation's length."""

    seen: dict[str, None] = field(default_factory=dict)
    """The last records, by their ids."""
    tokens: dict[str, Line] = field(default_factory=dict)
    """Requests whose answer is still to come."""
    answers: dict[str, str] = field(default_factory=dict)
    """Requests whose tokens are still to come, each with the uid of its turn."""
    turns: dict[str, Turn] = field(default_factory=dict)
    """Those turns, where they are not the present one."""


class Reader(TurnFold[State]):
    """Folds one conversation. See ``contract.LogReader``."""

    def __init__(self, identity: LogIdentity, stored: bytes | None) -> None:
        super().__init__(NAME, identity, stored, State)

    def read(self, line: bytes, seq: int) -> Parsed:
        try:
            records = jsonl.decode(line, decoder)
        except jsonl.NotJson:
            return Parsed(None, [(0, self.unknown.emit("not JSON"))], self._turn_at(seq))
        at, events, is_new = None, list[Event](), False
        for record in records:
            if not self._is_new(record):
                continue
            is_new = True
            at = time_ms(record.timestamp)
            events += self._of_state(record) if not record.kind or record.working_dir else self._event(record, at, seq)
        return Parsed(at, list(enumerate(events)), self._turn_at(seq) if is_new and events else None)

    def _is_new(self, record: Line) -> bool:
        name, seen = _name_of(record), self._state.seen
        if name is None or name in seen:
            return name is None
        remember(seen, name, None, SEEN_MAX)
        return True

    # the state ------------------------------------------------------------------------------------------------------

    def _of_state(self, record: Line) -> list[Event]:
        session = self._state.session
        if record.working_dir is not None:
            is_first, session.cwd = session.cwd is None, session.cwd or record.working_dir
            return [Init(cwd=record.working_dir)] if is_first else []
        if record.response_id is not None:
            uid = self._state.answers.pop(record.response_id, None)
            if uid is None:
                remember(self._state.tokens, record.response_id, record, REQUESTS_MAX)
            elif (turn := self._turn_of(uid)) is not None:
                _count(turn, record)
                self._touched[uid] = turn
                self._forget_turns()
            return []
        return [self.unknown.emit("record without a kind")]

    def _turn_of(self, uid: str) -> Turn | None:
        turn = self._state.turn
        return turn if turn is not None and turn.uid == uid else self._state.turns.get(uid)

    def _forget_turns(self) -> None:
        awaited = set(self._state.answers.values())
        self._state.turns = {uid: turn for uid, turn in self._state.turns.items() if uid in awaited}

    def _answered(self, response_id: str | None) -> None:
        """Count the tokens of the request that a record answers; several records may answer one."""
        turn = self._state.turn
        if response_id is None or turn is None:
            return
        if (found := self._state.tokens.pop(response_id, None)) is not None:
            _count(turn, found)
        elif f"tokens {response_id}" not in self._state.seen:
            remember(self._state.answers, response_id, turn.uid, REQUESTS_MAX)

    # events ---------------------------------------------------------------------------------------------------------

    def _event(self, record: Line, at: int | None, seq: int) -> list[Event]:
        match record.kind:
            case "MessageEvent":
                return self._message(record, record.llm_message or Message(), at, seq)
            case "ActionEvent":
                events = self._action(record)
            case "ObservationEvent":
                events = self._result(record)
            case "UserRejectObservation":
                events = self._failed(record, record.rejection_reason or "rejected")
            case "AgentErrorEvent":
                events = self._failed(record, record.error or "")
            case "ConversationErrorEvent":
                self._end(Outcome.FAILED)
                return [
                    Error(message=record.detail or record.code or "the conversation failed", code=record.code or "")
                ]
            case "PauseEvent" | "InterruptEvent":
                self._end(Outcome.CANCELLED)
                return [Error(message="paused", code="interrupted")]
            case "Condensation" | "CondensationSummaryEvent":
                return [Compacted(summary=record.summary or "")]
            case kind:
                return [] if kind in KEPT else [self.unknown.emit(kind)]
        if self._state.turn is not None:
            lengthen(self._state.turn, at)
        return events

    def _end(self, outcome: Outcome | None) -> None:
        if self._state.turn is not None:
            self._state.turn.outcome = outcome

    def _message(self, record: Line, message: Message, at: int | None, seq: int) -> list[Event]:
        said = words_of(message.content)
        if record.source == "user":
            if not said.strip():
                return []
            self._begin(record.id or "", said, at, seq)
            return [UserMessage(content=said)]
        if record.source != "agent":
            # What hooks and the program itself say in the user's place.
            return [Hook(name=record.source or NAME, output=said)] if said.strip() else []
        self._answered(record.llm_response_id)
        events = _thoughts(message.reasoning_content, message)
        if said.strip():
            events.append(AssistantText(text=said))
        if self._state.turn is not None:
            lengthen(self._state.turn, at)
        # A message is the last thing that it does in a turn.
        self._end(Outcome.COMPLETED)
        return events

    def _begin(self, native_id: str, prompt: str, at: int | None, seq: int) -> None:
        state = self._state
        if state.turn is not None and state.turn.uid in state.answers.values():
            state.turns[state.turn.uid] = without_prompt(state.turn)
        self._begin_turn(native_id, prompt, at, seq)

    def _action(self, record: Line) -> list[Event]:
        self._answered(record.llm_response_id)
        given = {key: value for key, value in (record.action or {}).items() if key != "kind"}
        kind = str((record.action or {}).get("kind") or "")
        events = _thoughts(record.reasoning_content, Message(thinking_blocks=record.thinking_blocks))
        if (said := words_of(list(record.thought or ()))).strip():
            events.append(AssistantText(text=said))
        match kind, given.get("message"), given.get("thought"):
            case "FinishAction", str(message), _:
                self._end(Outcome.COMPLETED)
                return [*events, AssistantText(text=message)] if message.strip() else events
            case "ThinkAction", _, str(thought):
                return [*events, Thinking(text=thought)] if thought.strip() else events
        self._end(None)
        return [*events, self._call(record, kind, given)]

    def _call(self, record: Line, kind: str, given: dict[str, object]) -> ToolCall:
        path = given.get("path")
        tool = TOOLS.get(kind, Tool.OTHER)
        if kind == "FileEditorAction":
            tool = EDITOR.get(str(given.get("command")), Tool.EDIT)
            if tool == Tool.WRITE and isinstance(given.get("file_text"), str):
                given = {"content": given.pop("file_text"), **given}
        name = record.tool_name or kind
        # None of the fields that an action of another kind has is an argument.
        given = {key: value for key, value in given.items() if value is not None}
        return self._state.calls.open(
            record.tool_call_id or "", name, tool, path if isinstance(path, str) else None, given
        )

    def _result(self, record: Line) -> list[Event]:
        observation = record.observation
        if observation is None or observation.kind in ("FinishObservation", "ThinkObservation"):
            return []
        code = observation.exit_code
        # A command that failed is no error to the agent. -1: it still runs.
        has_failed = isinstance(code, int) and code not in (0, -1)
        text = words_of(observation.content) or observation.error or ""
        result = self._call_of(record).result(
            record.tool_call_id or "", text, is_error=has_failed or observation.is_error is True
        )
        if has_failed and str(code) not in text:
            result = msgspec.structs.replace(
                result, content=f"{text}\n[exit code {code}]" if text else f"[exit code {code}]"
            )
        return [result]

    def _failed(self, record: Line, why: str) -> list[Event]:
        return [self._call_of(record).result(record.tool_call_id or "", why, is_error=True)]

    def _call_of(self, record: Line) -> OpenCall:
        call_id = record.tool_call_id or ""
        return self._state.calls.by_id.pop(call_id, None) or OpenCall(record.tool_name or "", Tool.OTHER)


def _thoughts(reasoning: str | None, message: Message) -> list[Event]:
    blocks = [block.thinking for block in message.thinking_blocks or () if block.thinking]
    return [Thinking(text=text) for text in (blocks or [reasoning or ""]) if text.strip()]


def _count(turn: Turn, spent: Line) -> None:
    """Add a request's tokens; what came from a cache, or went into one, is in its input."""
    sent = numbers.tokens(spent.prompt_tokens, "input_tokens")
    read = numbers.tokens(spent.cache_read_tokens, "cache_read_tokens")
    write = numbers.tokens(spent.cache_write_tokens, "cache_write_tokens")
    output = numbers.tokens(spent.completion_tokens, "output_tokens")
    is_lost = bounds.LOST in (sent, read, write)
    before, fresh = turn.tokens, sent if sent is None or is_lost else max(sent - (read or 0) - (write or 0), 0)
    turn.tokens = Tokens(
        input=added(before.input, fresh),
        output=added(before.output, output),
        cache_read=added(before.cache_read, read),
        cache_write=added(before.cache_write, write),
        reasoning=added(before.reasoning, numbers.tokens(spent.reasoning_tokens, "reasoning_tokens")),
        largest_input=numbers.largest_input(before, sent),
    )
    turn.tokens_source = "reported"
    turn.model = spent.model or turn.model
    turn.context_window = numbers.count(spent.context_window or None, "context_window") or turn.context_window


def time_ms(text: str | None) -> int | None:
    """An event's time, which is that of the machine's own zone, in ms since 1970."""
    try:
        moment = datetime.fromisoformat(text or "")
        return numbers.time_ms(moment.astimezone().isoformat())
    except (ValueError, OverflowError, OSError):
        return None


def _name_of(record: Line) -> str | None:
    if record.working_dir is not None:
        return f"folder {record.working_dir}"
    return record.id or (f"tokens {record.response_id}" if record.response_id else None)


def id_of(line: bytes) -> str | None:
    """Return the name that a record is known by."""
    record = jsonl.first(line, decoder)
    return _name_of(record) if record is not None else None


def is_of_state(piece: bytes) -> bool:
    """Return True if an object of the state is a record: the folder, or the tokens of a request.

    >>> [is_of_state(each) for each in (b'{"working_dir":"/w"}', b'{"response_id":"","prompt_tokens":3}', b"{}")]
    [True, False, False]
    """
    try:
        record = decoder.decode(piece)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return record.working_dir is not None or bool(record.response_id and record.prompt_tokens is not None)
