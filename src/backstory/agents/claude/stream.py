"""Reads the output of a run while it goes on, and its result.

A run is ``claude -p`` with ``stream-json``: the blocks of messages are those of the log, but a message's true usage
is only in its ``stream_event`` records. One run may print several ``init`` and ``result`` records, and ends when the
process does. Cost is a running total; the usage of a result is its own.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory.agents import jsonl, numbers
from backstory.agents.claude import prompts, records, retries, steer
from backstory.agents.claude.blocks import Blocks
from backstory.agents.claude.records import (
    Message,
    Usage,
    context_window,
    larger_counts,
    plain_text,
    text_of,
    tokens_of,
    tokens_of_run,
)
from backstory.agents.claude.tools import path_in, tool_of
from backstory.agents.contract import Ending, Exit, SteerState, Streamed
from backstory.agents.turn_fold import OpenCalls, UnknownCounts
from backstory.bounds import added
from backstory.model import PARTIAL, Compacted, Complete, Error, Event, Hook, Init, Outcome, Tokens, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable

_ACKNOWLEDGES = "msg_lifecycle_v1"
"""Among the capabilities of a version that says which messages it takes up."""
_MAX_TURNS = "max_turns"
_STDERR_LINES_KEPT_MAX = 20
_SIGNAL_EXIT_CODE_MIN = 129


class StreamReader:
    """Understands the output of one run. See ``contract.StreamReader``."""

    def __init__(self) -> None:
        # Messages hold the same blocks as in a log.
        self.unknown = UnknownCounts()
        self._blocks = Blocks(OpenCalls(), {}, self.unknown)
        self.native_id: str | None = None
        self._has_begun = False
        self._model: str | None = None
        self._message_id = ""
        self._messages: dict[str, Tokens] = {}
        self._unfinished: set[str] = set()
        self._cost_usd: float | None = None
        self._results: list[StreamRecord] = []
        self._context_window: int | None = None
        self._stop_reason: str | None = None
        self._has_shown_error = False
        self._was_interrupted = self._is_compacted = False
        self.steering = SteerState()
        self._stderr_tail: deque[str] = deque(maxlen=_STDERR_LINES_KEPT_MAX)

    def read(self, line: bytes) -> Streamed:
        if not line.strip():
            return Streamed([])
        try:
            records = jsonl.decode(line, stream_decoder)
        except jsonl.NotJson:
            return Streamed([(0, self._not_a_record(line))])
        slots, at = list[Event | None](), None
        for record in records:
            self.native_id = self.native_id or record.session_id
            self._note_steering(record)
            if record.type != "stream_event":
                slots += self._record(record)
            if at is None and record.timestamp is not None:
                at = numbers.time_ms(record.timestamp)
        events = [(part, event) for part, event in enumerate(slots) if event is not None]
        deltas = [record for record in records if record.type == "stream_event"]
        delta = "".join(map(self._delta_of, deltas))
        return Streamed(events, takes_number=len(deltas) < len(records), delta=delta, at=at)

    def stderr(self, line: bytes) -> list[Event]:
        if text := line.decode("utf-8", "replace").strip():
            self._stderr_tail.append(text)
        return []

    def ended(self, exit: Exit) -> Ending:
        outcome = self._outcome(exit)
        tokens = self._tokens()
        durations = [each.duration_ms for each in self._results if each.duration_ms is not None]
        return Ending(
            outcome=outcome,
            error=self._error_message(exit) if outcome in (Outcome.FAILED, Outcome.CRASHED) else None,
            duration_ms=added(*durations) if durations else None,
            # A running total of the process, like the cost. Requests that failed are not in it, so zero is not known.
            api_latency_ms=max((each.duration_api_ms or 0 for each in self._results), default=0) or None,
            stop_reason=self._final_stop_reason(),
            model=self._model,
            tokens=tokens or Tokens(),
            tokens_source=self._tokens_source() if tokens else None,
            cost_usd=self._cost_usd,
            cost_source="reported" if self._cost_usd is not None else None,
            context_window=self._context_window,
            refused=refused_calls(self._results),
        )

    # records ------------------------------------------------------------------------------------------------

    def _record(self, record: StreamRecord) -> list[Event | None]:
        if record.parent_tool_use_id:
            # A subagent has a log of its own.
            return []
        events = self._main_record(record)
        if self._is_compacted and record.type in ("assistant", "user", "result"):
            # Its summary was not printed. Behind what a record says, so that this stays at its part.
            self._is_compacted, events = False, [*events, Compacted()]
        return events

    def _main_record(self, record: StreamRecord) -> list[Event | None]:
        match record.type:
            case "assistant":
                return [*self._assistant(record)]
            case "user":
                return [*self._user(record)]
            case "system":
                return self._system(record)
            case "result":
                record.duration_ms = numbers.count(record.duration_ms, "duration_ms")
                record.duration_api_ms = numbers.count(record.duration_api_ms, "api_latency_ms")
                if record.total_cost_usd is not None:
                    self._cost_usd = record.total_cost_usd = _cost_of(record)
                self._context_window = context_window(record.model_usage, self._model) or self._context_window
                self._results.append(record)
                if not _is_cut_off(record):
                    self._unfinished.clear()
                return [
                    Complete(
                        success=not record.is_error, duration_ms=record.duration_ms, cost_usd=record.total_cost_usd
                    )
                ]
            case kind:
                return [] if kind in records.KEPT_STREAM else [self.unknown.emit(kind or "record without a type")]

    def _note_steering(self, record: StreamRecord) -> None:
        """Note what a record says about messages to the running agent."""
        state = self.steering
        if record.type in ("assistant", "stream_event", "user", "result"):
            state.is_deaf = not state.acknowledges
        match record.type:
            case "result":
                state.is_idle = True
            case "assistant" | "stream_event" | "user":
                state.is_idle = False
            case "system" if record.subtype == "init":
                state.is_idle = False
                state.acknowledges = isinstance(record.capabilities, list) and _ACKNOWLEDGES in record.capabilities
                state.is_deaf = not state.acknowledges
            case "command_lifecycle" if steer.is_own(record.command_uuid or ""):
                state.is_idle = state.is_idle and record.state not in ("queued", "started")
                if record.state == "started" and record.command_uuid not in state.acknowledged:
                    state.acknowledged.append(record.command_uuid or "")

    def _assistant(self, record: StreamRecord) -> list[Event]:
        message = _message_of(record)
        self._was_interrupted = False
        is_synthetic = message.model == "<synthetic>"
        if record.is_api_error_message or (is_synthetic and record.error):
            self._has_shown_error = True
            return [Error(message=text_of(message.content), code=str(record.api_error_status or record.error or ""))]
        if is_synthetic and isinstance(record.local_command_source, str):
            return [prompts.command_event(record.local_command_source)]
        if is_synthetic:
            text = text_of(message.content)
            return [Hook(name="notice", output=text)] if text else []
        self._model = message.model or self._model
        return self._blocks.answer(message.content)

    def _user(self, record: StreamRecord) -> list[Event]:
        content = _message_of(record).content
        events = self._blocks.results(content, record.tool_use_result)
        text = text_of(content)
        if not text.strip():
            return events
        if record.is_synthetic:
            if not (self._is_compacted or prompts.is_compaction_summary(text)):
                return events
            self._is_compacted = False
            return [*events, Compacted(summary=text)]
        # The prompt itself is not repeated here, so no word in the user's place was typed.
        aside = prompts.untyped_event(text) or Hook(name="context", output=text)
        self._was_interrupted = isinstance(aside, Error)
        return [*events, aside]

    def _system(self, record: StreamRecord) -> list[Event | None]:
        match record.subtype or "":
            case "init":
                first, self._has_begun = not self._has_begun, True
                self._model = self._model or record.model
                init = Init(cwd=record.cwd or "", model=record.model or "", version=record.claude_code_version or "")
                return [init if first else None]
            case "api_retry":
                return [retries.of_run(record.attempt, record.max_retries, record.error_status, record.error)]
            case "compact_boundary":
                # The summary comes next.
                self._is_compacted = True
                return []
            case kind:
                return [] if kind in records.KEPT_STREAM_SYSTEM else [self.unknown.emit(f"system/{kind}")]

    def _delta_of(self, record: StreamRecord) -> str:
        """Note what a part of an answer says about the whole; its text, if it has any."""
        event = record.event or StreamEvent()
        if record.parent_tool_use_id:
            return ""
        if event.message is not None:
            self._message_id = event.message.id or ""
            self._unfinished.add(self._message_id)
            # The total that came before lacks this one.
            self._cost_usd = None
            self._note_usage(event.message.usage)
        self._note_usage(event.usage)
        delta = event.delta or Delta()
        if delta.stop_reason:
            self._stop_reason = delta.stop_reason
            self._unfinished.discard(self._message_id)
        return (delta.text or "") if delta.type == "text_delta" else ""

    def _not_a_record(self, line: bytes) -> Event:
        text = line.decode("utf-8", "replace").strip()
        return self.unknown.emit("not JSON") if text.startswith("{") else Hook(name="stdout", output=text)

    # what it came to ----------------------------------------------------------------------------------------

    def _outcome(self, exit: Exit) -> Outcome:
        last = self._results[-1] if self._results else None
        was_stopped = exit.was_cancelled or (last is None and self._was_interrupted)
        if was_stopped or (last is not None and (last.terminal_reason or "").startswith("aborted")):
            return Outcome.CANCELLED
        if last is not None and last.is_error:
            return Outcome.FAILED
        if exit.signal is not None or (exit.code or 0) >= _SIGNAL_EXIT_CODE_MIN:
            return Outcome.CRASHED
        if exit.code != 0:
            return Outcome.FAILED
        # A run that was stopped early enough ends with code 0 and says nothing.
        return Outcome.COMPLETED if last is not None else Outcome.CRASHED

    def _final_stop_reason(self) -> str | None:
        """The reason of the last answer; a command that the client ran by itself had none."""
        answers = [each for each in self._results if not each.local_command] or self._results
        if not answers:
            return self._stop_reason
        return _MAX_TURNS if answers[-1].terminal_reason == _MAX_TURNS else answers[-1].stop_reason

    def _error_message(self, exit: Exit) -> str | None:
        last = self._results[-1] if self._results else None
        if self._has_shown_error:
            return None if last is not None or exit.was_seen else exit.in_words
        message = (plain_text(last.errors) or plain_text(last.result)) if last is not None and last.is_error else ""
        return message or exit.why("\n".join(self._stderr_tail))

    def _note_usage(self, usage: Usage | None) -> None:
        if usage is not None:
            before = self._messages.get(self._message_id, Tokens())
            self._messages[self._message_id] = larger_counts(before, tokens_of(usage))

    def _tokens(self) -> Tokens | None:
        """The main thread's tokens."""
        return tokens_of_run(self._messages.values(), self._result_tokens())

    def _tokens_source(self) -> str:
        """Return their source: messages that ended or results, all of one of them with input and output."""
        is_known = any(
            counted and all(map(_is_whole, counted))
            for counted in (list(self._messages.values()), self._result_tokens())
        )
        return "reported" if is_known and not self._unfinished else PARTIAL

    def _result_tokens(self) -> list[Tokens]:
        return [tokens_of(each.usage) for each in self._results if each.usage and not _is_cut_off(each)]


def _message_of(record: StreamRecord) -> Message:
    return record.message if isinstance(record.message, Message) else Message()


def _cost_of(result: StreamRecord) -> float | None:
    cost, usage = numbers.amount(result.total_cost_usd, "cost_usd"), result.usage
    # No total has a request that failed, although its tokens were counted.
    is_missing = not cost and result.is_error and usage and (usage.input_tokens or usage.output_tokens)
    return None if is_missing else cost


def _is_whole(tokens: Tokens) -> bool:
    return tokens.input is not None and tokens.output is not None


def _is_cut_off(result: StreamRecord) -> bool:
    """Return True if a result counts 0 tokens because its answer was cut off, though they were paid."""
    usage = result.usage or Usage()
    return (result.terminal_reason or "").startswith("aborted") and not (usage.input_tokens or usage.output_tokens)


# calls that claude code's permissions refused: each result of a run lists those since the one before ------------------


def refused_calls(results: Iterable[StreamRecord]) -> list[ToolCall]:
    """The calls that were refused, each once, in order."""
    found: dict[str, ToolCall] = {}
    for result in results:
        listed = result.permission_denials if isinstance(result.permission_denials, list) else []
        for call in (_call(each) for each in listed if isinstance(each, dict)):
            found.setdefault(call.tool_use_id or f"without an id {len(found)}", call)
    return list(found.values())


def _call(denied: dict[str, Any]) -> ToolCall:
    given = denied.get("tool_input")
    given = given if isinstance(given, dict) else {}
    name = str(denied.get("tool_name") or "")
    return ToolCall(
        tool_use_id=str(denied.get("tool_use_id") or ""),
        tool_name=name,
        tool=tool_of(name),
        file_path=path_in(given),
        input=given,
    )


# stream records -------------------------------------------------------------------------------------------------------
# The records that a run prints, as far as they are read.


class Delta(Struct):
    type: str = ""
    text: str | None = None
    stop_reason: str | None = None


class StreamEvent(Struct):
    type: str = ""
    message: Message | None = None
    delta: Delta | None = None
    usage: Usage | None = None


class StreamRecord(Struct):
    type: str = ""
    tool_use_result: msgspec.Raw = msgspec.Raw()
    subtype: str | None = None
    timestamp: Any = None
    command_uuid: str | None = None
    state: Any = None
    capabilities: Any = None
    session_id: str | None = None
    parent_tool_use_id: str | None = None
    message: Message | str | None = None
    event: StreamEvent | None = None
    cwd: str | None = None
    model: str | None = None
    claude_code_version: str | None = None
    is_synthetic: bool | None = field(default=None, name="isSynthetic")
    is_api_error_message: bool | None = None
    api_error_status: int | str | None = None
    attempt: Any = None
    max_retries: Any = None
    error: Any = None
    error_status: int | str | None = None
    is_error: bool | None = None
    result: Any = None
    errors: Any = None
    terminal_reason: str | None = None
    local_command: Any = None
    local_command_source: Any = None
    stop_reason: str | None = None
    duration_ms: Any = None
    duration_api_ms: Any = None
    total_cost_usd: Any = None
    usage: Usage | None = None
    permission_denials: Any = None
    model_usage: Any = field(default=None, name="modelUsage")
    """The tokens that each model used, and the most that it takes."""


stream_decoder = msgspec.json.Decoder(StreamRecord)
