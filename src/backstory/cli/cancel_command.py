"""``backstory cancel``: stop a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.driving import home_of, runner_of, running_soon, still_queued, stop, texts
from backstory.cli.options import session_argument, store_option
from backstory.cli.points import find
from backstory.errors import BackstoryError, NothingRuns
from backstory.runs.queued import still_waiting
from backstory.store.queue import Queue

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("cancel")
@session_argument
@click.option("--clear", is_flag=True, help="Also drop the prompts queued for the session.")
@store_option
@click.pass_obj
def command(app: App, session: str | None, clear: bool) -> None:
    """Stop the run of a SESSION: the agent is interrupted, and killed after five seconds with all that it started.

    Without SESSION the one that is running here. Queued prompts stay queued, unless --clear is given.
    """
    found = find(app, session, running_first=True)
    store, uid = home_of(app, found), found.session.uid
    spools = running_soon(app, uid)
    with Queue(store.path, output.talk) as queue:
        if clear:
            # First: its runner takes what is queued as soon as a run has ended well.
            dropped = queue.remove([text.uid for text in still_waiting(app.home, queue, uid)])
            output.talk(f"{texts(dropped)} dropped.")
        if not spools and not clear:
            raise NothingRuns(found.label)
        stop(spools)
        runner_of(app).take_up()
        if spools:
            output.talk(f"{found.label} is stopped; its output is kept.")
        print_queued(app, queue, found.label, uid)


def print_queued(app: App, queue: Queue, session: str, uid: str) -> None:
    """Print how much is still queued for a session."""
    try:
        left = len(still_waiting(app.home, queue, uid))
    except BackstoryError as refused:
        output.talk(f"The queue: {refused}")
        return
    if left:
        output.talk(still_queued(left, session))
