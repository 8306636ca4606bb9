"""The stores that one person's folder on one machine means: the machine's, the project's, or the one that was named."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from backstory.errors import BackstoryError
from backstory.ids import session_identity
from backstory.projects import git
from backstory.projects.registry import KnownProjects
from backstory.projects.trust import Verdict, in_conflict
from backstory.store import PROJECT_STORE, Store, open_store
from backstory.store.coverage import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backstory.store.coverage import IndexRule

HOME_STORE = "store.db"
PRICES = "prices.toml"


def project_root(folder: Path) -> Path:
    """The root of the repository that a folder is in, else the nearest folder with a store, else itself."""
    root = git.shared_root(folder)
    if root is not None:
        return root
    return next((each for each in (folder, *folder.parents) if (each / PROJECT_STORE).exists()), folder)


class Stores:
    """Which stores are read and written from ``folder``. ``home`` holds the machine's.

    ``named``: the store that takes the place of both, if a person named one.
    """

    def __init__(self, home: Path, folder: Path, named: str | None, now: Callable[[], int]) -> None:
        self.home, self.folder, self.named = home, folder, named
        self.now = now

    def close(self) -> None:
        """Let go of the stores that were opened."""
        for name in ("project_store", "home_store", "machine_store"):
            if (store := self.__dict__.get(name)) is not None:
                store.close()

    @cached_property
    def home_store(self) -> Store:
        """The store that was named, else the machine's."""
        if not self.named:
            return self.machine_store
        store = self._opened(self.named)
        store.is_elsewhere = self._whose(store) == Verdict.ELSEWHERE
        return store

    @cached_property
    def machine_store(self) -> Store:
        """The machine's own store, whatever was named."""
        return self._opened(self.home / HOME_STORE, shared=True)

    def _opened(self, path: str | Path, *, shared: bool = False) -> Store:
        store = open_store(path, shared=shared, now=self.now)
        store.prices_file = self.home / PRICES
        store.index_rule = self.index_rule
        return store

    def index_rule(self) -> IndexRule:
        """What the settings say of the index; raises what reading them raises."""
        return EVERYTHING

    @cached_property
    def project_folder(self) -> Path:
        """The root of the repository the folder is in, else the nearest with a store, else itself."""
        return project_root(self.folder)

    @cached_property
    def project_key(self) -> str | None:
        """The key of the project the folder is in."""
        return git.project_key(str(self.folder))

    @cached_property
    def worktree(self) -> Path:
        """The root of the worktree the folder is in; itself outside git."""
        return git.repository_root(self.folder) or self.folder

    @cached_property
    def project_store(self) -> Store:
        """The store that this project's own sessions are kept in: the one that was named, else the project's."""
        if self.named:
            return self.home_store
        store = self._opened(git.store_path(self.project_folder))
        store.is_elsewhere = self._whose(store) != Verdict.OURS and store.exists
        store.refuses_writes = store.is_elsewhere
        return store

    @cached_property
    def known_projects(self) -> KnownProjects:
        """The stores that are ours."""
        return KnownProjects(self.home, self.machine_store, self.now)

    def verdict(self) -> Verdict:
        """Whose the store is that acting commands write here."""
        return self.known_projects.whose(self.project_store, is_named=bool(self.named))

    def _whose(self, store: Store) -> Verdict:
        """The same, as far as readers need it: trouble with a store that cannot be read is raised when it is read."""
        try:
            return self.known_projects.whose(store, is_named=bool(self.named))
        except BackstoryError:
            return Verdict.ELSEWHERE

    @cached_property
    def stores(self) -> list[Store]:
        """The stores to read from: the one that was named, else the project's and the machine's.

        One from elsewhere comes last, and the machine's in a project's place not at all.
        """
        if self.named:
            return [self.home_store]
        project = self.project_store
        is_machines = self._whose(project) == Verdict.MACHINE
        ours = [self.home_store] if project.is_elsewhere else [project, self.home_store]
        candidates = [*ours, *([project] if project.is_elsewhere and not is_machines else [])]
        return [store for store in candidates if store.exists] or [self.home_store]

    @cached_property
    def conflicts(self) -> set[str]:
        """The uids in a project's store from elsewhere that the machine's knows from another place."""
        store = self.project_store
        if not store.is_elsewhere or self.named or not store.exists:
            return set()
        uids = {session_identity(uid): uid for uid in store.uids()}
        known = self.machine_store.origins(list(uids.values()))
        found = in_conflict(uids, known, str(store.path), is_id_known=self.known_projects.has_id(store))
        return {uids[each] for each in found}

    def believe(self, store: Store) -> None:
        """Treat a store as ours from now on, also where it was taken for a stranger's before."""
        store.is_elsewhere = store.refuses_writes = False
        for name in ("stores", "conflicts"):
            self.__dict__.pop(name, None)
