"""Folders of projects that were moved, where a person says so: sessions of agents' logs do not know it.

What the logs say stays as it is. The home store keeps the decision, and reads their folders by it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.bounds import iso
from backstory.derive.naming import main_folder
from backstory.errors import FolderNotKnown, GitFailed, MoveRefused, NoGit, NotMoved
from backstory.store.moves import Move, rebased, with_move
from backstory.store.tables import repositories
from backstory.store.tables import sessions as stored_sessions
from backstory.store.tables.session_filter import ListFilter

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from backstory.store import Store
    from backstory.workspace.place import Place

NAMED_MAX = 8
"""The most folders that are named where one is not known."""
GIT_SECONDS = 2.0
"""The time in which git is asked which repository is here."""


class MovedFolder(Struct, frozen=True, kw_only=True):
    """A folder whose sessions are listed in another one. ``at``: since when, in ms; what began later stays."""

    old: str
    new: str
    at: int | None
    sessions: int = 0


class LeftBehind(Struct, frozen=True, kw_only=True):
    """A folder that is gone, and its sessions that are not listed where its repository is. ``commit``: its first."""

    folder: str
    sessions: int
    commit: str


def move(workspace: Place, old: Path, new: Path) -> MovedFolder:
    """Make the sessions of a moved folder appear, and resume, in its new place.

    Raises MoveRefused, FolderNotKnown, and what writing the home store raises.
    """
    home, target = workspace.machine_store, new.resolve()
    _check(old, target)
    # Agents log the real path; what is gone had one if the folders above it have.
    found = next((each for each in dict.fromkeys([str(old), str(old.resolve())]) if _count(home, each)), None)
    if found is None:
        again = next((each for each in moved(workspace) if each.old in (str(old), str(old.resolve()))), None)
        if again is not None and again.new == str(target):
            return again
        raise FolderNotKnown(str(old), _gone(home, target))
    sessions, at = _count(home, found), workspace.now()
    home.change_moves(lambda known: with_move(known, Move(old=found, new=str(target), at=at)))
    return MovedFolder(old=found, new=str(target), at=at, sessions=sessions)


def undo(workspace: Place, old: Path) -> MovedFolder:
    """Take ``move`` back. Raises NotMoved."""
    known = moved(workspace)
    found = next((each for each in known if each.old in (str(old), str(old.resolve()))), None)
    if found is None:
        raise NotMoved(str(old), [each.old for each in known][:NAMED_MAX])
    workspace.machine_store.change_moves(
        lambda moves: [each for each in moves if each.owner is not None or each.old != found.old]
    )
    return found


def moved(workspace: Place) -> list[MovedFolder]:
    """The folders that were moved, by their old paths."""
    moves = sorted((each for each in workspace.machine_store.moves if each.owner is None), key=lambda each: each.old)
    return [MovedFolder(old=each.old, new=each.new, at=each.at) for each in moves]


def left_behind(
    place: Place, root: Path, noted: Sequence[str], here: ListFilter, *, is_known: bool
) -> list[LeftBehind]:
    """Return the folders that are gone and held the repository at this root, with their sessions that are not listed.

    ``noted``: roots of its worktrees; unless ``is_known``, of any repository: git is asked whether it is this one.
    ``here``: the sessions that are listed.
    """
    home = place.machine_store
    gone = [each for each in noted if _is_gone(home.moves.here(each), root)]
    known = home.ask_or({}, repositories.known) if gone else {}
    commits = {each: known[each].commits for each in gone if each in known}
    if not is_known:
        begun = _first_commits(place, root, commits.values())
        commits = {each: some for each, some in commits.items() if {*some} == begun}
    listed = {uid for _, uid, _ in home.ask_or([], stored_sessions.in_order, here)} if commits else set[str]()
    found = []
    for each, some in commits.items():
        there = home.as_recorded(ListFilter(project=each, folder=each))
        uids = {uid for _, uid, _ in home.ask_or([], stored_sessions.in_order, there)} - listed
        found += [LeftBehind(folder=each, sessions=len(uids), commit=some[0])] if uids else []
    return found


def _is_gone(folder: str, root: Path) -> bool:
    """Return True if a root is gone and may have been moved: not a worktree that an agent made, nor part of another."""
    is_apart = rebased(folder, str(root), "") is None and rebased(str(root), folder, "") is None
    return is_apart and main_folder(folder) == folder and not _is_there(Path(folder))


def _is_there(folder: Path) -> bool:
    try:
        folder.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        # Nobody may look there now.
        return True
    return True


def _first_commits(place: Place, root: Path, wanted: Collection[Sequence[str]]) -> set[str]:
    """The commits that the repository at a root begins with, if any of those that are wanted are in it."""
    if not wanted:
        return set()
    from backstory.projects.git_history import GitHistory  # mostly the repository is known

    history = GitHistory(root, place.environ, seconds=GIT_SECONDS)
    try:
        is_here = history.has_commits([each for some in wanted for each in some])
        return {*history.first_commits()} if is_here else set()
    except (NoGit, GitFailed):
        return set()


def as_json(moved: MovedFolder) -> dict[str, Any]:
    """A folder that was moved as ``project moves --json`` prints it."""
    return {"from": moved.old, "to": moved.new, "at": iso(moved.at)}


def _check(old: Path, new: Path) -> None:
    """Refuse what cannot be meant. The old folder may be a link to the new one."""
    if not new.is_dir():
        raise MoveRefused(f"There is no folder {new}. OLD is where the project was, NEW where it is now.")
    if old.resolve() == new:
        if str(old) == str(new):
            raise MoveRefused(f"OLD and NEW are the same folder: {new}.")
    elif old.is_dir():
        raise MoveRefused(f"{old} is still there. Move it first, then say so.")
    if old.is_relative_to(new) or new.is_relative_to(old):
        raise MoveRefused(f"One of {old} and {new} lies in the other, so it cannot be told which sessions are meant.")


def _count(home: Store, folder: str) -> int:
    """Return the number of sessions in a folder, as far as their present place is known."""
    wanted = ListFilter(project=folder, folder=folder, subagents=True, unread=True)
    return sum(home.ask_or({}, stored_sessions.counts, home.as_recorded(wanted)).values())


def _gone(home: Store, new: Path) -> Sequence[str]:
    """The folders of sessions that are gone, without those below another: first those called as the new one."""
    here = sorted({home.moves.here(each) for each in home.ask_or([], stored_sessions.folders, home.moves)})
    gone = [each for each in here if not Path(each).is_dir()]
    tops = [each for each in gone if not any(other != each and rebased(each, other, "") for other in gone)]
    return sorted(tops, key=lambda each: (Path(each).name != new.name, each))[:NAMED_MAX]
