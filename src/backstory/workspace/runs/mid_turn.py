"""A turn that is stopped for a summary and continued: when the next context would be too long before the turn ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from backstory.conversation import compaction
from backstory.conversation.compaction import Exchange
from backstory.conversation.context import build_context, event_chars
from backstory.errors import BackstoryError
from backstory.model import STOPPED_TO_COMPACT, Init, ToolCall, ToolResult
from backstory.runs import compactor
from backstory.runs.stopping import INTERRUPT_S, Terminated, running
from backstory.store.tables import compactions
from backstory.store.tables import events as stored_events
from backstory.workspace.runs.run_events import Notice, SessionAwaited
from backstory.workspace.runs.running import EVENT_CHARS, EVENTS_COUNTED_MAX, summarised_from

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from backstory.model import Event
    from backstory.runs.runner import Finished, Request
    from backstory.runs.spool import Spool
    from backstory.store import Session, Store
    from backstory.workspace.place import Place
    from backstory.workspace.runs.compacting import CompactionPlan
    from backstory.workspace.runs.run_events import RunEvent


class MidTurn:
    """Measures the context that the next run would get while a turn runs, and stops the turn between two steps.

    It stops a turn once at most, and only where a summary makes room: ``why_not`` says what is in the way.
    """

    def __init__(self, place: Place, store: Store, session: Session, request: Request) -> None:
        self._place, self._store, self._session = place, store, session
        self._after, self._agent = request.after, request.agent
        self._limit = summarised_from(place, store.ask, session.id, request.agent, request.model)
        self._base_at_most = store.ask(stored_events.chars_at_most, session.id, EVENT_CHARS) if self._limit else 0
        self._plan: CompactionPlan | None = None
        self._turn_chars = len(request.prompt)
        self._open = set[str]()
        self._is_decided = not self._limit
        self._stopped: list[Spool] = []
        self._deadline = 0.0
        self.why_not = ""

    @property
    def chars(self) -> int:
        """Characters of the context that the next run would get, as far as the turn has come; at most."""
        return (self._base_at_most if self._plan is None else self._plan.chars) + self._turn_chars

    def look(self, events: Sequence[Event]) -> None:
        """Take what came; stop the turn where it has grown too long and no call is open.

        An agent that does not listen is killed, as one that a person stops is: it is to be called while nothing comes,
        too.
        """
        if self._stopped and time.monotonic() > self._deadline:
            for spool in self._stopped:
                spool.kill()
        for event in events:
            self._turn_chars += event_chars(event)
            if isinstance(event, Init) and event.model and self._limit:
                self._limit = self._limit_for(event.model)
            elif isinstance(event, ToolCall):
                self._open.add(event.tool_use_id or "")
            elif isinstance(event, ToolResult):
                self._open.discard(event.tool_use_id or "")
        is_between_steps = bool(events) and isinstance(events[-1], ToolResult) and not self._open
        if not self._is_decided and self.chars >= self._limit and is_between_steps and self._is_worth_it():
            self._is_decided = True
            self._stop()

    def _limit_for(self, model: str) -> int:
        return summarised_from(self._place, self._store.ask, self._session.id, self._agent, model) or self._limit

    def _stop(self) -> None:
        # What a person stopped is not continued.
        found = [spool for spool in running(self._place.home, self._session.uid) if not spool.was_cancelled]
        for spool in found:
            if (run := spool.run) is not None:
                compactor.note_stopped(self._place.home, compactor.stopped_turn(run, self._place.now()))
            spool.cancel(STOPPED_TO_COMPACT)
        self._stopped, self._deadline = found, time.monotonic() + INTERRUPT_S

    def _is_worth_it(self) -> bool:
        """Return True if the context is over its limit, and a summary of all before the turn makes it shorter."""
        from backstory.workspace.runs.compacting import Compactor, exchanges_of

        if compactor.is_under_way(self._place.home, self._session.uid):
            # The summary that is being made may be all the room that is needed.
            self._plan = None
            return False
        if self._plan is None:
            self._plan = Compactor(self._place, self._store, self._session, self._after).plan()
        if self.chars < self._limit:
            return False
        current = Exchange(last_seq=-1, chars=self._turn_chars)
        found = compaction.boundary([*exchanges_of(self._plan.history.turns), current], self._limit)
        if found is not None and found.kept_chars < self._limit:
            return True
        self._is_decided = True
        self.why_not = (
            f"The context has passed {self._limit:,} characters, and what stays as it is has so many by itself: the "
            "turn is not stopped for a summary."
        )
        return False


# compaction around a run: before one whose context would be cut, in the background after one that grew too large ------


WAIT_S = 60.0
"""The time that a run waits for a summary under way, if its context would be cut without it."""
POLL_S = 0.2


def make_room(place: Place, store: Store, session: Session, request: Request) -> Iterator[RunEvent]:
    """Make a summary before a run whose context would be cut; after an interrupt the run gets a cut one."""
    if not _would_be_cut(store, session, request):
        yield from _begin_again(place, store, session, request)
        return
    label = session.shown_number or session.uid[:12]
    try:
        if compactor.is_under_way(place.home, session.uid):
            yield Notice(f"{label} is longer than a context may be; waiting for the summary that is being made …")
            yield from _wait(place.home, session)
            return
        from backstory.workspace.runs.compacting import Compactor

        own = Compactor(place, store, session, request.after)
        plan = own.plan()
        if plan.limit and plan.boundary is not None:
            yield Notice(f"{label} is longer than a context may be: its beginning is summarised first (Ctrl-C: skip).")
            yield from own.compact(plan)
    except Terminated:
        # Nobody is there any more to run it for.
        raise
    except KeyboardInterrupt:
        yield Notice("No summary: the run receives what fits, the newest turns.")
    except BackstoryError as refused:
        yield Notice(f"{refused} The run receives what fits, the newest turns.")


def _would_be_cut(store: Store, session: Session, request: Request) -> bool:
    room = request.history_chars
    if store.ask(stored_events.chars_at_most, session.id, EVENT_CHARS) <= room:
        return False
    return build_context(store.ask(compactions.history, session.id, room, request.after), budget_chars=room).is_cut


def _wait(home: Path, session: Session) -> Iterator[RunEvent]:
    deadline = time.monotonic() + WAIT_S
    while compactor.is_under_way(home, session.uid) and time.monotonic() < deadline:
        yield SessionAwaited(session=session.shown_number or session.uid[:12])
        time.sleep(POLL_S)


def begin_if_due(
    place: Place, store: Store, session: Session, request: Request, finished: Finished
) -> Iterator[Notice]:
    """After a run: begin a summary in the background once the context has passed its limit."""
    if finished.waits or finished.moved:
        return
    limit = summarised_from(place, store.ask, session.id, request.agent, finished.turn.model)
    if not limit or not _may_be_over(store, session, finished, limit):
        return
    if (
        compactor.is_under_way(place.home, session.uid)
        or store.ask(stored_events.count, session.id) > EVENTS_COUNTED_MAX
    ):
        return
    from backstory.workspace.runs.compacting import Compactor  # most runs need none

    plan = Compactor(place, store, session).plan()
    if not plan.is_over:
        return
    label = session.shown_number or session.uid[:12]
    if plan.boundary is None:
        yield Notice(f"{label} has passed {plan.limit:,} characters in one exchange; that cannot be summarised yet.")
        return
    if why := compactor.trouble(place.home, session.uid):
        yield Notice(f"Last time: {why}")
    yield from _begin(place, store, session, plan.limit)


def _begin_again(place: Place, store: Store, session: Session, request: Request) -> Iterator[Notice]:
    """Begin a summary again whose process was killed: without waiting for the end of a turn."""
    if not compactor.is_unfinished(place.home, session.uid):
        return
    compactor.note_trouble(place.home, session.uid, "")
    from backstory.workspace.runs.compacting import Compactor  # most runs need none

    plan = Compactor(place, store, session, request.after).plan()
    if plan.is_due:
        yield from _begin(place, store, session, plan.limit)


def _begin(place: Place, store: Store, session: Session, limit: int) -> Iterator[Notice]:
    label = session.shown_number or session.uid[:12]
    environ = {**place.environ, "BACKSTORY_HOME": str(place.home)}
    try:
        compactor.begin(place.home, store.path, session.uid, place.folder, environ)
    except OSError as refused:
        yield Notice(f"{label} has passed {limit:,} characters, and could not be summarised: {refused}.")
        return
    yield Notice(f"{label} has passed {limit:,} characters: its beginning is being summarised in the background.")


def _may_be_over(store: Store, session: Session, finished: Finished, limit: int) -> bool:
    """Return True if a context may have passed its limit, which is looked at closely only then."""
    return finished.context_chars >= limit or store.ask(stored_events.chars_at_most, session.id, EVENT_CHARS) >= limit
