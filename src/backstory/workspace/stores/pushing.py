"""History of this machine put into a folder that other machines of the same person see: only what is new since."""

from __future__ import annotations

import hashlib
import secrets
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from backstory import __version__
from backstory.errors import BackstoryError, StoreBusy, StoreDamaged, in_words, is_for_one_only
from backstory.ids import new_uid, session_keys
from backstory.runs.lock import LOCKS, SessionLock
from backstory.store.tables import pruned
from backstory.sync import folder as folders
from backstory.sync.folder import FolderWriter
from backstory.sync.frame_sending import FrameSender, SentFrame
from backstory.sync.notes import FOLDER, SyncNote, SyncNotes
from backstory.sync.pull_plan import changed
from backstory.sync.wire import PROTOCOL, Hello
from backstory.workspace.stores.importing import no_progress
from backstory.workspace.stores.pulling import NotPulled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.sync.folder import Passphrase
    from backstory.sync.pull_plan import SentPoint, Want
    from backstory.workspace.stores.importing import Progress
    from backstory.workspace.workspace import Workspace

LOCK = "pushing"
RANDOM_BYTES = 10
DIGITS = 24


class Pushed(Struct, kw_only=True):
    """The result of a push."""

    folder: str
    writer: str
    """The name of our own folder in it."""
    is_sealed: bool
    sessions: list[str] = field(default_factory=list)
    """The uids of those that were put there, from where they were last or whole."""
    removed: list[str] = field(default_factory=list)
    """The uids of those of which it was said that they were removed."""
    pruned: int = 0
    """The number of sessions that were pruned in part, of which nothing is sent: who has the whole keeps it."""
    files: int = 0
    bytes: int = 0
    failed: list[NotPulled] = field(default_factory=list)


def push(
    workspace: Workspace, folder: Path, passphrase: Passphrase | None, *, anew: bool = False,
    progress: Progress = no_progress,
) -> Pushed:  # fmt: skip
    """Put what changed since the last push into a folder. Without ``passphrase`` it lies there in clear.

    ``anew``: all of it, and what this machine put there before is removed. Raises StoreBusy, PassphraseMissing,
    PassphraseWrong, DiskFull, CannotWrite, and what reading the store raises.
    """
    with _alone(workspace):
        return _Pusher(workspace, folder, passphrase, anew=anew).run(progress)


@contextmanager
def _alone(workspace: Workspace) -> Iterator[None]:
    lock = SessionLock(workspace.home / LOCKS, LOCK)
    if not lock.take():
        raise StoreBusy(workspace.machine_store.path)
    try:
        yield
    finally:
        lock.release()


class _Pusher:
    """One push into one folder."""

    def __init__(self, workspace: Workspace, folder: Path, passphrase: Passphrase | None, *, anew: bool) -> None:
        self._workspace, path = workspace, _notes_to(workspace, folder)
        self._notes = SyncNotes.read(path)
        if self._notes.machine != socket.gethostname():
            # A home that was copied to another machine is another writer.
            self._notes = SyncNotes(path)
            writer = new_uid(workspace.now(), secrets.token_bytes(RANDOM_BYTES))
            self._notes.writer, self._notes.machine = writer, socket.gethostname()
            self._notes.rewrite()
        self._own = folder / self._notes.writer
        self._before = set(self._notes.files)
        self._is_anew = anew or any(not (self._own / each).is_file() for each in self._notes.files)
        self._must_go = anew
        folders.clean_up(self._own)
        self._key = None if passphrase is None else passphrase.begin(self._own)
        self.done = Pushed(folder=str(folder), writer=self._notes.writer, is_sealed=passphrase is not None)

    def run(self, progress: Progress) -> Pushed:
        """Write what changed."""
        store = self._workspace.machine_store
        if not store.exists:
            return self.done
        sender = FrameSender(store)
        self.done.pruned = len(store.ask(pruned.sessions))
        hello = Hello(
            protocol=PROTOCOL, made_by=f"backstory {__version__}", id=store.id, name=socket.gethostname()[:200]
        )
        writer = FolderWriter(self._own, hello, self._key, self._note)
        wants = self._wants(sender)
        with progress("Pushing") as note:
            for number, want in enumerate(wants, 1):
                self._send(sender, writer, want)
                note(number, len(wants))
        writer.flush()
        self.done.files, self.done.bytes = writer.files, writer.bytes
        if self._must_go and not self.done.failed:
            for each in self._before:
                (self._own / each).unlink(missing_ok=True)
            self._notes.files -= self._before
            self._notes.rewrite()
        return self.done

    def _wants(self, sender: FrameSender) -> list[Want]:
        held = self._notes.sent
        if self._is_anew:
            # No session has such a history: each begins a new epoch.
            held = {uid: replace(sent, mark="", history="") for uid, sent in held.items()}
        return changed(sender.offers(), held)

    def _send(self, sender: FrameSender, writer: FolderWriter, want: Want) -> None:
        try:
            for each in sender.send(want):
                if isinstance(each, SentFrame):
                    writer.add(each.data)
                else:
                    writer.done(want.uid, each)
                    (self.done.sessions if each.logs or each.history else self.done.removed).append(want.uid)
        except BackstoryError as refused:
            if not (isinstance(refused, StoreDamaged) or is_for_one_only(refused)):
                raise
            self.done.failed.append(NotPulled(session=want.uid, reason=in_words(refused)))

    def _note(self, name: str, points: dict[str, SentPoint]) -> None:
        self._notes.add(*(SyncNote(uid=uid, sent=sent) for uid, sent in points.items()), SyncNote(file=name))


def as_json(done: Pushed) -> dict[str, object]:
    """Return the result of a push as ``push --json`` prints it."""
    return {
        "folder": done.folder, "writer": done.writer, "sealed": done.is_sealed, "pushed_uids": done.sessions,
        "removed_uids": done.removed, "pruned_sessions": done.pruned, "file_count": done.files, "bytes": done.bytes,
        "failed": [session_keys(each.session) | {"reason": each.reason} for each in done.failed],
    }  # fmt: skip


def own_writer(workspace: Workspace, folder: Path) -> str:
    """Return the name of our own folder among those of writers, '' before the first push."""
    return SyncNotes.read(_notes_to(workspace, folder)).writer


def _notes_to(workspace: Workspace, folder: Path) -> Path:
    digest = hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogateescape")).hexdigest()
    return workspace.home / FOLDER / f"to-{digest[:DIGITS]}.jsonl"
