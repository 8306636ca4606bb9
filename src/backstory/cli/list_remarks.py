"""Remarks below a list of sessions: runs, a store from elsewhere, the reason that there is nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory import agents
from backstory.cli import output
from backstory.errors import RunUnreadable
from backstory.workspace.sessions import UID_SHOWN, SessionFilter

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.workspace.reader import Reader


def report_runs(reader: Reader) -> None:
    """Print what the list does not show of runs: how many there are, and those that are not stored yet."""
    found = reader.runs()
    runs = [run for run in found if run.session_uid is not None]
    if running := sum(run.is_running for run in runs):
        output.talk(f"{running} running: backstory ps")
    if over := len(runs) - running:
        what, them = ("run is", "it") if over == 1 else ("runs are", "them")
        output.talk(f"{over} finished {what} not stored yet; the next `backstory run` will store {them}.")
    for run in runs:
        if run.trouble and not run.is_running:
            uid = str(run.session_uid)[:UID_SHOWN]
            output.talk(f"A run of {uid} could not be stored: {run.trouble} It is kept in {run.folder}")
    for run in found:
        if run.session_uid is None:
            output.talk(str(RunUnreadable(run.folder)))


def report_elsewhere(app: App) -> None:
    """Print that this project's store is a stranger's, and what of it claims to be ours."""
    store = app.project_store
    if not store.is_elsewhere or not store.exists:
        return
    output.talk(f"{store.path} came from elsewhere: it is only read, unless you give --trust.")
    if app.conflicts:
        output.talk(
            f"{len(app.conflicts)} in conflict: known here from another place, so the machine's store keeps its own."
        )


EVERYWHERE = "--all looks at every project's"


def why_no_sessions(app: App, wanted: SessionFilter, elsewhere: str = EVERYWHERE) -> str:
    """Return the reason that a list is empty, and a remedy. ``elsewhere``: the command's option for other projects."""
    store = next((store for store in app.stores if store.exists), None)
    if store is None:
        return (
            f"Nothing was imported yet: there is no store at {app.home_store.path}. `backstory ingest` imports logs of "
            f"{', '.join(agents.names())}; if there are none, `backstory run PROMPT` starts a session."
        )
    if wanted.is_narrow:
        count = app.reader.count(SessionFilter(everywhere=wanted.everywhere))
        where = "in all" if wanted.everywhere else f"of this project; {elsewhere}"
        return f"No such sessions among {count:,} {where}."
    if wanted.everywhere:
        return f"{store.path} has no such sessions. Try: backstory ingest --explain"
    count = app.reader.count(SessionFilter(everywhere=True))
    return f"No sessions of {app.project_key}. {output.counted(count, 'session')} in all: backstory list --all"
