"""``backstory branches``: the tips of a session's branches, and their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import find, json_option, session_argument, store_option
from backstory.workspace.history import targets

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.workspace.history.targets import Branch

HEADS = ("", "LEAF", "AT", "NAME", "LAST PROMPT", "AGENT", "DEPTH", "LAST ACTIVE")
COLUMNS = ((72, range(8)), (50, (0, 1, 2, 3, 4, 7)), (0, (0, 1, 2, 3, 4)))
"""The columns shown on a terminal of at least each width."""
NAME_COLUMNS = 30


@click.command("branches")
@session_argument
@json_option
@store_option
@click.pass_obj
def command(app: App, session: str | None, as_json: bool) -> None:
    """List the branches of a SESSION, the most recently active first; > marks where the next prompt goes.

    A branch keeps its number (LEAF). `backstory checkout` accepts the number, the name, or the record (AT).
    """
    found = find(app, session)
    listed = app.reader.branches(found)
    if as_json:
        output.json([targets.as_json(each) for each in listed])
        return
    if not listed:
        output.talk(f"{found.label} has no branches.")
        return
    kept = list(next(columns for least, columns in COLUMNS if output.width() >= least))
    if not any(each.names for each in listed):
        kept = [n for n in kept if HEADS[n] != "NAME"]
    heads = [HEADS[n] for n in kept]
    rows = [[_row(each)[n] for n in kept] for each in listed]
    head, *lines = output.table(rows, flexible=heads.index("LAST PROMPT"), heads=heads)
    output.data(head)
    for line, branch in zip(lines, listed, strict=True):
        output.data(output.style(line, fg="green", bold=True) if branch.is_current else line)
    here = found.store.leaf(found.session)
    if here is not None and not any(each.is_current for each in listed):
        output.talk(f"The next prompt follows @{here.seq}, inside a branch.")


def _row(branch: Branch) -> tuple[str, ...]:
    turn = branch.turn
    return (
        ">" if branch.is_current else "",
        "" if branch.number is None else str(branch.number),
        f"@{branch.seq}",
        output.one_line(", ".join(branch.names), NAME_COLUMNS),
        turn.prompt,
        turn.agent,
        str(branch.depth),
        output.local(turn.ended or turn.started),
    )
