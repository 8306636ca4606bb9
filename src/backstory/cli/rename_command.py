"""``backstory rename``: a name for a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import one_session, readable, session_option, sessions_starting, store_option
from backstory.cli.trusting import may_act, trust_option

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("rename")
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=sessions_starting)
@click.argument("name", metavar="NAME", required=False)
@session_option
@trust_option
@store_option
@click.pass_obj
def command(app: App, session: str | None, name: str | None, wanted: str | None) -> None:
    """Name a session: SESSION, or -S SESSION. "" removes the name. It is kept whatever the session's log does."""
    if name is None:
        # The only argument is the name, where -S has the session.
        session, name = None, session
    session = one_session(session, wanted)
    if session is None or name is None:
        raise click.UsageError("Give a SESSION and its new NAME.")
    found, name = app.find(session), readable(name)
    may_act(app, found.store)
    owning = app.known_projects.owning(found.session.uid)
    found.store.rename(found.session, name.strip())
    for store in (app.machine_store, *([owning] if owning is not None else [])):
        if store.path != found.store.path and store.has(found.session.uid):
            store.rename(store.session(found.session.uid), name.strip())
    output.talk(f"{found.label} is now called {name.strip()!r}.")
