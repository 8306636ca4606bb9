"""Handing a session over to its agent's own client: the log is put back where the client looks, if it is gone.

>>> resuming = Resuming(workspace, user_home)            # doctest: +SKIP
>>> resumption = resuming.plan(workspace.resolve("…"))   # doctest: +SKIP
>>> with resuming.held(resumption, force=False):         # doctest: +SKIP
...     resuming.put_back(resumption, force=False)
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory import agents
from backstory.errors import (
    AgentMissing,
    BackstoryError,
    CannotResume,
    FolderGone,
    IndexFailed,
    InUseNow,
    LogDiffers,
    LogNotRead,
    NoFileToReplace,
    NothingPutBack,
    RunsContinue,
    SessionNotTrusted,
)
from backstory.export.files import FILE, inside, kind_of, whole_log
from backstory.export.placing import Notes, PutFile, PutNote, WantedFile, put, take_away
from backstory.ingest.log_reader import opened
from backstory.ingest.matching import begins_with, is_beginning_of, size_of
from backstory.ingest.reported import is_reported
from backstory.model import Relation
from backstory.runs.handover import WRITTEN_MS, HandoverLock, who_uses
from backstory.store.logs import FILE as LOG_FILE
from backstory.store.private import as_ours
from backstory.workspace.located import LocatedSession
from backstory.workspace.resume_command import is_safe_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.agents.contract import ResumePart
    from backstory.store import Log, Session, Store
    from backstory.workspace.workspace import Workspace

PARENTS_MAX = 64
"""A subagent's session has no more sessions above it; a damaged store may name a circle."""


class Resumption(Struct, frozen=True, kw_only=True):
    """How a session is resumed. ``log``: where the client looks for it. ``missing``: the files to put back."""

    located: LocatedSession
    agent: str
    native_id: str
    original: str
    """Where the log was last seen."""
    folder: Path
    root: Path
    log: Path
    places: tuple[Path, ...]
    missing: tuple[WantedFile, ...]

    @property
    def is_log_there(self) -> bool:
        """Whether the log is where the client looks."""
        return all(each.path != self.log for each in self.missing)


class PutBack(Struct, frozen=True, kw_only=True):
    """What was put back now. ``index``: the agent's database that leads to the log since then."""

    files: tuple[PutFile, ...] = ()
    index: str | None = None


class Resuming:
    """Hands over the sessions of one workspace. ``user_home``: below it are the agents' folders."""

    def __init__(self, workspace: Workspace, user_home: Path) -> None:
        self._workspace, self._user_home = workspace, user_home
        self._notes = Notes(workspace.home)
        self._lock: HandoverLock | None = None

    def plan(self, located: LocatedSession, cwd: Path | None = None) -> Resumption:
        """How a session is resumed, in ``cwd`` or in its own folder; a subagent's session as its parent.

        Raises RunsContinue, CannotResume, SessionNotTrusted, FolderGone, NotAPlace, LogDiffers, LogNotRead,
        CannotWrite.
        """
        located = _trusted(located)
        with _file_errors(self._user_home):
            return self._planned(located, cwd)

    def _planned(self, located: LocatedSession, cwd: Path | None) -> Resumption:
        session, store = located.session, located.store
        if session.number is not None:
            raise RunsContinue(located.label)
        agent, native_id, kept = self._logs(located)
        part = _resume_part(located, agent)
        folder = _folder(session, cwd)
        root = self._root(agent, kept[-1])
        log, names = _chosen(located, part, kept, root, folder)
        places = tuple(root.joinpath(*inside(str(name))) for name in names)
        missing = [] if _is_there(store, log, places) else [_wanted_log(store, log, root, names[0])]
        _check_read(store, log, places)
        missing += self._beside(store, log, places[0])
        missing += self._subagents(part, located, root, folder, places[0].parent)
        return Resumption(
            located=located, agent=agent, native_id=native_id, original=log.path, folder=folder, root=root,
            log=places[0], places=places, missing=tuple(missing),
        )  # fmt: skip

    def command(self, resumption: Resumption) -> list[str]:
        """The command line of the client, its program by name."""
        part = _resume_part(resumption.located, resumption.agent)
        return part.command(self._program_name(resumption), resumption.native_id)

    def program(self, resumption: Resumption) -> str:
        """The path of the client's program. Raises AgentMissing."""
        name = self._program_name(resumption)
        program = shutil.which(name, path=self._workspace.environ.get("PATH"))
        if program is None:
            raise AgentMissing(resumption.agent, name)
        return program

    def _program_name(self, resumption: Resumption) -> str:
        agent = agents.load(resumption.agent)
        named = self._workspace.config.settings.program_of(agent.name) if agent.run is not None else ""
        return named or _resume_part(resumption.located, resumption.agent).executable

    @contextmanager
    def held(self, resumption: Resumption, *, force: bool) -> Iterator[None]:
        """Nobody else hands the session over while this lasts, and it is not in use. Raises InUseNow."""
        self._lock = HandoverLock(self._notes.folder, resumption.located.session.uid)
        label = resumption.located.label
        if not self._lock.take() and not force:
            raise InUseNow(label, "another `backstory resume` has it, or the client that it started")
        try:
            with _file_errors(resumption.log):
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
        change = self._enter(resumption, note)
        return PutBack(files=files, index=change)

    def undo(self, located: LocatedSession) -> PutBack:
        """Take away what was put back for a session, if nothing was added to it since.

        Raises SessionNotTrusted, NothingPutBack, InUseNow, PutFileChanged, CannotWrite, IndexFailed.
        """
        located = _trusted(located)
        uid = located.session.uid
        lock = HandoverLock(self._notes.folder, uid)
        if not lock.take():
            raise InUseNow(located.label, "another `backstory resume` has it, or the client that it started")
        try:
            note = self._notes.of(uid)
            if note is None:
                raise NothingPutBack(located.label)
            part = _resume_part(located, note.agent)
            if how := who_uses(self._claims(part, note, located), [Path(each.path) for each in note.files[:1]]):
                raise InUseNow(located.label, how)
            removed = take_away(note)
            if note.index is not None:
                with _index_errors(note.agent):
                    part.leave(note.index)
            self._notes.drop(uid)
            return PutBack(files=tuple(removed), index=note.index.database if note.index else None)
        finally:
            lock.release()

    def _claims(self, part: ResumePart, note: PutNote, located: LocatedSession) -> list[Any]:
        native_id = located.session.native_id or ""
        roots = {each.root for each in agents.load(note.agent).log.roots(self._workspace.environ, self._user_home)}
        return [claim for root in sorted(roots) for claim in part.in_use(root, native_id)]

    def _logs(self, located: LocatedSession) -> tuple[str, str, list[Log]]:
        """The agent of a session, its own id, and its logs: the one that was last begun comes last."""
        session = located.session
        own = [log for log in located.store.logs(session) if log.kind == LOG_FILE and not is_reported(log.relpath)]
        own = [log for log in own if log.native_id == session.native_id and log.read_to > 0]
        if not own:
            raise CannotResume(located.label, "the store has no log of an agent for it")
        own.sort(key=lambda log: (log.generation, log.id))
        native_id = own[-1].native_id
        if not is_safe_id(native_id):
            raise CannotResume(located.label, f"its agent's own id {native_id[:80]!r} is not an id")
        return own[-1].agent, native_id, own

    def _root(self, agent: str, log: Log) -> Path:
        """The agent's own folder that a log lay in; the first one if that is not used any more."""
        roots = [each.root for each in agents.load(agent).log.roots(self._workspace.environ, self._user_home)]
        return next((root for root in roots if Path(log.path).is_relative_to(root)), roots[0])

    def _beside(self, store: Store, log: Log, target: Path) -> list[WantedFile]:
        """The files beside a log that are gone."""
        found = [
            WantedFile(target.parent, inside(kept.name), partial(_sidecar, store, kept.id))
            for kept in store.sidecars(log.id)
            if inside(kept.name)
        ]
        return [each for each in found if kind_of(each.path) is None]

    def _subagents(
        self, part: ResumePart, located: LocatedSession, root: Path, folder: Path, above: Path, depth: int = 0
    ) -> list[WantedFile]:
        """The logs of a session's subagents that are gone, with what lies beside them.

        ``above``: the folder of the session's own log, below which no link is followed.
        """
        missing: list[WantedFile] = []
        store = located.store
        for child in store.children(located.session) if depth < PARENTS_MAX else ():
            if child.relation != Relation.SUBAGENT or child.elsewhere is not None:
                continue
            for log in store.logs(child)[-1:]:
                names = part.log_names(PurePath(log.relpath), str(folder)) if log.kind == LOG_FILE else []
                if not names or is_reported(log.relpath):
                    continue
                places = [root.joinpath(*inside(str(name))) for name in names]
                if all(kind_of(each) is None for each in places):
                    missing.append(_below(above, _wanted_log(store, log, root, names[0]), places[0]))
                missing += self._beside(store, log, places[0])
            missing += self._subagents(part, LocatedSession(store, child), root, folder, above, depth + 1)
        return missing

    def _use_of(self, resumption: Resumption) -> str | None:
        """How a session is in use now, as a clause; None if it is not."""
        part = _resume_part(resumption.located, resumption.agent)
        # A project that moved has its log at two places, and the client may still write the earlier one.
        earlier = [Path(log.path) for log in self._logs(resumption.located)[2]]
        logs = [each for each in dict.fromkeys([*resumption.places, *earlier]) if kind_of(each) == FILE]
        if how := who_uses(part.in_use(resumption.root, resumption.native_id), logs):
            return how
        note = self._notes.of(resumption.located.session.uid)
        put_at = {each.path: each.mtime_ns for each in note.files} if note is not None else {}
        for log in logs:
            written_ns = log.stat().st_mtime_ns
            age_ms = self._workspace.now() - written_ns // 1_000_000
            if put_at.get(str(log)) != written_ns and 0 <= age_ms < WRITTEN_MS:
                return f"{log} was written {age_ms // 1000} s ago"
        return None

    def _enter(self, resumption: Resumption, note: PutNote | None) -> str | None:
        """Have the agent's database lead to the log; what was put back is taken away again if that fails."""
        part = _resume_part(resumption.located, resumption.agent)
        uid = resumption.located.session.uid
        log = next((each for each in resumption.places if kind_of(each) == FILE), resumption.log)
        earlier = note or self._notes.of(uid) or PutNote(session=uid, agent=resumption.agent)
        try:
            with _index_errors(resumption.agent):
                change = part.enter(
                    self._workspace.environ, log, resumption.root, resumption.native_id, self._copy_aside
                )
        except BackstoryError:
            if note is not None:
                take_away(note)
                self._notes.drop(uid)
            raise
        if change is None:
            return None
        earlier.index = earlier.index or change
        self._notes.write(earlier)
        return change.database

    def _copy_aside(self, database: Path) -> None:
        """Copy a database as it is now into our home: the last copy of each is kept."""
        self._notes.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy = self._notes.folder / f"{database.name}.before"
        copy.unlink(missing_ok=True)
        copy.touch(mode=0o600)
        source = sqlite3.connect(database)
        target = sqlite3.connect(copy)
        try:
            source.backup(target)
        finally:
            source.close()
            target.close()


@contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    """What the system refuses for a file, as an error of ours; ``path``: where it does not say for which one."""
    try:
        yield
    except OSError as refused:
        named = refused.filename
        raise as_ours(Path(named) if isinstance(named, str) else path, refused) from refused


@contextmanager
def _index_errors(agent: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as refused:
        raise IndexFailed(agent, str(refused)) from refused


def _sidecar(store: Store, sidecar_id: int) -> Iterator[bytes]:
    yield store.read_sidecar(sidecar_id)


def _trusted(located: LocatedSession) -> LocatedSession:
    """The session that a person would resume: of a subagent's its parent's. Raises SessionNotTrusted."""
    store, session = located.store, located.session
    for _ in range(PARENTS_MAX):
        if session.relation != Relation.SUBAGENT or session.parent_uid is None:
            break
        session = store.session(session.parent_uid)
    if session.elsewhere is not None or store.is_elsewhere:
        raise SessionNotTrusted(session.elsewhere or str(store.path))
    return LocatedSession(store, session, located.is_conflict)


def _resume_part(located: LocatedSession, agent: str) -> ResumePart:
    part = agents.load(agent).resume
    if part is None:
        raise CannotResume(located.label, f"{agent} has no client that continues a session by its id")
    return part


def _folder(session: Session, cwd: Path | None) -> Path:
    """The real path of the folder to start the client in. Raises FolderGone."""
    folder = cwd if cwd is not None else Path(session.cwd) if session.cwd else None
    if folder is None or not folder.is_absolute() or not folder.is_dir():
        raise FolderGone(str(folder) if folder is not None else None)
    return folder.resolve()


def _chosen(
    located: LocatedSession, part: ResumePart, kept: list[Log], root: Path, folder: Path
) -> tuple[Log, list[PurePath]]:
    """The log to put back, and where: of several the one that lay where the client looks, else the last."""
    found = [(log, part.log_names(PurePath(log.relpath), str(folder))) for log in kept]
    found = [(log, names) for log, names in found if names]
    if not found:
        raise CannotResume(located.label, f"its client continues no log like {kept[-1].relpath}")
    at_place = [each for each in found if Path(each[0].path) in {root / name for name in each[1]}]
    return (at_place or found)[-1]


def _wanted_log(store: Store, log: Log, root: Path, name: PurePath) -> WantedFile:
    """A log to put at its place. Folders that are there may be links: they are the person's own."""
    folder, parts = root, list(inside(str(name)))
    while len(parts) > 1 and (folder / parts[0]).is_dir():
        folder /= parts.pop(0)
    return WantedFile(folder, tuple(parts), partial(whole_log, store, log))


def _below(above: Path, wanted: WantedFile, path: Path) -> WantedFile:
    """A file to put, without following a link below a folder, if it lies there."""
    return WantedFile(above, path.relative_to(above).parts, wanted.pieces) if path.is_relative_to(above) else wanted


def _is_there(store: Store, log: Log, places: tuple[Path, ...]) -> bool:
    """Whether one of these files is the log, or continues it. Raises LogDiffers, NoFileToReplace."""
    for path in places:
        kind = kind_of(path)
        if kind is None:
            continue
        if kind != FILE:
            raise NoFileToReplace(path, kind)
        with opened(path) as file:
            if not begins_with(store, file, log):
                raise LogDiffers(path, log.path, is_shorter=is_beginning_of(store, file, log))
        return True
    return False


def _check_read(store: Store, log: Log, places: tuple[Path, ...]) -> None:
    """Check that the store has all of a log that lies elsewhere. Raises LogNotRead."""
    path = Path(log.path)
    if path in places or not path.is_absolute() or not path.is_file():
        return
    with opened(path) as file:
        if size_of(file) != log.read_to or not begins_with(store, file, log):
            raise LogNotRead(path)
