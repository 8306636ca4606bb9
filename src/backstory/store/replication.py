"""Sessions that other stores own: copied, kept in step, gone on from."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from backstory import errors, ids
from backstory.lazy_module import lazy_module
from backstory.store import foreign, moves, sessions
from backstory.store.boarding import Boarding
from backstory.store.database import believed
from backstory.store.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    import apsw

    from backstory.conversation.tree import Point
    from backstory.store import copies, decisions, imported, merge_session, plan, replicate, run_facts, values, written
    from backstory.store.copies import Holder
    from backstory.store.imported import Came
    from backstory.store.merge_session import MergedSession
    from backstory.store.plan import Decide, Prune, Remove, Step, StoreState
    from backstory.store.reading import Reading
    from backstory.store.replicate import Taken
    from backstory.store.run_facts import LoggedRun
else:
    copies = lazy_module("backstory.store.copies")
    decisions = lazy_module("backstory.store.decisions")
    imported = lazy_module("backstory.store.imported")
    merge_session = lazy_module("backstory.store.merge_session")
    plan = lazy_module("backstory.store.plan")
    replicate = lazy_module("backstory.store.replicate")
    run_facts = lazy_module("backstory.store.run_facts")
    values = lazy_module("backstory.store.values")
    written = lazy_module("backstory.store.written")

ASKED_OF_MAX = 5
"""When so many sessions of a store were checked, the next ones are checked together."""


class Replication(Boarding):
    """The methods of a store that copy sessions between stores."""

    _asked_of = 0
    _whole_at: int | None = None
    """The version of the file, see SQLite's data_version, in which every session was whole."""

    def copy_session(self, source: Replication, uid: str) -> None:
        """Copy a session that another store owns, as it is there now, in place of our copy of it.

        What was decided later here stays.
        """
        folders = source.moves
        source._check_session(uid)
        self._write_from(source, lambda db, name: replicate.copy_session(db, name, uid, folders))

    def continue_session(
        self,
        source: Replication,
        uid: str,
        holding: Point | None = None,
        *,
        worktree: str | os.PathLike[str] | None = None,
    ) -> Session:
        """The session here that goes on from one of ``source``; at first it is made, with copies of its turns.

        ``holding``: it has this record; where the one that is here lacks it, another is made. ``worktree``: where
        one that is made begins; None: where the other did.
        """
        source._check_session(uid)
        begun, folders = None if worktree is None else os.fspath(worktree), source.moves

        def go_on(db: apsw.Connection, name: str) -> Session:
            known = replicate.continuation_of(db, uid, holding)
            if known is None:
                owner = str(db.execute("select value from meta where key = 'store_id'").get)
                number = sessions.next_number(db)
                new = replicate.Continuation(uid=self._new_uid(), owner=owner, number=number, worktree=begun)
                known = replicate.continue_from(db, name, uid, new, folders)
            return sessions.get(db, known)

        return self._as_shown(self._write_from(source, go_on))

    def _check_session(self, uid: str) -> None:
        """Raise SessionDamaged unless a session holds what another store can hold: asked before a row of it is taken.

        Of a store that nobody trusts, also where it holds more than an import could.
        """

        def check(db: apsw.Connection) -> None:
            session_id: int | None = db.execute("select id from sessions where uid = ?", (uid,)).get
            if session_id is not None and not self._are_all_whole(db):
                foreign.check_session(db, session_id, self.path, is_bounded=self.is_elsewhere)

        self._read(check)

    def _are_all_whole(self, db: apsw.Connection) -> bool:
        """Whether every session is known to be whole, which is found out when several were asked of."""
        self._asked_of += 1
        if self._asked_of == ASKED_OF_MAX and values.are_whole(db, is_bounded=self.is_elsewhere):
            self._whole_at = db.data_version()
        return self._whole_at == db.data_version()

    def check_rest(self) -> None:
        """Raise StoreDamaged unless what belongs to no session is as ours are made."""
        self._read(lambda db: foreign.check_rest(db, self.path, is_bounded=self.is_elsewhere))

    def rebuild_from(self, source: Reading, store_id: str) -> int:
        """Make this store again, with its id, from what another one has of it; gives how many sessions came back."""
        uids = [uid for uid in source.owned_by(store_id) if not source.is_forgotten(uid)]
        if not uids or (self.exists and self.session_count()):
            return 0
        self._id_to_take, folders = store_id, source.moves

        def take_all(db: apsw.Connection, name: str) -> int:
            for uid in uids:
                replicate.copy_session(db, name, uid, folders)
            sessions.go_on_numbering(db)
            moves.write(db, folders.of_project(store_id, moves.recorded_root(db)))
            return len(uids)

        return self._write_from(source, take_all)

    def replicate_session(self, source: Replication, uid: str, *, has_all: bool) -> None:
        """Make our copy of a session match its owner's, but for what was decided later here, which goes over there.

        ``has_all``: every event was also written here, so only labels are copied. Raises SessionDiverged.
        """
        if self.path == source.path or self.is_forgotten(uid):
            return
        # A copy has no more than its owner, so what was pruned here is pruned there first.
        self._perform(source, [step for step in self._plan(source, [uid]) if isinstance(step, plan.Prune)])
        if has_all:
            session = source.session(uid)
            self._write(lambda db: sessions.copy_labels(db, session))
        else:
            self.copy_session(source, uid)
        self._perform(source, [step for step in self._plan(source, [uid]) if isinstance(step, plan.Decide)])

    def reconcile(self, source: Replication, uid: str) -> None:
        """Have a session's owner and us agree about it: its events, and what was decided last, in either store."""
        if self.path != source.path:
            self._perform(source, [step for step in self._plan(source, [uid]) if not isinstance(step, plan.Differ)])

    def adopt_decisions(self, source: Replication, uid: str) -> None:
        """Take over what was decided later about a session in another store that holds it, whoever owns it."""
        here, there = self._state([uid]).sessions.get(uid), source._state([uid]).sessions.get(uid)
        if self.path != source.path and here is not None and there is not None:
            steps = plan.shared(here, there)
            self._perform(source, [step for step in steps if step.side == plan.Side.OURS])

    def merge_session(
        self, source: Reading, uid: str, *, is_trusted: bool = True, elsewhere: str | None = None, owns: bool = True
    ) -> MergedSession:
        """Merge a session of another store into ours, or take it; each slice is a transaction.

        ``elsewhere``: the store that it is said to come from. ``owns``: one that either store owns is ours then.
        """
        merge = merge_session.SessionMerge(uid, is_trusted=is_trusted, elsewhere=elsewhere, owns=owns)
        while self._write_from(source, merge.slice, decided=True):
            pass
        if merge.pruned:
            merge.done.turns_removed = self.prune_turns(merge.session_id, only=merge.pruned)
        return merge.done

    def pull_sessions(self, source: Replication, *, is_one_of_several: bool = False) -> int:
        """Have the sessions that another store owns as they are there; returns how many were copied.

        What was decided later here is written there. ``is_one_of_several``: there are copies of that store which go on
        by themselves, so of a session that differs the turns of both are kept. What cannot be done is named when the
        rest is: raises SessionsNotCopied, SessionDiverged, CopiesBehind.
        """
        source.check_rest()
        pulled = _Pulled()
        for step in self._plan(source):
            if pulled.may_try(step):
                try:
                    if is_one_of_several and isinstance(step, plan.Differ):
                        source._check_session(step.uid)
                        pulled.copied += self.merge_session(source, step.uid, owns=False).has_changed
                        continue
                    self._perform(source, [step])
                    pulled.copied += isinstance(step, plan.Copy)
                except Exception as refused:
                    pulled.refuse(step, refused)
        self._adopt_moves(source)
        self.take_board_items(source.board_copies())
        pulled.raise_trouble(source.path)
        return pulled.copied

    def _adopt_moves(self, source: Replication) -> None:
        """Note how the paths are to be read that the sessions of a project's store touched."""
        owner = source.id
        theirs = [msgspec.structs.replace(each, owner=owner) for each in source.moves]
        if self.exists and any(each not in self.moves for each in theirs):
            self.change_moves(lambda mine: [*(each for each in mine if each.owner != owner), *theirs])

    def _plan(self, source: Replication, uids: Sequence[str] | None = None) -> list[Step]:
        self._tell_originals(source)
        theirs = source._state(uids)
        known = {*theirs.sessions, *self.owned_by(theirs.store_id)} if uids is None else uids
        return plan.plan(self._state(known), theirs)

    def _tell_originals(self, source: Replication) -> None:
        """Have another store know which of its turns are copies of turns that are known here by other uids."""
        nothing: dict[str, str] = {}
        read = source._read_if_begun(written.unknown, nothing)
        known = self._read_if_begun(lambda db: written.uids_of(db, read), nothing) if read else nothing
        renamed = {uid: known[native_id] for native_id, uid in read.items() if known.get(native_id, uid) != uid}
        if not renamed:
            return
        # A store that cannot be written now is told the next time.
        with suppress(errors.BackstoryError):
            source._change(lambda db: written.rename_all(db, renamed))

    def _state(self, uids: Collection[str] | None) -> StoreState:
        nothing = plan.StoreState(store_id="", sessions={}, removed={})
        found, now = self._read_if_begun(lambda db: decisions.store_state(db, uids), nothing), self._now()
        # Another clock may be wrong, and what is used from now on is not removed by what was decided before.
        return msgspec.structs.replace(found, removed={each: min(at, now) for each, at in found.removed.items()})

    def _perform(self, source: Replication, steps: Sequence[Step]) -> None:
        """Perform the steps of a plan; each is a transaction."""
        for step in steps:
            match step:
                case plan.Copy():
                    self.copy_session(source, step.uid)
                case plan.Differ():
                    raise errors.SessionDiverged(step.uid)
                case _:
                    (self if step.side == plan.Side.OURS else source)._change_as(step)

    def _change_as(self, step: Remove | Prune | Decide) -> None:
        """Perform a step that changes this store alone."""
        from backstory.store.queue import Queue

        match step:
            case plan.Remove():
                session = self.session(step.uid)
                with Queue(self.path) as queue:
                    queue.drop(list(self.doomed(session)))
                self.remove(session)
            case plan.Prune():
                self.prune_turns(self.session(step.uid), only=step.turns)
            case plan.Decide():
                self._change(lambda db: decisions.write_step(db, step), decided=True)

    def origins(self, uids: Sequence[str]) -> dict[str, str | None]:
        """Of those sessions that are known here, by identity, the store from elsewhere that each was taken from.

        None for those that are this store's own, also when they were removed since.
        """
        identities = [ids.session_identity(uid) for uid in uids]
        return self._read_if_begun(lambda db: sessions.origins(db, identities), {})

    def mark_elsewhere(self, uids: Sequence[str], elsewhere: str) -> None:
        """Say of sessions, as far as they are here, which store from elsewhere they came with."""
        self._change(lambda db: sessions.mark_elsewhere(db, uids, elsewhere))

    def take_elsewhere(self, source: Replication, uid: str, origin: Taken) -> bool:
        """Copy a session that is not here out of a store from elsewhere; not one with a turn known from another place.

        Raises StoreDamaged for one that is not as ours are made.
        """
        if not foreign.is_uid(uid):
            raise errors.StoreDamaged(source.path, "a session has no uid")
        source._check_session(uid)

        def take(db: apsw.Connection, name: str) -> bool:
            with believed(source.path):
                if replicate.shared_turn(db, name, uid, origin.elsewhere):
                    return False
                replicate.take_elsewhere(db, name, uid, origin)
            return True

        return self._write_from(source, take)

    def take_imported(self, source: Reading, uid: str, path: Path, *, trusted: bool) -> Came:
        """Take over a session of an import out of the store that it was put into; ``path``: the file it came in.

        Raises SessionNotStorable.
        """

        def take(db: apsw.Connection, name: str) -> Came:
            try:
                with believed(path):
                    return imported.take(db, name, uid, path, trusted=trusted, now=self._now())
            except errors.StoreDamaged as refused:
                raise errors.SessionNotStorable(uid, str(refused.__cause__ or refused)) from refused

        return self._write_from(source, take)

    def take_removals(self, removed: Sequence[tuple[str, int]]) -> int:
        """Have sessions be removed that were removed where an import was made; gives how many were here.

        ``removed``: their uids, each with the time in ms.
        """
        from backstory.store.queue import Queue

        now = self._now()
        until_now = [(uid, min(at, now)) for uid, at in removed]
        going = [
            self.session(each) for each in self._write(lambda db: imported.take_removals(db, until_now), decided=True)
        ]
        if going:
            with Queue(self.path) as queue:
                for each in going:
                    queue.drop(list(self.doomed(each)))
            self.remove(*going)
        return len(going)

    def logged_runs(self, store_id: str) -> list[LoggedRun]:
        """What is known of runs in sessions of another store since the agents' own logs of them were read."""
        nothing: list[LoggedRun] = []
        return self._read_if_begun(lambda db: run_facts.of_owner(db, store_id), nothing)

    def take_logged(self, source: Reading, runs: Sequence[LoggedRun]) -> None:
        """Take what another store knows of runs of this one from the agents' own logs of them."""
        lacking = self._read(lambda db: run_facts.lacking(db, runs))
        if lacking:
            found = {each.turn_uid: source.run_facts_of(each.turn_uid) for each in lacking}
            contents = {uid: sidecar for uid, sidecar in found.items() if sidecar is not None}
            self._change(lambda db: run_facts.take_over(db, lacking, contents))

    def was_given(self, store_id: str, runs: Sequence[LoggedRun]) -> bool:
        """Whether ``note_given`` recorded this for these runs last."""
        return not runs or run_facts.digest(runs) == self._read(lambda db: run_facts.given(db, store_id))

    def note_given(self, store_id: str, runs: Sequence[LoggedRun]) -> None:
        """Note that a project's store was given what is known of its runs."""
        if not self.was_given(store_id, runs):
            self._change(lambda db: run_facts.note_given(db, store_id, runs))

    def holders(self, turn_uids: Collection[str]) -> list[Holder]:
        """The sessions here that have any of these turns."""
        return self._read_if_begun(lambda db: copies.holders(db, turn_uids), [])

    def unforget(self) -> int:
        """Let removed sessions be read again; gives how many there were."""
        return self._write(sessions.unforget, decided=True)


class _Pulled:
    """What came of the steps of a plan: a store that cannot be written is not tried again at each."""

    def __init__(self) -> None:
        self.copied = 0
        self._differing = list[str]()
        self._failed, self._behind = dict[str, str](), dict[str, str]()

    def may_try(self, step: Step) -> bool:
        """Whether a step can be performed after those before it."""
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
