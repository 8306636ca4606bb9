"""``backstory tree``: a session's turns, and where its branches part."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.lazy_family import ActingFamily
from backstory.cli.options import find, json_option, session_argument, store_option
from backstory.cli.views.counting import at_once
from backstory.cli.views.path import legend, print_branches, print_records
from backstory.cli.views.tree_view import LEGEND, TreeDrawing
from backstory.workspace.history import trees

if TYPE_CHECKING:
    from backstory.cli.app import App

COMMANDS = {
    "branches": "branches_command",
    "scan": "scan_command",
    "name": "branch_command:name_branch",
    "unname": "branch_command:unname_branch",
    "rm": "branch_command:rm",
    "restore": "branch_command:restore",
    "prune": "branch_command:prune",
}
"""The module of each, imported when it is asked for."""


@click.group(
    "tree",
    cls=ActingFamily,
    modules=COMMANDS,
    invoke_without_command=True,
    subcommand_metavar="| COMMAND ...",
)
@session_argument
@click.option("--removed", is_flag=True, help="Also turns of removed branches.")
@click.option(
    "--records", "has_records", is_flag=True, help="List the records of the current branch, as `tree scan` does."
)
@click.option("--list", "has_branches", is_flag=True, help="List the branches, as `tree branches` does.")
@json_option
@store_option
@click.pass_obj
def command(app: App, session: str | None, removed: bool, has_records: bool, has_branches: bool, as_json: bool) -> None:
    """Show the turns of SESSION as a tree, and where the next prompt goes.

    Each line is a turn: > is the current one, * leads to it; @12 is the record number of its prompt, which every
    command accepts. A branch's tip has the branch's number and names. A first word that is a command is that command:
    a session of this name is shown by `backstory tree -- NAME`.
    """
    if sum((removed, has_records, has_branches)) > 1:
        raise click.UsageError("Give one of --records, --list and --removed.")
    found = find(app, session)
    if has_records or has_branches:
        (print_records if has_records else print_branches)(app, found, as_json=as_json)
        return
    tree = app.reader.tree(found, removed=removed, costs=as_json)
    if as_json:
        output.json_lines(trees.head_as_json(tree), "turns", trees.turns_as_json(tree))
        return
    if not len(tree.tree):
        output.talk(f"{found.label} has no turns.")
    output.pages(chain(at_once(TreeDrawing(tree).lines()), legend(LEGEND) if len(tree.tree) else ()))
