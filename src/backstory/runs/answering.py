"""One answer of an agent to a prompt of ours: without tools, in an empty folder, stored nowhere."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from backstory import agents
from backstory.agents.bounded import stream_reader
from backstory.agents.contract import Exit
from backstory.errors import AgentNotStarted, TemporaryFolderUnusable
from backstory.model import PARTIAL, AssistantText, Complete, Error, Outcome, Tokens
from backstory.runs import process as processes
from backstory.runs.stopping import Terminated
from backstory.runs.stream import outputs, program, run_part

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backstory.model import Event

GRACE_S = 5.0
"""The time in which an agent must end after it was asked to."""
OUTPUT_BYTES_MAX = 64 * 1024 * 1024
"""An agent that writes more than this for one answer is ended."""
LOOK_S = 0.5
PREFIX, WORK = "backstory-answer-", "work"
LEFT_S = 3_600.0
"""A folder this old that no agent works in was left by a process that was killed."""


class Question(Struct, frozen=True, kw_only=True):
    """A question to an agent. ``executable``: its program, if set; ``timeout_s``: the most time for the answer."""

    agent: str
    prompt: str
    model: str | None = None
    executable: str | None = None
    timeout_s: float = 600.0


class AgentAnswer(Struct, frozen=True, kw_only=True):
    """An agent's answer, its tokens and cost. ``error``: the reason why there is none; None if it ended well.

    ``tokens`` has all of them, or none: of a part it is not known how many there were.
    """

    text: str
    error: str | None = None
    model: str | None = None
    tokens: Tokens = field(default_factory=Tokens)
    cost_usd: float | None = None


def ask(question: Question, environ: Mapping[str, str]) -> AgentAnswer:
    """Ask an agent, and wait for its answer; what it started is ended with it, also where the wait is interrupted.

    Raises UnknownAgent, AgentCannotRun, AgentMissing, AgentNotStarted, TemporaryFolderUnusable.
    """
    executable = program(question.agent, question.executable, environ)
    command = run_part(question.agent).answer_command(executable, model=question.model)
    try:
        _remove_left(Path(tempfile.gettempdir()), question.agent, environ)
        # What its agent made there may not be removable; the answer counts all the same.
        with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder:
            try:
                return _ask_in(Path(folder), question, command, environ)
            finally:
                _remove_places(Path(folder), question.agent, environ)
    except OSError as refused:
        raise TemporaryFolderUnusable(refused.strerror or str(refused)) from refused


def _remove_left(folder: Path, agent: str, environ: Mapping[str, str]) -> None:
    """Remove what killed processes left: it holds what their agents were asked."""
    for left in folder.glob(f"{PREFIX}*"):
        with suppress(OSError):
            found = left.lstat()
            is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
            is_old = time.time() - found.st_mtime > LEFT_S
            if is_ours and is_old and not processes.of_run(left.name):
                _remove_places(left, agent, environ)
                shutil.rmtree(left, ignore_errors=True)


def _remove_places(folder: Path, agent: str, environ: Mapping[str, str]) -> None:
    """Remove what the agent made among its own folders for an answer, as far as nothing is in it.

    The name of the answer's folder is random, so these have its name only because of it.
    """
    home = Path(environ.get("HOME") or Path.home())
    for each in run_part(agent).answer_folders(environ, home, (folder / WORK).resolve()):
        with suppress(OSError):
            each.rmdir()


def _ask_in(folder: Path, question: Question, command: list[str], environ: Mapping[str, str]) -> AgentAnswer:
    asked, said, errors = (folder / name for name in ("prompt", "stdout", "stderr"))
    asked.write_bytes(question.prompt.encode("utf-8", "surrogatepass"))
    # The agent works in a folder of its own, where it finds nothing to read or to change.
    cwd = folder / WORK
    cwd.mkdir()
    with asked.open("rb") as stdin, said.open("wb") as stdout, errors.open("wb") as stderr:
        try:
            process = processes.start(command, folder.name, cwd, environ, stdin=stdin, stdout=stdout, stderr=stderr)
        except OSError as refused:
            raise AgentNotStarted(question.agent, command[0], refused.strerror or str(refused)) from refused
        with _stopped_by_signals():
            try:
                why = _wait(process, question.timeout_s, (said, errors))
            finally:
                _end(process, folder.name)
    return AgentAnswer(text="", error=why) if why else _answer(question, folder, process.returncode)


def _terminate(_number: int, _frame: object) -> None:
    raise Terminated


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """While an agent answers, what would end this process acts like Ctrl-C: the agent is ended first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = [name for name in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(name) is signal.SIG_DFL]
    for name in names:
        signal.signal(name, _terminate)
    try:
        yield
    finally:
        for name in names:
            signal.signal(name, signal.SIG_DFL)


def _wait(process: subprocess.Popen[bytes], seconds: float, outputs: Sequence[Path]) -> str:
    """Wait for an agent's end; returns why that was given up, else ''."""
    deadline = time.monotonic() + seconds
    while not _ends_within(process, min(LOOK_S, max(deadline - time.monotonic(), 0.0))):
        if time.monotonic() >= deadline:
            return f"there was no answer within {seconds:.0f} s"
        if sum(path.stat().st_size for path in outputs) > OUTPUT_BYTES_MAX:
            return f"the agent wrote more than {OUTPUT_BYTES_MAX // 1024**2} MB"
    return ""


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(process: subprocess.Popen[bytes], run: str) -> None:
    """End an agent that still runs, and whatever it started; a further interrupt ends them at once."""
    if process.poll() is None:
        with suppress(OSError, KeyboardInterrupt):
            os.killpg(process.pid, signal.SIGTERM)
            _ends_within(process, GRACE_S)
    if process.poll() is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    # Its children may be in process groups of their own: their environment tells them.
    deadline = time.monotonic() + GRACE_S
    while (left := processes.of_run(run)) and time.monotonic() < deadline:
        for pid in left:
            processes.send(pid, signal.SIGKILL)
        process.poll()
    process.wait()


def _answer(question: Question, folder: Path, code: int) -> AgentAnswer:
    reader = stream_reader(agents.load(question.agent))
    events: list[Event] = []
    for output in outputs(folder, reader):
        with closing(output):
            events += [event for record in output.rest() for _, event in record.events]
    ending = reader.ended(Exit(code=code if code >= 0 else None, signal=-code if code < 0 else None))
    failures = [event.message for event in events if isinstance(event, Error)]
    error = failures[-1] if failures else ending.error
    # An error that the agent got over is no reason to refuse its answer.
    if ending.outcome == Outcome.COMPLETED and code == 0 and not _has_failed(events):
        error = None
    return AgentAnswer(
        text="\n\n".join(event.text for event in events if isinstance(event, AssistantText)).strip(),
        error=None if error is None and ending.outcome == Outcome.COMPLETED else error or "the agent failed",
        model=ending.model,
        # A summary has no mark for a sum that lacks a part, so such a sum is not kept.
        tokens=Tokens() if ending.tokens_source == PARTIAL else ending.tokens,
        cost_usd=ending.cost_usd,
    )


def _has_failed(events: list[Event]) -> bool:
    return any(isinstance(event, Complete) and not event.success for event in events)
