"""A session as a tree: which record the next prompt follows, names of branches, branches that are removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from backstory import errors
from backstory.lazy_module import lazy_module
from backstory.store import branches, sessions
from backstory.store.database import id_of
from backstory.store.maintenance import Maintenance
from backstory.store.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import apsw

    from backstory.conversation.tree import Point
    from backstory.store import append, compactions, decisions, derived_tables, erasing, own_log, plan, rederiving
    from backstory.store.branches import Named, TreePosition, TreeTurn
    from backstory.store.compactions import Compaction, NewCompaction
else:
    append = lazy_module("backstory.store.append")
    compactions = lazy_module("backstory.store.compactions")
    decisions = lazy_module("backstory.store.decisions")
    derived_tables = lazy_module("backstory.store.derived_tables")
    erasing = lazy_module("backstory.store.erasing")
    own_log = lazy_module("backstory.store.own_log")
    plan = lazy_module("backstory.store.plan")
    rederiving = lazy_module("backstory.store.rederiving")

T = TypeVar("T")


class Branching(Maintenance):
    """The methods of a store about a session's tree."""

    def tree(self, session: Session | int, *, removed: bool = False, pruned: bool = False) -> list[TreeTurn]:
        """A session's turns as a tree shows them, in the order of their prompts; removed ones only when asked for.

        ``pruned``: also what is left of those that were pruned since, which is where they were.
        """
        return self._read(lambda db: branches.of_session(db, id_of(session), removed=removed, pruned=pruned))

    def rewound(self, session: Session | int) -> frozenset[str]:
        """The uids of the turns that a rewind, or another branch, left behind."""
        return self._read(lambda db: rederiving.rewound(db, id_of(session)))

    def leaf(self, session: Session | int) -> Point | None:
        """The record that the next prompt follows; None in a session without turns."""
        return self._read(lambda db: branches.leaf(db, id_of(session)))

    def branch_length(self, session: Session | int, to: Point | None = None) -> int:
        """How many turns lead to a record; None: to where the session goes on."""
        return self._read(lambda db: branches.length(db, id_of(session), to or branches.leaf(db, id_of(session))))

    def place(self, session: Session | int, seq: int) -> TreePosition:
        """Where the record @``seq`` is in the tree; raises RecordNotFound, BranchRemoved."""
        return self._read(lambda db: branches.place(db, id_of(session), seq))

    def checkout(self, session: Session | int, point: Point) -> None:
        """Have a session's next prompt follow a record; raises RecordNotFound."""
        now = self._now()
        self._change(lambda db: branches.check_out(db, id_of(session), point, now), decided=True)

    def note_context(self, session: Session | int, chars: int, limit: int) -> None:
        """Keep how many characters a session's context has, and from how many on it is summarised."""
        query = "update sessions set context_chars = ?, context_limit = ? where id = ?"
        self._change(lambda db: db.execute(query, (chars, limit, id_of(session))) and None)

    def add_compaction(self, session: Session | int, new: NewCompaction) -> bool:
        """Store a summary; False where a newer one is in force, or what it covers is on no branch any more."""
        return self._change(lambda db: compactions.add(db, id_of(session), new), decided=True)

    def undo_compaction(self, session: Session | int) -> Compaction | None:
        """Take the stored summary in force out of force, and return it; None where there is none."""
        return self._change(lambda db: compactions.undo(db, id_of(session)), decided=True)

    def branch_names(self, session: Session | int, *, removed: bool = False) -> list[Named]:
        """What a session's branches are called; the names of removed ones only when asked for."""
        return self._read(lambda db: branches.names(db, id_of(session), removed=removed))

    def name_branch(self, session: Session | int, name: str, point: Point) -> None:
        """Call the branch with this tip ``name``, which stays with its end as that grows.

        Raises RecordNotFound, BranchNameTaken.
        """
        now = self._now()
        self._decide(
            session, [plan.about_branch(name)], lambda db, each: branches.name_branch(db, each, name, point, now)
        )

    def unname_branch(self, session: Session | int, name: str) -> None:
        """Take a branch's name away."""
        self._decide(session, [plan.about_branch(name)], lambda db, each: branches.unname_branch(db, each, name))

    def remove_turns(self, session: Session | int, uids: Sequence[str]) -> int:
        """Remove turns from a session's tree, until ``restore_turns`` or ``prune_turns``; returns how many."""
        gone, now = list(uids), self._now()
        about = [plan.TURN + uid for uid in gone]
        return self._decide(session, about, lambda db, each: branches.remove(db, each, gone, now))

    def restore_turns(self, session: Session | int, uid: str) -> int:
        """Bring back the turns that were removed together with this one; gives how many."""

        def restore(db: apsw.Connection) -> int:
            back = branches.restore(db, sessions.get(db, id_of(session)).id, uid)
            decisions.note(db, id_of(session), [plan.TURN + each for each in back], self._now())
            return len(back)

        return self._change(restore, decided=True)

    def removed_turns(self, session: Session | int) -> list[TreeTurn]:
        """The turns that can be restored, the last removed first."""
        return self._read(lambda db: branches.removed(db, id_of(session)))

    def prune_turns(self, session: Session | int | None = None, only: Mapping[str, int] | None = None) -> int:
        """Drop what removed turns hold, of one session or of all, for good; gives how many turns that were.

        ``only``: these turns, each with the time at which it was removed in another store.
        """
        todo = self._read(branches.prunable) if session is None else [id_of(session)]
        if only is not None:
            self._change(lambda db: branches.mark_removed(db, todo, only))
        dropped = sum(self._prune(each, only) for each in todo)
        if dropped:
            self.erase()
        return dropped

    def _decide(self, session: Session | int, about: Sequence[str], change: Callable[[apsw.Connection, int], T]) -> T:
        """Write what a person decided about a session, with the time."""

        def decide(db: apsw.Connection) -> T:
            made = change(db, sessions.get(db, id_of(session)).id)
            decisions.note(db, id_of(session), about, self._now())
            return made

        return self._change(decide, decided=True)

    def _prune(self, session_id: int, only: Collection[str] | None) -> int:
        """Drop what removed turns of a session hold; what they named first may be named elsewhere, too."""

        def prune(db: apsw.Connection) -> int | None:
            if (db.execute("select next_seq from sessions where id = ?", (session_id,)).get or 0) != next_seq:
                return None
            erasing.note_removal(db)
            count = branches.prune(db, session_id, only)
            derived_tables.write(db, session_id, named, turn_ids)
            return count

        for _ in range(append.APPEND_TRIES):
            next_seq, named, turn_ids = self._read(lambda db: own_log.refs_kept(db, session_id))
            if (count := self._change(prune)) is not None:
                return count
        raise errors.StoreBusy(self.path)
