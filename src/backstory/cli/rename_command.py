"""``backstory rename``: a name for a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import readable, session_argument, store_option

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("rename")
@session_argument()
@click.argument("name")
@store_option
@click.pass_obj
def command(app: App, session: str, name: str) -> None:
    """Give a session a NAME; an empty one takes it away. The name is kept whatever its log does."""
    found, name = app.find(session), readable(name)
    found.store.rename(found.session, name.strip())
    if app.machine_store.path != found.store.path and app.machine_store.has(found.session.uid):
        app.machine_store.rename(app.machine_store.session(found.session.uid), name.strip())
    output.talk(f"{found.session.shown_number or found.session.uid[:12]} is now called {name.strip()!r}.")
