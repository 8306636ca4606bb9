"""A folder on one person's machine: the stores that it means, the settings, the clock."""

from __future__ import annotations

import time
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.derive.naming import ProjectNames
from backstory.errors import BackstoryError, short_reason
from backstory.ids import session_identity
from backstory.projects import git
from backstory.projects.registry import KnownProjects, Verdict, in_conflict
from backstory.store import PROJECT_STORE, Store
from backstory.store.intake.coverage import IndexRule
from backstory.store.tables import sessions
from backstory.workspace.located import LocatedSession

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from backstory.config import Config
    from backstory.conversation.board import Offer
    from backstory.derive.secrets import Redactor
    from backstory.runs.runner import Runner
    from backstory.workspace.board import Board
    from backstory.workspace.decisions import DecisionWriter


HOME_STORE = "store.db"
PRICES = "prices.toml"


def project_root(folder: Path) -> Path:
    """The root of the repository that a folder is in, else the nearest folder with a store, else itself."""
    root = git.shared_root(folder)
    if root is not None:
        return root
    return next((each for each in (folder, *folder.parents) if (each / PROJECT_STORE).exists()), folder)


def written(path: Path) -> tuple[int, int] | None:
    """Return the time and the size of a file as it was written last; None without one, and for an empty one.

    Who opens a store where nobody is makes an empty journal.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found.st_size else None


def now_ms() -> int:
    """The time, in ms since 1970."""
    return time.time_ns() // 1_000_000


class Place:
    """A folder on one person's machine: the stores that are read and written from it, settings, clock, environment.

    ``home``: the machine's folder. ``config`` reads the settings; it is called when the first of them is asked for.
    ``store``: the one that takes the place of the machine's and the project's, if a person named one. ``environ``: of
    the agents that are run, and where their logs are. ``report`` is called with sentences that cannot wait, such as
    whose lock is waited for.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        home: Path,
        folder: Path,
        *,
        store: str | None = None,
        now: Callable[[], int] = now_ms,
        environ: Mapping[str, str] | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.home, self.folder, self.named, self.now = home, folder, store, now
        self._read_config = config
        self.environ, self.report = environ or {}, report
        self._project_names: ProjectNames | None = None

    @cached_property
    def config(self) -> Config:
        """The settings in force here."""
        return self._read_config()

    def index_rule(self) -> IndexRule:
        """The index rule of the settings."""
        said = self.config.settings.index
        return IndexRule(enabled=said.is_enabled, repositories=tuple(said.repositories))

    @property
    def keeps_home(self) -> bool:
        """True if logs and runs are put into the home store, or into the one that was named."""
        return bool(self.named) or self.config.settings.store.is_enabled

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        store = Store(Path(path), shared=shared, now=self.now)
        store.prices_file = self.home / PRICES
        store.index_rule, store.project_names = self.index_rule, self.project_names
        return store

    def project_names(self) -> ProjectNames:
        """The names of projects on screens; for showing only."""
        if self._project_names is None:
            self._project_names = self.home_store.ask_or(ProjectNames(), sessions.project_names)
        return self._project_names

    def forget_project_names(self) -> None:
        """Read the names of projects again when they are asked for next: they were noted anew."""
        self._project_names = None

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
        """The owner of the store that acting commands write here."""
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
        known = self.machine_store.ask_or({}, sessions.origins, list(uids.values()))
        found = in_conflict(uids, known, str(store.path), is_id_known=self.known_projects.has_id(store))
        return {uids[each] for each in found}

    def believe(self, store: Store) -> None:
        """Treat a store as ours from now on, also where it was taken for a stranger's before."""
        store.is_elsewhere = store.refuses_writes = False
        for name in ("stores", "conflicts"):
            self.__dict__.pop(name, None)

    @cached_property
    def runner(self) -> Runner:
        """The runner, which starts agents and stores their runs."""
        from backstory.runs.runner import Runner

        return Runner(
            self.home, self.machine_store, self.environ, self.now, self.report,
            keeps_home=lambda: self.config.settings.store.is_enabled,
        )  # fmt: skip

    @cached_property
    def decisions(self) -> DecisionWriter:
        """The writer of a person's decisions: to the session's owner first, then to every store that holds it."""
        from backstory.workspace.decisions import DecisionWriter

        return DecisionWriter(self.machine_store, self.known_projects)

    def redactor(
        self, home: str = "", *, people: bool = True, report: Callable[[int], None] = lambda done: None
    ) -> Redactor:
        """A new redactor, whose masks have the same digits whenever one is made on this machine; see ``Redactor``."""
        from backstory.derive.secrets import Redactor
        from backstory.projects.mask_key import mask_key

        return Redactor(home, people=people, report=report, key=partial(mask_key, self.home))

    def board(
        self,
        repository: str | None = None,
        branch: str | None = None,
        *,
        folder: Path | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> Board:
        """The context board of the folder's repository and branch, or of others: ``owner/name`` or ``local:FOLDER``.

        ``folder``: another one than this place's. ``report`` receives sentences about problems that stop nothing.
        """
        from backstory.workspace.board import Board, key_of

        return Board(self.home_store, key_of(folder or self.folder, repository, branch), report)

    def offer(self, prompt: str, folder: Path | None = None) -> Offer:
        """Return a folder's board items for a prompt (None: this place's folder); none if the board cannot be read."""
        from backstory.conversation.board import NO_OFFER

        if not self.home_store.exists:
            return NO_OFFER
        try:
            return self.board(folder=folder).offer(prompt)
        except BackstoryError as refused:
            # Notes are not worth a run.
            self.report(f"The board could not be read: {short_reason(refused)}")
            return NO_OFFER

    def last_active(self) -> LocatedSession | None:
        """The project's own session that was last active, or chosen, in this worktree, else anywhere in the project."""
        store = self.project_store
        session = store.last_session(self.worktree) if store.exists else None
        return None if session is None else LocatedSession(store, session)
