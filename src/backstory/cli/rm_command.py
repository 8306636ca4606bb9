"""``backstory rm``: a session, gone for good."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.app import now_ms
from backstory.cli.options import session_argument, store_option
from backstory.cli.trusting import may_act, trust_option
from backstory.errors import BackstoryError, NotConfirmed
from backstory.known_projects import KnownProjects
from backstory.store.queue import Queue

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.cli.app import App


@click.command("rm")
@session_argument()
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@trust_option
@store_option
@click.pass_obj
def command(app: App, session: str, yes: bool) -> None:
    """Remove a session, its helpers' sessions and all their bytes. The agent's own logs are not touched.

    Ingest does not bring it back, unless asked with --forgotten. Its number is not given again.
    """
    found = app.find(session)
    may_act(app, found.store)
    what = f"Removing {found.session.shown_name or found.session.uid[:12]!r} ({found.session.turns} turns)"
    if not yes and not (sys.stdin.isatty() and click.confirm(f"{what} from {found.store.path}?", err=True)):
        raise NotConfirmed(what)
    owning = KnownProjects(app.home, app.machine_store, now_ms).owning(found.session.uid)
    removed = found.store.remove(found.session)
    # The machine's store has a copy of what projects' stores own, and it goes, too; and the other way round.
    stores = [app.machine_store, *([owning] if owning is not None else [])]
    for store in stores:
        if store.path != found.store.path and store.has(found.session.uid):
            store.remove(store.session(found.session.uid))
    output.talk(f"Removed {', '.join(uid[:12] for uid in removed)}.")
    for path in {found.store.path, *(store.path for store in stores)}:
        _clear_queue(path, removed)


def _clear_queue(store: Path, uids: list[str]) -> None:
    """What waits for sessions that are gone waits for nothing; it is told, so that it can be said elsewhere."""
    try:
        with Queue(store) as queue:
            waiting = [text for uid in uids for text in queue.texts(uid)]
            queue.remove([text.uid for text in waiting])
    except BackstoryError as refused:
        output.talk(f"The queue: {refused}")
        return
    for text in waiting:
        output.talk(f"Dropped what waited for it: {output.one_line(text.content, 60)}")
