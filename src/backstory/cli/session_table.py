"""Sessions as a table: a line each, with the columns that a terminal has room for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.marks import OUTCOMES, RUNNING, meter_words, origin_mark
from backstory.derive.naming import NO_PROMPT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.workspace.sessions import ListedSession, SessionPage

PROJECT_COLUMNS = 20
NAME_COLUMNS_LEAST = 30
"""A terminal that has fewer for the name is given fewer columns beside it."""
HEADS = ("", "SESSION", "NAME", "AGENT", "PROJECT", "LAST ACTIVE", "TURNS", "TIME", "COST", "LAST TURN", "CONTEXT")
NAME, LAST_TURN, CONTEXT = 2, 9, 10
LAYOUTS = (
    tuple(range(11)),
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 10),
    (0, 1, 2, 3, 4, 5, 6, 10),
    (0, 1, 2, 3, 4, 5, 6),
    (0, 1, 2, 3, 5, 6),
    (0, 1, 2, 3, 5),
    (0, 1, 2, 5),
    (0, 1, 2),
)
"""Which columns are shown: the first of these that leaves the name enough room."""


def print_page(page: SessionPage) -> None:
    """Print a line for each session of a page, below the columns' names, and say how many more there are."""
    _print_sessions(page.sessions)
    if page.has_more:
        output.talk(f"Showing {len(page.sessions):,} of {page.total:,}; --limit 0 for all.")


def _print_sessions(listed: Sequence[ListedSession]) -> None:
    rows = [_row(each) for each in listed]
    shown = _layout(rows)
    cells = [[row[n] for n in shown] for row in rows]
    head, *lines = output.table(cells, flexible=NAME, heads=[HEADS[n] for n in shown])
    marked = [head]
    for line, session in zip(lines, listed, strict=True):
        mark, colour = _mark(session)
        full, degree = meter_words(session.meter) if CONTEXT in shown else ("", "")
        # The context is the last column.
        line = line.removesuffix(full) + output.style(full, fg=degree) if full and line.endswith(full) else line
        marked.append(output.style(mark, fg=colour) + line.removeprefix(mark) if mark else line)
    output.pages(marked)


def _layout(rows: list[tuple[str, ...]]) -> tuple[int, ...]:
    """The columns that a terminal has room for beside the name; without one all of them."""
    widths = [max(output.columns(row[n]) for row in (HEADS, *rows)) for n in range(len(HEADS))]
    least = min(widths[NAME], NAME_COLUMNS_LEAST)
    empty = {n for n in (LAST_TURN, CONTEXT) if not any(row[n] for row in rows)}
    layouts = [tuple(n for n in each if n not in empty) for each in LAYOUTS]
    fitting = (each for each in layouts if output.room_for([widths[n] for n in each], NAME) >= least)
    return next(fitting, layouts[-1]) if sys.stdout.isatty() else layouts[0]


def _row(session: ListedSession) -> tuple[str, ...]:
    return (
        _mark(session)[0],
        session.label,
        f"{origin_mark(session.elsewhere, is_conflict=session.is_conflict)}{session.heading or NO_PROMPT}",
        ", ".join(session.agents),
        _project(session.project_name),
        output.local(session.last_active) or output.UNKNOWN,
        str(session.turns),
        output.duration(session.duration_ms) or output.UNKNOWN,
        output.money(session.cost),
        _last_turn(session),
        meter_words(session.meter)[0],
    )


def _last_turn(session: ListedSession) -> str:
    """What the last turn took, of a session that has more than one."""
    if session.turns < 2:
        return ""
    money = output.money(session.last_cost) if session.last_cost.low_usd is not None else ""
    return " ".join(fact for fact in (output.duration(session.last_duration_ms), money) if fact)


def _mark(session: ListedSession) -> tuple[str, str]:
    return OUTCOMES.get(RUNNING if session.is_running else session.outcome or "", ("", ""))


def _project(name: str) -> str:
    """A project's name; on a terminal without its owner where that leaves no room for the name itself."""
    if not sys.stdout.isatty():
        return name
    named = name if output.columns(name) <= PROJECT_COLUMNS else name.rpartition("/")[2]
    return output.one_line(named, PROJECT_COLUMNS)
