"""Checks before a session goes to an agent's own client: trust, a client, a folder."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from backstory import agents
from backstory.errors import AgentMissing, BackstoryError, CannotResume, FolderGone, IndexFailed, SessionNotTrusted
from backstory.export.placing import PutNote, take_away
from backstory.model import Relation
from backstory.store.private import as_ours
from backstory.workspace.located import LocatedSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.agents.contract import ResumePart
    from backstory.export.placing import PlacingNotes
    from backstory.store import Session, Store
    from backstory.workspace.workspace import Workspace

PARENTS_MAX = 64
"""A subagent's session has no more sessions above it; a damaged store may name a circle."""


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Raise what the system refuses for a file as an error of ours; ``path``: the file, if the system names none."""
    try:
        yield
    except OSError as refused:
        named = refused.filename
        raise as_ours(Path(named) if isinstance(named, str) else path, refused) from refused


def trusted(located: LocatedSession) -> LocatedSession:
    """The session that a person would resume: of a subagent's its parent's. Raises SessionNotTrusted."""
    store, session = located.store, located.session
    for _ in range(PARENTS_MAX):
        if session.relation != Relation.SUBAGENT or session.parent_uid is None:
            break
        session = store.session(session.parent_uid)
    check_trusted(store, session)
    return LocatedSession(store, session, located.is_conflict)


def check_trusted(store: Store, session: Session) -> None:
    """Raise SessionNotTrusted for a session of a store from elsewhere."""
    if session.elsewhere is not None or store.is_elsewhere:
        raise SessionNotTrusted(session.elsewhere or str(store.path))


def resume_part(located: LocatedSession, agent: str) -> ResumePart:
    part = agents.load(agent).resume
    if part is None:
        raise CannotResume(located.label, f"{agent} has no client that continues a session by its id")
    return part


def real_folder(session: Session, cwd: Path | None) -> Path:
    """The real path of the folder to start the client in. Raises FolderGone."""
    folder = cwd if cwd is not None else Path(session.cwd) if session.cwd else None
    if folder is None or not folder.is_absolute() or not folder.is_dir():
        raise FolderGone(str(folder) if folder is not None else None)
    return folder.resolve()


def program_name(workspace: Workspace, part: ResumePart, agent: str) -> str:
    """Return the command of the client: the one in the settings, else its own name."""
    named = workspace.config.settings.program_of(agent) if agents.load(agent).run is not None else ""
    return named or part.executable


def program_path(workspace: Workspace, name: str, agent: str) -> str:
    """The path of the client's program. Raises AgentMissing."""
    program = shutil.which(name, path=workspace.environ.get("PATH"))
    if program is None:
        raise AgentMissing(agent, name)
    return program


def root_of(workspace: Workspace, user_home: Path, agent: str, path: Path | None) -> Path:
    """The agent's own folder that a path lies in; the first one if that is not used any more, or none is asked for."""
    roots = [each.root for each in agents.load(agent).log.roots(workspace.environ, user_home)]
    return next((root for root in roots if path is not None and path.is_relative_to(root)), roots[0])


# client index ---------------------------------------------------------------------------------------------------------
# The agents' own databases that lead to logs: entered, and left as they were if what they led to is taken away.


class ClientIndex:
    """The databases of one workspace's agents. ``notes``: what was put where."""

    def __init__(self, workspace: Workspace, notes: PlacingNotes) -> None:
        self._workspace, self._notes = workspace, notes

    def enter(
        self, part: ResumePart, log: Path, root: Path, native_id: str, earlier: PutNote, *, put: bool
    ) -> str | None:
        """Make the agent's database lead to a log, and note it; returns the database, if it was changed.

        ``earlier``: the note about what was put for it. If it was ``put`` now, it is taken away again on a failure.
        Raises IndexFailed, CannotWrite, DiskFull.
        """
        try:
            with index_errors(earlier.agent):
                change = part.enter(self._workspace.environ, log, root, native_id, self._copy_aside)
        except BackstoryError:
            if put:
                take_away(earlier)
                self._notes.drop(earlier.key)
            raise
        if change is None:
            return None
        earlier.index = earlier.index or change
        self._notes.write(earlier)
        return change.database

    def leave(self, part: ResumePart, note: PutNote) -> str | None:
        """Undo what was changed in the agent's database; returns that, if there was anything. Raises IndexFailed."""
        if note.index is None:
            return None
        with index_errors(note.agent):
            part.leave(note.index)
        return note.index.database

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
def index_errors(agent: str) -> Iterator[None]:
    """Raise what a database refuses as an error of ours."""
    try:
        yield
    except (sqlite3.Error, OSError) as refused:
        raise IndexFailed(agent, str(refused)) from refused
