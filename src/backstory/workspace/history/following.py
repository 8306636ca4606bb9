"""A session followed while it grows: its log as an agent writes it, and runs of ours as they go on.

The log's file is read behind what the store has, so an entry is returned as soon as it is written, whether or not
anything is stored. Storing what came is done beside that, and trouble with it ends nothing. The size and time of a few
files say whether something changed.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.ask.costs import of_turn, price_table
from backstory.conversation.compact import compact_event
from backstory.derive.index_text import char_len
from backstory.derive.pricing import Cost
from backstory.errors import BackstoryError, HomeIsMoving, StoreReadOnly
from backstory.ingest.databases import ROWS_OF
from backstory.ingest.tail import GONE, REPLACED, LogTail
from backstory.model import Error
from backstory.runs.live import LiveRun, live_run, spooled_runs
from backstory.runs.spool import RUNNING, SPOOLS
from backstory.store.moves import refuse_if_moved
from backstory.store.tables import turns as stored_turns
from backstory.store.tables.logs import FILE
from backstory.workspace.history.entries import OutlineEntry, SessionEntry, event_as_json, live_event_as_json
from backstory.workspace.history.transcript import ListedTurn
from backstory.workspace.place import written

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Sequence

    from backstory.ingest.tail import Growth
    from backstory.model import Event, Turn
    from backstory.store import Log
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.stores.importing import Machine
    from backstory.workspace.workspace import Workspace

WAIT_S = 0.2
"""The interval at which a log, a run and the store are asked for changes."""
STORE_REST = 10
"""The rest after a storing, as a multiple of the time that it took. New records are stored at once."""
CHANGES = {
    REPLACED: "The log was replaced by another one. What was shown stays; what is new in it follows.",
    GONE: "The log was deleted. What was shown stays; it is followed again if it comes back.",
}


class FollowedEvent(Struct, frozen=True, kw_only=True):
    """An event in full, as it came. ``seq`` and ``part`` are None for one of a run, which has no number yet."""

    turn: int | None
    """Its turn's number, from 1; None before the first."""
    event: Event
    seq: int | None = None
    part: int = 0
    at: int | None = None


class Grown(Struct, frozen=True, kw_only=True):
    """The records since the last of these; the remark is about those before it."""

    turns: tuple[ListedTurn, ...] = ()
    """Turns that began, or of which more is known."""
    events: tuple[FollowedEvent, ...] = ()
    writing: str = ""
    """The answer that an agent is writing behind these events, from its beginning. Its event comes when it is whole."""
    ended: tuple[ListedTurn, ...] = ()
    """Turns whose end is known now."""
    remark: str = ""


def following_as_json(each: FollowedEvent, *, full: bool) -> dict[str, Any]:
    """An event as ``show --follow --json`` prints it; the fields are those of ``show --json``."""
    if each.seq is None:
        return live_event_as_json(each.event, each.turn or 0, full=full)
    outline = OutlineEntry(
        seq=each.seq, part=each.part, kind=each.event.kind, turn=each.turn, at=each.at, chars=char_len(each.event)
    )
    return event_as_json(SessionEntry(outline=outline, event=each.event if full else compact_event(each.event)))


class Following:
    """A session followed from now on. ``machine``: where logs are; without one nothing is stored.

    Made before what is stored is shown, so that nothing falls between the two. ``report`` receives, once, why
    something is not stored.
    """

    def __init__(
        self, workspace: Workspace, located: LocatedSession, *, machine: Machine | None = None,
        report: Callable[[str], None] = lambda _: None, wait: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._located, self._store, self._wait = located, located.store, wait
        self._home, self._turns = workspace.home, _Turns(located)
        log = _growing_log(located)
        self._tail = None if log is None else LogTail(self._store, located.session, log)
        self._runs = _Runs(workspace.home / SPOOLS, located, self._turns, report)
        may_store = machine is not None and log is not None and self._store is workspace.machine_store
        self._storing = _Storing(workspace, machine, log.path, report) if machine and log and may_store else None

    @property
    def path(self) -> Path | None:
        """The log that is followed; None if only runs are."""
        return None if self._tail is None else self._tail.path

    @property
    def is_storing(self) -> bool:
        """True if what comes is stored, too."""
        return self._storing is not None

    @property
    def is_due(self) -> bool:
        """True if something that came is still to be stored."""
        return self._storing is not None and self._storing.is_due

    def grown(self, shown_to: int, shown_turns: Collection[str]) -> Generator[Grown]:
        """Yield new records until stopped; the stored records up to ``shown_to``, and these turns, came before.

        Between two looks nothing is open, so the home may be moved meanwhile. Raises HomeWasMoved then.
        """
        self._runs.pass_over(shown_turns)
        if self._tail is not None:
            self._tail.shown_to = shown_to
        try:
            while True:
                has_more = False
                # Who waits may have read it. A store that is gone would be read on through what is open.
                self._store.close()
                if not self._is_moving():
                    has_more = yield from self._look()
                self._store.close()
                if not has_more:
                    self._wait(WAIT_S)
        finally:
            self._runs.close()
            self._store.close()

    def _is_moving(self) -> bool:
        """Return True while the home is being moved. Raises HomeWasMoved."""
        try:
            refuse_if_moved(self._home)
        except HomeIsMoving:
            return True
        return False

    def _look(self) -> Generator[Grown, None, bool]:
        """Yield what came since the last look; returns True if there is more."""
        has_more = False
        try:
            if self._tail is None:
                yield from self._runs.grown()
            elif (growth := self._tail.look()) is not None:
                has_more = growth.has_more
                yield self._of_log(growth)
            if self._storing is not None:
                self._storing.store_if_due()
        except BackstoryError:
            # A home that was moved during the look is missed first as a store that is not there.
            if self._is_moving():
                return True
            raise
        return has_more

    def _of_log(self, growth: Growth) -> Grown:
        """Return the new records of the log, and note that they are to be stored."""
        turns, ended = self._turns.touched(growth.turns)
        events = tuple(
            FollowedEvent(turn=self._turns.number(found.turn_uid), event=event, seq=seq, part=part, at=found.at)
            for seq, found in growth.records
            for part, event in found.events
        )
        if self._storing is not None and growth.change != GONE:
            self._storing.is_due = True
        return Grown(turns=turns, events=events, ended=ended, remark=CHANGES.get(growth.change or "", ""))


def _growing_log(located: LocatedSession) -> Log | None:
    """The log in which an agent continues a session: the last written of those that are files; None if none is."""
    session = located.session
    if session.is_own:
        return None
    # What was read of a database, or of another log's reports, is no file.
    files = (log for log in located.store.logs(session) if log.kind == FILE and ROWS_OF not in Path(log.path).name)
    logs = [log for log in files if not log.path.endswith(".zst")]
    there = [log for log in logs if Path(log.path).is_file()]
    return max(there or logs, key=lambda log: (log.modified or 0, log.id), default=None)


class _Turns:
    """The turns of a session, numbered as ``show`` does."""

    def __init__(self, located: LocatedSession) -> None:
        self._located = located
        self._outcomes = located.store.ask(stored_turns.outcomes, located.session.id)
        self._numbers = {uid: number for number, uid in enumerate(self._outcomes, 1)}
        self._prices = price_table(located.store.prices_file)

    def number(self, uid: str | None) -> int | None:
        """A turn's number; a new one gets the next."""
        return None if uid is None else self._numbers.setdefault(uid, len(self._numbers) + 1)

    def listed(self, turn: Turn, *, live: str | None = None, pid: int | None = None) -> ListedTurn:
        """A turn with its number and its cost so far."""
        cost: Cost = of_turn(turn, self._prices)
        return ListedTurn(number=self.number(turn.uid) or 0, turn=turn, cost=cost, live=live, pid=pid)

    def touched(self, turns: Sequence[Turn]) -> tuple[tuple[ListedTurn, ...], tuple[ListedTurn, ...]]:
        """Turns that changed, and those of them whose end was not known before."""
        listed = tuple(map(self.listed, turns))
        ended = tuple(each for each in listed if each.turn.outcome is not None and self._is_news(each.turn))
        return listed, ended

    def _is_news(self, turn: Turn) -> bool:
        before = self._outcomes.get(turn.uid)
        self._outcomes[turn.uid] = turn.outcome
        return before != turn.outcome


class _Runs:
    """The runs of a session, each as it goes on; one that was stored between two looks is taken from the store."""

    def __init__(self, spools: Path, located: LocatedSession, turns: _Turns, report: Callable[[str], None]) -> None:
        self._spools, self._located, self._turns, self._report = spools, located, turns, report
        self._live: dict[str, LiveRun] = {}
        self._shown: dict[str, list[Event]] = {}
        """The errors that were shown of each run that is not known to be stored."""
        self._asked_only = set[str]()
        """Runs of which nothing but the prompt was shown: their spools were gone before the next look."""
        stored = located.store.ask(stored_turns.outcomes, located.session.id)
        going = spooled_runs(spools, located.session.uid)
        self._done = {uid for uid, outcome in stored.items() if uid not in going or outcome is not None}
        self._stamp: object = self._store_stamp()

    def pass_over(self, uids: Collection[str]) -> None:
        """Take these turns for shown."""
        self._done |= set(uids)

    def close(self) -> None:
        """Let go of their files."""
        for each in self._live.values():
            each.close()

    def grown(self) -> Iterator[Grown]:
        """Yield the new records of runs since the last call."""
        for uid, (spool, run) in spooled_runs(self._spools, self._located.session.uid).items():
            if uid in self._done or uid in self._shown:
                continue
            if (live := live_run(spool, run, self._located.store.now(), self._report)) is not None:
                self._live[uid] = live
            self._shown[uid] = []
        for uid, live in list(self._live.items()):
            yield from self._new_of(uid, live)
        stamp = self._store_stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            yield from self._stored()

    def _new_of(self, uid: str, live: LiveRun) -> Iterator[Grown]:
        number, is_first = self._turns.number(uid), not live.is_begun
        written = live.writing
        new = live.new()
        if new or live.writing != written:
            turns = (self._turns.listed(live.turn, live=RUNNING, pid=live.pid),) if is_first else ()
            self._shown[uid] += [compact_event(each) for each in new if isinstance(each, Error)]
            events = tuple(FollowedEvent(turn=number, event=each) for each in new)
            yield Grown(turns=turns, events=events, writing=live.writing)
        if live.is_over:
            del self._live[uid]
            if not live.has_output:
                self._asked_only.add(uid)
            # Its end is what the store says of it.
            self._stamp = None

    def _store_stamp(self) -> object:
        """Return a value that changes when the store is written."""
        path = self._located.store.path
        return tuple(written(each) for each in (path, path.with_name(f"{path.name}-wal")))

    def _stored(self) -> Iterator[Grown]:
        """The runs that the store has by now, as far as they were not shown."""
        store, session = self._located.store, self._located.session
        for turn in store.turns(session):
            if turn.uid in self._done or turn.uid in self._live or turn.outcome is None:
                continue
            self._done.add(turn.uid)
            shown = self._shown.pop(turn.uid, None)
            is_asked_only = turn.uid in self._asked_only
            turns, ended = self._turns.touched([turn])
            number = turns[0].number
            events = tuple(
                FollowedEvent(turn=number, event=each.event, seq=each.seq, part=each.part, at=each.at)
                for each in store.events(session, after=(turn.first_seq, -1))
                if each.seq <= turn.last_seq
                and (each.seq > turn.first_seq if is_asked_only else shown is None or _is_news(each.event, shown))
            )
            yield Grown(turns=turns, events=events, ended=ended)


def _is_news(event: Event, shown: Sequence[Event]) -> bool:
    """Return True if a stored event of a run is an error that its output did not have."""
    return isinstance(event, Error) and event not in shown


class _Storing:
    """Stores one log as it grows, like ``ingest --watch``, but for this log alone."""

    def __init__(self, workspace: Workspace, machine: Machine, path: str, report: Callable[[str], None]) -> None:
        from backstory.ingest.watch import Spot
        from backstory.workspace.stores.up_to_date import chosen_agents

        self._workspace, self._path, self._report = workspace, path, report
        agents = chosen_agents(workspace.config, machine.only)
        self._spots = [
            Spot(agent, place) for agent in agents for place in agent.log.roots(workspace.environ, machine.user_home)
        ]
        self.is_due = False
        self._next_at = 0.0
        self._said = ""

    def store_if_due(self) -> None:
        """Store what came, unless that was done a moment ago."""
        began = time.monotonic()
        if not self.is_due or began < self._next_at:
            return
        try:
            self._store()
            self.is_due, self._said = False, ""
        except StoreReadOnly:
            self._spots, self.is_due = [], False
        except (BackstoryError, OSError) as refused:
            self._say(f"{refused} It is shown all the same, and stored later.")
        took = time.monotonic() - began
        self._next_at = began + took + STORE_REST * took

    def _store(self) -> None:
        from backstory.ingest.ingest import ingest_these
        from backstory.ingest.watch import changed

        found, runner = changed([self._path], self._spots), self._workspace.runner
        if not found.logs:
            return
        done = ingest_these(self._workspace.machine_store, found.logs, running=runner.running())
        if done.runs_matched:
            runner.projects.replicate(self._say)
        for each in done.errors:
            self._say(f"Not stored: {each.path}: {each.reason}")

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._report(text)
