"""``backstory scan``: the branch that the next prompt goes on with, record by record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output, path
from backstory.cli.options import json_option, session_argument, store_option
from backstory.cli.points import find
from backstory.conversation.tree import Tree

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("scan")
@session_argument
@json_option
@store_option
@click.pass_obj
def command(app: App, session: str | None, as_json: bool) -> None:
    """List the records of a SESSION's current branch: U: prompts, A: answers, → calls of tools, > the last one."""
    found = find(app, session)
    point = found.store.leaf(found.session)
    tree = Tree(found.store.tree(found.session))
    stored = path.records(found, tree.path(point), tree) if point is not None else iter(())
    if as_json:
        head = {"session": found.session.shown_number, "uid": found.session.uid, "seq": point.seq if point else None}
        output.json_lines(head, "records", (row for each in stored if (row := path.as_dict(each)) is not None))
        return
    if point is None:
        output.talk(f"{found.label} has no turns.")
    output.pages(path.at_once(path.lines(stored, marked=True)))
