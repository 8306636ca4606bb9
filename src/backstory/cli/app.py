"""The object passed to every command: the environment, and the stores to use."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.errors import BackstoryError, StoreNotFound
from backstory.store.moves import check_home
from backstory.workspace import opening
from backstory.workspace.located import LocatedSession as Found
from backstory.workspace.place import now_ms

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from backstory.config import Config
    from backstory.store import Store
    from backstory.workspace.reader import Reader
    from backstory.workspace.workspace import Workspace

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
        """The user's home folder. Raises NoHome."""
        return opening.user_home(self.environ)

    @cached_property
    def home(self) -> Path:
        """The folder of the home store. Raises HomeWasMoved, HomeIsMoving, HomeNotWhole."""
        check_home(self.home_folder)
        return self.home_folder

    @cached_property
    def home_folder(self) -> Path:
        """The folder of the home store, also one that may not be used now."""
        return opening.home_folder(self.environ)

    @cached_property
    def default_home(self) -> Path:
        """The platform's folder for user data."""
        return opening.default_home()

    @cached_property
    def workspace(self) -> Workspace:
        """The workspace of the current folder: it resolves the arguments of commands."""
        return self.new_workspace()

    def new_workspace(self) -> Workspace:
        """The same, opened anew: a command that goes on for long meets settings and stores as they are by then.

        Raises HomeWasMoved, HomeIsMoving, HomeNotWhole: also where the home moved since.
        """
        return opening.open_workspace(self.cwd, self.environ, store=self.store_path, now=now_ms, report=output.talk)

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

    def check_store(self) -> None:
        """Raise StoreNotFound where a store that was named is not there."""
        if self.store_path is not None and not self.home_store.exists:
            raise StoreNotFound(self.home_store.path)

    def bring_up_to_date(self) -> bool:
        """Take new logs into the home store before it is read, and print what is left, or went wrong.

        Returns whether there are logs that were not taken in, or not looked for. Raises StoreNotFound where a store
        that was named is not there.
        """
        self.check_store()
        update = self.workspace.bring_up_to_date(self.user_home)
        for remark in update.remarks:
            output.talk(output.one_liner(remark))
        return update.is_behind
