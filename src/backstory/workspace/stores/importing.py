"""Everything that one ingest does, in its order: finished runs, logs, project stores, what is derived. Prints nothing.

``report`` receives remarks in sentences. ``progress`` is called with what begins ("Reading logs", "Deriving") and
returns a context manager, which receives how much is done and how much there is.
"""

from __future__ import annotations

import shutil
import time
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.ask import cost_bounds
from backstory.bounds import size
from backstory.derive.projects import Repository
from backstory.errors import REASON_CHARS_MAX, BackstoryError, GitFailed, NoGit, in_words
from backstory.exchange import replication
from backstory.exchange.replicate import Taken
from backstory.ingest import news
from backstory.ingest.ingest import ingest
from backstory.ingest.lock import ingest_lock
from backstory.ingest.news import TimeBudget
from backstory.ingest.reindex import reindex
from backstory.ingest.report import IngestReport, Problem
from backstory.projects import git
from backstory.projects.registry import Verdict
from backstory.store.intake import ingesting
from backstory.store.tables import sessions
from backstory.workspace.runs.running import count_context
from backstory.workspace.stores.up_to_date import (
    HOME_OFF,
    MORE,
    chosen_agents,
    conversion,
    conversion_room,
    soon_deleted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

    from backstory.ingest.news import Folders
    from backstory.ingest.reindex import FailedSession, Reindexed
    from backstory.ingest.watch import Watch
    from backstory.runs.runner import Unstored
    from backstory.store import Store
    from backstory.workspace.place import Place

    Progress = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]

GIT_SECONDS = 20.0
"""The time in which git is asked which repositories the folders of new sessions hold."""
AFTER_COMMAND_CPU_S = 5.0
"""The processor time that a command may take for that when its own work is done."""


def no_progress(_phase: str) -> AbstractContextManager[Callable[[int, int], None]]:
    """For who shows none."""
    return nullcontext(lambda _done, _total: None)


class Machine(Struct, frozen=True, kw_only=True):
    """The places of logs. ``only``: the agents to read; without one those of the settings, else all."""

    user_home: Path
    only: tuple[str, ...] = ()


def ingest_all(
    workspace: Place, machine: Machine, report: Callable[[str], None], progress: Progress = no_progress
) -> IngestReport:
    """Store what is new: runs that are over, logs, and what known projects have; then derive what is missing."""
    if not workspace.keeps_home:
        report(HOME_OFF)
        return IngestReport()
    runner = workspace.runner
    home, is_machines = workspace.home_store, workspace.home_store is workspace.machine_store
    unstored: list[Unstored] = []
    is_begun = False
    if is_machines:
        runner.recover_finished_runs(unstored.append, partial(count_context, workspace))
        if not workspace.project_store.is_elsewhere:
            runner.cleanup_orphans(workspace.project_store, report)
    elif not home.exists:
        workspace.known_projects.begin(home)
        is_begun = True
    lock = ingest_lock(workspace.home) if is_machines else nullcontext()
    with lock, home, progress("Reading logs") as note:
        done = ingest(
            home,
            chosen_agents(workspace.config, machine.only),
            environ=workspace.environ,
            home=machine.user_home,
            now=workspace.now(),
            running=runner.running(),
            places=[workspace.folder, workspace.worktree, workspace.project_folder],
            progress=note,
        )
        if is_machines:
            if remark := soon_deleted(workspace, machine.user_home):
                report(remark)
            _note_folders(workspace, machine, done)
            _note_place(workspace)
            runner.projects.replicate(report)
            done.errors += take_from_elsewhere(workspace, report)
        ingesting.settle_written(home)
        note_projects(workspace, home)
        if is_begun and home.exists:
            workspace.known_projects.remember(home)
    done.errors += [Problem(each.session, each.reason) for each in _derive_stale(workspace, report, progress)]
    settle_lists(workspace)
    done.errors += [Problem(str(each.folder), f"a run that could not be stored: {each.reason}") for each in unstored]
    return done


def note_projects(workspace: Place, home: Store) -> None:
    """Note the repositories of folders that sessions began in, and by them the names of projects."""
    # Git is not asked about folders that a store from elsewhere names.
    if not home.exists or home.is_elsewhere or home.ask_or(True, sessions.are_projects_noted):
        return
    from backstory.store.tables import repositories  # mostly no session is new

    known = home.ask_or({}, repositories.known)
    found = repositories_at(home.ask_or([], repositories.roots), known, workspace.environ)
    with suppress(BackstoryError):
        home.write(repositories.note, known | found, home.moves)
    workspace.forget_project_names()


def repositories_at(
    roots: Iterable[str], known: Mapping[str, Repository], environ: Mapping[str, str], *, seconds: float = GIT_SECONDS
) -> dict[str, Repository]:
    """Find the repositories at the roots of worktrees, where they are not ``known`` or others than those.

    ``seconds``: what all may take together. What git refuses is noted without commits, so that it is not asked again.
    """
    found, begun = dict[str, Repository](), dict[Path | None, tuple[str, ...]]()
    until = time.monotonic() + seconds
    for root in roots:
        folder = Path(root)
        with suppress(OSError, ValueError):
            inode = (folder / ".git").stat().st_ino
            if (root in known and known[root].inode == inode) or not git.has_whole_history(folder):
                continue
            shared = git.shared_root(folder)
            if shared not in begun:
                if (left := until - time.monotonic()) <= 0:
                    return found
                try:
                    begun[shared] = _first_commits(folder, environ, min(left, seconds / 4))
                except NoGit:
                    return found
            found[root] = Repository(begun[shared], inode)
    return found


def _first_commits(folder: Path, environ: Mapping[str, str], seconds: float) -> tuple[str, ...]:
    from backstory.projects.git_history import GitHistory  # mostly no repository is new

    try:
        return GitHistory(folder, environ, seconds=seconds).first_commits()
    except GitFailed:
        return ()


def _note_place(workspace: Place) -> None:
    """Note where this project's store is, if it is ours: it may have been moved."""
    store = workspace.project_store
    if store.exists and not store.is_elsewhere:
        with suppress(BackstoryError):
            workspace.known_projects.remember(store)


def _note_folders(workspace: Place, machine: Machine, done: IngestReport) -> None:
    """Note the folders that were looked through, for those who ask later whether something is new."""
    home = workspace.machine_store
    if not home.exists:
        return
    folders: Folders = (news.read(workspace.home, home) or {}) if machine.only else {}
    folders |= {each.agent: {} for each in done.looked}
    for each in done.looked:
        folders[each.agent] |= each.folders
    for agent, files in done.databases.items():
        folders.setdefault(agent, {}).update(files)
    try:
        news.note(workspace.home, home, folders, done.postponed)
    except (BackstoryError, OSError) as refused:
        done.errors.append(Problem(str(workspace.home / news.FILE_NAME), in_words(refused)))


def derive_for_a_while(workspace: Place, report: Callable[[str], None], progress: Progress) -> None:
    """Derive again what an earlier version derived, as far as some seconds allow, where no other process does."""
    with ingest_lock(workspace.home) as is_free:
        if is_free:
            _derive_stale(workspace, report, progress, TimeBudget(AFTER_COMMAND_CPU_S).is_over)


def _derive_stale(
    workspace: Place, report: Callable[[str], None], progress: Progress, is_over: Callable[[], bool] = lambda: False
) -> list[FailedSession]:
    """Derive again what an earlier version derived, here and in this project's store, if it is ours."""
    if what := conversion(home := workspace.home_store):
        report(f"An earlier version counted what is here. {what}.")
        if (free := shutil.disk_usage(home.path.parent).free) < conversion_room(home):
            report(f"Nothing of it is converted: the disk has {size(free)} left. Free some space, then: {MORE}")
            return []
    done = derive_all(workspace, progress, only_stale=True, is_over=is_over)
    if done.sessions:
        count = "1 session is" if done.sessions == 1 else f"{done.sessions:,} sessions are"
        left = f" {done.left:,} are left: {MORE}" if done.left else ""
        report(f"{count} counted by the rules of this version now: sums may be other ones than before.{left}")
    project = workspace.project_store
    if not project.exists or project.is_elsewhere or project is workspace.home_store:
        return done.failed
    with progress("Deriving") as note:
        done_there = reindex(project, now=workspace.now(), only_stale=True, progress=note, is_over=is_over)
    return done.failed + done_there.failed


def settle_lists(workspace: Place) -> None:
    """Work out what lists of the home store, and of this project's if it is ours, are sorted and filtered by."""
    for store in (workspace.home_store, workspace.project_store):
        if store.exists and not store.is_elsewhere:
            # A list works out what is open.
            with suppress(BackstoryError):
                cost_bounds.settle(store)


def derive_all(
    workspace: Place,
    progress: Progress = no_progress,
    *,
    only_stale: bool = False,
    events_too: bool = False,
    is_over: Callable[[], bool] = lambda: False,
) -> Reindexed:
    """Derive again what the home store derives; ``events_too``: also the events, from the bytes that are kept.

    ``is_over``: asked before each session, whether the rest is left.
    """
    with workspace.home_store as store, progress("Deriving") as note:
        done = reindex(
            store, now=workspace.now(), only_stale=only_stale, events_too=events_too, progress=note, is_over=is_over
        )
        if done.sessions:
            count_contexts(workspace)
    return done


def count_contexts(workspace: Place) -> None:
    """Count how full the contexts are that had a known size, and have not any more."""
    store = workspace.home_store
    for uid in store.ask_or([], sessions.uncounted):
        count_context(workspace, store, uid)


def watch_all(
    workspace: Place, machine: Machine, report: Callable[[str], None], read_all: Callable[[], IngestReport]
) -> Watch:
    """Follow the logs as they grow. ``read_all`` is a whole ingest, which comes first."""
    from backstory.ingest.watch import Watch

    return Watch(
        workspace.home_store,
        chosen_agents(workspace.config, machine.only),
        environ=workspace.environ,
        user_home=machine.user_home,
        runs=workspace.runner,
        home=workspace.home,
        is_machine_store=workspace.home_store is workspace.machine_store,
        read_all=read_all,
        say=report,
    )


def take_from_elsewhere(workspace: Place, report: Callable[[str], None]) -> list[Problem]:
    """Copy into the home store the sessions that only this project's store from elsewhere has; returns the problems.

    This does not trust the store, and changes no known session.
    """
    store, home = workspace.project_store, workspace.machine_store
    if not store.is_elsewhere or not store.exists:
        return []
    try:
        if workspace.verdict() == Verdict.MACHINE:
            return []
    except BackstoryError as refused:
        # For a known store the exchange with projects has reported it already.
        return [] if workspace.known_projects.is_noted(store.path) else [Problem(str(store.path), str(refused))]
    taken_from = Taken(elsewhere=str(store.path), project=workspace.project_key, folder=str(workspace.project_folder))
    taken, problems, conflicts = 0, list[Problem](), list[str]()
    uids = _uids(store, problems)
    problems += _odd_rest(store, len(uids) - len(home.ask_or({}, sessions.origins, uids)))
    for uid in uids:
        if uid in workspace.conflicts:
            conflicts.append(uid)
        elif not home.ask_or({}, sessions.origins, [uid]):
            try:
                is_taken = replication.take_elsewhere(home, store, uid, taken_from)
            except BackstoryError as refused:
                problems.append(Problem(f"{store.path}: {uid[:REASON_CHARS_MAX]}", str(refused)))
            else:
                taken += is_taken
                conflicts += [] if is_taken else [uid]
    if taken:
        copied, are = ("1 session was", "it is") if taken == 1 else (f"{taken:,} sessions were", "they are")
        report(f"{copied} copied from {store.path}, which came from elsewhere; {are} marked.")
    if conflicts:
        what = f"{len(conflicts)} in conflict, not changed: known here from another place: {', '.join(conflicts)}"
        problems.append(Problem(str(store.path), what))
    return problems


def _odd_rest(store: Store, asking: int) -> list[Problem]:
    """Name what of a store is not as ours are made and belongs to no session: what is whole is taken nevertheless.

    ``asking``: how many of its sessions are to be taken.
    """
    try:
        replication.check_rest(store, asking=asking)
    except BackstoryError as refused:
        return [Problem(str(store.path), str(refused))]
    return []


def _uids(store: Store, problems: list[Problem]) -> list[str]:
    try:
        return store.uids()
    except BackstoryError as refused:
        problems.append(Problem(str(store.path), str(refused)))
        return []
