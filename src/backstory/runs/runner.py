"""One prompt: context, spawn, stream, exit, store. The agent outlives us if we die, and nothing is lost.

A run is a generator of what comes. Closing it stops nothing: the agent continues, and the next command stores its run.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
import time
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from backstory import agents, ids
from backstory.agents.bounded import stream_reader
from backstory.agents.contract import Exit
from backstory.conversation.board import NO_OFFER, Offer
from backstory.conversation.context import PREFIX_CHARS, build_context, context_prefix, with_offer
from backstory.errors import (
    AgentNotStarted,
    BackstoryError,
    EmptyPrompt,
    FolderNotUsable,
    PromptNotText,
    RunNotStored,
    SessionBusy,
    SessionDiverged,
    in_words,
    is_for_one_only,
)
from backstory.exchange import replication
from backstory.model import Permissions, Record, ToolCall, Turn, UserMessage
from backstory.projects.registry import KnownProjects, Whereabouts, file_at
from backstory.runs import process as processes
from backstory.runs.lock import LOCK_S, LOCKS, POLL_S, SessionLease, SessionLock
from backstory.runs.queued import dequeue_consumed, is_queued
from backstory.runs.spool import ORPHAN_S, SPOOLS, Run, Spool, list_spools
from backstory.runs.steering import StdinPipe, Steering, accepts_messages, note_accepting
from backstory.runs.stopping import EndOf, Stopping
from backstory.runs.stream import (
    ArrivalNotes,
    RunOutput,
    Shown,
    SpooledRun,
    append_run,
    chosen_id,
    native_id,
    outputs,
    program,
    read_notes,
    run_part,
)
from backstory.store import Store, open_store
from backstory.store.intake.batches import Arrivals
from backstory.store.tables import compactions, sessions
from backstory.store.tables import runs as stored_runs
from backstory.store.tables.queue import QueuedKind

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from backstory.agents.contract import RunPart, SteerPart, StreamReader
    from backstory.conversation.tree import Point
    from backstory.store import Session
    from backstory.store.database import Asking
    from backstory.store.tables.queue import QueuedPrompt

READ_BYTES = 1024 * 1024
Came: TypeAlias = "Shown | UserMessage"
"""An item that a run yields: an event of its agent, or a message that the agent received while it ran."""
ORPHANED = "an agent whose backstory was killed"
"""The holder of a session whose agent lives and whose runner does not: it hands nothing over and runs nothing more."""


class Request(Struct, frozen=True, kw_only=True):
    """The settings of a run. ``context_chars``: the longest context that the agent receives."""

    agent: str
    prompt: str
    cwd: Path
    model: str | None = None
    permissions: Permissions = Permissions.AGENT
    executable: str | None = None
    context_chars: int = 500_000
    after: Point | None = None
    """The record that the prompt follows; None: where the session continues."""
    silence_s: float = 3_600.0
    turn_uid: str | None = None
    """The uid of the turn it becomes, where the prompt was queued under one."""
    native_id: str | None = None
    """The agent's own id for it, of which the agent has no session yet; None: one is chosen where the agent takes one.

    A session that is begun for the run has it from the beginning, for all who look into the store meanwhile.
    """
    offer: Offer = NO_OFFER
    """Notes of the board, which are part of the context."""

    @property
    def history_chars(self) -> int:
        """The most characters of the session that the context may hold."""
        return self.context_chars - len(self.offer.within(self.context_chars).text)


class Finished(Struct, frozen=True, kw_only=True):
    """The result of a run."""

    turn: Turn
    context_chars: int
    tools: int
    refused: list[ToolCall]
    """Calls that the agent's permissions refused."""
    error: str | None = None
    waits: str | None = None
    """The reason why it could not be stored yet; it waits in the spool for the next command."""
    moved: str | None = None
    """The store that it went to instead, if its project was moved or removed meanwhile."""


class Unstored(str):
    """The sentence about a run that could not be stored, with the folder that it waits in, and the reason."""

    folder: Path
    reason: str

    @classmethod
    def of(cls, folder: Path, reason: str) -> Unstored:
        """The sentence about this folder."""
        sentence = cls(f"A run waits in {folder} and could not be stored: {reason}")
        sentence.folder, sentence.reason = folder, reason
        return sentence


class Runner:
    """Runs prompts on one machine: ``home`` holds the spool and the locks.

    ``report`` is called with the holder of a queue that is waited for. ``keeps_home``: whether the home store gets
    what was run.
    """

    def __init__(
        self,
        home: Path,
        home_store: Store,
        environ: Mapping[str, str],
        now: Callable[[], int],
        report: Callable[[str], None] = lambda _: None,
        *,
        keeps_home: Callable[[], bool] = lambda: True,
    ) -> None:
        self._home, self._home_store, self._environ, self._now = home, home_store, environ, now
        self._report, self._keeps_home = report, keeps_home
        self.projects = KnownProjects(home, home_store, now)
        self.at_end: Callable[[Asking, str], None] | None = None
        """Called in the transaction that stores the end of a run where it belongs, with its session's uid."""

    def hold(self, store: Store, session: Session, patience_s: float = LOCK_S) -> SessionLease:
        """Take the right to run a session; raises SessionBusy, SessionElsewhere.

        Another command may hold it for a moment, to store an earlier run: it is waited for.
        """
        hold = SessionLease(self._home, store, session.uid, self._now, self._report)
        deadline = time.monotonic() + patience_s
        while not hold.take():
            if time.monotonic() > deadline:
                raise SessionBusy(session.shown_number or session.uid, hold.holder)
            time.sleep(POLL_S)
        return hold

    def run_held(
        self, hold: SessionLease, store: Store, session: Session, request: Request
    ) -> Generator[Came, None, Finished]:
        """Run one prompt in a session that is held, yield what comes, and store it; returns what the run came to.

        An interrupt stops the agent: once asks it to, twice ends it. Errors: EmptyPrompt, PromptNotText,
        AgentMissing, AgentNotStarted, AgentCannotRun, FolderNotUsable, SessionBusy, and those of a store that cannot be
        written now or cannot take an earlier run of the session.
        """
        executable = self.check(request)
        self._recover_own(store, session)
        hold.show_owner()
        return (yield from self._run_locked(hold, store, session, request, executable))

    def next_prompt(self, hold: SessionLease, store: Store, session: Session) -> QueuedPrompt | None:
        """The follow-up that is to be run next in a session that is held; None when none waits.

        Earlier runs are stored first, so that what they consumed is not run again.
        """
        self._recover_own(store, session)
        for text in hold.queue.prompts(session.uid):
            if store.ask_or(False, stored_runs.has_ended, session.uid, text.uid):
                # Its runner was killed before it could take it out.
                hold.queue.remove([text.uid])
                continue
            if text.kind == QueuedKind.STEER:
                # It came when nobody ran any more.
                hold.queue.make_followups([text.uid])
            return text
        return None

    def _recover_own(self, store: Store, session: Session) -> None:
        """A run follows on from all before it: store what waits, and do not run beside an agent that still lives."""
        for spool in list_spools(self._home / SPOOLS):
            run = spool.run
            if run is None or run.session_uid != session.uid:
                continue
            if spool.is_alive:
                raise SessionBusy(session.shown_number or session.uid, ORPHANED)
            spool.kill()
            try:
                self._store_or_drop(store, spool, run)
            except Exception as refused:
                if not is_for_one_only(refused):
                    raise
                spool.note_trouble(in_words(refused))
                name = session.shown_number or session.uid
                raise RunNotStored(name, spool.folder, in_words(refused)) from refused

    def _store_or_drop(self, store: Store, spool: Spool, run: Run) -> None:
        """Store a finished run. One that never started, and whose prompt is still queued, is dropped."""
        if not spool.was_started and is_queued(store, run.turn_uid, self._report):
            spool.remove()
        else:
            self._store(store, spool, self._left(spool, run))

    def check(self, request: Request) -> str:
        """Check that a request can be run, before anything is made for it; returns the agent's program."""
        check_text(request.prompt)
        return program(request.agent, request.executable, self._environ)

    def recover_finished_runs(
        self,
        report: Callable[[Unstored], None] = lambda problem: None,
        stored_one: Callable[[Store, str], None] = lambda store, session_uid: None,
    ) -> int:
        """Store finished runs whose runner died; returns how many were stored.

        ``stored_one`` is called with each, its store and its session, while that is held.
        One that cannot be stored stays where it is and is reported; the others are stored all the same.
        """
        stored = 0
        for spool in list_spools(self._home / SPOOLS):
            run = spool.run
            # Its runner died before run.json was on the disk, so no agent was started.
            if run is None and spool.age_s() > ORPHAN_S and not spool.stdout.exists():
                spool.remove()
            if run is None or spool.is_alive:
                continue
            lock = SessionLock(self._home / LOCKS, run.session_uid)
            try:
                if not lock.take():
                    continue
                # While we waited for the lock its runner may have stored and removed it.
                if spool.folder.exists():
                    # Its tools may have outlived it.
                    spool.kill()
                    with open_store(run.store, now=self._now) as store:
                        self._store_or_drop(store, spool, run)
                        stored += 1
                        stored_one(store, run.session_uid)
                    if spool.trouble:
                        # It is stored where it belongs, and not in the machine's store.
                        report(Unstored.of(spool.folder, spool.trouble))
            except Exception as refused:
                if is_for_one_only(refused):
                    spool.note_trouble(in_words(refused))
                report(Unstored.of(spool.folder, in_words(refused)))
            finally:
                lock.release()
        return stored

    def cleanup_orphans(self, store: Store, report: Callable[[str], None]) -> None:
        """Close, and ``report``, what a crash interrupted in a store and nothing will complete any more."""
        try:
            # Asked before the spools: the run of which it comes is there before an id.
            native_ids = store.ask_or({}, stored_runs.native_ids)
            runs = [run for spool in list_spools(self._home / SPOOLS) if (run := spool.run) is not None]
            for run in runs:
                native_ids.pop(run.session_uid, None)
            if native_ids:
                store.change(stored_runs.drop_native_ids, native_ids)
            closed = store.cleanup_orphans({run.turn_uid for run in runs})
        except Exception as refused:
            report(f"What a crash left could not be closed: {in_words(refused)}")
            return
        for orphan in closed:
            calls = f", {orphan.calls} of its calls without a result" if orphan.calls else ""
            name = store.session(orphan.session_uid).shown_name
            report(f"{name} @{orphan.seq} was cut off by a crash; the rest of it is lost: closed as crashed{calls}.")

    def running(self) -> set[tuple[str, str]]:
        """(agent, its own id of the session) of every run that is not stored yet."""
        runs = [(spool, run) for spool in list_spools(self._home / SPOOLS) if (run := spool.run) is not None]
        found = set[tuple[str, str]]()
        for spool, run in runs:
            # The log of an agent that is no longer known is not read either.
            with suppress(BackstoryError, OSError):
                if (native := native_id(spool, run)) is not None:
                    found.add((run.agent, native))
        return found

    def spooled(self) -> list[tuple[str, bool]]:
        """Every run that is not stored yet, by name, and whether its agent lives."""
        return [(spool.folder.name, spool.is_alive) for spool in list_spools(self._home / SPOOLS)]

    def _left(self, spool: Spool, run: Run) -> SpooledRun:
        return SpooledRun(spool, run, exit_unseen(spool), min(last_word_ms(spool), self._now()))

    def _run_locked(
        self, hold: SessionLease, store: Store, session: Session, request: Request, executable: str
    ) -> Generator[Came, None, Finished]:
        agent = run_part(request.agent)
        # Asked before anything is paid for.
        store.check_writable()
        after = request.after or store.leaf(session)
        context = _context(store, session, request, agent, after)
        prefix = context_prefix(context)
        run = self._new_run(store, session, request, agent, prefix, after)
        steer = agents.load(request.agent).steer
        feed = StdinPipe.holding(steer.encode_message(prefix + request.prompt)) if steer is not None else None
        command = _command(agent, steer if feed is not None else None, executable, request, run.native_id)
        with (
            # Opened before the agent starts: an open folder is found again when the project is moved.
            Whereabouts(store.path) as whereabouts,
            Stopping(Spool(self._home / SPOOLS / run.turn_uid), request.silence_s) as stopping,
            nullcontext() if feed is None else closing(feed),
        ):
            spool = Spool.begin(self._home / SPOOLS, run, prefix + request.prompt)
            try:
                process = None if stopping.was_asked else self._spawn(spool, command, request.cwd, feed)
            except OSError as refused:
                _take_back(spool, store, session)
                raise _not_started(request.agent, executable, request.cwd, refused) from refused
            self._let_home_know(store, session)
            # Other programs look in the store for the id of a session that runs.
            _note_native_id(store, session, run.native_id)
            import_module("backstory.derive.deriver")  # needed to store what it says
            ended = Exit(was_cancelled=True)
            if process is not None:
                reader = stream_reader(agents.load(request.agent))
                is_known = accepts_messages(self._home, executable)
                steering = _steering(hold, spool, feed, steer, reader, self._now, is_known=is_known)
                came = self._follow(spool, process, reader, stopping, steering, run.started)
                with _outliving(process):
                    ended = yield from _noting(store, session, run.native_id, reader, came)
                if steering is not None and steering.was_heard:
                    note_accepting(self._home, executable)
            spool.note_exit(ended.code, ended.signal)
            moved_to = whereabouts.now()
        return self._finish(store, spool, run, ended, len(context), moved_to)

    def _new_run(
        self, store: Store, session: Session, request: Request, agent: RunPart, prefix: str, after: Point | None
    ) -> Run:
        now = self._now()
        return Run(
            turn_uid=request.turn_uid or ids.new_uid(now, os.urandom(10)), session_uid=session.uid,
            store=str(store.path), agent=request.agent, prompt=request.prompt, cwd=str(request.cwd), started=now,
            model=request.model, permissions=request.permissions.value,
            native_id=request.native_id or chosen_id(request.agent),
            prefix_chars=len(prefix),
            prefix_sha256=hashlib.sha256(prefix.encode("utf-8", "surrogatepass")).hexdigest() if prefix else None,
            parent_uid=after.uid if after else None, parent_seq=after.seq if after else None,
            store_file=file_at(store.path),
        )  # fmt: skip

    def _finish(
        self, store: Store, spool: Spool, run: Run, ended: Exit, context_chars: int, moved_to: Path | None
    ) -> Finished:
        """Store a run that is over; returns what it came to, also when it cannot be stored now."""
        now, waits, moved = self._now(), None, None
        spooled = SpooledRun(spool, run, ended, now)
        try:
            moved = self._store(store, spool, spooled, moved_to)
        except Exception as refused:
            if is_for_one_only(refused):
                spool.note_trouble(in_words(refused))
            waits = in_words(refused)
            spooled.read()
        return Finished(
            turn=spooled.turn, context_chars=context_chars, tools=spooled.tools, refused=spooled.refused,
            error=spooled.error,
            waits=waits, moved=moved,
        )  # fmt: skip

    def _let_home_know(self, store: Store, session: Session) -> None:
        """A session is known to the machine's store at once: the project's may be gone before its first run ends."""
        home = self._home_store
        try:
            if not self._keeps_home():
                return
            if (
                home.path != store.path
                and not home.has(session.uid)
                and not home.ask_or(False, sessions.is_forgotten, session.uid)
            ):
                replication.copy_session(home, store, session.uid)
        except Exception:
            # It is tried again when the run is stored.
            return

    def _store(self, store: Store, spool: Spool, spooled: SpooledRun, moved_to: Path | None = None) -> str | None:
        """Store a run where it belongs, also where that was moved to; returns a sentence if that is elsewhere now.

        A store that is gone from its project is brought back first. Where the project is gone, too, nothing is made in
        its place: the machine's store has the run. Raises what keeps it from being stored.
        """
        file = spooled.run.store_file
        if _is_there(store, spooled.session_uid, file):
            self._store_in(store, spool, spooled)
            return None
        # What is open is a file without a name, or with another one.
        store.close()
        moved_to = moved_to or (self.projects.at(file) if file is not None else None)
        if moved_to is not None:
            with open_store(moved_to, now=self._now) as there:
                self.projects.remember(there)
                self._store_in(there, spool, spooled)
            return f"Its project was moved while it ran; it is stored in {moved_to}."
        if not store.path.parent.parent.exists() and self._home_store.has(spooled.session_uid):
            append_run(spooled, self._home_store)
            spool.remove()
            return f"Its project is not where it was, so it is stored in {self._home_store.path} only."
        self.projects.restore_store(store)
        self._store_in(store, spool, spooled)
        return None

    def _store_in(self, store: Store, spool: Spool, spooled: SpooledRun) -> None:
        """Store a run where it belongs and in the machine's store; its spool goes only when both have it.

        What the machine's store cannot take now is stored by the next command: the run is safe where it belongs. Raises
        what keeps it from being stored there.
        """
        uid, home = spooled.session_uid, self._home_store
        # A person removed the session while it ran: what it said since is not brought back.
        if store.ask_or(False, sessions.is_forgotten, uid):
            spooled.read()
            spool.remove()
            return
        keeps_home = self._keeps_home() or home.path == store.path
        is_level = (
            keeps_home and home.path != store.path and _is_level(home, uid, store.ask_or(1, sessions.next_seq, uid))
        )
        # Where the home store has all that came before, the same batches go into both; else it is replicated.
        is_beside = append_run(spooled, store, home if is_level else None, self.at_end)
        # Only now: a crash before this leaves queued what the next command finds stored, and runs nothing twice.
        dequeue_consumed(store, uid, [spooled.run.turn_uid, *spooled.acknowledged], self._report)
        if not keeps_home:
            spool.remove()
            self._report(f"The home store is off (store.enabled), so the run is in {store.path} only.")
            return
        try:
            try:
                replication.replicate_session(home, store, uid, has_all=is_beside)
            except SessionDiverged:
                # The machine's store has turns that the project's lacks: it takes this one beside them.
                append_run(spooled, home)
            spool.remove()
        except Exception as refused:
            if is_for_one_only(refused):
                spool.note_trouble(f"{home.path} cannot take it: {in_words(refused)}")

    def _spawn(self, spool: Spool, command: list[str], cwd: Path, feed: StdinPipe | None) -> subprocess.Popen[bytes]:
        stdout, stderr = spool.open_output()
        try:
            with spool.stdin.open("rb") if feed is None else nullcontext(feed.reading) as stdin:
                process = processes.start(
                    command, spool.folder.name, cwd, self._environ, stdin=stdin, stdout=stdout, stderr=stderr
                )
        finally:
            # From here on the lock on stdout is the agent's alone.
            os.close(stdout)
            os.close(stderr)
            if feed is not None:
                feed.close_reading()
        spool.note_process(process.pid)
        return process

    def _follow(
        self,
        spool: Spool,
        process: subprocess.Popen[bytes],
        reader: StreamReader,
        stopping: Stopping,
        steering: Steering | None,
        since: int,
    ) -> Generator[Came, None, Exit]:
        """Yield what comes until the agent has ended; what it started and is still running is ended with it."""

        def shown(record: Record) -> Shown:
            return _shown(record, stopping, is_of_stop=stopping.was_asked or spool.was_cancelled)

        both = outputs(spool.folder, reader, lambda path: ArrivalNotes(path, self._now, since))
        with ExitStack() as leaving:
            for each in (*(output.close for output in both), *([steering.end] if steering is not None else [])):
                leaving.callback(each)
            with EndOf(process.pid) as ending:
                while process.poll() is None:
                    came = yield from _new(*both, spool, shown)
                    if steering is not None:
                        came = (yield from _steered(steering, stopping)) or came
                    stopping.look(came=came)
                    yield shown(Record([]))
                    if not came:
                        ending.wait(POLL_S)
            spool.kill()
            # Nobody writes any more: the end of the file is the end of the output.
            for output in both:
                for record in output.rest():
                    yield shown(record)
            if steering is not None:
                steering.end()
                yield from _steered(steering, stopping)
        code = process.returncode
        return Exit(
            code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            was_cancelled=spool.was_cancelled,
        )


@contextmanager
def _outliving(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Wait for the process aside if the block is left before it ends, so that no dead process stays behind."""
    try:
        yield
    finally:
        if process.returncode is None:
            threading.Thread(target=process.wait, name="reaper", daemon=True).start()


def _shown(record: Record, stopping: Stopping, *, is_of_stop: bool) -> Shown:
    """Return what a record says, marked where it came since the agent was asked to stop."""
    events = [event for _, event in record.events]
    return Shown(events, record.delta, is_of_stop=is_of_stop, is_interrupted=is_of_stop and stopping.was_interrupted)


def _note_native_id(store: Store, session: Session, native_id: str | None) -> None:
    """Note in the store which of the agent's sessions runs; the run itself does not need it."""
    if native_id is not None:
        with suppress(Exception):
            store.change(stored_runs.note_native_id, session.uid, native_id)


def _noting(
    store: Store, session: Session, noted: str | None, reader: StreamReader, came: Generator[Came, None, Exit]
) -> Generator[Came, None, Exit]:
    """Yield what comes, and note the agent's own id of the session as soon as it is known."""
    with closing(came):
        while True:
            try:
                each = next(came)
            except StopIteration as over:
                ended: Exit = over.value
                return ended
            if reader.native_id != noted:
                noted = reader.native_id
                _note_native_id(store, session, noted)
            yield each


def _new(
    stdout: RunOutput, stderr: RunOutput, spool: Spool, shown: Callable[[Record], Shown]
) -> Generator[Came, None, bool]:
    """Yield what has come on both outputs, and note where errors stood; returns whether anything has."""
    before = stdout.whole_to, stderr.whole_to
    for record in stdout.new():
        yield shown(record)
    errors = list(stderr.new())
    if any(record.events for record in errors):
        # First: who is killed once they are shown has noted their place.
        spool.note_order(stdout.whole_to, stderr.whole_to)
    for record in errors:
        yield shown(record)
    return (stdout.whole_to, stderr.whole_to) != before


def check_text(text: str) -> None:
    """Raises EmptyPrompt, PromptNotText for what no agent could be given."""
    if not text.strip():
        raise EmptyPrompt
    try:
        text.encode()
    except UnicodeEncodeError as refused:
        raise PromptNotText from refused


def _command(
    agent: RunPart, steer: SteerPart | None, executable: str, request: Request, native_id: str | None
) -> list[str]:
    command = agent.command(executable, model=request.model, permissions=request.permissions, native_id=native_id)
    return steer.streaming_command(command) if steer is not None else command


def _steering(
    hold: SessionLease, spool: Spool, feed: StdinPipe | None, steer: SteerPart | None, reader: StreamReader,
    now: Callable[[], int], *, is_known: bool,
) -> Steering | None:  # fmt: skip
    state = reader.steering
    if steer is None or state is None or feed is None:
        return None
    return Steering(hold, spool, feed, steer, state, now, is_known=is_known)


def _steered(steering: Steering, stopping: Stopping) -> Generator[Came, None, bool]:
    """Hand the agent what has come, unless it was asked to stop, and yield what it received; returns whether any."""
    if stopping.was_asked:
        steering.end()
    received = steering.look()
    yield from received
    return bool(received)


def _context(store: Store, session: Session, request: Request, agent: RunPart, after: Point | None) -> str:
    """The context that the agent receives: as much of the session as is wanted, and as fits beside the prompt."""
    room = request.context_chars
    if agent.prompt_chars_max is not None:
        room = max(min(room, agent.prompt_chars_max - len(request.prompt) - PREFIX_CHARS), 0)
    offered = request.offer.within(room).text
    room -= len(offered)
    return with_offer(
        offered, build_context(store.ask(compactions.history, session.id, room, after), budget_chars=room).text
    )


def _take_back(spool: Spool, store: Store, session: Session) -> None:
    """Remove the spool of a run that could not begin, and the session if it was made for it."""
    spool.remove()
    store.change(sessions.drop_if_empty, session.id)


def _not_started(agent: str, executable: str, cwd: Path, refused: OSError) -> BackstoryError:
    detail = refused.strerror or str(refused)
    if str(refused.filename) == str(cwd):
        return FolderNotUsable(cwd, detail)
    return AgentNotStarted(agent, executable, detail)


def _is_there(store: Store, session_uid: str, file: tuple[int, int] | None) -> bool:
    """Return True if a run's store is where it was: the same file, or another with its session: one brought back."""
    if not store.exists:
        return False
    if file is None or file_at(store.path) == file:
        return True
    store.close()
    return store.has(session_uid)


def _is_level(home: Store, uid: str, next_seq: int) -> bool:
    """Return True if the machine's store has all of a session, so that a run can be written to it beside."""
    try:
        return home.has(uid) and home.ask_or(1, sessions.next_seq, uid) == next_seq
    except Exception:
        return False


def last_word_ms(spool: Spool) -> int:
    """Return the last time when a run wrote, as far as is known: no event was seen later."""
    seen = (Arrivals(read_notes(output)[0]).last for output in (spool.stdout, spool.stderr))
    return max(spool.last_word_ms(), *(at for at in seen if at is not None), 0)


def exit_unseen(spool: Spool) -> Exit:
    """Return how an agent ended, if its runner noted it; if nobody saw it, only its own events count."""
    noted = spool.exit
    code, number = noted or (0, None)
    return Exit(code=code, signal=number, was_cancelled=spool.was_cancelled, was_seen=noted is not None)
