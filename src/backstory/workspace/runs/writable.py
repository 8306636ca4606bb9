"""A session that this project may add to, its own or one that continues another; and a store that a person trusts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.conversation.tree import get_ancestry
from backstory.errors import BackstoryError, NotTrusted, StoreIsMachines
from backstory.exchange import replication
from backstory.ids import session_identity
from backstory.projects import git
from backstory.projects.registry import Verdict
from backstory.runs import stopping
from backstory.store import Workplace, open_store
from backstory.store.tables import sessions as stored_sessions
from backstory.store.tables.queue import Queue
from backstory.workspace.runs.running import store_of_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backstory.conversation.tree import Point
    from backstory.store import Session, Store
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.place import Place


class Lacking(Struct, frozen=True):
    """The records of a session since another one continued it."""

    turns: int
    seq: int
    """The record that the session stands at now."""


class WritableSession(Struct, frozen=True, kw_only=True):
    """A session of this project's own store, and what was done to have it."""

    session: Session
    restored: int = 0
    """Sessions of the project that were copied back, because its store was gone."""
    held: int = 0
    """Prompts that were queued where the store is about to be made: they wait until a person releases them."""
    continues: str | None = None
    """The uid of the session that this one continues; None where it is that session itself."""
    lacking: Lacking | None = None

    def sentences(self, store: Path) -> Iterator[str]:
        """The remarks on how it came to be. ``store``: the project's."""
        number = self.session.shown_number
        if self.restored:
            yield restored_sentence(store, self.restored)
        yield from held_sentences(store, self.held)
        if self.continues is not None:
            uid = self.continues[:12]
            yield f"{number} continues {uid}, with copies of its turns."
            if self.lacking is not None:
                count = f"{self.lacking.turns} turn{'s' * (self.lacking.turns != 1)}"
                yield (
                    f"{number} lacks {count} that came to {uid} since. To continue from there: "
                    f"backstory run -S {uid} @{self.lacking.seq} PROMPT"
                )


def ensure_writable_session(place: Place, located: LocatedSession, holding: Point | None = None) -> WritableSession:
    """The session of this project that continues the one given: itself where that is the project's own.

    ``holding``: it has this record.
    """
    store, known = place.project_store, place.known_projects
    restored = known.restore_store(store)
    if is_own(store, located.session.uid):
        return WritableSession(session=store.session(located.session.uid), restored=restored)
    held = prepare_store(place)
    session = replication.continue_session(store, located.store, located.session.uid, holding, worktree=place.worktree)
    known.remember(store)
    store.change(stored_sessions.place, session.id, workplace(place))
    return WritableSession(
        session=store.session(session.id),
        restored=restored,
        held=held,
        continues=located.session.uid,
        lacking=_lacking(located, store, session) if holding is None else None,
    )


def restored_sentence(store: Path, sessions: int) -> str:
    """Say that a store was gone, and the number of sessions brought back."""
    brought = "its session was" if sessions == 1 else f"its {sessions:,} sessions were"
    return f"{store} was gone; {brought} brought back."


def held_sentences(store: Path, held: int) -> Iterator[str]:
    """Say that prompts were queued in the place of a new store, if any were."""
    if held:
        yield f"{held} queued in {store.parent} wait until you release them: backstory queue list"


def is_own(store: Store, uid: str) -> bool:
    """Return True if a store may add to a session: it owns it, and does not only keep a copy from another one."""
    return store.exists and store.ask_or(None, stored_sessions.owner, uid) == store.id


def _lacking(located: LocatedSession, store: Store, session: Session) -> Lacking | None:
    leaf = located.store.leaf(located.session)
    if leaf is None:
        return None
    there = {turn.uid for turn in store.turns(session)}
    ancestry = get_ancestry(located.store.tree(located.session), leaf.uid)
    count = sum(turn.uid not in there for turn in ancestry)
    return Lacking(count, leaf.seq) if count else None


def workplace(place: Place, native_id: str | None = None) -> Workplace:
    """Return the workplace of a session that acts from here; ``native_id``: of the run that it is begun for."""
    folder = str(place.folder)
    return Workplace(
        project=place.project_key,
        branch=git.current_branch(place.worktree),
        cwd=folder,
        root=git.worktree_root(folder),
        native_id=native_id,
    )


def prepare_store(place: Place) -> int:
    """Note the project's store as ours, if it is about to be made, and have git ignore it.

    Returns how many prompts were queued there before, which are held.
    """
    store, held = place.project_store, 0
    if not store.exists and not place.known_projects.is_noted(store.path):
        # Nobody here queued what is there already.
        held = hold_queue(store)
    place.known_projects.begin(store)
    if not place.named:
        git.keep_out_of_git(place.project_folder, store.path.parent.name)
    return held


def hold_queue(store: Store) -> int:
    """Hold each prompt in a store's queue until it is released; returns their number."""
    with Queue(store.path) as queue:
        return queue.hold_all()


def store_of(place: Place, located: LocatedSession) -> Store:
    """The store that a session is run in: a project's, where it runs now or its own, else where it was found."""
    for spool in stopping.running(place.home, located.session.uid):
        run = spool.run
        path = None if run is None else store_of_run(run, place.project_store.path)
        if path is not None and path != located.store.path:
            return open_store(path, now=place.now)
    is_machines = located.store.path == place.machine_store.path and not place.named
    if located.session.number is not None and is_machines:
        owning = place.runner.projects.store_owning(located.session.uid)
        return owning if owning is not None else located.store
    return located.store


# a store from elsewhere -----------------------------------------------------------------------------------------------


def ensure_ours(place: Place, is_trusted: Callable[[Store], bool], report: Callable[[str], None]) -> None:
    """Check that the project's store may be changed; one from elsewhere becomes ours if ``is_trusted`` agrees.

    The path of one of ours is noted. ``report`` receives remarks. Raises NotTrusted, StoreIsMachines, and what reading
    the store raises.
    """
    store, verdict = place.project_store, place.verdict()
    if verdict == Verdict.MACHINE:
        raise StoreIsMachines(store.path)
    if verdict == Verdict.ELSEWHERE:
        if not is_trusted(store):
            raise NotTrusted(store.path)
        _trust(place, store, report)
    elif verdict == Verdict.OURS:
        place.believe(store)
        if store.path != place.machine_store.path:
            place.known_projects.remember(store)


def _trust(place: Place, store: Store, report: Callable[[str], None]) -> None:
    """Make a store from elsewhere one of ours. Its queued prompts wait until a person releases them."""
    held, dropped = hold_queue(store), list[str]()
    if store.exists:
        dropped = store.disarm()
        store.close()
        place.believe(store)
        place.known_projects.remember(store)
    else:
        place.known_projects.begin(store)
        place.believe(store)
    report(f"{store.path} is trusted from now on.")
    if dropped:
        report(f"Removed from it, because it would run by itself: {', '.join(dropped)}.")
    if held:
        wait, them = ("prompt in its queue waits", "it") if held == 1 else ("prompts in its queue wait", "them")
        report(f"{held} {wait} until you release {them}: backstory queue list")
    _pull_into_home(place, store, report)


def _pull_into_home(place: Place, store: Store, report: Callable[[str], None]) -> None:
    """Copy the sessions of a newly trusted store into the home store, marked as from elsewhere."""
    from backstory.workspace.stores.up_to_date import HOME_OFF

    home = place.machine_store
    if not place.config.settings.store.is_enabled:
        report(HOME_OFF)
        return
    try:
        uids = store.uids() if store.exists else []
        known = home.ask_or({}, stored_sessions.origins, uids)
        if not uids:
            return
        try:
            replication.pull_sessions(home, store, is_one_of_several=place.known_projects.has_copies(store.id))
        finally:
            new = [uid for uid in uids if session_identity(uid) not in known]
            home.change(stored_sessions.mark_elsewhere, new, str(store.path))
    except BackstoryError as refused:
        report(f"The home store does not have all of its sessions: {refused}")
