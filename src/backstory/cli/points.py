"""Sessions, records and branches that the words of a command name."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.options import readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.cli.app import App
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.targets import Target

SHOWN_COLUMNS = 60


def find(app: App, wanted: str | None, *, running_first: bool = False) -> LocatedSession:
    """The session that is meant; without a word the default one, which is printed."""
    if wanted is not None:
        return app.find(wanted)
    found = app.workspace.default(running_first=running_first)
    print_default(found)
    return found


def print_default(found: LocatedSession) -> None:
    """Print which session is meant by no word."""
    room = max(min(output.width() - len(found.label) - 1, SHOWN_COLUMNS), 8)
    output.talk(f"{found.label} {output.one_line(found.session.shown_title, room)}".strip())


def find_target(app: App, words: str, wanted: str | None) -> Target:
    """The record or branch that is meant, in the session that is meant; the default session is printed."""
    session = None if wanted is None else app.find(wanted)
    target = app.workspace.target(readable(words), session)
    if target.is_default:
        print_default(target.located)
    return target


def tell_moved(target: Target) -> None:
    """Say where a record that lies inside a tool's call was taken to."""
    if target.tip is None and target.point.seq < target.asked:
        output.talk(
            f"@{target.asked} lies between a tool's call and its result, so the agent receives it up to "
            f"@{target.point.seq}, before the call."
        )


@contextmanager
def locked(app: App, uid: str, shown_as: str) -> Iterator[None]:
    """Hold the right to write a session while something is decided about it; raises SessionBusy."""
    scheduler = app.workspace.scheduler
    for problem in scheduler.recover():
        output.talk(problem)
    with scheduler.locked(uid, shown_as):
        yield
