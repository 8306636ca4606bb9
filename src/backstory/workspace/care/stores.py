"""Findings about stores: damage, versions, what is left to do in them, copies, places; and what waits beside them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.bounds import counted
from backstory.projects import home_state
from backstory.runs.lock import host, is_held, is_taken
from backstory.runs.spool import SPOOLS, list_spools
from backstory.store.file import untouched
from backstory.store.tables.queue import QueuedKind, path_beside
from backstory.workspace.care.case import is_gone
from backstory.workspace.care.findings import US, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.store.file.untouched import StoreLook
    from backstory.workspace.care.case import Case

STATES = {
    untouched.DAMAGED: "store-damaged", untouched.FOREIGN: "store-foreign", untouched.UNREADABLE: "store-unreadable",
    untouched.NEWER: "store-newer", untouched.DRAFT: "store-draft",
}  # fmt: skip
"""States that no command mends, each with its finding."""


def of_stores(case: Case) -> Iterator[Finding]:
    """Each store of ours, as its file is."""
    if case.look(case.store).state == untouched.MISSING:
        # A home that vanished, or that cannot be written, is a finding of its own.
        is_ready = case.home_state.is_writable if case.home_state is not None else not case.is_home_set
        if is_ready and not case.is_home_off:
            yield Finding(name="nothing-imported", about=str(case.store), command=(US, "ingest"))
    else:
        yield from _of_store(case, case.look(case.store))
    for each in case.projects:
        yield from _of_store(case, each)


def _of_store(case: Case, look: StoreLook) -> Iterator[Finding]:
    about, named = str(look.path), ("--store", str(look.path))
    is_home = case.named is None and look.path == case.store
    derive = (
        (US, "ingest") if is_home and not (case.may_prune or case.is_home_off) else (US, "reindex", "--derived", *named)
    )
    ingest = (US, "ingest", *(() if is_home else named))
    opened = ("chmod", "u+rw", about) if home_state.is_own(look.path) and home_state.is_read_only(look.path) else ()
    if (name := STATES.get(look.state)) is not None:
        mend = opened if look.state == untouched.UNREADABLE else ()
        yield Finding(name=name, about=about, detail=look.detail, command=mend)
        return
    if home_state.is_read_only(look.path) and not home_state.is_read_only(look.path.parent):
        yield Finding(name="store-read-only", about=about, command=opened)
    if look.is_cut_off:
        yield Finding(name="write-cut-off", about=about, command=(US, "list", "--all", *named), is_safe=True)
    if look.state == untouched.OLDER:
        yield Finding(name="store-older", about=about, detail=f"schema {look.schema}", command=derive, is_safe=True)
    if look.is_stale:
        yield Finding(name="derived-stale", about=about, command=derive, is_safe=True)
    if look.is_index_outdated:
        yield Finding(name="index-outdated", about=about, command=(US, "reindex", "--derived", *named), is_safe=True)
    if look.is_to_erase:
        yield Finding(name="not-erased", about=about, command=(US, "optimize", *named), is_safe=True)
    if look.is_prune_due:
        yield Finding(name="prune-due", about=about, command=ingest, is_safe=True)
    if look.is_in_bulk and not is_taken(case.home):
        yield Finding(name="ingest-cut-off", about=about, command=ingest, is_safe=True)


def of_places(case: Case) -> Iterator[Finding]:
    """Project stores that vanished, that are copies of each other, or that came from elsewhere."""
    here = {str(each.path) for each in case.projects}
    ids = {each.store_id for each in case.projects}
    for note in case.notes if case.named is None else ():
        if note.merged is None and note.store_id not in ids and is_gone(Path(note.path)):
            yield Finding(name="store-gone", about=note.path)
    for store_id, count in Counter(each.store_id for each in case.projects if each.store_id).items():
        merged = {each.path for each in case.notes if each.merged is not None}
        alike = [each.path for each in case.projects if each.store_id == store_id and str(each.path) not in merged]
        if count > 1 and len(alike) > 1:
            first, *others = alike
            for other in others:
                yield Finding(
                    name="store-copied", about=str(first), detail=f"the other is {other}",
                    command=(US, "merge", str(other)), folder=first.parent.parent,
                )  # fmt: skip
    if case.project is not None and str(case.project) not in here:
        look = case.look(case.project, is_ours=False)
        if not case.is_ours(look):
            yield Finding(name="store-elsewhere", about=str(case.project))


def of_locks(case: Case) -> Iterator[Finding]:
    """Stores that a stopped process has open, and sessions that a dead one is noted as running."""
    for look in case.stores:
        if look.state == untouched.MISSING:
            continue
        user = untouched.user_of(look.path)
        if user is not None and user.is_stopped:
            yield Finding(
                name="store-held", about=str(look.path), detail=str(user), command=("kill", "-CONT", str(user.pid))
            )
        for uid, pid, machine in untouched.look_at_queue(path_beside(look.path)).owners:
            if machine == host() and not is_held(case.home, uid):
                yield Finding(name="owner-dead", about=str(look.path), detail=f"process {pid}")


def of_runs(case: Case) -> Iterator[Finding]:
    """Runs whose output waits in the spool, with nobody who stores it."""
    for spool in list_spools(case.home / SPOOLS) if case.home_state is not None else ():
        run = spool.run
        if spool.is_unreadable:
            yield Finding(name="run-unreadable", about=str(spool.folder))
        elif run is not None and not spool.is_alive and not is_held(case.home, run.session_uid):
            yield Finding(
                name="run-not-stored", about=str(spool.folder), detail=spool.trouble, command=(US, "ingest"),
                is_safe=not spool.trouble,
            )  # fmt: skip


def of_queues(case: Case) -> Iterator[Finding]:
    """Prompts that wait, and nobody runs their session."""
    for look in case.stores:
        waiting = Counter[str]()
        for uid, session, kind in untouched.look_at_queue(path_beside(look.path)).texts:
            if kind == QueuedKind.HELD:
                yield Finding(
                    name="prompts-held", about=str(look.path), command=(US, "queue", "run", uid, *case.named_words),
                    folder=_project_of(look.path),
                )  # fmt: skip
            elif not is_held(case.home, session):
                waiting[session] += 1
        for session, count in waiting.items():
            yield Finding(
                name="prompts-waiting", about=str(look.path), detail=counted(count, "prompt"),
                command=(US, "queue", "run", session, *case.named_words), folder=_project_of(look.path),
            )  # fmt: skip


def _project_of(store: Path) -> Path | None:
    """The folder of a project's store; None for the home store."""
    return store.parent.parent if store.parent.name in (".backstory", "backstory") and store.suffix == ".bks" else None
