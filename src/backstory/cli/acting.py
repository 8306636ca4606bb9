"""A session that this project may add to, with what a person is told about how it came to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.workspace.writable import ensure_writable_session, prepare_store

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.conversation.tree import Point
    from backstory.store import Session
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.writable import WritableSession


def writable_session(app: App, located: LocatedSession, holding: Point | None = None) -> Session:
    """The session of this project that continues the one given; itself where that is the project's own.

    ``holding``: it has this record.
    """
    writable = ensure_writable_session(app.workspace, located, holding)
    if writable.restored:
        output.talk(f"{app.project_store.path} was gone; its {writable.restored} sessions were brought back.")
    _print_held(app, writable.held)
    if writable.continues is not None:
        number, uid = writable.session.shown_number, writable.continues[:12]
        output.talk(f"{number} goes on from {uid}, with copies of its turns.")
        _print_lacking(writable, uid)
    return writable.session


def _print_lacking(writable: WritableSession, uid: str) -> None:
    lacking = writable.lacking
    if lacking is not None:
        count = f"{lacking.turns} turn{'s' * (lacking.turns != 1)}"
        output.talk(
            f"{writable.session.shown_number} lacks {count} that came to {uid} since. To go on from there: "
            f"backstory run -S {uid} @{lacking.seq} PROMPT"
        )


def ready_to_begin(app: App) -> None:
    """Note the project's store as ours, if it is about to be made, and have git ignore it."""
    _print_held(app, prepare_store(app.workspace))


def _print_held(app: App, held: int) -> None:
    if held:
        folder = app.project_store.path.parent
        output.talk(f"{held} queued in {folder} wait until you release them: backstory queue list")
