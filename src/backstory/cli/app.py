"""What every command is given: the environment, and the stores it means."""

from __future__ import annotations

import re
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import config
from backstory.cli import output
from backstory.errors import AgentCannotRun, BackstoryError, NoHome, SessionAmbiguous, SessionNotFound, UnknownAgent
from backstory.ids import session_identity
from backstory.projects import git
from backstory.projects.registry import KnownProjects
from backstory.projects.trust import Verdict, in_conflict
from backstory.store import PROJECT_STORE, Session, Store, open_store
from backstory.store.private import make_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

HOME_STORE = "store.db"
PRICES = "prices.toml"
NUMBERED = re.compile(r"[Ss][0-9]+")


class Found(Struct, frozen=True):
    """A session and the store it was found in. ``is_conflict``: the machine's store knows its uid from elsewhere."""

    store: Store
    session: Session
    is_conflict: bool = False


class App:
    """One run of the command line."""

    def __init__(self, environ: Mapping[str, str], cwd: Path, store_path: str | None = None) -> None:
        self.environ, self.cwd, self.store_path = environ, cwd, store_path
        self.trusts = False
        """Whether --trust was said."""

    @cached_property
    def user_home(self) -> Path:
        """The user's home folder, as HOME says."""
        try:
            return Path(self.environ["HOME"]) if self.environ.get("HOME") else Path.home()
        except RuntimeError as refused:
            raise NoHome from refused

    @cached_property
    def home(self) -> Path:
        """Where the machine's store lies: BACKSTORY_HOME, else the platform's folder for such data."""
        if chosen := self.environ.get("BACKSTORY_HOME"):
            return Path(chosen).expanduser()
        import platformdirs

        try:
            return Path(platformdirs.user_data_dir("backstory", appauthor=False))
        except RuntimeError as refused:
            raise NoHome from refused

    @cached_property
    def home_store(self) -> Store:
        """The store named with --store, else the machine's."""
        if not self.store_path:
            return self.machine_store
        store = self._opened(self.store_path)
        store.is_elsewhere = self._whose(store) == Verdict.ELSEWHERE
        return store

    @cached_property
    def machine_store(self) -> Store:
        """The machine's own store, whatever was named."""
        return self._opened(self.home / HOME_STORE, shared=True)

    def _opened(self, path: str | Path, *, shared: bool = False) -> Store:
        store = open_store(path, shared=shared, now=now_ms)
        store.prices_file = self.home / PRICES
        return store

    @cached_property
    def project_folder(self) -> Path:
        """The root of the repository the current folder is in, else the nearest with a store, else itself."""
        root = git.shared_root(self.cwd)
        if root is not None:
            return root
        return next((each for each in (self.cwd, *self.cwd.parents) if (each / PROJECT_STORE).exists()), self.cwd)

    @cached_property
    def project_key(self) -> str | None:
        """The key of the project the current folder is in."""
        return git.project_key(str(self.cwd))

    @cached_property
    def worktree(self) -> Path:
        """The root of the worktree the current folder is in; itself outside git."""
        return git.repository_root(self.cwd) or self.cwd

    @cached_property
    def project_store(self) -> Store:
        """The store that this project's own sessions are kept in: the one that was named, else the project's."""
        if self.store_path:
            return self.home_store
        store = self._opened(git.store_path(self.project_folder))
        store.is_elsewhere = self._whose(store) != Verdict.OURS and store.exists
        store.refuses_writes = store.is_elsewhere
        return store

    @cached_property
    def known_projects(self) -> KnownProjects:
        """The stores that are ours."""
        return KnownProjects(self.home, self.machine_store, now_ms)

    def verdict(self) -> Verdict:
        """Whose the store is that acting commands write here."""
        return self.known_projects.whose(self.project_store, is_named=bool(self.store_path))

    def _whose(self, store: Store) -> Verdict:
        """The same, as far as readers need it: of a store that cannot be read they are told when they read it."""
        try:
            return self.known_projects.whose(store, is_named=bool(self.store_path))
        except BackstoryError:
            return Verdict.ELSEWHERE

    @cached_property
    def stores(self) -> list[Store]:
        """The stores to read from: the one that was named, else the project's and the machine's.

        One from elsewhere comes last, and the machine's in a project's place not at all.
        """
        if self.store_path:
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
        if not store.is_elsewhere or self.store_path or not store.exists:
            return set()
        uids = {session_identity(uid): uid for uid in store.uids()}
        known = self.machine_store.origins(list(uids.values()))
        found = in_conflict(uids, known, str(store.path), is_id_known=self.known_projects.has_id(store))
        return {uids[each] for each in found}

    @cached_property
    def config(self) -> config.Config:
        """The settings in force here; what is ignored of them is said once."""
        found = config.Config(
            self.home / config.FILE_NAME,
            git.store_path(self.project_folder).with_name(config.FILE_NAME),
            is_installed=self._is_installed,
            agents=_agent_names,
            make_folder=make_folder,
        )
        for remark in found.remarks:
            output.talk(output.clean(remark))
        return found

    def _is_installed(self, agent: str, program: str) -> bool:
        from backstory.runs.stream import is_installed

        try:
            return is_installed(agent, program or None, self.environ)
        except (UnknownAgent, AgentCannotRun):
            return False

    def find(self, wanted: str) -> Found:
        """The session that is meant, in the nearest store that has it.

        Raises SessionNotFound, SessionAmbiguous: also where the start of a uid fits another session of another store.
        """
        meant: Found | None = None
        # A number means a session of this project, also where its store comes from elsewhere.
        is_number = bool(NUMBERED.fullmatch(wanted))
        for store in sorted(self.stores, key=lambda each: is_number and not each.is_elsewhere):
            if not store.exists:
                continue
            try:
                found = self._nearest(store, store.session(wanted.encode("utf-8", "replace").decode()))
            except SessionNotFound:
                continue
            if meant is None:
                meant = found
                if not _is_start(wanted, found.session):
                    break
            elif found.session.uid != meant.session.uid:
                raise SessionAmbiguous(wanted, [_candidate(each.session) for each in (meant, found)])
        if meant is None:
            raise SessionNotFound(wanted)
        return meant

    def _nearest(self, store: Store, session: Session) -> Found:
        """A session where it was found; one that was taken from this project's store from elsewhere as it is there."""
        project = self.project_store
        is_taken = project.is_elsewhere and session.elsewhere == str(project.path) and store.path != project.path
        if is_taken and project.has(session.uid):
            store, session = project, project.session(session.uid)
        return Found(store, session, store.is_elsewhere and session.uid in self.conflicts)


def _agent_names() -> list[str]:
    from backstory import agents

    return agents.names()


def _is_start(wanted: str, session: Session) -> bool:
    """Whether a session is meant by no more than the start of its uid."""
    start = wanted.upper()
    return session.uid.startswith(start) and session.uid != start and wanted != session.name


def _candidate(session: Session) -> str:
    return f"{session.uid[:16]} ({session.shown_title[:40]})"


def now_ms() -> int:
    """The time, in ms since 1970."""
    return time.time_ns() // 1_000_000
