"""Sessions that other stores own: copied, kept in step, gone on from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from backstory import errors, ids
from backstory.store import (
    branches,
    copies,
    foreign,
    replicate,
    run_facts,
    sessions,
)
from backstory.store.branching import Branching
from backstory.store.copies import Holder
from backstory.store.database import believed
from backstory.store.replicate import Taken
from backstory.store.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import apsw

    from backstory.conversation.tree import Point
    from backstory.store.reading import Reading
    from backstory.store.run_facts import LoggedRun


class Replication(Branching):
    """The methods of a store that copy sessions between stores."""

    def take_session(self, source: Reading, uid: str) -> None:
        """Copy a session that another store owns, as it is there now, in place of what is kept of it here."""
        self._write_from(source, lambda db, name: replicate.take(db, name, uid))

    def continue_session(
        self,
        source: Reading,
        uid: str,
        holding: Point | None = None,
        *,
        worktree: str | os.PathLike[str] | None = None,
    ) -> Session:
        """The session here that goes on from one of ``source``; at first it is made, with copies of its turns.

        ``holding``: it has this record; where the one that is here lacks it, another is made. ``worktree``: where
        one that is made begins; None: where the other did.
        """
        begun = None if worktree is None else os.fspath(worktree)

        def go_on(db: apsw.Connection, name: str) -> Session:
            known = replicate.continuation_of(db, uid, holding)
            if known is None:
                owner = str(db.execute("select value from meta where key = 'store_id'").get)
                number = sessions.next_number(db)
                new = replicate.Continuation(uid=self._new_uid(), owner=owner, number=number, worktree=begun)
                known = replicate.continue_from(db, name, uid, new)
            return sessions.get(db, known)

        return self._write_from(source, go_on)

    def rebuild_from(self, source: Reading, store_id: str) -> int:
        """Make this store again, with its id, from what another one has of it; gives how many sessions came back."""
        uids = [uid for uid in source.owned_by(store_id) if not source.is_forgotten(uid)]
        if not uids or (self.exists and self.session_count()):
            return 0
        self._id_to_take = store_id

        def take_all(db: apsw.Connection, name: str) -> int:
            for uid in uids:
                replicate.take(db, name, uid)
            sessions.go_on_numbering(db)
            return len(uids)

        return self._write_from(source, take_all)

    def hand_over(self, source: Reading, uid: str, *, has_all: bool) -> None:
        """Have a session as another store has it: ``has_all`` says that all it holds was written here too."""
        if self.path == source.path or self.is_forgotten(uid):
            return
        if has_all:
            session = source.session(uid)
            self._write(lambda db: sessions.call_alike(db, session))
            self.take_branches(source, uid)
        else:
            self.take_session(source, uid)

    def catch_up(self, source: Reading) -> int:
        """Have the sessions that another store owns as they are there; gives how many were copied.

        Those that cannot be copied are named when the others are: raises SessionsNotCopied, SessionDiverged.
        """
        here: dict[str, tuple[object, ...]] = self._read_if_begun(lambda db: sessions.states(db, source.id), {})
        copied = 0
        differing, failed = list[str](), dict[str, str]()
        for uid, state in source._read(lambda db: sessions.states(db, source.id)).items():
            if here.get(uid) == state or self.is_forgotten(uid):
                continue
            try:
                self.take_session(source, uid)
                copied += 1
            except errors.SessionDiverged:
                differing.append(uid)
            except Exception as refused:
                if not errors.is_for_one_only(refused):
                    raise
                failed[uid] = errors.in_words(refused)
        if failed:
            raise errors.SessionsNotCopied(source.path, failed | dict.fromkeys(differing, "it has other turns here"))
        if differing:
            raise errors.SessionDiverged(", ".join(differing))
        return copied

    def origins(self, uids: Sequence[str]) -> dict[str, str | None]:
        """Of those sessions that are known here, by identity, the store from elsewhere that each was taken from.

        None for those that are this store's own, also when they were removed since.
        """
        identities = [ids.session_identity(uid) for uid in uids]
        return self._read_if_begun(lambda db: sessions.origins(db, identities), {})

    def mark_elsewhere(self, uids: Sequence[str], elsewhere: str) -> None:
        """Say of sessions, as far as they are here, which store from elsewhere they came with."""
        self._change(lambda db: sessions.mark_elsewhere(db, uids, elsewhere))

    def take_elsewhere(self, source: Reading, uid: str, told: Taken) -> bool:
        """Copy a session that is not here out of a store from elsewhere; not one with a turn known from another place.

        Raises StoreDamaged for one that is not as ours are made.
        """
        if not foreign.is_uid(uid):
            raise errors.StoreDamaged(source.path, "a session has no uid")

        def take(db: apsw.Connection, name: str) -> bool:
            with believed(source.path):
                if replicate.shared_turn(db, name, uid, told.elsewhere):
                    return False
                session_id = replicate.take_elsewhere(db, name, uid, told)
                foreign.check_session(db, session_id, source.path)
            return True

        return self._write_from(source, take)

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
        """Whether ``note_given`` was told this of these runs last."""
        return not runs or run_facts.digest(runs) == self._read(lambda db: run_facts.given(db, store_id))

    def note_given(self, store_id: str, runs: Sequence[LoggedRun]) -> None:
        """Note that a project's store was given what is known of its runs."""
        if not self.was_given(store_id, runs):
            self._change(lambda db: run_facts.note_given(db, store_id, runs))

    def holders(self, turn_uids: Collection[str]) -> list[Holder]:
        """The sessions here that have any of these turns."""
        return self._read_if_begun(lambda db: copies.holders(db, turn_uids), list[Holder]())

    def unforget(self) -> int:
        """Let removed sessions be read again; gives how many there were."""
        return self._write(sessions.unforget, decided=True)

    def take_branches(self, source: Reading, uid: str) -> None:
        """Have a session's names, removals and leaf as another store has them."""
        if source.path == self.path or not self.has(uid):
            return
        theirs = source._read(lambda db: branches.state(db, uid))
        if self._read(lambda db: branches.state(db, uid)) != theirs:
            self._write_from(source, lambda db, name: branches.copy_of(db, name, uid), decided=True)
