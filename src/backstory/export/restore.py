"""Logs, and what is kept of the files beside them, written out again byte for byte.

What a store says of names is not believed: nothing is written outside the folder, no link is followed, nothing but a
file is replaced, and that only if asked. What cannot be written is reported with the reason, and stops nothing else.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from msgspec import Struct, field, structs

from backstory.errors import BackstoryError, CannotWrite, FileInTheWay, LogPruned, NoFileToReplace
from backstory.export.files import (
    FILE,
    NOT_FOLLOWED,
    beside,
    enter,
    inside,
    kind_of,
    measured,
    sha256_of,
    whole_log,
    written_to,
)
from backstory.ingest.folder_log import FolderLog
from backstory.ingest.folders import is_of_folder
from backstory.ingest.reported import is_reported
from backstory.store.tables import logs, pruned, sidecars
from backstory.store.tables.logs import COPY

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from backstory.export.files import Parts
    from backstory.ingest.folder_log import Version
    from backstory.store import Log, Store
    from backstory.store.tables.sidecars import StoredSidecar

NAME_BYTES_MAX = 255
"""Longer names no usual file system takes."""


class RestoredFile(Struct, frozen=True, kw_only=True):
    """A file beside a log: its path below the log's folder and where it lies now, or why it does not."""

    name: str
    written: str | None = None
    bytes: int | None = None
    sha256: str | None = None
    error: str | None = None


class Restored(Struct, frozen=True, kw_only=True):
    """A log: whose, where it once lay, where it lies now or why it does not, and the files beside it."""

    session: str
    original: str
    written: str | None = None
    bytes: int | None = None
    sha256: str | None = None
    companions: list[RestoredFile] = field(default_factory=list)
    error: str | None = None


class File(Struct, frozen=True):
    """A file that wants to lie somewhere. Those with the same ``content`` are one file."""

    parts: Parts
    content: Hashable
    number: int = 1
    """By which it is called where another one has its place."""


Wanted = tuple["Store", "Log"]
P = ParamSpec("P")
T = TypeVar("T")


def named_apart(files: Iterable[File], taken: Iterable[Parts] = ()) -> dict[tuple[Parts, Hashable], Parts]:
    """Place each file, by its own place and content: there, or under a number if another one has that place.

    Of several the last one has it. A number is never one by which another file is called itself, and the same files
    are named the same each time.
    """
    files, used = list(files), set(taken)
    owners = {file.parts: file.content for file in files if file.parts not in used}
    used |= owners.keys()
    given: dict[tuple[Parts, Hashable], Parts] = {}
    numbers: dict[Parts, int] = {}
    for file in files:
        here = (file.parts, file.content)
        if here in given:
            continue
        place = file.parts
        if owners.get(place) != file.content:
            number = max(file.number, numbers.get(file.parts, 0))
            while (place := (*file.parts[:-1], _numbered(file.parts[-1], number))) in used:
                number += 1
            numbers[file.parts] = number + 1
        given[here] = place
        used.add(place)
    return given


def _numbered(name: str, number: int) -> str:
    """``log.2.jsonl``, shortened where that would be too long for a name."""
    path = Path(name)
    ending = f".{number}{path.suffix}"
    room = NAME_BYTES_MAX - len(os.fsencode(ending))
    return path.stem.encode("utf-8", "surrogateescape")[: max(room, 1)].decode("utf-8", "ignore") + ending


class Restoring:
    """Logs of several stores on their way into one folder."""

    def __init__(self, stores: Iterable[Store], folder: Path, *, force: bool, partial: bool = False) -> None:
        """``partial``: what was pruned in part is written, too, with marks in the place of what went."""
        self._folder, self._force, self._is_partial = folder, force, partial
        self.logs: list[Wanted] = []
        """Every log whose row can be read."""
        self.lost: list[Restored] = []
        """The others: nothing is known of them but that they were there."""
        for store in stores:
            found, lost = store.ask(logs.salvaged)
            # What only another log reports is in that one.
            self.logs += [(store, log) for log in found if not is_reported(log.relpath)]
            why = "log {}: its row in {} cannot be read"
            self.lost += [Restored(session="", original="", error=why.format(each, store.path)) for each in lost]
        self._wishes = {_key(each): _attempt(_wish, *each) for each in self.logs}
        # Copies come first, so that of several that have one name the session's own log keeps it.
        ordered = sorted(self.logs, key=lambda each: not each[1].kind.startswith(COPY))
        wishes = (self._wishes[_key(each)] for each in ordered)
        self._places = named_apart(wish for wish in wishes if isinstance(wish, File))

    def each(self, wanted: Sequence[Wanted]) -> Iterator[Restored]:
        """Write these logs with what lies beside them; what cannot be given back says why."""
        beside = {_key(each): _attempt(self._beside, *each) for each in wanted}
        wishes = [wish for found in beside.values() if isinstance(found, list) for _, wish in found]
        places = named_apart((wish for wish in wishes if isinstance(wish, File)), self._places.values())
        for store, log in wanted:
            if is_of_folder(log):
                yield self._write_folder(store, log)
                continue
            written = _attempt(self._write_log, store, log)
            if isinstance(written, Exception):
                written = Restored(session=_session_uid(store, log), original=log.path, error=_why(written))
            found = beside[_key((store, log))]
            companions = (
                [RestoredFile(name="", error=_why(found))]
                if isinstance(found, Exception)
                else [self._write_beside(store, log.id, kept, wish, places) for kept, wish in found]
            )
            yield structs.replace(written, companions=companions)

    def _write_log(self, store: Store, log: Log) -> Restored:
        """Write a log, without what lies beside it; raises what keeps it back."""
        wish = self._wishes[_key((store, log))]
        if isinstance(wish, Exception):
            raise wish
        if not self._is_partial and store.ask(pruned.is_overwritten, log.id):
            raise LogPruned(partial=True)
        mtime_ns = None if log.modified is None else log.modified * 1_000_000
        place = self._places[wish.parts, wish.content]
        target, length, sha256 = self._write(place, lambda: whole_log(store, log, partial=self._is_partial), mtime_ns)
        return Restored(
            session=_session_uid(store, log), original=log.path, written=str(target), bytes=length, sha256=sha256
        )

    def _write_folder(self, store: Store, log: Log) -> Restored:
        """Write the files of a folder that reads as one log, as they last were; what keeps one back is said of it."""
        done = Restored(session=_session_uid(store, log), original=log.path)
        wish = self._wishes[_key((store, log))]
        if isinstance(wish, Exception):
            return structs.replace(done, error=_why(wish))
        if store.ask(pruned.is_overwritten, log.id):
            # The files are made of its lines, and of none of them are all there.
            return structs.replace(done, error=_why(LogPruned(partial=False)))
        place = self._places[wish.parts, wish.content]
        kept = _attempt(lambda: FolderLog(b"".join(whole_log(store, log))))
        if isinstance(kept, Exception):
            return structs.replace(done, error=_why(kept))
        files = []
        for name, version in sorted(kept.files.items()):
            written = _attempt(self._write_version, place, name, kept, version)
            files.append(RestoredFile(name=name, error=_why(written)) if isinstance(written, Exception) else written)
        length = sum(each.bytes or 0 for each in files)
        return structs.replace(done, written=str(self._folder.joinpath(*place)), bytes=length, companions=files)

    def _write_version(self, place: Parts, name: str, kept: FolderLog, version: Version) -> RestoredFile:
        content = kept.bytes_of(version)
        target, length, sha256 = self._write(beside(place, f"./{name}"), lambda: [content], version.kept.mtime_ns)
        return RestoredFile(name=name, written=str(target), bytes=length, sha256=sha256)

    def _beside(self, store: Store, log: Log) -> list[tuple[StoredSidecar, File | Exception]]:
        """The files beside a log, and what they are to be called."""
        wish = self._wishes[_key((store, log))]
        above = wish.parts[:-1] if isinstance(wish, File) else ()
        return [(kept, _attempt(_wish_beside, above, kept)) for kept in store.ask(sidecars.of_log, log.id)]

    def _write_beside(
        self,
        store: Store,
        log_id: int,
        kept: StoredSidecar,
        wish: File | Exception,
        places: dict[tuple[Parts, Hashable], Parts],
    ) -> RestoredFile:
        if isinstance(wish, Exception):
            return RestoredFile(name=kept.name, error=_why(wish))
        if store.ask(pruned.is_overwritten, log_id, kept.name):
            return RestoredFile(name=kept.name, error=_why(LogPruned(partial=False)))
        place = places[wish.parts, wish.content]
        done = _attempt(self._write, place, lambda: [store.ask(sidecars.read, kept.id)], kept.mtime_ns)
        if isinstance(done, Exception):
            return RestoredFile(name=kept.name, error=_why(done))
        target, length, sha256 = done
        return RestoredFile(name=kept.name, written=str(target), bytes=length, sha256=sha256)

    def _write(
        self, place: Parts, pieces: Callable[[], Iterable[bytes]], mtime_ns: int | None
    ) -> tuple[Path, int, str]:
        """Write a file whole or not at all; gives where, its length and hash."""
        target = self._folder.joinpath(*place)
        try:
            # A path that is too long for the system is refused before folders are made for its beginning.
            with suppress(FileNotFoundError, NotADirectoryError):
                target.lstat()
            enter(self._folder, place[:-1])
            kind = kind_of(target)
            if kind is not None:
                if kind != FILE:
                    raise NoFileToReplace(target, kind)
                length, sha256 = measured(pieces())
                if sha256 == sha256_of(target):
                    return target, length, sha256
                if not self._force:
                    raise FileInTheWay(target)
            return target, *_replace(target, pieces(), mtime_ns)
        except OSError as refused:
            raise CannotWrite(target, refused.strerror or str(refused)) from refused


def _attempt(act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Exception:
    """Return an act's result or its exception: an error from a damaged or hostile store is that one file's."""
    try:
        return act(*args, **kwargs)
    except Exception as refused:
        return refused


def _why(refused: Exception) -> str:
    return str(refused) if isinstance(refused, BackstoryError) else f"{type(refused).__name__}: {refused}"


def _key(each: Wanted) -> tuple[Path, int]:
    return each[0].path, each[1].id


def _session_uid(store: Store, log: Log) -> str:
    """The session a log belongs to; nothing where that cannot be read any more."""
    found = _attempt(store.session, log.session_id)
    return "" if isinstance(found, Exception) else found.uid


def _wish(store: Store, log: Log) -> File:
    """Return the place of a log below its agent's own folder; raises NotAPlace."""
    below = inside(log.relpath) or inside(f"{_session_uid(store, log) or log.id}.jsonl")
    content = (log.first_hash, log.tail_hash, log.read_to, log.generation)
    return File((*inside(log.agent), *below), content, log.generation)


def _wish_beside(above: Parts, kept: StoredSidecar) -> File:
    return File(beside(above, kept.name), kept.digest)


def _replace(target: Path, pieces: Iterable[bytes], mtime_ns: int | None) -> tuple[int, str]:
    """Write a file beside its place under a name that nobody has, and move it there."""
    beside = target.with_name(f".backstory-{os.urandom(6).hex()}")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOT_FOLLOWED, 0o600), "wb") as file:  # noqa: PTH123
            length, sha256 = measured(written_to(file, pieces))
        if mtime_ns is not None:
            # A time that no file can have is no reason to keep its bytes back.
            with suppress(OverflowError):
                os.utime(beside, ns=(mtime_ns, mtime_ns))
        beside.replace(target)
    finally:
        with suppress(OSError):
            beside.unlink()
    return length, sha256
