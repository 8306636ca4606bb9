"""Run agents, queue prompts, send messages and stop runs: the rules, for every face.

>>> from contextlib import closing                                             # doctest: +SKIP
>>> with closing(workspace.scheduler.submit(Destination(), "Fix it")) as events:   # doctest: +SKIP
...     for event in events:
...         draw(event)

What runs is an iterator of ``RunEvent``; nothing happens before the first is asked for. Closing it stops nothing: the
agent continues, and the next command stores its run. An interrupt (``events.throw(KeyboardInterrupt())``) takes back
what is queued and waits. Ctrl-C stops the agent where the iterator is used in the main thread; ``cancel`` stops it from
anywhere. A ``Workspace`` and its scheduler belong to one thread; another thread has its own.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory.errors import BackstoryError, NothingRuns, NotRunning, SessionBusy
from backstory.runs import compactor, stopping
from backstory.runs.lock import LOCKS, SessionLock
from backstory.runs.queued import queued_prompts
from backstory.runs.runner import ORPHANED, check_text
from backstory.runs.stream import chosen_id
from backstory.store.tables.queue import Options, Queue, QueuedKind
from backstory.workspace.located import LocatedSession
from backstory.workspace.runs.requests import request_for
from backstory.workspace.runs.run_events import Notice, SessionAwaited
from backstory.workspace.runs.running import count_context, is_running, note_at_end
from backstory.workspace.runs.session_runs import WAIT_POLL_S, Hooks, IfBusy, ScheduledTurn, SessionRuns
from backstory.workspace.runs.writable import (
    ensure_writable_session,
    held_sentences,
    prepare_store,
    restored_sentence,
    store_of,
    workplace,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from backstory.conversation.tree import Point
    from backstory.runs.lock import SessionLease
    from backstory.store import Session, Store
    from backstory.store.tables.queue import QueuedPrompt
    from backstory.workspace.place import Place
    from backstory.workspace.runs.prompt_queue import PromptQueue
    from backstory.workspace.runs.run_events import RunEvent
    from backstory.workspace.runs.running import ListedRun

__all__ = ["CancelledRun", "Destination", "IfBusy", "IfIdle", "Options", "QueuedKind", "ScheduledTurn", "Scheduler"]


class IfIdle(StrEnum):
    """The choice whether a message or a follow-up may start a run if its session is not running."""

    ASK = "ask"
    RUN = "run"
    NOTHING = "nothing"


class Destination(Struct, frozen=True, kw_only=True):
    """The session that a prompt is for. Without anything: the one last active here, else a new one."""

    located: LocatedSession | None = None
    point: Point | None = None
    """The record of ``located`` that the prompt follows."""
    name: str | None = None
    """The session of this name; it is begun if there is none."""
    is_new: bool = False


class CancelledRun(Struct, frozen=True, kw_only=True):
    """The result of stopping a session's run."""

    was_running: bool
    was_summarising: bool = False
    """True if nothing ran, and a summary of the session was being made."""
    dropped: int
    left: int
    """The number of prompts still queued."""
    trouble: str = ""
    """The reason why the queue could not be read."""


class Scheduler:
    """Runs the prompts of one person's place. ``before_turn`` and ``after_turn``: called with each turn that runs here.

    They are called while the session is held, so they may write it. What ``before_turn`` raises keeps the turn from
    being run.
    """

    def __init__(self, place: Place) -> None:
        self.place, self.runner = place, place.runner
        self.runner.at_end = partial(note_at_end, place)
        self._hooks = Hooks()
        self.before_turn, self.after_turn = self._hooks.before, self._hooks.after

    @property
    def queue(self) -> PromptQueue:
        """The queued prompts."""
        from backstory.workspace.runs.prompt_queue import PromptQueue

        return PromptQueue(self.place, self._hooks)

    def runs(self, session_uid: str | None = None) -> list[ListedRun]:
        """Return the runs of this machine, finished runs not stored yet, and queued prompts of this project."""
        from backstory.workspace.runs.run_list import list_runs

        return list_runs(self.place, session_uid)

    def recover(self, *, close_orphans: bool = False) -> list[str]:
        """Store finished runs whose runner died; returns sentences about those that could not be stored.

        ``close_orphans``: also close what a crash left in the project's store.
        """
        problems: list[str] = []
        self.runner.recover_finished_runs(problems.append, partial(count_context, self.place))
        if close_orphans:
            self.runner.cleanup_orphans(self.place.project_store, problems.append)
        return problems

    def take_up_unfinished(self, besides: str = "") -> list[str]:
        """Begin what a killed command left undone by itself, in the background; returns sentences about it.

        ``besides``: a session that is not to be continued, because a person has a prompt for it.
        """
        from backstory.workspace.runs.unfinished import take_up_unfinished

        if not (self.place.home / compactor.TROUBLES).is_dir():
            return []
        return list(take_up_unfinished(self.place, besides))

    def continue_stopped(self, located: LocatedSession) -> Iterator[RunEvent]:
        """Continue the turn of a session that was stopped for a summary, where its runner was killed before that."""
        return SessionRuns(self.place, self._hooks, located.store, located.session).continue_stopped()

    # prompts --------------------------------------------------------------------------------------------------

    def submit(
        self, destination: Destination, prompt: str, options: Options | None = None, if_busy: IfBusy = "queue"
    ) -> Generator[RunEvent, None, None]:
        """Run a prompt, then what is queued behind it; what happens if its session runs says ``if_busy``.

        Errors as of ``Runner.run_held``. Nothing is made for a prompt that cannot be run at all.
        """
        place, runner = self.place, self.runner
        store = place.project_store
        point = destination.point
        asked = msgspec.structs.replace(
            self._with_folder(options or Options()), after=(point.uid, point.seq) if point is not None else None
        )
        request = request_for(place, *self._known(destination), prompt, asked)
        runner.check(request)
        native_id = chosen_id(request.agent)
        if restored := runner.projects.restore_store(store):
            yield Notice(restored_sentence(store.path, restored))
        session = yield from self._destined(destination, native_id)
        store.choose_session(session, place.worktree)
        runner.projects.remember(store)
        yield from _notices(self.take_up_unfinished(besides=session.uid))
        request = msgspec.structs.replace(request, native_id=native_id)
        yield from SessionRuns(self.place, self._hooks, store, session).submit(request, asked, if_busy)

    def _with_folder(self, options: Options) -> Options:
        """The folder that something was asked for in is the one it is run in."""
        return options if options.cwd else msgspec.structs.replace(options, cwd=str(self.place.folder))

    def _known(self, destination: Destination) -> tuple[Store, Session | None]:
        """The session as far as it is there already, and its store."""
        store = self.place.project_store
        if destination.located is not None:
            return destination.located.store, destination.located.session
        if not store.exists:
            return store, None
        if destination.name is not None:
            with suppress(BackstoryError):
                return store, store.session(destination.name)
            return store, None
        last = self.place.last_active()
        return store, None if last is None else last.session

    def _destined(self, destination: Destination, native_id: str | None) -> Generator[Notice, None, Session]:
        """The session of this project that the prompt is for; a new one where there is none."""
        place, store = self.place, self.place.project_store
        if destination.located is not None:
            return (yield from self._writable(destination.located, destination.point))
        if destination.name is not None:
            yield from _notices(held_sentences(store.path, prepare_store(place)))
            session = store.find_or_create(destination.name, place.worktree, at=workplace(place, native_id))
            return (yield from self._writable(LocatedSession(store, session)))
        last = None if destination.is_new or not store.exists else place.last_active()
        if last is not None:
            return last.session
        yield from _notices(held_sentences(store.path, prepare_store(place)))
        return store.create_session(worktree=place.worktree, at=workplace(place, native_id))

    def _writable(self, located: LocatedSession, point: Point | None = None) -> Generator[Notice, None, Session]:
        writable = ensure_writable_session(self.place, located, point)
        yield from _notices(writable.sentences(self.place.project_store.path))
        return writable.session

    # messages -------------------------------------------------------------------------------------------------

    def steer(
        self,
        located: LocatedSession,
        text: str,
        if_idle: IfIdle = IfIdle.NOTHING,
        agrees: Callable[[str], bool] = lambda label: False,
    ) -> Generator[RunEvent, None, None]:
        """Send a message to the agent that runs a session; as ``send``."""
        return self.send(located, [(QueuedKind.STEER, text)], Options(), if_idle, agrees)

    def followup(
        self,
        located: LocatedSession,
        text: str,
        options: Options | None = None,
        if_idle: IfIdle = IfIdle.NOTHING,
        agrees: Callable[[str], bool] = lambda label: False,
    ) -> Generator[RunEvent, None, None]:
        """Queue a session's next prompt; as ``send``."""
        return self.send(located, [(QueuedKind.FOLLOWUP, text)], options or Options(), if_idle, agrees)

    def send(
        self,
        located: LocatedSession,
        messages: Sequence[tuple[QueuedKind, str]],
        options: Options,
        if_idle: IfIdle,
        agrees: Callable[[str], bool] = lambda label: False,
    ) -> Generator[RunEvent, None, None]:
        """Queue messages and follow-ups for a session that runs, or start what ``if_idle`` allows.

        With ``IfIdle.ASK`` ``agrees`` decides for the session of this name. Raises EmptyPrompt, PromptNotText,
        NotRunning.
        """
        options = self._checked(messages, options)
        is_agreed = if_idle is IfIdle.RUN
        if if_idle is IfIdle.ASK and not is_running(
            self.place, located.session.uid, store_of(self.place, located).path
        ):
            is_agreed = self._agreed(located, agrees)
        runs = yield from self._runs_of(located)
        prompts, before = runs.enqueue(messages, options)
        lease, holder = runs.lease_at_last()
        if lease is not None and not is_agreed and not runs.are_queued(lease, prompts):
            # The run took them, and ended meanwhile.
            lease.release()
            yield Notice(f"{runs.label} took it.")
            return
        if lease is not None and if_idle is IfIdle.ASK and not is_agreed:
            # The run ended meanwhile. What it did not receive is not run unasked.
            late = runs.take_late(lease, prompts)
            is_agreed = self._agreed(located, agrees)
            prompts, before = runs.enqueue([(each.kind, each.content) for each in late], options)
            lease, holder = runs.lease_at_last()
        if lease is not None and not is_agreed:
            lease.release()
        elif lease is not None:
            try:
                yield from _run_idle(runs, lease, prompts)
                return
            except SessionBusy as busy:
                holder = busy.holder
        yield from runs.queued(prompts, before, holder)

    def _checked(self, messages: Sequence[tuple[QueuedKind, str]], options: Options) -> Options:
        """Return the options of messages. An agent that is not there is refused now, not when its turn comes."""
        for _, text in messages:
            check_text(text)
        options = self._with_folder(options)
        if options.agent is not None:
            store = self.place.project_store
            self.runner.check(request_for(self.place, store, None, messages[0][1], options))
        return options

    def _agreed(self, located: LocatedSession, agrees: Callable[[str], bool]) -> bool:
        if not agrees(located.label):
            raise NotRunning(located.label)
        return True

    def _runs_of(self, located: LocatedSession) -> Generator[Notice, None, SessionRuns]:
        """Return the runner of a session, in the store that it is run in."""
        place, store = self.place, store_of(self.place, located)
        # The machine's store has copies of what projects own: where the project is gone, it continues in this one.
        own = (place.project_store.path, place.machine_store.path)
        if store.path in own or located.session.number is None:
            return SessionRuns(self.place, self._hooks, place.project_store, (yield from self._writable(located)))
        return SessionRuns(self.place, self._hooks, store, store.session(located.session.uid))

    # runs -----------------------------------------------------------------------------------------------------

    def cancel(self, located: LocatedSession, *, clear: bool = False) -> CancelledRun:
        """Stop the run of a session, and store it; where none runs, stop the summary that is being made of it.

        ``clear``: also drop its queued prompts. Raises NothingRuns.
        """
        home, uid, dropped = self.place.home, located.session.uid, 0
        store = store_of(self.place, located)
        spools = stopping.running_soon(home, uid)
        with Queue(store.path, self.place.report) as queue:
            if clear:
                # First: its runner takes what is queued as soon as a run has ended well.
                dropped = queue.remove([each.uid for each in queued_prompts(home, queue, uid)])
            # What a person stops is not continued by itself: first, because who is stopped looks whether it is.
            compactor.forget_stopped(home, uid)
            was_summarising = not spools and compactor.stop(home, uid)
            if not spools and not clear and not was_summarising:
                raise NothingRuns(located.label)
            stopping.stop(spools)
            self.runner.recover_finished_runs(stored_one=partial(count_context, self.place))
            left, trouble = 0, ""
            try:
                left = len(queued_prompts(home, queue, uid))
            except BackstoryError as refused:
                trouble = str(refused)
        return CancelledRun(
            was_running=bool(spools), was_summarising=was_summarising, dropped=dropped, left=left, trouble=trouble
        )

    def wait(self, located: LocatedSession) -> Iterator[SessionAwaited]:
        """Wait until a session is not running; yields while it runs, so that a face can leave."""
        store = store_of(self.place, located)
        while is_running(self.place, located.session.uid, store.path):
            yield SessionAwaited(session=located.label)
            time.sleep(WAIT_POLL_S)

    @contextmanager
    def locked(self, session_uid: str, label: str) -> Iterator[None]:
        """Hold the right to write a session while something is decided about it; raises SessionBusy."""
        lock = SessionLock(self.place.home / LOCKS, session_uid)
        if not lock.take():
            raise SessionBusy(label, lock.holder)
        try:
            if stopping.running(self.place.home, session_uid):
                raise SessionBusy(label, ORPHANED)
            yield
        finally:
            lock.release()


def _notices(sentences: Iterable[str]) -> Iterator[Notice]:
    return map(Notice, sentences)


def _run_idle(
    runs: SessionRuns, lease: SessionLease, prompts: Sequence[QueuedPrompt]
) -> Generator[RunEvent, None, None]:
    """Run what was sent to a session that is not running."""
    if any(each.kind == QueuedKind.STEER for each in prompts):
        yield Notice(f"{runs.label} is not running; the message runs as a prompt.")
    yield from runs.run_queue(lease, [each.uid for each in prompts])
