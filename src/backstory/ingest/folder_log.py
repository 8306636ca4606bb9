"""A folder that reads as one log: its records as lines, and lines of ours that say which file is made of what.

Each reading adds the records that are new, then one line with the files that changed since. A file of records is made
of lines of the log and of the text between them. Of another file the line has the text, or what it adds to an earlier
version. So a chunk that is extended under a new name costs what it adds, and every version of a file can be made again.
"""

from __future__ import annotations

import errno
import hashlib
import os
from base64 import b64decode, b64encode
from collections import Counter
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory.agents.jsonl import FOLDER_LINE
from backstory.store import codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from backstory.agents.contract import FolderPart

VERSION = 1
PATCHED_BYTES_LEAST = 512
"""A shorter file is kept whole."""
PATCHES_MAX = 64
"""The most versions of a file that are each kept as what they add to the one before."""
SHARED_PARTS_LEAST = 2
"""The parts that a file must share with an earlier version before they are named instead of repeated."""

Run = tuple[int, int]
"""Lines of the log, one behind the other: the start of the first, and the end of the last."""
Part = str | Run


class FileMark(Struct, frozen=True):
    """A file as stat returns it."""

    size: int
    mtime_ns: int


class Kept(Struct, kw_only=True, omit_defaults=True):
    """A file as a line of ours has it: how it was found, and what it is made of."""

    size: int
    mtime_ns: int
    sha256: str
    parts: list[Part] = field(default_factory=list)
    """Text, and lines of the log. Between two runs of lines stands ``between``, as in a run for the end of a line."""
    between: str = ","
    is_folded: bool = False
    """True if its records have line breaks, which are carriage returns in the log."""
    base64: str | None = None
    """In place of the parts, of a file that is no text."""
    earlier: str | None = None
    """The file, as it was known before, that has the first parts, or that ``patch`` adds to."""
    shared: int = 0
    """The number of those parts."""
    patch: str | None = None
    """In place of the parts: a zstd frame, in base64."""
    given: list[Run] = field(default_factory=list)
    """Lines of the log that are its records, where its parts do not name them."""


class FolderLine(Struct, kw_only=True):
    """A line of ours: the files that are new or changed, and those that are gone."""

    backstory_folder: int = VERSION
    files: dict[str, Kept] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)


class Version(Struct):
    """A version of a file."""

    kept: Kept
    parts: list[Part]
    base: Version | None = None
    """The one that its patch adds to."""
    depth: int = 0

    @property
    def has_records(self) -> bool:
        """Return True if lines of the log are its records."""
        # One without has its text as its only part; else text stands before the first run, and behind the last one.
        return len(self.parts) > 1 or bool(self.kept.given)


_lines = msgspec.json.Decoder(FolderLine)


class FolderLog:
    """A folder as it is kept: its files as they were last seen."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.files: dict[str, Version] = {}
        """The files that lay there, the one that changed last at the end."""
        self.end = 0
        """The end of the last line of ours; what stands behind it is of a reading that did not end."""
        self._runs: list[Run] = []
        at = 0 if content.startswith(FOLDER_LINE) else content.find(b"\n" + FOLDER_LINE) + 1
        while at or not self.end:
            stop = content.find(b"\n", at)
            if stop < 0 or not content.startswith(FOLDER_LINE, at):
                break
            self._apply(_lines.decode(content[at:stop]))
            self.end = stop + 1
            at = content.find(b"\n" + FOLDER_LINE, stop) + 1

    def _apply(self, line: FolderLine) -> None:
        new = {name: self._version(kept) for name, kept in line.files.items()}
        for name in (*line.gone, *new):
            self.files.pop(name, None)
        self.files |= new

    def _version(self, kept: Kept) -> Version:
        earlier = self.files.get(kept.earlier) if kept.earlier is not None else None
        self._runs += kept.given
        self._runs += (part for part in kept.parts if not isinstance(part, str))
        if kept.patch is not None:
            return Version(kept, [], earlier, 0 if earlier is None else earlier.depth + 1)
        return Version(kept, [*(earlier.parts[: kept.shared] if earlier is not None else ()), *kept.parts])

    def lines(self) -> dict[bytes, int]:
        """Every record that is kept, with its place."""
        found: dict[bytes, int] = {}
        for start, stop in self._runs:
            for line in self.content[start:stop].split(b"\n"):
                found.setdefault(line, start)
                start += len(line) + 1
        return found

    def bytes_of(self, version: Version) -> bytes:
        """Return a file's bytes; raises CodecError where they are not what was read."""
        kept, patches = version.kept, list[Version]()
        while version.kept.patch is not None:
            patches.append(version)
            if version.base is None:
                raise codec.CodecError("an earlier version of it is not kept")
            version = version.base
        content = self._composed(version)
        for each in reversed(patches):
            assert each.kept.patch is not None
            content = codec.unpack_against(b64decode(each.kept.patch), content)
        if hashlib.sha256(content).hexdigest() != kept.sha256:
            raise codec.CodecError("the bytes do not match their checksum")
        return content

    def _composed(self, version: Version) -> bytes:
        kept = version.kept
        if kept.base64 is not None:
            return b64decode(kept.base64)
        between, pieces, is_run = kept.between.encode(), list[bytes](), False
        for part in version.parts:
            if isinstance(part, str):
                pieces.append(part.encode())
                is_run = False
                continue
            lines = self.content[part[0] : part[1]].replace(b"\n", between)
            pieces += (between, lines) if is_run else (lines,)
            is_run = True
        composed = b"".join(pieces)
        return composed.replace(b"\r", b"\n") if kept.is_folded else composed


class FolderGrown(Struct, frozen=True, kw_only=True):
    """A folder's log with what is new."""

    content: bytes
    missing: str | None = None
    """The reason why not all of it could be read."""


def grown(part: FolderPart, log: FolderLog, found: Mapping[str, FileMark], read: Callable[[str], bytes]) -> FolderGrown:
    """Return a folder's log with what is new in its files: ``found`` lie there, and ``read`` may raise OSError."""

    def read_found(name: str) -> bytes:
        # A file may name others by a way out of the folder, or through a link.
        if name not in found:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return read(name)

    order = part.order(sorted(found), read_found)
    growing = _Growing(part, log, found, read)
    for name in order.names:
        if name in found:
            growing.take_records(name)
    growing.take_others(order.names)
    return FolderGrown(
        content=growing.content(), missing="; ".join(filter(None, [order.missing, *growing.problems])) or None
    )


class _Growing:
    """A folder's log on its way to what lies there now."""

    def __init__(
        self, part: FolderPart, log: FolderLog, found: Mapping[str, FileMark], read: Callable[[str], bytes]
    ) -> None:
        self._part, self._log, self._found, self._read = part, log, found, read
        self._new = FolderLine(gone=[name for name in log.files if name not in found])
        self._changed = {name for name, mark in found.items() if not _is_as_kept(mark, log.files.get(name))}
        self._known: dict[bytes, int] | None = None
        self._added: list[bytes] = []
        self._at = log.end
        self.problems: list[str] = []

    def content(self) -> bytes:
        """The log, which ends in a line of ours where anything is new."""
        if not (self._new.files or self._new.gone):
            return self._log.content
        line = msgspec.json.encode(self._new) + b"\n"
        return b"".join((self._log.content[: self._log.end], *self._added, line))

    def take_records(self, name: str) -> None:
        """Add the records of a file that are not kept yet."""
        before = self._log.files.get(name)
        if name not in self._changed and before is not None and before.has_records:
            return
        content = self._content(name)
        if content is None:
            return
        places = self._part.records(name, content)
        if places is None or any(content.startswith(FOLDER_LINE, start) for start, _ in places):
            self.problems.append(f"{name} is cut short" if places is None else f"{name} has a line of ours")
            return
        if not places and name not in self._changed:
            return
        is_folded, has_returns = any(b"\n" in content[a:b] for a, b in places), b"\r" in content
        can_be_made = not (is_folded and has_returns) and _is_text(content)
        runs = [self._line(content[a:b].replace(b"\n", b"\r")) for a, b in places]
        kept = self._kept(name, content)
        if can_be_made and runs:
            between = Counter(content[a[1] : b[0]] for a, b in pairwise(places)).most_common(1)
            kept.between, kept.is_folded = (between[0][0] if between else b",").decode(), is_folded
            self._name_shared(name, kept, _parts(content, places, runs, kept.between.encode()))
        else:
            self._keep_whole(name, kept, content)
            kept.given = runs
        self._new.files[name] = kept

    def take_others(self, with_records: Iterable[str]) -> None:
        """Add the files that changed and have no records, or none that could be found."""
        for name in sorted(self._changed - self._new.files.keys()):
            content = self._content(name)
            if content is not None:
                self._new.files[name] = kept = self._kept(name, content)
                self._keep_whole(name, kept, content)

    def _content(self, name: str) -> bytes | None:
        try:
            return self._read(name)
        except OSError as refused:
            problem = f"{name}: {refused.strerror or refused}"
            if problem not in self.problems:
                self.problems.append(problem)
            return None

    def _kept(self, name: str, content: bytes) -> Kept:
        mark = self._found[name]
        return Kept(size=mark.size, mtime_ns=mark.mtime_ns, sha256=hashlib.sha256(content).hexdigest())

    def _line(self, line: bytes) -> Run:
        """The place of a record, which is added where it is not kept."""
        if self._known is None:
            self._known = self._log.lines()
        at = self._known.get(line)
        if at is None:
            at = self._known[line] = self._at
            self._added.append(line + b"\n")
            self._at += len(line) + 1
        return at, at + len(line)

    def _name_shared(self, name: str, kept: Kept, parts: list[Part]) -> None:
        """Keep the parts that no earlier version begins with, and name the one that has the others."""
        kept.parts, folder = parts, _folder_of(name)
        for earlier in (name, *(each for each in self._new.gone if _folder_of(each) == folder)):
            version = self._log.files.get(earlier)
            same = _alike(version.parts, parts) if version is not None else 0
            if same >= max(SHARED_PARTS_LEAST, kept.shared + 1):
                kept.earlier, kept.shared, kept.parts = earlier, same, parts[same:]

    def _keep_whole(self, name: str, kept: Kept, content: bytes) -> None:
        """Keep a file as what it adds to an earlier version, else as it is."""
        if _is_text(content):
            kept.parts = [content.decode()] if content else []
        else:
            kept.base64 = b64encode(content).decode()
        if len(content) < PATCHED_BYTES_LEAST:
            return
        least = len(content) // 2
        for earlier, version in self._earlier(name):
            if version.depth < PATCHES_MAX and version.kept.size >= PATCHED_BYTES_LEAST:
                patch = b64encode(codec.pack_against(content, self._log.bytes_of(version))).decode()
                if len(patch) < least:
                    least, kept.parts, kept.base64 = len(patch), [], None
                    kept.earlier, kept.patch = earlier, patch

    def _earlier(self, name: str) -> Iterator[tuple[str, Version]]:
        """Files that this one may be a later version of: itself, else the last of its name, else those beside it."""
        files, own, folder = self._log.files, name.rpartition("/")[2], _folder_of(name)
        if name in files:
            yield name, files[name]
            return
        for each in reversed(files):
            if each.rpartition("/")[2] == own:
                yield each, files[each]
                return
        near = (each for each in reversed(files) if _folder_of(each) == folder and not files[each].has_records)
        for each in sorted(near, key=lambda each: each in self._found)[:2]:
            yield each, files[each]


def _is_as_kept(mark: FileMark, version: Version | None) -> bool:
    return version is not None and (version.kept.size, version.kept.mtime_ns) == (mark.size, mark.mtime_ns)


def _folder_of(name: str) -> str:
    return name.rpartition("/")[0]


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _alike(one: list[Part], other: list[Part]) -> int:
    """The number of parts with which both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _parts(content: bytes, places: Iterable[Run], runs: Iterable[Run], between: bytes) -> list[Part]:
    """A file as text and runs of lines."""
    parts, at = list[Part](), 0
    for (start, stop), run in zip(places, runs, strict=True):
        text = content[at:start]
        before = parts[-1] if parts else None
        if isinstance(before, tuple) and text == between:
            if before[1] + 1 == run[0]:
                parts[-1] = (before[0], run[1])
            else:
                parts.append(run)
        else:
            # An empty text says that nothing stands between two runs.
            parts += (text.decode(), run)
        at = stop
    return [*parts, content[at:].decode()]
