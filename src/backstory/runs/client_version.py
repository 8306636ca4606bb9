"""Reads the version of an agent's client from the client itself."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from backstory.errors import ClientTooOld
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Mapping

WAIT_S = 20.0
_VERSION = lazy_regex(r"\d+(?:\.\d+){1,3}")


def check_version(agent: str, program: str, least: str, environ: Mapping[str, str]) -> None:
    """Ask a client for its version. Raises ClientTooOld if that is less than ``least``, or it says none."""
    said = version_of(program, environ)
    if said is None or _parts(said) < _parts(least):
        raise ClientTooOld(agent, said, least)


def version_of(program: str, environ: Mapping[str, str]) -> str | None:
    """Return the version that a client prints; None if it prints none within a while."""
    try:
        done = subprocess.run(
            [program, "--version"], env=dict(environ), stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stdout.decode("utf-8", "replace"))
    return found.group() if found else None


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
