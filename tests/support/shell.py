"""The command line as people and scripts meet it: another process, with a home folder of its own."""

from __future__ import annotations

import fcntl
import functools
import gc
import json
import os
import pty
import shlex
import signal
import struct
import sys
import termios
import threading
import time
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory import __main__ as program
from backstory import agents
from tests.support import forked
from tests.support.forked import COMMAND, run
from tests.support.machines import case, place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

ENDS_S = 120
INSIDE = {
    "backup", "board", "branch", "branches", "checkout", "chronicle", "compact", "config", "context", "diff", "doctor",
    "export", "followup", "help", "import", "ingest", "list", "login", "logout", "merge", "optimize", "project",
    "prune", "ps", "pull", "push", "queue", "reindex", "rename", "report", "rm", "run", "scan", "search", "secrets",
    "show", "skill", "sql", "stats", "steer", "sync", "team", "tree", "verify",
}  # fmt: skip
"""Commands that do the same in a process of the tests: nobody asks which process they are, or waits for its end."""
INSTALLED = agents._entry_points
"""What other packages bring lies in the folders of the interpreter, of which a command in it has no others."""


class Done(Struct, frozen=True):
    """How a command ended, and what it said where."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


class Shell:
    """Runs commands in a home folder, from a folder in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.cwd = home / "work"
        self.cwd.mkdir(exist_ok=True)
        self.environ = {
            "HOME": str(home), "BACKSTORY_HOME": str(home / "backstory"), "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
        }  # fmt: skip

    @property
    def store(self) -> Path:
        return self.home / "backstory" / "store.db"

    def __call__(self, *args: str | bytes | Path, typed: str | None = None, **environ: str) -> Done:
        if args and args[0] in INSIDE and not is_long():
            return in_this_process([os.fspath(each) for each in args], typed or "", self.cwd, self.environ | environ)
        done = run(
            [*COMMAND, *args], cwd=self.cwd, env=self.environ | environ, given=(typed or "").encode(), timeout=ENDS_S
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def put(self, *names: str) -> None:
        for name in names:
            path = self.home / place(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(case(name))


def words_of(line: str) -> list[str] | None:
    """The words behind ``backstory`` of a line that a shell only splits into words; None for another one."""
    words = shlex.split(line)
    return words[1:] if words[:1] == ["backstory"] and shlex.join(words) == line and not is_long() else None


def is_long() -> bool:
    return bool(os.environ.get("BACKSTORY_STARTED"))


def is_same_inside(environ: Mapping[str, str]) -> bool:
    """Whether a command does here what it does in a process with these variables: no other thread sees its folder."""
    others = [each for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()]
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and not others and not is_long() and forked.is_usual(environ)


def in_this_process(
    words: Sequence[str | bytes], typed: str, cwd: Path | bytes, environ: Mapping[str, str], errors: str = "strict"
) -> Done:
    """A command in this process, and what it prints."""
    given, out, err = (os.memfd_create("standard") for _ in range(3))
    os.write(given, typed.encode())
    os.lseek(given, 0, os.SEEK_SET)
    code = inside([os.fsdecode(each) for each in words], (given, out, err), cwd, environ)
    said = []
    for file in (out, err):
        with open(file, "rb") as whole:  # noqa: PTH123 - it has no path
            whole.seek(0)
            said.append(whole.read().decode(errors=errors))
    os.close(given)
    return Done(code, *said)


def on_a_terminal(
    words: Sequence[str], cwd: Path, environ: Mapping[str, str], *, typed: bytes | None = None, columns: int = 80,
    rows: int = 24,
) -> tuple[int, bytes]:  # fmt: skip
    """How a command ends, and all that reaches its terminal.

    ``typed``: what was typed on it before; None for a command that reads nothing. One that waits for more is
    interrupted in the end.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    given = os.dup(theirs) if typed is not None else os.open(os.devnull, os.O_RDONLY)
    os.write(ours, typed or b"")
    came: list[bytes] = []

    def read() -> None:
        # Linux says EIO when the last writer has closed a terminal.
        with suppress(OSError):
            while data := os.read(ours, 65536):
                came.append(data)

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    try:
        code = _on_files(words, (given, theirs, theirs), cwd, environ)
    finally:
        for file in (given, theirs):
            os.close(file)
        reading.join()
        os.close(ours)
    return code, b"".join(came)


def _on_files(words: Sequence[str], files: tuple[int, int, int], cwd: Path, environ: Mapping[str, str]) -> int:
    if words[:1] and words[0] in INSIDE and is_same_inside(environ):
        with _no_longer_than(ENDS_S):
            return inside([*words], files, cwd, environ)
    stdin, stdout, stderr = files
    command = forked.Process(
        [*COMMAND, *words], stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=environ, start_new_session=True
    )
    return command.wait(ENDS_S)


@contextmanager
def _no_longer_than(seconds: float) -> Iterator[None]:
    """Interrupt what waits for more than there is."""
    too_late = threading.Event()

    def give_up() -> None:
        too_late.set()
        os.kill(os.getpid(), signal.SIGINT)

    ending = threading.Timer(seconds, give_up)
    ending.daemon = True
    ending.start()
    try:
        yield
    finally:
        ending.cancel()
    assert not too_late.is_set(), "it waited for more than there was"


def inside(words: list[str], files: tuple[int, int, int], cwd: Path | bytes, environ: Mapping[str, str]) -> int:
    """A command in this process, as if in one of its own: with its files, variables and folder, and nothing cached."""
    code: object = None
    with _files(*files), _place(cwd, environ), _interpreter(words), _threads() as ours:
        try:
            program.main()
        except SystemExit as ended:
            code = ended.code
        for thread in ours:
            if thread is not ours[0] and not thread.daemon:
                thread.join()
        sys.stdout.flush()
        sys.stderr.flush()
    return code if isinstance(code, int) else 0


@contextmanager
def _threads() -> Iterator[list[threading.Thread]]:
    """This thread, and those that it and they begin: a server in this process begins others meanwhile."""
    ours, start = [threading.current_thread()], threading.Thread.start

    def starting(thread: threading.Thread) -> None:
        if threading.current_thread() in ours:
            ours.append(thread)
        start(thread)

    threading.Thread.start = starting  # type: ignore[method-assign,assignment]
    try:
        yield ours
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


@contextmanager
def _files(*given: int) -> Iterator[None]:
    kept = [(number, os.dup(number)) for number in range(3)]
    streams = {name: getattr(sys, name) for name in ("stdin", "stdout", "stderr")}
    dunders = {f"__{name}__": getattr(sys, f"__{name}__") for name in streams}
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for number, file in enumerate(given):
        os.dup2(file, number)
    forked.open_standard_files("surrogateescape")
    try:
        yield
    finally:
        for name, stream in (streams | dunders).items():
            setattr(sys, name, stream)
        for number, file in kept:
            os.dup2(file, number)
            os.close(file)


@contextmanager
def _place(cwd: Path | bytes, environ: Mapping[str, str]) -> Iterator[None]:
    folder, variables = os.open(".", os.O_RDONLY), dict(os.environ)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(variables)
        time.tzset()
        os.fchdir(folder)
        os.close(folder)


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGPIPE, signal.SIGCONT, signal.SIGTSTP)


@contextmanager
def _interpreter(words: list[str]) -> Iterator[None]:
    """What a command changes of the interpreter is as before when it has ended."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    hooks, argv = (threading.excepthook, sys.unraisablehook), sys.argv
    threshold, freeze = gc.get_threshold(), gc.freeze
    # A command has no garbage collected at its end, which would be that of all tests.
    gc.freeze = lambda: None
    for cached in _caches(len(sys.modules)):
        cached.cache_clear()
    main, sys.modules["__main__"] = sys.modules["__main__"], program
    sys.argv = [str(program.__file__), *words]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        gc.freeze = freeze
        gc.set_threshold(*threshold)
        sys.argv, sys.modules["__main__"] = argv, main
        threading.excepthook, sys.unraisablehook = hooks
        for number, handler in handlers.items():
            signal.signal(number, handler)


@functools.lru_cache(maxsize=1)
def _caches(_modules: int) -> list[Any]:
    """Everything of ours that remembers what it returned, but in rooms that know nothing of a machine."""
    ours = [
        module for name, module in [*sys.modules.items()]
        if name.startswith("backstory") and not name.startswith(forked.PURE)
    ]  # fmt: skip
    found = [each for module in ours for each in vars(module).values() if hasattr(type(each), "cache_clear")]
    return [each for each in found if each is not INSTALLED]
