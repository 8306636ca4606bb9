"""``backstory tree name``, ``unname``, ``rm``, ``restore`` and ``prune``, also below ``backstory branch``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

from backstory.cli import CommandGroup, output
from backstory.cli.options import find, find_target, json_option, locked, readable, session_option, store_option
from backstory.cli.trusting import copy_decisions, is_agreed, may_act, talk_late, trust_option, writable_session
from backstory.conversation.tree import Tree
from backstory.errors import BranchNotFound, BranchShared, NoBranches
from backstory.store.tables import branches
from backstory.workspace.history.targets import RECORD, current_point
from backstory.workspace.located import LocatedSession
from backstory.workspace.runs import branching
from backstory.workspace.runs.branching import owning, usable_name
from backstory.workspace.runs.running import measure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backstory.cli.app import App
    from backstory.store import Session, Store, TreeTurn
    from backstory.workspace.decisions import Decided
    from backstory.workspace.history.targets import Target

T = TypeVar("T")
TEXT_COLUMNS = 50


@click.group("branch", cls=CommandGroup)
def command() -> None:
    """Name, remove and restore branches, as `backstory tree` does. `backstory tree branches` lists them."""


@command.command("name")
@click.argument("name")
@click.argument("point", metavar="[@N|LEAF|SESSION]", required=False)
@session_option
@json_option
@trust_option
@store_option
@click.pass_obj
def name_branch(app: App, name: str, point: str | None, wanted: str | None, as_json: bool) -> None:
    """Name the current branch, or the one with this record or number. The name stays while the branch grows."""
    name = usable_name(readable(name))
    may_act(app)
    if point is None:
        found = owning(app.workspace, find(app, wanted))
        to = current_point(found)
    else:
        target = find_target(app, point, wanted)
        found, to = owning(app.workspace, target.located), target.point
    late = branching.name_branch(app.workspace, found, name, to)
    output.talk(f"The branch with @{to.seq} is now called {output.one_line(name, TEXT_COLUMNS)!r}.")
    talk_late("Named", late)
    if as_json:
        output.json({**found.keys, "name": name, "seq": to.seq})


@command.command("unname")
@click.argument("name")
@session_option
@json_option
@trust_option
@store_option
@click.pass_obj
def unname_branch(app: App, name: str, wanted: str | None, as_json: bool) -> None:
    """Remove the NAME of a branch; the branch stays."""
    name = readable(name).strip()
    may_act(app)
    found = owning(app.workspace, find(app, wanted))
    if name not in {each.name for each in found.store.branch_names(found.session)}:
        raise BranchNotFound(name)
    late = _decide(app, found, lambda store, session: store.unname_branch(session, name)).late
    output.talk(f"No branch is called {output.one_line(name, TEXT_COLUMNS)!r} any more.")
    talk_late("Unnamed", late)
    if as_json:
        output.json({**found.keys, "unnamed": name})


@command.command("rm")
@click.argument("point", metavar="@N|NAME|LEAF|SESSION")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@session_option
@json_option
@trust_option
@store_option
@click.pass_obj
def rm(app: App, point: str, yes: bool, wanted: str | None, as_json: bool) -> None:
    """Remove a branch: by name or number the turns that only it has, by @N that turn and all after it.

    They are neither shown nor sent to agents. `backstory tree restore` restores them until they are pruned.
    """
    may_act(app)
    to = find_target(app, point, wanted)
    found = to.located
    doomed = _doomed(found, to, point)
    first = output.one_line(doomed[0].prompt, TEXT_COLUMNS)
    what = f"Removing {_count(doomed)} from @{doomed[0].first_seq} on ({first}) of {found.label}"
    if not is_agreed(what, f"{what}?", yes=yes):
        return
    own = LocatedSession(app.project_store, writable_session(app, found, to.point))
    with locked(app, own.session.uid, own.label):
        removed = own.store.remove_turns(own.session, [turn.uid for turn in _doomed(own, to, point)])
    measure(app.workspace, own.store, own.session)
    copy_decisions(app, own, "Removed")
    leaf = own.store.leaf(own.session)
    if as_json:
        output.json({**own.keys, "removed_turns": removed, "seq": None if leaf is None else leaf.seq})
        return
    output.data(f"removed {removed} turn{'s' * (removed != 1)} from @{doomed[0].first_seq} on")
    output.talk(f"{own.label} continues at @{leaf.seq}." if leaf is not None else f"{own.label} has no turns left.")
    output.talk(f"To undo this: backstory tree restore @{doomed[0].first_seq} -S {own.label}")


@command.command("restore")
@click.argument("point", metavar="[@N|NAME]", required=False)
@session_option
@json_option
@trust_option
@store_option
@click.pass_obj
def restore(app: App, point: str | None, wanted: str | None, as_json: bool) -> None:
    """Restore a removed branch: the last one removed, or the one with this record or name."""
    may_act(app)
    found = owning(app.workspace, find(app, wanted))
    gone = found.store.ask(branches.removed, found.session.id)
    if not gone:
        raise NoBranches(found.label, "removed branches")
    uid = gone[0].uid if point is None else _removed_turn(found, gone, point)
    with locked(app, found.session.uid, found.label):
        back = _decide(app, found, lambda store, session: store.restore_turns(session, uid))
    measure(app.workspace, found.store, found.session)
    if as_json:
        leaf = found.store.leaf(found.session)
        output.json({**found.keys, "restored": back.value, "seq": None if leaf is None else leaf.seq})
    else:
        output.data(f"restored {back.value} turn{'s' * (back.value != 1)}")
    talk_late("Restored", back.late)
    _print_leaf(found, uid)


@command.command("prune")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@session_option
@json_option
@trust_option
@store_option
@click.pass_obj
def prune(app: App, yes: bool, wanted: str | None, as_json: bool) -> None:
    """Delete removed branches of a session for good, with the bytes of their runs.

    Their times, costs and models are kept. So are logs that also hold other turns: the agents' own logs, and events
    added through the Python API.
    """
    may_act(app)
    found = owning(app.workspace, find(app, wanted))
    gone = found.store.ask(branches.removed, found.session.id)
    if not gone:
        raise NoBranches(found.label, "removed branches")
    what = f"Deleting {_count(gone)} of {found.label} for good"
    if not is_agreed(what, f"{what}?", yes=yes):
        return
    with locked(app, found.session.uid, found.label):
        late = _decide(app, found, lambda store, session: store.prune_turns(session)).late
    if as_json:
        output.json({**found.keys, "deleted": len(gone)})
    else:
        output.data(f"deleted {_count(gone)}")
    talk_late("Deleted", late)


def _print_leaf(found: LocatedSession, uid: str) -> None:
    """Print where a session continues, if that is not on the restored branch."""
    tree, leaf = Tree(found.store.tree(found.session)), found.store.leaf(found.session)
    if leaf is None or uid in {turn.uid for turn in tree.ancestry(leaf.uid)}:
        return
    tip = tree.tip(uid)
    output.talk(
        f"{found.label} continues at @{leaf.seq}. To continue the restored branch: "
        f"backstory checkout @{tip.last_seq} -S {found.label}"
    )


def _decide(app: App, found: LocatedSession, change: Callable[[Store, Session], T]) -> Decided[T]:
    return app.workspace.decisions.decide(found.store, found.session.uid, change)


def _doomed(found: LocatedSession, to: Target, named: str) -> list[TreeTurn]:
    tree = Tree(found.store.tree(found.session))
    if to.tip is None:
        return tree.below(to.point.uid)
    alone = tree.alone(to.tip)
    if not alone:
        raise BranchShared(named)
    return alone


def _removed_turn(found: LocatedSession, gone: Sequence[TreeTurn], point: str) -> str:
    matched = RECORD.fullmatch(point)
    seq = int(matched.group(1)) if matched else None
    uids = {each.uid for each in found.store.branch_names(found.session, removed=True) if each.name == readable(point)}
    for turn in gone:
        if turn.uid in uids or (seq is not None and turn.first_seq <= seq <= turn.last_seq):
            return turn.uid
    raise BranchNotFound(point)


def _count(turns: Sequence[TreeTurn]) -> str:
    return f"{len(turns)} turn{'s' * (len(turns) != 1)}"
