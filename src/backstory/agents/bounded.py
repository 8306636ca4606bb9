"""Readers as everybody but their agents uses them: they return only numbers and times that can be kept.

What an adapter, ours or another package's, returns beyond that becomes None, and is counted by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backstory import bounds
from backstory.agents import numbers
from backstory.bounds import OUT_OF_RANGE
from backstory.errors import AgentCannotRun
from backstory.model import PARTIAL, Complete, Parsed, Retry, Tokens, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from backstory.agents.contract import Agent, Ending, Exit, LogReader, SteerState, Streamed, StreamReader
    from backstory.model import Event, LogIdentity, SessionFacts, Turn

_TOKENS = {
    "input": "input_tokens", "output": "output_tokens", "cache_read": "cache_read_tokens",
    "cache_write": "cache_write_tokens", "reasoning": "reasoning_tokens",
    "cache_write_1h": "cache_write_1h_tokens", "largest_input": "largest_input_tokens",
}  # fmt: skip


def log_reader(
    agent: Agent, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]
) -> LogReader:
    """The agent's reader of a log; see ``LogPart.reader``."""
    return _BoundedLogReader(agent.log.reader(identity, state, earlier))


def stream_reader(agent: Agent) -> StreamReader:
    """The agent's reader of a run's output; raises AgentCannotRun."""
    if agent.run is None:
        raise AgentCannotRun(agent.name)
    return _BoundedStreamReader(agent.run.stream_reader())


class _Counted:
    """The number of values that could not be kept, by name, besides those that the reader within does not know."""

    def __init__(self, reader: LogReader | StreamReader) -> None:
        self._within, self._unfit = reader, dict[str, int]()

    @property
    def unknown(self) -> Mapping[str, int]:
        known = self._within.unknown
        return {**known, **{name: count + known.get(name, 0) for name, count in self._unfit.items()}}

    def _count(self, names: list[str]) -> None:
        for name in names:
            self._unfit[OUT_OF_RANGE + name] = self._unfit.get(OUT_OF_RANGE + name, 0) + 1


class _BoundedLogReader(_Counted):
    def __init__(self, reader: LogReader) -> None:
        super().__init__(reader)
        self._reader, self._read = reader, reader.read
        self._noted: set[tuple[str, str]] = set()

    @property
    def session(self) -> SessionFacts:
        return self._reader.session

    def state(self) -> bytes:
        return self._reader.state()

    def read(self, line: bytes, seq: int) -> Parsed:
        names: list[str] = []
        before = numbers.met.set(names)
        try:
            parsed = self._read(line, seq)
        finally:
            numbers.met.reset(before)
        events, at = _fitting_events(parsed.events, names), _kept_time(parsed.at, names)
        if names:
            self._count(names)
            return msgspec.structs.replace(parsed, at=at, events=events)
        return parsed

    def touched(self) -> Iterator[Turn]:
        for turn in self._reader.touched():
            fitting, names = _fitting_turn(turn)
            # A turn is returned again and again: what is wrong with it is counted once.
            new = [name for name in names if (turn.uid, name) not in self._noted]
            self._noted.update((turn.uid, name) for name in new)
            self._count(new)
            yield fitting


class _BoundedStreamReader(_Counted):
    def __init__(self, reader: StreamReader) -> None:
        super().__init__(reader)
        self._reader, self._read = reader, reader.read

    @property
    def native_id(self) -> str | None:
        return self._reader.native_id

    @property
    def steering(self) -> SteerState | None:
        return self._reader.steering

    def stderr(self, line: bytes) -> list[Event]:
        return self._reader.stderr(line)

    def read(self, line: bytes) -> Streamed:
        names: list[str] = []
        before = numbers.met.set(names)
        try:
            streamed = self._read(line)
        finally:
            numbers.met.reset(before)
        events, at = _fitting_events(streamed.events, names), _kept_time(streamed.at, names)
        if names:
            self._count(names)
            return msgspec.structs.replace(streamed, events=events, at=at)
        return streamed

    def ended(self, exit: Exit) -> Ending:
        ending = self._reader.ended(exit)
        names: list[str] = []
        fitting = msgspec.structs.replace(
            ending,
            duration_ms=_kept(ending.duration_ms, "duration_ms", names),
            api_latency_ms=_kept(ending.api_latency_ms, "api_latency_ms", names),
            cost_usd=_kept_amount(ending.cost_usd, names),
            context_window=_kept(ending.context_window, "context_window", names),
            tokens=(tokens := _fitting_tokens(ending.tokens, names)),
            tokens_source=_source_of(ending, tokens),
        )
        self._count(names)
        return fitting


_WITH_NUMBERS = frozenset({Complete, Retry, ToolResult})


def _fitting_events(events: list[tuple[int, Event]], names: list[str]) -> list[tuple[int, Event]]:
    """The events with numbers that can be kept; the same list when there is nothing to be seen to."""
    for _, event in events:
        if type(event) in _WITH_NUMBERS:
            return [(part, _fitting_event(each, names)) for part, each in events]
    return events


def _fitting_event(event: Event, names: list[str]) -> Event:
    match event:
        case Complete():
            duration_ms, cost_usd = _kept(event.duration_ms, "duration_ms", names), _kept_amount(event.cost_usd, names)
            return Complete(success=event.success, duration_ms=duration_ms, cost_usd=cost_usd)
        case Retry():
            attempt, attempts_max = (_kept(each, "attempt", names) or 0 for each in (event.attempt, event.attempts_max))
            return Retry(attempt=attempt, attempts_max=attempts_max, message=event.message)
        case ToolResult() if event.duration_ms is not None:
            return msgspec.structs.replace(event, duration_ms=_kept(event.duration_ms, "duration_ms", names))
    return event


def _fitting_turn(turn: Turn) -> tuple[Turn, list[str]]:
    names: list[str] = []
    if _is_plain(turn):
        return turn, names
    tokens = _fitting_tokens(turn.tokens, names)
    duration_ms, cost_usd = _kept(turn.duration_ms, "duration_ms", names), _kept_amount(turn.cost_usd, names)
    api_latency_ms = _kept(turn.api_latency_ms, "api_latency_ms", names)
    window = _kept(turn.context_window, "context_window", names)
    # The record with an impossible time has reported it.
    started, ended = bounds.time_ms(turn.started), bounds.time_ms(turn.ended)
    if not names and tokens is turn.tokens and (started, ended) == (turn.started, turn.ended):
        return turn, names
    kept = {"tokens": tokens, "duration_ms": duration_ms, "api_latency_ms": api_latency_ms, "cost_usd": cost_usd}
    source = _source_of(turn, tokens)
    return msgspec.structs.replace(
        turn, **kept, tokens_source=source, context_window=window, started=started, ended=ended
    ), names


def _is_plain(turn: Turn) -> bool:
    """Return True if every number and time of a turn can be kept, as nearly always; each alone takes much longer."""
    counts = (*msgspec.structs.astuple(turn.tokens), turn.duration_ms, turn.api_latency_ms, turn.context_window)
    for count in counts:
        if count is not None and (type(count) is not int or not 0 <= count <= bounds.INTEGER_MAX):
            return False
    for at in (turn.started, turn.ended):
        if at is not None and not 0 <= at <= bounds.TIME_MAX_MS:
            return False
    return turn.cost_usd is None or (type(turn.cost_usd) is float and 0 <= turn.cost_usd <= bounds.INTEGER_MAX)


def _fitting_tokens(tokens: Tokens, names: list[str]) -> Tokens:
    kept = {field: _kept(getattr(tokens, field), name, names) for field, name in _TOKENS.items()}
    return tokens if all(kept[field] == getattr(tokens, field) for field in kept) else Tokens(**kept)


def _source_of(counted: Turn | Ending, kept: Tokens) -> str | None:
    """Return the source of the tokens: a sum that lacks a part is a lower bound, and never whole."""
    return counted.tokens_source if kept is counted.tokens else PARTIAL


def _kept(value: Any, name: str, names: list[str]) -> int | None:
    found = bounds.count(value)
    # The record with a count that is lost has reported it.
    if found is None and value is not None and value != bounds.LOST:
        names.append(name)
    return found


def _kept_time(at: int | None, names: list[str]) -> int | None:
    if at is not None and not 0 <= at <= bounds.TIME_MAX_MS:
        names.append(numbers.TIME)
        return None
    return at


def _kept_amount(value: Any, names: list[str]) -> float | None:
    found = bounds.amount(value)
    if found is None and value is not None:
        names.append("cost_usd")
    return found
