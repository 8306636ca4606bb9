"""``backstory list``: the sessions there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.cli.app import Found
from backstory.cli.options import AGENT, json_option, store_option
from backstory.derive.naming import NO_PROMPT
from backstory.errors import RunUnreadable
from backstory.model import Outcome
from backstory.runs.spool import SPOOLS, waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.cli.app import App
    from backstory.derive.pricing import Cost
    from backstory.store import Session

PROJECT_COLUMNS = 20
MARKS = {"completed": ("✓", "green"), "failed": ("✗", "red"), "cancelled": ("■", "yellow"), "crashed": ("!", "red")}


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

    How the last turn of each ended: ✓ completed, ✗ failed, ■ cancelled, ! crashed; nothing while one runs.
    What each cost, its helpers too: $1.20 as its agent said, ~$1.20 computed from tokens and prices, ≥ $1.20 at least
    that, – unknown.
    """
    limit = app.config.get("list.limit") if limit is None and not as_json else limit or 0
    found = listed(app, everything=everything or bool(app.store_path), agent=agent, helpers=helpers, unread=unread)
    shown = found[:limit] if limit else found
    running = _tell_of_runs(app)
    outcomes = [None if each.session.uid in running else outcome_of(each) for each in shown]
    costs = costs_of(shown)
    if as_json:
        output.json(
            [
                session_as_json(each.session, outcome, cost) | {"conflict": each.is_conflict}
                for each, outcome, cost in zip(shown, outcomes, costs, strict=True)
            ]
        )
        return
    _tell_of_elsewhere(app)
    if not found:
        output.talk(_why_none(app, everything))
        return
    kept = next(columns for least, columns in COLUMNS if output.width() >= least)
    rows = [_row(*each) for each in zip(shown, outcomes, costs, strict=True)]
    cells = [[row[n] for n in kept] for row in rows]
    head, *lines = output.table(cells, flexible=2, heads=[HEADS[n] for n in kept])
    output.data(head)
    for line, outcome in zip(lines, outcomes, strict=True):
        mark, colour = MARKS.get(outcome or "", ("", ""))
        output.data(output.style(mark, fg=colour) + line.removeprefix(mark) if mark else line)
    if len(shown) < len(found):
        output.talk(f"Showing {len(shown)} of {len(found)}; --limit 0 for all.")


def _tell_of_runs(app: App) -> set[str]:
    """Say what is not in the list yet: runs that go on, and those that wait. Gives the uids of running sessions."""
    spools = waiting(app.home / SPOOLS)
    runs = [(run.session_uid, spool) for spool in spools if (run := spool.run) is not None]
    running = [uid for uid, spool in runs if spool.is_alive]
    if running:
        output.talk(f"{len(running)} running: backstory ps")
    if over := len(runs) - len(running):
        output.talk(f"{over} over and not stored yet; the next `backstory run` stores what it can.")
    for uid, spool in runs:
        if spool.trouble and not spool.is_alive:
            output.talk(f"A run of {uid[:12]} could not be stored: {spool.trouble} It is kept in {spool.folder}")
    for spool in spools:
        if spool.is_unreadable:
            output.talk(str(RunUnreadable(spool.folder)))
    return set(running)


def listed(app: App, *, everything: bool, agent: str | None, helpers: bool, unread: bool = False) -> list[Found]:
    """The sessions of the stores in use, each once, the last active first."""
    found: dict[tuple[str, bool], Found] = {}
    for store in app.stores:
        if store.exists:
            # All that the project's own store holds is the project's, in whichever of its worktrees it was begun.
            is_own = not app.store_path and store.path == app.project_store.path
            project, folder = (None, None) if everything or is_own else (app.project_key, str(app.project_folder))
            for session in store.sessions(agent=agent, helpers=helpers, unread=unread, project=project, folder=folder):
                # One in conflict stands beside the one that it says it is.
                is_conflict = store.is_elsewhere and session.uid in app.conflicts
                if store.is_elsewhere or (session.uid, is_conflict) not in found:
                    # What the machine's store took from there is as old as that.
                    found[session.uid, is_conflict] = Found(store, session, is_conflict)
    return sorted(found.values(), key=lambda each: (each.session.last_active or 0, each.session.uid), reverse=True)


def outcome_of(found: Found) -> str | None:
    """How a session's last turn ended; None while that is open."""
    session = found.session
    if session.completed is None:
        return None
    # Of all ways not to succeed only the turn tells which it was.
    turns = [] if session.completed else found.store.turns(session)
    return (turns[-1].outcome if turns else None) or (Outcome.COMPLETED if session.completed else Outcome.FAILED)


def costs_of(found: Sequence[Found]) -> list[Cost]:
    """What each of these sessions cost, with its subagents."""
    stores = {id(each.store): each.store for each in found}
    known = {
        key: store.session_costs([each.session for each in found if each.store is store])
        for key, store in stores.items()
    }
    return [known[id(each.store)][each.session.id] for each in found]


def session_as_json(session: Session, outcome: str | None, cost: Cost) -> dict[str, Any]:
    """A session as printed by ``list`` and ``show``; ``outcome`` is its last turn's, None while one runs."""
    return {
        "number": session.shown_number,
        "uid": session.uid,
        "name": session.shown_name,
        "title": session.title,
        "first_prompt": session.first_prompt,
        "agents": session.agents,
        "project": session.project,
        "repository": session.repository,
        "branch": session.branch,
        "cwd": session.cwd,
        "created": session.created,
        "last_active": output.iso(session.last_active),
        "turns": session.turns,
        "events": session.events,
        "completed": None if session.completed is None else bool(session.completed),
        "outcome": outcome,
        "duration_ms": session.duration_ms,
        "cost_usd": cost.usd,
        "cost_kind": cost.kind,
        "low_usd": cost.low_usd,
        "native_id": session.native_id,
        "parent": session.parent_uid,
        "relation": session.relation,
        "from_elsewhere": session.elsewhere is not None,
    }


HEADS = ("", "SESSION", "NAME", "AGENT", "PROJECT", "LAST ACTIVE", "TURNS", "TIME", "COST")
COLUMNS = ((72, range(9)), (50, (0, 1, 2, 5, 6)), (0, (0, 1, 2, 6)))
"""Which of these a terminal of at least so many columns shows."""


def _row(found: Found, outcome: str | None, cost: Cost) -> tuple[str, ...]:
    session = found.session
    return (
        MARKS.get(outcome or "", ("", ""))[0],
        session.shown_number or session.uid[:12],
        f"{mark_of(found)}{session.shown_title or NO_PROMPT}",
        ", ".join(session.agents),
        _project(session.shown_project),
        output.local(session.last_active) or output.UNKNOWN,
        str(session.turns),
        output.duration(session.duration_ms) or output.UNKNOWN,
        output.money(cost),
    )


def _project(name: str) -> str:
    """A project's name, without its owner where that leaves no room for the name itself."""
    named = name if output.columns(name) <= PROJECT_COLUMNS else name.rpartition("/")[2]
    return output.one_line(named, PROJECT_COLUMNS)


def mark_of(found: Found) -> str:
    """What stands before a session that people elsewhere made, or that claims to be one of ours."""
    return "[conflict] " if found.is_conflict else "[from elsewhere] " if found.session.elsewhere is not None else ""


def _tell_of_elsewhere(app: App) -> None:
    """Say that this project's store is a stranger's, and what of it claims to be ours."""
    store = app.project_store
    if not store.is_elsewhere or not store.exists:
        return
    output.talk(f"{store.path} came from elsewhere: it is shown, and acted in only with --trust.")
    if app.conflicts:
        output.talk(
            f"{len(app.conflicts)} in conflict: known here from another place, so the machine's store keeps its own."
        )


def _why_none(app: App, everything: bool) -> str:
    store = next((store for store in app.stores if store.exists), None)
    if store is None:
        return f"Nothing has been read yet: there is no store at {app.home_store.path}. Try: backstory ingest"
    if everything:
        return f"{store.path} holds no sessions that fit. Try: backstory ingest --explain"
    return f"No sessions of {app.project_key}. There are {store.session_count()} in all: backstory list --all"
