"""A change of a file that an agent's client reads: planned, shown, and then written whole or not at all."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.errors import SettingsUnusable
from backstory.export.rewriting import remove, rewrite

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from backstory.agents.text_edit import TextEdit
    from backstory.export.installed import InstallNote, InstallNotes
    from backstory.export.rewriting import FoundFile

ADD, UPDATE, REMOVE, NONE = "add", "update", "remove", "none"
USER, PROJECT = "user", "project"
SCOPES = (USER, PROJECT)
BOM = "\ufeff"


class ShownEdit(Struct, frozen=True, kw_only=True):
    """Lines that go and lines that come. ``line``: the number of the first of them."""

    line: int
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


class SettingsChange(Struct, frozen=True, kw_only=True):
    """The change of one file. ``data``: its bytes afterwards, None for no file.

    ``path``: the file as the agent's client names it. ``remarks``: what a person should know. ``note``: what is noted
    of it, None where it is removed; ``earlier``: what was noted before.
    """

    what: str
    agent: str
    scope: str
    path: Path
    action: str
    found: FoundFile
    data: bytes | None
    edits: tuple[ShownEdit, ...] = ()
    remarks: tuple[str, ...] = ()
    note: InstallNote | None = None
    earlier: InstallNote | None = None


def perform(change: SettingsChange, notes: InstallNotes) -> None:
    """Write a change. Raises SettingsChanged, SettingsReadOnly, CannotWrite, DiskFull; then nothing is changed."""
    if change.action == NONE:
        return
    if change.note is None:
        if change.data is None:
            remove(change.found, change.earlier.folders if change.earlier is not None else [])
        else:
            rewrite(change.found, change.data)
        notes.drop(change.what, change.found.path)
        return
    with notes.kept(change.note, change.earlier):
        rewrite(change.found, change.data or b"", is_private=change.scope == USER)


def text_of(found: FoundFile, path: Path) -> str:
    """The text of a file, without a mark of its encoding. Raises SettingsUnusable."""
    try:
        return (found.data or b"").decode().removeprefix(BOM)
    except UnicodeDecodeError as refused:
        raise SettingsUnusable(path, "is not UTF-8 text") from refused


def bytes_of(text: str, found: FoundFile) -> bytes:
    """A text as the bytes of a file, with the mark of its encoding that it had."""
    mark = BOM if (found.data or b"").startswith(BOM.encode()) else ""
    return (mark + text).encode()


def shown(text: str, edits: Iterable[TextEdit]) -> tuple[ShownEdit, ...]:
    """Edits as whole lines."""
    return tuple(_shown(text, each) for each in edits)


def _shown(text: str, edit: TextEdit) -> ShownEdit:
    """An edit from the line that it begins in; a line that only ends or begins differently is not one of its own."""
    gone, come = text[edit.start : edit.end], edit.text
    leading = (gone or come)[: len(gone or come) - len((gone or come).lstrip("\r\n"))]
    line = text.count("\n", 0, edit.start) + 1 + leading.count("\n")
    return ShownEdit(line=line, removed=_lines(gone), added=_lines(come))


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.strip("\r\n").rstrip().splitlines())


def sha256_of(data: bytes) -> str:
    """The SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()
