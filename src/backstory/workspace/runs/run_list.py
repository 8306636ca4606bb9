"""Lists agents at work, finished runs that are not stored yet, and queued prompts."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from backstory.bounds import iso
from backstory.errors import BackstoryError
from backstory.ids import session_keys
from backstory.runs import compactor
from backstory.runs.lock import host, is_held
from backstory.runs.queued import queued_prompts
from backstory.runs.spool import SPOOLS, Spool, list_spools
from backstory.store.tables.queue import Queue, QueueOwner
from backstory.workspace.runs.running import ListedRun, listed_run, store_of_run, unreadable

if TYPE_CHECKING:
    from backstory.model import ToolCall
    from backstory.runs.spool import Run
    from backstory.workspace.place import Place

SUMMARISING = "summarising"
"""The state of a session that a process of its own summarises."""


def as_json(run: ListedRun) -> dict[str, Any]:
    """A run as ``ps --json`` prints it."""
    owner = run.owner
    return {
        **({"uid": None, "label": None} if run.session is None else session_keys(run.session, run.number)),
        "number": run.number,
        "name": run.name,
        "turn_uid": run.turn,
        "agent": run.agent,
        "state": run.state,
        "pid": run.pid,
        "owner": None if owner is None else {
            "pid": owner.pid, "host": owner.host, "started": iso(owner.started), "heartbeat": iso(owner.heartbeat),
        },
        "queued_count": run.queued,
        "started": iso(run.started),
        "cwd": run.cwd,
        "prompt": run.prompt,
        "folder": run.folder,
        "problem": run.problem,
    }  # fmt: skip


def call_at_work(run: ListedRun) -> ToolCall | None:
    """The call whose result a running agent waits for, as far as the end of its output tells; else None."""
    if not run.is_running or run.folder is None or run.agent is None:
        return None
    from backstory.runs.live import open_call  # it knows all that runs agents

    return open_call(Spool(Path(run.folder)), run.agent)


def list_runs(place: Place, session_uid: str | None = None) -> list[ListedRun]:
    """Return the runs of this machine, and the queued prompts of this project for sessions that are not running."""
    queues = _Queues(place)
    spools = list_spools(place.home / SPOOLS)
    known = [(spool, run) for spool in spools if (run := spool.run) is not None]
    runs = [_with_queue(place, spool, run, queues) for spool, run in known]
    runs += [msgspec.structs.replace(unreadable(spool), pid=spool.pid) for spool in spools if spool.is_unreadable]
    runs += _summarising(place)
    runs += _only_queued(place, queues, {run.session for run in runs})
    return [run for run in runs if session_uid in (None, run.session)]


class _Queues:
    """Queued prompts beside every store asked for, and the runners; reads a queue once."""

    def __init__(self, place: Place) -> None:
        self._home, self._report, self._now = place.home, place.report, place.now
        self._known: dict[Path, tuple[Counter[str], dict[str, QueueOwner]]] = {}

    def of(self, store: Path) -> tuple[Counter[str], dict[str, QueueOwner]]:
        """Return the number of prompts queued for each session of a store, and the owners' rows."""
        if store not in self._known:
            counts, owners = Counter[str](), dict[str, QueueOwner]()
            try:
                with Queue(store, self._report) as queue:
                    counts.update(each.session_uid for each in queued_prompts(self._home, queue))
                    owners = {owner.session_uid: owner for owner in queue.owners() if self._is_there(owner)}
            except BackstoryError as refused:
                self._report(f"The queue: {refused}")
            self._known[store] = counts, owners
        return self._known[store]

    def _is_there(self, owner: QueueOwner) -> bool:
        """Return True if an owner still runs. A row of this machine without a lock was left by a process that died."""
        return is_held(self._home, owner.session_uid) if owner.host == host() else owner.is_fresh(self._now())


def _with_queue(place: Place, spool: Spool, run: Run, queues: _Queues) -> ListedRun:
    """A run with its process, what its project calls its session, and who runs that and waits for it."""
    store = store_of_run(run, place.project_store.path)
    counts, owners = queues.of(store)
    number, name = _names(place, store, run.session_uid)
    return msgspec.structs.replace(
        listed_run(spool, run), number=number, name=name, pid=spool.pid, owner=owners.get(run.session_uid),
        queued=counts[run.session_uid],
    )  # fmt: skip


def _summarising(place: Place) -> list[ListedRun]:
    """The sessions whose beginning is being summarised, beside their runs."""
    found = []
    for uid, pid in compactor.under_way(place.home).items():
        number, name = _names(place, place.project_store.path, uid)
        found.append(ListedRun(session=uid, number=number, name=name, state=SUMMARISING, pid=pid))
    return found


def _only_queued(place: Place, queues: _Queues, running: set[str | None]) -> list[ListedRun]:
    """Return the queued prompts of this project for sessions that are not running."""
    store = place.project_store
    if store.is_elsewhere:
        # What is queued there is run by nobody before it is released.
        return []
    counts, owners = queues.of(store.path)
    found = []
    for uid, count in counts.items():
        if uid not in running:
            number, name = _names(place, store.path, uid)
            found.append(
                ListedRun(session=uid, number=number, name=name, state="queued", owner=owners.get(uid), queued=count)
            )
    return found


def _names(place: Place, store: Path, uid: str) -> tuple[str | None, str | None]:
    """A session's number and name here, where it is one of this project's."""
    own = place.project_store
    with suppress(BackstoryError):
        if store == own.path and own.exists and own.has(uid):
            session = own.session(uid)
            return session.shown_number, session.name or None
    return None, None
