"""Commands on a terminal of their own, in whose foreground they are, as a person has them."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import termios
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.support import forked
from tests.support.going import DEADLINE_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Self

ROWS = 40
LOCAL_MODES = 3


class Terminal:
    """One command, the leader of a session whose terminal this is.

    ``is_copied``: a copy of a process that has imported everything; it has the terminal, but not as its session's.
    """

    def __init__(
        self, words: Sequence[str], cwd: Path, environ: Mapping[str, str], *, width: int = 100, rows: int = ROWS,
        is_copied: bool = False, has_colours: bool = False,
    ) -> None:  # fmt: skip
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, width, 0, 0))
        self._seen = b""
        self.before = self.modes()
        """The modes before the command began, which it may change at once."""
        plain = {} if has_colours else {"NO_COLOR": "1"}
        given: dict[str, Any] = {} if is_copied else {"preexec_fn": lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)}
        self.process = forked.Process(
            [*words], cwd=cwd, env={"TERM": "xterm-256color", **plain, **environ}, stdin=self._theirs,
            stdout=self._theirs, stderr=self._theirs, start_new_session=True, **given,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=DEADLINE_S)
        os.close(self._ours)
        os.close(self._theirs)

    def echoes(self) -> bool:
        """Whether what is typed is shown."""
        return bool(termios.tcgetattr(self._theirs)[LOCAL_MODES] & termios.ECHO)

    def modes(self) -> list[Any]:
        """The modes of the terminal."""
        return termios.tcgetattr(self._theirs)

    def typed_ahead(self) -> int:
        """How many bytes somebody could read who reads next."""
        return int(struct.unpack("i", fcntl.ioctl(self._theirs, termios.FIONREAD, b"\0" * 4))[0])

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def hang_up(self) -> None:
        """Be gone, as a window that is closed."""
        os.close(self._theirs)
        os.close(self._ours)
        self._ours, self._theirs = (os.open(os.devnull, os.O_RDWR) for _ in range(2))

    def until(self, words: str, times: int = 1) -> str:
        """All that was shown so far, once these words are among it so often."""
        while self.shown.count(words) < times:
            self._seen += os.read(self._ours, 65536)
        return self.shown

    def end(self) -> str:
        """Wait for the command's end; all that was shown."""
        os.set_blocking(self._ours, False)
        # A terminal reads while it waits: a program whose output nobody takes does not end.
        over = time.monotonic() + DEADLINE_S
        while self.process.poll() is None and time.monotonic() < over:
            self._take()
            time.sleep(0.01)
        self.process.wait(timeout=1)
        self._take()
        return self.shown

    def _take(self) -> None:
        with suppress(OSError):
            while block := os.read(self._ours, 65536):
                self._seen += block

    @property
    def shown(self) -> str:
        return self._seen.decode("utf-8", "replace").replace("\r\n", "\n")
