"""The key of a machine's masks: with it the same secret has the same digits in every export.

It lies in the home, where only its owner may read it, and in nothing that leaves the machine: no store, copy of one,
export or merge has it. Who lost it gets a new one; masks that are made from then on have other digits.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from backstory.derive.secrets import KEY_BYTES
from backstory.errors import BackstoryError
from backstory.store.private import make_private_folder, publish, write_private

if TYPE_CHECKING:
    from pathlib import Path

MASK_KEY = "mask.key"


def mask_key(home: Path) -> bytes:
    """Return the key of a home. It is made if there is none, or if what lies there is none.

    A home that cannot be written to gives a key that holds for this process alone.
    """
    path, made = home / MASK_KEY, os.urandom(KEY_BYTES)
    if (found := _read(path)) is not None:
        return found
    part = home / f"{MASK_KEY}.{os.getpid()}"
    try:
        make_private_folder(home)
        write_private(part, f"{made.hex()}\n".encode(), sync=True)
        try:
            publish(part, path)
        except FileExistsError:
            # Another process may have been first; what is no key is replaced.
            if (found := _read(path)) is not None:
                return found
            part.replace(path)
    except (BackstoryError, OSError):
        return made
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return _read(path) or made


def _read(path: Path) -> bytes | None:
    """Return the key in a file, which from then on only its owner may read; None if there is none."""
    try:
        with path.open("rb") as file:
            said = file.read(2 * KEY_BYTES + 2)
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                with suppress(OSError):
                    os.fchmod(file.fileno(), 0o600)
        key = bytes.fromhex(said.decode("ascii"))
    except (OSError, ValueError):
        return None
    return key if len(key) == KEY_BYTES else None
