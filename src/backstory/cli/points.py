"""Which session, which record of it, which branch: what the commands for the conversation tree are told."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from backstory.cli import output
from backstory.cli.app import Found, now_ms
from backstory.cli.list_command import listed
from backstory.cli.options import readable, session_argument
from backstory.conversation.tree import Point, Tree
from backstory.errors import BranchNotFound, NoBranches, NoSessionHere, RecordNotFound, SessionBusy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.cli.app import App
    from backstory.store import Named, TreeTurn

RECORD = re.compile(r"@([0-9]+)")
NUMBER = re.compile(r"[0-9]+")
SEQ_MAX = (1 << 63) - 1
SHOWN_COLUMNS = 60


class Meant(Struct, frozen=True, kw_only=True):
    """What a person named: a record, and the branch whose tip it is if they named that."""

    point: Point
    asked: int
    """The record as it was asked for; not the point's where that would lie inside a tool's call."""
    tip: str | None = None
    """The uid of the turn at a branch's tip; None where a record was named."""


class Branch(Struct, frozen=True, kw_only=True):
    """A branch as listed: its tip, its number, what it is called. ``number`` is None where only a name is."""

    number: int | None
    names: tuple[str, ...]
    turn: TreeTurn
    seq: int
    depth: int
    is_current: bool


def session_option(function: Any) -> Any:
    """``-S``: the session that is meant, where the argument is something else."""
    told = "The session: S3, a name, a uid.  [default: the one last active here]"
    return click.option("--session", "-S", "wanted", metavar="SESSION", help=told)(function)


def session_or_default() -> Callable[[Any], Any]:
    """An argument for the session that may be left out."""
    return session_argument(required=False)


def find(app: App, wanted: str | None) -> Found:
    """The session that is meant; without a word the one last active in this worktree, else in this project."""
    if wanted is not None:
        return app.find(wanted)
    store = app.project_store
    own = store.last_session(app.worktree) if store.exists else None
    if own is not None:
        found = Found(store, own)
    else:
        everything = listed(app, everything=bool(app.store_path), agent=None, helpers=False)
        if not everything:
            raise NoSessionHere(app.project_folder)
        found = everything[0]
    told = found.session.shown_title
    room = max(min(output.width() - len(shown(found)) - 1, SHOWN_COLUMNS), 8)
    output.talk(f"{shown(found)} {output.one_line(told, room)}".strip())
    return found


def shown(found: Found) -> str:
    """What a session is called in a sentence."""
    return found.session.shown_number or found.session.uid[:12]


def meant(found: Found, wanted: str) -> Meant:
    """The record or branch that is meant: @N, a branch's name, or its number.

    Raises RecordNotFound, BranchNotFound, BranchRemoved.
    """
    store, session = found.store, found.session
    if told := RECORD.fullmatch(wanted):
        seq = int(told.group(1))
        if seq > SEQ_MAX:
            raise RecordNotFound(seq)
        place = store.place(session, seq)
        return Meant(point=place.point, asked=place.asked)
    wanted = readable(wanted)
    for branch in branches(found):
        if wanted in branch.names or (NUMBER.fullmatch(wanted) and branch.number == int(wanted[:18])):
            return Meant(point=Point(branch.turn.uid, branch.seq), asked=branch.seq, tip=branch.turn.uid)
    raise BranchNotFound(wanted)


def here(found: Found) -> Point:
    """Where a session goes on; raises NoBranches where it has no turns."""
    point = found.store.leaf(found.session)
    if point is None:
        raise NoBranches(shown(found), "turns")
    return point


def branches(found: Found, tree: Tree[TreeTurn] | None = None) -> list[Branch]:
    """A session's branches, the one that last grew first; behind them names of records that are no tip."""
    store, session = found.store, found.session
    tree = Tree(store.tree(session)) if tree is None else tree
    current, numbers, depths = store.leaf(session), _numbers(found, tree), tree.depths()
    tips = tree.tips()
    at_tips, elsewhere = _by_tip(tree, store.branch_names(session), {turn.uid for turn in tips})
    found_branches = [
        Branch(
            number=numbers[turn.uid],
            names=tuple(at_tips.get(turn.uid, ())),
            turn=turn,
            seq=turn.last_seq,
            depth=depths[turn.uid],
            is_current=current is not None and current.uid == turn.uid and is_end(tree, current),
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


def _numbers(found: Found, tree: Tree[TreeTurn]) -> dict[str, int]:
    """The number of the branch that each turn is on: the one it had before any other was removed."""
    if found.store.turn_count(found.session) == len(tree):
        return tree.numbers()
    return Tree(found.store.tree(found.session, pruned=True)).numbers()


def _by_tip(tree: Tree[TreeTurn], called: list[Named], tips: set[str]) -> tuple[dict[str, list[str]], list[Named]]:
    at_tips: dict[str, list[str]] = {}
    elsewhere: list[Named] = []
    for each in called:
        if each.uid in tips and (each.seq is None or each.seq >= tree[each.uid].last_seq):
            at_tips.setdefault(each.uid, []).append(each.name)
        elif each.uid in tree:
            elsewhere.append(each)
    return at_tips, elsewhere


def is_end(tree: Tree[TreeTurn], point: Point) -> bool:
    """Whether a record is the last of its turn."""
    return point.seq >= tree[point.uid].last_seq


def tell_moved(told: Meant) -> None:
    """Say where a record that lies inside a tool's call was taken to."""
    if told.tip is None and told.point.seq != told.asked and told.point.seq < told.asked:
        output.talk(
            f"@{told.asked} lies between a tool's call and its result, so what follows is told up to "
            f"@{told.point.seq}, before the call."
        )


@contextmanager
def locked(app: App, uid: str, shown_as: str) -> Iterator[None]:
    """Hold the right to write a session while something is decided about it; raises SessionBusy."""
    from backstory.runs.lock import LOCKS, SessionLock
    from backstory.runs.runner import Runner
    from backstory.runs.spool import SPOOLS, waiting

    Runner(app.home, app.machine_store, app.environ, now_ms).take_up(output.talk)
    lock = SessionLock(app.home / LOCKS, uid)
    if not lock.take():
        raise SessionBusy(shown_as, lock.holder)
    try:
        if any(
            (run := spool.run) and run.session_uid == uid and spool.is_alive for spool in waiting(app.home / SPOOLS)
        ):
            raise SessionBusy(shown_as, "an agent whose backstory was killed")
        yield
    finally:
        lock.release()
