"""A turn that is stopped for a summary and continued: when the next context would be too long before the turn ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from backstory.conversation import compaction
from backstory.conversation.compaction import Exchange
from backstory.conversation.context import event_chars
from backstory.model import STOPPED_TO_COMPACT, Init, ToolCall, ToolResult
from backstory.runs import compactor, stopped_turns
from backstory.runs.stopping import INTERRUPT_S
from backstory.store import events as stored_events
from backstory.workspace.meter import EVENT_CHARS, summarised_from
from backstory.workspace.stopping import running

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.model import Event
    from backstory.runs.runner import Request
    from backstory.runs.spool import Spool
    from backstory.store import Session, Store
    from backstory.workspace.compacting import CompactionPlan
    from backstory.workspace.place import Place


class MidTurn:
    """Measures the context that the next run would get while a turn runs, and stops the turn between two steps.

    It stops a turn once at most, and only where a summary makes room: ``why_not`` says what is in the way.
    """

    def __init__(self, place: Place, store: Store, session: Session, request: Request) -> None:
        self._place, self._store, self._session = place, store, session
        self._after, self._agent = request.after, request.agent
        self._limit = summarised_from(place, store, session, request.agent, request.model)
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
        return summarised_from(self._place, self._store, self._session, self._agent, model) or self._limit

    def _stop(self) -> None:
        # What a person stopped is not continued.
        found = [spool for spool in running(self._place.home, self._session.uid) if not spool.was_cancelled]
        for spool in found:
            if (run := spool.run) is not None:
                stopped_turns.note(self._place.home, stopped_turns.stopped_turn(run, self._place.now()))
            spool.cancel(STOPPED_TO_COMPACT)
        self._stopped, self._deadline = found, time.monotonic() + INTERRUPT_S

    def _is_worth_it(self) -> bool:
        """Whether the context has passed its limit, and a summary of what came before the turn makes it shorter."""
        from backstory.workspace.compacting import Compactor, exchanges_of

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
