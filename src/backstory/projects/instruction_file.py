"""A file of instructions for agents in a repository: read, and written whole, never outside the repository.

A symbolic link is followed as long as it stays in the repository. What was read is compared again before anything is
written; the new content is written under another name and renamed, with the mode that the file had.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.errors import (
    FileChanged,
    InstructionsNotText,
    InstructionsUnreadable,
    NotWritable,
    OutsideRepository,
)
from backstory.projects.git import repository_root
from backstory.store.private import as_ours

if TYPE_CHECKING:
    from pathlib import Path

BYTES_MAX = 1024 * 1024
"""A larger file is no instructions."""
NEW_MODE = 0o644
FOLDER_MODE = 0o755


class InstructionFile(Struct, frozen=True, kw_only=True):
    """Such a file. ``name``: its path below the root, as it was asked for; ``target``: where it really is.

    ``content`` is None if it is not there.
    """

    name: str
    target: Path
    root: Path
    content: bytes | None

    @property
    def text(self) -> str:
        """Its content, '' if it is not there. Raises InstructionsNotText."""
        try:
            return (self.content or b"").decode("utf-8")
        except UnicodeDecodeError as odd:
            raise InstructionsNotText(self.target) from odd


def read(root: Path, path: Path) -> InstructionFile:
    """A file of the repository with this root, which need not exist; ``path``: absolute, or below the root.

    Raises OutsideRepository, InstructionsUnreadable.
    """
    asked = root / path
    try:
        real_root = root.resolve(strict=True)
        target = asked.resolve()
        name = os.path.normpath(asked)
        below = os.path.relpath(name, os.path.normpath(root))
        is_inside = target.is_relative_to(real_root) and target != real_root and not below.startswith("..")
        if (
            not is_inside
            or ".git" in target.relative_to(real_root).parts
            or repository_root(target.parent) != real_root
        ):
            raise OutsideRepository(asked, root)
        return InstructionFile(name=below.replace(os.sep, "/"), target=target, root=real_root, content=_content(target))
    except (OSError, RuntimeError, ValueError) as refused:
        raise InstructionsUnreadable(asked, getattr(refused, "strerror", None) or str(refused)) from refused


def write(file: InstructionFile, content: bytes) -> None:
    """Write the file, if it still is what was read.

    Raises FileChanged, OutsideRepository, NotWritable, DiskFull, CannotWrite.
    """
    now = read(file.root, file.target)
    if now.content != file.content or now.target != file.target:
        raise FileChanged(file.target)
    target = file.target
    mode = stat.S_IMODE(target.stat().st_mode) if file.content is not None else None
    if mode is not None and not (mode & stat.S_IWUSR and os.access(target, os.W_OK)):
        # A rename would replace what may not be written.
        raise NotWritable(target)
    part = target.with_name(f".{target.name}-{secrets.token_hex(8)}.part")
    try:
        target.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        try:
            _write_whole(part, content, mode)
            if _content(target) != file.content:
                raise FileChanged(target)
            part.replace(target)
        finally:
            with suppress(OSError):
                part.unlink()
    except OSError as refused:
        raise as_ours(target, refused) from refused


def _content(target: Path) -> bytes | None:
    try:
        file = os.open(target, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError("it is no regular file")
        content = opened.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise ValueError("it is larger than 1 MB")
    return content


def _write_whole(part: Path, content: bytes, mode: int | None) -> None:
    file = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, NEW_MODE if mode is None else 0o600)
    with os.fdopen(file, "wb") as opened:
        if mode is not None:
            os.fchmod(file, mode)
        opened.write(content)
        opened.flush()
        os.fsync(file)
