"""``backstory scan``: the branch that the next prompt continues, record by record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output, path
from backstory.cli.options import json_option, session_argument, store_option
from backstory.cli.points import find
from backstory.workspace import records

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
    branch = app.reader.path(found)
    if as_json:
        seq = branch.point.seq if branch.point else None
        head = {"session": found.session.shown_number, "uid": found.session.uid, "seq": seq}
        output.json_lines(head, "records", map(records.as_json, branch.records))
        return
    if branch.point is None:
        output.talk(f"{found.label} has no turns.")
    output.pages(path.at_once(path.lines(branch.records, marked=True)))
