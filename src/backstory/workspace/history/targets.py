"""Finds the record of a session that a person names, and its branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.bounds import iso
from backstory.conversation.tree import Point, Tree
from backstory.errors import BranchNotFound, NoBranches, RecordNotFound
from backstory.lazy import lazy_regex
from backstory.store.tables import turns
from backstory.workspace.located import LocatedSession

if TYPE_CHECKING:
    from backstory.store import BranchName, TreeTurn

RECORD = lazy_regex(r"@([0-9]+)")
NUMBER = lazy_regex(r"[0-9]+")
SEQ_MAX = (1 << 63) - 1


class Target(Struct, frozen=True, kw_only=True):
    """A record of a session that a person named, and the branch whose tip it is if they named that."""

    located: LocatedSession
    point: Point
    asked: int
    """The record as it was asked for; not the point's where that would lie inside a tool's call."""
    tip: str | None = None
    """The uid of the turn at a branch's tip; None where a record was named."""
    is_session: bool = False
    """True if a whole session was named, which means the record that it stands at."""
    is_default: bool = False
    """True if its session was not named."""


class Branch(Struct, frozen=True, kw_only=True):
    """A branch as listed: its tip, its number, what it is called. ``number`` is None where only a name is."""

    number: int | None
    names: tuple[str, ...]
    turn: TreeTurn
    seq: int
    depth: int
    is_current: bool


def resolve_target(located: LocatedSession, wanted: str) -> Target:
    """The record or branch of a session that is meant: @N, a branch's name, or its number.

    Raises RecordNotFound, BranchNotFound, BranchRemoved.
    """
    store, session = located.store, located.session
    if named := RECORD.fullmatch(wanted):
        seq = int(named.group(1))
        if seq > SEQ_MAX:
            raise RecordNotFound(seq)
        place = store.place(session, seq)
        return Target(located=located, point=place.point, asked=place.asked)
    for branch in branches(located):
        if wanted in branch.names or (NUMBER.fullmatch(wanted) and branch.number == int(wanted[:18])):
            point = Point(branch.turn.uid, branch.seq)
            return Target(located=located, point=point, asked=branch.seq, tip=branch.turn.uid)
    raise BranchNotFound(wanted)


def current_target(located: LocatedSession) -> Target:
    """The record that a session's next prompt follows. Raises NoBranches where it has no turns."""
    point = current_point(located)
    tip = next((each.turn.uid for each in branches(located) if each.is_current and each.number is not None), None)
    return Target(located=located, point=point, asked=point.seq, tip=tip, is_session=True)


def current_point(located: LocatedSession) -> Point:
    """Return the place of a session's next prompt. Raises NoBranches for a session without turns."""
    point = located.store.leaf(located.session)
    if point is None:
        raise NoBranches(located.label, "turns")
    return point


def branches(located: LocatedSession, tree: Tree[TreeTurn] | None = None) -> list[Branch]:
    """A session's branches, the one that last grew first; behind them names of records that are no tip."""
    store, session = located.store, located.session
    tree = Tree(store.tree(session)) if tree is None else tree
    current, numbers, depths = store.leaf(session), _numbers(located, tree), tree.depths()
    tips = tree.tips()
    at_tips, elsewhere = _by_tip(tree, store.branch_names(session), {turn.uid for turn in tips})
    found_branches = [
        Branch(
            number=numbers[turn.uid],
            names=tuple(at_tips.get(turn.uid, ())),
            turn=turn,
            seq=turn.last_seq,
            depth=depths[turn.uid],
            is_current=current is not None and current.uid == turn.uid and _is_end(tree, current),
        )
        for turn in tips
    ]
    for each in elsewhere:
        turn, seq = tree[each.uid], each.seq or tree[each.uid].last_seq
        is_current = current == Point(each.uid, seq)
        found_branches.append(
            Branch(number=None, names=(each.name,), turn=turn, seq=seq, depth=depths[turn.uid], is_current=is_current)
        )
    return found_branches


def _numbers(located: LocatedSession, tree: Tree[TreeTurn]) -> dict[str, int]:
    """The number of the branch that each turn is on: the one it had before any other was removed."""
    if located.store.ask(turns.count, located.session.id) == len(tree):
        return tree.numbers()
    return Tree(located.store.tree(located.session, pruned=True)).numbers()


def _by_tip(
    tree: Tree[TreeTurn], called: list[BranchName], tips: set[str]
) -> tuple[dict[str, list[str]], list[BranchName]]:
    at_tips: dict[str, list[str]] = {}
    elsewhere: list[BranchName] = []
    for each in called:
        if each.uid in tips and (each.seq is None or each.seq >= tree[each.uid].last_seq):
            at_tips.setdefault(each.uid, []).append(each.name)
        elif each.uid in tree:
            elsewhere.append(each)
    return at_tips, elsewhere


def _is_end(tree: Tree[TreeTurn], point: Point) -> bool:
    """Return True if a record is the last of its turn."""
    return point.seq >= tree[point.uid].last_seq


def as_json(branch: Branch) -> dict[str, Any]:
    """A branch as ``branches --json`` prints it."""
    turn = branch.turn
    return {
        "leaf": branch.number,
        "name": branch.names[0] if branch.names else None,
        "names": branch.names,
        "seq": branch.seq,
        "turn_uid": turn.uid,
        "prompt": turn.prompt,
        "depth": branch.depth,
        "agent": turn.agent,
        "current": branch.is_current,
        "last_active": iso(turn.ended or turn.started),
    }
