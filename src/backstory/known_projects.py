"""The project stores of a machine: where each lies, so that none is lost and the machine's store has what they hold.

A pointer is a file ``BACKSTORY_HOME/projects/<store id>`` with the store's path in it. Its own time is that of the
store when it was last looked into.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.errors import BackstoryError, in_words
from backstory.spool import make_private_folder, write_private
from backstory.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.store import Store

POINTERS = "projects"


class KnownProjects:
    """The project stores that runs on this machine have written to."""

    def __init__(self, home: Path, home_store: Store, now: Callable[[], int]) -> None:
        self._folder, self._home_store, self._now = home / POINTERS, home_store, now

    def remember(self, store: Store) -> None:
        """Note where a project's store lies."""
        pointer = self._folder / store.id
        path = os.fsencode(store.path)
        if not pointer.exists() or pointer.read_bytes() != path:
            make_private_folder(self._folder)
            whole = pointer.with_name(f".{pointer.name}.{os.getpid()}")
            write_private(whole, path, sync=True)
            os.utime(whole, ns=(0, 0))
            whole.replace(pointer)

    def owning(self, uid: str) -> Store | None:
        """The project's store that owns a session of the machine's, if it is where it was last seen."""
        owner = self._home_store.owner_of(uid)
        try:
            path = Path(os.fsdecode((self._folder / owner).read_bytes())) if owner else None
        except (OSError, ValueError):
            return None
        store = open_store(path, now=self._now) if path is not None and path.exists() else None
        return store if store is not None and store.id == owner else None

    def stores(self) -> list[Store]:
        """The project stores that are where they were last seen, and can be read."""
        found = []
        for pointer in self._pointers():
            with suppress(OSError, ValueError, BackstoryError):
                store = open_store(Path(os.fsdecode(pointer.read_bytes())), now=self._now)
                if store.exists and store.id == pointer.name:
                    found.append(store)
        return found

    def bring_back(self, store: Store) -> int:
        """Make a project's store again that was here and is gone; gives how many sessions came back."""
        if store.exists and store.session_count():
            return 0
        for pointer in self._pointers():
            with suppress(OSError):
                if pointer.read_bytes() == os.fsencode(store.path):
                    return store.rebuild_from(self._home_store, pointer.name)
        return 0

    def exchange(self, report: Callable[[str], None] = lambda problem: None) -> int:
        """Have the machine's store hold what project stores hold, and give them what agents' logs told of their runs.

        A store that is gone, or is as it was, is not opened. Gives how many sessions were copied; ``report`` is told
        of stores that cannot be read now, and the others are read all the same.
        """
        copied = 0
        for pointer in self._pointers():
            told = self._home_store.usage_from_logs(pointer.name)
            try:
                path = Path(os.fsdecode(pointer.read_bytes()))
                changed = path.stat().st_mtime_ns
                is_known = bool(self._home_store.owned_by(pointer.name))
                if changed == pointer.stat().st_mtime_ns and is_known and not told:
                    continue
                with open_store(path, now=self._now) as store:
                    if store.id == pointer.name:
                        store.fill_in_usage(told)
                        copied += self._home_store.catch_up(store)
                os.utime(pointer, ns=(changed, changed))
            except FileNotFoundError:
                continue
            except Exception as refused:
                report(f"A project's store was not read: {in_words(refused)}")
        return copied

    def _pointers(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        return sorted(each for each in self._folder.iterdir() if not each.name.startswith("."))
