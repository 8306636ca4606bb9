"""Steps that make two stores agree about the sessions that both hold: a pure plan of values.

Each decision of a person is filed under what it is about (the name, one branch's name, one turn's removal, one key of
its context) with its time. The later one wins; where neither has a time, the owner's. The events, and where a session
continues, are the owner's. A session that was removed in one store is removed in the other, unless somebody used it
there since.
"""

from __future__ import annotations

import math
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backstory import ids

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NAME = "name"
BRANCH = "branch "
"""Before what stands for a branch's name: the name, where its tip is, when it was given, when a turn moved it."""
TURN = "turn "
"""Before a turn's uid: when it was removed."""
CONTEXT = "context "
"""Before what stands for a key of its context."""


class ContextValue(Struct, frozen=True):
    """A key that a person gave a value in a session's context."""

    key: str
    value: str


Leaf = tuple[str | None, int | None]
Value = str | int | ContextValue | tuple[str, str, int | None, int, int | None]
NAME_DIGITS = 16


def about_branch(name: str) -> str:
    """The key of a branch's name: no word of it, so that nothing of a name that is taken away stays."""
    return BRANCH + _digits(name)


def about_context(key: str) -> str:
    """The same of a key of the context."""
    return CONTEXT + _digits(key)


def _digits(name: str) -> str:
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:NAME_DIGITS]


class Decisions(Struct, frozen=True, kw_only=True):
    """People's decisions about a session. A thing that has a time and no value was taken back."""

    values: Mapping[str, Value]
    at: Mapping[str, int]
    """Times of decisions, ms; one decided by a version that noted no time is not in it."""
    leaf: Leaf
    leaf_at: int | None = None
    """The time when a checkout or a run decided where it goes on, ms; None: not known."""


class SessionState(Struct, frozen=True, kw_only=True):
    """One session in one store, as far as a plan needs it."""

    uid: str
    owner: str | None
    is_borrowed: bool
    """It was taken from a store from elsewhere, before that was trusted."""
    content: tuple[object, ...]
    """A value that changes whenever events come."""
    decided: Decisions
    turns: frozenset[str]
    finished: frozenset[str]
    """The turns that ended and are not removed."""
    pruned: Mapping[str, int]
    """The turns of which a row is left: when each was removed, by its uid."""
    last_started: int


class StoreState(Struct, frozen=True, kw_only=True):
    """One store, as far as a plan needs it."""

    store_id: str
    sessions: Mapping[str, SessionState]
    removed: Mapping[str, int]
    """The times when a person removed sessions, by their identity."""


class Side(StrEnum):
    """The store that a step changes."""

    OURS = "ours"
    THEIRS = "theirs"


class Remove(Struct, frozen=True, tag=True):
    """Remove a session that a person removed in the other store."""

    side: Side
    uid: str


class Prune(Struct, frozen=True, tag=True):
    """Drop what turns hold that were pruned in the other store. ``turns``: when each was removed, by its uid."""

    side: Side
    uid: str
    turns: Mapping[str, int]


class CopySession(Struct, frozen=True, tag=True):
    """Copy a session that they own, with its events; what was decided later here stays."""

    uid: str


class Decide(Struct, frozen=True, tag=True):
    """Write what people decided. ``known``: the turns of the store where it was decided."""

    side: Side
    uid: str
    decided: Decisions
    before: Decisions
    known: frozenset[str]


class Differ(Struct, frozen=True, tag=True):
    """Report a session that has other turns here, or another owner: neither replaces the other."""

    uid: str


Step = Remove | Prune | CopySession | Decide | Differ


def plan(ours: StoreState, theirs: StoreState) -> list[Step]:
    """The steps after which our store holds what theirs owns, and both hold what was decided last."""
    steps = list[Step]()
    # Sorted, so that a plan that is made again after a kill is the same one.
    for uid in sorted({*ours.sessions, *theirs.sessions}):
        mine, other = ours.sessions.get(uid), theirs.sessions.get(uid)
        if other is not None and other.owner == theirs.store_id:
            steps += _owned(mine, other, ours.removed)
        elif mine is not None and other is None:
            if mine.owner == theirs.store_id and _is_removed(mine, theirs.removed):
                steps.append(Remove(Side.OURS, uid))
        elif mine is not None and other is not None and not mine.is_borrowed:
            steps += shared(mine, other)
    return steps


def _is_removed(session: SessionState, removed: Mapping[str, int]) -> bool:
    """Return True if a session was removed elsewhere, and nobody used it here since."""
    at = removed.get(ids.session_identity(session.uid))
    return at is not None and session.last_started <= at


def _owned(mine: SessionState | None, other: SessionState, removed: Mapping[str, int]) -> Iterator[Step]:
    """The steps for a session that the other store owns."""
    uid = other.uid
    if ids.session_identity(uid) in removed:
        # A session that somebody used there after we removed it stays there, and does not come back here.
        if _is_removed(other, removed):
            yield Remove(Side.THEIRS, uid)
    elif mine is None:
        yield CopySession(uid)
    # Each of two stores counts the session as its own, and a copy would replace the turns of one.
    elif mine.owner != other.owner and not mine.is_borrowed:
        yield Differ(uid)
    elif mine.content == other.content and not mine.is_borrowed:
        decided = merge(other, mine)
        yield from _settle(Side.OURS, mine, other, decided)
        yield from _settle(Side.THEIRS, other, mine, decided)
    # A copy would lose turns that only we have.
    elif mine.finished - other.turns:
        yield Differ(uid)
        yield from shared(mine, other)
    else:
        # A copy takes what was pruned from there, so it is pruned there first.
        there = list(_settle(Side.THEIRS, other, mine, merge(other, mine)))
        yield from (step for step in there if isinstance(step, Prune))
        yield CopySession(uid)
        yield from (step for step in there if not isinstance(step, Prune))


def shared(mine: SessionState, other: SessionState) -> Iterator[Prune | Decide]:
    """The steps for a session whose events are not copied: only what was decided later goes over."""
    yield from _settle(Side.OURS, mine, other, merge(mine, other))
    yield from _settle(Side.THEIRS, other, mine, merge(other, mine))


def _settle(side: Side, session: SessionState, known: SessionState, decided: Decisions) -> Iterator[Prune | Decide]:
    """The steps that write decisions on one side, which may lack turns of the other."""
    # Pruning is for good: what a person erased in one store must not stay in the other.
    lacking = {uid: ms for uid, ms in known.pruned.items() if uid in session.turns and uid not in session.pruned}
    if lacking:
        yield Prune(side, session.uid, lacking)
    wanted = fitting(decided, session)
    if wanted != session.decided:
        yield Decide(side, session.uid, wanted, session.decided, known.turns)


def fitting(decided: Decisions, session: SessionState) -> Decisions:
    """Those decisions that are about something that a session has."""
    lacking = {about for about in {*decided.values, *decided.at} if _is_about_lacking(about, session)}
    return replace(
        decided,
        values={about: value for about, value in decided.values.items() if about not in lacking},
        at={about: ms for about, ms in decided.at.items() if about not in lacking},
    )


def _is_about_lacking(about: str, session: SessionState) -> bool:
    return about.startswith(TURN) and about[len(TURN) :] not in session.turns


def merge(owner: SessionState, copy: SessionState) -> Decisions:
    """Return the last decision about each thing; the owner's where none is later. What is pruned stays removed."""
    ours, theirs = owner.decided, copy.decided
    values, at = dict[str, Value](), dict[str, int]()
    for about in sorted({*ours.values, *ours.at, *theirs.values, *theirs.at}):
        later = theirs if theirs.at.get(about, 0) > ours.at.get(about, 0) else ours
        if about in later.values:
            values[about] = later.values[about]
        if about in later.at:
            at[about] = later.at[about]
    # To restore a turn without its words would bring back nothing.
    values |= {f"{TURN}{uid}": ms for uid, ms in {**copy.pruned, **owner.pruned}.items()}
    return Decisions(values=values, at=at, leaf=ours.leaf, leaf_at=ours.leaf_at)


def merge_alike(one: SessionState, other: SessionState) -> Decisions:
    """Return the last decision about each thing, in whichever of two copies; the leaf is that of the first.

    Where both were made at one moment it is the same one, whichever copy comes first.
    """
    values, at = dict[str, Value](), dict[str, int]()
    for about in sorted({*one.decided.values, *one.decided.at, *other.decided.values, *other.decided.at}):
        later = max((one.decided, other.decided), key=lambda decided: _when(decided, about))
        if about in later.values:
            values[about] = later.values[about]
        if about in later.at:
            at[about] = later.at[about]
    values |= {
        f"{TURN}{uid}": max(one.pruned.get(uid, 0), other.pruned.get(uid, 0)) for uid in {*one.pruned, *other.pruned}
    }
    return replace(one.decided, values=values, at=at)


def _when(decided: Decisions, about: str) -> tuple[int, bool, int, str, float]:
    """Return a sort key of a decision: its time, and what tells two decisions of one moment apart."""
    value, at = decided.values.get(about), decided.at.get(about, 0)
    if not isinstance(value, tuple):
        return at, value is not None, 0, str(value), 0
    # Two records of one turn are in one order by whichever copy's numbers; no number means the turn's end.
    record = math.inf if value[2] is None else value[2]
    return at, True, value[4] or value[3], str(value[:2]), record
