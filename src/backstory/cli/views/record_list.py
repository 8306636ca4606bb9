"""The records of a session's current branch, a line each: what ``scan`` and ``tree --records`` print."""

from __future__ import annotations

import sys
from itertools import chain
from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.views import path
from backstory.workspace.history import records

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.workspace.located import LocatedSession

LEGEND = "> here   U: prompt   A: answer   → tool"


def print_records(app: App, found: LocatedSession, *, as_json: bool) -> None:
    """Print the records of the branch that the next prompt continues; what the signs mean, on a terminal."""
    branch = app.reader.path(found)
    if as_json:
        seq = branch.point.seq if branch.point else None
        head = {"session": found.session.shown_number, "uid": found.session.uid, "seq": seq}
        output.json_lines(head, "records", map(records.as_json, branch.records))
        return
    if branch.point is None:
        output.talk(f"{found.label} has no turns.")
    lines = path.at_once(path.lines(branch.records, found.session.said_folder, marked=True))
    output.pages(chain(lines, legend(LEGEND) if branch.point is not None else ()))


def legend(words: str) -> list[str]:
    """Return the meaning of signs, for below a list with them; none in a pipe."""
    return [output.style(words, dim=True)] if sys.stdout.isatty() else []
