"""The content of a session for a face that scrolls: an outline of all, and some entries in full."""

from __future__ import annotations

from array import array
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from backstory.bounds import duration, iso
from backstory.model import Tool, ToolCall, ToolResult
from backstory.store.tables import events
from backstory.store.tables import turns as stored_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

    from backstory.model import Event
    from backstory.store import Store, StoredEvent
    from backstory.store.tables.events import OutlinedEvent
    from backstory.workspace.located import LocatedSession


Form = Literal["compact", "words", "full"]
"""The part of an event that is read: ``compact`` is enough for lines; ``words`` is that, but has a call whole if its
compact form does not say its subject; ``full`` is everything, read again from the bytes that are kept."""


TIMED_MS_LEAST = 1000
"""A shorter time between two records says nothing about the tool."""
WINDOW = 500
"""The most events that are read at once; nothing of the store is held while they are shown."""
FIRST_WINDOW = 40
"""The events that are read first for who asks for no more than some: mostly the first of these are enough."""


class OutlineEntry(Struct, frozen=True, kw_only=True):
    """One event of a session without what it says. ``turn`` is its turn's number from 1; None before the first."""

    seq: int
    part: int
    kind: str
    turn: int | None
    at: int | None
    chars: int
    """The number of characters that the original event has."""


class OutlineColumns(Struct, frozen=True, kw_only=True):
    """The outline of a session as columns: of entry n the n-th of each. They are as those of ``OutlineEntry``."""

    seqs: array[int]
    parts: array[int]
    kinds: list[str]
    turns: list[int | None]
    chars: array[int]

    def __len__(self) -> int:
        return len(self.seqs)

    def key(self, n: int) -> tuple[int, int]:
        """The record's number and the part of an entry."""
        return self.seqs[n], self.parts[n]

    def picked(self, places: Sequence[int]) -> OutlineColumns:
        """The entries at these places, in this order."""
        return OutlineColumns(
            seqs=array("q", map(self.seqs.__getitem__, places)),
            parts=array("q", map(self.parts.__getitem__, places)),
            kinds=[self.kinds[n] for n in places],
            turns=[self.turns[n] for n in places],
            chars=array("q", map(self.chars.__getitem__, places)),
        )


def columns_of(located: LocatedSession, last: int | None = None, up_to: int | None = None) -> OutlineColumns:
    """Every entry of a session in order, or the last so many, of records up to ``up_to``."""
    numbers = located.store.ask(stored_turns.numbers, located.session.id)
    found, known = located.store.ask(events.columns, located.session.id, last, up_to), dict[str, str]()
    return OutlineColumns(
        seqs=array("q", found.seqs),
        parts=array("q", found.parts),
        # A session has few kinds: each is one text, however many events are of it.
        kinds=[known.setdefault(each, each) for each in found.kinds],
        turns=[None if each is None else numbers.get(each) for each in found.turn_ids],
        chars=array("q", found.chars),
    )


class SessionEntry(Struct, frozen=True, kw_only=True):
    """One event of a session, in the form that was asked for."""

    outline: OutlineEntry
    event: Event


class ShownResult(Struct, frozen=True):
    """The result that stands right below a call. ``lasted``: how long the tool took, for a person."""

    seq: int | None
    result: ToolResult
    lasted: str = ""
    part: int = 0


def with_event(entry: SessionEntry, event: Event) -> SessionEntry:
    """The same place with another event."""
    return msgspec.structs.replace(entry, event=event)


def paired(
    events: Iterator[SessionEntry], *, full: bool
) -> Iterator[tuple[SessionEntry, ToolCall | None, ShownResult | None]]:
    """Yield the entries to draw: each call with its result, or a result with the call that it answers elsewhere.

    ``full``: each stands for itself, in its own place.
    """
    from backstory.conversation.pairing import (  # only what draws asks for it
        results_below_calls,
        with_answers,
        with_interruptions,
        without_repeats,
    )  # fmt: skip

    if not full:
        events = with_interruptions(events, _event_of, with_event)
    shown = results_below_calls(events, _event_of, lambda each: each.outline.turn)
    if full:
        yield from ((entry, answered, None) for entry, answered in shown)
        return
    for entry, answered, answer in with_answers(without_repeats(shown, _event_of, with_event), _event_of):
        yield entry, answered, None if answer is None else _timed(answer, entry)


def _event_of(entry: SessionEntry) -> Event:
    return entry.event


def _timed(entry: SessionEntry, call: SessionEntry) -> ShownResult | None:
    """A result as its call shows it: with how long the tool took, or ~ the time between the two records."""
    result = entry.event
    if not isinstance(result, ToolResult):
        return None
    lasted = duration(result.duration_ms)
    begun, ended = call.outline.at, entry.outline.at
    if not lasted and result.tool == Tool.SHELL and begun is not None and ended is not None:
        lasted = f"~{duration(ended - begun)}" if ended - begun >= TIMED_MS_LEAST else ""
    return ShownResult(entry.outline.seq, result, lasted, entry.outline.part)


def outlined(event: OutlinedEvent | StoredEvent, turns: Mapping[int, int]) -> OutlineEntry:
    """A stored event as an outline has it. ``turns``: the numbers of its session's turns."""
    return OutlineEntry(
        seq=event.seq,
        part=event.part,
        kind=event.kind,
        turn=None if event.turn_id is None else turns.get(event.turn_id),
        at=event.at,
        chars=event.char_len,
    )


def events_behind(
    located: LocatedSession, after: tuple[int, int], form: Form, turns: Container[int | None] | None,
    most: int | None = None,
) -> Iterator[SessionEntry]:  # fmt: skip
    """The events of a session behind ``after``, in order, at most so many; ``turns``: only those of these numbers."""
    # Asked now: what belongs to a turn that is stored later is left for the next call.
    numbers = located.store.ask(stored_turns.numbers, located.session.id)
    at_once = WINDOW if most is None or turns is not None else min(most, FIRST_WINDOW)
    return islice(_events_behind(located, after, numbers, form, turns, at_once), most)


def _events_behind(
    located: LocatedSession, after: tuple[int, int], numbers: Mapping[int, int], form: Form,
    turns: Container[int | None] | None, at_once: int,
) -> Iterator[SessionEntry]:  # fmt: skip
    store, read = located.store, _reading_as(located.store, form)
    while window := store.events(located.session, after=after, limit=at_once):
        for stored in window:
            number = None if stored.turn_id is None else numbers.get(stored.turn_id)
            is_known = number is not None or stored.turn_id is None
            if is_known and (turns is None or number in turns):
                yield SessionEntry(outline=outlined(stored, numbers), event=read(stored))
        after, at_once = (window[-1].seq, window[-1].part), min(at_once * 4, WINDOW)


def entries_of(located: LocatedSession, seqs: Sequence[int], form: Form) -> tuple[SessionEntry, ...]:
    """The entries of some records of a session, in order."""
    numbers, read = located.store.ask(stored_turns.numbers, located.session.id), _reading_as(located.store, form)
    stored = located.store.ask(events.of_records, located.session.id, seqs)
    return tuple(SessionEntry(outline=outlined(each, numbers), event=read(each)) for each in stored)


def _reading_as(store: Store, form: Form) -> Callable[[StoredEvent], Event]:
    if form == "compact":
        return lambda stored: stored.event
    from backstory.export.full_form import FullForms

    forms = FullForms(store)
    return forms.expand if form == "full" else forms.with_words


def as_json(entry: OutlineEntry) -> dict[str, Any]:
    """An entry of an outline as JSON, by the names of ``show --json``."""
    return {
        "seq": entry.seq,
        "part": entry.part,
        "turn": entry.turn,
        "at": iso(entry.at),
        "kind": entry.kind,
        "char_len": entry.chars,
    }


def event_as_json(entry: SessionEntry) -> dict[str, Any]:
    """An event as ``show --json`` prints it: where it stands, then its own fields."""
    return _with_fields(as_json(entry.outline), entry.event)


def live_event_as_json(event: Event, turn: int, *, full: bool) -> dict[str, Any]:
    """An event of a run that is not stored yet, likewise: without a number, which the store will give it."""
    from backstory.conversation.compact import compact_event
    from backstory.derive.index_text import char_len

    head = {"seq": None, "part": None, "turn": turn, "at": None, "kind": event.kind, "is_live": True}
    return _with_fields(head | {"char_len": char_len(event)}, event if full else compact_event(event))


def _with_fields(head: dict[str, Any], event: Event) -> dict[str, Any]:
    fields = msgspec.to_builtins(event)
    return head | {name: fields[name] for name in fields if name not in head}
