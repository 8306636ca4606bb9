"""Reads a session for its screen, and follows it: everything here is done in a thread, and shown in the screen's."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Protocol

from textual.worker import get_current_worker

from backstory.cli import output
from backstory.cli.tui import blocks
from backstory.cli.tui.blocks import ShownLine
from backstory.cli.views.following import Drawing, answer_lines, storing_machine
from backstory.derive.given import tasks_of
from backstory.errors import BackstoryError
from backstory.model import ToolCall
from backstory.workspace.history.blocks import content_of
from backstory.workspace.history.following import Following

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from textual.worker import Worker

    from backstory.cli.app import App as CommandApp
    from backstory.cli.tui.bars import TaskList
    from backstory.cli.tui.blocks import SessionView
    from backstory.cli.tui.session_pane import SessionPane
    from backstory.derive.given import Task
    from backstory.model import Event
    from backstory.workspace.history.blocks import Content, Key

IDLE_SHARE, IDLE_WAIT_S = 10, 1.0
"""A session in which nothing happens is looked at after a tenth of that time again, at the latest after so long."""
LAID_OUT_S, POLL_S = 2.0, 0.005
"""A screen is laid out within this time; a terminal may be too small for it."""
READ_AT_MOST = 3
"""A session that grows whenever it is read is shown all the same."""
LOOKED_FOR_TASKS = 500
"""The number of entries at the end of a running session in which its list of what there is to do is looked for."""


class ShowsSession(Protocol):
    """A screen of a session. Each method is called in its thread, and those of its parts are.

    ``pane``: its entries; ``tasks``: what its agent has to do.
    """

    pane: SessionPane
    tasks: TaskList

    @property
    def columns(self) -> int:
        """The width of what is shown."""

    def look_at(self) -> tuple[SessionView, int]:
        """The way the session is looked at, and how many lines are seen of it: 0 before the screen is laid out."""

    def look(self, lines: Sequence[ShownLine]) -> None:
        """Show the end of the session until it is read."""

    def take(self, content: Content, goal: Key | None) -> None:
        """Show a session as it is stored, at an entry or at its end."""

    def see_end(self, turns: Collection[str]) -> None:
        """Note that the ends of turns are on the screen."""

    def reload(self) -> None:
        """Have the session read anew."""

    def refuse(self, why: str) -> None:
        """Say why the session cannot be read."""


class _Unwanted(Exception):
    """Nobody looks at the session any more."""


class _Stored(Exception):
    """Turns that ended are in the store."""


class SessionFeed:
    """A session's records, as they are stored and as they come. ``call`` has a function run in the screen's thread."""

    def __init__(self, app: CommandApp, shown_by: ShowsSession, call: Callable[..., object]) -> None:
        self._of, self._shown_by, self._call = app, shown_by, call
        self._has_read = False
        self._grown_s = time.monotonic()
        """The moment at which a record came last, or the session was opened."""
        self._seen_live = set[str]()
        """Turns that were found to run, each of which is read anew once."""

    def run(self, uid: str, goal: Key | None) -> None:
        """Read a session, then follow it until the thread's worker is cancelled."""
        worker = get_current_worker()
        try:
            # What follows lets go of its store between two looks, so it has one of its own.
            with self._of.new_workspace() as workspace:
                located, ended = workspace.resolve(uid), set[str]()

                def wait(seconds: float) -> None:
                    _pause(worker, min(max(seconds, (time.monotonic() - self._grown_s) / IDLE_SHARE), IDLE_WAIT_S))
                    if ended and not following.is_due:
                        stored = {each.uid for each in located.store.turns(located.session) if each.outcome}
                        if ended <= stored:
                            raise _Stored
                        # It is not stored from here: what is shown of it stays.
                        ended.clear()

                if not self._has_read:
                    self._look(worker, uid, goal)
                _pause(worker, 0)
                following = Following(workspace, located, machine=storing_machine(self._of), wait=wait)
                content = self._content(uid)
                _pause(worker, 0)
                self._call(self._shown_by.take, content, goal)
                self._has_read = True
                if content.transcript.session.is_running and (tasks := self._stored_tasks(content)):
                    self._call(self._shown_by.tasks.show_tasks, tasks)
                self._follow(worker, following, content, ended)
        except BackstoryError as refused:
            if not worker.is_cancelled:
                self._call(self._shown_by.refuse, output.one_liner(str(refused)))
        except _Stored:
            self._call(self._shown_by.reload)
        except _Unwanted:
            return

    def _content(self, uid: str) -> Content:
        """Read a session, again if a turn was stored meanwhile: what is known of the whole would be of before."""
        for _ in range(READ_AT_MOST):
            located = self._of.workspace.resolve(uid)
            content = content_of(self._of.reader, located)
            if self._of.workspace.resolve(uid).session == located.session:
                break
        return content

    def _look(self, worker: Worker[None], uid: str, goal: Key | None) -> None:
        """Show the end of a long session, or what is around an entry: all of it takes a while to read."""
        latest = time.monotonic() + LAID_OUT_S
        while not (looked_at := self._shown_by.look_at())[1] and time.monotonic() < latest:
            _pause(worker, POLL_S)
        view, lines = looked_at
        if found := blocks.first_look(self._of.reader, self._of.workspace.resolve(uid), view, lines, goal):
            self._call(self._shown_by.look, found)

    def _stored_tasks(self, content: Content) -> Sequence[Task]:
        """The list of what there is to do that the last turn set last, if that was among its last calls."""
        order = content.order
        first = max(len(order) - LOOKED_FOR_TASKS, 0)
        places = [n for n in range(first, len(order)) if order.kinds[n] == ToolCall.kind]
        last = [order.seqs[n] for n in places if order.turns[n] == order.turns[-1]]
        calls = (each.event for each in self._of.reader.entries(content.located, last, "words"))
        return last_tasks(calls)

    def _follow(self, worker: Worker[None], following: Following, content: Content, ended: set[str]) -> None:
        """Draw what comes. Turns that end are added to ``ended``, and read anew as soon as they are stored."""
        turns = {number: each for number, each in content.turns.items() if each.live is None}
        order = content.order
        drawing = Drawing(
            self._of.workspace.now(), turns, full=False, thinking=False, current=order.turns[-1] if order else None,
            folder=content.folder,
        )  # fmt: skip
        settled = 0
        seq = max(order.seqs, default=0)
        with closing(following.grown(seq, {each.turn.uid for each in turns.values()})) as grown:
            for each in grown:
                self._grown_s = time.monotonic()
                with output.window_of(self._shown_by.columns):
                    new = _shown(drawing.lines(each))
                    calls = [found.event for found in each.events if isinstance(found.event, ToolCall)]
                    new += (ShownLine(line) for call in calls for line in blocks.question_lines(call))
                    writing = _shown(answer_lines(each.writing, full=False)) if each.writing else []
                if worker.is_cancelled:
                    return
                self._call(self._shown_by.pane.grow, content, settled, [*new, *writing])
                settled += len(new)
                if tasks := last_tasks(calls):
                    self._call(self._shown_by.tasks.show_tasks, tasks)
                if now := {turn.turn.uid for turn in each.ended}:
                    ended.update(now)
                    self._call(self._shown_by.see_end, now)
                begun = {turn.turn.uid for turn in each.turns if turn.live is not None} - self._seen_live
                if begun and not content.transcript.session.is_running:
                    # Another process runs it: keys have to know.
                    self._seen_live |= begun
                    self._call(self._shown_by.reload)
                    return


def last_tasks(events: Iterable[Event]) -> Sequence[Task]:
    """The list of what there is to do that is set last; empty if none is."""
    lists = (tasks_of(each) for each in events if isinstance(each, ToolCall))
    return next((each for each in reversed([*lists]) if each), ())


def _pause(worker: Worker[None], seconds: float) -> None:
    """Sleep, and end the thread's work where nobody wants it any more."""
    if worker.cancelled_event.wait(seconds):
        raise _Unwanted


def _shown(lines: Iterable[str]) -> list[ShownLine]:
    """Each line for itself: a drawn one may hold several."""
    return [ShownLine(part) for line in lines for part in line.split("\n")]
