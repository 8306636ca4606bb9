"""The thread that waits for keys: it sleeps until one comes."""

from __future__ import annotations

import asyncio
import os
import pty
import selectors
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from textual import events
from textual.app import App
from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread

from backstory.cli.tui.keyboard import UNDECIDED_S, KeyboardDriver, _Pastes
from tests.support.going import DEADLINE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.message import Message

ENDLESS = None


class Keyboard:
    """A driver that reads a pipe, and is ended the second time that it would wait for ever with nothing to read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fd, self._typed = os.pipe()
        self.waits: list[float | None] = []
        self.posted: list[Message] = []
        self.driver = driver = asyncio.run(_driver())
        driver.fileno = self.fd
        monkeypatch.setattr(driver, "process_message", self.posted.append)
        waits = self.waits

        class Selector(selectors.DefaultSelector):
            def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
                waits.append(timeout)
                if timeout is ENDLESS and not super().select(0):
                    driver.exit_event.set()
                return super().select(timeout)

        monkeypatch.setattr(selectors, "DefaultSelector", Selector)

    def type(self, keys: bytes) -> list[str]:
        """Type these; returns the keys that the driver posts."""
        os.write(self._typed, keys)
        self.driver.run_input_thread()
        self.driver.exit_event.clear()
        return [each.key for each in self.posted if isinstance(each, events.Key)]

    def close(self) -> None:
        """Close the pipes."""
        for fd in (self.fd, self._typed):
            os.close(fd)
        self.driver.close()


async def _driver() -> KeyboardDriver:
    return KeyboardDriver(App[object]())


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyboard]:
    made = Keyboard(monkeypatch)
    yield made
    made.close()


def test_nothing_is_looked_for_while_no_key_comes(keys: Keyboard) -> None:
    assert keys.type(b"a") == ["a"]
    assert keys.waits == [ENDLESS, UNDECIDED_S, ENDLESS]


def test_an_escape_that_nothing_follows_is_a_key(keys: Keyboard) -> None:
    assert keys.type(b"\x1b") == ["escape"]


def test_a_letter_that_is_no_letter_ends_no_keyboard(keys: Keyboard) -> None:
    assert keys.type(b"\xff\xfeb")[-1] == "b"


def test_an_escape_in_a_paste_is_text(keys: Keyboard) -> None:
    assert keys.type(b"\x1b[200~a\x1b[Ab\x1bq\x1b[201~z") == ["z"]
    assert [each.text for each in keys.posted if isinstance(each, events.Paste)] == ["a\u241b[Ab\u241bq"]


def test_a_paste_that_comes_in_parts_is_the_same() -> None:
    came = "x\x1b[200~a\x1b[A\x1b[201b\x1b\x1b[201~\x1b[Az"
    for cut in range(len(came)):
        pastes = _Pastes()
        assert pastes.harmless(came[:cut]) + pastes.harmless(came[cut:]) == (
            "x\x1b[200~a\u241b[A\u241b[201b\u241b\x1b[201~\x1b[Az"
        ), cut


def test_a_driver_reads_again_after_a_client_had_the_terminal(keys: Keyboard) -> None:
    keys.type(b"a")
    assert keys.type(b"b") == ["a", "b"]


def test_what_is_painted_on_a_terminal_that_is_gone_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    terminal = os.fdopen(theirs, "w", encoding="utf-8")
    monkeypatch.setattr("sys.__stderr__", terminal)
    painted = asyncio.run(_driver())._file
    assert painted is not None
    writer = WriterThread(painted)
    writer.start()
    os.close(ours)

    def paint() -> None:
        for _ in range(2 * MAX_QUEUED_WRITES):
            writer.write("painted " * 1000)
        writer.stop()

    painting = threading.Thread(target=paint, daemon=True)
    painting.start()
    painting.join(DEADLINE_S)
    with suppress(OSError):
        terminal.close()
    assert not painting.is_alive()
