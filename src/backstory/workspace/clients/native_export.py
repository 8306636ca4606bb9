"""Writing a session as a log that an agent's own client continues, and taking that away again.

>>> exports = NativeExports(workspace, user_home)                      # doctest: +SKIP
>>> plan = exports.plan(workspace.resolve("S3"), "NAME")               # doctest: +SKIP
>>> plan.report, exports.command(plan)                                 # doctest: +SKIP
>>> exports.write(plan)                                                # doctest: +SKIP
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from backstory import agents
from backstory.errors import (
    CannotHandOver,
    CannotResume,
    FolderGone,
    InUseNow,
    NothingPutBack,
    OtherLogThere,
    RunMissing,
    WrittenLogWrong,
)
from backstory.export.files import FILE, kind_of
from backstory.export.native_log import NativeLog
from backstory.export.placing import PlacingNotes, PutNote, WantedFile, put, take_away
from backstory.export.read_back import read_back
from backstory.ingest.log_reader import opened
from backstory.runs.handover import check_version, who_uses
from backstory.workspace.clients.handing_over import (
    ClientIndex,
    check_trusted,
    file_errors,
    program_name,
    program_path,
    real_folder,
    resume_part,
    root_of,
)
from backstory.workspace.clients.resuming import PutBack, Resumption
from backstory.workspace.runs.running import pending_runs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backstory.agents.contract import WritePart
    from backstory.conversation.carried import Fidelity
    from backstory.conversation.tree import Point
    from backstory.derive.secrets import Redactor
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.workspace import Workspace


class NativePlan(Struct, frozen=True, kw_only=True):
    """A log to be written, and what becomes of each record in it. ``is_there``: it was written before.

    ``places``: where the client looks for it; it is written in the first.
    """

    located: LocatedSession
    agent: str
    native_id: str
    folder: Path
    root: Path
    places: tuple[Path, ...]
    log: NativeLog
    report: Fidelity
    is_there: bool

    @property
    def path(self) -> Path:
        """The place of the log, whether it is written yet or not."""
        return next((each for each in self.places if kind_of(each) is not None), self.places[0])

    @property
    def resumption(self) -> Resumption:
        """Return how its client continues the session, once the log is written."""
        return Resumption(
            located=self.located, agent=self.agent, native_id=self.native_id, original=str(self.path),
            folder=self.folder, root=self.root, log=self.path, places=self.places, written=self.native_id,
            missing=() if self.is_there else (self.file,),
        )  # fmt: skip

    @property
    def file(self) -> WantedFile:
        """The log as a file to put at its place."""
        return WantedFile(self.root, self.path.relative_to(self.root).parts, self.log.lines)


def writable_agents() -> list[str]:
    """The agents whose own clients continue logs that we write."""
    return [name for name in agents.names() if agents.load(name).write is not None]


class NativeExports:
    """Writes the sessions of one workspace. ``user_home``: below it are the agents' folders."""

    def __init__(self, workspace: Workspace, user_home: Path) -> None:
        self._workspace, self._user_home = workspace, user_home
        self._notes = PlacingNotes(workspace.home)
        self._index = ClientIndex(workspace, self._notes)

    def plan(
        self, located: LocatedSession, agent: str, *, cwd: Path | None = None, to: Point | None = None,
        redactor: Redactor | None = None,
    ) -> NativePlan:  # fmt: skip
        """Plan the log, its place, and the fate of each record; writes nothing.

        ``to``: the last record; None: where the session stands. Raises CannotResume, FolderGone, OtherLogThere,
        RunMissing, SessionNotTrusted, WrittenLogWrong.
        """
        check_trusted(located.store, located.session)
        self._check_stored(located)
        part = _write_part(located, agent)
        folder = _folder(located, cwd)
        root = root_of(self._workspace, self._user_home, agent, None)
        log = NativeLog(
            located.store, located.session, agent, to=to, folder=str(folder), redactor=redactor,
            settings=part.settings(self._workspace.environ, root),
        )  # fmt: skip
        names = resume_part(located, agent).log_names(part.log_name(log.head), str(folder))
        places = tuple(root / name for name in names)
        self._check(log, log.lines())
        report, is_there = log.fidelity, self._is_there(located, log, places)
        return NativePlan(
            located=located, agent=agent, native_id=log.native_id, folder=folder, root=root, places=places, log=log,
            report=report, is_there=is_there,
        )  # fmt: skip

    def own_agent(self, located: LocatedSession) -> str:
        """The agent of a session's last turn, whose client is meant by default. Raises CannotResume, RunMissing."""
        self._check_stored(located)
        point = located.store.leaf(located.session)
        turns = located.store.turns(located.session)
        found = [turn.agent for turn in turns if point is not None and turn.uid == point.uid]
        if not found:
            raise CannotResume(located.label, "it has no turns")
        return found[0]

    def command(self, plan: NativePlan) -> list[str]:
        """The command line that continues the log, its program by name."""
        part = resume_part(plan.located, plan.agent)
        return part.command(program_name(self._workspace, part, plan.agent), plan.native_id)

    def write(self, plan: NativePlan) -> PutBack:
        """Write the log, read it back, and have the agent's own database lead to it; all or nothing.

        A log that was written before stays as it is. Raises AgentMissing, ClientTooOld, CannotHandOver, LogAppeared,
        NoFileToReplace, CannotWrite, DiskFull, IndexFailed, StoreDamaged, WrittenLogWrong.
        """
        part, resume = _write_part(plan.located, plan.agent), resume_part(plan.located, plan.agent)
        if plan.is_there:
            known = self._notes.of(plan.located.session.uid, plan.native_id)
            earlier = known or PutNote(session=plan.located.session.uid, agent=plan.agent, written=plan.native_id)
            return PutBack(index=self._enter(plan, earlier, put=False))
        program = program_path(self._workspace, program_name(self._workspace, resume, plan.agent), plan.agent)
        check_version(plan.agent, program, part.version_min, self._workspace.environ)
        if why := part.obstacle(self._workspace.environ, plan.root):
            raise CannotHandOver(plan.agent, why)
        uid = plan.located.session.uid
        with file_errors(plan.path):
            note = put(self._notes, uid, plan.agent, [plan.file], plan.native_id)
            try:
                with plan.path.open("rb") as file:
                    self._check(plan.log, file)
            except BaseException:
                take_away(note)
                self._notes.drop(note.key)
                raise
        return PutBack(files=tuple(note.files), index=self._enter(plan, note, put=True))

    def _enter(self, plan: NativePlan, note: PutNote, *, put: bool) -> str | None:
        part = resume_part(plan.located, plan.agent)
        return self._index.enter(part, plan.path, plan.root, plan.native_id, note, put=put)

    def undo(self, located: LocatedSession, agent: str, to: Point | None = None) -> PutBack:
        """Take away the logs that were written from a session for an agent, if nothing was added to them since.

        ``to``: only the one that ends with this record. Raises NothingPutBack, InUseNow, PutFileChanged, CannotWrite,
        IndexFailed.
        """
        notes = self._notes.written(located.session.uid, agent)
        if to is not None:
            log = NativeLog(located.store, located.session, agent, to=to, folder="", settings={})
            notes = [note for note in notes if note.written == log.native_id]
        if not notes:
            raise NothingPutBack(located.label)
        part, removed, index = resume_part(located, agent), list[Any](), None
        for note in notes:
            if how := who_uses([], [Path(each.path) for each in note.files]):
                raise InUseNow(located.label, how)
            removed += take_away(note)
            index = self._index.leave(part, note) or index
            self._notes.drop(note.key)
        return PutBack(files=tuple(removed), index=index)

    def _check_stored(self, located: LocatedSession) -> None:
        """Check that the store has all of a session of our runs. Raises RunMissing."""
        for run in pending_runs(self._workspace.home):
            if run.session == located.session.uid:
                raise RunMissing(located.label, is_running=run.is_running)

    def _check(self, log: NativeLog, lines: Iterable[bytes]) -> None:
        """Check that a log says what it should. Raises WrittenLogWrong."""
        found = read_back(log.target, log.native_id, lines)
        if how := log.contents.difference(found):
            raise WrittenLogWrong(log.label, log.target, how)

    def _is_there(self, located: LocatedSession, log: NativeLog, places: tuple[Path, ...]) -> bool:
        """Return True if the log was written before, and maybe continued since. Raises OtherLogThere."""
        path = next((each for each in places if kind_of(each) is not None), None)
        if path is None:
            return False
        note = self._notes.of(located.session.uid, log.native_id)
        if kind_of(path) != FILE or (note is None and not _begins_with(path, log.lines())):
            raise OtherLogThere(path)
        return True


def report_as_json(report: Fidelity) -> dict[str, Any]:
    """Return the fate of every record, as ``export --json`` prints it."""
    return {**report.counts, "records": [to_builtins(each) for each in report.records]}


def _begins_with(path: Path, lines: Iterable[bytes]) -> bool:
    with opened(path) as file:
        return all(file.read(len(line)) == line for line in lines)


def _write_part(located: LocatedSession, agent: str) -> WritePart:
    part = agents.load(agent).write
    if part is None:
        raise CannotResume(located.label, f"{agent} continues no log that another program wrote")
    return part


def _folder(located: LocatedSession, cwd: Path | None) -> Path:
    """The folder that the client is started in; a session of our runs has at least its worktree. Raises FolderGone."""
    worktree = Path(located.session.worktree) if located.session.worktree else None
    try:
        return real_folder(located.session, cwd)
    except FolderGone:
        if cwd is not None or located.session.cwd or worktree is None:
            raise
    return real_folder(located.session, worktree)
