"""A session as it is shared with other people: values that ``markdown`` and ``outline`` render. No store, no files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.bounds import iso
from backstory.derive.pricing import cost_as_json
from backstory.ids import session_keys

if TYPE_CHECKING:
    from backstory.derive.pricing import Cost
    from backstory.model import Event


class SharedTurn(Struct, frozen=True, kw_only=True):
    """One turn. Times are in ms since 1970; None where no log says."""

    number: int
    agent: str
    model: str | None
    started: int | None
    duration_ms: int | None
    outcome: str | None
    cost: Cost
    is_rewound: bool


class SharedRef(Struct, frozen=True, kw_only=True):
    """A pull request, issue or commit that was named first in record ``seq``."""

    type: str
    value: str
    host: str | None
    repository: str | None
    seq: int


class SharedSession(Struct, frozen=True, kw_only=True):
    """A session as a whole, without the branches that a person removed."""

    uid: str
    title: str
    agents: tuple[str, ...]
    project: str | None
    branch: str | None
    started: int | None
    cost: Cost
    turns: tuple[SharedTurn, ...]
    refs: tuple[SharedRef, ...]
    pruned: tuple[str, ...] = ()
    """The words for what was pruned of it in part; none: it is whole."""


class SharedEvent(Struct, frozen=True, kw_only=True):
    """An event of a turn. ``seq`` is None in a run that no store has yet."""

    seq: int | None
    turn: int | None
    event: Event
    at: int | None = None


class OutlinePoint(Struct, frozen=True, kw_only=True):
    """One line of an outline: a ``prompt``, a ``decision`` or a ``commit``, at record ``seq``."""

    kind: str
    seq: int | None
    turn: int | None
    at: int | None
    text: str


def session_as_json(session: SharedSession) -> dict[str, Any]:
    """The head of ``show --outline --json``."""
    return {
        **session_keys(session.uid),
        "title": session.title,
        "agents": session.agents,
        "project": session.project,
        "branch": session.branch,
        "started": iso(session.started),
        "turn_count": len(session.turns),
        "pruned": session.pruned or None,
        **cost_as_json(session.cost),
    }


def point_as_json(point: OutlinePoint) -> dict[str, Any]:
    """A line of an outline as ``show --outline --json`` prints it."""
    return {"kind": point.kind, "seq": point.seq, "turn": point.turn, "at": iso(point.at), "text": point.text}


def masked_words(counts: dict[str, int]) -> str:
    """Return the numbers of masked values, in a sentence.

    >>> masked_words({"user": 3, "jwt": 1})
    'Masked: 3 user, 1 jwt.'
    """
    shown = [f"{count} {name}" for name, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))]
    return f"Masked: {', '.join(shown)}." if shown else "Nothing had to be masked."
