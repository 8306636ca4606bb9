"""Work that a killed command left to be done by itself: a summary, or a turn that was stopped for one.

Each is taken up by a process of its own, which makes sure, while it holds the session, that there is still something to
do: two commands that begin it at once do it once.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backstory.conversation.tree import Point
from backstory.errors import BackstoryError
from backstory.model import STOPPED_TO_COMPACT
from backstory.runs import compactor
from backstory.runs.lock import is_held
from backstory.runs.process import birth
from backstory.runs.spool import SPOOLS, list_spools
from backstory.runs.stopping import running
from backstory.store import open_store
from backstory.store.tables import runs
from backstory.workspace.runs.running import count_context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import Turn
    from backstory.runs.compactor import StoppedTurn
    from backstory.store import Store
    from backstory.workspace.place import Place


def to_continue(home: Path, store: Store, stopped: StoppedTurn) -> Turn | None:
    """The stopped turn, where it is still what its session goes on from; None where nothing is left to do."""
    uid = stopped.session_uid
    if (
        not store.has(uid)
        or store.ask_or(False, runs.has_ended, uid, stopped.next_uid)
        or _is_begun(home, stopped.next_uid)
    ):
        return None
    session = store.session(uid)
    turn = next((each for each in store.turns(session) if each.uid == stopped.turn_uid), None)
    if turn is None or turn.stop_reason != STOPPED_TO_COMPACT:
        return None
    return turn if store.leaf(session) == Point(turn.uid, turn.last_seq) else None


def _is_begun(home: Path, turn_uid: str) -> bool:
    return any(spool.folder.name == turn_uid for spool in list_spools(home / SPOOLS))


def take_up_unfinished(place: Place, besides: str = "") -> Iterator[str]:
    """Begin what was left undone, in processes of their own; returns sentences about it.

    ``besides``: a session that a person has a prompt for: that goes first.
    """
    taken = {besides}
    noted = list(compactor.all_stopped(place.home))
    if noted:
        # The partial turn may still wait to be stored.
        place.runner.recover_finished_runs(stored_one=partial(count_context, place))
    for stopped in noted:
        is_continued = bool(stopped.pid and birth(stopped.pid))
        if not is_continued and stopped.session_uid not in taken and not _is_busy(place.home, stopped.session_uid):
            taken.add(stopped.session_uid)
            yield from _or_later(_continue(place, stopped))
    for uid in compactor.unfinished(place.home):
        if uid not in taken and not _is_busy(place.home, uid):
            yield from _or_later(_summarise(place, uid))


def _or_later(sentences: Iterator[str]) -> Iterator[str]:
    """Yield the work; if it cannot begin now, because a store is locked or damaged, the command goes on."""
    with suppress(BackstoryError, OSError):
        yield from sentences


def _is_busy(home: Path, uid: str) -> bool:
    return is_held(home, uid) or compactor.is_under_way(home, uid) or bool(running(home, uid))


def _continue(place: Place, stopped: StoppedTurn) -> Iterator[str]:
    home, uid = place.home, stopped.session_uid
    path = Path(stopped.store)
    with open_store(path, now=place.now) as store:
        if not store.exists or to_continue(home, store, stopped) is None:
            compactor.forget_stopped(home, uid)
            return
        session = store.session(uid)
        label = session.shown_number or uid[:12]
    cwd = Path(stopped.options.cwd or place.folder)
    pid = compactor.start(path, uid, cwd if cwd.is_dir() else path.parent, _environ(place), is_continuing=True)
    if compactor.stopped_of(home, uid) == stopped:
        compactor.note_stopped(home, replace(stopped, pid=pid))
    yield f"{label} was stopped for a summary when its run was killed: it is continued in the background."


def _summarise(place: Place, uid: str) -> Iterator[str]:
    store = place.project_store
    if not (store.exists and store.has(uid)):
        owning = place.runner.projects.store_owning(uid)
        if owning is None or not owning.has(uid):
            compactor.note_trouble(place.home, uid, "")
            return
        store = owning
    label = store.session(uid).shown_number or uid[:12]
    # A process that finds nothing to summarise leaves no note.
    compactor.note_trouble(place.home, uid, "")
    compactor.start(store.path, uid, place.folder, _environ(place))
    yield f"The summary of {label} was not finished: it is begun again in the background."


def _environ(place: Place) -> dict[str, str]:
    return {**place.environ, "BACKSTORY_HOME": str(place.home)}
