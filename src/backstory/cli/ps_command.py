"""``backstory ps``: runs, and the prompts queued behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import json_option, session_argument
from backstory.workspace import run_list

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.workspace.run_list import ListedRun

STATES = {"waiting": "not stored"}
"""What a person reads for a state, where that is another word."""
NAME_COLUMNS = 24


@click.command("ps")
@session_argument
@json_option
@click.pass_obj
def command(app: App, session: str | None, as_json: bool) -> None:
    """List running agents, runs that are finished but not stored yet, and queued prompts: of SESSION, or all."""
    only = None if session is None else app.find(session).session.uid
    runs = app.workspace.scheduler.runs(only)
    if as_json:
        output.json([run_list.as_json(run) for run in runs])
        return
    if not runs:
        output.talk("Nothing is running.")
        return
    labels = app.reader.labels([run.session for run in runs if run.session])
    cells = [
        (_named(run, labels), run.agent or "", STATES.get(run.state, run.state), str(run.pid or ""), _owner(run),
         str(run.queued or ""), run.prompt or "")
        for run in runs
    ]  # fmt: skip
    for line in output.table(cells, flexible=6, heads=("SESSION", "AGENT", "STATE", "PID", "BY", "QUEUED", "PROMPT")):
        output.data(line)
    for run in runs:
        if run.problem and run.state == run_list.UNREADABLE:
            output.talk(run.problem)
        elif run.problem:
            output.talk(f"A run of {_label(run, labels)} could not be stored: {run.problem} It is kept in {run.folder}")


def _label(run: ListedRun, labels: dict[str, str]) -> str:
    """What a session can be named by here."""
    return run.number or labels.get(run.session or "", "?")


def _named(run: ListedRun, labels: dict[str, str]) -> str:
    label = _label(run, labels)
    return f"{label} {output.one_line(run.name, NAME_COLUMNS)}" if run.name else label


def _owner(run: ListedRun) -> str:
    return "" if run.owner is None else f"{run.owner.pid} on {run.owner.host}"
