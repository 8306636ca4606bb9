"""Programs that accepted messages in an earlier run: they get more time to confirm it again.

``BACKSTORY_HOME/listeners.json`` lists their files. A replaced program counts as one that never ran.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from backstory.errors import BackstoryError
from backstory.store.private import write_private

FILE = "listeners.json"

_Stamp = tuple[int, int, int]


def is_known(home: Path, program: str) -> bool:
    """Return True if this program accepted messages before."""
    stamp = _stamp(program)
    return stamp is not None and _known(home).get(program) == stamp


def note(home: Path, program: str) -> None:
    """Remember a program that accepts messages; a failure to write is ignored."""
    stamp, known = _stamp(program), _known(home)
    if stamp is None or known.get(program) == stamp:
        return
    beside = home / f"{FILE}.{os.getpid()}"
    with suppress(BackstoryError, OSError):
        write_private(beside, msgspec.json.encode({**known, program: stamp}))
        beside.replace(home / FILE)


def _known(home: Path) -> dict[str, _Stamp]:
    try:
        return msgspec.json.decode((home / FILE).read_bytes(), type=dict[str, _Stamp])
    except (OSError, msgspec.DecodeError):
        return {}


def _stamp(program: str) -> _Stamp | None:
    try:
        status = Path(program).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
