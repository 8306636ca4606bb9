"""The terminal's keys, waited for without looking ten times a second whether one came, as Textual's driver does."""

from __future__ import annotations

import os
import selectors
from codecs import getincrementaldecoder
from threading import Event
from typing import TYPE_CHECKING

from textual import constants
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

if TYPE_CHECKING:
    from textual.app import App

READ_BYTES = 1 << 16
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


class KeyboardDriver(LinuxDriver):
    """Textual's driver, whose thread for keys sleeps until one comes."""

    def __init__(
        self, app: App[object], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._ending = self.exit_event = _Ending()

    def run_input_thread(self) -> None:
        """Post what comes from the terminal, until the driver's event of the end is set."""
        parser, decode = XTermParser(self._debug), getincrementaldecoder("utf-8")("replace").decode
        with selectors.DefaultSelector() as selector:
            for fd in (self.fileno, self._ending.fd):
                selector.register(fd, selectors.EVENT_READ)
            wait: float | None = None
            while not self._ending.is_set():
                ready = {key.fd for key, _ in selector.select(wait)}
                wait = None
                if self.fileno in ready:
                    if not (read := os.read(self.fileno, READ_BYTES)):
                        # The terminal is gone.
                        break
                    wait = UNDECIDED_S
                    for event in parser.feed(decode(read)):
                        self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)
