"""The terminal's keys, waited for without looking ten times a second whether one came, as Textual's driver does."""

from __future__ import annotations

import os
import selectors
import sys
from codecs import getincrementaldecoder
from contextlib import suppress
from threading import Event
from typing import IO, TYPE_CHECKING, cast

from textual import constants
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

from backstory.cli.tui.painting import PaintingApp

if TYPE_CHECKING:
    from io import TextIOWrapper

    from textual.app import App

READ_BYTES = 1 << 16
ESCAPE, MARK = "\x1b", "\N{SYMBOL FOR ESCAPE}"
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
UNDECIDED_S = constants.ESCAPE_DELAY + 0.01
"""An escape is a key of its own, and not the beginning of one, when nothing followed it for so long."""


class _Ending(Event):
    """An event that a selector sees, too: ``fd`` can be read while it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.fd, self._set = os.pipe()

    def set(self) -> None:
        """Set it."""
        super().set()
        os.write(self._set, b"\0")

    def clear(self) -> None:
        """Take it back; it has to be set."""
        os.read(self.fd, 1)
        super().clear()


class _Painted:
    """The terminal's file for Textual's thread that writes: of a terminal that is gone it takes all, and shows nothing.

    A thread that ended of it would leave its queue full, and the application waiting at that for ever.
    """

    def __init__(self, file: IO[str] | None) -> None:
        assert file is not None, "a screen is not opened without a terminal"
        self._terminal = file
        self.fileno, self.isatty = file.fileno, file.isatty

    def write(self, text: str) -> None:
        """Write a text."""
        with suppress(OSError):
            self._terminal.write(text)

    def flush(self) -> None:
        """Have the terminal show it."""
        with suppress(OSError):
            self._terminal.flush()


class _Pastes:
    """Makes text of the escapes in a paste, of which none is a key."""

    def __init__(self) -> None:
        self._is_within, self._end = False, ""
        """The end of what came: what may be the beginning of the next sign."""

    def harmless(self, text: str) -> str:
        """Return what came. In a paste what may be the beginning of its end waits for what comes next."""
        parts = list[str]()
        while True:
            whole, sign = self._end + text, PASTE_ENDS if self._is_within else PASTE_BEGINS
            at = whole.find(sign)
            end = at + len(sign) if at >= 0 else len(whole)
            if self._is_within:
                begun = next((n for n in range(len(sign) - 1, 0, -1) if at < 0 and whole.endswith(sign[:n])), 0)
                pasted = whole[: at if at >= 0 else end - begun]
                parts.append(pasted.replace(ESCAPE, MARK) + sign * (at >= 0))
                self._end = whole[end - begun : end]
            else:
                parts.append(whole[len(self._end) : end])
                self._end = whole[1 - len(sign) :]
            if at < 0:
                return "".join(parts)
            self._is_within, self._end, text = not self._is_within, "", whole[end:]


class KeyboardDriver(LinuxDriver):
    """Textual's driver, whose thread for keys sleeps until one comes. The end of the terminal ends the application."""

    def __init__(
        self, app: App[object], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._ending = self.exit_event = _Ending()
        self._file = cast("TextIOWrapper", _Painted(sys.__stderr__))

    def start_application_mode(self) -> None:
        """Take the terminal, on which something else may have been painted since."""
        if isinstance(self._app, PaintingApp):
            self._app.painted.forget()
            self._app.is_back = True
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def _read(self) -> bytes:
        with suppress(OSError):
            return os.read(self.fileno, READ_BYTES)
        return b""

    def run_input_thread(self) -> None:
        """Post what comes from the terminal, until the driver's event of the end is set."""
        pastes = _Pastes()
        parser, decode = XTermParser(self._debug), getincrementaldecoder("utf-8")("replace").decode
        with selectors.DefaultSelector() as selector:
            for fd in (self.fileno, self._ending.fd):
                selector.register(fd, selectors.EVENT_READ)
            wait: float | None = None
            while not self._ending.is_set():
                ready = {key.fd for key, _ in selector.select(wait)}
                wait = None
                if self.fileno in ready:
                    if not (read := self._read()):
                        # The terminal is gone. A signal says so only to who has it as the terminal of its session.
                        self._loop.call_soon_threadsafe(self._app.exit)
                        return
                    wait = UNDECIDED_S
                    for event in parser.feed(pastes.harmless(decode(read))):
                        self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)
