"""``backstory tree branches``, also ``backstory branches``: the tips of a session's branches, and their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli.options import find, json_option, session_argument, store_option
from backstory.cli.views.path import print_branches

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("branches")
@session_argument
@json_option
@store_option
@click.pass_obj
def command(app: App, session: str | None, as_json: bool) -> None:
    """List the branches of a SESSION, the most recently active first; > marks where the next prompt goes.

    A branch keeps its number (LEAF). `backstory checkout` accepts the number, the name, or the record (AT).
    """
    print_branches(app, find(app, session), as_json=as_json)
