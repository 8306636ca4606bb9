"""Compaction around a run: before one whose context would be cut, in the background after one that grew too large."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from backstory.conversation.context import build_context
from backstory.errors import BackstoryError
from backstory.runs import compactor
from backstory.runs.stopping import Terminated
from backstory.store import compactions, events
from backstory.workspace.meter import EVENT_CHARS, EVENTS_COUNTED_MAX, summarised_from
from backstory.workspace.run_events import Notice, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.runs.runner import Finished, Request
    from backstory.store import Session, Store
    from backstory.workspace.place import Place
    from backstory.workspace.run_events import RunEvent

WAIT_S = 60.0
"""How long a run waits for a summary under way, where its context would be cut without it."""
POLL_S = 0.2


def make_room(place: Place, store: Store, session: Session, request: Request) -> Iterator[RunEvent]:
    """Have a summary before a run whose context would be cut; an interrupt has it run with a cut one."""
    if not _would_be_cut(store, session, request):
        yield from _begin_again(place, store, session, request)
        return
    label = session.shown_number or session.uid[:12]
    try:
        if compactor.is_under_way(place.home, session.uid):
            yield Notice(f"{label} is longer than a context may be; waiting for the summary that is being made …")
            yield from _wait(place.home, session)
            return
        from backstory.workspace.compacting import Compactor

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
    if store.ask(events.chars_at_most, session.id, EVENT_CHARS) <= room:
        return False
    return build_context(store.ask(compactions.history, session.id, room, request.after), budget_chars=room).is_cut


def _wait(home: Path, session: Session) -> Iterator[RunEvent]:
    deadline = time.monotonic() + WAIT_S
    while compactor.is_under_way(home, session.uid) and time.monotonic() < deadline:
        yield Waiting(session=session.shown_number or session.uid[:12])
        time.sleep(POLL_S)


def begin_if_due(
    place: Place, store: Store, session: Session, request: Request, finished: Finished
) -> Iterator[Notice]:
    """After a run: begin a summary in the background once the context has passed its limit."""
    if finished.waits or finished.moved:
        return
    limit = summarised_from(place, store, session, request.agent, finished.turn.model)
    if not limit or not _may_be_over(store, session, finished, limit):
        return
    if compactor.is_under_way(place.home, session.uid) or store.ask(events.count, session.id) > EVENTS_COUNTED_MAX:
        return
    from backstory.workspace.compacting import Compactor  # most runs need none

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
    from backstory.workspace.compacting import Compactor  # most runs need none

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
    """Whether a context may have passed its limit, which is looked at closely only then."""
    return finished.context_chars >= limit or store.ask(events.chars_at_most, session.id, EVENT_CHARS) >= limit
