"""Which programs said in an earlier run that they take words while they run: they are given more time to say it again.

``BACKSTORY_HOME/listeners.json`` names their files. One that was replaced since then is as one that never ran.
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
    """Whether this program has said that it listens."""
    stamp = _stamp(program)
    return stamp is not None and _known(home).get(program) == stamp


def note(home: Path, program: str) -> None:
    """Remember a program that has said that it listens. Where that cannot be written it is not remembered."""
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
        told = Path(program).stat()
    except OSError:
        return None
    return told.st_ino, told.st_size, told.st_mtime_ns
