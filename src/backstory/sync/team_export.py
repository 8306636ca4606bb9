"""All that an organisation sent to its server, for its admin: for each machine a file in the JSON format."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import quote

from msgspec import Struct

from backstory import __version__
from backstory.bounds import iso
from backstory.exchange.frames import FrameDamaged, joined
from backstory.exchange.json_lines import FORMAT, End, FileHead
from backstory.model import encoded
from backstory.store.private import as_ours, make_private_folder
from backstory.sync.notes import SyncNotes
from backstory.sync.pull_plan import Want
from backstory.sync.server_source import ServerSource, machines
from backstory.sync.spool import FrameSpool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.sync.remote import Remote
    from backstory.sync.server_source import SentMachine


class ExportedShelf(Struct, frozen=True, kw_only=True):
    """A file of all that a machine sent. ``failed_uids``: sessions that went meanwhile, or are damaged."""

    person: str
    machine: str
    path: str
    session_count: int
    event_count: int
    failed_uids: list[str]


def export(
    remote: Remote, folder: Path, now: int, note: Callable[[int, int], None] = lambda done, total: None
) -> Iterator[ExportedShelf]:
    """Write a file for each machine of each person, and yield it. ``note`` receives sessions done and to do.

    Files of the same names are replaced. Raises ServerRefused, ServerUnreachable, DiskFull, CannotWrite.
    """
    shelves = [
        (person, each, folder / f"{quote(person, safe='')}-{each.id}.jsonl")
        for person in (one["name"] for one in remote.ask("GET", "/v1/people")["people"])
        for each in machines(remote, person).machines
    ]
    make_private_folder(folder)
    done, total = 0, sum(each.session_count for _, each, _ in shelves)
    for person, machine, path in shelves:
        writing = _Writing(remote, person, machine, path)
        for number in writing.run(now):
            note(done + number, total)
        done += machine.session_count
        yield writing.done


class _Writing:
    """The file of one machine. Its name appears when it is whole."""

    def __init__(self, remote: Remote, person: str, machine: SentMachine, path: Path) -> None:
        self._source, self._path = ServerSource(remote, machine, "", SyncNotes(path), {""}, person), path
        self._person, self._machine = person, machine.name or machine.id
        self._sessions = self._events = 0
        self._failed = list[str]()

    @property
    def done(self) -> ExportedShelf:
        """The file that was written."""
        return ExportedShelf(
            person=self._person, machine=self._machine, path=str(self._path), session_count=self._sessions,
            event_count=self._events, failed_uids=self._failed,
        )  # fmt: skip

    def run(self, now: int) -> Iterator[int]:
        """Write it; yields the number of sessions so far."""
        unfinished = self._path.with_name(f"{self._path.name}.part")
        try:
            with (
                os.fdopen(os.open(unfinished, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file,
                tempfile.TemporaryDirectory(dir=self._path.parent, prefix=".frames-") as spools,
            ):
                made_by = f"backstory {__version__}"
                head = FileHead(format=FORMAT, made_by=made_by, exported=iso(now) or "", bytes=False, redacted=True)
                file.write(encoded(head) + b"\n")
                yield from self._write(file, Path(spools))
                file.write(encoded(End(sessions=self._sessions)) + b"\n")
            unfinished.replace(self._path)
        except OSError as refused:
            raise as_ours(unfinished, refused) from refused
        finally:
            unfinished.unlink(missing_ok=True)

    def _write(self, file: IO[bytes], folder: Path) -> Iterator[int]:
        """Write its sessions, each of which is there as a whole or not at all."""
        spools = dict[str, FrameSpool]()

        def spool_of(want: Want) -> FrameSpool:
            if want.uid not in spools:
                spools[want.uid] = FrameSpool(folder / want.uid)
            return spools[want.uid]

        wants = [Want(uid=each.uid) for each in self._source.offers()]
        for number, came in enumerate(self._source.fetch(wants, spool_of), 1):
            spool = spools.pop(came.want.uid, None)
            if came.reason or spool is None:
                self._failed.append(came.want.uid)
            else:
                self._take(file, came.want.uid, spool)
            if spool is not None:
                spool.close(stays=False)
            yield number

    def _take(self, file: IO[bytes], uid: str, spool: FrameSpool) -> None:
        start = file.tell()
        try:
            for line in joined(spool):
                file.write(line)
        except FrameDamaged:
            file.seek(start)
            file.truncate()
            self._failed.append(uid)
            return
        self._sessions += 1
        self._events += sum(each.events for each in spool.heads)
