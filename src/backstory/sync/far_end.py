"""Another machine over ssh: the person's own program, started with a list of arguments, and backstory at its far end.

A name that ssh could take for an option, or a shell for a command, is refused before anything is started.
"""

from __future__ import annotations

import re
import subprocess
import threading
from collections import deque
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from backstory.errors import FarEndBroken, FarEndLacks, FarEndOther, FarEndUnreachable, FarNameUnusable, NoSsh
from backstory.lazy import lazy_regex
from backstory.sync.wire import PROTOCOL, greeting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from backstory.sync.wire import Hello

SCHEME = "ssh://"
PROGRAM = "backstory"
CONNECT_S, ALIVE_S = 20, 15
"""The longest wait for a connection, and the time between two signs that it is there."""
END_S = 10.0
PORT_MAX = 65_535
LINES_KEPT, LINE_BYTES_MAX, LINES_MAX = 20, 2_000, 1_000
"""Bounds of the lines beside the answers: the last ones are kept; longer and later ones are not shown."""
NOT_FOUND, USAGE, SSH_FAILED = 127, 2, 255
"""Exit codes of ssh: those of the far end's shell and of backstory there, and its own."""
_USER = lazy_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_HOST = lazy_regex(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?", re.ASCII)
_ADDRESS = lazy_regex(r"\[([0-9A-Fa-f:.]{2,45})\]", re.ASCII)
_PROGRAM = lazy_regex(r"(?:~/|/)?[A-Za-z0-9_.][A-Za-z0-9_./+-]{0,199}", re.ASCII)


class FarAddress(Struct, frozen=True, kw_only=True):
    """A machine: its host, and user and port where they were given."""

    host: str
    user: str = ""
    port: int | None = None

    @property
    def name(self) -> str:
        """The machine, as ssh is told it."""
        return f"{self.user}@{self.host}" if self.user else self.host


def far_address(text: str) -> FarAddress:
    """Read ``ssh://USER@HOST:PORT``. Raises FarNameUnusable.

    >>> far_address("ssh://me@desk.local:2222").name
    'me@desk.local'
    """
    rest = text.removeprefix(SCHEME).removesuffix("/")
    user, is_given, place = rest.rpartition("@")
    host, colon, port = place.rpartition(":")
    if not colon or _ADDRESS.fullmatch(place):
        host, colon, port = place, "", ""
    address = _ADDRESS.fullmatch(host)
    if address is None and not _HOST.fullmatch(host):
        raise FarNameUnusable(text)
    if is_given and not _USER.fullmatch(user):
        raise FarNameUnusable(text)
    if colon and not (port.isascii() and port.isdigit() and 0 < len(port) <= 5 and 0 < int(port) <= PORT_MAX):
        raise FarNameUnusable(text)
    return FarAddress(host=address[1] if address else host, user=user, port=int(port) if port else None)


def ssh_words(address: FarAddress, program: str, *, may_ask: bool) -> list[str]:
    """Return the arguments that ssh is started with. ``may_ask``: a person is there, whom it may ask for a password.

    Raises FarNameUnusable for a program that the far end's shell could take for more than one.
    """
    if not _PROGRAM.fullmatch(program):
        raise FarNameUnusable(program)
    words = ["ssh", "-T", "-o", f"ConnectTimeout={CONNECT_S}", "-o", f"ServerAliveInterval={ALIVE_S}"]
    words += ["-o", f"BatchMode={'no' if may_ask else 'yes'}", "-o", "ClearAllForwardings=yes"]
    words += [] if address.port is None else ["-p", str(address.port)]
    return [*words, "--", address.name, program, "pull", "--serve"]


class FarEnd:
    """A far end that runs; its greeting was read. ``report`` gets what it says beside its answers, a line each."""

    def __init__(
        self, address: FarAddress, program: str, environ: Mapping[str, str], report: Callable[[str], None], *,
        may_ask: bool,
    ) -> None:  # fmt: skip
        self._address, self._program, self._report = address, program, report
        self._said = deque[str](maxlen=LINES_KEPT)
        words = ssh_words(address, program, may_ask=may_ask)
        try:
            self._process = subprocess.Popen(
                words, env=dict(environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except FileNotFoundError as refused:
            raise NoSsh from refused
        except OSError as refused:
            raise FarEndUnreachable(address.name, refused.strerror or str(refused)) from refused
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def answers(self) -> IO[bytes]:
        """The stream of what it answers."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def asked(self) -> IO[bytes]:
        """The stream of what it is asked."""
        assert self._process.stdin is not None
        return self._process.stdin

    def greet(self) -> Hello:
        """Read its greeting. Raises FarEndUnreachable, FarEndLacks, FarEndOther, FarEndBroken."""
        hello = greeting(self.answers)
        if hello is None:
            raise self._why_silent()
        if hello.protocol != PROTOCOL:
            raise FarEndOther(self._address.name, hello.made_by, is_newer=hello.protocol > PROTOCOL)
        return hello

    def close(self) -> None:
        """End it; it has nothing to lose."""
        for stream in (self._process.stdin, self._process.stdout):
            try:
                if stream is not None:
                    stream.close()
            except OSError:
                continue
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(END_S)
        if self._process.stderr is not None and not self._listener.is_alive():
            self._process.stderr.close()

    def _listen(self) -> None:
        """Report what it says on stderr; past a bound it is read and dropped."""
        stream = self._process.stderr
        assert stream is not None
        shown, size = 0, 0
        while line := stream.readline(LINE_BYTES_MAX):
            text = line.decode("utf-8", "replace").strip()
            self._said.append(text)
            shown, size = shown + 1, size + len(line)
            if text and shown <= LINES_MAX:
                self._report(f"{self._address.host}: {text}")

    def _why_silent(self) -> FarEndLacks | FarEndUnreachable | FarEndOther | FarEndBroken:
        """The reason that it ended without a greeting."""
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return FarEndBroken("it does not greet")
        self._listener.join(END_S)
        said = next((line for line in reversed(self._said) if line), "")
        if code == NOT_FOUND:
            return FarEndLacks(self._address.name, self._program)
        if code == USAGE:
            return FarEndOther(self._address.name, "an older backstory", is_newer=False)
        if code == SSH_FAILED:
            return FarEndUnreachable(self._address.name, said or "ssh gives no reason")
        return FarEndBroken(said or f"it ended with code {code}")
