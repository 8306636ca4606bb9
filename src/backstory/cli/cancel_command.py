"""``backstory cancel``: stop a run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.app import now_ms
from backstory.cli.options import session_argument, store_option
from backstory.errors import NothingRuns
from backstory.runner import INTERRUPT_S, POLL_S, Runner
from backstory.spool import SPOOLS, waiting

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("cancel")
@session_argument()
@store_option
@click.pass_obj
def command(app: App, session: str) -> None:
    """Stop the run of a SESSION: the agent is asked, and after five seconds ended with all that it started."""
    found = app.find(session).session
    spools = [
        spool
        for spool in waiting(app.home / SPOOLS)
        if (run := spool.run) is not None and run.session_uid == found.uid and spool.is_alive
    ]
    if not spools:
        raise NothingRuns(session)
    for spool in spools:
        spool.cancel()
        deadline = time.monotonic() + INTERRUPT_S
        while spool.is_alive and time.monotonic() < deadline:
            time.sleep(POLL_S)
        spool.kill()
    Runner(app.home, app.machine_store, app.environ, now_ms).take_up()
    output.talk(f"{session} is stopped; what it said is kept.")
