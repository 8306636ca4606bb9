"""Handing a session over to its agent's own client: the log is put back where the client looks, if it is gone.

>>> resuming = Resuming(workspace, user_home)            # doctest: +SKIP
>>> resumption = resuming.plan(workspace.resolve("…"))   # doctest: +SKIP
>>> with resuming.held(resumption, force=False):         # doctest: +SKIP
...     resuming.put_back(resumption)
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory import agents
from backstory.errors import (
    CannotResume,
    InUseNow,
    LogDiffers,
    LogNotRead,
    NoFileToReplace,
    NothingPutBack,
    RunsContinue,
)
from backstory.export.files import FILE, inside, kind_of, whole_log
from backstory.export.placing import PlacingNotes, PutFile, PutNote, WantedFile, key_of, put, take_away
from backstory.ingest.databases import ROWS_OF
from backstory.ingest.folder_log import FolderLog
from backstory.ingest.folders import is_of_folder
from backstory.ingest.matching import begins_with, is_beginning_of, size_of
from backstory.ingest.reported import is_reported
from backstory.ingest.rewritten import opened_like
from backstory.ingest.unread import identified
from backstory.model import Relation
from backstory.runs.handover import WRITTEN_MS, HandoverLock, who_uses
from backstory.store.tables import sidecars
from backstory.store.tables.logs import FILE as LOG_FILE
from backstory.workspace.clients.handing_over import (
    PARENTS_MAX,
    ClientIndex,
    file_errors,
    program_name,
    program_path,
    real_folder,
    resume_part,
    root_of,
    trusted,
)
from backstory.workspace.history.sessions import is_safe_id
from backstory.workspace.located import LocatedSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.agents.contract import ResumePart
    from backstory.ingest.folder_log import Version
    from backstory.store import Log, Store
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
        return not any(each.path.is_relative_to(self.log) for each in self.missing)


class PutBack(Struct, frozen=True, kw_only=True):
    """The files that were put back now. ``index``: the agent's database that leads to the log since then."""

    files: tuple[PutFile, ...] = ()
    index: str | None = None


class Resuming:
    """Hands over the sessions of one workspace. ``user_home``: below it are the agents' folders."""

    def __init__(self, workspace: Workspace, user_home: Path) -> None:
        self._workspace, self._user_home = workspace, user_home
        self._notes = PlacingNotes(workspace.home)
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
        if agents.load(agent).live is not None:
            database = database_of(located, Path(kept[-1].path))
            return Resumption(
                located=located, agent=agent, native_id=native_id, original=str(database), folder=folder,
                root=database.parent, log=database, places=(database,),
            )  # fmt: skip
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


# missing files --------------------------------------------------------------------------------------------------------
# Files of a session that its agent wrote and that are gone, and the places where its client looks for them.


def database_of(located: LocatedSession, rows: Path) -> Path:
    """The database that a session was read from, which its client opens. Raises CannotResume if it is gone."""
    database = rows.with_name(rows.name.rpartition(ROWS_OF)[0])
    if kind_of(database) != FILE:
        raise CannotResume(located.label, f"{database} is gone, and rows are not put back into a database")
    return database


def own_logs(located: LocatedSession) -> tuple[str, str, list[Log]]:
    """The agent of a session, its own id, and its logs: the one of the conversation that was last begun comes last."""
    session = located.session
    own = [log for log in located.store.logs(session) if log.kind == LOG_FILE and not is_reported(log.relpath)]
    own = [log for log in own if log.native_id == session.native_id and log.read_to > 0]
    if not own:
        raise CannotResume(located.label, "the store has no log of an agent for it")
    own.sort(key=lambda log: (len(own) == 1 or not _is_aside(located.store, log), log.generation, log.id))
    native_id = own[-1].native_id
    if not is_safe_id(native_id):
        raise CannotResume(located.label, f"its agent's own id {native_id[:80]!r} is not an id")
    return own[-1].agent, native_id, own


def _is_aside(store: Store, log: Log) -> bool:
    """Return True for a file of a session that holds nothing of its conversation."""
    identity, _ = identified(agents.load(log.agent), Path(log.path or log.relpath), partial(store.read_log, log.id))
    return identity is not None and identity.relation == Relation.ASIDE


class MissingFiles:
    """The files of one session. ``root``: the agent's own folder; ``folder``: where its client is started."""

    def __init__(self, part: ResumePart, root: Path, folder: Path) -> None:
        self._part, self._root, self._folder = part, root, folder

    def log(self, located: LocatedSession, kept: list[Log]) -> tuple[Log, tuple[Path, ...], list[WantedFile]]:
        """The log that the client looks for, the places where it does, and the log to put there if it is in none.

        Raises CannotResume, LogDiffers, LogNotRead, NoFileToReplace.
        """
        store = located.store
        log, names = _chosen(located, self._part, kept, self._root, self._folder)
        places = tuple(self._root.joinpath(*inside(str(name))) for name in names)
        missing = [] if _is_there(store, log, places) else _wanted(store, log, self._root, names[0])
        _check_read(store, log, places)
        return log, places, missing

    def beside(self, store: Store, log: Log, target: Path) -> list[WantedFile]:
        """The files beside a log that are gone."""
        found = []
        for kept in store.ask(sidecars.of_log, log.id):
            # Below the log's folder, or the one that this is in.
            name = kept.name.removeprefix("../")
            folder = target.parent if name == kept.name else target.parent.parent
            if inside(name):
                found.append(WantedFile(folder, inside(name), partial(_sidecar, store, kept.id)))
        return [each for each in found if kind_of(each.path) is None]

    def subagents(self, located: LocatedSession, above: Path, depth: int = 0) -> list[WantedFile]:
        """The logs of a session's subagents that are gone, with what lies beside them.

        ``above``: the folder of the session's own log, below which no link is followed.
        """
        missing: list[WantedFile] = []
        store = located.store
        for child in store.children(located.session) if depth < PARENTS_MAX else ():
            if child.relation != Relation.SUBAGENT or child.elsewhere is not None:
                continue
            for log in store.logs(child)[-1:]:
                names = self._part.log_names(PurePath(log.relpath), str(self._folder)) if log.kind == LOG_FILE else []
                if not names or is_reported(log.relpath):
                    continue
                places = [self._root.joinpath(*inside(str(name))) for name in names]
                if all(kind_of(each) is None for each in places):
                    missing.append(_below(above, _wanted_log(store, log, self._root, names[0]), places[0]))
                missing += self.beside(store, log, places[0])
            missing += self.subagents(LocatedSession(store, child), above, depth + 1)
        return missing


def _sidecar(store: Store, sidecar_id: int) -> Iterator[bytes]:
    yield store.ask(sidecars.read, sidecar_id)


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


def _wanted(store: Store, log: Log, root: Path, name: PurePath) -> list[WantedFile]:
    """The files of a log that are gone; of a folder that is one those that lie in it."""
    head = _wanted_log(store, log, root, name)
    if not is_of_folder(log):
        return [head]
    kept = FolderLog(b"".join(whole_log(store, log)))
    files = [
        WantedFile(head.folder, (*head.parts[:-1], *inside(name)), partial(_version, kept, version))
        for name, version in kept.files.items()
    ]
    return [each for each in files if kind_of(each.path) is None]


def _version(kept: FolderLog, version: Version) -> Iterator[bytes]:
    yield kept.bytes_of(version)


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
    """Return True if one of these files is the log, or continues it. Raises LogDiffers, NoFileToReplace."""
    for path in places:
        kind = kind_of(path)
        if kind is None:
            continue
        if is_of_folder(log):
            # Its client goes on from whatever lies there.
            return True
        if kind != FILE:
            raise NoFileToReplace(path, kind)
        with opened_like(store, log, path) as file:
            if not begins_with(store, file, log):
                raise LogDiffers(path, log.path, is_shorter=is_beginning_of(store, file, log))
        return True
    return False


def _check_read(store: Store, log: Log, places: tuple[Path, ...]) -> None:
    """Check that the store has all of a log that lies elsewhere. Raises LogNotRead."""
    path = Path(log.path)
    if is_of_folder(log) or path in places or not path.is_absolute() or not path.is_file():
        return
    with opened_like(store, log, path) as file:
        if size_of(file) != log.read_to or not begins_with(store, file, log):
            raise LogNotRead(path)
