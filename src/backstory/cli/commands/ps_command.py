"""``backstory ps``: runs, and the prompts queued behind them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from backstory.cli import output
from backstory.cli.options import json_option, session_argument
from backstory.cli.output import page_columns, room_beside
from backstory.workspace.runs import run_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.cli.app import App
    from backstory.workspace.runs.running import ListedRun

STATES = {"waiting": "not stored"}
"""Words for states that are shown by another word."""
NAME_COLUMNS = 24
DOING_COLUMNS = 30
PROMPT_COLUMNS_LEAST = 20
"""If a line has less room for the prompt, it has a line of its own."""


@click.command("ps")
@session_argument
@click.option("--verbose", "-v", "is_verbose", is_flag=True, help="Also processes and folders.")
@json_option
@click.pass_obj
def command(app: App, session: str | None, is_verbose: bool, as_json: bool) -> None:
    """List running agents, runs that are finished but not stored yet, and queued prompts: of SESSION, or all."""
    only = None if session is None else app.workspace.resolve(session).session.uid
    runs = app.workspace.scheduler.runs(only)
    if as_json:
        output.json({"runs": [run_list.as_json(run) for run in runs]})
        return
    if not runs:
        output.talk("Nothing is running.")
        return
    labels = app.reader.labels([run.session for run in runs if run.session])
    rows = [_row(app, run, labels) for run in runs]
    widths = [max(output.columns(cell) for cell in cells) for cells in zip(*(row.cells for row in rows), strict=True)]
    for run, row in zip(runs, rows, strict=True):
        process = [_process(run)] if is_verbose else []
        if sys.stdout.isatty():
            drawn = [*_lines(row, widths), *(output.style(f"    {each}", dim=True) for each in process)]
        else:
            drawn = ["\t".join([*row.cells, row.prompt, row.behind, *process])]
        for line in drawn:
            output.data(line)
    for run in runs:
        if run.problem and run.session is None:
            output.talk(run.problem)
        elif run.problem:
            output.talk(f"A run of {_label(run, labels)} could not be stored: {run.problem} It is kept in {run.folder}")


class _Row(Struct, frozen=True):
    """A run: cells that stand below each other, its prompt, and how many prompts wait behind it."""

    cells: tuple[str, ...]
    prompt: str
    behind: str


def _row(app: App, run: ListedRun, labels: dict[str, str]) -> _Row:
    state = STATES.get(run.state, run.state)
    lasted = output.duration(max(app.workspace.now() - run.started, 1)) if run.started is not None else ""
    cells = (
        _named(run, labels),
        run.agent or "",
        f"{state} {lasted}".strip() if run.is_running else state,
        _doing(run),
    )
    waiting = "" if not run.queued else f"({run.queued} waiting)" if run.prompt else f"{run.queued} waiting"
    return _Row(tuple(map(output.one_liner, cells)), output.one_liner(run.prompt or ""), waiting)


def _lines(row: _Row, widths: Sequence[int]) -> Iterator[str]:
    """A run in a line; where that has no room for its prompt, the prompt stands below it."""
    shown = [n for n, width in enumerate(widths) if width]
    label, *facts = [output.padded(row.cells[n], widths[n]) for n in shown]
    behind = f"  {output.style(row.behind, dim=True)}" if row.behind else ""
    beside = "  ".join([output.ident(label), *facts])
    taken = sum(widths[n] + 2 for n in shown) + 2
    room = page_columns() - taken - (len(row.behind) + 2 if behind else 0)
    if room >= PROMPT_COLUMNS_LEAST:
        yield f"{f'{beside}  {_prompt(row.prompt, room)}' if row.prompt else beside.rstrip()}{behind}"
        return
    # What does not fit beside the session is left out from the end.
    left = max(page_columns() - widths[0] - 2, PROMPT_COLUMNS_LEAST)
    fitting = output.one_line(" · ".join(fact.strip() for fact in facts if fact.strip()), left)
    yield f"{output.ident(label)}  {fitting}" + ("" if row.prompt else behind)
    if row.prompt:
        yield f"  {_prompt(row.prompt, room_beside(4 + (len(row.behind) + 2 if behind else 0)))}{behind}"


def _prompt(prompt: str, room: int) -> str:
    return f"{output.style('❯', bold=True)} {output.one_line(prompt, room)}"


def _doing(run: ListedRun) -> str:
    """The call that the agent waits for, if it is at one."""
    call = run_list.call_at_work(run)
    if call is None:
        return ""
    from backstory.cli.views.call_view import call_words

    name = output.one_line(call.tool_name, DOING_COLUMNS)
    return f"{name} {call_words(call, max(DOING_COLUMNS - output.columns(name) - 1, 1), run.cwd or '')}".strip()


def _label(run: ListedRun, labels: dict[str, str]) -> str:
    """Return the name of a session that commands here accept."""
    return run.number or labels.get(run.session or "", "?")


def _named(run: ListedRun, labels: dict[str, str]) -> str:
    label = _label(run, labels)
    return f"{label} {output.one_line(run.name, NAME_COLUMNS)}" if run.name else label


def _process(run: ListedRun) -> str:
    """The agent's process, who runs the session, and where its output is kept."""
    facts = [
        f"pid {run.pid}" if run.pid is not None else "",
        f"run by {run.owner.pid} on {run.owner.host}" if run.owner is not None else "",
        run.folder or "",
    ]
    return output.one_liner(" · ".join(each for each in facts if each)) or "no process"
