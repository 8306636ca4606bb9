"""The command line as people and scripts meet it: another process, with a home folder of its own."""

from __future__ import annotations

import functools
import gc
import json
import os
import signal
import sys
import threading
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory import __main__ as program
from tests.support import forked
from tests.support.forked import COMMAND, run
from tests.support.machines import case, place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

INSIDE = {
    "backup", "board", "branches", "chronicle", "config", "context", "diff", "doctor", "export", "help", "import",
    "ingest", "list", "optimize", "project", "prune", "reindex", "rename", "scan", "search", "show", "sql", "stats",
    "tree", "verify",
}  # fmt: skip
"""Commands that start nothing that outlives them: in a process of their own they do the same."""


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
            return _inside([os.fspath(each) for each in args], typed or "", self.cwd, self.environ | environ)
        done = run(
            [*COMMAND, *args], cwd=self.cwd, env=self.environ | environ, given=(typed or "").encode(), timeout=120
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def put(self, *names: str) -> None:
        for name in names:
            path = self.home / place(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(case(name))


def is_long() -> bool:
    return bool(os.environ.get("BACKSTORY_STARTED"))


def _inside(words: Sequence[str | bytes], typed: str, cwd: Path, environ: Mapping[str, str]) -> Done:
    """A command in this process, and what it prints."""
    given, out, err = (os.memfd_create("standard") for _ in range(3))
    os.write(given, typed.encode())
    os.lseek(given, 0, os.SEEK_SET)
    code = inside([os.fsdecode(each) for each in words], (given, out, err), cwd, environ)
    said = []
    for file in (out, err):
        with open(file, "rb") as whole:  # noqa: PTH123 - it has no path
            whole.seek(0)
            said.append(whole.read().decode())
    os.close(given)
    return Done(code, *said)


def inside(words: list[str], files: tuple[int, int, int], cwd: Path, environ: Mapping[str, str]) -> int:
    """A command in this process, as if in one of its own: with its files, variables and folder, and nothing cached."""
    before = {*threading.enumerate()}
    code: object = None
    with _files(*files), _place(cwd, environ), _interpreter(words):
        try:
            program.main()
        except SystemExit as ended:
            code = ended.code
        for thread in {*threading.enumerate()} - before:
            if not thread.daemon:
                thread.join()
        sys.stdout.flush()
        sys.stderr.flush()
    return code if isinstance(code, int) else 0


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
def _place(cwd: Path, environ: Mapping[str, str]) -> Iterator[None]:
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
    return [each for module in ours for each in vars(module).values() if hasattr(type(each), "cache_clear")]
