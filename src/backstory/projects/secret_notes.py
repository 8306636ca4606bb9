"""Notes of scans for secrets: how far each log was looked through, what was found there, and what was accepted.

No value is in these files. A secret is its kind and digits made with the machine's key (``mask.key``), so they tell
nothing to who does not have it. With another key, or other shapes, all is looked through again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hmac import digest
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory.derive.secret_finding import SHAPES_VERSION, NamedSecret
from backstory.errors import BackstoryError, BaselineUnusable
from backstory.store.private import make_private_folder, write_private

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from pathlib import Path

SCANNED, ACCEPTED = "secrets.scanned", "secrets.accepted"
"""Our files in a home."""
STORES_MAX = 20
"""The most stores whose notes are kept: those scanned last."""


class Sighted(Struct, frozen=True, array_like=True):
    """A secret in a record (None: in bytes without a number) or a file."""

    secret: NamedSecret
    seq: int | None = None
    at: int | None = None
    """The place in its log, in bytes without a number."""


class ScannedPart(Struct, array_like=True):
    """A log, file, summary or prompt that was looked through up to ``end``; ``mark`` changes with these bytes."""

    mark: str
    end: int
    found: list[Sighted] = field(default_factory=list)
    line: int = 0
    """The start of a log's last line, which may not have ended: it is looked through again when the log has grown."""


class ScannedStore(Struct):
    """The parts of a store that were looked through, by the ids there."""

    logs: dict[int, ScannedPart] = field(default_factory=dict)
    files: dict[int, ScannedPart] = field(default_factory=dict)
    summaries: dict[int, ScannedPart] = field(default_factory=dict)
    prompts: dict[int, ScannedPart] = field(default_factory=dict)

    @property
    def digits(self) -> set[str]:
        """The digits of all secrets that were found."""
        parts = (part for noted in (self.logs, self.files, self.summaries, self.prompts) for part in noted.values())
        return {each.secret.digits for part in parts for each in part.found}


class _Scanned(Struct):
    shapes: int
    key: str
    stores: dict[str, ScannedStore] = field(default_factory=dict)


class _Accepted(Struct, frozen=True):
    kind: str
    fingerprint: str


class _Baseline(Struct):
    key: str
    """Tells whether it was made with this key."""
    accepted: list[_Accepted] = field(default_factory=list)
    version: int = 1


def mark_of(key: bytes, *parts: bytes) -> str:
    """Return a mark of bytes that tells nothing of them without the key."""
    said = b""
    for part in parts:
        said = digest(key, said + part, "sha256")
    return said.hex()[:32]


class ScanNotes:
    """The notes in a home. One that cannot be read is empty: then all is looked through again."""

    def __init__(self, home: Path, key: bytes) -> None:
        self._home, self._key = home, mark_of(key, b"scanned")
        self._scanned = _Scanned(SHAPES_VERSION, self._key)
        with suppress(OSError, msgspec.DecodeError, msgspec.ValidationError):
            read = msgspec.json.decode((home / SCANNED).read_bytes(), type=_Scanned)
            if (read.shapes, read.key) == (SHAPES_VERSION, self._key):
                self._scanned = read

    def of_store(
        self,
        store: str,
        logs: Container[int],
        files: Container[int],
        summaries: Container[int],
        prompts: Container[int],
    ) -> ScannedStore:
        """Return the notes of a store that has these by their ids; whoever scans it changes them.

        ``store``: its id and path, as a clone may bring a file with another one's id.
        """
        stores = self._scanned.stores
        noted = stores[store] = stores.pop(store, ScannedStore())
        for other in [*stores][: max(len(stores) - STORES_MAX, 0)]:
            del stores[other]
        noted.logs = {log: part for log, part in noted.logs.items() if log in logs}
        noted.files = {file: part for file, part in noted.files.items() if file in files}
        noted.summaries = {each: part for each, part in noted.summaries.items() if each in summaries}
        noted.prompts = {each: part for each, part in noted.prompts.items() if each in prompts}
        return noted

    def keep(self) -> bool:
        """Write the notes; False where the home takes none."""
        try:
            make_private_folder(self._home)
            # What a power cut takes of them is only looked through again.
            _replace(self._home / SCANNED, msgspec.json.encode(self._scanned), sync=False)
        except BackstoryError:
            return False
        return True


class AcceptedSecrets:
    """A baseline: the secrets that a person accepted, in a file that has none of them. Raises BaselineUnusable."""

    def __init__(self, path: Path, key: bytes) -> None:
        self.path, self._key = path, mark_of(key, b"accepted")
        self.secrets = set[str]()
        """The digits of each."""
        self._read = _Baseline(self._key)
        if path.exists():
            try:
                self._read = msgspec.json.decode(path.read_bytes(), type=_Baseline)
            except (OSError, msgspec.DecodeError, msgspec.ValidationError) as refused:
                raise BaselineUnusable(path, "it is no baseline, or cannot be read") from refused
            if self._read.key != self._key:
                raise BaselineUnusable(path, "it was made with another mask.key, so it fits no secret here")
        self.secrets = {each.fingerprint for each in self._read.accepted}

    def accept(self, secrets: Iterable[NamedSecret]) -> None:
        """Add secrets, and write the file. Raises CannotWrite, DiskFull."""
        new = [_Accepted(each.kind, each.digits) for each in secrets if each.digits not in self.secrets]
        self._read.accepted = sorted([*self._read.accepted, *new], key=lambda each: (each.kind, each.fingerprint))
        self.secrets = {each.fingerprint for each in self._read.accepted}
        make_private_folder(self.path.parent)
        _replace(self.path, msgspec.json.format(msgspec.json.encode(self._read), indent=2) + b"\n", sync=True)


def _replace(path: Path, data: bytes, *, sync: bool) -> None:
    """Write a private file anew, in one step."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        write_private(part, data, sync=sync)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
