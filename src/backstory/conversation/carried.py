"""A conversation on its way into another agent's log: what is said and done in it, in no agent's form. Values only.

What became of each record on the way is its ``Fate``, and a ``Fidelity`` holds those of all records.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, UnsetType, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Image(Struct, frozen=True, kw_only=True):
    """An image as its log holds it. ``data`` is base64; ``call_id`` names the call that returned it."""

    media_type: str
    data: str
    call_id: str | None = None


# what a call does, whatever its tool is called --------------------------------------------------------------------


class RunCommand(Struct, frozen=True, kw_only=True):
    """A shell ran a command; ``folder`` is None for the session's."""

    command: str
    folder: str | None = None


class ReplaceText(Struct, frozen=True, kw_only=True):
    """In a file, lines took the place of others."""

    path: str
    old: str
    new: str


class WriteFile(Struct, frozen=True, kw_only=True):
    """A file was written whole."""

    path: str
    content: str


Action = RunCommand | ReplaceText | WriteFile


# the conversation -------------------------------------------------------------------------------------------------


class CarriedAnswer(Struct, frozen=True):
    """Words of the model."""

    text: str


class Call(Struct, frozen=True, kw_only=True):
    """A call of a tool that the target has, and what came of it."""

    id: str
    name: str
    input: Any
    result: str
    images: tuple[Image, ...] = ()
    is_error: bool = False


class Message(Struct, frozen=True, kw_only=True):
    """Words and calls of the model in one message; the results of the calls follow it. ``at``: ms since 1970."""

    parts: tuple[CarriedAnswer | Call, ...]
    at: int | None


class Words(Struct, frozen=True, kw_only=True):
    """Words typed while the agent worked."""

    text: str
    at: int | None
    images: tuple[Image, ...] = ()


class Remark(Struct, frozen=True, kw_only=True):
    """A record that the target has no form for, as text in the user's place that nobody typed."""

    text: str
    at: int | None
    images: tuple[Image, ...] = ()


class Interruption(Struct, frozen=True, kw_only=True):
    """A person stopped the agent."""

    at: int | None


Step = Message | Words | Remark | Interruption


class CarriedTurn(Struct, frozen=True, kw_only=True):
    """A turn: its prompt and what followed. ``agent`` and ``model``: who answered; None: no log names it."""

    uid: str
    prompt: str
    agent: str
    model: str | None
    started: int | None
    ended: int | None
    outcome: str | None
    images: tuple[Image, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def last_answer(self) -> str:
        """Return the last words of the model; empty if there are none."""
        parts = [part for step in self.steps if isinstance(step, Message) for part in step.parts]
        return next((part.text for part in reversed(parts) if isinstance(part, CarriedAnswer)), "")


class CarriedSession(Struct, frozen=True, kw_only=True):
    """The conversation and the place where it continues: the values in every record of a log, or at its head."""

    native_id: str
    folder: str
    branch: str | None
    started: int
    settings: dict[str, str] = field(default_factory=dict)
    """The settings of the target's client on this machine, as far as its log must give them."""


# what became of it ------------------------------------------------------------------------------------------------


class Fate(StrEnum):
    """The fate of a record: the later a value stands, the less of the record is left."""

    KEPT = "kept"
    CONVERTED = "converted"
    AS_TEXT = "as_text"
    LEFT_OUT = "left_out"


class EventFate(Struct, frozen=True, kw_only=True):
    """The fate of one event: its kind, and why it is not as it was."""

    kind: str
    fate: Fate
    why: str = ""


class RecordFate(Struct, frozen=True, kw_only=True):
    """The fate of the record ``seq``: that of the event of which least is left; ``parts``: that of each event.

    A record with one event, or none, has no ``parts``.
    """

    seq: int
    fate: Fate
    kind: str
    why: str = ""
    parts: tuple[EventFate, ...] | UnsetType = UNSET


class Fidelity:
    """The fate of every record, each once, and of every event in it."""

    def __init__(self) -> None:
        self._found: dict[int, dict[int, EventFate]] = {}

    def note(self, seq: int, fate: Fate, kind: str, why: str = "", part: int = 0) -> None:
        """Note what became of a record, or of an event in it; of two notes the one of which less is left counts."""
        parts = self._found.setdefault(seq, {})
        if part not in parts or _ORDER[fate] > _ORDER[parts[part].fate]:
            parts[part] = EventFate(kind=kind, fate=fate, why=why)

    def is_known(self, seq: int) -> bool:
        """Return True if anything was noted about a record."""
        return seq in self._found

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of records with each fate; all four are there."""
        found = {fate.value: 0 for fate in Fate}
        for parts in self._found.values():
            found[_least(parts.values()).fate.value] += 1
        return found

    @property
    def records(self) -> list[RecordFate]:
        """Every record, in order."""
        return [_record(seq, self._found[seq]) for seq in sorted(self._found)]

    @property
    def events(self) -> Iterator[EventFate]:
        """Every event, and every record without one."""
        return (each for parts in self._found.values() for each in parts.values())


def _record(seq: int, parts: dict[int, EventFate]) -> RecordFate:
    least = _least(parts.values())
    each = tuple(parts[part] for part in sorted(parts)) if len(parts) > 1 else UNSET
    return RecordFate(seq=seq, fate=least.fate, kind=least.kind, why=least.why, parts=each)


def _least(found: Iterable[EventFate]) -> EventFate:
    return max(found, key=lambda each: _ORDER[each.fate])


_ORDER = {fate: place for place, fate in enumerate(Fate)}
