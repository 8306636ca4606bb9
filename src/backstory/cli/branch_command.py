"""``backstory branch``: name branches, remove them, bring them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import Group, output
from backstory.cli.acting import own_session
from backstory.cli.app import Found, now_ms
from backstory.cli.options import json_option, readable, store_option
from backstory.cli.points import NUMBER, RECORD, find, here, locked, meant, session_option, shown, tell_home
from backstory.cli.trusting import may_act, trust_option
from backstory.conversation.tree import Tree
from backstory.errors import BranchNameUnusable, BranchNotFound, BranchShared, NoBranches, NotConfirmed
from backstory.projects.registry import KnownProjects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.cli.app import App
    from backstory.cli.points import Meant
    from backstory.store import TreeTurn

TOLD_COLUMNS = 50


@click.group("branch", cls=Group)
def command() -> None:
    """Name branches, remove them, bring them back. `backstory branches` lists them."""


@command.command("name")
@click.argument("name")
@click.argument("point", metavar="[@N|LEAF]", required=False)
@session_option
@trust_option
@store_option
@click.pass_obj
def _name(app: App, name: str, point: str | None, wanted: str | None) -> None:
    """Call a branch NAME: the current one, or the one with this record or number. The name goes on as it grows."""
    name = readable(name).strip()
    if not name or RECORD.fullmatch(name) or NUMBER.fullmatch(name):
        raise BranchNameUnusable(name)
    may_act(app)
    found = _owning(app, find(app, wanted))
    to = meant(found, point).point if point is not None else here(found)
    found.store.name_branch(found.session, name, to)
    tell_home(app, found)
    output.talk(f"The branch with @{to.seq} is now called {output.one_line(name, TOLD_COLUMNS)!r}.")


@command.command("unname")
@click.argument("name")
@session_option
@trust_option
@store_option
@click.pass_obj
def _unname(app: App, name: str, wanted: str | None) -> None:
    """Take a branch's NAME away; the branch stays."""
    name = readable(name).strip()
    may_act(app)
    found = _owning(app, find(app, wanted))
    if name not in {each.name for each in found.store.branch_names(found.session)}:
        raise BranchNotFound(name)
    found.store.unname_branch(found.session, name)
    tell_home(app, found)
    output.talk(f"No branch is called {output.one_line(name, TOLD_COLUMNS)!r} any more.")


@command.command("rm")
@click.argument("point", metavar="@N|NAME|LEAF")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@session_option
@json_option
@trust_option
@store_option
@click.pass_obj
def _rm(app: App, point: str, yes: bool, wanted: str | None, as_json: bool) -> None:
    """Remove a branch: with a name or number the turns that it alone has, with @N that turn and all that follows.

    They are no longer told to agents, nor shown. `backstory branch restore` brings them back until they are pruned.
    """
    may_act(app)
    found = find(app, wanted)
    to = meant(found, point)
    doomed = _doomed(found, to, point)
    first = output.one_line(doomed[0].prompt, TOLD_COLUMNS)
    what = f"Removing {_count(doomed)} from @{doomed[0].first_seq} on ({first}) of {shown(found)}"
    _confirm(what, yes=yes)
    own = Found(app.project_store, own_session(app, found, to.point))
    with locked(app, own.session.uid, shown(own)):
        removed = own.store.remove_turns(own.session, [turn.uid for turn in _doomed(own, to, point)])
    tell_home(app, own)
    goes_on = own.store.leaf(own.session)
    if as_json:
        output.json({"session": shown(own), "removed": removed, "seq": None if goes_on is None else goes_on.seq})
        return
    output.data(f"removed {removed} turn{'s' * (removed != 1)} from @{doomed[0].first_seq} on")
    output.talk(
        f"{shown(own)} goes on at @{goes_on.seq}." if goes_on is not None else f"{shown(own)} has no turns left."
    )
    output.talk(f"To undo this: backstory branch restore @{doomed[0].first_seq} -S {shown(own)}")


@command.command("restore")
@click.argument("point", metavar="[@N|NAME]", required=False)
@session_option
@trust_option
@store_option
@click.pass_obj
def _restore(app: App, point: str | None, wanted: str | None) -> None:
    """Bring a removed branch back: the last one removed, or the one with this record or name."""
    may_act(app)
    found = _owning(app, find(app, wanted))
    gone = found.store.removed_turns(found.session)
    if not gone:
        raise NoBranches(shown(found), "removed branches")
    uid = gone[0].uid if point is None else _removed_turn(found, gone, point)
    with locked(app, found.session.uid, shown(found)):
        back = found.store.restore_turns(found.session, uid)
    tell_home(app, found)
    output.data(f"restored {back} turn{'s' * (back != 1)}")
    _tell_where(found, uid)


@command.command("prune")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@session_option
@trust_option
@store_option
@click.pass_obj
def _prune(app: App, yes: bool, wanted: str | None) -> None:
    """Drop what removed branches of a session hold, for good; with their runs' bytes.

    When it was, what it cost and which model it was stays. So do logs that hold other turns as well: the agents' own,
    and what was added through the Python API.
    """
    may_act(app)
    found = _owning(app, find(app, wanted))
    gone = found.store.removed_turns(found.session)
    if not gone:
        raise NoBranches(shown(found), "removed branches")
    _confirm(f"Dropping {_count(gone)} of {shown(found)} for good", yes=yes)
    tell_home(app, found)
    with locked(app, found.session.uid, shown(found)):
        # The session's own store last: while it has them, a prune that was cut off can be done again.
        for store in (app.machine_store, found.store):
            if store.exists and store.has(found.session.uid):
                store.prune_turns(store.session(found.session.uid))
    output.data(f"dropped {_count(gone)}")


def _tell_where(found: Found, uid: str) -> None:
    """Say that a session does not go on with what was restored, where that is so."""
    tree, goes_on = Tree(found.store.tree(found.session)), found.store.leaf(found.session)
    if goes_on is None or uid in {turn.uid for turn in tree.ancestry(goes_on.uid)}:
        return
    tip = tree.tip(uid)
    output.talk(
        f"{shown(found)} goes on at @{goes_on.seq}. To go on with what came back: "
        f"backstory checkout @{tip.last_seq} -S {shown(found)}"
    )


def _owning(app: App, found: Found) -> Found:
    """A session in the store where it is owned, if that can be reached: that is where its names are written."""
    store = KnownProjects(app.home, app.machine_store, now_ms).owning(found.session.uid)
    if store is None or store.path == found.store.path or not store.has(found.session.uid):
        return found
    return Found(store, store.session(found.session.uid))


def _doomed(found: Found, to: Meant, named: str) -> list[TreeTurn]:
    tree = Tree(found.store.tree(found.session))
    if to.tip is None:
        return tree.below(to.point.uid)
    alone = tree.alone(to.tip)
    if not alone:
        raise BranchShared(named)
    return alone


def _removed_turn(found: Found, gone: Sequence[TreeTurn], point: str) -> str:
    told = RECORD.fullmatch(point)
    seq = int(told.group(1)) if told else None
    uids = {each.uid for each in found.store.branch_names(found.session, removed=True) if each.name == readable(point)}
    for turn in gone:
        if turn.uid in uids or (seq is not None and turn.first_seq <= seq <= turn.last_seq):
            return turn.uid
    raise BranchNotFound(point)


def _confirm(what: str, *, yes: bool) -> None:
    if not yes and not output.confirm(f"{what}?"):
        raise NotConfirmed(what)


def _count(turns: Sequence[TreeTurn]) -> str:
    return f"{len(turns)} turn{'s' * (len(turns) != 1)}"
