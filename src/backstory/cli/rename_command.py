"""``backstory rename``: a name for a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.deciding import decisions, talk_late
from backstory.cli.options import readable, session_argument, store_option
from backstory.cli.trusting import may_act, trust_option

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
    found, name = app.find(session), readable(name).strip()
    may_act(app, found.store)
    decided = decisions(app).decide(found.store, found.session.uid, lambda store, each: store.rename(each, name))
    output.talk(f"{found.session.shown_number or found.session.uid[:12]} is now called {name!r}.")
    talk_late("Renamed", decided.late)
