"""Shared by commands that write a person's decisions: where they are written, and which stores are late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.cli import output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.cli.app import App
    from backstory.workspace.decisions import Late
    from backstory.workspace.located import LocatedSession


def copy_decisions(app: App, found: LocatedSession, done: str) -> None:
    """Copy a session's decisions to the other stores that hold it, and name those that are late."""
    talk_late(done, app.workspace.decisions.copy(found.store, found.session.uid))


def talk_late(done: str, late: Sequence[Late]) -> None:
    """Print a line for each store that could not be written now."""
    for each in late:
        output.talk(f"{done}; {each}.")
