"""What happened in a session, as a face that scrolls asks for it: an outline of all, and some entries in full."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

from backstory.bounds import iso

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backstory.model import Event
    from backstory.store import StoredEvent
    from backstory.store.events import OutlinedEvent


class Form(Enum):
    """How much of an event is read."""

    COMPACT = "compact"
    """What lists and lines need of it."""
    WORDS = "words"
    """That, but a call whole if the compact form says nothing of what it is about."""
    FULL = "full"
    """Everything, read again from the bytes that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineEntry:
    """One event of a session without what it says. ``turn`` is its turn's number from 1; None before the first."""

    seq: int
    part: int
    kind: str
    turn: int | None
    at: int | None
    chars: int
    """How many characters the original event has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One event of a session, in the form that was asked for."""

    outline: OutlineEntry
    event: Event


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


def event_as_json(entry: Entry) -> dict[str, Any]:
    """An event as ``show --json`` prints it: where it stands, then its own fields."""
    return _with_fields(as_json(entry.outline), entry.event)


def live_event_as_json(event: Event, turn: int, *, full: bool) -> dict[str, Any]:
    """An event of a run that is not stored yet, likewise: without a number, which the store will give it."""
    from backstory.conversation.compact import compact_event
    from backstory.derive.index_text import char_len

    head = {"seq": None, "part": None, "turn": turn, "at": None, "kind": event.kind, "live": True}
    return _with_fields(head | {"char_len": char_len(event)}, event if full else compact_event(event))


def _with_fields(head: dict[str, Any], event: Event) -> dict[str, Any]:
    fields = msgspec.to_builtins(event)
    return head | {name: fields[name] for name in fields if name not in head}
