"""Notes on what came from another machine, or went into a folder: up to which point each session, a line each.

A file is only added to; a line that a kill cut is passed over, and what it said is done again. ``sync`` in our home.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory.exchange.json_lines import Uid
from backstory.model import encoded
from backstory.store.private import as_ours, make_private_folder, write_private
from backstory.sync.pull_plan import SentPoint

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

FOLDER = "sync"
"""Below BACKSTORY_HOME."""
LINES_TIMES = 4
"""The file is written anew when it has so many times the lines that count."""
LINES_LEAST = 1_000


class SyncNote(Struct, frozen=True, omit_defaults=True):
    """A line: of a session, of a file that was read or written, about who writes, or the state of a server."""

    uid: Uid | None = None
    sent: SentPoint | None = None
    file: str = ""
    writer: str = ""
    machine: str = ""
    state: str = ""


class SyncNotes(Struct):
    """The notes about one other side. ``sent``: by uid; ``files``: their names; ``writer``: our name there."""

    path: Path
    sent: dict[str, SentPoint] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    writer: str = ""
    machine: str = ""
    state: str = ""
    """The state of a server's database: it differs where that is another one, or goes on from an earlier time."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of notes; without one there are none."""
        notes, lines = cls(path), 0
        decode = msgspec.json.Decoder(SyncNote).decode
        try:
            with path.open("rb") as file:
                for line in file:
                    lines += 1
                    try:
                        notes._take(decode(line))
                    except (msgspec.DecodeError, UnicodeDecodeError):
                        continue
        except FileNotFoundError:
            return notes
        except OSError as refused:
            raise as_ours(path, refused) from refused
        if lines > LINES_LEAST and lines > LINES_TIMES * (len(notes.sent) + len(notes.files) + 1):
            notes.rewrite()
        return notes

    def add(self, *lines: SyncNote) -> None:
        """Add lines; they are on the disk afterwards. Raises DiskFull, CannotWrite."""
        for each in lines:
            self._take(each)
        make_private_folder(self.path.parent)
        try:
            file = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
            try:
                # What a kill cut would swallow the next line.
                size = os.fstat(file).st_size
                cut = b"\n" if size and os.pread(file, 1, size - 1) != b"\n" else b""
                os.write(file, cut + b"".join(encoded(each) + b"\n" for each in lines))
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as refused:
            raise as_ours(self.path, refused) from refused

    def forget_files(self, beginning: str) -> None:
        """Forget files whose names begin so, until another line says otherwise."""
        if gone := {each for each in self.files if each.startswith(beginning)}:
            self.files -= gone
            self.rewrite()

    def rewrite(self) -> None:
        """Write the file anew, with the lines that count."""
        lines = [SyncNote(writer=self.writer, machine=self.machine)] if self.writer else []
        lines += [SyncNote(state=self.state)] if self.state else []
        lines += [SyncNote(file=each) for each in sorted(self.files)]
        lines += [SyncNote(uid=uid, sent=sent) for uid, sent in self.sent.items()]
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        make_private_folder(self.path.parent)
        write_private(part, b"".join(encoded(each) + b"\n" for each in lines), sync=True)
        part.replace(self.path)

    def _take(self, line: SyncNote) -> None:
        if line.uid is not None and line.sent is not None:
            # What was noted last is the last.
            self.sent.pop(line.uid, None)
            self.sent[line.uid] = line.sent
        elif line.file:
            self.files.add(line.file)
        elif line.state:
            self.state = line.state
        elif line.writer:
            self.writer, self.machine = line.writer, line.machine


def notes_from(home: Path, source: str) -> Path:
    """The file of the notes on what came from a side with this id."""
    return home / FOLDER / f"from-{source}.jsonl"
