"""A new file that appears when it is whole: what fails before that leaves nothing."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from backstory.errors import FileInTheWay
from backstory.store.private import as_ours, make_folder, publish

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUFFER_BYTES = 1024 * 1024
RANDOM_BYTES = 8


@contextmanager
def whole_file(target: Path, *, force: bool = False) -> Iterator[IO[bytes]]:
    """A file to write, for its owner alone; it gets its name, and is on the disk, when the block ends well.

    Raises FileInTheWay for one that is there, unless ``force``, DiskFull and CannotWrite.
    """
    if os.path.lexists(target) and not force:
        raise FileInTheWay(target)
    part = target.with_name(f".backstory-{secrets.token_hex(RANDOM_BYTES)}.part")
    try:
        make_folder(target.parent)
        file = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as refused:
        raise as_ours(target, refused) from refused
    try:
        try:
            with open(file, "wb", BUFFER_BYTES) as opened:  # noqa: PTH123
                yield opened
                opened.flush()
                os.fsync(opened.fileno())
            part.replace(target) if force else publish(part, target)
        except FileExistsError as refused:
            raise FileInTheWay(target) from refused
        except OSError as refused:
            raise as_ours(target, refused) from refused
    finally:
        with suppress(OSError):
            part.unlink()
