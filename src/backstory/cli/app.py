"""The object passed to every command: the environment, and the stores to use."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.config import FILE_NAME, Config
from backstory.errors import AgentCannotRun, BackstoryError, NoHome, StoreNotFound, UnknownAgent
from backstory.projects import git
from backstory.store.moves import check_home
from backstory.store.private import make_folder
from backstory.workspace.located import LocatedSession as Found
from backstory.workspace.place import now_ms, project_root
from backstory.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backstory.store import Store
    from backstory.workspace.reader import Reader

__all__ = ["App", "Found", "now_ms"]


class App:
    """One run of the command line."""

    def __init__(self, environ: Mapping[str, str], cwd: Path, store_path: str | None = None) -> None:
        self.environ, self.cwd, self.store_path = environ, cwd, store_path
        self.trusts = False
        """True if --trust was given."""
        self.has_acted = False
        """True if the command was one that may change something."""

    def close(self) -> None:
        """Close the stores that were opened.

        A command that acted first begins what killed ones left undone, and derives what an earlier version derived.
        """
        if self.has_acted:
            with suppress(BackstoryError, OSError):
                for sentence in self.workspace.scheduler.take_up_unfinished():
                    output.talk(sentence)
            # The command's own work is done: who ends the rest has lost nothing, and the next command goes on.
            with suppress(BackstoryError, OSError, KeyboardInterrupt):
                self.workspace.derive_outdated(output.talk, output.progress)
        if "workspace" in self.__dict__:
            self.workspace.close()

    def check_values(self) -> None:
        """Raise StoreDamaged where a store that was opened holds a value that none of ours does."""
        if "workspace" in self.__dict__:
            self.workspace.check_values()

    @cached_property
    def user_home(self) -> Path:
        """The user's home folder: HOME, else the system's."""
        try:
            return Path(self.environ["HOME"]) if self.environ.get("HOME") else Path.home()
        except RuntimeError as refused:
            raise NoHome from refused

    @cached_property
    def home(self) -> Path:
        """The folder of the home store. Raises HomeWasMoved, HomeIsMoving, HomeNotWhole."""
        check_home(self.home_folder)
        return self.home_folder

    @cached_property
    def home_folder(self) -> Path:
        """BACKSTORY_HOME, else the platform's folder for user data; also one that may not be used now."""
        if chosen := self.environ.get("BACKSTORY_HOME"):
            return Path(chosen).expanduser()
        return self.default_home

    @cached_property
    def default_home(self) -> Path:
        """The platform's folder for user data."""
        import platformdirs

        try:
            return Path(platformdirs.user_data_dir("backstory", appauthor=False))
        except RuntimeError as refused:
            raise NoHome from refused

    @cached_property
    def workspace(self) -> Workspace:
        """The workspace of the current folder: it resolves the arguments of commands."""
        return self.new_workspace()

    def new_workspace(self) -> Workspace:
        """The same, opened anew: a command that goes on for long meets settings and stores as they are by then.

        Raises HomeWasMoved, HomeIsMoving, HomeNotWhole: also where the home moved since.
        """
        check_home(self.home_folder)
        return Workspace(
            self._read_config, self.home, self.cwd, store=self.store_path, now=now_ms, environ=self.environ,
            report=output.talk,
        )  # fmt: skip

    @property
    def reader(self) -> Reader:
        """The reader of the stores."""
        return self.workspace.reader

    @property
    def home_store(self) -> Store:
        """The store named with --store, else the home store."""
        return self.workspace.home_store

    @property
    def machine_store(self) -> Store:
        """The home store, even if another one was named."""
        return self.workspace.machine_store

    @property
    def project_store(self) -> Store:
        """The store for this project's own sessions: the one named with --store, else the project's."""
        return self.workspace.project_store

    @property
    def project_folder(self) -> Path:
        """The root of the repository the current folder is in, else the nearest with a store, else itself."""
        return self.workspace.project_folder

    @property
    def project_key(self) -> str | None:
        """The key of the project the current folder is in."""
        return self.workspace.project_key

    @property
    def worktree(self) -> Path:
        """The root of the worktree the current folder is in; itself outside git."""
        return self.workspace.worktree

    @property
    def stores(self) -> list[Store]:
        """The stores to read from."""
        return self.workspace.stores

    @property
    def conflicts(self) -> set[str]:
        """The uids in a project's store from elsewhere that the home store knows from another place."""
        return self.workspace.conflicts

    @property
    def config(self) -> Config:
        """The settings in force here; ignored ones are reported once."""
        return self.workspace.config

    def bring_up_to_date(self) -> bool:
        """Take new logs into the home store before it is read, and print what is left, or went wrong.

        Returns whether there are logs that were not taken in, or not looked for. Raises StoreNotFound where a store
        that was named is not there.
        """
        if self.store_path is not None and not self.home_store.exists:
            raise StoreNotFound(self.home_store.path)
        update = self.workspace.bring_up_to_date(self.user_home)
        for remark in update.remarks:
            output.talk(output.one_liner(remark))
        return update.is_behind

    def find(self, wanted: str) -> Found:
        """Return the session with this name or uid. Raises SessionNotFound, SessionAmbiguous."""
        return self.workspace.resolve(wanted)

    def _read_config(self) -> Config:
        found = Config(
            self.home / FILE_NAME,
            git.store_path(project_root(self.cwd)).with_name(FILE_NAME),
            is_installed=self._is_installed,
            agents=_agent_names,
            environ=self.environ,
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


def _agent_names() -> list[str]:
    from backstory import agents

    return agents.names()
