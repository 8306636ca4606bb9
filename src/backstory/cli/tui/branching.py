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
from backstory.workspace.runs.writable import ensure_ours, is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.screen import Screen

    from backstory.cli.app import App
    from backstory.workspace.decisions import Late
    from backstory.workspace.history.targets import Target
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.workspace import Workspace

T = TypeVar("T")
NAME_COLUMNS = 50
NOT_OURS = (
    "This session is not one of this project. Make one here that continues it, with copies of its turns? "
    "The session itself stays as it is."
)
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
        return "" if self.seq is None else f"A branch from @{self.seq}. {self.back}"


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
    except (BackstoryError, OSError) as error:
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
        back="" if here is None else f"Back: backstory checkout @{here.seq}",
    )


class CheckedOut(Struct, frozen=True):
    """The session whose next prompt was sent elsewhere, and a sentence about it."""

    uid: str
    said: str


class ToAgree(Struct, frozen=True):
    """A question that a person has to agree to before a prompt goes elsewhere. ``what``: STOP or COPY."""

    what: str
    question: str


STOP, COPY = "stop", "copy"


def check_out(app: App, uid: str, seq: int, agreed: frozenset[str] = frozenset()) -> CheckedOut | ToAgree:
    """Let the next prompt follow a record, as ``backstory checkout`` does, if all it takes was ``agreed`` to.

    Raises what the command does.
    """
    remarks = list[str]()
    with app.new_workspace() as workspace:
        ensure_ours(workspace, _never, remarks.append)
        located = workspace.resolve(uid)
        before, to = located.store.leaf(located.session), resolve_target(located, f"@{seq}")
        is_ours = is_own(workspace.project_store, uid)
        if not is_ours and COPY not in agreed:
            return ToAgree(COPY, NOT_OURS)
        if is_ours and to.point == before:
            return CheckedOut(uid, f"The next prompt of {located.label} follows @{seq} already.")
        if STOP in agreed:
            with suppress(NothingRuns):
                workspace.scheduler.cancel(located)
        try:
            own, late = _checked_out(workspace, to, remarks, STOPPED_S if STOP in agreed else 0)
        except SessionBusy:
            if STOP in agreed:
                raise
            stop = f"Stop it? Its output is kept, and the next prompt follows @{seq}."
            return ToAgree(STOP, f"An agent is at work on this session. {stop}")
    is_moved = before is not None and before != to.point
    back = f" To go back: backstory checkout @{before.seq} -S {own.label}" if before is not None and is_moved else ""
    said = f"The next prompt of {own.label} follows @{to.point.seq}.{back}"
    return CheckedOut(own.session.uid, " ".join((*remarks, *(f"{each}." for each in late), said)))


def _checked_out(
    workspace: Workspace, to: Target, remarks: list[str], within_s: float
) -> tuple[LocatedSession, Sequence[Late]]:
    """Check out as soon as nobody runs the session; raises SessionBusy where that takes longer."""
    end = time.monotonic() + within_s
    while True:
        try:
            return branching.check_out(workspace, to, remarks.append)
        except SessionBusy:
            if time.monotonic() >= end:
                raise
        # Whoever ran it stores the run first.
        time.sleep(POLL_S)


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
