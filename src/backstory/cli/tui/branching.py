"""Branches from the screen: where a prompt of its own follows. All of it asks a workspace, in a thread."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from textual.worker import get_current_worker

from backstory.cli import output
from backstory.errors import BackstoryError
from backstory.store.tables import branches
from backstory.workspace.history.targets import resolve_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.screen import Screen

    from backstory.cli.app import App

T = TypeVar("T")


class Fork(Struct, frozen=True, kw_only=True):
    """The record that a prompt is to follow. ``seq``: None where the session goes on there anyway."""

    seq: int | None
    said: str
    back: str = ""
    """The way back, in a sentence."""

    @property
    def title(self) -> str:
        """The words for the prompt's field; '' where it is as always."""
        return "" if self.seq is None else f"follows @{self.seq} · "

    @property
    def sent(self) -> str:
        """The sentence for a prompt that was sent there; '' where it is as always."""
        return "" if self.seq is None else f"A branch of its own from @{self.seq}. {self.back}"


NO_FORK = Fork(seq=None, said="")


def in_thread(
    screen: Screen[None], group: str, work: Callable[[], T], done: Callable[[T], object],
    refused: Callable[[str], object],
) -> None:  # fmt: skip
    """Have a thread do something; then ``done`` receives its value, or ``refused`` the reason in a line.

    What was begun earlier in the same ``group`` is no more wanted, nor anything where the screen is closed.
    """
    screen.run_worker(partial(_work, screen, work, done, refused), thread=True, group=group, exclusive=True)


def _work(
    screen: Screen[None], work: Callable[[], T], done: Callable[[T], object], refused: Callable[[str], object]
) -> None:
    worker, answer = get_current_worker(), done
    try:
        value = work()
    except BackstoryError as error:
        answer, value = refused, output.one_liner(str(error))  # type: ignore[assignment]
    if not worker.is_cancelled:
        screen.app.call_from_thread(answer, value)


def fork_at(app: App, uid: str, seq: int) -> Fork:
    """Find where a prompt goes that follows a record. Raises RecordNotFound, BranchRemoved, SessionNotFound."""
    with app.new_workspace() as workspace:
        located = workspace.resolve(uid)
        to, here = resolve_target(located, f"@{seq}"), located.store.leaf(located.session)
        point = located.store.ask(branches.settled, located.session.id, to.point)
    at = point.seq
    if point == here:
        return Fork(seq=None, said=f"The session goes on at @{at} anyway: this is no fork.")
    moved = f"@{seq} lies between a call and its result: @{at} is before it. " if at < to.asked else ""
    return Fork(
        seq=at,
        said=f"{moved}The prompt follows @{at}, as a branch of its own; Esc: nothing is changed",
        back="" if here is None else f"Back to the other: backstory checkout @{here.seq}",
    )
