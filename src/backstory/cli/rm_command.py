"""``backstory rm``: sessions, gone for good."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import sessions_argument, store_option
from backstory.cli.repeating import drop_unsent
from backstory.cli.trusting import is_agreed, may_act, trust_option
from backstory.errors import BackstoryError
from backstory.runs.lock import LOCKS, SessionLock
from backstory.runs.spool import SPOOLS, waiting
from backstory.store import copies as copying
from backstory.store.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backstory.cli.app import App, Found
    from backstory.store import Store
    from backstory.store.copies import Holder


@click.command("rm")
@sessions_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--copies", is_flag=True, help="Also remove the sessions that hold copies of its turns, each as a whole.")
@trust_option
@store_option
@click.pass_obj
def command(app: App, sessions: tuple[str, ...], yes: bool, copies: bool) -> None:
    """Remove sessions, their helpers' sessions and all their bytes. The agents' own logs are not touched.

    Ingest does not bring them back, unless asked with --forgotten. Their numbers are not given again. Continuations and
    forks hold copies of the turns: they are named, and removed only when asked for.
    """
    if not sessions:
        raise click.UsageError("Name at least one SESSION.")
    found = [app.find(each) for each in sessions]
    for store in {id(each.store): each.store for each in found}.values():
        may_act(app, store)
    stores = _stores(app, found)
    wanted = [each.session.uid for each in found]
    doomed = _doomed(stores, wanted)
    copied, sources = copying.split(doomed, _holders(stores, doomed))
    what = f"Removing {', '.join(map(_shown, found))}"
    if copied:
        stay = "They go, too" if copies else "They stay; --copies removes them, too"
        output.talk(f"Copies of its turns are in {_named(copied)}. {stay}.")
    question = f"{what} from {found[0].store.path}?"
    if not is_agreed(what, question, yes=yes):
        return
    if copies:
        wanted += [each.uid for each in copied]
        doomed |= _doomed(stores, wanted)
    refused = _remove(stores, wanted)
    output.talk(f"Removed {', '.join(uid[:12] for uid in doomed)}.")
    for store in stores:
        _clear_queue(store.path, list(doomed))
    running, unsent = _drop_spools(app, set(doomed)), drop_unsent(app.home, doomed)
    _tell_what_is_left(sources if copies else copied + sources, doomed, running, unsent)
    for each in refused[:-1]:
        output.talk(str(each))
    if refused:
        raise refused[-1]


def _stores(app: App, found: Sequence[Found]) -> list[Store]:
    """Where a session or a copy of it may be: the store it was found in, the machine's, the projects'."""
    project = [] if app.project_store.is_elsewhere else [app.project_store]
    everywhere = [*(each.store for each in found), app.machine_store, *project, *app.known_projects.stores()]
    return list({store.path: store for store in reversed(everywhere) if store.exists}.values())[::-1]


def _doomed(stores: Sequence[Store], wanted: Iterable[str]) -> dict[str, list[Path]]:
    """The uids of all that goes with these sessions, each with the agents' own logs of it."""
    doomed: dict[str, list[Path]] = {}
    for uid in wanted:
        for store in stores:
            for each, logs in store.doomed(store.session(uid)).items() if store.has(uid) else ():
                doomed.setdefault(each, []).extend(Path(log.path) for log in logs if log.kind == "file" and log.path)
    return doomed


def _holders(stores: Sequence[Store], doomed: Iterable[str]) -> list[Holder]:
    turns = set[str]().union(*(store.turn_uids(list(doomed)) for store in stores))
    return list({each.uid: each for store in stores for each in store.holders(turns)}.values())


def _remove(stores: Sequence[Store], wanted: Sequence[str]) -> list[BackstoryError]:
    """Remove sessions wherever they are; gives what was in the way. Nothing is removed where the first refuses."""
    refused: list[BackstoryError] = []
    for number, store in enumerate(stores):
        try:
            here = [store.session(uid) for uid in wanted if store.has(uid)]
            if here:
                store.remove(*here)
        except BackstoryError as error:
            if number == 0 and store.has(wanted[0]):
                raise
            refused.append(error)
    return refused


def _drop_spools(app: App, removed: set[str]) -> list[str]:
    """Remove what runs that are over left of these sessions; gives the folders of those that go on."""
    running = []
    for spool in waiting(app.home / SPOOLS):
        run = spool.run
        if run is None or run.session_uid not in removed:
            continue
        lock = SessionLock(app.home / LOCKS, run.session_uid)
        if spool.is_alive or not lock.take():
            running.append(str(spool.folder))
            continue
        spool.remove()
        lock.release()
    return running


def _clear_queue(store: Path, uids: list[str]) -> None:
    """Drop the prompts queued for sessions that are gone; they are printed, so that they can be queued elsewhere."""
    try:
        with Queue(store, output.talk) as queue:
            waiting = [text for uid in uids for text in queue.texts(uid)]
            queue.remove([text.uid for text in waiting])
            queue.erase()
    except BackstoryError as refused:
        output.talk(f"The queue: {refused}")
        return
    for text in waiting:
        output.talk(f"Dropped its queued prompt: {output.one_line(text.content, 60)}")


def _tell_what_is_left(
    holding: Sequence[Holder], doomed: dict[str, list[Path]], running: Sequence[str], unsent: Sequence[Path]
) -> None:
    """Say where the words still are: in other sessions, and in what is not ours to remove."""
    if holding:
        output.talk(f"The words are still in {_named(holding)}.")
    logs = sorted({str(path) for paths in doomed.values() for path in paths if path.exists()})
    own = [f"in {logs[0]}{f' and {len(logs) - 1} more logs' * (len(logs) > 1)}"] if logs else []
    spools = [f"in {each}, until that run ends" for each in running]
    texts = [f"in {unsent[0].parent}"] if unsent else []
    output.talk(f"Not erased, if it is there: what is {', '.join([*own, *spools, *texts, 'in backups made before'])}.")


def _shown(found: Found) -> str:
    turns = found.session.turns
    return f"{found.session.shown_name or found.session.uid[:12]!r} ({turns} turn{'s' * (turns != 1)})"


def _named(holders: Sequence[Holder]) -> str:
    return ", ".join(f"{output.clean(each.label)} ({each.uid[:12]}, {each.shared} turns)" for each in holders)
