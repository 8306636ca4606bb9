"""Programs that belong to the machine, such as ``crontab``: whether they are there, and their answers."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from backstory.errors import NoTimers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECONDS_MAX = 20


def has_program(name: str, environ: Mapping[str, str]) -> bool:
    """True if a program is on the PATH."""
    return shutil.which(name, path=environ.get("PATH")) is not None


def can_start(program: str) -> bool:
    """True if a file is there that may be started."""
    return os.access(program, os.X_OK)


def user_number() -> int:
    """The number of the person's account."""
    return os.getuid()


def answer_of(
    words: Sequence[str], environ: Mapping[str, str], *, given: bytes = b"", none: int | None = None
) -> bytes | None:
    """Run a program to its end, and return what it prints; None where its exit code is ``none``. Raises NoTimers."""
    environ = {**environ, "LC_ALL": "C"}
    program = shutil.which(words[0], path=environ.get("PATH"))
    if program is None:
        raise NoTimers(f"There is no {words[0]} here")
    try:
        done = subprocess.run(
            [program, *words[1:]], env=environ, input=given, capture_output=True, timeout=SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as refused:
        raise NoTimers(f"{words[0]} does not answer") from refused
    if done.returncode == none:
        return None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise NoTimers(f"{words[0]}: {said[-1].rstrip('.')}")
    return done.stdout
