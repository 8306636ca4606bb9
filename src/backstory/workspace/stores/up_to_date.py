"""The home store brought up to date by commands that read: what agents wrote since is taken in first, in a moment.

Nobody is waited for, nothing else is done, and whatever goes wrong is a remark: reading goes on with what is stored.
"""

from __future__ import annotations

import time
from contextlib import suppress
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory import agents
from backstory.bounds import counted, size
from backstory.config import IngestSettings
from backstory.errors import BackstoryError, ConfigBroken, StoreBusy, in_words
from backstory.ingest import news
from backstory.runs.spool import SPOOLS, list_spools
from backstory.store import open_store
from backstory.store.private import make_private_folder
from backstory.store.tables import logs as stored_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from backstory.agents.contract import Agent, LiveDatabasePart, LogRoot
    from backstory.agents.further import FurtherPlace
    from backstory.config import Config
    from backstory.ingest.auto import Selected, TakenIn
    from backstory.ingest.discover import Candidate, Looked
    from backstory.ingest.news import Folders, TimeBudget
    from backstory.store import Store
    from backstory.workspace.place import Place

HOME_OFF = (
    "The home store is off: no logs or runs are put into it. Turn it on: backstory config set store.enabled true "
    "(or unset BACKSTORY_STORE_ENABLED)"
)
VARIABLE = "BACKSTORY_INGEST_AUTO"
"""In the environment: it stands in for the setting ``ingest.auto``."""
CPU_S = 0.15
"""The processor time it may take; then it ends with the next slice of a log."""
LOOK_S = 0.5
"""The time for counting logs that were never imported, also on a slow disk."""
MORE = "backstory ingest"
CONVERTED_BYTES_S = 12 * 1024 * 1024
"""Bytes of logs that are derived again in a second, on a machine of today."""
ROOM_TIMES, SMALL_ROOM_TIMES, SMALL_ROOM = 1.5, 3, 16 * 1024 * 1024
"""The most room that this takes meanwhile, in sizes of the store: pages that change are written twice. Of a small store
all of them may, up to so many bytes."""
COUNTED_EARLIER = "An earlier version counted what is here, so sums may be other ones"
OUTDATED = f"{COUNTED_EARLIER}, and new logs are not looked for: {MORE}"
UNDER_WAY = f"New logs are not looked for while an ingest goes on, or after one was stopped: {MORE}"
UNKNOWN = f"New logs are not looked for, because it is not known which these are: {MORE}"
READ_ONLY = "There may be newer logs, which cannot be stored: {} cannot be written."
DAY_S = 86_400.0
BY_HAND = "Nothing leaves this machine. To import by hand only: backstory config set ingest.auto false"


class Update(Struct, frozen=True, kw_only=True):
    """The store as far as it was brought up to date. ``remarks``: sentences for a person.

    ``is_behind``: there are logs that it does not hold, or they were not looked for.
    """

    remarks: tuple[str, ...] = ()
    is_behind: bool = False


def bring_up_to_date(workspace: Place, user_home: Path) -> Update:
    """Take new logs into the home store, as far as a moment allows.

    Nothing is stored where another store was named, where the home store cannot be written, where another process
    ingests or writes, or where ``ingest.auto`` is off. Where no log was ever looked for, few are taken in, and of many
    it is said how many there are. ``user_home``: where agents have their folders.
    """
    budget = news.TimeBudget(CPU_S)
    if workspace.named:
        return Update(remarks=_counted_earlier(workspace.home_store, f"{MORE} --store {workspace.named}"))
    if not workspace.keeps_home:
        return Update(remarks=(HOME_OFF,))
    try:
        return _Updating(workspace, user_home, budget).update()
    except StoreBusy:
        return Update(is_behind=True)
    except Exception as refused:
        return Update(remarks=(f"New logs were not read: {in_words(refused)}",), is_behind=True)


def _counted_earlier(store: Store, remedy: str) -> tuple[str, ...]:
    """A remark where an earlier version derived what a store of ours holds."""
    try:
        is_earlier = store.exists and not store.is_elsewhere and not store.is_of_today()
    except BackstoryError:
        # The command that reads meets the same, and says it.
        return ()
    return (f"{COUNTED_EARLIER}: {remedy}{_converts(store)}",) if is_earlier else ()


def _converts(store: Store) -> str:
    """The work that the remedy does, in brackets behind its name; '' for none."""
    found = conversion(store)
    return f" ({found})" if found else ""


def conversion(store: Store) -> str:
    """Return what is to be converted in a store of an earlier version, about how long that takes, and how much room.

    '' where nothing takes time: tables are made at once.
    """
    from backstory.store.intake import rederiving  # mostly nothing is to be converted

    sessions, logs = store.ask_or((0, 0), rederiving.left)
    if not sessions:
        return ""
    seconds, room = max(round(logs / CONVERTED_BYTES_S), 1), conversion_room(store)
    time_ = f"{seconds} s" if seconds < 100 else f"{round(seconds / 60)} min"
    return f"{counted(sessions, 'session')} to convert: about {time_}, and up to {size(room)} of room meanwhile"


def conversion_room(store: Store) -> int:
    """Return the most bytes that a conversion may take on the disk of a store meanwhile."""
    length = store.path.stat().st_size
    return int(max(ROOM_TIMES * length, min(SMALL_ROOM_TIMES * length, SMALL_ROOM)))


def is_on(workspace: Place) -> bool:
    """Return True if new logs are taken in: as the variable says, else as the setting does."""
    from backstory.config import parse_as

    said = parse_as(IngestSettings.is_automatic.default, workspace.environ.get(VARIABLE, ""))
    return said if isinstance(said, bool) else workspace.config.settings.ingest.is_automatic


def chosen_agents(config: Config, only: Sequence[str]) -> list[Agent]:
    """The agents to read: those that were named, else those of the settings, else all. Raises ConfigBroken."""
    settings = config.settings.ingest
    chosen = [agents.load(name) for name in only or settings.agents or agents.names()]
    further = _further(config, settings.places) if settings.places else ()
    return [_chosen(agent, settings.exclude, further) for agent in chosen]


def _chosen(agent: Agent, exclude: list[str], further: Sequence[FurtherPlace]) -> Agent:
    database, live = (_Databases(agent, part, exclude, further).or_none for part in (agent.database, agent.live))
    return msgspec.structs.replace(agent, log=_Filtered(agent, exclude, further), database=database, live=live)


def _further(config: Config, texts: Sequence[str]) -> list[FurtherPlace]:
    from backstory.agents.further import further_place  # nobody has any at first

    try:
        return [further_place(each, agents.names()) for each in texts]
    except ValueError as wrong:
        raise ConfigBroken(config.own, f"{IngestSettings.places.key}: {wrong}") from wrong


class _Filtered:
    """An agent's logs, also those in further places, without those that the settings exclude."""

    def __init__(self, agent: Agent, exclude: list[str], further: Sequence[FurtherPlace]) -> None:
        log = agent.log
        self._agent, self._exclude, self._further = agent, exclude, further
        self.identify, self.reader = log.identify, log.reader
        self.is_whole, self.native_id_of = log.is_whole, log.native_id_of

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        found = self._agent.log.roots(environ, home)
        for place in self._further:
            known = {each.folder for each in found}
            found += [each for each in place.roots(self._agent, home) if each.folder not in known]
        return found

    def is_log(self, path: Path) -> bool:
        return self._agent.log.is_log(path) and not any(fnmatch(str(path), pattern) for pattern in self._exclude)


class _Databases:
    """One of an agent's parts of databases, with those in further places, without those that the settings exclude."""

    def __init__(self, agent: Agent, part: Any, exclude: list[str], further: Sequence[FurtherPlace]) -> None:
        self._agent, self._part, self._exclude, self._further = agent, part, exclude, further

    @property
    def or_none(self) -> Any:
        """This part, or the agent's own where nothing is changed of it."""
        return self if self._part is not None and (self._exclude or self._further) else self._part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)

    def databases(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        found = [*self._part.databases(environ, home)]
        found += [each for place in self._further for each in place.databases(self._agent, self._part, home)]
        return [path for path in dict.fromkeys(found) if not self._is_excluded(path)]

    def databases_in(self, place: Path) -> list[Path]:
        return [path for path in self._part.databases_in(place) if not self._is_excluded(path)]

    def _is_excluded(self, path: Path) -> bool:
        return any(fnmatch(str(path), pattern) for pattern in self._exclude)


def soon_deleted(place: Place, user_home: Path) -> str | None:
    """A remark where an agent deletes its logs, and the last import is more than half of that time ago."""
    noted_s = news.noted_s(place.home)
    ago_s = 0.0 if noted_s is None else time.time() - noted_s
    if ago_s <= news.RENEW_S:
        return None
    for agent in chosen_agents(place.config, ()):
        is_here = any(each.folder.is_dir() for each in agent.log.roots(place.environ, user_home))
        days = agent.retention.days(place.environ, user_home) if agent.retention is not None and is_here else None
        if agent.retention is not None and days is not None and ago_s > days * DAY_S / 2:
            kept = "1 day" if days == 1 else f"{days} days"
            ago = max(round(ago_s / DAY_S), 1)
            return (
                f"{agent.title} deletes its logs after {kept} ({agent.retention.setting}), and the last import was "
                f"{ago} {'day' if ago == 1 else 'days'} ago: import more often."
            )
    return None


class _Updating:
    def __init__(self, workspace: Place, user_home: Path, budget: TimeBudget) -> None:
        self._workspace, self._user_home, self._budget = workspace, user_home, budget
        self._home, self._store = workspace.home, workspace.machine_store

    def update(self) -> Update:
        is_automatic = is_on(self._workspace)
        if not self._store.exists:
            return self._first(is_automatic)
        try:
            is_ready = self._store.is_ready()
            is_earlier = not is_ready and not self._store.is_of_today()
        except BackstoryError:
            # The command that reads meets the same, and says it.
            return Update(is_behind=True)
        if is_earlier:
            remark = OUTDATED if is_automatic else f"{COUNTED_EARLIER}: {MORE}"
            return Update(remarks=(f"{remark}{_converts(self._store)}",), is_behind=True)
        if not is_ready:
            return Update(remarks=(UNDER_WAY,) if is_automatic else (), is_behind=True)
        folders = news.read(self._home, self._store)
        if folders is None and (
            news.noted_s(self._home) is None or not self._store.ask_or([], stored_logs.recent_stamps, 1)
        ):
            return self._first(is_automatic)
        deleted = soon_deleted(self._workspace, self._user_home)
        done = self._since(folders) if is_automatic else Update(is_behind=True)
        if is_automatic and (deleted or not done.is_behind):
            news.renew(self._home)
        earlier = _counted_earlier(self._workspace.project_store, MORE)
        return Update(remarks=(*filter(None, [deleted]), *earlier, *done.remarks), is_behind=done.is_behind)

    # what is new ----------------------------------------------------------------------------------------------------

    def _since(self, folders: Folders | None) -> Update:
        """Take in what is new since these folders were looked through; None: it is not known which were."""
        if folders is None:
            return Update(remarks=(UNKNOWN,), is_behind=True)
        found = news.look(self._store, folders, self._wanted(), self._budget)
        if (found.files or found.databases) and not self._store.is_writable:
            return Update(remarks=(READ_ONLY.format(self._store.path),), is_behind=True)
        taken: TakenIn | None = None
        if found.files or found.databases:
            # What reads and derives is imported only now: mostly nothing is new.
            from backstory.ingest.auto import new_logs

            chosen = chosen_agents(self._workspace.config, sorted({*found.files.values(), *found.databases.values()}))
            logs = new_logs(self._store, chosen, found, self._workspace.environ, self._user_home)
            databases = {path: each for each in chosen for path, name in found.databases.items() if each.name == name}
            if logs.now or logs.later or databases:
                known = {
                    name: folders.get(name, {}) | found.folders.get(name, {}) for name in {*folders, *found.folders}
                }
                taken = self._take_in(logs, known, self._budget, databases)
                if taken is None:
                    return Update(is_behind=True)
        if taken is not None and (left := taken.left):
            remark = f"At least {left:,} {'log is' if left == 1 else 'logs are'} newer: {MORE}"
            return Update(remarks=(remark,), is_behind=True)
        return Update() if found.is_whole else Update(remarks=(f"There may be newer logs: {MORE}",), is_behind=True)

    def _wanted(self) -> Callable[[str, str], bool]:
        """Return True if a file (agent, path) is read at all, by the settings."""
        settings = self._workspace.config.settings.ingest
        agents, exclude = settings.agents, settings.exclude
        if not exclude:
            return lambda agent, _path: not agents or agent in agents

        return lambda agent, path: (not agents or agent in agents) and not any(fnmatch(path, each) for each in exclude)

    def _take_in(
        self, logs: Selected, known: Folders, budget: TimeBudget, databases: Mapping[str, Agent]
    ) -> TakenIn | None:
        """Read logs and databases, and note the folders that are ``known`` then; None where another process ingests."""
        from backstory.ingest.auto import take_in, take_in_rows
        from backstory.ingest.lock import ingest_lock

        with ingest_lock(self._home) as is_free:
            if not is_free:
                return None
            with open_store(self._store.path, shared=True, now=self._workspace.now) as store:
                store.is_patient, store.index_rule = False, self._store.index_rule
                taken = take_in(store, logs, budget, running=self._running())
                if databases:
                    taken = taken.joined(take_in_rows(store, databases, budget))
                if taken.has_stored or databases:
                    news.note(self._home, store, known, taken.unread)
        project = self._workspace.project_store
        if taken.has_stored and project.exists and not project.is_elsewhere:
            with suppress(BackstoryError):
                self._workspace.known_projects.give(project)
        return taken

    def _running(self) -> set[tuple[str, str]]:
        """The sessions of runs that are not stored yet: their logs are read afterwards."""
        if not list_spools(self._home / SPOOLS):
            return set()
        return self._workspace.runner.running()

    # the first time -------------------------------------------------------------------------------------------------

    def _first(self, is_automatic: bool) -> Update:
        """Take in the logs that are there, where none was ever looked for; of many say how many there are."""
        from backstory.ingest.auto import new_ones
        from backstory.ingest.discover import stream_logs

        chosen = chosen_agents(self._workspace.config, ())
        looked: list[Looked] = []
        budget = news.TimeBudget(CPU_S, LOOK_S)
        found = [*stream_logs(chosen, self._workspace.environ, self._user_home, looked, budget.is_over)]
        is_whole, logs = all(each.is_whole for each in looked), new_ones(self._store, found)
        databases = {str(path): each for each in chosen if each.live for path in self._databases(each.live)}
        new = [*logs.now, *logs.later]
        if not new and not is_whole:
            return Update(remarks=(f"There may be logs that are not imported yet: {MORE}",), is_behind=True)
        if not is_automatic or logs.later or not is_whole:
            waiting = f"{'' if is_whole else 'At least '}{_counted(new, databases)} not imported yet: {MORE}"
            return Update(remarks=(waiting,) if new or databases else (), is_behind=bool(new or databases))
        known: Folders = {}
        for each in looked:
            known.setdefault(each.agent, {}).update(each.folders)
        for path, agent in databases.items():
            known.setdefault(agent.name, {}).update({path: news.UNSURE, f"{path}-wal": news.UNSURE})
        try:
            return self._take_in_first(logs, known, databases)
        except (BackstoryError, OSError) as refused:
            if not new and not databases:
                return Update()
            return Update(remarks=(f"{_counted(new, databases)} not imported: {in_words(refused)}",), is_behind=True)

    def _databases(self, live: LiveDatabasePart) -> list[Path]:
        found = live.databases(self._workspace.environ, self._user_home)
        return [each for each in found if news.mtime_of(str(each)) != news.MISSING]

    def _take_in_first(self, logs: Selected, known: Folders, databases: Mapping[str, Agent]) -> Update:
        if not logs.now and not databases:
            # Runs may have made a store where no agent has a log. Then the next command looks at the folders alone.
            if self._store.exists and self._store.is_writable:
                news.note(self._home, self._store, known)
            return Update()
        make_private_folder(self._home)
        taken = self._take_in(logs, known, news.TimeBudget(CPU_S), databases)
        if taken is None:
            remark = f"{_counted(logs.now, databases)} not imported yet: another process ingests."
            return Update(remarks=(remark,), is_behind=True)
        read = [each for each in logs.now if each.path not in {*taken.unread}]
        whole = {path: each for path, each in databases.items() if path not in taken.unread and taken.has_stored}
        of = len(logs.now) + len(databases)
        left = f"; {taken.left:,} of {of:,} are left: {MORE}" if taken.left else ""
        said = f"Imported {_what(read, whole)} into {self._store.path}{left}. {BY_HAND}"
        return Update(remarks=(said,) if read or whole else (), is_behind=bool(taken.unread))


def _counted(logs: Sequence[Candidate], databases: Mapping[str, Agent]) -> str:
    """Logs and databases, and the verb that follows them."""
    return f"{_what(logs, databases)} {'is' if len(logs) + len(databases) == 1 else 'are'}"


def _what(logs: Sequence[Candidate], databases: Mapping[str, Agent]) -> str:
    """Logs in words: how many, how large, whose; and databases of sessions."""
    return " and ".join(
        [*([_logs(logs)] if logs or not databases else []), *([_named(databases)] if databases else [])]
    )


def _named(databases: Mapping[str, Agent]) -> str:
    names = ", ".join(sorted({each.name for each in databases.values()}))
    return f"{counted(len(databases), 'database')} of {names}"


def _logs(logs: Sequence[Candidate]) -> str:
    """Logs in words: how many, how large, whose."""
    size, names = sum(each.size for each in logs), ", ".join(sorted({each.agent.name for each in logs}))
    amount = f"{size / 1e6:,.0f} MB" if size >= 1_000_000 else f"{max(size / 1e3, 1):,.0f} KB"
    return f"{len(logs):,} {'log' if len(logs) == 1 else 'logs'} ({amount}) of {names}"
