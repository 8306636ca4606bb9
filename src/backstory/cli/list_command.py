"""``backstory list``: the sessions there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.cli.options import json_option, store_option
from backstory.spool import SPOOLS, waiting

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.store import Session

PROJECT_COLUMNS = 20
BADGES = {1: ("✓", "green"), 0: ("✗", "red")}


@click.command("list")
@click.option("--all", "everything", is_flag=True, help="Every session on the machine, not only this project's.")
@click.option("--agent", "-a", metavar="NAME", help="Only sessions of this agent.")
@click.option("--helpers", is_flag=True, help="Also the sessions of helpers (sub-agents).")
@click.option("--limit", "-n", type=int, help="How many; 0 for all.  [default: 50]")
@json_option
@store_option
@click.pass_obj
def command(app: App, everything: bool, agent: str | None, helpers: bool, limit: int | None, as_json: bool) -> None:
    """List sessions, the last active first: this project's, or with --all the machine's."""
    limit = app.config.get("list.limit") if limit is None and not as_json else limit or 0
    found = listed(app, everything=everything or bool(app.store_path), agent=agent, helpers=helpers)
    shown = found[:limit] if limit else found
    _tell_of_runs(app)
    if as_json:
        output.json([session_as_json(session) for session in shown])
        return
    if not found:
        output.talk(_why_none(app, everything))
        return
    for line in output.table([_row(session) for session in shown], flexible=2, heads=HEADS):
        output.data(line)
    if len(shown) < len(found):
        output.talk(f"Showing {len(shown)} of {len(found)}; --limit 0 for all.")


def _tell_of_runs(app: App) -> None:
    """Say what is not in the list yet: runs that go on, and those that wait to be stored."""
    spools = [spool for spool in waiting(app.home / SPOOLS) if spool.run is not None]
    running = sum(spool.is_alive for spool in spools)
    if running:
        output.talk(f"{running} running: backstory ps")
    if len(spools) > running:
        output.talk(f"{len(spools) - running} over and not stored yet; the next `backstory run` stores what it can.")


def listed(app: App, *, everything: bool, agent: str | None, helpers: bool) -> list[Session]:
    """The sessions of the stores in use, each once, the last active first."""
    found: dict[str, Session] = {}
    for store in app.stores:
        if store.exists:
            project, folder = (None, None) if everything else (app.project_key, str(app.project_folder))
            for session in store.sessions(agent=agent, helpers=helpers, project=project, folder=folder):
                found.setdefault(session.uid, session)
    return sorted(found.values(), key=lambda session: (session.last_active or 0, session.uid), reverse=True)


def session_as_json(session: Session) -> dict[str, Any]:
    """A session as printed by ``list`` and ``show``."""
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
        "duration_ms": session.duration_ms,
        "cost_usd": session.cost_usd,
        "native_id": session.native_id,
        "parent": session.parent_uid,
        "relation": session.relation,
    }


HEADS = ("", "SESSION", "NAME", "AGENT", "PROJECT", "LAST ACTIVE", "TURNS", "TIME", "COST")


def _row(session: Session) -> tuple[str, ...]:
    return (
        badge(session.completed),
        session.shown_number or session.uid[:12],
        session.name or session.title or session.first_prompt or "",
        ", ".join(session.agents),
        output.one_line((session.project or "").rstrip("/").rpartition("/")[2], PROJECT_COLUMNS),
        output.local(session.last_active),
        str(session.turns),
        output.duration(session.duration_ms),
        "" if session.cost_usd is None else f"${session.cost_usd:.2f}",
    )


def badge(completed: int | None) -> str:
    """✓ for a session whose last turn succeeded, ✗ for one where it did not, nothing while it is open."""
    return BADGES[completed][0] if completed in BADGES else ""


def _why_none(app: App, everything: bool) -> str:
    store = next((store for store in app.stores if store.exists), None)
    if store is None:
        return f"Nothing has been read yet: there is no store at {app.home_store.path}. Try: backstory ingest"
    if everything:
        return f"{store.path} holds no sessions that fit. Try: backstory ingest --explain"
    return f"No sessions of {app.project_key}. There are {store.session_count()} in all: backstory list --all"
