"""Sessions that run at this moment: their runs before these are stored, and the meter of their contexts."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory.errors import BackstoryError, RunUnreadable, SessionNotFound
from backstory.model import AssistantText, Init
from backstory.projects import git
from backstory.projects.registry import file_at
from backstory.runs.spool import RUNNING, SPOOLS, UNREADABLE, WAITING, list_spools, running_runs
from backstory.store.tables import compactions, sessions
from backstory.store.tables import events as stored_events
from backstory.store.tables import turns as stored_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from backstory.model import Event, TurnWithEvents
    from backstory.runs.spool import Run, Spool
    from backstory.store import Session, Store
    from backstory.store.database import Asking
    from backstory.store.tables.queue import QueueOwner
    from backstory.workspace.place import Place


class ListedRun(Struct, frozen=True, kw_only=True):
    """A run, or the queued prompts of a session that is not running. Times are in ms since 1970."""

    session: str | None = None
    """The uid of its session."""
    number: str | None = None
    name: str | None = None
    turn: str | None = None
    agent: str | None = None
    state: str
    """RUNNING, WAITING or UNREADABLE of a run in the spool; else queued or summarising."""
    pid: int | None = None
    owner: QueueOwner | None = None
    """The runner of the session."""
    queued: int = 0
    """The number of prompts queued for the session."""
    started: int | None = None
    cwd: str | None = None
    prompt: str | None = None
    folder: str | None = None
    problem: str | None = None
    """The reason why it could not be stored, or not be read."""

    @property
    def is_running(self) -> bool:
        """True if its agent is at work."""
        return self.state == RUNNING


def pending_runs(home: Path) -> tuple[ListedRun, ...]:
    """The runs of a machine that are not stored yet, the oldest first; without their processes and queues."""
    found = []
    for spool in list_spools(home / SPOOLS):
        run = spool.run
        if run is not None:
            found.append(listed_run(spool, run))
        elif spool.is_unreadable:
            found.append(unreadable(spool))
    return tuple(found)


def listed_run(spool: Spool, run: Run) -> ListedRun:
    """A run as its spool has it."""
    return ListedRun(
        session=run.session_uid, turn=run.turn_uid, agent=run.agent, state=RUNNING if spool.is_alive else WAITING,
        started=run.started, cwd=run.cwd, prompt=run.prompt, folder=str(spool.folder), problem=spool.trouble or None,
    )  # fmt: skip


def unreadable(spool: Spool) -> ListedRun:
    """A run of which only the agent's output can be read."""
    problem = str(RunUnreadable(spool.folder))
    return ListedRun(turn=spool.folder.name, state=UNREADABLE, folder=str(spool.folder), problem=problem)


def sessions_running(home: Path, store: Path, worktree: Path) -> dict[str, list[Run]]:
    """The runs of a store's sessions, by uid: those in a worktree if there are any, else those in all of them."""
    runs = [run for _, run in running_runs(home) if store_of_run(run, store) == store]
    near = [run for run in runs if (git.repository_root(Path(run.cwd)) or Path(run.cwd)) == worktree]
    found: dict[str, list[Run]] = {}
    for run in near or runs:
        found.setdefault(run.session_uid, []).append(run)
    return found


def store_of_run(run: Run, near: Path) -> Path:
    """The path of the store that a run is in: ``near``, if its project was moved there since the run began."""
    path = Path(run.store)
    is_moved = path != near and run.store_file is not None and run.store_file == file_at(near)
    return near if is_moved else path


def is_running(place: Place, uid: str, store: Path) -> bool:
    """Return True if a session of a store is running: by an agent, a process with the right to, or another machine."""
    from backstory.runs.lock import host, is_held
    from backstory.store.tables.queue import Queue

    if is_held(place.home, uid) or any(run.session_uid == uid for _, run in running_runs(place.home)):
        return True
    with Queue(store, place.report) as queue:
        owner = queue.owner(uid)
    return owner is not None and owner.host != host() and owner.is_fresh(place.now())


def with_runs(session: Session, runs: Sequence[Run]) -> Session:
    """A session with its runs that no store has yet: they count as turns, and say what it is about."""
    return msgspec.structs.replace(with_title(session, runs), turns=session.turns + len(runs)) if runs else session


def with_title(session: Session, runs: Sequence[Run]) -> Session:
    """A session with what its runs say of it: which agents it has, and of a new one what it is about."""
    return msgspec.structs.replace(
        session,
        agents=tuple(sorted({*session.agents, *(run.agent for run in runs)})),
        first_prompt=session.first_prompt or runs[0].prompt,
    )


# the meter of a context -----------------------------------------------------------------------------------------------


CHARS_PER_TOKEN = 2.5
"""A context has at the most so many characters for each token that its agent's model can take."""
CONTEXT_WINDOW_MIN = 8_000
"""No coding agent works with fewer tokens: where a log names such a number, it is something else."""


METER = ((90, "red"), (60, "yellow"), (0, "green"))
"""From how many percent of its limit on a context has which colour."""
METER_LEAST = 10
"""A smaller share is not worth a word beside a run."""


class Meter(Struct, frozen=True, kw_only=True):
    """Characters of a context since the last summary, and from how many on it is summarised."""

    used: int
    limit: int

    @property
    def percent(self) -> int:
        """The used part of the limit, from 0 to 100.

        >>> Meter(used=120_000, limit=400_000).percent, Meter(used=9, limit=4).percent
        (30, 100)
        """
        return min(100, 100 * self.used // self.limit) if self.limit else 0


def meter_of(session: Session) -> Meter | None:
    """Return the meter of a session as its last turn was stored; None if unknown."""
    if session.context_chars is None or not session.context_limit:
        return None
    return Meter(used=session.context_chars, limit=session.context_limit)


def meter_words(meter: Meter | None, least: int = 0) -> tuple[str, str]:
    """Return a context's fill, and its colour; two '' if it is unknown or below ``least`` percent."""
    if meter is None or meter.percent < least:
        return "", ""
    return f"{meter.percent} %", next(colour for floor, colour in METER if meter.percent >= floor)


def summarised_from(place: Place, asking: Asking, session_id: int, agent: str, model: str | None) -> int:
    """From how many characters on a session's context is summarised for an agent; 0: never.

    ``model``: None: that of the agent's last turn. What its model can take counts as soon as a turn has named it.
    """
    model, window = asking(stored_turns.context_window, session_id, agent, model)
    return threshold(place.config.settings.compaction.chars_of(agent, model), window)


def threshold(chars: int, context_window: int | None = None) -> int:
    """From how many characters on a context is compacted; 0: never.

    ``chars``: what is configured. ``context_window``: what the model can take, in tokens, where that is known.

    >>> threshold(400_000, 128_000), threshold(400_000), threshold(0, 128_000), threshold(400_000, 1)
    (320000, 400000, 0, 400000)
    """
    if context_window is None or context_window < CONTEXT_WINDOW_MIN:
        return chars
    return min(chars, int(context_window * CHARS_PER_TOKEN))


def limit_of(place: Place, asking: Asking, session_id: int, agent: str, model: str | None) -> int:
    """From how many characters on a context is summarised; where it never is, how many it may have."""
    chars = summarised_from(place, asking, session_id, agent, model)
    return chars or place.config.settings.run.context_chars


EVENT_CHARS = 64
"""At the most so many characters stand around an event in a context."""
EVENTS_COUNTED_MAX = 100_000
"""A session of more events is not counted by itself after each run: they would all be held in memory."""
EVENTS_COUNTED_AT_END = 10_000
"""Nor is one of more events counted while other processes wait for the store."""
KEPT_LEAST = 10
"""From this percentage on it is worth a write to the store, which waits for the disk."""


def measure(place: Place, store: Store, session: Session) -> Meter | None:
    """Return what a session's context has now; from a tenth of the limit on it is kept in its store.

    None: the session is too large to be counted by the way, or was removed meanwhile.
    """
    try:
        meter = meter_of(store.session(session.id))
    except SessionNotFound:
        return None
    is_kept = meter is not None
    if meter is None:
        meter = _measured(place, store.ask, session.id, EVENTS_COUNTED_MAX)
    if meter is None or meter.percent < KEPT_LEAST:
        return meter
    with suppress(BackstoryError):
        if not is_kept:
            store.change(sessions.note_context, session.id, meter.used, meter.limit)
        _note_in_home(place, store, session, meter)
    return meter


def note_at_end(place: Place, asking: Asking, session_uid: str) -> None:
    """Keep what a context has with the end of a run, in its transaction: another one would wait for the disk again."""
    # What is not counted here is counted by who asks. A run is stored whatever is wrong with what was before it.
    with suppress(Exception):
        session_id = asking(sessions.find, session_uid)
        meter = _measured(place, asking, session_id, EVENTS_COUNTED_AT_END)
        if meter is not None and meter.percent >= KEPT_LEAST:
            asking(sessions.note_context, session_id, meter.used, meter.limit)


def _measured(place: Place, asking: Asking, session_id: int, events_max: int) -> Meter | None:
    if asking(stored_events.count, session_id) > events_max:
        return None
    turns = asking(compactions.history, session_id, 1 << 60).turns
    if not turns:
        return Meter(used=0, limit=place.config.settings.run.context_chars)
    last = turns[-1].turn
    return Meter(used=_chars(turns), limit=limit_of(place, asking, session_id, last.agent, last.model))


def count_context(place: Place, store: Store, session_uid: str) -> None:
    """Count how full the context of a session is, of which a run was stored that nobody followed to its end."""
    with suppress(BackstoryError):
        if store.has(session_uid):
            measure(place, store, store.session(session_uid))


def _chars(turns: Sequence[TurnWithEvents]) -> int:
    from backstory.conversation.context import rendered_blocks  # a list needs only what was counted before

    return sum(len(block) + 1 for blocks in rendered_blocks(turns) for block in blocks)


def _note_in_home(place: Place, store: Store, session: Session, meter: Meter) -> None:
    """The machine's store lists the session, too; where its copy is behind, it takes this with the rest."""
    home, uid = place.machine_store, session.uid
    if (
        home.path != store.path
        and home.has(uid)
        and home.ask_or(1, sessions.next_seq, uid) == store.ask_or(1, sessions.next_seq, uid)
    ):
        home.change(sessions.note_context, home.session(uid).id, meter.used, meter.limit)


class LiveMeter:
    """The fill of a session's context while a turn of it runs.

    ``limit_for``: the limit for a model, asked as soon as the agent says which one answers. ``more_before``: counts
    what the context had beside ``before``, asked once the turn has grown enough for that to be said.
    """

    def __init__(
        self, before: Meter, prompt: str, limit_for: Callable[[str], int], more_before: Callable[[], int] | None = None
    ) -> None:
        self._limit, self._used = before.limit, before.used + len(prompt)
        self._limit_for, self._more_before = limit_for, more_before
        self._written = 0
        """The characters of an answer that is being written. Its event counts instead when it is whole."""
        # Of a context that is nearly empty nothing needs to be said.
        self._percent = -1 if before.percent else 0

    @property
    def meter(self) -> Meter:
        """Return the present fill."""
        return Meter(used=self._used + self._written, limit=self._limit)

    def counting(self, events: Iterable[Event]) -> Iterator[Event]:
        """The same events, each counted as it is passed on."""
        for event in events:
            self.add([event])
            yield event

    def add(self, events: Iterable[Event], delta: str = "") -> Meter | None:
        """Count what came; returns how full it is now, if that is another percentage than before.

        ``delta``: words of an answer that a later event has as a whole.
        """
        from backstory.conversation.context import event_chars

        for event in events:
            self._used += event_chars(event)
            self._written = 0 if isinstance(event, AssistantText) else self._written
            if isinstance(event, Init) and event.model:
                self._limit = self._limit_for(event.model)
        self._written += len(delta)
        if self._more_before is not None and 2 * self.meter.percent >= KEPT_LEAST:
            self._used, self._more_before = self._used + self._more_before(), None
        meter = self.meter
        is_new, self._percent = meter.percent != self._percent, meter.percent
        return meter if is_new else None


def live_meter(
    place: Place, store: Store, session: Session, agent: str, model: str | None, prompt: str
) -> LiveMeter | None:
    """A meter for a turn that begins; None where it is not known how full the context is before it."""

    def limit_for(name: str | None) -> int:
        return limit_of(place, store.ask, session.id, agent, name)

    limit, more_before = limit_for(model), None
    used = 0
    if store.ask(stored_turns.count, session.id):
        before = meter_of(store.session(session.id))
        if before is not None:
            used = before.used
        elif 100 * store.ask(stored_events.chars_at_most, session.id, EVENT_CHARS) < KEPT_LEAST * limit:
            # So little is not kept.
            more_before = partial(_count, store, session)
        else:
            return None
    return LiveMeter(Meter(used=used, limit=limit), prompt, limit_for, more_before)


def _count(store: Store, session: Session) -> int:
    return _chars(store.ask(compactions.history, session.id, 1 << 60).turns)
