"""Files that are put where an agent looks for them, never over another file, and taken away again if nobody used them.

What was put where is noted in a file of ours before the first file appears, so a crash at any instant leaves nothing
that cannot be taken away. Each file is written whole under another name, is on the disk, and then appears at once.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory.agents.contract import IndexChange
from backstory.errors import BackstoryError, CannotWrite, LogAppeared, NoteUnreadable, PutFileChanged
from backstory.export.files import NOT_FOLLOWED, enter, kind_of, measured, sha256_of, written_to
from backstory.store.private import as_ours, make_private_folder, publish, write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from backstory.export.files import Parts

FOLDER = "resumed"
"""The folder in our home with a note for each session whose files were put somewhere."""


class WantedFile(Struct, frozen=True):
    """A file to put at ``parts`` below ``folder``; no link is followed below that."""

    folder: Path
    parts: Parts
    pieces: Callable[[], Iterable[bytes]]

    @property
    def path(self) -> Path:
        """The path of the file to write."""
        return self.folder.joinpath(*self.parts)


class PutFile(Struct, frozen=True, kw_only=True):
    """A file that was put somewhere: where, under which name it was written first, and how it is recognised."""

    path: str
    written_as: str
    device: int
    inode: int
    bytes: int
    mtime_ns: int
    sha256: str

    def is_as_put(self) -> bool:
        """Return True if the file is the one that was put there, to the last byte."""
        try:
            found = Path(self.path).lstat()
            is_same = (found.st_dev, found.st_ino, found.st_size) == (self.device, self.inode, self.bytes)
            return is_same and sha256_of(Path(self.path)) == self.sha256
        except OSError:
            return False


def key_of(uid: str, written: str | None) -> str:
    """Return a note's name: its session, and the id of the log that was written anew from it, if one was."""
    return uid if written is None else f"{uid}.{written}"


class PutNote(Struct, kw_only=True):
    """A note of things put back for one session: files, folders made for them, and the agent's own database.

    ``written``: the id of the log that was written anew from the session; None where its own was put back.
    """

    session: str
    agent: str
    written: str | None = None
    files: list[PutFile] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    index: IndexChange | None = None

    @property
    def key(self) -> str:
        """The note's name."""
        return key_of(self.session, self.written)


class PlacingNotes:
    """The notes of one home."""

    def __init__(self, home: Path) -> None:
        self.folder = home / FOLDER

    def of(self, uid: str, written: str | None = None) -> PutNote | None:
        """The note about a session, or a log written from it; None if nothing was put for it. Raises NoteUnreadable."""
        path = self._path(key_of(uid, written))
        try:
            return msgspec.json.decode(path.read_bytes(), type=PutNote)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as refused:
            raise NoteUnreadable(path, str(refused)) from refused

    def write(self, note: PutNote) -> None:
        """Write a note, whole or not at all. Raises DiskFull, CannotWrite."""
        path = self._path(note.key)
        make_private_folder(self.folder)
        beside = path.with_name(f"{note.key}.new")
        write_private(beside, msgspec.json.encode(note), sync=True)
        beside.replace(path)

    def written(self, uid: str, agent: str) -> list[PutNote]:
        """The notes about logs that were written anew from a session in an agent's form. Raises NoteUnreadable."""
        keys = sorted(path.name.removesuffix(".json") for path in self.folder.glob(f"{uid}.*.json"))
        found = [self.of(uid, key.removeprefix(f"{uid}.")) for key in keys]
        return [note for note in found if note is not None and note.agent == agent]

    def drop(self, key: str) -> None:
        """Remove a note."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def put(notes: PlacingNotes, uid: str, agent: str, wanted: Sequence[WantedFile], written: str | None = None) -> PutNote:
    """Put files where none are, all or none. Returns the note about the session.

    Raises LogAppeared if a file is there by now, NoFileToReplace, DiskFull, CannotWrite, and what the pieces raise.
    """
    note = _cleared(notes.of(uid, written)) or PutNote(session=uid, agent=agent, written=written)
    earlier = msgspec.structs.replace(note, files=list(note.files), folders=list(note.folders))
    made: list[PutFile] = []
    try:
        for each in wanted:
            note.folders += _missing_folders(each)
            made.append(_written_beside(each))
        # What was put there before and is gone is not what stands there now.
        again = {each.path for each in made}
        note.files = [*(each for each in note.files if each.path not in again), *made]
        notes.write(note)
        for file in made:
            _show(file)
    except BaseException:
        for file in made:
            if file.is_as_put():
                Path(file.path).unlink()
            Path(file.written_as).unlink(missing_ok=True)
        _remove_empty(set(note.folders) - set(earlier.folders))
        # What cannot be noted on a full disk is taken away already: the note that remains names nothing.
        with suppress(BackstoryError, OSError):
            notes.write(earlier) if earlier.files or earlier.index else notes.drop(note.key)
        raise
    return note


def take_away(note: PutNote) -> list[PutFile]:
    """Remove the files that were put somewhere; returns them. Raises PutFileChanged, and then removes none."""
    _cleared(note)
    there = [each for each in note.files if kind_of(Path(each.path)) is not None]
    for each in there:
        if not each.is_as_put():
            raise PutFileChanged(Path(each.path))
    for each in there:
        try:
            Path(each.path).unlink()
        except OSError as refused:
            raise CannotWrite(Path(each.path), refused.strerror or str(refused)) from refused
    _remove_empty(note.folders)
    return there


def _cleared(note: PutNote | None) -> PutNote | None:
    """A note, once what a crash left under other names is gone."""
    for each in note.files if note is not None else ():
        with suppress(OSError):
            found = Path(each.written_as).lstat()
            if (found.st_dev, found.st_ino) == (each.device, each.inode):
                Path(each.written_as).unlink()
    return note


def _missing_folders(wanted: WantedFile) -> list[str]:
    """Make the folders above a file; returns those that were not there, the outermost first."""
    above = [wanted.folder.joinpath(*wanted.parts[:n]) for n in range(len(wanted.parts))]
    missing = [str(each) for each in above if kind_of(each) is None]
    try:
        enter(wanted.folder, wanted.parts[:-1])
    except OSError as refused:
        _remove_empty(missing)
        raise as_ours(wanted.path, refused) from refused
    return missing


def _written_beside(wanted: WantedFile) -> PutFile:
    """Write a file under a name that nobody has, to the disk."""
    path = wanted.path
    beside = path.with_name(f".backstory-{os.urandom(6).hex()}")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOT_FOLLOWED, 0o600), "wb") as file:  # noqa: PTH123
            length, sha256 = measured(written_to(file, wanted.pieces()))
            file.flush()
            os.fsync(file.fileno())
            found = os.fstat(file.fileno())
    except BaseException as refused:
        beside.unlink(missing_ok=True)
        if isinstance(refused, OSError):
            raise as_ours(path, refused) from refused
        raise
    return PutFile(
        path=str(path), written_as=str(beside), device=found.st_dev, inode=found.st_ino, bytes=length,
        mtime_ns=found.st_mtime_ns, sha256=sha256,
    )  # fmt: skip


def _show(file: PutFile) -> None:
    """Give a file its name, unless another one has it by now."""
    path, beside = Path(file.path), Path(file.written_as)
    try:
        publish(beside, path)
    except FileExistsError as there:
        raise LogAppeared(path) from there
    except OSError as refused:
        raise as_ours(path, refused) from refused
    beside.unlink(missing_ok=True)


def _remove_empty(folders: Iterable[str]) -> None:
    for each in sorted(folders, key=len, reverse=True):
        with suppress(OSError):
            Path(each).rmdir()
