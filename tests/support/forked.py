"""``python -m backstory`` as a process that need not import it first: a copy of one that has imported everything.

Such a process differs from one that is started in nothing but its age: it has arguments, variables, a folder and
standard files of its own, is a child of whoever asked for it, and ends like any other. What is asked of the
interpreter itself (options, other variables for it, what is imported when) needs a process that is started.
"""

from __future__ import annotations

import array
import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

COMMAND = (sys.executable, "-m", "backstory")
MCP = "mcp"
"""The command whose SDK takes as much memory as all the rest: to copy a process takes longer the more it has."""
COPIED = "# This may run in a copy of a process that has imported all of backstory.\n"
"""The first line of a program for ``python -c`` that may: what it replaces must be asked of its module or class."""
CLIENTS = "tests.support.real_clients"
"""What programs beside the real clients need: only processes in a namespace are such."""
PURE = ("backstory.derive.", "backstory.conversation.")
"""Rooms whose functions return the same on every machine: what they remember is as good in any command."""
CLONE, CLONE_PARENT = 56, 0x8000
"""The number of the system call on this kind of machine, and the flag for a child of the caller's parent."""
UTF_8 = ("C.UTF-8", "en_US.UTF-8")
REQUEST_MAX = 1 << 20


Popen = subprocess.Popen
"""Not the one that a test may have put in its place."""
STARTED: list[Process] = []
"""What the test that runs has started."""


class Process(Popen[Any]):
    """A process as ``subprocess.Popen`` starts it, or a copy of one where that is the same."""

    def __init__(self, *given: Any, within: Sequence[str] = (), **named: Any) -> None:
        """``within``: the command that starts another one in a namespace, to be in that."""
        self.home = str((named.get("env") or {}).get("BACKSTORY_HOME", ""))
        self._within = tuple(within)
        super().__init__(*given, **named)
        STARTED.append(self)

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *more: Any) -> None:
        _, pass_fds, cwd, env, _, _, shell, in_read, in_write, out_read, out_write, err_read, err_write, *rest = more
        _, gid, gids, uid, umask, new_session, group = rest
        variables = {
            os.fsdecode(each): os.fsdecode(value) for each, value in (os.environ if env is None else env).items()
        }
        words = [os.fsdecode(word) for word in args] if isinstance(args, list) else []
        is_program = words[:2] == [sys.executable, "-c"] and "".join(words[2:3]).startswith(COPIED)
        program = words[2] if is_program else ""
        request = json.dumps([words[3:], variables, os.fsdecode(cwd or Path.cwd()), bool(new_session), program])
        is_plain = (preexec_fn, executable, gid, gids, uid, umask, group) == (None, None, None, None, None, -1, -1)
        is_plain = is_plain and not pass_fds and not shell and len(request) < REQUEST_MAX // 8
        is_ours = is_program or tuple(words[: len(COMMAND)]) == COMMAND
        if not is_plain or not is_ours or not is_usual(variables):
            super()._execute_child(self._started(args), executable, preexec_fn, *more)  # type: ignore[misc]
            return
        files = [own if own != -1 else number for number, own in enumerate((in_read, out_write, err_write))]
        try:
            server = _server_of(os.getpid(), self._within, MCP in words[3:4])
            self.pid = server.copy(request, files)
        except OSError:
            # A machine that lets nobody copy a process this way is slower, and no worse.
            super()._execute_child(self._started(args), executable, preexec_fn, *more)  # type: ignore[misc]
            return
        self._child_created = True
        devnull = getattr(self, "_devnull", None)
        for ours, other in ((in_read, in_write), (out_write, out_read), (err_write, err_read)):
            if ours != -1 and other != -1 and ours != devnull:
                os.close(ours)
        if devnull is not None:
            os.close(devnull)
        self._closed_child_pipe_fds = True

    def _started(self, args: Any) -> Any:
        return [*self._within, *args] if self._within else args


def run(
    words: list[Any], *, given: bytes | None = None, timeout: float, **how: Any
) -> subprocess.CompletedProcess[bytes]:
    """The same to its end, like ``subprocess.run``."""
    with Process(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how) as process:
        try:
            out, err = process.communicate(given, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def is_usual(variables: Mapping[str, str]) -> bool:
    """Whether the interpreter, its locale and its clock begin with these variables as they did where we copy."""
    if sys.platform != "linux" or os.uname().machine != "x86_64" or os.environ.get("BACKSTORY_STARTED"):
        return False
    locale = variables.get("LC_ALL") or variables.get("LC_CTYPE") or variables.get("LANG") or ""
    return locale in UTF_8 and not any(name.startswith(("PYTHON", "LD_", "MALLOC")) for name in variables)


class _Server:
    """The process that is copied. One belongs to one process of the tests, and to a namespace."""

    def __init__(self, within: Sequence[str], *more: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * REQUEST_MAX)
        self._socket = ours
        self._process = Popen(
            [*within, sys.executable, "-m", "tests.support.forked", str(theirs.fileno()), *more],
            pass_fds=[theirs.fileno()], cwd=Path(__file__).parent.parent.parent, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "LC_ALL": UTF_8[0]},
        )  # fmt: skip
        theirs.close()
        self._owner = os.getpid()
        atexit.register(self._end)

    def _end(self) -> None:
        # A fork of the process that started it has copies of both, and no right to end it.
        if os.getpid() == self._owner:
            self._socket.close()
            self._process.kill()
            self._process.wait()

    def copy(self, request: str, given: list[int]) -> int:
        """Begin a process with these standard files; returns its number, of a child of ours. Raises OSError."""
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", given))
        self._socket.sendmsg([request.encode()], [rights])
        pid = int(self._socket.recv(20) or b"-1")
        if pid <= 0:
            raise OSError("no process was copied")
        return pid


@cache
def _server_of(_pid: int, within: tuple[str, ...], has_sdk: bool) -> _Server:
    """The one of the process with this number, which is ours: a fork of it has one of its own."""
    return _Server(within, *([MCP] if has_sdk else []), *([CLIENTS] if within else []))


# the process that is copied -----------------------------------------------------------------------------------------


def _serve(number: int) -> str:
    """Copy ourselves for each request, until nobody asks any more; a copy returns its program, if it has one."""
    here = socket.socket(fileno=number)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    while True:
        data, rights, _, _ = here.recvmsg(REQUEST_MAX, socket.CMSG_SPACE(3 * array.array("i").itemsize))
        if not data:
            sys.exit()
        given = array.array("i")
        given.frombytes(rights[0][2])
        ctypes.pythonapi.PyOS_BeforeFork()
        pid = libc.syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            ctypes.pythonapi.PyOS_AfterFork_Child()
            here.close()
            *how, program = json.loads(data)
            _begin(given, *how, option="-c" if program else "-m")
            return str(program)
        ctypes.pythonapi.PyOS_AfterFork_Parent()
        here.send(str(pid).encode())
        for each in given:
            os.close(each)


def _begin(
    given: array.array[int], words: list[str], variables: dict[str, str], folder: str, new_session: bool, *, option: str
) -> None:
    """Become a process with these standard files, arguments and variables."""
    if new_session:
        os.setsid()
    for number, each in enumerate(given):
        os.dup2(each, number)
    for each in given:
        os.close(each)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    open_standard_files("surrogateescape" if "C.UTF-8" in variables.values() else "strict")
    sys.argv = [option, *words]
    sys.orig_argv = [*COMMAND, *words]
    sys.path[0] = folder if option == "-m" else ""


def open_standard_files(errors: str) -> None:
    """Have the standard files be what the interpreter makes of them when it starts."""
    is_shown = os.isatty(1)
    given: dict[str, Any] = {
        "stdin": open(0, encoding="utf-8", errors=errors, closefd=False),  # noqa: SIM115 - open until the process ends
        "stdout": open(1, "w", 1 if is_shown else -1, encoding="utf-8", errors=errors, closefd=False),  # noqa: SIM115
        "stderr": open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False),  # noqa: SIM115
    }
    for name, file in given.items():
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)


def run_as_main(words: Sequence[str]) -> NoReturn:
    """Be ``python -m backstory`` with these arguments, to its end."""
    sys.argv, sys.orig_argv = ["-m", *words], [*COMMAND, *words]
    _end_after(lambda: runpy.run_module("backstory", run_name="__main__", alter_sys=True))


def _end_after(run: Callable[[], object]) -> NoReturn:
    code: object = None
    try:
        run()
    except SystemExit as ended:
        code = ended.code
    # To take everything apart that was imported takes longer than most commands.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)


def _run_program(program: str) -> None:
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(program, "<string>", "exec"), vars(main))


def _import_everything(*more: str) -> None:
    """Import what commands import, compile their expressions, and have no garbage looked for in it.

    ``more``: also what needs the SDK of the MCP, or a module of the tests.
    """
    import inspect
    import pkgutil
    from contextlib import suppress

    import msgspec

    import backstory
    from backstory.lazy import LazyRegex

    for module in pkgutil.walk_packages(backstory.__path__, "backstory."):
        of_mcp = module.name.startswith(f"backstory.{MCP}.")
        if not module.name.endswith("__main__") and (not of_mcp or MCP in more):
            named = vars(importlib.import_module(module.name))
            for expression in [each for each in named.values() if type(each) is LazyRegex]:
                # The first use compiles it.
                assert expression.search
            for struct in [each for each in named.values() if isinstance(each, msgspec.StructMeta)]:
                with suppress(NameError, TypeError):
                    # What its fields are is looked up once, by the first decoder.
                    msgspec.json.Decoder(struct)
            for cached in [each for each in named.values() if hasattr(type(each), "cache_clear")]:
                if module.name.startswith(PURE) and not inspect.signature(cached).parameters:
                    cached()
    for module_of_tests in more:
        if module_of_tests != MCP:
            importlib.import_module(module_of_tests)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _import_everything(*sys.argv[2:])
    program = _serve(int(sys.argv[1]))
    if program:
        _end_after(lambda: _run_program(program))
    run_as_main(sys.argv[1:])
