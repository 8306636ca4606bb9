"""Sessions that other stores own: copied, kept in step, gone on from."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from backstory import errors
from backstory.lazy import lazy_module
from backstory.store import moves
from backstory.store.database import believed
from backstory.store.file import connection
from backstory.store.tables import sessions
from backstory.store.tables.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    import apsw

    from backstory.conversation.tree import Point
    from backstory.exchange import imported, merge_session, replicate
    from backstory.exchange.imported import Came
    from backstory.exchange.merge_session import MergedSession
    from backstory.exchange.replicate import Taken
    from backstory.store import Store
    from backstory.store.file import maintenance
    from backstory.store.intake import run_facts, written
    from backstory.store.intake.run_facts import LoggedRun
    from backstory.store.tables import boarding, decisions, event_rows, plan
    from backstory.store.tables.plan import Decide, Prune, Remove, Step, StoreState
else:
    boarding = lazy_module("backstory.store.tables.boarding")
    decisions = lazy_module("backstory.store.tables.decisions")
    event_rows = lazy_module("backstory.store.tables.event_rows")
    imported = lazy_module("backstory.exchange.imported")
    maintenance = lazy_module("backstory.store.file.maintenance")
    merge_session = lazy_module("backstory.exchange.merge_session")
    plan = lazy_module("backstory.store.tables.plan")
    replicate = lazy_module("backstory.exchange.replicate")
    run_facts = lazy_module("backstory.store.intake.run_facts")
    written = lazy_module("backstory.store.intake.written")


def copy_session(store: Store, source: Store, uid: str) -> None:
    """Copy a session that another store owns, as it is there now, in place of our copy of it.

    What was decided later here stays.
    """
    folders = source.moves
    store.change_from(
        source, lambda db, name: replicate.copy_session(db, name, uid, folders), look=_checks(source, uid)
    )


def continue_session(
    store: Store,
    source: Store,
    uid: str,
    holding: Point | None = None,
    *,
    worktree: str | os.PathLike[str] | None = None,
) -> Session:
    """The session here that goes on from one of ``source``; at first it is made, with copies of its turns.

    ``holding``: it has this record; where the one that is here lacks it, another is made. ``worktree``: where
    one that is made begins; None: where the other did.
    """
    begun, folders = None if worktree is None else os.fspath(worktree), source.moves

    def go_on(db: apsw.Connection, name: str) -> Session:
        known = replicate.continuation_of(db, uid, holding)
        if known is None:
            owner = str(db.execute("select value from meta where key = 'store_id'").get)
            number = sessions.next_number(db)
            new = replicate.Continuation(uid=store.new_uid(), owner=owner, number=number, worktree=begun)
            known = replicate.continue_from(db, name, uid, new, folders)
        return sessions.get(db, known)

    return store.as_shown(store.change_from(source, go_on, look=_checks(source, uid)))


def _checks(store: Store, uid: str) -> Callable[[apsw.Connection], None]:
    """The question that raises SessionDamaged unless a session holds what another store can hold.

    It is asked before a row of it is taken; of a store that nobody trusts it is also raised where a session holds
    more than an import could.
    """
    return partial(store.whole.check, uid=uid, path=store.path, is_bounded=store.is_elsewhere)


def check_rest(store: Store, *, asking: int = 0) -> None:
    """Raise StoreDamaged unless what belongs to no session of a store is as ours are made.

    ``asking``: how many sessions will be checked; where these are many, it is done here for all together.
    """
    store.ask(store.whole.check_rest, store.path, is_bounded=store.is_elsewhere, asking=asking)


def rebuild_from(store: Store, source: Store, store_id: str) -> int:
    """Make this store again, with its id, from what another one has of it; gives how many sessions came back."""
    uids = [
        uid
        for uid in source.ask_or([], sessions.owned_by, store_id)
        if not source.ask_or(False, sessions.is_forgotten, uid)
    ]
    if not uids or (store.exists and store.ask(sessions.count)):
        return 0
    folders = source.moves
    store.begin_as(store_id)

    def take_all(db: apsw.Connection, name: str) -> int:
        for uid in uids:
            replicate.copy_session(db, name, uid, folders)
        sessions.go_on_numbering(db)
        moves.write(db, folders.of_project(store_id, moves.recorded_root(db)))
        return len(uids)

    return store.change_from(source, take_all)


def replicate_session(store: Store, source: Store, uid: str, *, has_all: bool) -> None:
    """Make our copy of a session match its owner's, but for what was decided later here, which goes over there.

    ``has_all``: every event was also written here, so only labels are copied. Raises SessionDiverged.
    """
    if store.path == source.path or store.ask_or(False, sessions.is_forgotten, uid):
        return
    # A copy has no more than its owner, so what was pruned here is pruned there first.
    _perform(store, source, [step for step in _plan(store, source, [uid]) if isinstance(step, plan.Prune)])
    if has_all:
        session = source.session(uid)
        store.write(sessions.copy_labels, session)
    else:
        copy_session(store, source, uid)
    _perform(store, source, [step for step in _plan(store, source, [uid]) if isinstance(step, plan.Decide)])


def reconcile(store: Store, source: Store, uid: str) -> None:
    """Bring a session's owner and us to agree about it: its events, and the last decisions, in either store."""
    if store.path != source.path:
        _perform(store, source, [step for step in _plan(store, source, [uid]) if not isinstance(step, plan.Differ)])


def adopt_decisions(store: Store, source: Store, uid: str) -> None:
    """Take over what was decided later about a session in another store that holds it, whoever owns it."""
    here, there = _state(store, [uid]).sessions.get(uid), _state(source, [uid]).sessions.get(uid)
    if store.path != source.path and here is not None and there is not None:
        steps = plan.shared(here, there)
        _perform(store, source, [step for step in steps if step.side == plan.Side.OURS])


def merge(
    store: Store, source: Store, uid: str, *, is_trusted: bool = True, elsewhere: str | None = None, owns: bool = True
) -> MergedSession:
    """Merge a session of another store into ours, or take it; each slice is a transaction.

    ``elsewhere``: the store that it is said to come from. ``owns``: one that either store owns is ours then.
    """
    merging = merge_session.SessionMerge(uid, is_trusted=is_trusted, elsewhere=elsewhere, owns=owns)
    while store.change_from(source, merging.slice, decided=True):
        pass
    if merging.pruned:
        merging.done.turns_removed = maintenance.prune_turns(store, merging.session_id, merging.pruned)
    return merging.done


def pull_sessions(store: Store, source: Store, *, is_one_of_several: bool = False) -> int:
    """Copy the sessions that another store owns as they are there; returns how many were copied.

    What was decided later here is written there. ``is_one_of_several``: there are copies of that store which go on
    by themselves, so of a session that differs the turns of both are kept. What cannot be done is named when the
    rest is: raises SessionsNotCopied, SessionDiverged, CopiesBehind.
    """
    owner = source.id
    there, here = (len(each.ask_or([], sessions.owned_by, owner)) for each in (source, store))
    check_rest(source, asking=there - here)
    pulled = _Pulled()
    for step in _plan(store, source):
        if pulled.may_try(step):
            try:
                if is_one_of_several and isinstance(step, plan.Differ):
                    source.ask(_checks(source, step.uid))
                    pulled.copied += merge(store, source, step.uid, owns=False).has_changed
                    continue
                _perform(store, source, [step])
                pulled.copied += isinstance(step, plan.CopySession)
            except Exception as refused:
                pulled.refuse(step, refused)
    _adopt_moves(store, source)
    boarding.take(store, boarding.copies(source))
    pulled.raise_trouble(source.path)
    return pulled.copied


def _adopt_moves(store: Store, source: Store) -> None:
    """Note how the paths are to be read that the sessions of a project's store touched."""
    owner = source.id
    theirs = [msgspec.structs.replace(each, owner=owner) for each in source.moves]
    if store.exists and any(each not in store.moves for each in theirs):
        store.change_moves(lambda mine: [*(each for each in mine if each.owner != owner), *theirs])


def _plan(store: Store, source: Store, uids: Sequence[str] | None = None) -> list[Step]:
    _tell_originals(store, source)
    theirs = _state(source, uids)
    known = {*theirs.sessions, *store.ask_or([], sessions.owned_by, theirs.store_id)} if uids is None else uids
    return plan.plan(_state(store, known), theirs)


def _tell_originals(store: Store, source: Store) -> None:
    """Tell another store which of its turns are copies of turns that are known here by other uids."""
    nothing: dict[str, str] = {}
    read = source.ask_or(nothing, written.unknown)
    known = store.ask_or(nothing, written.uids_of, read) if read else nothing
    renamed = {uid: known[native_id] for native_id, uid in read.items() if known.get(native_id, uid) != uid}
    if not renamed:
        return
    # A store that cannot be written now is told the next time.
    with suppress(errors.BackstoryError):
        source.change(written.rename_all, renamed)


def _state(store: Store, uids: Collection[str] | None) -> StoreState:
    nothing = plan.StoreState(store_id="", sessions={}, removed={})
    found, now = store.ask_or(nothing, decisions.store_state, uids), store.now()
    # Another clock may be wrong, and what is used from now on is not removed by what was decided before.
    return msgspec.structs.replace(found, removed={each: min(at, now) for each, at in found.removed.items()})


def _perform(store: Store, source: Store, steps: Sequence[Step]) -> None:
    """Perform the steps of a plan; each is a transaction."""
    for step in steps:
        match step:
            case plan.CopySession():
                copy_session(store, source, step.uid)
            case plan.Differ():
                raise errors.SessionDiverged(step.uid)
            case _:
                _change_as(store if step.side == plan.Side.OURS else source, step)


def _change_as(store: Store, step: Remove | Prune | Decide) -> None:
    """Perform a step that changes this store alone."""
    from backstory.store.tables.queue import Queue

    match step:
        case plan.Remove():
            session = store.session(step.uid)
            with Queue(store.path) as queue:
                queue.drop(list(store.ask(maintenance.doomed, session.id)))
            store.remove(session)
        case plan.Prune():
            maintenance.prune_turns(store, store.session(step.uid).id, step.turns)
        case plan.Decide():
            store.decide(decisions.write_step, step)


def take_elsewhere(store: Store, source: Store, uid: str, origin: Taken) -> bool:
    """Copy a session that is not here out of a store from elsewhere; not one with a turn known from another place.

    Raises StoreDamaged for one that is not as ours are made.
    """
    if not connection.is_uid(uid):
        raise errors.StoreDamaged(source.path, "a session has no uid")

    def take(db: apsw.Connection, name: str) -> bool:
        with believed(source.path):
            if replicate.shared_turn(db, name, uid, origin.elsewhere):
                return False
            replicate.take_elsewhere(db, name, uid, origin)
        return True

    return store.change_from(source, take, look=_checks(source, uid))


def take_imported(
    store: Store, source: Store, uids: Sequence[str], path: Path, *, trusted: bool, followed: Collection[str] = (),
    anew: Collection[str] = (),
) -> list[Came | Exception]:  # fmt: skip
    """Take over the next sessions of an import out of the store that it was put into; ``path``: the file it came in.

    ``followed``: those that came from there before; ``anew``: those whose place took back what came before.

    As many as have some thousand events, in one transaction, and at least one; of each how it came, or why it could
    not be taken over, as SessionNotStorable.
    """

    def take(db: apsw.Connection, name: str) -> list[Came | Exception]:
        done: list[Came | Exception] = []
        texts = event_rows.ReadyTexts(f"{name}.{imported.TEXTS}")
        for uid in uids:
            waiting = len(texts.events)
            try:
                with connection.alone(db, store.path):
                    done.append(take_one(db, name, uid, texts))
            except Exception as refused:
                if isinstance(refused, errors.StoreBusy) or not errors.is_for_one_only(refused):
                    raise
                del texts.events[waiting:]
                done.append(refused)
            if texts.count >= imported.ROWS_AT_ONCE:
                break
        texts.index(db)
        return done

    def take_one(db: apsw.Connection, name: str, uid: str, texts: event_rows.ReadyTexts) -> Came:
        try:
            with believed(path):
                return imported.take(
                    db, name, uid, path, texts, trusted=trusted, now=store.now(), is_followed=uid in followed,
                    is_anew=uid in anew,
                )  # fmt: skip
        except errors.StoreDamaged as refused:
            raise errors.SessionNotStorable(uid, str(refused.__cause__ or refused)) from refused

    return store.change_from(source, take)


@contextmanager
def beside(store: Store, source: Store) -> Iterator[None]:
    """Have a store at hand that much is taken from; else it is opened each time."""
    source.ask(sessions.count)
    with connection.attached(store.writer(), store.path, source.path):
        yield


def index_compact(store: Store, uid: str) -> None:
    """Have what is stored of an imported session found that could not be derived."""
    store.change(replicate.index_compact, uid)


def take_removals(store: Store, removed: Sequence[tuple[str, int]]) -> int:
    """Remove the sessions that were removed where an import was made; returns how many were here.

    ``removed``: their uids, each with the time in ms.
    """
    from backstory.store.tables.queue import Queue

    now = store.now()
    until_now = [(uid, min(at, now)) for uid, at in removed]
    store.begin()
    going = [store.session(each) for each in store.decide(imported.take_removals, until_now)]
    if going:
        with Queue(store.path) as queue:
            for each in going:
                queue.drop(list(store.ask(maintenance.doomed, each.id)))
        store.remove(*going)
    return len(going)


def take_logged(store: Store, source: Store, runs: Sequence[LoggedRun]) -> None:
    """Take what another store knows of runs of this one from the agents' own logs of them."""
    lacking = store.ask(run_facts.lacking, runs)
    if lacking:
        found = {each.turn_uid: source.ask(run_facts.sidecar_of, each.turn_uid) for each in lacking}
        contents = {uid: sidecar for uid, sidecar in found.items() if sidecar is not None}
        store.change(run_facts.take_over, lacking, contents)


def was_given(store: Store, store_id: str, runs: Sequence[LoggedRun]) -> bool:
    """Return True if ``note_given`` recorded this for these runs last."""
    return not runs or run_facts.digest(runs) == store.ask(run_facts.given, store_id)


def note_given(store: Store, store_id: str, runs: Sequence[LoggedRun]) -> None:
    """Note that a project's store was given what is known of its runs."""
    if not was_given(store, store_id, runs):
        store.change(run_facts.note_given, store_id, runs)


class _Pulled:
    """The outcome of a plan's steps: a store that cannot be written is not tried again at each."""

    def __init__(self) -> None:
        self.copied = 0
        self._differing = list[str]()
        self._failed, self._behind = dict[str, str](), dict[str, str]()

    def may_try(self, step: Step) -> bool:
        """Return True if a step can be performed after those before it."""
        is_there = isinstance(step, plan.Remove | plan.Prune | plan.Decide) and step.side == plan.Side.THEIRS
        if is_there and self._behind:
            self._behind.setdefault(step.uid, next(iter(self._behind.values())))
        return step.uid not in self._failed and step.uid not in self._behind

    def refuse(self, step: Step, refused: Exception) -> None:
        """Note what a step raised; raises what keeps our store from being written."""
        if isinstance(refused, errors.SessionDiverged):
            self._differing.append(step.uid)
        elif isinstance(step, plan.Remove | plan.Prune | plan.Decide) and step.side == plan.Side.THEIRS:
            self._behind[step.uid] = errors.short_reason(refused)
        elif errors.is_for_one_only(refused):
            self._failed[step.uid] = errors.in_words(refused)
        else:
            raise refused

    def raise_trouble(self, path: Path) -> None:
        """Raise what could not be done, if anything."""
        if self._failed:
            differing = dict.fromkeys(self._differing, "it has other turns here")
            raise errors.SessionsNotCopied(path, self._failed | differing)
        if self._differing:
            raise errors.SessionDiverged(", ".join(self._differing))
        if self._behind:
            raise errors.CopiesBehind(path, len(self._behind), next(iter(self._behind.values())))
