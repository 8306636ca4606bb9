"""A prompt that was sent: a `backstory run` of its own, so it goes on when the face is closed, and is recorded."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory.derive import harmless

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

REASON_CHARS_MAX = 4_000
ENDS_OF_RUNS = (1, 130)
"""The exit codes of `backstory run` for an agent that failed or was stopped; of a refusal they have a line of JSON."""


def ourselves() -> list[str]:
    """This program, with nothing imported from the current folder, which may be anybody's."""
    return [sys.executable, "-P", "-m", "backstory"]


class SentPrompt:
    """A process that runs a prompt. ``words``: its command with options; ``prompt``: None for one without a prompt.

    ``folder`` and ``environ``: where it is started; ``store``: a store that takes the place of the others.
    """

    def __init__(
        self, words: list[str], prompt: str | None, folder: str | Path, environ: Mapping[str, str], store: Path | None
    ) -> None:
        named = [f"--store={store}"] if store is not None else []
        taking = [] if prompt is None else ["--json", "--stdin"]
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - the process writes into it
        with tempfile.TemporaryFile() as given:
            given.write((prompt or "").encode("utf-8", "replace"))
            given.seek(0)
            self.process = subprocess.Popen(
                [*ourselves(), *words[:1], *named, *words[1:], *taking], stdin=given,
                stdout=subprocess.DEVNULL, stderr=self._said, cwd=folder, env=dict(environ),
                start_new_session=True,
            )  # fmt: skip
        # It is waited for, so that nothing is left of it in the table of processes, but nobody has to.
        threading.Thread(target=self.process.wait, daemon=True).start()

    def close(self) -> None:
        """Let go of what it says; the process goes on."""
        self._said.close()

    def stop(self) -> None:
        """End the process; if it runs no agent yet, the prompt is not sent."""
        with suppress(OSError):
            self.process.terminate()

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self.process.poll()

    @property
    def was_taken(self) -> bool:
        """True if a process that ended queued the prompt or had an agent work on it, whatever came of that."""
        return self.code == 0 or (self.code in ENDS_OF_RUNS and _refusal_in(self._last_line) is None)

    def said(self) -> str:
        """Return its last sentence for the person."""
        refusal = self.refusal
        return _in_a_line(self._last_line.removeprefix("Error: ") if refusal is None else refusal.message)

    @property
    def refusal(self) -> Refusal | None:
        """The reason why a process that ended did nothing; None if it did something, or said nothing of it."""
        return _refusal_in(self._last_line)

    @property
    def _last_line(self) -> str:
        self._said.seek(0)
        lines = self._said.read(REASON_CHARS_MAX).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""


class Refusal(Struct):
    """The reason why a command did nothing. ``kind``: its error's name in JSON; ``next``: commands to go on with."""

    message: str
    kind: str = ""
    next: list[str] = []


class _Refused(Struct):
    """A line of ``--json`` that says why a command did nothing."""

    error: Refusal


def _refusal_in(line: str) -> Refusal | None:
    """The reason in the last line of a command that did nothing; None for that of another one."""
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(line, type=_Refused).error
    return None


def _in_a_line(text: str) -> str:
    return harmless.clean(" ".join(text.split()))
