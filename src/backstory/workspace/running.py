"""Which sessions run at this moment, and what is known of a run before it is stored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory.projects import git
from backstory.projects.registry import file_at
from backstory.runs.spool import SPOOLS, list_spools

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backstory.runs.spool import Run, Spool
    from backstory.store import Session


def running_runs(home: Path) -> list[tuple[Spool, Run]]:
    """The runs whose agent is alive, the oldest first."""
    return [(spool, run) for spool in list_spools(home / SPOOLS) if (run := spool.run) is not None and spool.is_alive]


class PendingRun(Struct, frozen=True, kw_only=True):
    """A run that is not stored yet. ``session_uid`` is None where its spool does not say whose it is."""

    folder: Path
    session_uid: str | None
    is_running: bool
    trouble: str = ""
    """Why it could not be stored the last time; '' where nobody tried."""


def pending_runs(home: Path) -> tuple[PendingRun, ...]:
    """The runs of a machine that are not stored yet, the oldest first."""
    found = []
    for spool in list_spools(home / SPOOLS):
        run = spool.run
        if run is not None:
            found.append(
                PendingRun(
                    folder=spool.folder, session_uid=run.session_uid, is_running=spool.is_alive, trouble=spool.trouble
                )
            )
        elif spool.is_unreadable:
            found.append(PendingRun(folder=spool.folder, session_uid=None, is_running=False))
    return tuple(found)


def sessions_running(home: Path, store: Path, worktree: Path) -> dict[str, list[Run]]:
    """The runs of a store's sessions, by uid: those in a worktree if there are any, else those in all of them."""
    runs = [run for _, run in running_runs(home) if store_of_run(run, store) == store]
    near = [run for run in runs if (git.repository_root(Path(run.cwd)) or Path(run.cwd)) == worktree]
    found: dict[str, list[Run]] = {}
    for run in near or runs:
        found.setdefault(run.session_uid, []).append(run)
    return found


def store_of_run(run: Run, near: Path) -> Path:
    """The path of the store that a run is in: ``near``, if its project was moved there since the run began."""
    path = Path(run.store)
    is_moved = path != near and run.store_file is not None and run.store_file == file_at(near)
    return near if is_moved else path


def is_running(home: Path, uid: str, store: Path, now: int, report: Callable[[str], None]) -> bool:
    """Return True if a session of a store is running: by an agent, a process with the right to, or another machine."""
    from backstory.runs.lease import host, is_held
    from backstory.store.queue import Queue

    if is_held(home, uid) or any(run.session_uid == uid for _, run in running_runs(home)):
        return True
    with Queue(store, report) as queue:
        owner = queue.owner(uid)
    return owner is not None and owner.host != host() and owner.is_fresh(now)


def with_runs(session: Session, runs: Sequence[Run]) -> Session:
    """A session with its runs that no store has yet: they count as turns, and say what it is about."""
    return msgspec.structs.replace(with_title(session, runs), turns=session.turns + len(runs)) if runs else session


def with_title(session: Session, runs: Sequence[Run]) -> Session:
    """A session with what its runs say of it: which agents it has, and of a new one what it is about."""
    return msgspec.structs.replace(
        session,
        agents=tuple(sorted({*session.agents, *(run.agent for run in runs)})),
        first_prompt=session.first_prompt or runs[0].prompt,
    )
