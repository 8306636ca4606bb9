"""Changes of a session's branches that people decide: where the next prompt goes, and what a branch is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.errors import BranchNameUnusable
from backstory.workspace.history.targets import NUMBER, RECORD
from backstory.workspace.located import LocatedSession
from backstory.workspace.runs.running import measure
from backstory.workspace.runs.writable import ensure_writable_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backstory.conversation.tree import Point
    from backstory.workspace.decisions import Late
    from backstory.workspace.history.targets import Target
    from backstory.workspace.workspace import Workspace


def check_out(workspace: Workspace, to: Target, report: Callable[[str], None]) -> tuple[LocatedSession, Sequence[Late]]:
    """Let the next prompt follow a record, in the session of this project that has it.

    ``report`` receives remarks. Returns that session, and the stores that are late. Raises SessionBusy.
    """
    writable, store = ensure_writable_session(workspace, to.located, to.point), workspace.project_store
    own = LocatedSession(store, writable.session)
    for sentence in (*writable.sentences(store.path), *workspace.scheduler.recover()):
        report(sentence)
    with workspace.scheduler.locked(own.session.uid, own.label):
        store.checkout(own.session, to.point)
    measure(workspace, store, own.session)
    return own, workspace.decisions.copy(store, own.session.uid)


def owning(workspace: Workspace, found: LocatedSession) -> LocatedSession:
    """Return a session in its owning store, if that can be read now."""
    store = workspace.decisions.owner(found.store, found.session.uid).store
    if store is None or store.path == found.store.path or not store.has(found.session.uid):
        return found
    return LocatedSession(store, store.session(found.session.uid))


def usable_name(name: str) -> str:
    """Return the name of a branch without blanks around it. Raises BranchNameUnusable."""
    name = name.strip()
    if not name or RECORD.fullmatch(name) or NUMBER.fullmatch(name):
        raise BranchNameUnusable(name)
    return name


def name_branch(workspace: Workspace, found: LocatedSession, name: str, to: Point) -> Sequence[Late]:
    """Name the branch with a record; returns the stores that are late. Raises RecordNotFound, BranchNameTaken."""
    return workspace.decisions.decide(
        found.store, found.session.uid, lambda store, session: store.name_branch(session, name, to)
    ).late
