"""The stores between two questions: kept open while questions follow one another, closed when none comes.

Another file in a store's place, or other settings, are met by the next question.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from backstory.errors import BackstoryError, StoreDamaged
from backstory.store.file import migrate
from backstory.workspace.history.agent_history import AgentHistory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from backstory.store import Store
    from backstory.workspace.history.asking import Surroundings
    from backstory.workspace.workspace import Workspace

KEPT_S = 5.0
"""No longer than this a workspace is used: what it read when it was opened may be another by then."""
IDLE_S = 1.0
"""The time from the last question until its stores are closed, so that each is one file again."""


class KeptWorkspace:
    """Opens a workspace for questions. ``open_workspace`` opens a new one; ``files``: of settings, beside its stores.

    One question is answered at a time.
    """

    def __init__(
        self, open_workspace: Callable[[], Workspace], user_home: Path, around: Surroundings, files: tuple[Path, ...]
    ) -> None:
        self._open_workspace, self._user_home, self._around, self._files = open_workspace, user_home, around, files
        self._workspace: Workspace | None = None
        self._opened = 0.0
        self._stamps: tuple[Any, ...] = ()

    def history(self, said: Mapping[str, Any], is_cancelled: Callable[[], bool]) -> AgentHistory:
        """Return the history that may be asked now; ``said``: the client's data beyond its question.

        ``is_cancelled``: true once the client does not wait for the answer any more.
        """
        if self._workspace is not None and not self._is_current(self._workspace):
            self.close()
        if self._workspace is None:
            self._workspace = self._open_workspace()
            self._opened, self._stamps = time.monotonic(), self._look(self._workspace)
        return AgentHistory(self._workspace, self._user_home, self._around, said, is_cancelled=is_cancelled)

    def damage(self) -> StoreDamaged | None:
        """The error for a value that no store of ours holds, where an open one has it."""
        try:
            if self._workspace is not None:
                self._workspace.check_values()
        except StoreDamaged as found:
            return found
        return None

    def close(self) -> None:
        """Let go of the stores."""
        if self._workspace is not None:
            workspace, self._workspace = self._workspace, None
            workspace.close()

    def _is_current(self, workspace: Workspace) -> bool:
        is_as_opened = time.monotonic() - self._opened < KEPT_S and self._look(workspace) == self._stamps
        return is_as_opened and self._is_known(workspace.home_store)

    def _is_known(self, store: Store) -> bool:
        """Return False if the store may have been brought forward by a newer program since it was opened."""
        try:
            store.ask_or(None, migrate.schema_version, store.path)
        except BackstoryError:
            # Who opens it anew meets the same, and says it.
            return False
        return True

    def _look(self, workspace: Workspace) -> tuple[Any, ...]:
        """Return the identity of the files there: of each store its inode, of settings also the time of writing."""
        found: list[Any] = []
        for path in (workspace.machine_store.path, workspace.project_store.path):
            with suppress(OSError):
                state = path.stat()
                found.append((path, state.st_dev, state.st_ino))
        for path in self._files:
            with suppress(OSError):
                state = path.stat()
                found.append((path, state.st_ino, state.st_mtime_ns, state.st_size))
        return tuple(found)
