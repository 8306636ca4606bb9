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
LINE_BYTES = 4096
"""The longest first line of a program that is read."""


def has_program(name: str, environ: Mapping[str, str]) -> bool:
    """True if a program is on the PATH."""
    return shutil.which(name, path=environ.get("PATH")) is not None


def can_start(program: str) -> bool:
    """True if a file is there that may be started, and so is the program that its first line names."""
    try:
        with open(program, "rb") as file:  # noqa: PTH123
            first = file.readline(LINE_BYTES)
    except OSError:
        return False
    by = os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []
    return all(os.access(each, os.X_OK) for each in (program, *by[:1]))


def user_number() -> int:
    """The number of the person's account."""
    return os.getuid()


def answer_of(
    words: Sequence[str], environ: Mapping[str, str], *, given: bytes = b"", none: Sequence[str] = ()
) -> bytes | None:
    """Run a program to its end, and return what it prints; None where it fails with one of ``none`` in its words.

    Raises NoTimers where it fails otherwise.
    """
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
    if done.returncode != 0:
        talk = done.stderr.decode("utf-8", "replace")
        if not done.stdout and any(each in talk for each in none):
            return None
        said = talk.strip().splitlines() or [f"exit code {done.returncode}"]
        raise NoTimers(f"{words[0]}: {said[-1].rstrip('.')}")
    return done.stdout
