"""A session's turns as a tree, with all that is shown of it; and two of its branches side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.ask import costs as stored_costs
from backstory.bounds import iso
from backstory.conversation.tree import Tree, diff
from backstory.derive.pricing import UNKNOWN, cost_as_json, total
from backstory.store.tables import branches as stored_branches
from backstory.workspace.history.targets import branches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backstory.conversation.tree import Point, Span
    from backstory.derive.pricing import Cost
    from backstory.store import TreeTurn
    from backstory.workspace.history.records import PathRecord
    from backstory.workspace.history.targets import Branch, Target
    from backstory.workspace.located import LocatedSession


class SessionTree(Struct, frozen=True, kw_only=True):
    """The turns of a session by who follows whom."""

    located: LocatedSession
    tree: Tree[TreeTurn]
    current: Point | None
    """The place of the next prompt; None in a session without turns."""
    on_path: frozenset[str]
    """The uids of the turns that lead there."""
    tips: Mapping[str, tuple[Branch, ...]]
    """The branches whose tips are turns, by the turns' uids."""
    costs: Mapping[str, Cost]
    """The cost of turns, by uid; empty if that was not asked for."""


class TreeRow(Struct, frozen=True):
    """A turn to be shown: the signs before it, and before those that follow it."""

    turn: TreeTurn
    head: str
    below: str


class ComparedBranch(Struct, frozen=True, kw_only=True):
    """One of two branches that are compared: where it ends, and what the other does not have."""

    target: Target
    turns: tuple[TreeTurn, ...]
    """Those that begin on this side."""
    records: tuple[PathRecord, ...]
    files: Mapping[str, str]
    """The files touched on this side, each with what was done to it."""
    cost: Cost
    is_empty: bool


class Comparison(Struct, frozen=True, kw_only=True):
    """Two branches. ``fork``: the last record that both have; None where they share nothing."""

    fork: Point | None
    fork_prompt: str
    left: ComparedBranch
    right: ComparedBranch


def session_tree(located: LocatedSession, *, removed: bool, costs: bool) -> SessionTree:
    """The tree of a session; ``removed``: with the turns of branches that were removed."""
    store, session = located.store, located.session
    turns = store.tree(session, removed=removed)
    tree = Tree(turns)
    current = store.leaf(session)
    current = current if current is not None and current.uid in tree else None
    there = Tree([turn for turn in turns if turn.removed is None]) if removed else tree
    tips: dict[str, list[Branch]] = {}
    for branch in branches(located, there):
        tips.setdefault(branch.turn.uid, []).append(branch)
    return SessionTree(
        located=located,
        tree=tree,
        current=current,
        on_path=frozenset(turn.uid for turn in tree.ancestry(current.uid)) if current else frozenset(),
        tips={uid: tuple(each) for uid, each in tips.items()},
        costs=store.ask(stored_costs.by_turn, stored_costs.price_table(store.prices_file), session.id) if costs else {},
    )


def tree_rows(tree: Tree[TreeTurn], columns: int) -> Iterator[TreeRow]:
    """Each turn behind the one it follows; only where branches part it is indented, in half of the columns."""
    waiting = [TreeRow(root, "", "") for root in reversed(tree.children(None))]
    while waiting:
        row = waiting.pop()
        yield row
        children = tree.children(row.turn.uid)
        if len(children) == 1 and goes_on(children[0], row.turn):
            waiting.append(TreeRow(children[0], row.below, row.below))
            continue
        below = _within(row.below, columns // 2)
        for child in reversed(children):
            is_last = child is children[-1]
            head, rest = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            waiting.append(TreeRow(child, below + head, below + rest))


def goes_on(child: TreeTurn, parent: TreeTurn) -> bool:
    """Return True if a turn follows the last record of another."""
    return child.parent_seq is None or child.parent_seq >= parent.last_seq


def _within(prefix: str, columns: int) -> str:
    """The end of a prefix that has become too long: what is nearest to the line matters most."""
    columns -= columns % 3
    return prefix if len(prefix) <= columns else "⋯  " + prefix[len(prefix) - columns + 3 :]


def compared(left: Target, right: Target) -> Comparison:
    """Two branches, of one session or of two: where they part, and what came of each."""
    first = _tree(left.located)
    second = first if left.located == right.located else _tree(right.located)
    parted = diff(first.path(left.point), second.path(right.point))
    return Comparison(
        fork=parted.fork,
        fork_prompt="" if parted.fork is None else first[parted.fork.uid].prompt,
        left=_side(left, first, parted.left),
        right=_side(right, second, parted.right),
    )


def _tree(located: LocatedSession) -> Tree[TreeTurn]:
    return Tree(located.store.tree(located.session))


def _side(target: Target, tree: Tree[TreeTurn], alone: list[Span]) -> ComparedBranch:
    from backstory.workspace.history.records import path_records

    store, session = target.located.store, target.located.session
    turns = tuple(tree[span.uid] for span in alone if span.first == tree[span.uid].first_seq)
    costs = store.ask(stored_costs.by_turn, stored_costs.price_table(store.prices_file), session.id)
    of_turns = ((turn, costs.get(turn.uid, UNKNOWN)) for turn in turns)
    return ComparedBranch(
        target=target,
        turns=turns,
        records=tuple(path_records(target.located, alone, tree)),
        files=store.ask(stored_branches.touched, session.id, alone),
        # One for which no model was asked costs nothing.
        cost=total(cost for turn, cost in of_turns if turn.model is not None or cost.low_usd is not None),
        is_empty=not alone,
    )


def head_as_json(tree: SessionTree) -> dict[str, Any]:
    """The session, and where its next prompt goes, as ``tree --json`` prints them."""
    session, current = tree.located.session, tree.current
    at = None if current is None else {"turn_uid": current.uid, "seq": current.seq}
    return tree.located.keys | {"number": session.shown_number, "name": session.name or None, "follows": at}


def turns_as_json(whole: SessionTree) -> Iterator[dict[str, Any]]:
    """Each turn as ``tree --json`` prints it, after the one it follows."""
    depths = whole.tree.depths()
    for turn in whole.tree.walk():
        tips = whole.tips.get(turn.uid, ())
        parent, cost = whole.tree.parent(turn.uid), whole.costs.get(turn.uid, UNKNOWN)
        yield {
            "turn_uid": turn.uid,
            "seq": turn.first_seq,
            "last_seq": turn.last_seq,
            "parent_turn_uid": None if parent is None else parent.uid,
            "parent_seq": None if parent is None else turn.parent_seq,
            "depth": depths[turn.uid],
            "agent": turn.agent,
            "prompt": turn.prompt,
            "answer": turn.answer,
            "started": iso(turn.started),
            "ended": iso(turn.ended),
            "outcome": turn.outcome,
            **cost_as_json(cost),
            "current": whole.current is not None and whole.current.uid == turn.uid,
            "on_current_branch": turn.uid in whole.on_path,
            "leaf": next((each.number for each in tips if each.number is not None), None),
            "names": [name for each in tips for name in each.names],
            "removed": iso(turn.removed),
        }


def comparison_as_json(comparison: Comparison) -> dict[str, Any]:
    """Two branches as ``diff --json`` prints them."""
    fork = None if comparison.fork is None else {"turn_uid": comparison.fork.uid, "seq": comparison.fork.seq}
    return {"fork": fork, "left": _side_as_json(comparison.left), "right": _side_as_json(comparison.right)}


def _side_as_json(side: ComparedBranch) -> dict[str, Any]:
    from backstory.workspace.history import records

    located, point = side.target.located, side.target.point
    return {
        **located.keys,
        "seq": point.seq,
        "turn_uid": point.uid,
        "turn_uids": [turn.uid for turn in side.turns],
        "records": [records.as_json(each) for each in side.records],
        "files": [{"path": name, "action": action} for name, action in side.files.items()],
        **cost_as_json(side.cost),
    }
