"""What a session is told is run one prompt after the other: what was typed, then what waits in its queue."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from backstory import agents, model
from backstory.cli import output
from backstory.cli.app import now_ms
from backstory.cli.keyboard import quiet_keyboard
from backstory.conversation.tree import Point, get_ancestry
from backstory.derive.pricing import Prices, PriceTable
from backstory.errors import BackstoryError, ConfigBroken, NotQueuedNow, QueueBusy, SessionBusy, SessionElsewhere
from backstory.model import Permissions
from backstory.runs.lease import host, is_held
from backstory.runs.lock import LOCKS, SessionLock
from backstory.runs.queued import leave, still_waiting, texts_for
from backstory.runs.runner import LOCK_S, POLL_S, Request, Runner
from backstory.runs.spool import MARKER, SPOOLS, waiting
from backstory.runs.stopping import INTERRUPT_S
from backstory.runs.stream import Shown, is_installed
from backstory.store import open_store
from backstory.store.costs import of_turn, price_table
from backstory.store.queue import Kind, Options, Queue
from backstory.store.waiting import WaitStopped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.cli.app import App, Found
    from backstory.cli.printing import Printer
    from backstory.derive.pricing import Cost
    from backstory.runs.lease import SessionLease
    from backstory.runs.runner import Finished
    from backstory.runs.spool import Spool
    from backstory.store import Session, Store
    from backstory.store.queue import Text

EXIT_CODES = {model.Outcome.COMPLETED: 0, model.Outcome.CANCELLED: 130}
WAIT_POLL_S = 0.1
TAKE_BACK_S = 3.0
"""Who takes his words back waits for the queue for so long."""
"""So often one who waits for a turn looks whether it has come."""
CANCELLED_S = 30.0
"""So long a runner whose agent was stopped may take to store what it said."""
ALONE = "an agent whose backstory was killed"
"""Who has a session that is run by nobody who could hand words over or run what waits."""
TOLD_COLUMNS = 40
PARTS_MAX = (1 << 31) - 1
"""No record has so many parts."""


def runner_of(app: App) -> Runner:
    """What runs prompts on this machine."""
    return Runner(app.home, app.machine_store, app.environ, now_ms, output.talk)


def usual_agent(app: App, store: Store, session: Session | None, after: Point | None) -> str:
    """The agent of the turn that is followed; for a new session the first one whose program is on this machine."""
    if session is not None:
        after = after or store.leaf(session)
        path = get_ancestry(store.turns(session), after.uid) if after is not None else []
        known = [turn.agent for turn in path if turn.agent in agents.names()]
        if known:
            return known[-1]
    able = [name for name in agents.names() if agents.load(name).run is not None]
    found = (name for name in able if is_installed(name, app.config.settings.program_of(name), app.environ))
    return next(found, able[0])


def request_for(
    app: App, store: Store, session: Session | None, prompt: str, options: Options, turn_uid: str | None = None
) -> Request:
    """A prompt with what is asked for, and where nothing is what the settings and the session's last turn say."""
    after = Point(*options.after) if options.after else None
    agent = options.agent or app.config.settings.run.agent or usual_agent(app, store, session, after)
    return Request(
        agent=agent,
        prompt=prompt,
        cwd=Path(options.cwd) if options.cwd else app.cwd,
        model=options.model,
        permissions=Permissions(options.permissions) if options.permissions else app.config.settings.run.permissions,
        executable=app.config.settings.program_of(agent) or None,
        context_chars=app.config.settings.run.context_chars,
        after=after,
        silence_s=app.config.settings.run.silence_s,
        turn_uid=turn_uid,
    )


class Driver:
    """Runs what one session is told, and shows it."""

    def __init__(self, app: App, runner: Runner, store: Store, session: Session, printer: Printer) -> None:
        self._app, self._runner, self._store, self._session = app, runner, store, session
        self._printer = printer
        self._codes: dict[str, int] = {}
        self._is_stuck = False
        """Whether what waits first could not be run."""
        self._may_wait = False
        """Whether what was to be queued last may be in the queue."""

    @property
    def name(self) -> str:
        """What the session is called in a sentence."""
        return self._session.shown_number or self._session.uid[:12]

    @property
    def holder(self) -> str:
        """Who runs the session, as they wrote it."""
        return SessionLock(self._app.home / LOCKS, self._session.uid).holder

    def run_or_queue(self, request: Request, options: Options, if_busy: str | None, *, as_json: bool) -> int:
        """Run a prompt; in a session that is busy leave it, wait for its turn, stop what runs, or fail."""
        hold, holder = self._hold_for(if_busy)
        if hold is not None:
            try:
                return self.run(hold, request, options)
            except SessionBusy:
                # An agent whose backstory was killed goes on: what is left now waits until it is over.
                if if_busy == "fail":
                    raise
                holder = ALONE
        if if_busy is not None and not self._is_inside():
            return self._queue_and_wait(request.prompt, options)
        left, before = self.leave([(Kind.FOLLOWUP, request.prompt)], options)
        if hold is None:
            hold, holder = self.hold_at_last()
            if hold is not None:
                return self.run_queue(hold, [left[0].uid])
        tell_left(self.name, left, before, holder, as_json=as_json)
        return 0

    def _hold_for(self, if_busy: str | None) -> tuple[SessionLease | None, str]:
        """The right to run the session; None where it is busy and that is no reason to fail, and who has it."""
        if if_busy == "cancel":
            return self._hold_for_cancelled()
        try:
            return self._runner.hold(self._store, self._session, 0.0 if self._is_at_work() else LOCK_S), ""
        except SessionBusy as refused:
            if if_busy == "fail":
                raise
            return None, refused.holder

    def _hold_for_cancelled(self) -> tuple[SessionLease | None, str]:
        """The right to run the session once what runs is stopped, also a run that is only about to begin."""
        deadline = time.monotonic() + CANCELLED_S
        while True:
            stop(running(self._app, self._session.uid))
            try:
                return self._runner.hold(self._store, self._session, WAIT_POLL_S), ""
            except SessionBusy as refused:
                if time.monotonic() > deadline:
                    return None, refused.holder

    def run(self, hold: SessionLease, request: Request, options: Options) -> int:
        """Run a prompt, then what waits; gives the prompt's exit code.

        What waited before goes first, unless the session's last run was stopped or failed: then it waited for this.
        """
        try:
            goes_last = self._goes_last(hold)
        except BackstoryError:
            self._release(hold)
            raise
        if goes_last:
            left, _ = self.leave([(Kind.FOLLOWUP, request.prompt)], options)
            return self.run_queue(hold, [left[0].uid])
        try:
            if turns := self._store.turns(self._session):
                self._printer.begin(self._session, len(turns) + 1, request.agent)
            code = self._run(hold, request)
            if code == 0:
                self._run_waiting(hold)
        finally:
            self._release(hold)
        if code == 0:
            self._catch_late_ones()
        self._tell_left()
        return code

    def run_queue(self, hold: SessionLease, mine: Sequence[str] = ()) -> int:
        """Run what waits; gives the exit code of the last of ``mine`` that was run, else of the last one.

        What is wrong with one of ``mine`` is raised, and they wait no more: who left them is told at once.
        """
        try:
            is_good = self._run_waiting(hold, mine)
        finally:
            self._release(hold)
        if is_good:
            self._catch_late_ones(mine)
        self._tell_left()
        if mine and not self._codes and not self._count_waiting():
            output.talk(f"{self.name}: another process has run it.")
        codes = [self._codes[uid] for uid in mine if uid in self._codes] or list(self._codes.values())
        return codes[-1] if codes else int(self._is_stuck)

    def leave(self, said: Sequence[tuple[Kind, str]], options: Options) -> tuple[list[Text], int]:
        """Leave words in the session's queue; gives them and how many wait before. Raises NotQueuedNow.

        An interrupt takes them out again.
        """
        texts = self._texts(said, options)
        try:
            before = self._add(texts)
            with suppress(BackstoryError), Queue(self._store.path, output.talk) as queue:
                waiting = [text.uid for text in still_waiting(self._app.home, queue, self._session.uid)]
                before = waiting.index(texts[0].uid) if texts[0].uid in waiting else 0
        except KeyboardInterrupt:
            self._take_back(texts)
            raise
        return texts, before

    def _texts(self, said: Sequence[tuple[Kind, str]], options: Options) -> list[Text]:
        meanwhile = self._as_what_runs(options)
        asked = [(kind, text, meanwhile if kind == Kind.STEER else options) for kind, text in said]
        return texts_for(self._session.uid, asked, now_ms())

    def _add(self, texts: Sequence[Text]) -> int:
        self._may_wait = True
        try:
            return leave(self._store, texts, output.talk)
        except WaitStopped:
            self._may_wait = False
            raise
        except QueueBusy as refused:
            from backstory.cli.repeating import command_for

            app = self._app
            commands = [command_for(text, self.name, app.home, app.store_path) for text in texts]
            raise NotQueuedNow(refused, commands) from refused

    def _take_back(self, texts: Sequence[Text]) -> None:
        """Take words out of the queue again; where that cannot be done now, say how it is done."""
        if not self._may_wait:
            return
        try:
            # Who would not wait is not kept waiting.
            with Queue(self._store.path, output.talk, patience_s=TAKE_BACK_S) as queue:
                queue.remove([text.uid for text in texts])
        except BackstoryError as refused:
            drop = " ".join(text.short_id for text in texts)
            output.talk(f"The queue: {refused} To take out what was queued: backstory queue drop {drop}")

    def _as_what_runs(self, options: Options) -> Options:
        """What words for a run ask for, should they become a run of their own: the same as that run."""
        run = next((run for spool in running(self._app, self._session.uid) if (run := spool.run) is not None), None)
        if run is None:
            return options
        return Options(agent=run.agent, model=run.model, permissions=run.permissions, cwd=run.cwd)

    def tell_not_running(self, left: Sequence[Text]) -> None:
        """Say that words for a run are a prompt, where nothing runs."""
        if any(text.kind == Kind.STEER for text in left):
            output.talk(f"{self.name} is not running; the message runs as a prompt.")

    def try_hold(self) -> SessionLease | None:
        """The right to run the session, at once; None when somebody runs it."""
        try:
            return self._runner.hold(self._store, self._session, 0.0)
        except (SessionBusy, SessionElsewhere):
            return None

    def hold_at_last(self) -> tuple[SessionLease | None, str]:
        """The right to run the session when something has been left for it; None where a run goes on, and whose.

        Whoever has it may have looked for the last time before that, or may not be there to run anything.
        """
        try:
            hold = self._runner.hold(self._store, self._session, 0.0 if self._is_at_work() else LOCK_S)
        except SessionBusy as refused:
            return None, refused.holder
        except SessionElsewhere:
            return None, self._owner_told()
        if self._is_at_work():
            hold.release()
            return None, ALONE
        return hold, ""

    def take_late(self, hold: SessionLease, left: Sequence[Text]) -> list[Text]:
        """Take what came too late for a run out of the queue again, and give the session back; returns what it was."""
        uids = {text.uid for text in left}
        try:
            late = [text for text in hold.queue.texts(self._session.uid) if text.uid in uids]
            hold.queue.remove([text.uid for text in late])
        finally:
            self._release(hold)
        return late

    def is_heard(self, holder: str) -> bool:
        """Whether an agent works that takes words up meanwhile, and somebody is there to hand them over."""
        runs = [run for spool in running(self._app, self._session.uid) if (run := spool.run) is not None]
        return bool(holder) and holder != ALONE and all(agents.load(run.agent).steer is not None for run in runs)

    def _owner_told(self) -> str:
        owner = None
        with suppress(QueueBusy), Queue(self._store.path, output.talk) as queue:
            owner = queue.owner(self._session.uid)
        return "another machine" if owner is None else f"process {owner.pid} on {owner.host}"

    def _queue_and_wait(self, prompt: str, options: Options) -> int:
        """Queue a prompt and wait until it has been run, by whoever comes to it; shows it, and gives its exit code.

        An interrupt takes it out of the queue again, whenever it comes.
        """
        (text,) = self._texts([(Kind.FOLLOWUP, prompt)], options)
        try:
            self._add([text])
            return self._wait_for(text)
        except KeyboardInterrupt:
            self._take_back([text])
            raise

    def _wait_for(self, text: Text) -> int:
        while not self._store.has_run(self._session.uid, text.uid):
            is_there = self._waits(text.uid) or self._is_running(text.uid)
            if not is_there and not self._store.has_run(self._session.uid, text.uid):
                output.talk("It was taken out of the queue.")
                return 1
            hold = self.try_hold()
            if hold is not None:
                code = self._run_up_to(hold, text)
                if text.uid in self._codes or self._is_stuck:
                    return code
                if code == EXIT_CODES[model.Outcome.CANCELLED]:
                    raise KeyboardInterrupt
            time.sleep(WAIT_POLL_S)
        return self._show_stored(text)

    def _run_up_to(self, hold: SessionLease, text: Text) -> int:
        """Run what waits, this text at last, unless an agent whose backstory was killed is still at work."""
        try:
            return self.run_queue(hold, [text.uid])
        except SessionBusy:
            return 0

    # one after the other --------------------------------------------------------------------------------------

    def _is_at_work(self) -> bool:
        """Whether a run goes on, so that there is no use in waiting a moment for the session."""
        return bool(running(self._app, self._session.uid))

    def _is_inside(self) -> bool:
        """Whether we are part of what runs: it would wait for us, and we for it."""
        ours = self._app.environ.get(MARKER)
        return any(spool.folder.name == ours for spool in running(self._app, self._session.uid))

    def _goes_last(self, hold: SessionLease) -> bool:
        """Whether something waits that is to be run before what is asked for now."""
        if not self._count_waiting() or self._runner.next_text(hold, self._store, self._session) is None:
            return False
        turns = self._store.turns(self._session)
        return bool(turns) and turns[-1].outcome == model.Outcome.COMPLETED

    def _run_waiting(self, hold: SessionLease, mine: Sequence[str] = ()) -> bool:
        """Run what waits, up to the first that does not end well; whether all did."""
        self._is_stuck = False
        while (text := self._next(hold, mine)) is not None:
            try:
                self._printer.prompt(text)
                request = request_for(self._app, self._store, self._session, text.content, text.options, text.uid)
                code = self._run(hold, request)
            except BackstoryError as refused:
                if text.uid in mine:
                    hold.queue.remove([uid for uid in mine if uid not in self._codes])
                    raise
                self._tell_stuck(text, str(refused))
                return False
            self._codes[text.uid] = code
            if code != 0:
                return False
        return not self._is_stuck

    def _next(self, hold: SessionLease, mine: Sequence[str]) -> Text | None:
        """What is to be run next; nothing for a session that was removed, and nothing that was run here before."""
        try:
            if self._store.is_forgotten(self._session.uid):
                hold.queue.remove([text.uid for text in hold.queue.texts(self._session.uid)])
                return None
            text = self._runner.next_text(hold, self._store, self._session)
        except BackstoryError as refused:
            if mine:
                raise
            self._is_stuck = True
            output.talk(f"The queued prompt could not be run: {refused}")
            return None
        if text is not None and text.uid in self._codes:
            self._tell_stuck(text, "It ran, but could not be removed from the queue.")
            return None
        return text

    def _tell_stuck(self, text: Text, why: str) -> None:
        self._is_stuck = True
        output.talk(
            f'The first queued prompt could not be run: "{output.one_line(text.content, TOLD_COLUMNS)}". {why} To drop '
            f"it: backstory queue drop {text.short_id}"
        )

    def _run(self, hold: SessionLease, request: Request) -> int:
        with quiet_keyboard():
            finished = self._runner.run_held(hold, self._store, self._session, request, self._printer.show)
        self._end(finished, request)
        return EXIT_CODES.get(outcome_of(finished), 1)

    def _cost(self, turn: model.Turn) -> Cost:
        """What a run cost. A file of prices that means nothing does not spoil what was run."""
        if turn.cost_usd is not None:
            return of_turn(turn, PriceTable(Prices()))
        try:
            return of_turn(turn, price_table(self._store.prices_file))
        except ConfigBroken as broken:
            output.talk(str(broken))
            return of_turn(turn, PriceTable(Prices()))

    def _end(self, finished: Finished, request: Request) -> None:
        number = None if finished.waits or finished.moved else self._number_of(finished.turn.uid)
        self._printer.end(self._session, number, finished, request, self._cost(finished.turn))
        if finished.moved is not None:
            output.talk(finished.moved)
        if finished.waits is not None:
            output.talk(
                f"The run is kept, but not stored yet: {finished.waits} The next command of backstory stores it."
            )

    def _number_of(self, uid: str) -> int | None:
        """The number of a turn in its session; None for one that is not there."""
        with suppress(BackstoryError):
            uids = [turn.uid for turn in self._store.turns(self._session)]
            return uids.index(uid) + 1 if uid in uids else None
        return None

    def _release(self, hold: SessionLease) -> None:
        trouble = hold.trouble
        hold.release()
        if trouble is not None:
            output.talk(f"The queue: {trouble}")

    def _catch_late_ones(self, mine: Sequence[str] = ()) -> None:
        """Run what came between the last look and the moment the session was free; its sender took it for busy."""
        while self._count_waiting():
            hold = self.try_hold()
            if hold is None:
                return
            try:
                is_good = self._run_waiting(hold, mine)
            finally:
                self._release(hold)
            if not is_good:
                return

    def _tell_left(self) -> None:
        try:
            with Queue(self._store.path, output.talk) as queue:
                left = len(still_waiting(self._app.home, queue, self._session.uid))
        except BackstoryError:
            # Whoever leaves something, or asks for what waits, is told.
            return
        if left:
            output.talk(still_queued(left, self.name))

    def _count_waiting(self) -> int:
        try:
            with Queue(self._store.path, output.talk) as queue:
                return len(queue.texts(self._session.uid))
        except BackstoryError:
            return 0

    def _waits(self, uid: str) -> bool:
        try:
            with Queue(self._store.path, output.talk) as queue:
                return queue.has(uid)
        except QueueBusy:
            # Nobody takes it out while the queue is locked.
            return True

    def _is_running(self, turn_uid: str) -> bool:
        return any(spool.folder.name == turn_uid for spool in waiting(self._app.home / SPOOLS))

    def _show_stored(self, text: Text) -> int:
        """Show a run that another process has done."""
        turn = next(each for each in self._store.turns(self._session) if each.uid == text.uid)
        tools, error = 0, None
        for stored in self._store.events(self._session, after=(turn.first_seq, PARTS_MAX)):
            if stored.seq > turn.last_seq:
                break
            self._printer.show(Shown([stored.event]))
            tools += isinstance(stored.event, model.ToolCall)
            error = stored.event.message if isinstance(stored.event, model.Error) else error
        outcome = turn.outcome or model.Outcome.CRASHED
        error = error if outcome != model.Outcome.COMPLETED else None
        self._printer.end_elsewhere(self._session, turn, tools, error, self._cost(turn))
        return EXIT_CODES.get(model.Outcome(outcome), 1)


def outcome_of(finished: Finished) -> model.Outcome:
    """How a run ended."""
    return model.Outcome(finished.turn.outcome or model.Outcome.CRASHED)


def running(app: App, session_uid: str) -> list[Spool]:
    """The runs of a session that go on."""
    return [
        spool
        for spool in waiting(app.home / SPOOLS)
        if (run := spool.run) is not None and run.session_uid == session_uid and spool.is_alive
    ]


def stop(spools: Sequence[Spool]) -> None:
    """Ask agents to stop; whoever does not listen is ended with all that it started."""
    for spool in spools:
        was_asked = spool.pid is not None
        spool.cancel()
        deadline = time.monotonic() + INTERRUPT_S
        while spool.is_alive and time.monotonic() < deadline:
            if not was_asked and spool.pid is not None:
                # It was only about to begin.
                spool.interrupt()
                was_asked = True
            time.sleep(POLL_S)
        spool.kill()


def running_soon(app: App, session_uid: str) -> list[Spool]:
    """The same; where somebody has the session for a run that is about to begin, that is waited for."""
    deadline = time.monotonic() + LOCK_S
    while not (found := running(app, session_uid)) and is_held(app.home, session_uid) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return found


def home_of(app: App, found: Found) -> Store:
    """The store that a session is run in: a project's, where it runs now or its own, else where it was found."""
    for spool in running(app, found.session.uid):
        run = spool.run
        if run is not None and Path(run.store) != found.store.path:
            return open_store(run.store, now=now_ms)
    if found.session.number is not None and found.store.path == app.machine_store.path and not app.store_path:
        owning = runner_of(app).projects.store_owning(found.session.uid)
        return owning if owning is not None else found.store
    return found.store


def tell_left(name: str, left: list[Text], before: int, holder: str, *, as_json: bool, is_heard: bool = False) -> None:
    """Print what was queued. ``holder`` runs the session; '' where nobody does.

    ``is_heard``: its agent takes messages while it works.
    """
    for number, text in enumerate(left, before + 1):
        if as_json:
            told = {"kind": "Queued", "session": name, "uid": text.session_uid, "turn": text.uid, "what": text.kind}
            output.json_line({**told, "position": number})
            continue
        what = "Message" if text.kind == Kind.STEER and is_heard else "Follow-up"
        who = f"not running; `backstory queue run {name}` runs it"
        if holder:
            who = "running" if holder.endswith(f" on {host()}") else f"running: {holder}"
        place = f", number {number} in the queue" if number > 1 else ""
        output.talk(f"{what} queued for {name} ({who}){place}.")


def texts(count: int) -> str:
    """A number of queued prompts, in words."""
    return f"{count} queued prompt{'s' * (count != 1)}"


def still_queued(left: int, session: str) -> str:
    """How many prompts are still queued for a session, and what can be done with them."""
    them = "them" if left > 1 else "it"
    return (
        f"{texts(left)} left for {session}: `backstory queue run {session}` runs {them}, "
        f"`backstory queue clear {session}` drops {them}."
    )
