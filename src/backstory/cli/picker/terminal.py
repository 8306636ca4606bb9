"""The terminal of the picker: keys come in as values, lines go out, and it is left as it was, whatever ends us.

Only what differs from the line before is painted. Nothing but ``output.for_screen`` makes bytes of text, so that no
text acts. Signals that end or stop us act after the terminal was given back.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
from codecs import getincrementaldecoder
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from backstory.cli import output
from backstory.cli.picker.state import Key
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

ENTER = b"\x1b[?1049h\x1b[?2004h\x1b[?7l\x1b[2J"
"""The other screen, pastes with marks around them, and no line that goes on in the next."""
LEAVE = b"\x1b[0m\x1b[?7h\x1b[?2004l\x1b[?25h\x1b[?1049l"
HIDE_CURSOR, SHOW_CURSOR, CLEAR = b"\x1b[?25l", b"\x1b[?25h", b"\x1b[0m\x1b[2J"
ESCAPE_S = 0.05
"""The time after an Escape within which what follows belongs to it."""
LEAVING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
READ_BYTES = 65536
INPUT, LOCAL = 0, 3
"""Places of modes in what ``tcgetattr`` returns."""


class Terminal:
    """A terminal in raw mode while it is entered. ``given``, ``shown``: the files of keys and of what is painted."""

    def __init__(self, given: int, shown: int, *, is_coloured: bool) -> None:
        self._given, self._shown, self._is_coloured = given, shown, is_coloured
        self._keys = Keys()
        self._painted: list[bytes] = []
        self._modes: list[Any] = termios.tcgetattr(given)
        self._before: dict[int, Any] = {}
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waker, False)

    def __enter__(self) -> Terminal:
        for number in LEAVING:
            # An ignored signal (nohup, a shell without jobs) stays ignored.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._before[number] = signal.signal(number, self._leave)
        for number, handler in ((signal.SIGCONT, self._come_back), (signal.SIGWINCH, self._resize)):
            self._before[number] = signal.signal(number, handler)
        try:
            self._take()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._give_back()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        waker, self._waker = self._waker, -1
        os.close(self._woken)
        os.close(waker)

    def wake(self) -> None:
        """End a wait of ``read``, from any thread."""
        # A full pipe wakes as well, and one that is closed has nobody to wake.
        with suppress(OSError):
            os.write(self._waker, b"\0")

    def size(self) -> tuple[int, int]:
        """Return the columns and lines."""
        try:
            found = os.get_terminal_size(self._shown)
        except OSError:
            return 80, 24
        return found.columns or 80, found.lines or 24

    def read(self, wait_s: float | None) -> list[Key] | None:
        """Wait for keys, for ``wake`` or for the time; returns the keys, [] for none, None where no more can come."""
        wait_s = ESCAPE_S if self._keys.is_waiting else wait_s
        ready, _, _ = select.select([self._given, self._woken], [], [], wait_s)
        if self._woken in ready:
            with suppress(BlockingIOError):
                os.read(self._woken, READ_BYTES)
        if self._given not in ready:
            return self._keys.flushed() if not ready else []
        try:
            data = os.read(self._given, READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return self._keys.read(data) if data else None

    def paint(self, lines: Sequence[str], cursor: int) -> None:
        """Show these lines, and the cursor in this column of the first."""
        encoded = [output.for_screen(line, is_coloured=self._is_coloured).encode("utf-8", "replace") for line in lines]
        pieces = [HIDE_CURSOR, *([] if self._painted else [CLEAR])]
        for n, line in enumerate(encoded):
            if n >= len(self._painted) or self._painted[n] != line:
                pieces.append(b"\x1b[%d;1H\x1b[0m\x1b[2K%b" % (n + 1, line))
        self._painted = encoded
        self._write(b"".join([*pieces, b"\x1b[0m\x1b[1;%dH" % (cursor + 1), SHOW_CURSOR]))

    def _take(self) -> None:
        """Have the terminal for us, and paint everything anew."""
        modes = [*self._modes]
        modes[INPUT] &= ~(termios.ICRNL | termios.INLCR | termios.IXON | termios.ISTRIP)
        modes[LOCAL] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
        self._painted = []
        # A terminal that is gone needs no change.
        with suppress(termios.error):
            termios.tcsetattr(self._given, termios.TCSADRAIN, modes)
        self._write(ENTER)

    def _give_back(self) -> None:
        self._write(LEAVE)
        # What was typed ahead was meant for us, and not for a shell.
        with suppress(termios.error):
            termios.tcsetattr(self._given, termios.TCSAFLUSH, self._modes)

    def _leave(self, number: int, _frame: FrameType | None) -> None:
        """Give the terminal back, then let the signal act."""
        self._give_back()
        signal.signal(number, self._before[number])
        # Raised in this thread, which so does not go on before it is stopped; it goes on here when it may.
        signal.raise_signal(number)
        signal.signal(number, self._leave)
        self._come_back()

    def _come_back(self, *_: object) -> None:
        self._take()
        self.wake()

    def _resize(self, *_: object) -> None:
        self._painted = []
        self.wake()

    def _write(self, data: bytes) -> None:
        # A terminal that is gone shows nothing; that keys end tells who reads.
        with suppress(OSError):
            while data:
                data = data[os.write(self._shown, data) :]


def open_terminal(*, is_coloured: bool) -> Terminal:
    """The terminal of stdin, painted where a person sees it: also if stdout is a pipe."""
    shown = next((each.fileno() for each in (sys.stdout, sys.stderr) if each.isatty()), None)
    given = sys.stdin.fileno()
    return Terminal(given, os.open("/dev/tty", os.O_RDWR) if shown is None else shown, is_coloured=is_coloured)


# keys -----------------------------------------------------------------------------------------------------------------


PASTE_BEGINS, PASTE_ENDS = b"\x1b[200~", b"\x1b[201~"
SEQUENCE = lazy_regex(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~]|[^\[O])")
BEGUN = lazy_regex(rb"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")
"""The beginning of a sequence that is not here yet."""
NAMED = {
    b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[C": "right", b"\x1b[D": "left", b"\x1bOA": "up", b"\x1bOB": "down",
    b"\x1bOC": "right", b"\x1bOD": "left", b"\x1b[H": "home", b"\x1b[F": "end", b"\x1bOH": "home", b"\x1bOF": "end",
    b"\x1b[1~": "home", b"\x1b[7~": "home", b"\x1b[4~": "end", b"\x1b[8~": "end", b"\x1b[5~": "pageup",
    b"\x1b[6~": "pagedown", b"\x1b[3~": "delete", b"\x1bOP": "f1", b"\x1b[11~": "f1", b"\x1b[[A": "f1",
    b"\x1b\x7f": "ctrl-w", b"\r": "enter", b"\n": "enter", b"\t": "tab", b"\x7f": "backspace", b"\x08": "backspace",
}  # fmt: skip


class Keys:
    """Bytes of a terminal as keys; what is not whole yet waits for the rest."""

    def __init__(self) -> None:
        self._rest = b""
        self._pasted: bytes | None = None
        self._decoder = getincrementaldecoder("utf-8")("replace")

    @property
    def is_waiting(self) -> bool:
        """True if an Escape may be a key or the beginning of one."""
        return bool(self._rest) and self._pasted is None

    def flushed(self) -> list[Key]:
        """Return what waited for more that did not come: an Escape."""
        if not self.is_waiting:
            return []
        alone, self._rest = self._rest == b"\x1b", b""
        return [Key("escape")] if alone else []

    def read(self, data: bytes) -> list[Key]:
        """Return the keys that are whole now."""
        data, self._rest = self._rest + data, b""
        found = list[Key]()
        while data:
            data = self._in_paste(data, found) if self._pasted is not None else self._one(data, found)
        return found

    def _in_paste(self, data: bytes, found: list[Key]) -> bytes:
        text, end, behind = ((self._pasted or b"") + data).partition(PASTE_ENDS)
        if not end:
            self._pasted = text
            return b""
        self._pasted = None
        found.extend(_typed(text.decode("utf-8", "replace")))
        return behind

    def _one(self, data: bytes, found: list[Key]) -> bytes:
        """Take the first key of the bytes; return those behind it."""
        if data[:1] != b"\x1b":
            return self._text(data, found)
        if data.startswith(PASTE_BEGINS):
            self._pasted = b""
            return data[len(PASTE_BEGINS) :]
        if data.startswith(b"\x1b\x1b"):
            found.append(Key("escape"))
            return data[1:]
        length = 4 if data.startswith(b"\x1b[[") else 0
        sequence = SEQUENCE.match(data)
        if BEGUN.match(data) or len(data) < length or sequence is None:
            self._rest = data
            return b""
        whole = data[: length or sequence.end()]
        # A key without a name is none, and so is a letter with Alt.
        found.extend([Key(NAMED[whole])] if whole in NAMED else [])
        return data[len(whole) :]

    def _text(self, data: bytes, found: list[Key]) -> bytes:
        if data[0] < 0x20 or data[0] == 0x7F:
            name = NAMED.get(data[:1]) or (f"ctrl-{chr(data[0] + 0x60)}" if 0 < data[0] < 27 else "")
            found.extend([Key(name)] if name else [])
            return data[1:]
        end = next((n for n, byte in enumerate(data) if byte < 0x20 or byte == 0x7F), len(data))
        found.extend(_typed(self._decoder.decode(data[:end])))
        return data[end:]


def _typed(text: str) -> list[Key]:
    """The text of a key, or of a paste: in one line, and without characters that act."""
    shown = "".join(letter if letter.isprintable() or letter == "\u200d" else " " for letter in text)
    return [Key("text", shown)] if shown else []
