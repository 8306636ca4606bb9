"""Logs followed as they grow: what changed is read within moments, and while nothing changes nothing is done.

The system reports which files changed, and only those are looked at. Now and then, and whenever something may have gone
unheard, all places are looked through as by any ingest, so that nothing is missed. Where the system reports nothing
(it watches only so many folders), that is done all the time, as often as it costs next to nothing.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import nullcontext
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Struct

from backstory.errors import CannotWrite, DiskFull, StoreBusy, StoreFailed, StoreNotFound, StoreReadOnly
from backstory.ingest.discover import Candidate, SidecarFile, name_beside, shown
from backstory.ingest.folders import NEVER_KEPT, folder_relpath, session_folder, watched_of
from backstory.ingest.ingest import ingest_these
from backstory.ingest.lock import ingest_lock, watch_lock
from backstory.ingest.report import IngestReport
from backstory.projects.home_files import LOCKS
from backstory.projects.registry import POINTERS, noted
from backstory.store.intake import append

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from backstory.agents.contract import Agent, LogRoot, SidecarPart
    from backstory.projects.registry import KnownProjects
    from backstory.store import FileStamp, Store

STEP_MS = 100
"""The interval at which changes are looked for, and the quiet time before they are read …"""
DEBOUNCE_MS = 200
"""… but no longer than this."""
TICK_S = 0.5
"""The interval for the few things that nobody reports: folders that are not there, the store's own file."""
RUNS_S = 2.0
"""The interval at which runs and project stores are looked at."""
SETTLE_S = 1.0
"""A new folder is looked through again after this: what is made in it at once may come before it is watched."""
ALL_S = 900.0
"""The interval at which everything is looked through, in case something went unheard."""
MANY = 2_000
"""With so many changes at once the system may have reported some only."""
EARLY_MAX = 1_000
"""The most files beside missing logs that are remembered."""
OPEN_S = 1.0
"""The time that the store stays open after it was written; then it is one file again."""
RETRY_S = 2.0
FAILING_S = 60.0
"""The time within which two failures of a watch make it unreliable for a while."""
REST = 3
"""After a batch that took t there is a rest of so many t, at most …"""
REST_MAX_S = 0.4
POLL_LEAST_S = 1.0
POLL_MOST_S = 10.0
POLL_REST = 50
"""The rest after a look at everything, as a multiple of its time, within bounds; used where nothing is reported."""

PASSING = (StoreBusy, DiskFull, StoreReadOnly, StoreFailed, StoreNotFound, CannotWrite, OSError)
"""Errors that may be over in a moment: they are reported, and the work is tried again."""


class Spot(Struct, frozen=True):
    """One of the places where an agent keeps logs."""

    agent: Agent
    place: LogRoot


class Changed(Struct, kw_only=True):
    """The logs that changed files belong to."""

    logs: list[Candidate]
    early: set[str]
    """Files beside logs that are not there yet."""
    folders: set[str]
    """Those of the changed files that are folders."""


class RunsBeside(Protocol):
    """The runs of a machine, whose own logs are not read while they go on."""

    projects: KnownProjects

    def running(self) -> set[tuple[str, str]]:
        """(agent, its own id of the session) of every run that is not stored yet."""

    def spooled(self) -> list[tuple[str, bool]]:
        """Every run that is not stored yet, by name, and whether its agent lives."""

    def recover_finished_runs(self, report: Callable[[str], None]) -> int:
        """Store the runs that are over; says how many."""


class Watch:
    """Follows the logs of some agents. ``read_all`` is a whole ingest; ``say`` receives troubles, each once."""

    def __init__(
        self, store: Store, agents: Sequence[Agent], *, environ: Mapping[str, str], user_home: Path, runs: RunsBeside,
        home: Path, is_machine_store: bool, read_all: Callable[[], IngestReport], say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._store, self._machine_runs, self._home = store, runs, home
        self._is_machine_store = is_machine_store
        self._read_all, self._tell = read_all, say
        self._spots = [Spot(agent, place) for agent in agents for place in agent.log.roots(environ, user_home)]
        self._sight = Sight([spot.place.folder for spot in self._spots])
        self._pending: set[str] = set()
        self._early: set[str] = set()
        self._held: set[str] = set()
        """Logs that changed while runs went on: one that belongs to a run is not read before that is stored."""
        self._settling: dict[str, float] = {}
        self._held_for: set[tuple[str, str]] = set()
        """Those runs."""
        self._is_all_due = self._is_all_held = False
        self._all_at = self._retry_at = self._runs_at = self._close_at = 0.0
        self._runs: Any = None
        self._file: tuple[int, int] | None = None
        self._said: set[str] = set()
        self._not_read: set[tuple[str, str]] = set()

    @property
    def folders(self) -> list[str]:
        """The folders that are there and followed."""
        return self._sight.folders

    def batches(self, beside: Callable[[], None] = lambda: None) -> Generator[IngestReport]:
        """Yield the report of each reading: first of everything, then of changes, until stopped.

        ``beside`` is called between two looks, twice a second at least.
        An interrupt ends it; the store is closed then. Errors of the first reading, and those that will not pass, are
        raised; the others are reported and tried again.
        """
        try:
            with watch_lock(self._home / LOCKS) if self._is_machine_store else nullcontext():
                self._renew()
                first = self._everything()
                self._not_read |= {(each.path, each.reason) for each in (*first.errors, *first.not_understood)}
                yield first
                while True:
                    began = time.monotonic()
                    report = self._try(self._next_due())
                    if report is not None:
                        self._note(report)
                        yield report
                        # A log that grows without pause must not take a processor for itself.
                        time.sleep(min(REST_MAX_S, REST * (time.monotonic() - began)))
                    self._listen()
                    beside()
        finally:
            self._sight.close()
            self._store.close()

    def _listen(self) -> None:
        """Wait a little for changes."""
        changed = self._sight.changes(TICK_S)
        self._pending |= changed
        if len(self._pending) >= MANY:
            self._is_all_due = True
            self._sight.distrust()

    def _next_due(self) -> Callable[[], IngestReport | None] | None:
        """Return the next work that is due, the most urgent first."""
        clock = time.monotonic()
        if clock < self._retry_at:
            return None
        if self._sight.is_outdated or clock >= self._all_at:
            self._renew()
        if self._is_all_due or _identity(self._store.path) != self._file:
            return self._everything
        self._pending |= {folder for folder, at in self._settling.items() if clock >= at}
        if self._pending:
            return self._changed
        if clock >= self._runs_at:
            return self._look_at_runs
        if clock >= self._close_at:
            self._store.close()
        return None

    def _renew(self) -> None:
        """Watch the folders that are there now; what happened in between is found by looking at everything."""
        trouble = self._sight.open()
        self._is_all_due = True
        if trouble:
            self._tell(trouble)

    def _try(self, work: Callable[[], IngestReport | None] | None) -> IngestReport | None:
        if work is None:
            return None
        try:
            report = work()
        except PASSING as refused:
            self._store.close()
            self._retry_at = time.monotonic() + RETRY_S
            self._say(f"{refused} Meanwhile it is tried again.")
            return None
        self._said.clear()
        return report

    def _everything(self) -> IngestReport:
        began = time.monotonic()
        # What is left of a store that was deleted or replaced is nobody's.
        self._store.close()
        # Asked before the logs are read: a run that ends meanwhile is noticed by the next look.
        runs, running = self._state_of_runs(), self._machine_runs.running()
        report = self._read_all()
        self._runs = runs
        took = time.monotonic() - began
        rest = min(max(POLL_LEAST_S, POLL_REST * took), POLL_MOST_S)
        self._all_at = time.monotonic() + (rest if self._sight.is_polling else ALL_S)
        self._is_all_due, self._is_all_held, self._held_for = False, bool(running), running
        self._pending = _refused(report)
        self._early.clear()
        self._held.clear()
        self._was_written()
        return report

    def _changed(self) -> IngestReport:
        """Read what changed, and nothing else."""
        paths, clock = self._pending | self._early, time.monotonic()
        found = changed(paths, self._spots)
        running = self._machine_runs.running()
        with ingest_lock(self._home) if self._is_machine_store else nullcontext():
            report = ingest_these(self._store, found.logs, running=running)
        if report.runs_matched and self._is_machine_store:
            # What the logs add to runs is given to the projects' stores.
            self._machine_runs.projects.replicate(self._say)
        self._pending = _refused(report)
        self._early = found.early if len(found.early) <= EARLY_MAX else set()
        if running:
            self._held |= paths
            self._held_for |= running
        self._settle(found.folders, clock)
        self._was_written()
        return report

    def _settle(self, looked_through: set[str], clock: float) -> None:
        """Look through new folders once more; those for which that is done should be watched by now."""
        settled = {folder for folder, at in self._settling.items() if clock >= at}
        new = dict.fromkeys(looked_through - self._settling.keys(), clock + SETTLE_S)
        self._settling = {folder: at for folder, at in self._settling.items() if folder not in settled} | new
        if settled:
            self._sight.check(max(settled))

    def _look_at_runs(self) -> None:
        """Take up runs that died and exchange with project stores, if anything about them is not as it was."""
        self._runs_at = time.monotonic() + RUNS_S
        runs = self._state_of_runs()
        if runs != self._runs:
            if self._is_machine_store:
                self._machine_runs.recover_finished_runs(self._say)
                self._machine_runs.projects.replicate(self._say)
            self._was_written()
        self._runs = runs
        if self._held_for <= self._machine_runs.running():
            return
        self._pending |= self._held
        self._is_all_due |= self._is_all_held
        self._held, self._held_for, self._is_all_held = set(), set(), False

    def _state_of_runs(self) -> tuple[object, ...]:
        """Return a value that changes when a run is to be stored, or a project's store has something to exchange."""
        stores = [(note.name, _changed_ns(Path(place.path))) for note, place in noted(self._home / POINTERS)]
        return self._machine_runs.spooled(), stores

    def _was_written(self) -> None:
        self._close_at = time.monotonic() + OPEN_S
        self._file = _identity(self._store.path)

    def _note(self, report: IngestReport) -> None:
        """Report what could not be read or understood; what was reported before is not repeated, nor in the report."""
        for each in report.not_understood:
            if (each.path, each.reason) not in self._not_read:
                self._not_read.add((each.path, each.reason))
                self._tell(f"Kept as it is: {each.path}: {each.reason}")
        report.errors = [each for each in report.errors if (each.path, each.reason) not in self._not_read]
        self._not_read |= {(each.path, each.reason) for each in report.errors}
        for each in report.errors:
            self._tell(f"Not read: {each.path}: {each.reason}")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._tell(text)


class Sight:
    """Tells which files changed below some folders, which may come and go."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._seen: dict[Path, tuple[int, int] | None] = dict.fromkeys(folders)
        self._real: dict[str, str] = {}
        """The folders that are reached by a link, by where they really are: some systems name them so."""
        self._notify: Any = None
        self._is_stale = True
        self._failed_at: float | None = None
        self._again_at = 0.0
        self._told = ""
        self.is_polling = False

    @property
    def folders(self) -> list[str]:
        """The folders that are there."""
        return [shown(str(folder)) for folder, seen in self._seen.items() if seen is not None]

    @property
    def is_outdated(self) -> bool:
        """True if there is more to watch than is watched, or other folders than those."""
        return self._is_stale or any(_identity(folder) != seen for folder, seen in self._seen.items())

    def distrust(self) -> None:
        """Something may have gone unheard."""
        self._is_stale = True

    def open(self) -> str:
        """Watch the folders that are there now; gives why that cannot be, if that is new, else nothing."""
        from watchfiles._rust_notify import RustNotify  # costs 50 ms, so only where something is watched

        self.close()
        self._is_stale = False
        self._seen = {folder: _identity(folder) for folder in self._seen}
        named = [str(folder) for folder, seen in self._seen.items() if seen is not None and folder.is_dir()]
        self._real = {real: each for each in named if (real := os.path.realpath(each)) != each}
        if self.is_polling and time.monotonic() < self._again_at:
            trouble, self._told = self._told, ""
            return trouble
        try:
            self._notify = RustNotify(named, False, False, 0, True, False)
        except FileNotFoundError:
            # It was there a moment ago.
            self._is_stale = True
        except (OSError, RuntimeError) as refused:
            self._poll(str(refused))
            return self.open()
        self.is_polling = False
        return ""

    def check(self, folder: str) -> None:
        """Return True if a folder that came later could be watched: nobody reports when it could not."""
        from watchfiles._rust_notify import RustNotify

        try:
            RustNotify([folder], False, False, 0, False, False).close()
        except (FileNotFoundError, PermissionError):
            return
        except (OSError, RuntimeError) as refused:
            self._poll(str(refused))
            self._is_stale = True

    def close(self) -> None:
        """Watch nothing any more."""
        if self._notify is not None:
            self._notify.close()
            self._notify = None

    def changes(self, timeout_s: float) -> set[str]:
        """The files and folders that changed, as soon as there are any; none when that takes too long."""
        if self._notify is None:
            time.sleep(timeout_s)
            return set()
        try:
            changes = self._notify.watch(DEBOUNCE_MS, STEP_MS, int(timeout_s * 1000), None)
        except RuntimeError as refused:
            self._fail(str(refused))
            return set()
        if changes == "signal":
            raise KeyboardInterrupt
        if isinstance(changes, str):
            return set()
        paths = {self._as_named(path) for _, path in changes}
        roots = {str(folder) for folder in self._seen}
        self._is_stale |= bool(paths & roots)
        return paths - roots

    def _as_named(self, path: str) -> str:
        for real, named in self._real.items():
            if path == real or path.startswith(real + os.sep):
                return named + path[len(real) :]
        return path

    def _fail(self, why: str) -> None:
        """It reports nothing more: one more folder than the system watches, or a name that is no text."""
        clock, failed_at = time.monotonic(), self._failed_at
        self._failed_at, self._is_stale = clock, True
        if failed_at is not None and clock - failed_at < FAILING_S:
            self._poll(why)

    def _poll(self, why: str) -> None:
        if not self.is_polling:
            said = why.partition(" (Error ")[0]
            self._told = f"Not all logs can be watched ({said}); they are looked through every few seconds instead."
        self.is_polling, self._again_at = True, time.monotonic() + ALL_S


class _Looking:
    """Finds out which logs changed files belong to. The rules are those of ``discover``, for one file at a time."""

    def __init__(self, spots: Sequence[Spot]) -> None:
        self._spots = spots
        self._looked: set[str] = set()
        self.found: dict[tuple[str, str], Candidate] = {}
        self.early: set[str] = set()
        self.folders: set[str] = set()

    def look(self, path: str) -> None:
        """Look at a file, or at all files below a folder; at nothing when it is gone."""
        if self._is_of_session(path):
            return
        if not Path(path).is_dir():
            self._look_at(path)
            return
        self.folders.add(path)
        for file in _files_below(path):
            self._look_at(file)

    def _is_of_session(self, path: str) -> bool:
        """Return True if a path is, or lies in, a folder that reads as one log, which is then looked at."""
        for spot in self._spots:
            folder = session_folder(spot.agent, spot.place, path)
            if folder is None or shown(folder) != folder:
                continue
            if folder not in self._looked:
                self._looked.add(folder)
                self._session(spot, folder)
            return True
        return False

    def _session(self, spot: Spot, folder: str) -> None:
        assert spot.agent.folders is not None
        path = f"{folder}{os.sep}{spot.agent.folders.head}"
        if not spot.agent.log.is_log(Path(path)):
            return
        try:
            found = os.stat(path)  # noqa: PTH116 - as in discover
        except OSError:
            return
        self.found[spot.agent.name, path] = _candidate(
            spot, path, found, folder=folder, watched=watched_of(spot.agent, folder)
        )

    def _look_at(self, path: str) -> None:
        if path in self._looked or shown(path) != path or self._is_of_session(path):
            return
        self._looked.add(path)
        for spot in self._spots:
            folder = f"{spot.place.folder}{os.sep}"
            if not path.startswith(folder):
                continue
            if spot.agent.log.is_log(Path(path)):
                self._log(spot, path)
            else:
                self._beside(spot, path, PurePath(path.removeprefix(folder)))

    def _log(self, spot: Spot, path: str) -> Candidate | None:
        """The log that lies there."""
        known = self.found.get((spot.agent.name, path))
        if known is not None or not spot.agent.log.is_log(Path(path)):
            return known
        try:
            found = Path(path).stat()
        except OSError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        each = self.found[spot.agent.name, path] = _candidate(spot, path, found)
        return each

    def _beside(self, spot: Spot, path: str, below: PurePath) -> None:
        kept = spot.agent.sidecars
        log = kept.log_of(below) if kept is not None and not NEVER_KEPT.search(below.name) else None
        if kept is None or log is None or (file := _sidecar(path, name_beside(below, log))) is None:
            return
        named = str(spot.place.folder / log)
        each = self._log(spot, named) or self._log(spot, f"{named}.zst") or self._named(spot, kept, log)
        if each is None:
            self.early.add(path)
            return
        self.found[spot.agent.name, each.path] = msgspec.structs.replace(each, sidecars=(*each.sidecars, file))

    def _named(self, spot: Spot, kept: SidecarPart, log: PurePath) -> Candidate | None:
        """The first of the files of a session that share a name."""
        folder = spot.place.folder / log.parent
        try:
            names = sorted(each.name for each in folder.iterdir())
        except OSError:
            return None
        shared = (name for name in names if kept.name_of(log.with_name(name)) == log)
        return next(filter(None, (self._log(spot, str(folder / name)) for name in shared)), None)


def _candidate(
    spot: Spot, path: str, found: os.stat_result, *, folder: str = "", watched: tuple[FileStamp, ...] = ()
) -> Candidate:
    relpath = os.path.relpath(path, spot.place.root)
    return Candidate(
        agent=spot.agent, path=path, relpath=folder_relpath(relpath) if folder else relpath, device=found.st_dev,
        inode=found.st_ino, size=found.st_size, mtime_ns=found.st_mtime_ns, ctime_ns=found.st_ctime_ns, folder=folder,
        watched=watched,
    )  # fmt: skip


def changed(paths: Iterable[str], spots: Sequence[Spot]) -> Changed:
    """The logs that changed files are, or lie beside. Folders are looked through; what is gone is passed over."""
    looking = _Looking(spots)
    for path in sorted(paths):
        looking.look(path)
    return Changed(logs=list(looking.found.values()), early=looking.early, folders=looking.folders)


def _sidecar(path: str, name: str) -> SidecarFile | None:
    """A regular file that is reached from its log's folder, or the one above it, without a link."""
    folders = [Path(path).parents[depth] for depth in range(name.removeprefix("../").count("/"))]
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode) or any(folder.is_symlink() for folder in folders):
        return None
    return SidecarFile(path=path, name=name, size=found.st_size, mtime_ns=found.st_mtime_ns)


def _files_below(folder: str) -> Iterator[str]:
    seen: set[tuple[int, int] | None] = set()
    for at, folders, files in os.walk(folder, followlinks=True):
        # Links may lead in a circle.
        if (identity := _identity(Path(at))) in seen:
            folders.clear()
            continue
        seen.add(identity)
        yield from (str(Path(at, name)) for name in sorted(files))


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of a file or folder, different from another one of its name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _refused(report: IngestReport) -> set[str]:
    """The logs that another process changed again and again while they were read."""
    return {each.path for each in report.errors if each.reason == append.STALE}


def _changed_ns(store: Path) -> int:
    """Return the time of the last write to a project's store."""
    try:
        return store.stat().st_mtime_ns
    except (OSError, ValueError):
        return 0
