"""The agents' own databases that lead to logs: entered, and left as they were if what they led to is taken away."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from backstory.errors import BackstoryError, IndexFailed
from backstory.export.placing import PutNote, take_away

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.agents.contract import ResumePart
    from backstory.export.placing import Notes
    from backstory.workspace.workspace import Workspace


class ClientIndex:
    """The databases of one workspace's agents. ``notes``: what was put where."""

    def __init__(self, workspace: Workspace, notes: Notes) -> None:
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
