"""The records of a path through a session, or its branches, each in a line."""

from __future__ import annotations

import sys
from itertools import chain
from typing import TYPE_CHECKING, Any

from backstory.cli import output
from backstory.cli.views.counting import at_once
from backstory.derive.essence import path_in
from backstory.workspace.history import records, targets
from backstory.workspace.history.records import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.cli.app import App
    from backstory.workspace.history.records import PathRecord
    from backstory.workspace.history.targets import Branch
    from backstory.workspace.located import LocatedSession

TOLD_COLUMNS_LEAST = 20
NAME_COLUMNS = 30
SIGNS = {Role.TOOL: ("→", None), Role.ERROR: ("!", "red"), Role.SYSTEM: ("≡", None)}
"""The sign and colour of a record that is neither a prompt nor an answer."""
LETTERS = {Role.USER: "U", Role.ASSISTANT: "A"}


def lines(records: Iterable[PathRecord], folder: str, *, marked: bool = False) -> Iterator[str]:
    """Records of a session in this folder as lines; ``marked``: the last one has a > before it."""
    last: PathRecord | None = None
    for each in records:
        if each.text.strip() or each.tool:
            if last is not None:
                yield _line(last, folder, mark=" ")
            last = each
    if last is not None:
        yield _line(last, folder, mark=">" if marked else " ")


def _line(record: PathRecord, folder: str, *, mark: str) -> str:
    at = f"@{record.seq:<4}"
    start = f"{output.style(mark, fg='green') if mark.strip() else mark} {output.style(at, dim=True)} "
    room = max(output.whole_columns() - 3 - len(at), TOLD_COLUMNS_LEAST)
    text = _text(record, folder)
    if record.role in SIGNS:
        sign, colour = SIGNS[record.role]
        return f"{start}   {output.style(sign, fg=colour)} {output.one_line(text, room - 5)}"
    how: dict[str, Any] = {"bold": True} if record.role is Role.USER else {}
    shown = f"{LETTERS[record.role]}: {output.one_line(text, room - 3)}"
    return f"{start}{output.style(shown, **how)}"


def said(record: PathRecord, folder: str) -> str:
    """A record behind the letter or sign that says whose it is: ``U: go on``, ``→ Bash ls``."""
    start = SIGNS[record.role][0] if record.role in SIGNS else f"{LETTERS[record.role]}:"
    return f"{start} {_text(record, folder)}"


def _text(record: PathRecord, folder: str) -> str:
    tool = "" if record.tool is None else output.one_line(record.tool, NAME_COLUMNS)
    return f"{tool} {path_in(record.text, folder) if record.is_path else record.text}".strip()


# record list ----------------------------------------------------------------------------------------------------------
# The records of a session's current branch, a line each: what ``scan`` and ``tree --records`` print.


LEGEND = "> here   U: prompt   A: answer   → tool"


def print_records(app: App, found: LocatedSession, *, as_json: bool) -> None:
    """Print the records of the branch that the next prompt continues; what the signs mean, on a terminal."""
    branch = app.reader.path(found)
    if as_json:
        seq = branch.point.seq if branch.point else None
        head = found.keys | {"seq": seq}
        output.json_lines(head, "records", map(records.as_json, branch.records))
        return
    if branch.point is None:
        output.talk(f"{found.label} has no turns.")
    shown = at_once(lines(branch.records, found.session.said_folder, marked=True))
    output.pages(chain(shown, legend(LEGEND) if branch.point is not None else ()))


def legend(words: str) -> list[str]:
    """Return the meaning of signs, for below a list with them; none in a pipe."""
    return [output.style(words, dim=True)] if sys.stdout.isatty() else []


# branches -------------------------------------------------------------------------------------------------------------


HEADS = ("", "LEAF", "AT", "NAME", "LAST PROMPT", "AGENT", "DEPTH", "LAST ACTIVE")
COLUMNS = ((72, range(8)), (50, (0, 1, 2, 3, 4, 7)), (0, (0, 1, 2, 3, 4)))
"""The columns shown on a terminal of at least each width."""


def print_branches(app: App, found: LocatedSession, *, as_json: bool) -> None:
    """Print the branches of a session, the most recently active first."""
    listed = app.reader.branches(found)
    if as_json:
        output.json(found.keys | {"branches": [targets.as_json(each) for each in listed]})
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
