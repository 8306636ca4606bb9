"""``backstory tui``: the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli.options import store_option
from backstory.cli.tui.opening import open_screen

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("tui")
@click.option("--all", "everywhere", is_flag=True, help="Begin with the sessions of every project.")
@store_option
@click.pass_obj
def command(app: App, everywhere: bool) -> None:
    """Open the screen: find a session, read it as it grows, search everything, resume in the agent's own client.

    Every key is listed by ?, and everything that keys do by Ctrl-P. Leaving the screen ends no run. It needs a
    terminal of 60 columns and 15 lines; without one, `list -i` and `show` do the same in plain text.
    """
    open_screen(app, everywhere=everywhere)
