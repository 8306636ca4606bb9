"""Another copy of a project's store, or another store, merged into the one that acting commands write here.

All that speaks against it is found out before the first write, of a copy: the other store is never opened where it
lies. A merge that was killed is begun again by the next one, and ends the same.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from backstory.bounds import iso
from backstory.errors import (
    BackstoryError,
    MergeDuringRun,
    OtherProject,
    SameStore,
    StoreBusy,
    StoreDamaged,
    StoreNotFound,
)
from backstory.exchange import merging, replication
from backstory.ids import session_keys
from backstory.ingest.pruning import prune_again
from backstory.ingest.reindex import reindex
from backstory.projects import git
from backstory.projects.registry import file_at
from backstory.runs import compactor
from backstory.runs.lock import LOCKS, SessionLock, host, is_held
from backstory.runs.queued import queued_prompts
from backstory.store import PROJECT_STORE, Store, open_store
from backstory.store.file.aside import copy_aside
from backstory.store.private import make_private_folder
from backstory.store.tables import boarding, pruned
from backstory.store.tables import sessions as stored_sessions
from backstory.store.tables.queue import Queue
from backstory.workspace.runs.running import pending_runs
from backstory.workspace.runs.writable import prepare_store
from backstory.workspace.stores.importing import no_progress, settle_lists

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from backstory.exchange.merge_session import MergedSession
    from backstory.exchange.merging import MergePlan
    from backstory.store.tables.queue import QueuedPrompt
    from backstory.workspace.stores.importing import Progress
    from backstory.workspace.workspace import Workspace

ASIDE = "merging"
"""The folder below our home where the other store is copied to; what a killed merge left is removed by the next."""
LOCK = "merging"
INDEX = "search index"
"""First words of a problem that concerns only what is made anew here."""


class Merged(Struct, kw_only=True):
    """The result of a merge; sessions by their uids."""

    store: Path
    other: Path
    is_trusted: bool
    plan: MergePlan
    sessions: list[MergedSession] = field(default_factory=list)
    """Those that changed here."""
    removed: list[str] = field(default_factory=list)
    board_items: int = 0
    """The number of items of context boards that came, changed or went."""
    queued: list[QueuedPrompt] = field(default_factory=list)
    """Prompts that are queued in the other store, and stay there."""
    problems: list[str] = field(default_factory=list)
    """Problems after the merge, in sentences: the next ingest does that work."""


def as_json(merged: Merged) -> dict[str, Any]:
    """Return the result of a merge as ``merge --json`` prints it."""
    return {
        "store": _as_text(merged.store),
        "other": _as_text(merged.other),
        "trusted": merged.is_trusted,
        "sessions": [_session_as_json(each) for each in merged.sessions],
        "removed_uids": merged.removed,
        "went_on_there": merged.plan.went_on,
        "went_on_here": merged.plan.stay,
        "left_out_uids": merged.plan.left_out,
        "board_items": merged.board_items,
        "prompts": [
            {**session_keys(each.session_uid), "kind": str(each.kind), "text": each.content, "queued": iso(each.queued)}
            for each in merged.queued
        ],
        "problems": merged.problems,
    }


def _as_text(path: Path) -> str:
    """A path as text, also one that is none."""
    return str(path).encode("utf-8", "replace").decode()


def _session_as_json(session: MergedSession) -> dict[str, Any]:
    return {
        **session_keys(session.uid, None if session.number is None else f"S{session.number}"),
        "number": None if session.number is None else f"S{session.number}",
        "number_there": None if session.their_number is None else f"S{session.their_number}",
        "is_new": session.is_new,
        "turns_new": session.turns_new,
        "turns_replaced": session.turns_replaced,
        "turns_removed": session.turns_removed,
        "moved_records": [
            {"first_there": each.first, "last_there": each.last, "first": each.here} for each in session.moved
        ],
    }


def store_at(path: Path) -> Path:
    """The store that a person means: a file, a ``.backstory`` folder, or the folder or repository that holds one."""
    if not path.is_dir():
        return path
    inside = path / PROJECT_STORE.name
    return inside if path.name == PROJECT_STORE.parent.name or inside.exists() else git.store_path(path)


def merge(
    workspace: Workspace,
    other: Path,
    *,
    trusts: bool,
    is_foreign: bool,
    report: Callable[[str], None],
    progress: Progress = no_progress,
) -> Merged:
    """Merge a store into the one that is written here. ``trusts``: a person's word that what was decided there counts.

    ``is_foreign``: also one of another project. Raises SameStore, OtherProject, MergeDuringRun, and what reading a
    store raises, before anything is written; afterwards what writing raises, and then it is to be called again.
    """
    ours, path = workspace.project_store, store_at(other)
    if not path.exists():
        raise StoreNotFound(path)
    if file_at(path) == file_at(ours.path):
        raise SameStore(path)
    workspace.runner.recover_finished_runs()
    with (
        _alone(workspace, ours),
        _copied_aside(workspace, path) as copy,
        _named(path, copy),
        open_store(copy, now=workspace.now) as theirs,
    ):
        theirs.is_elsewhere = True
        theirs.disarm()
        is_trusted = trusts or workspace.known_projects.is_ours(path, theirs.id)
        _check(workspace, ours, theirs, path, is_foreign=is_foreign, progress=progress)
        merging.check_dictionaries(ours, theirs, may_have_others=is_trusted)
        home = None if workspace.named else workspace.machine_store
        plan = merging.plan_merge(ours, theirs, is_trusted=is_trusted, home=home)
        merged = Merged(store=ours.path, other=path, is_trusted=is_trusted, plan=plan)
        merged.queued = _queued(workspace, copy)
        if not ours.exists:
            prepare_store(workspace)
        _perform(workspace, ours, theirs, merged, progress)
        store_id = theirs.id
    _tell_home(workspace, ours, merged, store_id, report)
    return merged


# before the first write -----------------------------------------------------------------------------------------


@contextmanager
def _alone(workspace: Workspace, ours: Store) -> Iterator[None]:
    """One merge at a time on this machine."""
    lock = SessionLock(workspace.home / LOCKS, LOCK)
    if not lock.take():
        raise StoreBusy(ours.path)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _copied_aside(workspace: Workspace, path: Path) -> Iterator[Path]:
    """A copy of the other store, which goes when the merge is over."""
    folder = workspace.home / ASIDE
    shutil.rmtree(folder, ignore_errors=True)
    make_private_folder(folder)
    try:
        yield copy_aside(path, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _named(path: Path, copy: Path) -> Iterator[None]:
    """Name in errors about the copy the store that a person named."""
    try:
        yield
    except BackstoryError as refused:
        refused.args = (str(refused).replace(str(copy), str(path)),)
        raise


def _check(
    workspace: Workspace, ours: Store, theirs: Store, path: Path, *, is_foreign: bool, progress: Progress
) -> None:
    """Raise what speaks against a merge: damage, another project, a run."""
    merging.check_rows(theirs)
    with progress("Checking") as note:
        problems = [each for each in theirs.verify(note).problems if not each.startswith(INDEX)]
    if problems:
        raise StoreDamaged(path, problems[0])
    uids = {*theirs.uids(), *(ours.uids() if ours.exists else ())}
    if not is_foreign and not _is_same_project(workspace, ours, theirs, path):
        raise OtherProject(path)
    _check_runs(workspace, theirs, uids)


def _is_same_project(workspace: Workspace, ours: Store, theirs: Store, path: Path) -> bool:
    """Return True if two stores have an id, a session or a project in common, or one of them holds nothing yet."""
    if not ours.exists or ours.id == theirs.id:
        return True
    here, there = set(ours.uids()), set(theirs.uids())
    if not here or not there or here & there:
        return True
    keys = merging.projects_of_sessions(ours) | ({workspace.project_key} if not workspace.named else set())
    return bool(keys & (merging.projects_of_sessions(theirs) | {git.project_key(str(path.parent))}))


def _check_runs(workspace: Workspace, theirs: Store, uids: set[str]) -> None:
    for run in pending_runs(workspace.home):
        if run.session in uids:
            raise MergeDuringRun(run.session or "", "is running" if run.is_running else "has a run to be stored")
    for uid in sorted(uids & compactor.under_way(workspace.home).keys()):
        raise MergeDuringRun(uid, "is being summarised")
    for uid in sorted(uids):
        if is_held(workspace.home, uid):
            raise MergeDuringRun(uid, "is in use")
    for store in (theirs.path, workspace.project_store.path):
        with Queue(store, workspace.report) as queue:
            for owner in queue.owners():
                if owner.session_uid in uids and owner.host != host() and owner.is_fresh(workspace.now()):
                    raise MergeDuringRun(owner.session_uid, f"is running on {owner.host}")


def _queued(workspace: Workspace, copy: Path) -> list[QueuedPrompt]:
    with Queue(copy, workspace.report) as queue:
        return queued_prompts(workspace.home, queue)


# the merge ------------------------------------------------------------------------------------------------------


def _perform(workspace: Workspace, ours: Store, theirs: Store, merged: Merged, progress: Progress) -> None:
    plan, elsewhere = merged.plan, None if merged.is_trusted else _as_text(merged.other)
    merged.removed = merging.remove_as(ours, plan.removed)
    owns = ours.path != workspace.machine_store.path
    with progress("Merging") as note:
        for number, uid in enumerate(plan.taken, 1):
            with _held(workspace, uid):
                done = replication.merge(
                    ours, theirs, uid, is_trusted=merged.is_trusted, elsewhere=elsewhere, owns=owns
                )
            if done.has_changed:
                merged.sessions.append(done)
            note(number, len(plan.taken))
    if ours.exists and owns and not workspace.named:
        _note_pruned(ours, workspace.machine_store, plan.taken)
    if merged.is_trusted and ours.exists:
        merging.take_tombstones(ours, theirs)
        merged.board_items = boarding.take(ours, boarding.copies(theirs))
    if ours.exists:
        with progress("Deriving") as note:
            failed = reindex(ours, now=workspace.now(), only_stale=True, progress=note).failed
        merged.problems += [f"{each.session} could not be derived anew: {each.reason}" for each in failed]
        merged.problems += [str(refused) for _, refused in prune_again(ours)]
        settle_lists(workspace)


def _note_pruned(ours: Store, home: Store, taken: Collection[str]) -> None:
    """Note what was pruned in part in the home store of sessions that came: it is pruned again, before they are read.

    What our store notes itself is settled by the merge.
    """
    for session_id in home.ask_or([], pruned.sessions):
        session, before = home.session(session_id), home.ask(pruned.noted, session_id)
        if (
            before is not None
            and session.uid in taken
            and ours.has(session.uid)
            and not ours.session(session.uid).pruned
        ):
            old = {turn.uid for turn in home.turns(session) if turn.first_seq < before.next_seq}
            ours.decide(pruned.note_again, session.uid, before, old)


@contextmanager
def _held(workspace: Workspace, uid: str) -> Iterator[None]:
    """Nobody runs a session while it is merged."""
    lock = SessionLock(workspace.home / LOCKS, uid)
    if not lock.take():
        raise MergeDuringRun(uid, "is in use")
    try:
        yield
    finally:
        lock.release()


def _tell_home(workspace: Workspace, ours: Store, merged: Merged, their_id: str, report: Callable[[str], None]) -> None:
    """Make the home store hold the new state; a store of ours that was merged is not read again."""
    home, projects = workspace.machine_store, workspace.known_projects
    if ours.path == home.path or not ours.exists or not workspace.config.settings.store.is_enabled:
        return
    try:
        if merged.is_trusted:
            projects.note_merged(merged.other, their_id)
        if home.exists and projects.is_noted(ours.path):
            went_on = [uid for uid in merged.plan.went_on if ours.has(uid)]
            home.decide(merging.drop_tombstones, went_on)
            if merged.is_trusted:
                home.decide(
                    merging.disown,
                    [
                        each.uid
                        for each in merged.sessions
                        if ours.ask_or(None, stored_sessions.owner, each.uid) == ours.id
                    ],
                    ours.id,
                )
            projects.look_again(ours.id)
            projects.replicate(report)
    except BackstoryError as refused:
        merged.problems.append(f"The home store does not have all of it yet: {refused}")
