"""``backstory ps``: what runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import json_option
from backstory.spool import SPOOLS, waiting

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("ps")
@json_option
@click.pass_obj
def command(app: App, as_json: bool) -> None:
    """List runs: those going on, and those that are over and wait to be stored by the next run."""
    rows = []
    for spool in waiting(app.home / SPOOLS):
        run = spool.run
        if run is not None:
            state = "running" if spool.is_alive else "waiting"
            rows.append(
                {
                    "session": run.session_uid,
                    "turn": run.turn_uid,
                    "agent": run.agent,
                    "state": state,
                    "pid": spool.pid,
                    "started": output.iso(run.started),
                    "cwd": run.cwd,
                    "prompt": run.prompt,
                }
            )
    if as_json:
        output.json(rows)
        return
    if not rows:
        output.talk("Nothing is running.")
        return
    cells = [
        (str(r["session"])[:12], str(r["agent"]), str(r["state"]), str(r["pid"] or ""), str(r["prompt"])) for r in rows
    ]
    for line in output.table(cells, flexible=4, heads=("SESSION", "AGENT", "STATE", "PID", "PROMPT")):
        output.data(line)
