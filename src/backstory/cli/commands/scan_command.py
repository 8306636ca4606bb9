"""``backstory tree scan``, also ``backstory scan``: the branch that the next prompt continues, record by record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli.options import find, json_option, session_argument, store_option
from backstory.cli.views.path import print_records

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("scan")
@session_argument
@json_option
@store_option
@click.pass_obj
def command(app: App, session: str | None, as_json: bool) -> None:
    """List the records of a SESSION's current branch: U: prompts, A: answers, → calls of tools, > the last one."""
    print_records(app, find(app, session), as_json=as_json)
