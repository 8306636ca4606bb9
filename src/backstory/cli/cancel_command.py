"""``backstory cancel``: stop a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.driving import home_of, runner_of, running_soon, stop, texts
from backstory.cli.options import session_argument, store_option
from backstory.errors import BackstoryError, NothingRuns
from backstory.runs.queued import still_waiting
from backstory.store.queue import Queue

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("cancel")
@session_argument()
@click.option("--clear", is_flag=True, help="Drop what waits for the session, too.")
@store_option
@click.pass_obj
def command(app: App, session: str, clear: bool) -> None:
    """Stop the run of a SESSION: the agent is asked, and after five seconds ended with all that it started.

    What waits for the session goes on waiting, unless --clear is given.
    """
    found = app.find(session)
    store, uid = home_of(app, found), found.session.uid
    spools = running_soon(app, uid)
    with Queue(store.path, output.talk) as queue:
        if clear:
            # First: its runner takes up what waits as soon as a run has ended well.
            dropped = queue.remove([text.uid for text in still_waiting(app.home, queue, uid)])
            output.talk(f"{texts(dropped)} dropped from the queue.")
        if not spools and not clear:
            raise NothingRuns(session)
        stop(spools)
        runner_of(app).take_up()
        if spools:
            output.talk(f"{session} is stopped; what it said is kept.")
        tell_waiting(app, queue, session, uid)


def tell_waiting(app: App, queue: Queue, session: str, uid: str) -> None:
    """Say what still waits for a session."""
    try:
        left = len(still_waiting(app.home, queue, uid))
    except BackstoryError as refused:
        output.talk(f"The queue: {refused}")
        return
    if left:
        output.talk(
            f"{texts(left)} still {'wait' if left > 1 else 'waits'}: `backstory queue run {session}` goes on, "
            f"`backstory queue clear {session}` drops {'them' if left > 1 else 'it'}."
        )
