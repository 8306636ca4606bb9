"""``backstory rename``: a name for a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import json_option, one_session, readable, session_option, sessions_starting, store_option
from backstory.cli.trusting import may_act, talk_late, trust_option

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("rename")
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=sessions_starting)
@click.argument("name", metavar="NAME", required=False)
@session_option
@json_option
@trust_option
@store_option
@click.pass_obj
def command(app: App, session: str | None, name: str | None, wanted: str | None, as_json: bool) -> None:
    """Name a session: SESSION, or -S SESSION. "" removes the name. Later titles in the log do not replace it."""
    if name is None:
        # With -S the only argument is the name.
        session, name = None, session
    session = one_session(session, wanted)
    if session is None or name is None:
        raise click.UsageError("Give a SESSION and its new NAME.")
    found, name = app.workspace.resolve(session), readable(name).strip()
    may_act(app, found.store)
    late = app.workspace.rename(found, name)
    output.talk(f"{found.label} is now called {name!r}.")
    if as_json:
        output.json(found.keys | {"name": name or None})
    talk_late("Renamed", late)
