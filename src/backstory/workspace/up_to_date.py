"""The home store brought up to date by commands that read: what agents wrote since is taken in first, in a moment.

Nobody is waited for, nothing else is done, and whatever goes wrong is a remark: reading goes on with what is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.errors import BackstoryError, StoreBusy, in_words
from backstory.ingest import news, seen_folders
from backstory.runs.spool import SPOOLS, list_spools
from backstory.settings import IngestSettings
from backstory.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backstory.ingest.auto import Selected, TakenIn
    from backstory.ingest.news import Budget, News
    from backstory.ingest.seen_folders import Folders
    from backstory.store import Store
    from backstory.workspace.workspace import Workspace

HOME_OFF = (
    "The home store is off: no logs or runs are put into it. Turn it on: backstory config set store.enabled true "
    "(or unset BACKSTORY_STORE_ENABLED)"
)
VARIABLE = "BACKSTORY_INGEST_AUTO"
"""In the environment: it stands in for the setting ``ingest.auto``."""
CPU_S = 0.15
"""So much processor time it may take; after that it ends with the next slice of a log."""
MORE = "backstory ingest"
OUTDATED = f"New logs are not looked for: the store must be brought to this version first: {MORE}"
UNKNOWN = f"New logs are not looked for, because it is not known which these are: {MORE}"


def bring_up_to_date(workspace: Workspace, user_home: Path) -> str | None:
    """Take new logs into the home store, as far as a moment allows; returns what a person should know of it.

    Nothing is done where another store was named, where there is none yet or it cannot be written, where another
    process ingests or writes, or where ``ingest.auto`` is off. ``user_home``: where agents have their folders.
    """
    budget = news.Budget(CPU_S)
    store = workspace.machine_store
    if not workspace.named and not workspace.keeps_home:
        return HOME_OFF
    if workspace.named or not (store.exists and store.is_writable):
        return None
    try:
        return _Update(workspace, user_home, budget).remark() if is_on(workspace) else None
    except StoreBusy:
        return None
    except Exception as refused:
        return f"New logs were not read: {in_words(refused)}"


def is_on(workspace: Workspace) -> bool:
    """Whether new logs are taken in: as the variable says, else as the setting does."""
    from backstory.config import parse_as

    said = parse_as(IngestSettings.is_automatic.default, workspace.environ.get(VARIABLE, ""))
    return said if isinstance(said, bool) else workspace.config.settings.ingest.is_automatic


class _Update:
    def __init__(self, workspace: Workspace, user_home: Path, budget: Budget) -> None:
        self._workspace, self._user_home, self._budget = workspace, user_home, budget
        self._home, self._store = workspace.home, workspace.machine_store

    def remark(self) -> str | None:
        try:
            is_ready = self._store.is_ready()
        except BackstoryError:
            # The command that reads meets the same, and says it.
            return None
        if not is_ready:
            return OUTDATED
        folders = seen_folders.read(self._home, self._store)
        if folders is None:
            # Without a log there was no ingest, and none is started: runs are stored by themselves.
            return UNKNOWN if self._store.recent_stamps(1) else None
        found = news.look(self._store, folders, self._wanted(), self._budget)
        taken = self._take_in(found, folders) if found.files else None
        left = taken.left if taken is not None else 0
        if left:
            return f"At least {left:,} {'log is' if left == 1 else 'logs are'} newer: {MORE}"
        return None if found.is_whole else f"There may be newer logs: {MORE}"

    def _wanted(self) -> Callable[[str, str], bool]:
        """Whether a file (agent, path) is read at all, by the settings."""
        settings = self._workspace.config.settings.ingest
        agents, exclude = settings.agents, settings.exclude
        if not exclude:
            return lambda agent, _path: not agents or agent in agents
        from fnmatch import fnmatch

        return lambda agent, path: (not agents or agent in agents) and not any(fnmatch(path, each) for each in exclude)

    def _take_in(self, found: News, folders: Folders) -> TakenIn | None:
        """Read what is new, unless another process ingests."""
        # What reads and derives is imported only now: mostly nothing is new.
        from backstory.ingest.auto import new_logs
        from backstory.ingest.lock import ingest_lock
        from backstory.workspace.importing import chosen_agents

        agents = chosen_agents(self._workspace.config, sorted(set(found.files.values())))
        logs = new_logs(self._store, agents, found, self._workspace.environ, self._user_home)
        if not logs.now and not logs.later:
            return None
        with ingest_lock(self._home) as is_free:
            if not is_free:
                return None
            with open_store(self._store.path, shared=True, now=self._workspace.now) as store:
                store.is_patient, store.index_rule = False, self._store.index_rule
                return self._stored(store, logs, found, folders)

    def _stored(self, store: Store, logs: Selected, found: News, folders: Folders) -> TakenIn:
        from backstory.ingest.auto import take_in

        taken = take_in(store, logs, self._budget, running=self._running())
        if taken.has_stored:
            known = {
                agent: folders.get(agent, {}) | found.folders.get(agent, {}) for agent in {*folders, *found.folders}
            }
            seen_folders.note(self._home, store, known, taken.unread)
        return taken

    def _running(self) -> set[tuple[str, str]]:
        """The sessions of runs that are not stored yet: their logs are read afterwards."""
        if not list_spools(self._home / SPOOLS):
            return set()
        return self._workspace.scheduler.runner.running()
