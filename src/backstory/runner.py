"""One prompt: context, spawn, stream, show, exit, store. The agent outlives us if we die, and nothing is lost."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from backstory import agents, ids
from backstory.agents import Exit, Permissions
from backstory.context import build_context, context_prefix
from backstory.errors import AgentCannotRun, AgentMissing, EmptyPrompt, SessionBusy, SessionNotFound, StoreBusy
from backstory.model import Error, Event, Outcome, Turn
from backstory.spool import MARKER, Run, SessionLock, Spool, waiting, write_private
from backstory.store import FinishedRun, Store, open_store
from backstory.store.runs import STDERR, STDOUT, RunLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from backstory.agents import Ending, Runnable, StreamReader
    from backstory.store import Session

POLL_S = 0.025
INTERRUPT_S = 5.0
"""So long an agent may take to stop when asked; then it is ended with all that it started."""
SPOOLS, LOCKS, POINTERS = "spool", "locks", "projects"
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

        KeyboardInterrupt stops the agent: once asks it to, twice ends it. Errors: EmptyPrompt, AgentMissing,
        AgentCannotRun, SessionBusy.
        """
        if not request.prompt.strip():
            raise EmptyPrompt
        agent = runnable(request.agent)
        executable = _found(agent, request.executable, self._environ)
        lock = SessionLock(self._home / LOCKS, session.uid)
        if not lock.take():
            raise SessionBusy(session.shown_number or session.uid, lock.holder)
        try:
            return self._run_locked(store, session, request, agent, executable, show)
        finally:
            lock.release()

    def check(self, request: Request) -> None:
        """Whether a request could be run at all, before anything is made for it."""
        if not request.prompt.strip():
            raise EmptyPrompt
        _found(runnable(request.agent), request.executable, self._environ)

    def remember_project(self, store: Store) -> None:
        """Note where a project's store lies, so that it can be made again if it is lost."""
        pointer = self._home / POINTERS / store.id
        if not pointer.exists():
            pointer.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(pointer, str(store.path).encode())

    def bring_back(self, store: Store) -> int:
        """Make a project's store again that was here and is gone; gives how many sessions came back."""
        pointers = self._home / POINTERS
        if store.exists or not pointers.is_dir():
            return 0
        for pointer in pointers.iterdir():
            if pointer.read_text("utf-8") == str(store.path):
                return store.rebuild_from(self._home_store, pointer.name)
        return 0

    def take_up(self) -> int:
        """Store what runs whose runner died have left, once they are over; gives how many that were."""
        stored = 0
        for spool in waiting(self._home / SPOOLS):
            run = spool.run
            if run is None and spool.age_s() > ORPHAN_S:
                spool.remove()
            if run is None or spool.is_alive:
                continue
            lock = SessionLock(self._home / LOCKS, run.session_uid)
            if not lock.take():
                continue
            try:
                # While we waited for the lock its runner may have stored and removed it.
                if spool.folder.exists():
                    finished = _finished(spool, run, _exit_unknown(spool), self._now())
                    with open_store(run.store, now=self._now) as store:
                        stored += self._store(store, finished, spool)
            finally:
                lock.release()
        return stored

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

    def _store(self, store: Store, finished: FinishedRun, spool: Spool) -> int:
        """Store a run where it belongs and in the machine's store; its spool goes when both have it.

        A busy machine's store is left for the next command: the run is safe where it belongs. Gives 1 if it was new.
        """
        is_new = 0
        try:
            if store.exists:
                is_new = store.store_run(finished) is not None
                self._home_store.hand_over(store, finished)
        except (StoreBusy, SessionNotFound):
            return int(is_new)
        spool.remove()
        return int(is_new)

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
        """Show what comes until the agent has ended and nothing is left of it."""
        stopping = _Stopping(spool, request.silence_s)
        with spool.stdout.open("rb") as stdout, spool.stderr.open("rb") as stderr:
            tails = {stdout: b"", stderr: b""}
            is_over = False
            while True:
                try:
                    is_over = process.poll() is not None
                    came = False
                    for file in tails:
                        data = file.read()
                        came = came or bool(data)
                        *lines, tails[file] = (tails[file] + data).split(b"\n")
                        for line in lines:
                            shown = _shown(reader, line, is_error=file is stderr)
                            if shown is not None:
                                show(shown)
                    if is_over and not came:
                        break
                    stopping.look(came=came)
                    if not came:
                        time.sleep(POLL_S)
                except KeyboardInterrupt:
                    stopping.ask()
        spool.kill()
        code = process.returncode
        return Exit(
            code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            was_cancelled=stopping.was_asked or spool.was_cancelled,
        )


class _Stopping:
    """When and how hard an agent is stopped: asked first, ended when it does not listen."""

    def __init__(self, spool: Spool, silence_s: float) -> None:
        self._spool, self._silence_s = spool, silence_s
        self._last_word = time.monotonic()
        self._asked: float | None = None

    @property
    def was_asked(self) -> bool:
        return self._asked is not None

    def ask(self) -> None:
        """Ask it to stop; the second time, end it."""
        if self._asked is not None:
            self._spool.kill()
            return
        self._asked = time.monotonic()
        self._spool.interrupt()

    def look(self, *, came: bool) -> None:
        """Note whether something came, and act when nothing does for too long."""
        now = time.monotonic()
        self._last_word = now if came else self._last_word
        if self._asked is not None and now - self._asked > INTERRUPT_S:
            self._spool.kill()
        elif self._asked is None and 0 < self._silence_s < now - self._last_word:
            self.ask()


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
