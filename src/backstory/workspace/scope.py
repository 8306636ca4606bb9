"""Whose history an agent may ask for: the sessions of the repository that its server was started in, or all.

One rule decides it for every question: a set of sessions of the home store. The session that asks, and its subagents,
are no history to itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.ask import scoped
from backstory.errors import OutOfScope, SessionAmbiguous, SessionNotFound
from backstory.store.session_filter import SessionFilter
from backstory.workspace.listing import project_id
from backstory.workspace.located import LocatedSession

if TYPE_CHECKING:
    from backstory.store import Session, Store
    from backstory.workspace.workspace import Workspace

ALL = "all"
TITLE_CHARS = 40
CANDIDATES_MAX = 10


class Scope(Struct, frozen=True, kw_only=True):
    """Which sessions may be asked for. ``wanted``: as a filter; ``name``: of the repository or folder, None for all."""

    wanted: SessionFilter
    name: str | None

    @property
    def is_here(self) -> bool:
        """True if only this repository's sessions are meant."""
        return self.name is not None


def scope_of(workspace: Workspace) -> Scope:
    """The scope that the person's own settings give the folder of a workspace."""
    if workspace.config.settings.mcp.scope == ALL:
        return Scope(wanted=SessionFilter(), name=None)
    key, folder = workspace.project_key, str(workspace.project_folder)
    wanted = SessionFilter(project=key, folder=folder, owner=project_id(workspace))
    return Scope(wanted=wanted, name=key or folder)


def located_in(workspace: Workspace, scope: Scope, words: str) -> LocatedSession:
    """The session that is meant, if it is in the scope. Raises SessionNotFound, SessionAmbiguous, OutOfScope.

    A store that came with a clone, and that nobody trusted, is no history.
    """
    home = workspace.home_store
    project = workspace.project_store
    number = words[:1] in "Ss" and words[1:].isdecimal()
    if number and project is not home and project.exists and not project.is_elsewhere:
        return LocatedSession(project, project.session(words))
    try:
        session = home.session(words)
    except SessionAmbiguous:
        # Those of other repositories are none of the candidates, and are not named.
        session = _the_one_in(home, scope, words)
    if scope.is_here and session.id not in home.ask_or(
        frozenset(), scoped.ids, home.as_recorded(scope.wanted), [session.id]
    ):
        raise OutOfScope(words, scope.name or "")
    return LocatedSession(home, session)


def _the_one_in(home: Store, scope: Scope, words: str) -> Session:
    """The only session of the scope that several are meant by."""
    seen = home.several_sessions(sorted(home.ask_or(frozenset(), scoped.ids, home.as_recorded(scope.wanted))))
    found = [each for each in seen if each.uid.startswith(words.upper()) or words in (each.name, each.native_id)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise SessionNotFound(words)
    raise SessionAmbiguous(words, [f"{each.uid} ({each.shown_title[:TITLE_CHARS]})" for each in found[:CANDIDATES_MAX]])
