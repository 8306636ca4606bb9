"""A machine with a home of its own, on which commands are typed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = [sys.executable, "-m", "backstory"]


class TypedHome:
    """A home, and the environment of commands in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environ = {
            "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(home),
            "BACKSTORY_HOME": str(home / "backstory"),
        }  # fmt: skip

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, *words], env=self.environ, cwd=self.home, capture_output=True, text=True, timeout=60, check=False
        )
