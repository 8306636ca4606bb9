"""Frames as files in a folder that several machines see, such as one that a service keeps in step.

Each writer has a folder of its own in it, and a file has a number and the hash of its content for its name, so nobody
writes over what another wrote. A file is written under another name, put on the disk, and then appears. Who reads
takes a file whole or not at all; what is not one of ours is named and left alone.
"""

from __future__ import annotations

import hashlib
import io
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec import Struct, field

from backstory.errors import FarEndBroken, PassphraseMissing, PassphraseWrong, in_words
from backstory.exchange.frames import FrameDamaged, FrameHead, head_of
from backstory.lazy import lazy_module, lazy_regex
from backstory.model import encoded
from backstory.store.private import as_ours, make_private_folder, publish, sync, write_private
from backstory.sync.pull_plan import SentPoint, SessionOffer
from backstory.sync.sources import Arrived
from backstory.sync.wire import Bye, FramesEnd, Hello, heard, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from backstory.sync import sealing
    from backstory.sync.pull_plan import Want
    from backstory.sync.spool import FrameSpool
else:
    sealing = lazy_module("backstory.sync.sealing")

KEY_FILE = "key.json"
KEY_FILE_BYTES_MAX = 4_096
FILE_BYTES = 16 * 1024 * 1024
"""A file is closed when it has so many bytes."""
PART = ".part"
_WRITER = lazy_regex(r"[0-9A-HJKMNP-TV-Z]{26}")
_FILE = lazy_regex(r"(\d{8,12})-([0-9a-f]{64})\.frames")


class Passphrase:
    """A passphrase that is asked for when it is needed first, and its keys. ``ask`` returns None without one.

    ``reads_plain``: files that are not sealed are read, too. Whoever may write into the folder could put any there.
    """

    def __init__(self, ask: Callable[[], str | None], *, reads_plain: bool = False) -> None:
        self._ask, self.reads_plain = ask, reads_plain
        self._said: str | None = None
        self._keys: dict[Path, bytes | None] = {}

    def key(self, folder: Path) -> bytes:
        """Return the key of a writer's folder. Raises PassphraseMissing, PassphraseWrong, ``SealDamaged``."""
        if folder not in self._keys:
            with (folder / KEY_FILE).open("rb") as file:
                known = sealing.key_file_of(file.read(KEY_FILE_BYTES_MAX))
            self._keys[folder] = sealing.key_of(known, self._text())
        if (key := self._keys[folder]) is None:
            raise PassphraseWrong(folder)
        return key

    def begin(self, folder: Path) -> bytes:
        """Return the key of a writer's folder, which gets one if it has none. Raises as ``key`` does."""
        if (folder / KEY_FILE).exists():
            return self.key(folder)
        file, key = sealing.new_key_file(self._text())
        _put(folder, KEY_FILE, encoded(file) + b"\n")
        self._keys[folder] = key
        return key

    def _text(self) -> str:
        if self._said is None:
            self._said = self._ask()
        if not self._said:
            raise PassphraseMissing
        return self._said


def writers(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the folders of writers, and what else is there, each with what it is. Raises CannotWrite."""
    try:
        found = sorted(folder.iterdir())
    except OSError as refused:
        raise as_ours(folder, refused) from refused
    ours = [each for each in found if _WRITER.fullmatch(each.name) and each.is_dir()]
    others = [each for each in found if each not in ours and not each.name.startswith(".")]
    return ours, [f"{each}: it is not of backstory" for each in others]


@contextmanager
def records(path: Path, passphrase: Passphrase) -> Iterator[IO[bytes]]:
    """Open a file of frames. Raises OSError, SealDamaged, FarEndBroken, PassphraseMissing, PassphraseWrong."""
    with path.open("rb") as file:
        is_sealed = not file.read(len(_HELLO)).startswith(_HELLO)
        file.seek(0)
        if is_sealed:
            pieces = sealing.opened(file, passphrase.key(path.parent))
            yield io.BufferedReader(sealing.OpenedFile(pieces), sealing.PIECE_BYTES)
        elif passphrase.reads_plain:
            yield file
        else:
            raise FarEndBroken(NOT_SEALED)


_HELLO = b'{"say":"hello"'
NOT_SEALED = "it is not sealed; --plain reads it all the same"


# reading --------------------------------------------------------------------------------------------------------------


class FramePlace(Struct, frozen=True):
    """A frame, and the name of the file that it is in."""

    file: str
    head: FrameHead


class FrameIndex(Struct):
    """The frames of files by their chains, and the points that sessions were brought to, in order."""

    frames: dict[str, FramePlace] = field(default_factory=dict)
    points: dict[str, list[SentPoint]] = field(default_factory=dict)

    def way(self, uid: str, sent: SentPoint | None) -> tuple[SentPoint, list[str]] | None:
        """Return the last point of a session that frames lead to, and their chains in order.

        They begin behind ``sent``, or at the beginning of an epoch. None where frames are missing to every point.
        """
        for point in reversed(self.points.get(uid, [])):
            chains, at = list[str](), point.chain
            while at and not (sent is not None and at == sent.chain):
                place = self.frames.get(at)
                if place is None or place.head.session != uid or len(chains) > len(self.frames):
                    break
                chains.append(at)
                at = place.head.prev
            else:
                return point, chains[::-1]
        return None


class FolderSource:
    """The files of one writer. ``known``: the names of those that were read before, to their end."""

    is_masked = False

    def __init__(self, folder: Path, passphrase: Passphrase, known: set[str]) -> None:
        self._folder, self._passphrase, self._known = folder, passphrase, known
        self.id, self.name = folder.name, str(folder)
        self.passed_over, self.files_read = list[str](), set[str]()
        self._index = FrameIndex()

    def offers(self) -> list[SessionOffer]:
        for name in self._names():
            if name not in self._known:
                self._add(name)
        return [SessionOffer(uid=uid, mark=points[-1].mark) for uid, points in self._index.points.items()]

    def fetch(self, wants: Sequence[Want], spool_of: Callable[[Want], FrameSpool]) -> Iterator[Arrived]:
        targets, needed = dict[str, SentPoint](), dict[str, "Want"]()
        for want in wants:
            found = self._index.way(want.uid, want.sent)
            if found is None:
                # What it goes on from is in files that were read before.
                for name in self._names():
                    self._add(name)
                found = self._index.way(want.uid, want.sent)
            if found is None:
                yield Arrived(want=want, reason="a part of it is not in the folder yet")
                continue
            point, chains = found
            if not chains:
                yield Arrived(want=want, sent=point)
                continue
            needed |= dict.fromkeys(chains, want)
            targets[chains[-1]] = point
        failed = set[str]()
        for name in sorted({self._index.frames[chain].file for chain in needed}):
            for data in self._frames(name):
                head = head_of(data)
                if (asked := needed.pop(head.chain, None)) is None or asked.uid in failed:
                    continue
                try:
                    _put_into(spool_of(asked), data, head, asked)
                except FrameDamaged as refused:
                    failed.add(asked.uid)
                    yield Arrived(want=asked, reason=f"a frame of it is damaged: {refused}")
                    continue
                if head.chain in targets:
                    yield Arrived(want=asked, sent=targets[head.chain])

    def _frames(self, name: str) -> Iterator[bytes]:
        """The frames of a file that was looked through before. Raises FarEndBroken."""
        try:
            with records(self._folder / name, self._passphrase) as file:
                while not isinstance(words := heard(file), Bye):
                    if isinstance(words, bytes):
                        yield words
        except (OSError, sealing.SealDamaged) as refused:
            raise FarEndBroken(f"{self._folder / name}: {in_words(refused)}") from refused

    def _names(self) -> list[str]:
        names, seen = list[str](), set(self.passed_over)
        for each in sorted(self._folder.iterdir()):
            if _FILE.fullmatch(each.name) and each.is_file():
                names.append(each.name)
            elif each.name != KEY_FILE and not each.name.startswith(".") and (said := f"{each}: {STRANGE}") not in seen:
                self.passed_over.append(said)
        return names

    def _add(self, name: str) -> None:
        """Read a file into the index, whole or not at all."""
        if name in self.files_read:
            return
        path, found = self._folder / name, FrameIndex()
        try:
            self._check(path)
            with records(path, self._passphrase) as file:
                count = 0
                while not isinstance(words := heard(file), Bye):
                    count += 1
                    if isinstance(words, bytes):
                        head = head_of(words)
                        found.frames[head.chain] = FramePlace(name, head)
                    elif isinstance(words, FramesEnd):
                        found.points.setdefault(words.uid, []).append(words.sent)
                if words.records != count or file.read(1):
                    raise FarEndBroken("it is not whole")
        except (OSError, FarEndBroken, FrameDamaged, sealing.SealDamaged) as refused:
            said = f"{path}: {refused.reason if isinstance(refused, FarEndBroken) else in_words(refused)}"
            if said not in self.passed_over:
                self.passed_over.append(said)
            return
        self.files_read.add(name)
        self._index.frames |= found.frames
        for uid, points in found.points.items():
            known = self._index.points.setdefault(uid, [])
            known += [each for each in points if each not in known]

    def _check(self, path: Path) -> None:
        """Raise FarEndBroken unless the content of a file is what its name says."""
        said = _FILE.fullmatch(path.name)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if said is None or said[2] != digest:
            raise FarEndBroken("it is not whole yet, or was changed")


def _put_into(spool: FrameSpool, data: bytes, head: FrameHead, want: Want) -> None:
    """Put a frame into its spool, if it is not there from a pull that was cut. Raises FrameDamaged."""
    if any(each.chain == head.chain for each in spool.heads):
        return
    if not head.prev or (want.sent is not None and head.prev == want.sent.chain):
        spool.shorten()
    spool.add(data)


STRANGE = "it is not of backstory, or a copy that a service made"


# writing --------------------------------------------------------------------------------------------------------------


class FolderWriter:
    """Writes files into our folder among those of writers. ``key``: they are sealed with it; None: they are not.

    ``written`` is called with the name of a file, and the points that it brings sessions to, once it is on the disk.
    """

    def __init__(
        self, folder: Path, hello: Hello, key: bytes | None, written: Callable[[str, dict[str, SentPoint]], None]
    ) -> None:
        self._folder, self._hello, self._key, self._written = folder, hello, key, written
        self._points = dict[str, SentPoint]()
        self._begin()
        self.bytes = self.files = 0
        """Counts of the files that were written."""

    def add(self, data: bytes) -> None:
        """Add a frame."""
        if self._buffer.tell() >= FILE_BYTES:
            self.flush()
        self._buffer.write(data)
        self._records += 1

    def done(self, uid: str, sent: SentPoint) -> None:
        """Say that all frames of a session came."""
        say(self._buffer, FramesEnd(uid=uid, sent=sent))
        self._records += 1
        self._points[uid] = sent

    def flush(self) -> None:
        """Put what was added into a file of its own. Raises DiskFull, CannotWrite."""
        if self._records == 1:
            return
        say(self._buffer, Bye(records=self._records))
        data = self._buffer.getvalue()
        if self._key is not None:
            pieces = (data[at : at + sealing.PIECE_BYTES] for at in range(0, len(data), sealing.PIECE_BYTES))
            data = b"".join(sealing.sealed(pieces, self._key))
        name = f"{_next_number(self._folder):08}-{hashlib.sha256(data).hexdigest()}.frames"
        _put(self._folder, name, data)
        self.bytes, self.files = self.bytes + len(data), self.files + 1
        self._written(name, self._points)
        self._begin()

    def _begin(self) -> None:
        self._buffer, self._records, self._points = io.BytesIO(), 1, {}
        say(self._buffer, self._hello)


def _put(folder: Path, name: str, data: bytes) -> None:
    """Write a file whole, or not at all. Raises DiskFull, CannotWrite."""
    make_private_folder(folder)
    part = folder / f".{name}{PART}"
    write_private(part, data, sync=True)
    try:
        with suppress(FileExistsError):
            publish(part, folder / name)
        part.unlink(missing_ok=True)
        sync(folder)
    except OSError as refused:
        raise as_ours(folder / name, refused) from refused


def _next_number(folder: Path) -> int:
    names = [_FILE.fullmatch(each.name) for each in folder.iterdir()] if folder.is_dir() else []
    return max((int(each[1]) for each in names if each is not None), default=0) + 1


def clean_up(folder: Path) -> None:
    """Remove what a killed writer left in our own folder."""
    for each in folder.glob(f".*{PART}") if folder.is_dir() else ():
        with suppress(OSError):
            each.unlink()
