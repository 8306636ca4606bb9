"""``backstory project``: where projects lie, for those that were moved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backstory.cli import CommandGroup, output
from backstory.cli.options import json_option, readable

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.group("project", cls=CommandGroup)
def command() -> None:
    """Tell backstory that a folder was moved."""


@command.command("move")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="[NEW]", required=False)
@click.option("--undo", is_flag=True, help="Take it back: the sessions are listed in OLD again.")
@json_option
@click.pass_obj
def _move(app: App, old: str, new: str | None, undo: bool, as_json: bool) -> None:
    """Show the sessions of the folder OLD under NEW, where it was moved to. The agents' logs stay as they are.

    A project with a git remote is recognised by that, and one with a store of its own by the store. Later sessions in
    OLD stay there.
    """
    from backstory.workspace.stores import moving

    if undo == (new is not None):
        raise click.UsageError("Give OLD and NEW, or OLD and --undo.")
    before = Path(os.path.normpath(app.cwd / readable(old)))
    if new is None:
        taken = moving.undo(app.workspace, before)
        output.talk(output.one_liner(f"The sessions of {taken.old} are listed there again, not in {taken.new}."))
        if as_json:
            output.json({"moved": moving.as_json(taken), "undone": True})
        return
    moved = moving.move(app.workspace, before, app.cwd / readable(new))
    if as_json:
        output.json({"moved": moving.as_json(moved), "session_count": moved.sessions, "undone": False})
    if not moved.sessions:
        output.talk(output.one_liner(f"Nothing to do: the sessions of {moved.old} are listed in {moved.new}."))
        return
    count = f"{moved.sessions} session{'s' * (moved.sessions != 1)}"
    output.talk(output.one_liner(f"{count} of {moved.old} will be listed in {moved.new}."))


@command.command("moves")
@json_option
@click.pass_obj
def _moves(app: App, as_json: bool) -> None:
    """List the folders that were moved, and where they are now."""
    from backstory.workspace.stores import moving

    found = moving.moved(app.workspace)
    if as_json:
        output.json({"moves": [moving.as_json(each) for each in found]})
    for each in [] if as_json else found:
        output.data("\t".join([each.old, each.new, output.local(each.at)]))
    if not found:
        output.talk("No folder was moved.")
