"""What happened in a session, as a face that scrolls asks for it: an outline of all, and some entries in full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backstory.bounds import iso

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backstory.model import Event
    from backstory.store import StoredEvent
    from backstory.store.events import OutlinedEvent


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
    """One event of a session, in compact form."""

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
