"""Checks before a session goes to an agent's own client: trust, a client, a folder."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from backstory import agents
from backstory.errors import AgentMissing, CannotResume, FolderGone, SessionNotTrusted
from backstory.model import Relation
from backstory.store.private import as_ours
from backstory.workspace.located import LocatedSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.agents.contract import ResumePart
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
