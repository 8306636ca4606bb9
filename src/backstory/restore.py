"""A log, written out again byte for byte."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.errors import CannotWrite, FileInTheWay

if TYPE_CHECKING:
    from backstory.store import Log, Session, Store


class Restored(Struct, frozen=True, kw_only=True):
    """A log that was written: whose, where it once lay, where it lies now."""

    session: str
    original: str
    written: str
    bytes: int
    sha256: str


def restore(store: Store, session: Session, log: Log, folder: Path, *, force: bool) -> Restored:
    """Write a log below ``folder`` as it lay below its agent's own folder.

    A file that is there already is left alone if it is the same, and in the way if not (FileInTheWay).
    """
    target = _target(folder, session, log, store)
    whole = target.with_name(f".{target.name}.part")
    digest = hashlib.sha256()
    length = 0
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123
            for piece in store.stream_log(log.id):
                digest.update(piece)
                length += len(piece)
                file.write(piece)
        if target.exists() and not force and _sha256(target) != digest.hexdigest():
            raise FileInTheWay(target)
        if log.modified is not None:
            os.utime(whole, ns=(log.modified * 1_000_000,) * 2)
        whole.replace(target)
    except OSError as refused:
        raise CannotWrite(target, refused.strerror or str(refused)) from refused
    finally:
        with suppress(OSError):
            whole.unlink()
    return Restored(
        session=session.uid,
        original=log.path,
        written=str(target),
        bytes=length,
        sha256=digest.hexdigest(),
    )


def _target(folder: Path, session: Session, log: Log, store: Store) -> Path:
    # A name from a store is not trusted to stay below the folder.
    parts = [part for part in Path(log.agent, f"./{log.relpath}").parts if part not in ("..", "/")]
    target = folder.joinpath(*parts, *([] if log.relpath.strip("./") else [f"{session.uid}.jsonl"]))
    twins = [other.id for other in store.logs(session) if other.relpath == log.relpath and other.agent == log.agent]
    if log.id != max(twins):
        # Several generations of one file: the newest has its name, the others say which they are.
        target = target.with_name(f"{target.stem}.{log.generation}{target.suffix}")
    return target


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
