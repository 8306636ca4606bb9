"""The machine that a check-up is about: its home, its stores and its settings, each read once and left as it is."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.errors import BackstoryError, PathNotText
from backstory.projects.home_state import HomeState, state_of
from backstory.projects.registry import POINTERS, NotedStore, Seen, Verdict, file_at, noted, whose
from backstory.store import PROJECT_STORE
from backstory.store.file import connection, untouched
from backstory.store.intake.coverage import IndexRule
from backstory.workspace.place import HOME_STORE, project_root

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backstory.config import Settings
    from backstory.store.file.untouched import StoreLook

STORES_MAX = 200
"""The most project stores that are looked into, those that were noted first."""


class Case:
    """This machine, from one folder. ``named``: the store that takes the place of the home's, if a person named one.

    ``read_settings`` may raise what is wrong with them; ``is_home_set``: the environment names the home.
    ``platform``: as ``sys.platform`` has it.
    """

    def __init__(
        self,
        home: Path,
        default_home: Path,
        user_home: Path,
        folder: Path,
        environ: Mapping[str, str],
        now: int,
        read_settings: Callable[[], Settings],
        *,
        named: Path | None = None,
        is_home_set: bool = False,
        platform: str = "linux",
    ) -> None:
        self.home, self.default_home, self.user_home, self.folder = home, default_home, user_home, folder
        self.environ, self.now, self.named, self.is_home_set = environ, now, named, is_home_set
        self._read_settings, self.platform = read_settings, platform
        self._looks: dict[Path, StoreLook] = {}

    @cached_property
    def settings(self) -> Settings | BackstoryError:
        """The settings in force, or what is wrong with them."""
        try:
            return self._read_settings()
        except BackstoryError as refused:
            return refused
        except OSError as refused:
            return BackstoryError(str(refused))

    @property
    def is_home_off(self) -> bool:
        """True if nothing is imported into the home store, because a person wants only projects' stores."""
        return (
            self.named is None and not isinstance(self.settings, BackstoryError) and not self.settings.store.is_enabled
        )

    @property
    def index_rule(self) -> IndexRule | None:
        """The index rule of the settings, which stores of ours follow; None where it cannot be known."""
        if self.named is not None or isinstance(self.settings, BackstoryError):
            return None
        said = self.settings.index
        return IndexRule(enabled=said.is_enabled, repositories=tuple(said.repositories))

    @property
    def named_words(self) -> tuple[str, ...]:
        """The words by which a command is about the store that was named; none where none was."""
        return () if self.named is None else ("--store", str(self.named))

    @property
    def may_prune(self) -> bool:
        """True if an ingest into the home store may remove something by a rule of the settings, as far as known."""
        if isinstance(self.settings, BackstoryError):
            return True
        return bool(self.settings.prune.older or self.settings.prune.to_size)

    @cached_property
    def home_state(self) -> HomeState | None:
        """The state of the home folder; None where it is not there, or may not be entered."""
        try:
            return state_of(self.home)
        except OSError:
            return None

    @cached_property
    def notes(self) -> list[NotedStore]:
        """The notes about project stores."""
        try:
            return [each for _, each in noted(self.home / POINTERS)]
        except OSError:
            return []

    @property
    def store(self) -> Path:
        """The file of the home store, or of the one that was named."""
        return self.named or self.home / HOME_STORE

    def look(self, path: Path, *, is_ours: bool = True) -> StoreLook:
        """Look at a store, once."""
        if path not in self._looks:
            self._looks[path] = untouched.look(path, is_ours=is_ours, rule=self.index_rule)
        return self._looks[path]

    @cached_property
    def project(self) -> Path | None:
        """The store of the project of this folder, if it has one that is not the home's."""
        path = project_root(self.folder) / PROJECT_STORE
        return path if self.named is None and is_file(path) and file_at(path) != file_at(self.store) else None

    @cached_property
    def projects(self) -> list[StoreLook]:
        """The project stores of ours that lie where they were noted."""
        found: list[StoreLook] = []
        for each in self.notes[:STORES_MAX] if self.named is None else ():
            path = Path(each.path)
            if may_be_file(path) and not any(known.path == path for known in found):
                look = self.look(path)
                if self.is_ours(look):
                    found.append(look)
        return found

    @property
    def stores(self) -> list[StoreLook]:
        """The home store, or the one that was named, and all project stores of ours."""
        return [self.look(self.store), *self.projects]

    def is_ours(self, look: StoreLook) -> bool:
        """Return True if a project's store was created here, or a person trusted it."""
        device, inode = file_at(look.path) or (None, None)
        is_link = is_file(look.path) and (look.path.is_symlink() or look.path.parent.is_symlink())
        seen = Seen(path=str(look.path), store_id=look.store_id or None, device=device, inode=inode, is_link=is_link)
        # Of one that cannot be read its id is unknown, and its place tells.
        return whose(seen, self.notes) == Verdict.OURS or (
            not look.store_id and any(each.path == str(look.path) for each in self.notes)
        )


def is_file(path: Path) -> bool:
    """Return True if a file is there, and may be asked about."""
    try:
        return path.is_file()
    except OSError:
        return False


def may_be_file(path: Path) -> bool:
    """Return True if a file is there, or nobody may ask."""
    try:
        return path.is_file()
    except OSError:
        return True


def is_text(path: Path) -> bool:
    """Return True if a path is UTF-8, as one of a store has to be."""
    try:
        connection.check_path(path)
    except PathNotText:
        return False
    return True


def is_gone(path: Path) -> bool:
    """Return True if nothing is there; a folder that may not be entered may still have it."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False
