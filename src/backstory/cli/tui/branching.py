"""Changes of branches from the screen. All of it asks a workspace, in a thread; no store is trusted from here."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from textual.worker import get_current_worker

from backstory.cli import output
from backstory.errors import BackstoryError, NothingRuns, SessionBusy
from backstory.store.tables import branches
from backstory.workspace.history.targets import resolve_target
from backstory.workspace.runs import branching
from backstory.workspace.runs.writable import ensure_ours

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.screen import Screen

    from backstory.cli.app import App

T = TypeVar("T")
NAME_COLUMNS = 50
STOPPED_S, POLL_S = 30.0, 0.1
"""The most time that a run takes to end and to be stored after it was stopped; it is looked for as often."""


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
    screen: Screen[Any], group: str, work: Callable[[], T], done: Callable[[T], object],
    refused: Callable[[str], object],
) -> None:  # fmt: skip
    """Have a thread do something; then ``done`` receives its value, or ``refused`` the reason in a line.

    What was begun earlier in the same ``group`` is no more wanted, nor anything where the screen is closed.
    """
    screen.run_worker(partial(_work, screen, work, done, refused), thread=True, group=group, exclusive=True)


def _work(
    screen: Screen[Any], work: Callable[[], T], done: Callable[[T], object], refused: Callable[[str], object]
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


class CheckedOut(Struct, frozen=True):
    """The session whose next prompt was sent elsewhere, and a sentence about it."""

    uid: str
    said: str


def check_out(app: App, uid: str, seq: int, *, stops: bool = False) -> CheckedOut | None:
    """Let the next prompt follow a record, as ``backstory checkout`` does; None while something runs in the session.

    ``stops``: what runs is stopped first. Raises what the command does.
    """
    remarks = list[str]()
    with app.new_workspace() as workspace:
        ensure_ours(workspace, _never, remarks.append)
        located = workspace.resolve(uid)
        before, to = located.store.leaf(located.session), resolve_target(located, f"@{seq}")
        if stops:
            with suppress(NothingRuns):
                workspace.scheduler.cancel(located)
        end = time.monotonic() + (STOPPED_S if stops else 0)
        while True:
            try:
                own, late = branching.check_out(workspace, to, remarks.append)
                break
            except SessionBusy:
                if not stops:
                    return None
                if time.monotonic() >= end:
                    raise
            # Whoever ran it stores the run first.
            time.sleep(POLL_S)
    back = "" if before is None else f" To go back: backstory checkout @{before.seq} -S {own.label}"
    said = f"The next prompt of {own.label} follows @{to.point.seq}.{back}"
    return CheckedOut(own.session.uid, " ".join((said, *remarks, *(f"{each}." for each in late))))


def name(app: App, uid: str, seq: int, words: str) -> str:
    """Name the branch with a record, as ``backstory tree name`` does; returns a sentence."""
    remarks, called = list[str](), branching.usable_name(words)
    with app.new_workspace() as workspace:
        ensure_ours(workspace, _never, remarks.append)
        located = branching.owning(workspace, workspace.resolve(uid))
        late = branching.name_branch(workspace, located, called, resolve_target(located, f"@{seq}").point)
    said = f"The branch with @{seq} is now called {output.one_line(called, NAME_COLUMNS)!r}."
    return " ".join((said, *remarks, *(f"{each}." for each in late)))


def _never(_store: object) -> bool:
    """Trust nothing: that is a command's to ask."""
    return False
