"""A session that this project may add to, and the remarks on how it came to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.workspace.runs.writable import ensure_writable_session

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.conversation.tree import Point
    from backstory.store import Session
    from backstory.workspace.located import LocatedSession


def writable_session(app: App, located: LocatedSession, holding: Point | None = None) -> Session:
    """The session of this project that continues the one given; itself where that is the project's own.

    ``holding``: it has this record.
    """
    writable = ensure_writable_session(app.workspace, located, holding)
    for sentence in writable.sentences(app.project_store.path):
        output.talk(sentence)
    return writable.session
