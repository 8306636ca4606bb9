"""``backstory rm``: a session, gone for good."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.app import now_ms
from backstory.cli.options import session_argument, store_option
from backstory.errors import NotConfirmed
from backstory.known_projects import KnownProjects

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("rm")
@session_argument()
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@store_option
@click.pass_obj
def command(app: App, session: str, yes: bool) -> None:
    """Remove a session, its helpers' sessions and all their bytes. The agent's own logs are not touched.

    Ingest does not bring it back, unless asked with --forgotten. Its number is not given again.
    """
    found = app.find(session)
    what = f"Removing {found.session.shown_name or found.session.uid[:12]!r} ({found.session.turns} turns)"
    if not yes and not (sys.stdin.isatty() and click.confirm(f"{what} from {found.store.path}?", err=True)):
        raise NotConfirmed(what)
    owning = KnownProjects(app.home, app.machine_store, now_ms).owning(found.session.uid)
    removed = found.store.remove(found.session)
    # The machine's store has a copy of what projects' stores own, and it goes, too; and the other way round.
    for store in (app.machine_store, *([owning] if owning is not None else [])):
        if store.path != found.store.path and store.has(found.session.uid):
            store.remove(store.session(found.session.uid))
    output.talk(f"Removed {', '.join(uid[:12] for uid in removed)}.")
