"""A session that this project may add to: its own, or what goes on here from one that belongs elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory import projects
from backstory.cli import output
from backstory.store import Workplace

if TYPE_CHECKING:
    from backstory.cli.app import App, Found
    from backstory.store import Session
    from backstory.tree import Point


def own_session(app: App, found: Found, holding: Point | None = None) -> Session:
    """The session in this project's store that goes on from the one found: itself where that is its own.

    ``holding``: it has this record.
    """
    store = app.project_store
    if found.session.number is not None and store.exists and store.has(found.session.uid):
        # The agent's own log of a run of ours leads to the run.
        return store.session(found.session.uid)
    session = store.continue_session(found.store, found.session.uid, holding)
    keep_out_of_git(app)
    store.place_session(session, here(app))
    output.talk(f"{session.shown_number} goes on from {found.session.uid[:12]}, with copies of its turns.")
    return store.session(session.id)


def here(app: App) -> Workplace:
    """Where a session is at work that acts from here."""
    return Workplace(
        project=app.project_key,
        branch=projects.current_branch(app.worktree),
        cwd=str(app.cwd),
        root=projects.worktree_root(str(app.cwd)),
    )


def keep_out_of_git(app: App) -> None:
    """Have git ignore the project's store."""
    if not app.store_path:
        projects.keep_out_of_git(app.project_folder, app.project_store.path.parent.name)
