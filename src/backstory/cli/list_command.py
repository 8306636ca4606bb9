"""``backstory list``: the sessions there are."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from backstory import agents
from backstory.cli import output
from backstory.cli.marks import OUTCOMES, RUNNING, origin_mark
from backstory.cli.options import AGENT, json_option, store_option
from backstory.derive.naming import NO_PROMPT
from backstory.errors import RunUnreadable
from backstory.runs.spool import SPOOLS, waiting
from backstory.workspace import sessions
from backstory.workspace.sessions import Page, SessionFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.cli.app import App
    from backstory.workspace.sessions import ListedSession

PROJECT_COLUMNS = 20
NAME_COLUMNS_LEAST = 30
"""A terminal that has fewer for the name is given fewer columns beside it."""
HEADS = ("", "SESSION", "NAME", "AGENT", "PROJECT", "LAST ACTIVE", "TURNS", "TIME", "COST")
NAME = 2
LAYOUTS = (tuple(range(9)), (0, 1, 2, 3, 4, 5, 6), (0, 1, 2, 3, 5, 6), (0, 1, 2, 3, 5), (0, 1, 2, 5), (0, 1, 2))
"""Which columns are shown: the first of these that leaves the name enough room."""


@click.command("list")
@click.option("--all", "everything", is_flag=True, help="Every session on the machine, not only this project's.")
@click.option("--agent", "-a", type=AGENT, help="Only sessions of this agent.")
@click.option("--helpers", is_flag=True, help="Also the sessions of helpers (sub-agents).")
@click.option("--unread", is_flag=True, help="Also files that are kept, and that nobody understands yet.")
@click.option("--limit", "-n", type=int, help="How many; 0 for all.  [default: 50]")
@json_option
@store_option
@click.pass_obj
def command(
    app: App, everything: bool, agent: str | None, helpers: bool, unread: bool, limit: int | None, as_json: bool
) -> None:
    """List sessions, the last active first: this project's, or with --all the machine's.

    How the last turn of each ended: ✓ completed, ✗ failed, ■ cancelled, ! crashed; ● is running.
    What each cost, its helpers too: $1.20 as its agent said, ~$1.20 computed from tokens and prices, ≥ $1.20 at least
    that, – unknown. With --all a session is named by the start of its uid, which every folder understands.
    """
    limit = app.config.get("list.limit") if limit is None and not as_json else max(limit or 0, 0)
    wanted = SessionFilter(everywhere=everything, agent=agent, subagents=helpers, unread=unread)
    page = app.reader.sessions(wanted, Page(limit=limit))
    _report_runs(app)
    if as_json:
        output.json([sessions.as_json(each) for each in page.sessions])
        return
    _report_elsewhere(app)
    if not page.sessions:
        output.talk(_why_none(app, wanted))
        return
    _print_table(page.sessions)
    if page.has_more:
        output.talk(f"Showing {len(page.sessions):,} of {page.total:,}; --limit 0 for all.")


def _print_table(listed: Sequence[ListedSession]) -> None:
    rows = [_row(each) for each in listed]
    shown = _layout(rows)
    cells = [[row[n] for n in shown] for row in rows]
    head, *lines = output.table(cells, flexible=NAME, heads=[HEADS[n] for n in shown])
    marked = [head]
    for line, session in zip(lines, listed, strict=True):
        mark, colour = _mark(session)
        marked.append(output.style(mark, fg=colour) + line.removeprefix(mark) if mark else line)
    output.pages(marked)


def _layout(rows: list[tuple[str, ...]]) -> tuple[int, ...]:
    """The columns that a terminal has room for beside the name; without one all of them."""
    widths = [max(output.columns(row[n]) for row in (HEADS, *rows)) for n in range(len(HEADS))]
    least = min(widths[NAME], NAME_COLUMNS_LEAST)
    fitting = (each for each in LAYOUTS if output.room_for([widths[n] for n in each], NAME) >= least)
    return next(fitting, LAYOUTS[-1]) if sys.stdout.isatty() else LAYOUTS[0]


def _report_runs(app: App) -> None:
    """Say what the list does not show of runs: how many there are, and those that wait to be stored."""
    spools = waiting(app.home / SPOOLS)
    runs = [(run.session_uid, spool) for spool in spools if (run := spool.run) is not None]
    if running := sum(spool.is_alive for _, spool in runs):
        output.talk(f"{running} running: backstory ps")
    if over := len(runs) - running:
        what, them = ("run is", "it") if over == 1 else ("runs are", "them")
        output.talk(f"{over} finished {what} not stored yet; the next `backstory run` will store {them}.")
    for uid, spool in runs:
        if spool.trouble and not spool.is_alive:
            output.talk(f"A run of {uid[:12]} could not be stored: {spool.trouble} It is kept in {spool.folder}")
    for spool in spools:
        if spool.is_unreadable:
            output.talk(str(RunUnreadable(spool.folder)))


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
    )


def _mark(session: ListedSession) -> tuple[str, str]:
    return OUTCOMES.get(RUNNING if session.is_running else session.outcome or "", ("", ""))


def _project(name: str) -> str:
    """A project's name; on a terminal without its owner where that leaves no room for the name itself."""
    if not sys.stdout.isatty():
        return name
    named = name if output.columns(name) <= PROJECT_COLUMNS else name.rpartition("/")[2]
    return output.one_line(named, PROJECT_COLUMNS)


def _report_elsewhere(app: App) -> None:
    """Say that this project's store is a stranger's, and what of it claims to be ours."""
    store = app.project_store
    if not store.is_elsewhere or not store.exists:
        return
    output.talk(f"{store.path} came from elsewhere: it is shown, and acted in only with --trust.")
    if app.conflicts:
        output.talk(
            f"{len(app.conflicts)} in conflict: known here from another place, so the machine's store keeps its own."
        )


def _why_none(app: App, wanted: SessionFilter) -> str:
    store = next((store for store in app.stores if store.exists), None)
    if store is None:
        return (
            f"Nothing has been read yet: there is no store at {app.home_store.path}. `backstory ingest` reads logs of "
            f"{', '.join(agents.names())}; where there are none, `backstory run PROMPT` begins a session."
        )
    if wanted.everywhere:
        return f"{store.path} holds no sessions that fit. Try: backstory ingest --explain"
    count = app.reader.count(SessionFilter(everywhere=True))
    return f"No sessions of {app.project_key}. {output.counted(count, 'session')} in all: backstory list --all"
