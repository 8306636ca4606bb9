"""The workspace that requests share: kept open, so that what its stores answered once is not read again for each.

Settings that were written, another file in a store's place and a home that moved are met by the next request.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from backstory.config import FILE_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from backstory.workspace.workspace import Workspace

    Stamp: TypeAlias = tuple[Hashable, ...]

KEPT_S = 5.0
"""Once something was stored, names and projects that were read earlier are used no longer than this."""


class SharedWorkspace:
    """Opens a workspace for many requests, which may ask at the same time. ``open_workspace`` opens a new one."""

    def __init__(self, open_workspace: Callable[[], Workspace]) -> None:
        self._open_workspace, self._lock = open_workspace, Lock()
        self._held: _Held | None = None

    @contextmanager
    def use(self) -> Iterator[Workspace]:
        """The workspace for one request. Raises what opening one does, HomeWasMoved for example."""
        held = self._taken()
        try:
            yield held.workspace
        finally:
            with self._lock:
                held.users -= 1
                if held is not self._held:
                    held.close_if_unused()

    def close(self) -> None:
        """Let go of the stores, as soon as nobody asks."""
        with self._lock:
            held, self._held = self._held, None
            if held is not None:
                held.close_if_unused()

    def _taken(self) -> _Held:
        # Nothing is read by opening one, but it is refused where a home may not be used any more.
        new = self._open_workspace()
        with self._lock:
            held = self._held
            if held is None or not held.is_current():
                self._held = _Held(new)
                if held is not None:
                    held.close_if_unused()
            assert self._held is not None
            self._held.users += 1
            return self._held


class _Held:
    """A workspace with the number of its users, and what was there when it was opened."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.users = workspace, 0
        self._opened = time.monotonic()
        self._files, self._stored = self._look(), workspace.reader.change_token()

    def is_current(self) -> bool:
        """True if a new one would answer the same. It has readers notice another file at their path."""
        is_stored_since = self.workspace.reader.change_token() != self._stored
        return self._look() == self._files and not (is_stored_since and time.monotonic() - self._opened > KEPT_S)

    def close_if_unused(self) -> None:
        """Close its stores if nobody uses it."""
        if not self.users:
            self.workspace.close()

    def _look(self) -> Stamp:
        """Return the identity of the files there: of each store its inode, of settings also the time of writing."""
        found: list[Hashable] = []
        for store in (self.workspace.machine_store, self.workspace.project_store):
            with suppress(OSError):
                state = store.path.stat()
                found.append((store.path, state.st_dev, state.st_ino))
        for folder in (self.workspace.home, self.workspace.project_store.path.parent):
            with suppress(OSError):
                state = (folder / FILE_NAME).stat()
                found.append((folder, state.st_ino, state.st_mtime_ns, state.st_size))
        return tuple(found)
