"""Numbers and times of every agent go through here: what cannot be kept becomes None, and is counted by its name.

Adapters read them with ``count``, ``amount``, ``time_ms`` and ``Counts``. ``Fitting`` and ``FittingStream`` are put
around every reader, so that a sum that has grown too large, or what an adapter from elsewhere tells, is seen to, too.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct

from backstory import bounds, ids
from backstory.agents import Ending, Streamed
from backstory.bounds import OUT_OF_RANGE
from backstory.model import Complete, Parsed, Retry, Tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

    from backstory.agents import Exit, LogReader, StreamReader
    from backstory.model import Event, Turn

TIME = "time"
Count = Any
"""The type of a field of ``Counts`` as it is told; when it can be read it is an int or None."""

_TOKENS = {
    "input": "input_tokens", "output": "output_tokens", "cache_read": "cache_read_tokens",
    "cache_write": "cache_write_tokens", "reasoning": "reasoning_tokens",
    "cache_write_1h": "cache_write_1h_tokens", "largest_input": "largest_input_tokens",
}  # fmt: skip
_met: ContextVar[list[str] | None] = ContextVar("_met", default=None)
"""The names of what the reader that is at work could not keep."""


class Counts(Struct):
    """A part of a record of which every field is a count."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            told = getattr(self, name)
            if told is not None and not (type(told) is int and 0 <= told <= bounds.INTEGER_MAX):
                setattr(self, name, count(told, name))


def count(told: object, name: str) -> int | None:
    """A count as an agent tells it, called ``name``."""
    found = bounds.count(told)
    if found is None and told is not None:
        _note(name)
    return found


def amount(told: object, name: str) -> float | None:
    """A cost as an agent tells it."""
    found = bounds.amount(told)
    if found is None and told is not None:
        _note(name)
    return found


def time_ms(told: Any) -> int | None:
    """A time as an agent tells it, in ms since 1970."""
    at = ids.parse_time_ms(told if isinstance(told, str | int | float) else None)
    if at is None and ids.is_out_of_range(told):
        _note(TIME)
    return at


def largest_input(tokens: Tokens, request: int | None) -> int | None:
    """The input of a turn's largest request after one more; None as soon as a request's is not told.

    ``tokens``: what the turn used before; ``request``: the input of this one, caches included.
    """
    known = 0 if tokens.input is None else tokens.largest_input
    return None if known is None or request is None else max(known, request)


def _note(name: str) -> None:
    met = _met.get()
    if met is not None:
        met.append(name)


class _Fitted:
    """What two kinds of readers have in common."""

    def __init__(self, reader: Any) -> None:
        self._reader, self._read = reader, reader.read
        self._noted: set[tuple[str, str]] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def _count(self, names: list[str]) -> None:
        unknown = cast("MutableMapping[str, int]", self._reader.unknown)
        for name in names:
            unknown[OUT_OF_RANGE + name] = unknown.get(OUT_OF_RANGE + name, 0) + 1


class Fitting(_Fitted):
    """A ``LogReader`` that tells only what can be kept."""

    def read(self, line: bytes, seq: int) -> Parsed:
        """As the reader within tells it."""
        names: list[str] = []
        before = _met.set(names)
        try:
            parsed = cast("Parsed", self._read(line, seq))
        finally:
            _met.reset(before)
        events, at = _fitting_events(parsed.events, names), parsed.at
        if at is not None and not 0 <= at <= bounds.TIME_MAX_MS:
            names.append(TIME)
            at = None
        if names:
            self._count(names)
            return Parsed(at, events, parsed.turn)
        return parsed

    def touched(self) -> Iterator[Turn]:
        """The turns that the reader within touched."""
        for turn in self._reader.touched():
            fitting, names = _fitting_turn(turn)
            # A turn is told again and again: what is wrong with it is said once.
            new = [name for name in names if (turn.uid, name) not in self._noted]
            self._noted.update((turn.uid, name) for name in new)
            self._count(new)
            yield fitting


class FittingStream(_Fitted):
    """A ``StreamReader`` that tells only what can be kept."""

    def read(self, line: bytes) -> Streamed:
        """As the reader within tells it."""
        names: list[str] = []
        before = _met.set(names)
        try:
            told = cast("Streamed", self._read(line))
        finally:
            _met.reset(before)
        events = _fitting_events(told.events, names)
        if names:
            self._count(names)
            return Streamed(events, told.takes_number, told.delta)
        return told

    def ended(self, exit: Exit) -> Ending:
        """What it all came to."""
        ending = cast("Ending", self._reader.ended(exit))
        names: list[str] = []
        fitting = msgspec.structs.replace(
            ending,
            duration_ms=_kept(ending.duration_ms, "duration_ms", names),
            api_latency_ms=_kept(ending.api_latency_ms, "api_latency_ms", names),
            cost_usd=_kept_amount(ending.cost_usd, names),
            tokens=_fitting_tokens(ending.tokens, names),
        )
        self._count(names)
        return fitting


def fitting(reader: LogReader) -> LogReader:
    """A reader of logs that tells only numbers and times that can be kept."""
    return cast("LogReader", Fitting(reader))


def fitting_stream(reader: StreamReader) -> StreamReader:
    """The same of a run's output."""
    return cast("StreamReader", FittingStream(reader))


def _fitting_events(events: list[tuple[int, Event]], names: list[str]) -> list[tuple[int, Event]]:
    """The events with numbers that can be kept; the same list when there is nothing to be seen to."""
    for _, event in events:
        if type(event) is Complete or type(event) is Retry:
            return [(part, _fitting_event(each, names)) for part, each in events]
    return events


def _fitting_event(event: Event, names: list[str]) -> Event:
    match event:
        case Complete():
            duration_ms, cost_usd = _kept(event.duration_ms, "duration_ms", names), _kept_amount(event.cost_usd, names)
            return Complete(success=event.success, duration_ms=duration_ms, cost_usd=cost_usd)
        case Retry():
            return Retry(attempt=_kept(event.attempt, "attempt", names) or 0, message=event.message)
    return event


def _fitting_turn(turn: Turn) -> tuple[Turn, list[str]]:
    names: list[str] = []
    tokens = _fitting_tokens(turn.tokens, names)
    duration_ms, cost_usd = _kept(turn.duration_ms, "duration_ms", names), _kept_amount(turn.cost_usd, names)
    api_latency_ms = _kept(turn.api_latency_ms, "api_latency_ms", names)
    # The record that told an impossible time has said so.
    started, ended = bounds.time_ms(turn.started), bounds.time_ms(turn.ended)
    if not names and (started, ended) == (turn.started, turn.ended):
        return turn, names
    kept = {"tokens": tokens, "duration_ms": duration_ms, "api_latency_ms": api_latency_ms, "cost_usd": cost_usd}
    return msgspec.structs.replace(turn, **kept, started=started, ended=ended), names


def _fitting_tokens(tokens: Tokens, names: list[str]) -> Tokens:
    before = len(names)
    kept = {field: _kept(getattr(tokens, field), name, names) for field, name in _TOKENS.items()}
    return Tokens(**kept) if len(names) > before else tokens


def _kept(told: Any, name: str, names: list[str]) -> int | None:
    found = bounds.count(told)
    if found is None and told is not None:
        names.append(name)
    return found


def _kept_amount(told: Any, names: list[str]) -> float | None:
    found = bounds.amount(told)
    if found is None and told is not None:
        names.append("cost_usd")
    return found
