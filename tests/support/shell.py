"""The command line as people and scripts meet it: another process, with a home folder of its own."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tests.support.forked import COMMAND, run
from tests.support.machines import case, place

if TYPE_CHECKING:
    from pathlib import Path


class Done(Struct, frozen=True):
    """How a command ended, and what it said where."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


class Shell:
    """Runs commands in a home folder, from a folder in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.cwd = home / "work"
        self.cwd.mkdir(exist_ok=True)
        self.environ = {
            "HOME": str(home), "BACKSTORY_HOME": str(home / "backstory"), "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
        }  # fmt: skip

    @property
    def store(self) -> Path:
        return self.home / "backstory" / "store.db"

    def __call__(self, *args: str | bytes | Path, typed: str | None = None, **environ: str) -> Done:
        done = run(
            [*COMMAND, *args], cwd=self.cwd, env=self.environ | environ, given=(typed or "").encode(), timeout=120
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def put(self, *names: str) -> None:
        for name in names:
            path = self.home / place(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(case(name))
