"""The only place that starts git.

A repository may be hostile: its configuration and attributes name programs, and its files may never end. No such
program runs: no hook, pager, editor, monitor, filter, converter, difference, signature, proxy or password program.
Nothing is fetched or written, not even git's index. What git prints is read up to a bound, and its time is bounded.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, NamedTuple

from backstory.errors import GitFailed, NoGit
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SECONDS = 60.0
NO_FILTER = ("unspecified", "unset", "")
"""Values of the attribute ``filter`` with which git reads a file as it is, and no program runs."""
"""All calls of one object together take no longer."""
SETTINGS_SECONDS = 10.0
"""Git reads its settings in no longer: one of them may be a file that never ends."""
OUTPUT_BYTES_MAX = 64 << 20
ERROR_BYTES_MAX = 16 << 10
_READ_BYTES = 1 << 16
_SAFE = (
    "core.alternateRefsCommand=false", "core.askPass=", "core.attributesFile=", "core.editor=false",
    "core.excludesFile=", "core.fsmonitor=", "core.gitProxy=", "core.hooksPath=/dev/null", "core.pager=cat",
    "core.quotePath=false", "core.sshCommand=false", "core.untrackedCache=false", "color.ui=false",
    "credential.helper=", "diff.autoRefreshIndex=false", "diff.external=", "diff.ignoreSubmodules=all",
    "diff.orderFile=/dev/null", "gc.auto=0", "gpg.program=false",
    "gpg.openpgp.program=false", "gpg.ssh.program=false", "gpg.ssh.defaultKeyCommand=false",
    "gpg.x509.program=false", "log.mailmap=false", "log.showRoot=true", "log.showSignature=false",
    "mailmap.blob=", "mailmap.file=", "maintenance.auto=false", "protocol.allow=never",
    "safe.bareRepository=explicit", "sequence.editor=false", "status.submoduleSummary=false",
    "submodule.recurse=false", "uploadpack.packObjectsHook=",
)  # fmt: skip
"""Settings that would run a program, read a file from anywhere, or change what is printed."""
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_KEPT = ("HOME", "XDG_CONFIG_HOME", "TMPDIR")
"""The only variables passed to git, with PATH: others could name another repository, or programs."""
_SET = {
    "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "",
    "GIT_PAGER": "cat", "GIT_EDITOR": "false", "GIT_ASKPASS": "false", "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1", "LC_ALL": "C.UTF-8",
}  # fmt: skip
_FILTER = lazy_regex(r"filter\.(.+)\.(?:clean|smudge|process|required)", re.DOTALL)


class Told(NamedTuple):
    """Output of git. ``cut``: the reason that it is not complete, as a clause; None if it is."""

    text: str
    cut: str | None = None


class GitProgram:
    """Git in a folder, for one command of ours. ``root``: of the repository, which never gives the program itself.

    ``seconds``: what all calls may take together.
    """

    def __init__(self, root: Path, environ: Mapping[str, str], *, seconds: float = SECONDS) -> None:
        self._root, self._seconds, self._left = root, seconds, seconds
        path = _safe_path(root, environ)
        self._program = which("git", path=path) if path else None
        self._environ = {name: environ[name] for name in _KEPT if environ.get(name)} | _SET | {"PATH": path}

    def ask(self, *words: str, given: str = "", allowed: Sequence[int] = (0,)) -> str:
        """Return all that git prints, '' for an exit code other than 0. Raises NoGit and GitFailed."""
        output = self.begin(*words, given=given, allowed=allowed, share=1)
        if output.cut is not None:
            raise GitFailed(output.cut)
        return output.text

    def begin(
        self, *words: str, given: str = "", allowed: Sequence[int] = (0,), share: float = 0.5, bytes_max: int = 0
    ) -> Told:
        """Return git's output, as far as it comes within a share of the time left, and within ``bytes_max``.

        Raises NoGit, and GitFailed for an exit code that is not among those ``allowed``.
        """
        return self._call([*self._settings, *words], given, allowed, self._left * share, bytes_max or OUTPUT_BYTES_MAX)

    @cached_property
    def _settings(self) -> list[str]:
        """Settings that switch off what would run programs, those of this repository's own filters among them."""
        words = [word for each in _SAFE for word in ("-c", each)]
        asked = [*words, "config", "--null", "--name-only", "--get-regexp", r"^filter\."]
        output = self._call(asked, "", (0, 1), min(self._left, SETTINGS_SECONDS), OUTPUT_BYTES_MAX)
        if output.cut is not None:
            raise GitFailed(f"its settings cannot be read: {output.cut}")
        names = dict.fromkeys(found.group(1) for each in output.text.split("\0") if (found := _FILTER.fullmatch(each)))
        if any("=" in name for name in names):
            # Git takes what is behind the first = for the value, so such a filter would stay on.
            raise GitFailed("a filter in its settings has = in its name")
        off = [f"filter.{name}.{key}" for name in names for key in ("clean=", "smudge=", "process=", "required=false")]
        return [*words, *(word for each in off for word in ("-c", each))]

    def _call(self, words: Sequence[str], given: str, allowed: Sequence[int], seconds: float, bytes_max: int) -> Told:
        if self._program is None:
            raise NoGit
        begun, process = time.monotonic(), None
        try:
            with tempfile.TemporaryFile() as stdin:
                stdin.write(given.encode("utf-8", "surrogateescape"))
                stdin.seek(0)
                with _held_signals():
                    process = subprocess.Popen(
                        [self._program, "--no-pager", *words], cwd=self._root, env=self._environ, stdin=stdin,
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                    )  # fmt: skip
            with process:
                out, said, cut = _output(process, begun + seconds, bytes_max)
        except FileNotFoundError as refused:
            raise NoGit from refused
        except (OSError, ValueError) as refused:
            raise GitFailed(str(refused)) from refused
        finally:
            if process is not None:
                _end(process)
            self._left = max(0.0, self._left - (time.monotonic() - begun))
        if cut is not None:
            return Told(_text(out), f"git printed more than {bytes_max >> 20} MB" if cut == "bytes"
                        else f"git took longer than {max(seconds, 1):.0f} s")  # fmt: skip
        if process.returncode not in allowed:
            lines = _text(said).strip().splitlines()
            raise GitFailed(lines[0] if lines else f"exit code {process.returncode}")
        return Told(_text(out) if process.returncode == 0 else "")


@contextmanager
def _held_signals() -> Iterator[None]:
    """Handle a signal that interrupts us at the end: git may work before anybody here knows its process."""
    # Only the main thread handles signals, and only it may say how.
    numbers = STOPS if threading.current_thread() is threading.main_thread() else ()
    before = {number: handler for number in numbers if callable(handler := signal.getsignal(number))}
    came: list[int] = []
    try:
        for number in before:
            signal.signal(number, lambda number, _: came.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in came:
            signal.raise_signal(each)


def _output(process: subprocess.Popen[bytes], until: float, bytes_max: int) -> tuple[bytearray, bytearray, str | None]:
    """The output of a process, the beginning of its errors, and what cut it off: ``bytes`` or ``time``."""
    assert process.stdout is not None and process.stderr is not None
    kept = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    out, said = kept.values()
    try:
        with selectors.DefaultSelector() as selector:
            for each in kept:
                selector.register(each, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(max(0.0, until - time.monotonic()))
                for key, _ in ready:
                    if block := os.read(key.fd, _READ_BYTES):
                        kept[key.fd] += block
                    else:
                        selector.unregister(key.fd)
                del said[ERROR_BYTES_MAX:]
                if len(out) > bytes_max:
                    del out[bytes_max:]
                    return out, said, "bytes"
                if not ready:
                    return out, said, "time"
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return out, said, "time"
        return out, said, None
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End git and what it started, unless it has ended by itself."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _safe_path(root: Path, environ: Mapping[str, str]) -> str:
    """PATH without relative folders and those below the repository: programs there are the repository's."""
    home = Path(environ.get("HOME") or "/nonexistent")
    # A person may keep the home itself in git: its programs are that person's.
    own = home == root or root in home.parents
    folders = [each for each in environ.get("PATH", os.defpath).split(os.pathsep) if Path(each).is_absolute()]
    return os.pathsep.join(each for each in folders if own or not _is_below(each, root))


def _is_below(folder: str, root: Path) -> bool:
    with suppress(OSError, ValueError, RuntimeError):
        return Path(folder).resolve().is_relative_to(root.resolve())
    return True


def _text(given: bytearray) -> str:
    return given.decode("utf-8", "replace")
