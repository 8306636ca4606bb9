"""Handing a session over to its agent's own client: the log is put back where the client looks, if it is gone.

>>> resuming = Resuming(workspace, user_home)            # doctest: +SKIP
>>> resumption = resuming.plan(workspace.resolve("…"))   # doctest: +SKIP
>>> with resuming.held(resumption, force=False):         # doctest: +SKIP
...     resuming.put_back(resumption)
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory import agents
from backstory.errors import InUseNow, NothingPutBack, RunsContinue
from backstory.export.files import FILE, kind_of
from backstory.export.placing import Notes, PutFile, PutNote, WantedFile, key_of, put, take_away
from backstory.runs.handover import WRITTEN_MS, HandoverLock, who_uses
from backstory.workspace.clients.client_index import ClientIndex
from backstory.workspace.clients.handing_over import (
    file_errors,
    program_name,
    program_path,
    real_folder,
    resume_part,
    root_of,
    trusted,
)
from backstory.workspace.clients.missing_files import MissingFiles, own_logs
from backstory.workspace.located import LocatedSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.agents.contract import ResumePart
    from backstory.workspace.workspace import Workspace


class Resumption(Struct, frozen=True, kw_only=True):
    """The way to resume a session. ``log``: the file that the client reads. ``missing``: the files to put back."""

    located: LocatedSession
    agent: str
    native_id: str
    original: str
    """The last known place of the log."""
    folder: Path
    root: Path
    log: Path
    places: tuple[Path, ...]
    missing: tuple[WantedFile, ...] = ()
    written: str | None = None
    """The id of a log that we wrote anew from the session; None for the session's own."""

    @property
    def key(self) -> str:
        """The key of its lock and of its note."""
        return key_of(self.located.session.uid, self.written)

    @property
    def is_log_there(self) -> bool:
        """True if the log is where the client looks."""
        return all(each.path != self.log for each in self.missing)


class PutBack(Struct, frozen=True, kw_only=True):
    """The files that were put back now. ``index``: the agent's database that leads to the log since then."""

    files: tuple[PutFile, ...] = ()
    index: str | None = None


class Resuming:
    """Hands over the sessions of one workspace. ``user_home``: below it are the agents' folders."""

    def __init__(self, workspace: Workspace, user_home: Path) -> None:
        self._workspace, self._user_home = workspace, user_home
        self._notes = Notes(workspace.home)
        self._index = ClientIndex(workspace, self._notes)
        self._lock: HandoverLock | None = None

    def plan(self, located: LocatedSession, cwd: Path | None = None) -> Resumption:
        """Return the way to resume a session in ``cwd`` or in its own folder; a subagent's session as its parent.

        Raises RunsContinue, CannotResume, SessionNotTrusted, FolderGone, NotAPlace, LogDiffers, LogNotRead,
        CannotWrite.
        """
        located = trusted(located)
        with file_errors(self._user_home):
            return self._planned(located, cwd)

    def _planned(self, located: LocatedSession, cwd: Path | None) -> Resumption:
        session, store = located.session, located.store
        if session.number is not None:
            raise RunsContinue(located.label)
        agent, native_id, kept = own_logs(located)
        part = resume_part(located, agent)
        folder = real_folder(session, cwd)
        root = root_of(self._workspace, self._user_home, agent, Path(kept[-1].path))
        files = MissingFiles(part, root, folder)
        log, places, missing = files.log(located, kept)
        missing += files.beside(store, log, places[0])
        missing += files.subagents(located, places[0].parent)
        return Resumption(
            located=located, agent=agent, native_id=native_id, original=log.path, folder=folder, root=root,
            log=places[0], places=places, missing=tuple(missing),
        )  # fmt: skip

    def is_own_client(self, located: LocatedSession, agent: str) -> bool:
        """Return True if an agent wrote the session's own log, which its client continues."""
        return located.session.number is None and own_logs(located)[0] == agent

    def command(self, resumption: Resumption) -> list[str]:
        """The command line of the client, its program by name."""
        part = resume_part(resumption.located, resumption.agent)
        return part.command(self._program_name(resumption), resumption.native_id)

    def program(self, resumption: Resumption) -> str:
        """The path of the client's program. Raises AgentMissing."""
        return program_path(self._workspace, self._program_name(resumption), resumption.agent)

    def _program_name(self, resumption: Resumption) -> str:
        part = resume_part(resumption.located, resumption.agent)
        return program_name(self._workspace, part, resumption.agent)

    @contextmanager
    def held(self, resumption: Resumption, *, force: bool) -> Iterator[None]:
        """Nobody else hands the session over while this lasts, and it is not in use. Raises InUseNow."""
        self._lock = HandoverLock(self._notes.folder, resumption.key)
        label = resumption.located.label
        if not self._lock.take() and not force:
            raise InUseNow(label, "another `backstory resume` has it, or the client that it started")
        try:
            with file_errors(resumption.log):
                how = None if force else self._use_of(resumption)
            if how:
                raise InUseNow(label, how)
            yield
        finally:
            self._lock.release()

    def keep_held(self) -> None:
        """Hold the session also when this process becomes the client."""
        if self._lock is not None:
            self._lock.keep()

    def put_back(self, resumption: Resumption) -> PutBack:
        """Put back what is missing, all or nothing, and have the agent's own database lead to the log.

        Raises LogAppeared, NoFileToReplace, CannotWrite, DiskFull, IndexFailed, StoreDamaged.
        """
        uid = resumption.located.session.uid
        note = put(self._notes, uid, resumption.agent, resumption.missing) if resumption.missing else None
        wanted = {str(each.path) for each in resumption.missing}
        files = tuple(each for each in note.files if each.path in wanted) if note is not None else ()
        part = resume_part(resumption.located, resumption.agent)
        log = next((each for each in resumption.places if kind_of(each) == FILE), resumption.log)
        earlier = note or self._notes.of(uid) or PutNote(session=uid, agent=resumption.agent)
        index = self._index.enter(part, log, resumption.root, resumption.native_id, earlier, put=note is not None)
        return PutBack(files=files, index=index)

    def undo(self, located: LocatedSession) -> PutBack:
        """Take away what was put back for a session, if nothing was added to it since.

        Raises SessionNotTrusted, NothingPutBack, InUseNow, PutFileChanged, CannotWrite, IndexFailed.
        """
        located = trusted(located)
        uid = located.session.uid
        lock = HandoverLock(self._notes.folder, uid)
        if not lock.take():
            raise InUseNow(located.label, "another `backstory resume` has it, or the client that it started")
        try:
            note = self._notes.of(uid)
            if note is None:
                raise NothingPutBack(located.label)
            part = resume_part(located, note.agent)
            if how := who_uses(self._claims(part, note, located), [Path(each.path) for each in note.files[:1]]):
                raise InUseNow(located.label, how)
            removed = take_away(note)
            index = self._index.leave(part, note)
            self._notes.drop(note.key)
            return PutBack(files=tuple(removed), index=index)
        finally:
            lock.release()

    def _claims(self, part: ResumePart, note: PutNote, located: LocatedSession) -> list[Any]:
        native_id = located.session.native_id or ""
        roots = {each.root for each in agents.load(note.agent).log.roots(self._workspace.environ, self._user_home)}
        return [claim for root in sorted(roots) for claim in part.in_use(root, native_id)]

    def _use_of(self, resumption: Resumption) -> str | None:
        """Return the present use of a session, as a clause; None if it is not in use."""
        part = resume_part(resumption.located, resumption.agent)
        # A project that moved has its log at two places, and the client may still write the earlier one.
        earlier = [Path(log.path) for log in own_logs(resumption.located)[2]] if resumption.written is None else []
        logs = [each for each in dict.fromkeys([*resumption.places, *earlier]) if kind_of(each) == FILE]
        if how := who_uses(part.in_use(resumption.root, resumption.native_id), logs):
            return how
        note = self._notes.of(resumption.located.session.uid, resumption.written)
        put_at = {each.path: each.mtime_ns for each in note.files} if note is not None else {}
        for log in logs:
            written_ns = log.stat().st_mtime_ns
            age_ms = self._workspace.now() - written_ns // 1_000_000
            if put_at.get(str(log)) != written_ns and 0 <= age_ms < WRITTEN_MS:
                return f"{log} was written {age_ms // 1000} s ago"
        return None
