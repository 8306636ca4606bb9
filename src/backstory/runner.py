"""One prompt: context, spawn, stream, show, exit, store. The agent outlives us if we die, and nothing is lost."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from backstory import agents, ids
from backstory.agents import Exit, Permissions
from backstory.context import build_context, context_prefix
from backstory.errors import (
    AgentCannotRun,
    AgentMissing,
    BackstoryError,
    EmptyPrompt,
    PromptNotText,
    SessionBusy,
    SessionNotFound,
    StoreBusy,
    StoreNotFound,
)
from backstory.model import Error, Event, Outcome, Turn
from backstory.spool import MARKER, SPOOLS, Run, SessionLock, Spool, make_private_folder, waiting, write_private
from backstory.store import FinishedRun, Store, open_store
from backstory.store.runs import STDERR, STDOUT, RunLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from backstory.agents import Ending, Runnable, StreamReader
    from backstory.store import Session

POLL_S = 0.025
READ_BYTES = 1024 * 1024
LOCK_S = 2.0
"""So long a session's lock is waited for."""
LOOK_S = 1.0
DISK_BYTES_LEAST = 64 * 1024 * 1024
"""With less room on the disk an agent is stopped, so that what it said can still be stored."""
INTERRUPT_S = 5.0
"""So long an agent may take to stop when asked; then it is ended with all that it started."""
LOCKS, POINTERS = "locks", "projects"
ORPHAN_S = 60.0
"""A spool without a run in it is what a runner left that died before it began; younger ones may be beginning."""


class Request(Struct, frozen=True, kw_only=True):
    """What is asked for. ``context_chars`` is how much of the session the agent is told."""

    agent: str
    prompt: str
    cwd: Path
    model: str | None = None
    permissions: Permissions = Permissions.AGENT
    executable: str | None = None
    context_chars: int = 400_000
    silence_s: float = 3_600.0


class Finished(Struct, frozen=True, kw_only=True):
    """What a run came to."""

    turn: Turn
    context_chars: int
    tools: int
    error: str | None = None


class Shown(Struct, frozen=True):
    """Something to show at once: events as they come, or text that a later event will tell whole."""

    events: list[Event]
    delta: str = ""


class Runner:
    """Runs prompts on one machine: ``home`` holds the spool and the locks."""

    def __init__(self, home: Path, home_store: Store, environ: Mapping[str, str], now: Callable[[], int]) -> None:
        self._home, self._home_store, self._environ, self._now = home, home_store, environ, now

    def run(self, store: Store, session: Session, request: Request, show: Callable[[Shown], None]) -> Finished:
        """Run one prompt in a session and store what came of it.

        An interrupt stops the agent: once asks it to, twice ends it. Errors: EmptyPrompt, PromptNotText,
        AgentMissing, AgentCannotRun, SessionBusy, StoreBusy when an earlier run of the session cannot be stored.
        """
        executable = self.check(request)
        lock = SessionLock(self._home / LOCKS, session.uid)
        self._take(lock, session)
        try:
            self._take_up_own(store, session)
            return self._run_locked(store, session, request, runnable(request.agent), executable, show)
        finally:
            lock.release()

    def _take(self, lock: SessionLock, session: Session) -> None:
        # Another command may hold it for a moment, to store what an earlier run left.
        deadline = time.monotonic() + LOCK_S
        while not lock.take():
            if time.monotonic() > deadline:
                raise SessionBusy(session.shown_number or session.uid, lock.holder)
            time.sleep(POLL_S)

    def _take_up_own(self, store: Store, session: Session) -> None:
        """A run follows on from all before it: store what waits, and do not run beside an agent that still lives."""
        for spool in waiting(self._home / SPOOLS):
            run = spool.run
            if run is None or run.session_uid != session.uid:
                continue
            if spool.is_alive:
                raise SessionBusy(session.shown_number or session.uid, "an agent whose backstory was killed")
            if not self._store(store, self._left(spool, run), spool):
                raise StoreBusy(store.path)

    def check(self, request: Request) -> str:
        """Whether a request could be run at all, before anything is made for it; gives the agent's program."""
        if not request.prompt.strip():
            raise EmptyPrompt
        try:
            request.prompt.encode()
        except UnicodeEncodeError as refused:
            raise PromptNotText from refused
        return _found(runnable(request.agent), request.executable, self._environ)

    def remember_project(self, store: Store) -> None:
        """Note where a project's store lies, so that it can be made again if it is lost."""
        pointer = self._home / POINTERS / store.id
        path = str(store.path).encode()
        if not pointer.exists() or pointer.read_bytes() != path:
            make_private_folder(pointer.parent)
            whole = pointer.with_name(f".{pointer.name}.{os.getpid()}")
            write_private(whole, path, sync=True)
            whole.replace(pointer)

    def bring_back(self, store: Store) -> int:
        """Make a project's store again that was here and is gone; gives how many sessions came back."""
        pointers = self._home / POINTERS
        if store.exists or not pointers.is_dir():
            return 0
        for pointer in pointers.iterdir():
            if pointer.read_text("utf-8") == str(store.path):
                return store.rebuild_from(self._home_store, pointer.name)
        return 0

    def take_up(self, report: Callable[[str], None] = lambda problem: None) -> int:
        """Store what runs whose runner died have left, once they are over; gives how many that were.

        One that cannot be stored stays where it is, ``report`` is told, and the others are stored all the same.
        """
        stored = 0
        for spool in waiting(self._home / SPOOLS):
            run = spool.run
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
                    with open_store(run.store, now=self._now) as store:
                        stored += self._store(store, self._left(spool, run), spool)
            except (BackstoryError, OSError) as refused:
                report(f"A run waits in {spool.folder} and could not be stored: {refused}")
            finally:
                lock.release()
        return stored

    def _left(self, spool: Spool, run: Run) -> FinishedRun:
        return _finished(spool, run, _exit_unknown(spool), self._now())

    def _run_locked(
        self,
        store: Store,
        session: Session,
        request: Request,
        agent: Runnable,
        executable: str,
        show: Callable[[Shown], None],
    ) -> Finished:
        context = build_context(
            store.told_turns(session, request.context_chars), budget_chars=request.context_chars
        ).text
        prefix = context_prefix(context)
        native_id = agent.native_id(os.urandom(16))
        run = Run(
            turn_uid=ids.new_uid(self._now(), os.urandom(10)),
            session_uid=session.uid,
            store=str(store.path),
            agent=agent.name,
            prompt=request.prompt,
            cwd=str(request.cwd),
            started=self._now(),
            model=request.model,
            native_id=native_id,
            prefix_chars=len(prefix),
            prefix_sha256=hashlib.sha256(prefix.encode("utf-8", "surrogatepass")).hexdigest() if prefix else None,
        )
        command = agent.command(executable, model=request.model, permissions=request.permissions, native_id=native_id)
        self._let_home_know(store, session)
        spool = Spool.begin(self._home / SPOOLS, run, prefix + request.prompt)
        try:
            process = self._spawn(spool, command, request.cwd)
        except OSError as refused:
            spool.remove()
            raise AgentMissing(agent.name, executable) from refused
        reader = agent.stream_reader()
        ended = self._follow(spool, process, reader, request, show)
        spool.note_exit(ended.code, ended.signal)
        finished = _finished(spool, run, ended, self._now())
        self._store(store, finished, spool)
        return _summary(finished, len(context))

    def _let_home_know(self, store: Store, session: Session) -> None:
        """A session is known to the machine's store at once: the project's may be gone before its first run ends."""
        home = self._home_store
        try:
            if home.path != store.path and not home.has(session.uid) and not home.is_forgotten(session.uid):
                home.take_session(store, session.uid)
        except BackstoryError:
            return

    def _store(self, store: Store, finished: FinishedRun, spool: Spool) -> int:
        """Store a run where it belongs and in the machine's store; its spool goes only when both have it.

        A project's store that is gone is brought back first. What the machine's store cannot take now is left for
        the next command: the run is safe where it belongs. Gives 1 if the run is where it belongs, else 0.
        """
        if not store.exists:
            # What is open is a file without a name: nobody would find what is written to it.
            store.close()
            self.bring_back(store)
        if store.is_forgotten(finished.session_uid):
            spool.remove()
            return 1
        try:
            store.store_run(finished)
        except (StoreBusy, StoreNotFound, SessionNotFound):
            return 0
        try:
            self._home_store.hand_over(store, finished)
        except BackstoryError:
            return 1
        spool.remove()
        return 1

    def _spawn(self, spool: Spool, command: list[str], cwd: Path) -> subprocess.Popen[bytes]:
        stdout, stderr = spool.open_output()
        try:
            with spool.stdin.open("rb") as stdin:
                process = subprocess.Popen(
                    command,
                    cwd=cwd,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    env={**self._environ, MARKER: spool.folder.name},
                    start_new_session=True,
                )
        finally:
            # From here on the lock on stdout is the agent's alone.
            os.close(stdout)
            os.close(stderr)
        spool.note_process(process.pid)
        return process

    def _follow(
        self,
        spool: Spool,
        process: subprocess.Popen[bytes],
        reader: StreamReader,
        request: Request,
        show: Callable[[Shown], None],
    ) -> Exit:
        """Show what comes until the agent has ended; what it left running is ended with it."""
        with _Stopping(spool, request.silence_s) as stopping:
            outputs = [_Followed(spool.stdout, reader, is_error=False), _Followed(spool.stderr, reader, is_error=True)]
            is_over = False
            while True:
                if not is_over and process.poll() is not None:
                    is_over = True
                    spool.kill()
                came = False
                for output in outputs:
                    for shown in output.new():
                        came = True
                        show(shown)
                if is_over and not came:
                    break
                stopping.look(came=came)
                if not came:
                    time.sleep(POLL_S)
            for output in outputs:
                output.close()
        code = process.returncode
        return Exit(
            code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            was_cancelled=spool.was_cancelled,
        )


class _Followed:
    """One output of an agent, as far as it has been shown."""

    def __init__(self, path: Path, reader: StreamReader, *, is_error: bool) -> None:
        self._file = path.open("rb")
        self._reader, self._is_error = reader, is_error
        self._carry: list[bytes] = []

    def new(self) -> Iterator[Shown]:
        """What has come since, at most some of it: there is always a next time."""
        data = self._file.read(READ_BYTES)
        *lines, rest = data.split(b"\n")
        for piece in lines:
            line = b"".join((*self._carry, piece))
            self._carry.clear()
            yield _shown(self._reader, line, is_error=self._is_error) or Shown([])
        if rest:
            self._carry.append(rest)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class _Stopping:
    """When and how hard an agent is stopped: asked first, ended when it does not listen."""

    def __init__(self, spool: Spool, silence_s: float) -> None:
        self._spool, self._silence_s = spool, silence_s
        self._last_word = self._last_look = time.monotonic()
        self._asked: float | None = None
        self._interrupts = self._heard = 0
        self._before: Any = None

    def __enter__(self) -> _Stopping:
        # Counted, not raised: an exception could strike anywhere, also while the agent is being stopped.
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._count)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _count(self, _number: int, _frame: object) -> None:
        self._interrupts += 1

    def look(self, *, came: bool) -> None:
        """Note whether something came; act on interrupts, on silence, and when the disk is nearly full."""
        now = time.monotonic()
        self._last_word = now if came else self._last_word
        if self._interrupts > self._heard:
            self._heard = self._interrupts
            self._stop(now)
        elif self._asked is not None and now - self._asked > INTERRUPT_S:
            self._spool.kill()
        elif self._asked is None and 0 < self._silence_s < now - self._last_word:
            self._stop(now)
        elif self._asked is None and now - self._last_look > LOOK_S:
            self._last_look = now
            if shutil.disk_usage(self._spool.folder).free < DISK_BYTES_LEAST:
                self._stop(now)

    def _stop(self, now: float) -> None:
        """Ask it to stop; the second time, end it."""
        if self._asked is not None:
            self._spool.kill()
            return
        self._asked = now
        self._spool.cancel()


def runnable(name: str) -> Runnable:
    """The agent called ``name``, if it can be run; raises UnknownAgent, AgentCannotRun."""
    agent = agents.load(name)
    if not hasattr(agent, "stream_reader"):
        raise AgentCannotRun(name)
    return cast("Runnable", agent)


def is_installed(name: str, executable: str | None, environ: Mapping[str, str]) -> bool:
    """Whether an agent's program is on this machine."""
    return shutil.which(executable or runnable(name).executable, path=environ.get("PATH")) is not None


def _found(agent: Runnable, executable: str | None, environ: Mapping[str, str]) -> str:
    wanted = executable or agent.executable
    found = shutil.which(wanted, path=environ.get("PATH"))
    if found is None:
        raise AgentMissing(agent.name, wanted)
    return found


def _shown(reader: StreamReader, line: bytes, *, is_error: bool) -> Shown | None:
    if is_error:
        events = reader.stderr(line)
        return Shown(events) if events else None
    if not line.strip():
        return None
    told = reader.read(line)
    return Shown([event for _, event in told.events], told.delta)


def _finished(spool: Spool, run: Run, ended: Exit, now: int) -> FinishedRun:
    """All of a run, read from its spool by a reader that has seen nothing of it."""
    fresh = runnable(run.agent).stream_reader()
    stdout = _output(spool.stdout, STDOUT, fresh, is_error=False)
    stderr = _output(spool.stderr, STDERR, fresh, is_error=True)
    ending: Ending = fresh.ended(ended)
    turn = Turn(
        uid=run.turn_uid,
        agent=run.agent,
        native_id=fresh.native_id or run.native_id or "",
        prompt=run.prompt,
        model=ending.model or run.model,
        started=run.started,
        ended=now,
        outcome=ending.outcome,
        stop_reason=ending.stop_reason,
        duration_ms=ending.duration_ms if ending.duration_ms is not None else max(now - run.started, 0),
        tokens=ending.tokens,
        tokens_source=ending.tokens_source,
        cost_usd=ending.cost_usd,
        cost_source=ending.cost_source,
    )
    return FinishedRun(
        session_uid=run.session_uid,
        turn=turn,
        native_id=turn.native_id,
        ended=now,
        error=ending.error,
        prefix_chars=run.prefix_chars,
        prefix_sha256=run.prefix_sha256,
        outputs=[stdout, stderr],
    )


def _output(path: Path, kind: str, reader: StreamReader, *, is_error: bool) -> RunLog:
    data = path.read_bytes() if path.exists() else b""
    output = RunLog(kind=kind, data=data)
    for position, line in _lines(data):
        if is_error:
            events = list(enumerate(reader.stderr(line)))
            takes_number = True
        else:
            told = reader.read(line)
            events, takes_number = told.events, told.takes_number
        if takes_number:
            output.records.append((position, len(line), events))
    return output


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    for line in data.split(b"\n"):
        if line.strip(b"\0 \t\r"):
            yield position, line
        position += len(line) + 1


def _exit_unknown(spool: Spool) -> Exit:
    """How an agent ended, if its runner noted it; if nobody saw it, only what it said counts."""
    code, number = spool.exit or (0, None)
    return Exit(code=code, signal=number, was_cancelled=spool.was_cancelled)


def _summary(run: FinishedRun, context_chars: int) -> Finished:
    events = [event for output in run.outputs for _, _, told in output.records for _, event in told]
    error = run.error
    if error is None and run.turn.outcome == Outcome.FAILED:
        error = next((event.message for event in reversed(events) if isinstance(event, Error)), None)
    tools = sum(event.kind == "ToolCall" for event in events)
    return Finished(turn=run.turn, context_chars=context_chars, tools=tools, error=error)
