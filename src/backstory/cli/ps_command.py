"""``backstory ps``: runs, and the prompts queued behind them."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.cli.options import json_option, session_argument
from backstory.errors import BackstoryError, RunUnreadable
from backstory.runs.lease import is_held
from backstory.runs.queued import still_waiting
from backstory.runs.spool import SPOOLS, waiting
from backstory.store.queue import Owner, Queue

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.runs.spool import Run, Spool


UNREADABLE = "unreadable"
"""The state of a run that does not say whose it is."""
STATES = {"waiting": "not stored"}
"""What a person reads for a state, where that is another word."""
NAME_COLUMNS = 24


class _Queues:
    """What is queued, and who says to run what, beside every store that is asked for; a queue is read once."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._known: dict[Path, tuple[Counter[str], dict[str, Owner]]] = {}

    def of(self, store: Path) -> tuple[Counter[str], dict[str, Owner]]:
        """How many texts wait for each session of a store, and the owners' rows."""
        if store not in self._known:
            counts, owners = Counter[str](), dict[str, Owner]()
            try:
                with Queue(store, output.talk) as queue:
                    counts.update(text.session_uid for text in still_waiting(self._home, queue))
                    owners = {owner.session_uid: owner for owner in queue.owners()}
            except BackstoryError as refused:
                output.talk(f"The queue: {refused}")
            self._known[store] = counts, owners
        return self._known[store]


@click.command("ps")
@session_argument
@json_option
@click.pass_obj
def command(app: App, session: str | None, as_json: bool) -> None:
    """List running agents, runs that are finished but not stored yet, and queued prompts: of SESSION, or all."""
    queues = _Queues(app.home)
    only = None if session is None else app.find(session).session.uid
    spools = waiting(app.home / SPOOLS)
    rows = [_run_row(app, spool, run, queues) for spool in spools if (run := spool.run) is not None]
    rows += [_unreadable_row(spool) for spool in spools if spool.is_unreadable]
    rows += _queued_rows(app, queues, {str(row["session"]) for row in rows})
    rows = [row for row in rows if only in (None, row["session"])]
    if as_json:
        output.json(rows)
        return
    if not rows:
        output.talk("Nothing is running.")
        return
    labels = app.reader.labels([uid for row in rows if (uid := row["session"])])
    cells = [
        (_called(r, labels), str(r["agent"] or ""), STATES.get(r["state"], r["state"]), str(r["pid"] or ""),
         _by(r["owner"]), str(r["queued"] or ""), str(r["prompt"] or ""))
        for r in rows
    ]  # fmt: skip
    for line in output.table(cells, flexible=6, heads=("SESSION", "AGENT", "STATE", "PID", "BY", "QUEUED", "PROMPT")):
        output.data(line)
    for row in rows:
        if row["state"] == UNREADABLE:
            output.talk(row["problem"])
        elif row["problem"]:
            output.talk(
                f"A run of {_label(row, labels)} could not be stored: {row['problem']} It is kept in {row['folder']}"
            )


def _run_row(app: App, spool: Spool, run: Run, queues: _Queues) -> dict[str, Any]:
    counts, owners = queues.of(Path(run.store))
    return {
        "session": run.session_uid,
        **_names(app, Path(run.store), run.session_uid),
        "turn": run.turn_uid,
        "agent": run.agent,
        "state": "running" if spool.is_alive else "waiting",
        "pid": spool.pid,
        "owner": _owner_told(app, owners.get(run.session_uid)),
        "queued": counts[run.session_uid],
        "started": output.iso(run.started),
        "cwd": run.cwd,
        "prompt": run.prompt,
        "folder": str(spool.folder),
        "problem": spool.trouble or None,
    }


def _unreadable_row(spool: Spool) -> dict[str, Any]:
    """A run of which only the agent's output can be read."""
    return {
        "session": None, "number": None, "name": None, "turn": spool.folder.name, "agent": None, "state": UNREADABLE,
        "pid": spool.pid, "owner": None,
        "queued": 0, "started": None, "cwd": None, "prompt": None, "folder": str(spool.folder),
        "problem": str(RunUnreadable(spool.folder)),
    }  # fmt: skip


def _queued_rows(app: App, queues: _Queues, shown: set[str]) -> list[dict[str, Any]]:
    """What is queued in this project for sessions that are not running."""
    if app.project_store.is_elsewhere:
        # What waits there is run by nobody before it is released.
        return []
    counts, owners = queues.of(app.project_store.path)
    return [
        {
            "session": uid, **_names(app, app.project_store.path, uid), "turn": None, "agent": None, "state": "queued",
            "pid": None,
            "owner": _owner_told(app, owners.get(uid)), "queued": count, "started": None, "cwd": None, "prompt": None,
            "folder": None, "problem": None,
        }
        for uid, count in counts.items()
        if uid not in shown
    ]  # fmt: skip


def _names(app: App, store: Path, uid: str) -> dict[str, str | None]:
    """What a session is called here: its number, where it is one of this project's, and the name that it was given."""
    own = app.project_store
    with suppress(BackstoryError):
        if store == own.path and own.exists and own.has(uid):
            session = own.session(uid)
            return {"number": session.shown_number, "name": session.name or None}
    return {"number": None, "name": None}


def _label(row: dict[str, Any], labels: dict[str, str]) -> str:
    """What a session can be named by here."""
    return str(row["number"] or labels.get(row["session"], "?"))


def _called(row: dict[str, Any], labels: dict[str, str]) -> str:
    label = _label(row, labels)
    return f"{label} {output.one_line(row['name'], NAME_COLUMNS)}" if row["name"] else label


def _owner_told(app: App, owner: Owner | None) -> dict[str, Any] | None:
    """Who runs a session. A row of this machine that nobody holds the lock of was left by a process that died."""
    from backstory.cli.app import now_ms
    from backstory.runs.lease import host

    if owner is None or not (
        is_held(app.home, owner.session_uid) if owner.host == host() else owner.is_fresh(now_ms())
    ):
        return None
    return {
        "pid": owner.pid,
        "host": owner.host,
        "started": output.iso(owner.started),
        "heartbeat": output.iso(owner.heartbeat),
    }


def _by(owner: Any) -> str:
    with suppress(TypeError):
        return f"{owner['pid']} on {owner['host']}"
    return ""
