"""The prompts of one session, run one after the other: what was submitted, then what is queued behind it."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
from msgspec import Struct

from backstory import agents, model
from backstory.ask import costs
from backstory.ask.costs import of_turn, price_table
from backstory.bounds import iso
from backstory.conversation.context import CONTINUE_PROMPT
from backstory.conversation.tree import Point
from backstory.derive.pricing import Prices, PriceTable
from backstory.errors import BackstoryError, ConfigBroken, NotQueuedNow, QueueBusy, SessionBusy, SessionElsewhere
from backstory.model import STOPPED_TO_COMPACT, Outcome, UserMessage
from backstory.runs import compactor, stopping
from backstory.runs.lock import LOCK_S, host
from backstory.runs.process import MARKER
from backstory.runs.queued import enqueue, new_prompts, queued_prompts
from backstory.runs.runner import ORPHANED
from backstory.runs.spool import SPOOLS, list_spools
from backstory.runs.stopping import Terminated
from backstory.store.file.waiting import WaitStopped
from backstory.store.tables import runs as stored_runs
from backstory.store.tables import sessions
from backstory.store.tables import turns as stored_turns
from backstory.store.tables.queue import Options, Queue, QueuedKind
from backstory.workspace.runs.mid_turn import MidTurn, begin_if_due, make_room
from backstory.workspace.runs.requests import request_for
from backstory.workspace.runs.run_events import (
    Continued,
    Ended,
    Metered,
    Notice,
    Queued,
    SessionAwaited,
    Shown,
    Started,
    Steered,
    Whole,
)
from backstory.workspace.runs.running import live_meter, measure
from backstory.workspace.runs.unfinished import to_continue

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from backstory.derive.pricing import Cost
    from backstory.model import Turn
    from backstory.runs.lock import SessionLease
    from backstory.runs.runner import Finished, Request
    from backstory.store import Session, Store
    from backstory.store.tables.queue import QueuedPrompt
    from backstory.workspace.place import Place
    from backstory.workspace.runs.run_events import RunEvent

WAIT_POLL_S = 0.1
"""The time between two looks for a prompt that waits for its turn."""
TAKE_BACK_S = 3.0
"""The longest wait for the queue when a person takes a prompt back."""
CANCELLED_S = 30.0
"""The longest wait for a runner, whose agent was stopped, to store its run."""
SUMMARY_CHARS = 40
PARTS_MAX = (1 << 31) - 1
"""No record has so many parts."""

IfBusy: TypeAlias = Literal["queue", "wait", "cancel", "fail"]
"""The fate of a prompt for a session that runs; ``cancel`` stops the present run first."""
Outcomes: TypeAlias = "Generator[RunEvent, None, Outcome | None]"
"""Run events, and then the end of the last turn; None if none was run."""


class ScheduledTurn(Struct, frozen=True, kw_only=True):
    """A turn that hooks are called for, while its session is held: ``finished`` is None before it."""

    store: Store
    session: Session
    request: Request
    finished: Finished | None = None


class Hooks:
    """Functions that are called before and after each turn that runs here."""

    def __init__(self) -> None:
        self.before: list[Callable[[ScheduledTurn], None]] = []
        self.after: list[Callable[[ScheduledTurn], None]] = []


class SessionRuns:
    """Runs and queues the prompts of one session, in the store that it is run in."""

    def __init__(self, place: Place, hooks: Hooks, store: Store, session: Session) -> None:
        self._place, self._hooks, self._store, self._session = place, hooks, store, session
        self._runner, self._home, self._report = place.runner, place.home, place.report
        self._outcomes: dict[str, Outcome] = {}
        """The end of each queued prompt that was run here, by its uid."""
        self._is_stuck = False
        """True if the first queued prompt could not be run."""
        self._may_be_queued = False
        """True if what was to be queued last may be in the queue."""

    @property
    def label(self) -> str:
        """The name of the session in a sentence."""
        return self._session.shown_number or self._session.uid[:12]

    # submitted ------------------------------------------------------------------------------------------------

    def submit(self, request: Request, options: Options, if_busy: IfBusy) -> Iterator[RunEvent]:
        """Run a prompt; where the session is busy queue it, wait for its turn, stop what runs, or fail."""
        lease, holder = self._lease_for(if_busy)
        if lease is not None:
            try:
                yield from self._run_first(lease, request, options)
                return
            except SessionBusy:
                # An agent whose backstory was killed continues: the prompt waits until it is over.
                if if_busy == "fail":
                    raise
                holder = ORPHANED
        if if_busy != "queue" and not self._is_inside():
            yield from self._queue_and_wait(request.prompt, options)
            return
        prompts, before = self.enqueue([(QueuedKind.FOLLOWUP, request.prompt)], options)
        if lease is None:
            lease, holder = self.lease_at_last()
            if lease is not None:
                yield from self.run_queue(lease, [prompts[0].uid])
                return
        yield from self.queued(prompts, before, holder)

    def _lease_for(self, if_busy: IfBusy) -> tuple[SessionLease | None, str]:
        """The right to run the session; None where it is busy and that is no reason to fail, and its holder."""
        if if_busy == "cancel":
            return self._lease_of_cancelled()
        try:
            return self._runner.hold(self._store, self._session, self._patience_s()), ""
        except SessionBusy as refused:
            if if_busy == "fail":
                raise
            return None, refused.holder

    def _lease_of_cancelled(self) -> tuple[SessionLease | None, str]:
        """The right to run the session once what runs is stopped, also a run that is only about to begin."""
        deadline = time.monotonic() + CANCELLED_S
        while True:
            stopping.stop(stopping.running(self._home, self._session.uid))
            try:
                return self._runner.hold(self._store, self._session, WAIT_POLL_S), ""
            except SessionBusy as refused:
                if time.monotonic() > deadline:
                    return None, refused.holder

    def _run_first(self, lease: SessionLease, request: Request, options: Options) -> Outcomes:
        """Run a prompt, then what is queued; returns how the prompt ended.

        What was queued before goes first, unless the session's last run was stopped or failed: then it waited for this.
        """
        try:
            goes_last = self._goes_last(lease)
        except BackstoryError:
            self._release(lease)
            raise
        if goes_last:
            prompts, _ = self.enqueue([(QueuedKind.FOLLOWUP, request.prompt)], options)
            return (yield from self.run_queue(lease, [prompts[0].uid]))
        try:
            outcome = yield from self._run(lease, request)
            if outcome == Outcome.COMPLETED:
                yield from self._run_queued(lease)
        finally:
            self._release(lease)
        if outcome == Outcome.COMPLETED:
            yield from self._catch_late_ones()
        yield from self._count_left()
        return outcome

    def _goes_last(self, lease: SessionLease) -> bool:
        """Return True if something is queued that is to be run before what was submitted now."""
        if not self._count_queued() or self._runner.next_prompt(lease, self._store, self._session) is None:
            return False
        turns = self._store.turns(self._session)
        return bool(turns) and turns[-1].outcome == Outcome.COMPLETED

    # queued ---------------------------------------------------------------------------------------------------

    def enqueue(self, messages: Sequence[tuple[QueuedKind, str]], options: Options) -> tuple[list[QueuedPrompt], int]:
        """Queue prompts and messages; returns them, and how many are before them. Raises NotQueuedNow.

        An interrupt takes them out again.
        """
        prompts = self._prompts(messages, options)
        try:
            before = self._add(prompts)
            with suppress(BackstoryError), Queue(self._store.path, self._report) as queue:
                uids = [each.uid for each in queued_prompts(self._home, queue, self._session.uid)]
                before = uids.index(prompts[0].uid) if prompts[0].uid in uids else 0
        except KeyboardInterrupt:
            self._take_back(prompts)
            raise
        return prompts, before

    def _prompts(self, messages: Sequence[tuple[QueuedKind, str]], options: Options) -> list[QueuedPrompt]:
        as_running = self._as_what_runs(options)
        asked = [(kind, text, as_running if kind == QueuedKind.STEER else options) for kind, text in messages]
        return new_prompts(self._session.uid, asked, self._place.now())

    def _add(self, prompts: Sequence[QueuedPrompt]) -> int:
        self._may_be_queued = True
        try:
            return enqueue(self._store, prompts, self._report)
        except WaitStopped:
            self._may_be_queued = False
            raise
        except QueueBusy as refused:
            from backstory.workspace.runs.unsent import command_for

            named = self._place.named
            commands = [command_for(each, self.label, self._home, named) for each in prompts]
            raise NotQueuedNow(refused, commands) from refused

    def _take_back(self, prompts: Sequence[QueuedPrompt]) -> None:
        """Take prompts out of the queue again; where that cannot be done now, report how it is done."""
        if not self._may_be_queued:
            return
        try:
            # Whoever would not wait is not kept waiting.
            with Queue(self._store.path, self._report, patience_s=TAKE_BACK_S) as queue:
                queue.remove([each.uid for each in prompts])
        except BackstoryError as refused:
            drop = " ".join(each.short_id for each in prompts)
            self._report(f"The queue: {refused} To take out what was queued: backstory queue drop {drop}")

    def _as_what_runs(self, options: Options) -> Options:
        """Return the options of a message, should it become a run of its own: those of the run that it is for."""
        spools = stopping.running(self._home, self._session.uid)
        run = next((run for spool in spools if (run := spool.run) is not None), None)
        if run is None:
            return options
        return Options(agent=run.agent, model=run.model, permissions=run.permissions, cwd=run.cwd)

    def queued(self, prompts: Sequence[QueuedPrompt], before: int, holder: str) -> Iterator[Queued]:
        """Yield the queued prompts, with their places. ``holder`` runs the session; '' if nobody does."""
        is_here = holder.endswith(f" on {host()}")
        is_heard = self._is_heard(holder)
        for position, prompt in enumerate(prompts, before + 1):
            yield Queued(
                session=self.label,
                prompt=prompt,
                position=position,
                is_running=bool(holder),
                holder="" if is_here else holder,
                is_heard=is_heard,
            )

    def _is_heard(self, holder: str) -> bool:
        """Return True if an agent works that takes messages meanwhile, and a runner is there to hand them over."""
        spools = stopping.running(self._home, self._session.uid)
        runs = [run for spool in spools if (run := spool.run) is not None]
        return holder not in ("", ORPHANED) and all(agents.load(run.agent).steer is not None for run in runs)

    def are_queued(self, lease: SessionLease, prompts: Sequence[QueuedPrompt]) -> bool:
        """Return True if some of them are still queued."""
        uids = {each.uid for each in prompts}
        return any(each.uid in uids for each in lease.queue.prompts(self._session.uid))

    def take_late(self, lease: SessionLease, prompts: Sequence[QueuedPrompt]) -> list[QueuedPrompt]:
        """Take what came too late for a run out of the queue again, and release the session; returns what it was."""
        uids = {each.uid for each in prompts}
        try:
            late = [each for each in lease.queue.prompts(self._session.uid) if each.uid in uids]
            lease.queue.remove([each.uid for each in late])
        finally:
            self._release(lease)
        return late

    # leases ---------------------------------------------------------------------------------------------------

    def _try_lease(self) -> SessionLease | None:
        """The right to run the session, at once; None when somebody runs it."""
        try:
            return self._runner.hold(self._store, self._session, 0.0)
        except (SessionBusy, SessionElsewhere):
            return None

    def lease_at_last(self) -> tuple[SessionLease | None, str]:
        """The right to run the session when something was queued for it; None where it runs, and its holder.

        The holder may have looked for the last time before that, or may not be there to run anything.
        """
        try:
            lease = self._runner.hold(self._store, self._session, self._patience_s())
        except SessionBusy as refused:
            return None, refused.holder
        except SessionElsewhere:
            return None, self._owner_elsewhere()
        if self._is_at_work():
            lease.release()
            return None, ORPHANED
        return lease, ""

    def _patience_s(self) -> float:
        """Return the longest wait for the session: none while an agent works, since that will not end soon."""
        return 0.0 if self._is_at_work() else LOCK_S

    def _owner_elsewhere(self) -> str:
        owner = None
        with suppress(QueueBusy), Queue(self._store.path, self._report) as queue:
            owner = queue.owner(self._session.uid)
        return "another machine" if owner is None else f"process {owner.pid} on {owner.host}"

    def _release(self, lease: SessionLease) -> None:
        trouble = lease.trouble
        lease.release()
        if trouble is not None:
            self._report(f"The queue: {trouble}")

    def _is_at_work(self) -> bool:
        return bool(stopping.running(self._home, self._session.uid))

    def _is_inside(self) -> bool:
        """Return True if we are part of what runs: it would wait for us, and we for it."""
        ours = self._place.environ.get(MARKER)
        return any(spool.folder.name == ours for spool in stopping.running(self._home, self._session.uid))

    # waiting --------------------------------------------------------------------------------------------------

    def _queue_and_wait(self, text: str, options: Options) -> Iterator[RunEvent]:
        """Queue a prompt and wait until it was run, here or by another process.

        An interrupt takes it out of the queue again, whenever it comes.
        """
        (prompt,) = self._prompts([(QueuedKind.FOLLOWUP, text)], options)
        try:
            self._add([prompt])
            yield from self._wait_for(prompt)
        except KeyboardInterrupt:
            self._take_back([prompt])
            raise

    def _wait_for(self, prompt: QueuedPrompt) -> Iterator[RunEvent]:
        while not self._store.ask_or(False, stored_runs.has_ended, self._session.uid, prompt.uid):
            is_there = self._is_queued(prompt.uid) or self._is_running(prompt.uid)
            if not is_there and not self._store.ask_or(False, stored_runs.has_ended, self._session.uid, prompt.uid):
                yield Notice("It was taken out of the queue.", is_failure=True)
                return
            lease = self._try_lease()
            if lease is not None:
                outcome = yield from self._run_up_to(lease, prompt)
                if prompt.uid in self._outcomes or self._is_stuck:
                    return
                if outcome == Outcome.CANCELLED:
                    raise KeyboardInterrupt
            yield SessionAwaited(session=self.label, prompt=prompt)
            time.sleep(WAIT_POLL_S)
        yield from self._show_stored(prompt)

    def _run_up_to(self, lease: SessionLease, prompt: QueuedPrompt) -> Outcomes:
        """Run what is queued, this prompt last, unless an agent whose backstory was killed is still at work."""
        try:
            return (yield from self.run_queue(lease, [prompt.uid]))
        except SessionBusy:
            return None

    def _is_queued(self, uid: str) -> bool:
        try:
            with Queue(self._store.path, self._report) as queue:
                return queue.has(uid)
        except QueueBusy:
            # Nobody takes it out while the queue is locked.
            return True

    def _is_running(self, turn_uid: str) -> bool:
        return any(spool.folder.name == turn_uid for spool in list_spools(self._home / SPOOLS))

    def _show_stored(self, prompt: QueuedPrompt) -> Iterator[RunEvent]:
        """A turn that another process has run."""
        turn = next(each for each in self._store.turns(self._session) if each.uid == prompt.uid)
        tools, error = 0, None
        for stored in self._store.events(self._session, after=(turn.first_seq, PARTS_MAX)):
            if stored.seq > turn.last_seq:
                break
            yield Shown([stored.event])
            tools += isinstance(stored.event, model.ToolCall)
            error = stored.event.message if isinstance(stored.event, model.Error) else error
        error = None if turn.outcome == Outcome.COMPLETED else error
        cost = self._cost(turn)
        yield Ended(
            session=self._session, turn=turn, number=None, tools=tools, error=error, cost=cost, is_asked=True,
            was_elsewhere=True,
        )  # fmt: skip

    # one after the other --------------------------------------------------------------------------------------

    def run_queue(self, lease: SessionLease, asked: Sequence[str] = ()) -> Outcomes:
        """Run what is queued; returns how the last of ``asked`` ended, else the last one.

        What is wrong with one of ``asked`` is raised, and they are queued no more: who queued them learns it at once.
        """
        try:
            are_good = yield from self._run_queued(lease, asked)
        finally:
            self._release(lease)
        if are_good:
            yield from self._catch_late_ones(asked)
        yield from self._count_left()
        if asked and not self._outcomes and not self._count_queued():
            yield Notice(f"{self.label}: another process has run it.")
        ended = [self._outcomes[uid] for uid in asked if uid in self._outcomes] or list(self._outcomes.values())
        return ended[-1] if ended else None

    def _run_queued(self, lease: SessionLease, asked: Sequence[str] = ()) -> Generator[RunEvent, None, bool]:
        """Run what is queued, up to the first that does not end well; returns whether all did."""
        self._is_stuck = False
        while (prompt := (yield from self._next(lease, asked))) is not None:
            try:
                request = request_for(
                    self._place, self._store, self._session, prompt.content, self._options(prompt), prompt.uid
                )
                outcome = yield from self._run(lease, request, prompt, is_asked=prompt.uid in asked)
            except BackstoryError as refused:
                if prompt.uid in asked:
                    lease.queue.remove([uid for uid in asked if uid not in self._outcomes])
                    raise
                yield self._stuck(prompt, str(refused))
                return False
            self._outcomes[prompt.uid] = outcome
            if outcome != Outcome.COMPLETED:
                return False
        return not self._is_stuck

    def _options(self, prompt: QueuedPrompt) -> Options:
        """Return the options of a queued prompt; its folder may have been moved since it was queued."""
        folder = prompt.options.cwd
        if folder is None:
            return prompt.options
        return msgspec.structs.replace(prompt.options, cwd=self._store.moves.here(folder, iso(prompt.queued)))

    def _next(self, lease: SessionLease, asked: Sequence[str]) -> Generator[RunEvent, None, QueuedPrompt | None]:
        """Take the next prompt; None for a session that was removed, and for a prompt that was run here before."""
        try:
            if self._store.ask_or(False, sessions.is_forgotten, self._session.uid):
                lease.queue.remove([each.uid for each in lease.queue.prompts(self._session.uid)])
                return None
            prompt = self._runner.next_prompt(lease, self._store, self._session)
        except BackstoryError as refused:
            if asked:
                raise
            self._is_stuck = True
            yield Notice(f"The queued prompt could not be run: {refused}", is_failure=True)
            return None
        if prompt is not None and prompt.uid in self._outcomes:
            yield self._stuck(prompt, "It ran, but could not be removed from the queue.")
            return None
        return prompt

    def _stuck(self, prompt: QueuedPrompt, why: str) -> Notice:
        self._is_stuck = True
        text = " ".join(prompt.content.split())
        summary = text if len(text) <= SUMMARY_CHARS else f"{text[: SUMMARY_CHARS - 1]}…"
        return Notice(
            f'The first queued prompt could not be run: "{summary}". {why} To drop it: backstory queue drop '
            f"{prompt.short_id}",
            is_failure=True,
        )

    def _run(
        self, lease: SessionLease, request: Request, prompt: QueuedPrompt | None = None, *, is_asked: bool = True
    ) -> Generator[RunEvent, None, Outcome]:
        number = self._store.ask(stored_turns.count, self._session.id) + 1
        yield Started(
            session=self._session, number=number, agent=request.agent, prompt=prompt, offered=request.offer.names
        )
        turn = ScheduledTurn(store=self._store, session=self._session, request=request)
        for before in self._hooks.before:
            before(turn)
        yield from make_room(self._place, self._store, self._session, request)
        # What a person asks for goes before what was to be continued.
        compactor.forget_stopped(self._home, self._session.uid)
        finished = yield from self._followed(lease, request, is_watched=True)
        if finished.turn.stop_reason == STOPPED_TO_COMPACT and not (finished.waits or finished.moved):
            try:
                is_done = yield from self._summarised(finished.turn)
            except Terminated:
                # The next command continues it.
                raise
            except KeyboardInterrupt:
                is_done = None
            if is_done is False:
                # A prompt that a person queued goes before continuing: it is what is to be done now.
                compactor.forget_stopped(self._home, self._session.uid)
                return Outcome.COMPLETED
            if is_done:
                request, finished = yield from self._continued(lease, request, finished.turn)
            compactor.forget_stopped(self._home, self._session.uid)
        return (yield from self._over(request, finished, is_asked=is_asked))

    def _over(self, request: Request, finished: Finished, *, is_asked: bool) -> Generator[RunEvent, None, Outcome]:
        """Say how a run ended, and begin what is due behind it."""
        turn = ScheduledTurn(store=self._store, session=self._session, request=request, finished=finished)
        for after in self._hooks.after:
            after(turn)
        yield self._ended(finished, request, is_asked=is_asked)
        if finished.moved is not None:
            yield Notice(finished.moved)
        if finished.waits is not None:
            yield Notice(
                f"The run is kept, but not stored yet: {finished.waits} The next command of backstory stores it."
            )
        yield from begin_if_due(self._place, self._store, self._session, request, finished)
        return Outcome(finished.turn.outcome or Outcome.CRASHED)

    # stopped for a summary ------------------------------------------------------------------------------------

    def continue_stopped(self) -> Outcomes:
        """Continue the turn that was stopped for a summary, where its runner was killed before that."""
        stopped = compactor.stopped_of(self._home, self._session.uid)
        lease = self._try_lease() if stopped is not None else None
        if stopped is None or lease is None:
            return None
        try:
            turn = to_continue(self._home, self._store, stopped)
            if turn is None:
                return None
            # What an agent is told to go on with is no prompt that notes could fit.
            options = msgspec.structs.replace(stopped.options, no_board=True)
            request = request_for(self._place, self._store, self._session, CONTINUE_PROMPT, options)
            if (yield from self._summarised(turn, only_if_due=True)):
                request, finished = yield from self._continued(lease, request, turn)
                yield from self._over(request, finished, is_asked=True)
            yield from self._run_queued(lease)
        except BackstoryError as refused:
            compactor.note_trouble(self._home, self._session.uid, f"A stopped turn was not continued: {refused}")
        finally:
            compactor.forget_stopped(self._home, self._session.uid)
            self._release(lease)
        return None

    def _summarised(self, stopped: Turn, *, only_if_due: bool = False) -> Generator[RunEvent, None, bool]:
        """Summarise what came before a turn that was stopped for it; returns whether its agent is to continue.

        It is not where a person has queued a prompt meanwhile, or steered the turn too late. A followup that was queued
        before waits until the turn is done. ``only_if_due``: the summary may be there already.
        """
        from backstory.workspace.runs.compacting import Compactor

        followups = self._queued(QueuedKind.FOLLOWUP)
        # Also where a person checked something else out meanwhile.
        own = Compactor(self._place, self._store, self._session, Point(stopped.uid, stopped.last_seq))
        try:
            plan = own.plan()
            if plan.is_due or not only_if_due:
                yield from own.compact(plan)
        except BackstoryError as refused:
            yield Notice(str(refused))
        return not self._queued() - followups

    def _continued(
        self, lease: SessionLease, request: Request, stopped: Turn
    ) -> Generator[RunEvent, None, tuple[Request, Finished]]:
        """Make the agent continue a turn that was stopped for a summary."""
        yield Continued(session=self._session, stopped=stopped)
        noted, end = compactor.stopped_of(self._home, self._session.uid), Point(stopped.uid, stopped.last_seq)
        again = msgspec.structs.replace(
            request,
            prompt=CONTINUE_PROMPT,
            turn_uid=None if noted is None else noted.next_uid,
            native_id=None,
            after=None if self._store.leaf(self._session) == end else end,
        )
        return again, (yield from self._followed(lease, again, is_watched=False))

    def _followed(
        self, lease: SessionLease, request: Request, *, is_watched: bool
    ) -> Generator[RunEvent, None, Finished]:
        """A run as it comes, also where nobody follows it to its end: then it is left to its agent.

        ``is_watched``: it may be stopped for a summary. What continues such a turn is not stopped again.
        """
        watch = MidTurn(self._place, self._store, self._session, request) if is_watched else None
        live = live_meter(self._place, self._store, self._session, request.agent, request.model, request.prompt)
        with closing(self._runner.run_held(lease, self._store, self._session, request)) as run:
            while True:
                try:
                    came = next(run)
                except StopIteration as over:
                    finished: Finished = over.value
                    return finished
                yield Steered(message=came) if isinstance(came, UserMessage) else came
                meter = live.add(came.events, came.delta) if live is not None and isinstance(came, Shown) else None
                if meter is not None:
                    yield Metered(session=self._session, meter=meter)
                if watch is not None and isinstance(came, Shown):
                    watch.look(came.events)
                    if watch.why_not:
                        yield Notice(watch.why_not)
                        watch = None

    def _ended(self, finished: Finished, request: Request, *, is_asked: bool) -> Ended:
        turn, is_here = finished.turn, not (finished.waits or finished.moved)
        meter = measure(self._place, self._store, self._session) if is_here else None
        return Ended(
            session=self._session,
            turn=turn,
            number=self._number_of(turn.uid) if is_here else None,
            tools=finished.tools,
            error=finished.error,
            cost=self._cost(turn),
            is_asked=is_asked,
            refused=tuple(finished.refused),
            permissions=request.permissions,
            context_chars=finished.context_chars,
            context_max=request.context_chars,
            offered=request.offer.names,
            meter=meter,
            whole=self._whole() if is_here else None,
        )

    def _whole(self) -> Whole | None:
        """Return the sums of the session to this moment, with all of its turns and subagents."""
        with suppress(BackstoryError):
            session = self._store.session(self._session.id)
            cost = self._store.ask(costs.by_session, costs.price_table(self._store.prices_file), [session.id])[
                session.id
            ]
            return Whole(turns=session.turns, duration_ms=session.duration_ms, cost=cost)
        return None

    def _cost(self, turn: model.Turn) -> Cost:
        """Return the cost of a run. A file of prices that cannot be read does not spoil the run."""
        if turn.cost_usd is not None:
            return of_turn(turn, PriceTable(Prices()))
        try:
            return of_turn(turn, price_table(self._store.prices_file))
        except ConfigBroken as broken:
            self._report(str(broken))
            return of_turn(turn, PriceTable(Prices()))

    def _number_of(self, uid: str) -> int | None:
        """The number of a turn in its session; None for one that is not there."""
        with suppress(BackstoryError):
            uids = [turn.uid for turn in self._store.turns(self._session)]
            return uids.index(uid) + 1 if uid in uids else None
        return None

    def _catch_late_ones(self, asked: Sequence[str] = ()) -> Iterator[RunEvent]:
        """Run what came between the last look and the release of the session; its sender took it for busy."""
        while self._count_queued():
            lease = self._try_lease()
            if lease is None:
                return
            try:
                are_good = yield from self._run_queued(lease, asked)
            finally:
                self._release(lease)
            if not are_good:
                return

    def _count_left(self) -> Iterator[Notice]:
        try:
            with Queue(self._store.path, self._report) as queue:
                left = len(queued_prompts(self._home, queue, self._session.uid))
        except BackstoryError:
            # Whoever queues something, or asks for the queue, gets the error.
            return
        if left:
            yield Notice(still_queued(left, self.label))

    def _queued(self, kind: QueuedKind | None = None) -> set[str]:
        """The uids of the prompts that are queued; ``kind``: of those alone."""
        try:
            with Queue(self._store.path, self._report) as queue:
                return {each.uid for each in queue.prompts(self._session.uid) if kind in (None, each.kind)}
        except BackstoryError:
            return set()

    def _count_queued(self) -> int:
        try:
            with Queue(self._store.path, self._report) as queue:
                return len(queue.prompts(self._session.uid))
        except BackstoryError:
            return 0


def still_queued(left: int, session: str) -> str:
    """Say the number of prompts still queued for a session, and what can be done with them."""
    them = "them" if left > 1 else "it"
    return (
        f"{left} queued prompt{'s' * (left != 1)} left for {session}: `backstory queue run {session}` runs {them}, "
        f"`backstory queue clear {session}` drops {them}."
    )
