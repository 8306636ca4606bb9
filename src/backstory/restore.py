"""A log, and what is kept of the files beside it, written out again byte for byte."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from backstory.errors import CannotWrite, FileInTheWay

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backstory.store import Log, Session, Store
    from backstory.store.companions import Kept


class Written(Struct, frozen=True, kw_only=True):
    """A file beside a log that was written: its path below the log's folder, where it lies now."""

    name: str
    written: str
    bytes: int
    sha256: str


class Restored(Struct, frozen=True, kw_only=True):
    """A log that was written: whose, where it once lay, where it lies now, and the files beside it."""

    session: str
    original: str
    written: str
    bytes: int
    sha256: str
    companions: list[Written] = field(default_factory=list)


def restore(store: Store, session: Session, log: Log, folder: Path, *, force: bool) -> Restored:
    """Write a log below ``folder`` as it lay below its agent's own folder, and beside it what lay there.

    A file that is there already is left alone if it is the same, and in the way if not (FileInTheWay).
    """
    target = _target(folder, session, log, store)
    mtime_ns = None if log.modified is None else log.modified * 1_000_000
    length, sha256 = _write(target, store.stream_log(log.id), mtime_ns, force=force)
    return Restored(
        session=session.uid,
        original=log.path,
        written=str(target),
        bytes=length,
        sha256=sha256,
        companions=[_restore_companion(store, each, target.parent, force=force) for each in store.companions(log.id)],
    )


def _restore_companion(store: Store, kept: Kept, folder: Path, *, force: bool) -> Written:
    target = folder.joinpath(*_inside(kept.name))
    length, sha256 = _write(target, [store.read_companion(kept.id)], kept.mtime_ns, force=force)
    return Written(name=kept.name, written=str(target), bytes=length, sha256=sha256)


def _write(target: Path, pieces: Iterable[bytes], mtime_ns: int | None, *, force: bool) -> tuple[int, str]:
    """Write a file whole or not at all; gives its length and hash."""
    whole = target.with_name(f".{target.name}.part")
    digest = hashlib.sha256()
    length = 0
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123
            for piece in pieces:
                digest.update(piece)
                length += len(piece)
                file.write(piece)
        if target.exists() and not force and _sha256(target) != digest.hexdigest():
            raise FileInTheWay(target)
        if mtime_ns is not None:
            os.utime(whole, ns=(mtime_ns, mtime_ns))
        whole.replace(target)
    except OSError as refused:
        raise CannotWrite(target, refused.strerror or str(refused)) from refused
    finally:
        with suppress(OSError):
            whole.unlink()
    return length, digest.hexdigest()


def _inside(name: str) -> list[str]:
    """The parts of a path from a store, which is not trusted to stay below its folder."""
    return [part for part in Path(f"./{name}").parts if part not in ("..", "/")]


def _target(folder: Path, session: Session, log: Log, store: Store) -> Path:
    parts = _inside(f"{log.agent}/./{log.relpath}")
    target = folder.joinpath(*parts, *([] if log.relpath.strip("./") else [f"{session.uid}.jsonl"]))
    twins = [other.id for other in store.logs(session) if other.relpath == log.relpath and other.agent == log.agent]
    if log.id != max(twins):
        # Several generations of one file: the newest has its name, the others say which they are.
        target = target.with_name(f"{target.stem}.{log.generation}{target.suffix}")
    return target


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
