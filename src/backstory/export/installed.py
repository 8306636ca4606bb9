"""Notes about what was put into other programs' settings, by which it is removed again as it was added."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory.errors import BackstoryError, InstallNoteUnreadable
from backstory.store.private import as_ours, make_private_folder, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = "installed"
"""The folder in our home with a note for each file that something was put into."""
KEY_CHARS = 32
SERVER, SKILL, TIMER = "server", "skill", "timer"


class InstallNote(Struct, frozen=True, kw_only=True):
    """The change made to one file. ``folders``: those that were made for it.

    Of a server: its ``entry``, the text that was ``inserted``, whether its table was made for it, and the line that has
    the client wait for it. Of a skill or a timer's file: the SHA-256 of it; ``agent`` is
    what starts a timer.
    """

    what: str
    agent: str
    path: str
    existed: bool
    folders: list[str] = field(default_factory=list)
    entry: dict[str, Any] = field(default_factory=dict)
    inserted: str = ""
    has_own_table: bool = False
    wait: str = ""
    sha256: str = ""


class InstallNotes:
    """The notes of one home."""

    def __init__(self, home: Path) -> None:
        self.folder = home / FOLDER

    def of(self, what: str, path: Path) -> InstallNote | None:
        """The note about a file; None if nothing was put there. Raises InstallNoteUnreadable."""
        file = self._file(what, str(path))
        try:
            return msgspec.json.decode(file.read_bytes(), type=InstallNote)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as refused:
            raise InstallNoteUnreadable(file, str(refused)) from refused

    def all(self, what: str) -> list[InstallNote]:
        """The notes that can be read, by path."""
        found, files = list[InstallNote](), list[Path]()
        with suppress(OSError):
            files = [*self.folder.glob("*.json")]
        for file in files:
            with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
                found.append(msgspec.json.decode(file.read_bytes(), type=InstallNote))
        return sorted((each for each in found if each.what == what), key=lambda each: each.path)

    def write(self, note: InstallNote) -> None:
        """Write a note, whole or not at all. Raises DiskFull, CannotWrite."""
        file = self._file(note.what, note.path)
        make_private_folder(self.folder)
        beside = file.with_suffix(".new")
        write_private(beside, msgspec.json.encode(note), sync=True)
        try:
            beside.replace(file)
        except OSError as refused:
            raise as_ours(file, refused) from refused

    @contextmanager
    def kept(self, note: InstallNote, earlier: InstallNote | None) -> Iterator[None]:
        """Write a note, then make its change; if that fails, the earlier note is there again.

        The note comes first: what a crash leaves can always be taken away again. Raises DiskFull, CannotWrite.
        """
        self.write(note)
        try:
            yield
        except BaseException:
            with suppress(BackstoryError, OSError):
                if earlier is None:
                    self.drop(note.what, Path(note.path))
                else:
                    self.write(earlier)
            raise

    def drop(self, what: str, path: Path) -> None:
        """Remove a note."""
        self._file(what, str(path)).unlink(missing_ok=True)

    def _file(self, what: str, path: str) -> Path:
        key = hashlib.sha256(f"{what}\0{path}".encode("utf-8", "surrogateescape")).hexdigest()[:KEY_CHARS]
        return self.folder / f"{key}.json"
