"""A session that this project may add to: its own, or what goes on here from one that belongs elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.app import now_ms
from backstory.cli.trusting import hold_strangers
from backstory.conversation.tree import get_ancestry
from backstory.projects import git
from backstory.projects.registry import KnownProjects
from backstory.store import Workplace

if TYPE_CHECKING:
    from backstory.cli.app import App, Found
    from backstory.conversation.tree import Point
    from backstory.store import Session, Store


def own_session(app: App, found: Found, holding: Point | None = None) -> Session:
    """The session in this project's store that goes on from the one found: itself where that is its own.

    ``holding``: it has this record.
    """
    store, known = app.project_store, KnownProjects(app.home, app.machine_store, now_ms)
    if back := known.bring_back(store):
        output.talk(f"{store.path} was gone; its {back} sessions were brought back.")
    if is_own(store, found.session.uid):
        return store.session(found.session.uid)
    ready_to_begin(app)
    session = store.continue_session(found.store, found.session.uid, holding, worktree=app.worktree)
    known.remember(store)
    store.place_session(session, here(app))
    output.talk(f"{session.shown_number} goes on from {found.session.uid[:12]}, with copies of its turns.")
    if holding is None:
        _tell_lacking(found, store, session)
    return store.session(session.id)


def is_own(store: Store, uid: str) -> bool:
    """Whether a store may add to a session: it owns it, and does not only keep what another one handed over."""
    return store.exists and store.owner_of(uid) == store.id


def _tell_lacking(found: Found, store: Store, session: Session) -> None:
    """Say what came to a session since the one that goes on from it was made."""
    leaf = found.store.leaf(found.session)
    if leaf is None:
        return
    there = {turn.uid for turn in store.turns(session)}
    lacking = [turn for turn in get_ancestry(found.store.tree(found.session), leaf.uid) if turn.uid not in there]
    if lacking:
        count = f"{len(lacking)} turn{'s' * (len(lacking) != 1)}"
        output.talk(
            f"{session.shown_number} lacks {count} that came to {found.session.uid[:12]} since. To go on from there: "
            f"backstory run -S {found.session.uid[:12]} @{leaf.seq} PROMPT"
        )


def here(app: App) -> Workplace:
    """Where a session is at work that acts from here."""
    return Workplace(
        project=app.project_key,
        branch=git.current_branch(app.worktree),
        cwd=str(app.cwd),
        root=git.worktree_root(str(app.cwd)),
    )


def ready_to_begin(app: App) -> None:
    """Note the project's store as ours, if it is about to be made, and have git ignore it."""
    hold_strangers(app)
    app.known_projects.begin(app.project_store)
    if not app.store_path:
        git.keep_out_of_git(app.project_folder, app.project_store.path.parent.name)
