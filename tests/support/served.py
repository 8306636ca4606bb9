"""`backstory serve` as a process, and machines on which commands are typed."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from typing import TYPE_CHECKING

from tests.support.going import until
from tests.support.typed_home import PROGRAM, TypedHome

if TYPE_CHECKING:
    from pathlib import Path


class RunningServer:
    """A server that runs: its address, and what it said."""

    def __init__(self, folder: Path, home: Path, *options: str) -> None:
        environ = TypedHome(home).environ | {"BACKSTORY_SERVER_DATA": str(folder)}
        self.process = subprocess.Popen(
            [*PROGRAM, "serve", "--port", "0", *options], env=environ, cwd=home, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.address = self.process.stdout.readline().strip()
        self.said = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    @property
    def code(self) -> str:
        until(lambda: "It is at" in self.said)
        found = re.search(r"--code (\S+)", self.said)
        return found[1] if found else ""

    def end(self, number: int | None = signal.SIGINT) -> int:
        """Send a signal, or none to one that ends already; return its exit code."""
        if number is not None:
            self.process.send_signal(number)
        code = self.process.wait(30)
        self._reader.join(30)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()
        return code
