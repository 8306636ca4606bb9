"""What commands share that write what a person decided: where it goes, and which stores will catch up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.workspace.decisions import Decisions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.cli.app import App
    from backstory.workspace.decisions import Late
    from backstory.workspace.located import LocatedSession


def decisions(app: App) -> Decisions:
    """Where decisions are written."""
    return Decisions(app.machine_store, app.workspace.known_projects)


def copy_decisions(app: App, found: LocatedSession, done: str) -> None:
    """Copy what was decided about a session to the other stores that hold it, and name those that are late."""
    talk_late(done, decisions(app).copy(found.store, found.session.uid))


def talk_late(done: str, late: Sequence[Late]) -> None:
    """Name the stores that could not be written now, a line for each."""
    for each in late:
        output.talk(f"{done}; {each}.")
