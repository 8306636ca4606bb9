"""``backstory rename``: a name for a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.app import now_ms
from backstory.cli.options import readable, session_argument, store_option
from backstory.cli.trusting import may_act, trust_option
from backstory.projects.registry import KnownProjects

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("rename")
@session_argument()
@click.argument("name")
@trust_option
@store_option
@click.pass_obj
def command(app: App, session: str, name: str) -> None:
    """Give a session a NAME; an empty one takes it away. The name is kept whatever its log does."""
    found, name = app.find(session), readable(name)
    may_act(app, found.store)
    owning = KnownProjects(app.home, app.machine_store, now_ms).owning(found.session.uid)
    found.store.rename(found.session, name.strip())
    for store in (app.machine_store, *([owning] if owning is not None else [])):
        if store.path != found.store.path and store.has(found.session.uid):
            store.rename(store.session(found.session.uid), name.strip())
    output.talk(f"{found.session.shown_number or found.session.uid[:12]} is now called {name.strip()!r}.")
