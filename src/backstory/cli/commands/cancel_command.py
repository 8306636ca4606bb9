"""``backstory cancel``: stop a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import find, json_option, session_argument, store_option
from backstory.workspace.runs.session_runs import still_queued

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("cancel")
@session_argument
@click.option("--clear", is_flag=True, help="Also drop the prompts queued for the session.")
@json_option
@store_option
@click.pass_obj
def command(app: App, session: str | None, clear: bool, as_json: bool) -> None:
    """Stop the run of a SESSION: the agent is interrupted, and killed after five seconds with all that it started.

    Without SESSION the one that is running here. Queued prompts stay queued, unless --clear is given.
    Where nothing runs, the summary that is being made of SESSION is stopped.
    """
    located = find(app, session, running_first=True)
    cancelled = app.workspace.scheduler.cancel(located, clear=clear)
    if clear:
        output.talk(f"{cancelled.dropped} queued prompt{'s' * (cancelled.dropped != 1)} dropped.")
    if cancelled.was_running:
        output.talk(f"{located.label} is stopped; its output is kept.")
    if cancelled.was_summarising:
        output.talk(f"The summary of {located.label} is no longer being made.")
    if cancelled.trouble:
        output.talk(f"The queue: {cancelled.trouble}")
    if cancelled.left:
        output.talk(still_queued(cancelled.left, located.label))
    if as_json:
        output.json(
            {
                **located.keys, "was_running": cancelled.was_running,
                "was_summarising": cancelled.was_summarising, "dropped_count": cancelled.dropped,
                "queued_count": cancelled.left,
            }
        )  # fmt: skip
