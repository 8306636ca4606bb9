"""What every command is given: the environment, and the stores it means."""

from __future__ import annotations

import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import config, projects
from backstory.errors import NoHome, SessionAmbiguous, SessionNotFound
from backstory.store import PROJECT_STORE, Session, Store, open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

HOME_STORE = "store.db"


class Found(Struct, frozen=True):
    """A session and the store it was found in."""

    store: Store
    session: Session


class App:
    """One run of the command line."""

    def __init__(self, environ: Mapping[str, str], cwd: Path, store_path: str | None = None) -> None:
        self.environ, self.cwd, self.store_path = environ, cwd, store_path

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
    def cache_folder(self) -> Path:
        """What may be lost at any time: XDG_CACHE_HOME, else the platform's folder for such data."""
        if chosen := self.environ.get("XDG_CACHE_HOME"):
            return Path(chosen) / "backstory"
        import platformdirs

        return Path(platformdirs.user_cache_dir("backstory", appauthor=False))

    @cached_property
    def home_store(self) -> Store:
        """The store named with --store, else the machine's."""
        return open_store(self.store_path, now=now_ms) if self.store_path else self.machine_store

    @cached_property
    def machine_store(self) -> Store:
        """The machine's own store, whatever was named."""
        return open_store(self.home / HOME_STORE, shared=True, now=now_ms)

    @cached_property
    def project_folder(self) -> Path:
        """The root of the repository the current folder is in, else the nearest with a store, else itself."""
        root = projects.shared_root(self.cwd)
        if root is not None:
            return root
        return next((each for each in (self.cwd, *self.cwd.parents) if (each / PROJECT_STORE).exists()), self.cwd)

    @cached_property
    def project_key(self) -> str | None:
        """The key of the project the current folder is in."""
        return projects.project_key(str(self.cwd))

    @cached_property
    def worktree(self) -> Path:
        """The root of the worktree the current folder is in; itself outside git."""
        return projects.repository_root(self.cwd) or self.cwd

    @cached_property
    def project_store(self) -> Store:
        """The store that this project's own sessions are kept in: the one that was named, else the project's."""
        return self.home_store if self.store_path else open_store(projects.store_path(self.project_folder), now=now_ms)

    @cached_property
    def stores(self) -> list[Store]:
        """The stores to read from: the one that was named, else the project's and the machine's."""
        project = open_store(projects.store_path(self.project_folder), now=now_ms)
        candidates = [self.home_store] if self.store_path else [project, self.home_store]
        return [store for store in candidates if store.exists] or [self.home_store]

    @cached_property
    def config(self) -> config.Config:
        """The settings in force here."""
        return config.Config(
            [self.home / config.FILE_NAME, projects.store_path(self.project_folder).with_name(config.FILE_NAME)]
        )

    def find(self, wanted: str) -> Found:
        """The session that is meant, in the nearest store that has it.

        Raises SessionNotFound, SessionAmbiguous: also where the start of a uid fits another session of another store.
        """
        meant: Found | None = None
        for store in self.stores:
            if not store.exists:
                continue
            try:
                found = Found(store, store.session(wanted.encode("utf-8", "replace").decode()))
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


def _is_start(wanted: str, session: Session) -> bool:
    """Whether a session is meant by no more than the start of its uid."""
    start = wanted.upper()
    return session.uid.startswith(start) and session.uid != start and wanted != session.name


def _candidate(session: Session) -> str:
    told = " ".join((session.name or session.title or session.first_prompt or "").split())
    return f"{session.uid[:16]} ({told[:40]})"


def now_ms() -> int:
    """The time, in ms since 1970."""
    return time.time_ns() // 1_000_000
