"""History pulled from another machine of the same person: over ssh or out of a folder as it is, from a server masked.

Frames are checked as they come and wait in files. Then sessions are put together, some at a time, read like an import
that is trusted, and taken over each in one transaction. What a kill or a cut line left is gone on with.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast, overload

from msgspec import Struct, field
from msgspec.structs import replace

from backstory.ask import session_marks
from backstory.bounds import iso
from backstory.errors import DiskFull, ImportRefused, ImportRunning, in_words
from backstory.exchange import frames, replication
from backstory.exchange.frames import FrameDamaged, joined
from backstory.exchange.imported import Came
from backstory.exchange.json_lines import FORMAT, End, FileHead
from backstory.export.exporting import Chosen
from backstory.export.portable import JsonExport
from backstory.ids import session_keys
from backstory.ingest.import_folder import staging
from backstory.ingest.json_import import JsonImport
from backstory.model import encoded
from backstory.runs.lock import LOCKS, SessionLock
from backstory.sync.notes import FOLDER, SyncNote, SyncNotes, notes_from
from backstory.sync.pull_plan import Here, Want, wanted
from backstory.sync.sources import Arrived
from backstory.sync.spool import FrameSpool
from backstory.workspace.stores.importing import no_progress
from backstory.workspace.stores.json_importing import derive_what_came, take_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from backstory.exchange.frames import Frame
    from backstory.sync.pull_plan import SentPoint
    from backstory.sync.sources import FrameSource
    from backstory.workspace.stores.importing import Progress
    from backstory.workspace.workspace import Workspace

LOCK = "pulling"
ARRIVING = "arriving"
"""The folder for frames that came and are not taken over yet."""
BASE = "base"
AT_ONCE, AT_ONCE_BYTES = 100, 32 * 1024 * 1024
"""The sessions, and the bytes of frames, that are taken over together."""
MANY_SESSIONS = 50
SESSION = b'{"type":"session",'
FREE_BYTES = 128 * 1024 * 1024
"""The room that a pull leaves on the disk."""


class NotPulled(Struct, frozen=True, kw_only=True):
    """A session that did not come, and why."""

    session: str
    reason: str


class Pulled(Struct, kw_only=True):
    """The result of a pull. The lists of ``came`` are uids, by the words of ``Came``."""

    source: str
    offered: int = 0
    came: dict[str, list[str]] = field(default_factory=lambda: {each.value: [] for each in Came})
    removed: int = 0
    """The number of sessions removed here because they were removed there."""
    frames: int = 0
    bytes: int = 0
    """The size of the frames that came."""
    failed: list[NotPulled] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    """Files of a folder that are not taken, each with the reason."""


def pull(workspace: Workspace, source: FrameSource, progress: Progress = no_progress) -> Pulled:
    """Take what the other side has and this one lacks into the home store.

    Raises ImportRunning, DiskFull, what reading the other side raises, and what writing the store raises.
    """
    with alone(workspace, LOCK, "pull"):
        puller = _Puller(workspace, source)
        try:
            with progress("Pulling") as note:
                puller.run(note)
        finally:
            puller.settle(progress)
    return puller.done


@contextmanager
def alone(workspace: Workspace, lock: str, what: str) -> Iterator[None]:
    """Keep others from what one process of this home does at a time. Raises ImportRunning."""
    taken = SessionLock(workspace.home / LOCKS, lock)
    if not taken.take():
        raise ImportRunning(what)
    try:
        yield
    finally:
        taken.release()


class _Puller:
    """One pull from one side."""

    def __init__(self, workspace: Workspace, source: FrameSource) -> None:
        self._workspace, self._source = workspace, source
        self._store = workspace.machine_store
        self.done = Pulled(source=source.name)
        self._folder = workspace.home / FOLDER / f"{ARRIVING}-{source.id}"
        self._notes = SyncNotes.read(notes_from(workspace.home, source.id))
        self._spools = dict[str, FrameSpool]()
        self._again = list[Want]()
        self._has_changed = False

    def run(self, note: Callable[[int, int], None]) -> None:
        """Ask for what is wanted, and take it over."""
        offers = self._source.offers()
        self.done.offered = len(offers)
        wants = wanted(offers, self._notes.sent, self._here())
        # Where what is here is not what came from there, all of it is asked for.
        wants = [want if want.uid in self._followed() else Want(uid=want.uid) for want in wants]
        wants = [self._with_what_came(want) for want in wants]
        total, taken = len(wants), 0
        for round_ in (wants, self._again):
            waiting, size = list[Arrived](), 0
            try:
                for came in self._source.fetch(list(round_), self._spool):
                    if came.reason:
                        self._fail(came.want.uid, came.reason)
                    else:
                        waiting.append(came)
                        size += self._spools[came.want.uid].size
                    if len(waiting) >= AT_ONCE or size >= AT_ONCE_BYTES:
                        self._take(waiting)
                        waiting, size = [], 0
                    taken += 1
                    note(min(taken, total), total)
            finally:
                # Also of a line that was cut: these came whole.
                self._take(waiting)
        self.done.passed_over = self._source.passed_over
        if not self.done.failed and (new := self._source.files_read - self._notes.files):
            self._notes.add(*(SyncNote(file=each) for each in sorted(new)))
        shutil.rmtree(self._folder, ignore_errors=True)

    def settle(self, progress: Progress) -> None:
        """Close what is open, and derive what came, also of a pull that failed."""
        for spool in self._spools.values():
            spool.close()
        if self._has_changed:
            derived = derive_what_came(self._workspace, progress, has_changed=True)
            for each in derived.failed:
                self._fail(each.session, f"not derived: {each.reason}")

    def _followed(self) -> set[str]:
        """The sessions that are here as they came from this side."""
        return {uid for uid, sent in self._notes.sent.items() if sent.chain != frames.NO_CHAIN}

    def _fail(self, uid: str, reason: str) -> None:
        self.done.failed.append(NotPulled(session=uid, reason=reason))

    def _here(self) -> dict[str, Here]:
        nothing = list[tuple[str, bool]](), list[str]()
        sessions, removed = self._store.ask_or(nothing, session_marks.states)
        gone = dict.fromkeys(removed, Here.REMOVED)
        # What came with the bytes of its logs is not replaced by what is masked.
        whole = {*self._store.ask_or([], session_marks.with_bytes)} if self._source.is_masked else set[str]()
        return gone | {
            identity: Here.PULLED if imported and identity not in whole else Here.OWN for identity, imported in sessions
        }

    # frames that come -------------------------------------------------------------------------------------------

    def _spool(self, want: Want) -> FrameSpool:
        if (free := shutil.disk_usage(self._workspace.home).free) < FREE_BYTES:
            raise DiskFull(self._folder) from OSError(f"{free} bytes are free")
        if want.uid not in self._spools:
            self._spools[want.uid] = FrameSpool(self._folder / want.uid)
        return self._spools[want.uid]

    def _with_what_came(self, want: Want) -> Want:
        """Add what came of a session before the line was cut, where that still follows what is here."""
        if not (self._folder / want.uid).exists():
            return want
        spool = self._spool(want)
        begins = ("", 1) if want.sent is None else (want.sent.chain, want.sent.epoch)
        # Frames that begin anew may be of any epoch; who sends them says whether they are still right.
        if not spool.heads or (spool.heads[0].prev and (spool.heads[0].prev, spool.heads[0].epoch) != begins):
            spool.shorten()
            return want
        return Want(uid=want.uid, sent=want.sent, frames=len(spool), chain=spool.heads[-1].chain)

    # taken over -------------------------------------------------------------------------------------------------

    def _take(self, waiting: list[Arrived]) -> None:
        """Take sessions over that came whole, and note it."""
        if not waiting:
            return
        by_uid = {each.want.uid: each for each in waiting}
        with staging(self._workspace.home, self._workspace.now) as staged:
            reader = JsonImport(staged, self._source.name, trusted=True)
            # What it raises where no session is whole is said of each of them.
            with suppress(ImportRefused):
                reader.read(cast("IO[bytes]", _Lines(self._lines(waiting, by_uid))))
            for damaged in reader.damaged:
                if damaged.session is None or by_uid.pop(damaged.session, None) is not None:
                    self._fail(damaged.session or "", damaged.reason)
            path, followed, taken = Path(self._source.name), self._followed(), set[str]()
            anew = {each.want.uid for each in waiting if each.want.uid in followed and self._is_anew(each)}
            for uid, how in take_over(
                self._store, staged, reader.uids, path, trusted=True, followed=followed, anew=anew
            ):
                if isinstance(how, Came):
                    self.done.came[how.value].append(uid)
                    if how in (Came.NEW, Came.UPDATED):
                        taken.add(uid)
                    elif how != Came.SAME or uid not in followed:
                        by_uid[uid] = replace(by_uid[uid], sent=_not_here(by_uid[uid].sent))
                else:
                    self._fail(uid, in_words(how))
                    by_uid.pop(uid, None)
            if reader.removed:
                self.done.removed += replication.take_removals(self._store, reader.removed)
        self._has_changed |= bool(taken)
        self._part_from_others(taken)
        self._notes.add(*(SyncNote(uid=uid, sent=came.sent) for uid, came in by_uid.items()))
        for came in waiting:
            spool = self._spools.pop(came.want.uid)
            self.done.frames += len(spool)
            self.done.bytes += spool.size
            spool.close(stays=False)

    def _is_anew(self, came: Arrived) -> bool:
        """Return True where a session is masked otherwise than what is here of it: that is not to stay."""
        spool, sent = self._spools[came.want.uid], self._notes.sent[came.want.uid]
        return self._source.is_masked and bool(spool) and spool.heads[0].epoch > sent.epoch

    def _part_from_others(self, taken: set[str]) -> None:
        """Note of other sides that what they sent of these sessions is not what is here any more."""
        own = notes_from(self._workspace.home, self._source.id)
        for path in own.parent.glob(own.name.replace(self._source.id, "*")) if taken else ():
            if path != own:
                notes = SyncNotes.read(path)
                if gone := [SyncNote(uid=uid, sent=_not_here(notes.sent[uid])) for uid in taken & notes.sent.keys()]:
                    notes.add(*gone)

    def _lines(self, waiting: list[Arrived], by_uid: dict[str, Arrived]) -> Iterator[bytes]:
        """The lines of an export of these sessions; what cannot be put together is asked for anew, as a whole."""
        sessions = 0
        made_by = f"a pull from {self._source.name}"
        exported = iso(self._workspace.now()) or ""
        is_masked = self._source.is_masked
        yield _line(
            FileHead(format=FORMAT, made_by=made_by, exported=exported, bytes=not is_masked, redacted=is_masked)
        )
        for came in waiting:
            spool = self._spools[came.want.uid]
            try:
                if not spool.heads or came.sent is None or spool.heads[-1].chain != came.sent.chain:
                    raise FrameDamaged("its frames do not lead to where they should")
                if self._source.is_masked and spool.heads[0].bytes:
                    raise FrameDamaged("it has the bytes of logs, and was to be masked")
                for line in self._joined(came.want, spool):
                    sessions += line.startswith(SESSION)
                    yield line
            except FrameDamaged as refused:
                del by_uid[came.want.uid]
                if came.want.sent is None:
                    self._fail(came.want.uid, str(refused))
                else:
                    self._again.append(Want(uid=came.want.uid))
        yield _line(End(sessions=sessions))

    def _joined(self, want: Want, spool: FrameSpool) -> Iterator[bytes]:
        """The lines of a session of which only the end came, behind those of our copy, or of all that came.

        Raises FrameDamaged where our copy is not what the other side sent before.
        """
        sent, first = want.sent, spool.heads[0]
        if not first.prev:
            yield from joined(spool)
            return
        if sent is None or (first.prev, first.epoch, first.after) != (sent.chain, sent.epoch, sent.upto):
            raise FrameDamaged("it does not follow what came before")
        with FrameSpool(self._folder / BASE) as base:
            base.shorten()
            for data in self._made_anew(sent, want.uid, has_bytes=first.bytes):
                base.add(data)
            yield from joined(_Both(base, spool), made_anew=len(base))

    def _made_anew(self, sent: SentPoint, uid: str, *, has_bytes: bool) -> Iterator[bytes]:
        """Our copy of a session in frames. Raises FrameDamaged where it is another one than was sent."""
        if not self._store.has(uid):
            raise FrameDamaged("it is not here any more")
        session = self._store.session(uid)
        lengths = tuple(each.read_to for each in self._store.logs(session)) if has_bytes else ()
        export = JsonExport(has_bytes=has_bytes, now=self._workspace.now(), piece_bytes=frames.PIECE_BYTES)
        lines = export.lines([Chosen(store=self._store, ids=[session.id], is_exact=True)], removed=False)
        inside = (line for line in lines if not line.startswith((b'{"type":"backstory"', b'{"type":"end"')))
        upto = frames.START
        for data in frames.frames(inside, session=uid, has_bytes=has_bytes):
            upto = frames.head_of(data).upto
            yield data
        if lengths != sent.logs or upto != sent.upto:
            raise FrameDamaged("it is another one here than was sent")


def noted(workspace: Workspace, source_id: str) -> SyncNotes:
    """Return the notes on a side: what came of it, and which files of a writer were read to their end."""
    return SyncNotes.read(notes_from(workspace.home, source_id))


def as_json(done: Pulled) -> dict[str, object]:
    """Return the result of a pull as ``pull --json`` prints it."""
    return {
        "source": done.source, "offered_count": done.offered, "came": done.came, "removed_count": done.removed,
        "frame_count": done.frames, "bytes": done.bytes,
        "failed": [session_keys(each.session) | {"reason": each.reason} for each in done.failed],
        "passed_over": done.passed_over,
    }  # fmt: skip


class _Both(Sequence["Frame"]):
    """The frames of one, then those of the other."""

    def __init__(self, one: FrameSpool, other: FrameSpool) -> None:
        self._one, self._other = one, other

    def __len__(self) -> int:
        return len(self._one) + len(self._other)

    @overload
    def __getitem__(self, at: int) -> Frame: ...
    @overload
    def __getitem__(self, at: slice) -> list[Frame]: ...
    def __getitem__(self, at: int | slice) -> Frame | list[Frame]:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        return self._one[at] if at < len(self._one) else self._other[at - len(self._one)]


class _Lines:
    """Lines as a file that is read line by line."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = iter(lines)

    def readline(self, _most: int = -1) -> bytes:
        """Return the next line; nothing at the end."""
        for line in self._lines:
            return line
        return b""


def _not_here(sent: SentPoint | None) -> SentPoint | None:
    """The note on a session that came, and is here as it came from elsewhere: what follows it does not follow that."""
    return None if sent is None else replace(sent, chain=frames.NO_CHAIN)


def _line(line: FileHead | End) -> bytes:
    return encoded(line) + b"\n"
