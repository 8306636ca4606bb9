"""One session of two stores made one: its logs, its turns, what was decided about it; a slice to a transaction.

The other store is attached as ``source``. What a slice does depends on what both stores hold and on nothing else, so a
merge that was killed is simply begun again. Never commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import ids
from backstory.errors import SessionNotFound
from backstory.exchange import merge_decided, merge_logs, merge_turns, replicate
from backstory.exchange.copying import copy_rows
from backstory.exchange.merge_logs import BytesLeft
from backstory.exchange.merge_turns import Sides
from backstory.store.file import erasing
from backstory.store.intake import claims, written
from backstory.store.schema import fetch, fetch_one
from backstory.store.tables import lineage, pruned, sessions, turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import apsw

    from backstory.exchange.merge_logs import Match, TheirLog
    from backstory.exchange.merge_turns import Pair

_OWN = {
    "name": "''", "next_seq": "1", "elsewhere": ":elsewhere",
    **dict.fromkeys(
        ("owner", "number", "leaf_uid", "leaf_seq", "leaf_at", "completed", "duration_ms", "cost_usd"), "null"
    ),
}  # fmt: skip
"""The first values of a session that comes: the others are given, decided or summed up later."""


_READ_TO = "select read_to from logs where id = ?"


class Moved(Struct, frozen=True, kw_only=True):
    """Records that have other numbers here than in the other store: from ``first`` to ``last`` there."""

    first: int
    last: int
    here: int
    """The number of the first of them here."""


class MergedSession(Struct, kw_only=True):
    """The outcome of merging one session."""

    uid: str
    is_new: bool = False
    number: int | None = None
    their_number: int | None = None
    turns_new: int = 0
    turns_replaced: int = 0
    """Turns of which the other store had more."""
    turns_removed: int = 0
    """Turns that were dropped for good there, and so are here."""
    has_changed: bool = False
    moved: list[Moved] = []


class SessionMerge:
    """The merge of one session. ``is_trusted``: what was decided there counts; ``elsewhere``: where it comes from.

    ``pruned``, in the end: the turns that were pruned there, each with when it was removed.
    """

    def __init__(self, uid: str, *, is_trusted: bool, elsewhere: str | None = None, owns: bool = True) -> None:
        self.done = MergedSession(uid=uid, moved=[])
        self.pruned = dict[str, int]()
        self._uid, self._is_trusted, self._elsewhere, self._owns = uid, is_trusted, elsewhere, owns
        self._steps: list[Callable[[apsw.Connection, BytesLeft], bool]] = [
            self._begin,
            self._logs,
            self._turns,
            self._finish,
        ]
        self._sides = Sides("", 0, 0)
        self._matches = list[tuple["TheirLog", "Match"]]()
        self._log_ids = dict[int, int]()
        """Our logs without a turn, by theirs."""
        self._shared = dict[int, int]()
        self._is_aligned = self._is_diverged = self._is_stale = self._are_theirs_pruned = False
        self._after, self._shift, self._turn_copy = (0, -1), 0, ""
        self._taken = list[str]()
        self._read_before = dict[int, int]()
        """The bytes that our logs had before any came."""
        self._whole_from = 0
        """The number of our first record of which nothing was pruned; 0: the session is whole."""

    @property
    def session_id(self) -> int:
        """The session's id here, once it began: its uid may begin with another time than theirs."""
        return self._sides.new

    def slice(self, db: apsw.Connection, source: str) -> bool:
        """Do so much as belongs into one transaction; returns whether there is more."""
        budget = BytesLeft()
        self._sides = Sides(source, *self._sides[1:])
        while self._steps:
            if not self._steps[0](db, budget):
                return True
            del self._steps[0]
            if budget.is_spent:
                break
        return bool(self._steps)

    # the session ------------------------------------------------------------------------------------------------

    def _begin(self, db: apsw.Connection, _budget: BytesLeft) -> bool:
        source = self._sides.source
        asked = f"select id, number from {source}.sessions where uid = ?"
        theirs = fetch_one(db, tuple[int, int | None], asked, (self._uid,))
        if theirs is None:
            raise SessionNotFound(self._uid)
        db.execute(
            f"insert or ignore into dictionaries(id, sha256, data) select id, sha256, data from {source}.dictionaries"
        )
        old, self.done.their_number = theirs
        new = db.execute("select id from sessions where substr(uid, 11) = ?", (ids.session_identity(self._uid),)).get
        if new is None:
            new = self._insert(db, source, old)
        self._sides = Sides(source, old, int(new))
        if (note := pruned.noted(db, int(new))) is not None:
            self._whole_from, self._is_stale = note.next_seq, True
        self._are_theirs_pruned = bool(pruned.words_in(db, source, old))
        self.done.number = db.execute("select number from sessions where id = ?", (new,)).get
        return True

    def _insert(self, db: apsw.Connection, source: str, old: int) -> int:
        self.done.is_new = self.done.has_changed = True
        _drop_tombstones(db, source, old, self._uid)
        copy_rows(db, source, "sessions", "id = :old", _OWN, {"elsewhere": self._elsewhere, "old": old})
        new = db.last_insert_rowid()
        here, there = (
            str(db.execute(f"select value from {name}.meta where key = 'store_id'").get) for name in ("main", source)
        )
        owner, number = db.execute(f"select owner, number from {source}.sessions where id = ?", (old,)).fetchall()[0]
        if self._owns and owner in (here, there):
            number = sessions.next_number(db) if number is not None else None
            owner = here
        elif (
            number is not None
            and db.execute("select exists (select 1 from sessions where owner = ? and number = ?)", (owner, number)).get
        ):
            number = None
        db.execute("update sessions set owner = ?, number = ? where id = ?", (owner, number, new))
        return new

    # its bytes --------------------------------------------------------------------------------------------------

    def _logs(self, db: apsw.Connection, budget: BytesLeft) -> bool:
        """Copy what belongs to no turn; how its records are numbered depends on whether both went on."""
        source, old, new = self._sides
        if not self._matches:
            theirs = merge_logs.of_session(db, source, old, None)
            self._matches = [(log, merge_logs.match(db, source, new, log)) for log in theirs]
            self._is_diverged = any(found.is_diverged for _, found in self._matches)
            self._is_aligned = not self._is_diverged and _is_aligned(db, self._sides)
        for log, found in self._matches:
            self._shared[log.id] = found.shared
            ours = self._copy_log(db, log, found, self._log_ids, budget)
            if ours is None:
                return False
            if self._is_aligned and not found.has_all:
                merge_logs.adopt_numbers(db, source, ours, log.id)
        self._matches = []
        return True

    def _copy_log(
        self,
        db: apsw.Connection,
        log: TheirLog,
        found: Match,
        log_ids: dict[int, int],
        budget: BytesLeft,
        *,
        as_copy: bool = False,
    ) -> int | None:
        """Ensure that a log is here; returns its id, None if there was no room for all of it."""
        source, _, new = self._sides
        if (ours := log_ids.get(log.id, found.id)) is None:
            ours = merge_logs.begin(db, source, new, log, as_copy=as_copy or found.is_diverged)
        log_ids[log.id] = ours
        if found.has_all:
            if self._is_trusted and merge_logs.copy_sidecars(db, source, ours, log.id):
                self.done.has_changed = self._is_stale = True
            return ours
        self.done.has_changed = True
        before = self._read_before.setdefault(ours, int(db.execute(_READ_TO, (ours,)).get))
        if not merge_logs.copy_bytes(db, source, ours, log, budget):
            return None
        merge_logs.adopt_state(db, source, ours, log, before)
        if pruned.is_overwritten(db, ours):
            pruned.copy_note(db, source, self._sides.old, self._sides.new)
        return ours

    # its turns --------------------------------------------------------------------------------------------------

    def _turns(self, db: apsw.Connection, budget: BytesLeft) -> bool:
        self._take_before_turns(db, budget)
        self._turn_copy = merge_turns.turn_copy(db, self._sides.source)
        while window := merge_turns.pairs(db, self._sides, self._after):
            for pair in window:
                if budget.is_spent or not self._turn(db, pair, budget):
                    return False
                self._after = pair.first_seq, pair.id
        return True

    def _turn(self, db: apsw.Connection, pair: Pair, budget: BytesLeft) -> bool:
        """Merge one turn; returns whether there was room for all of it."""
        if pair.our_id is None:
            return self._take(db, pair, budget)
        self._shift = (pair.our_first or 0) - pair.first_seq
        # A turn that was pruned in part in either store is replaced by no other copy, and replaces none.
        if (pair.our_first or 0) < self._whole_from or self._are_theirs_pruned:
            return True
        differs = pair.events != pair.our_events or pair.has_other_facts or pair.has_other_bytes or self._is_diverged
        if not differs or not self._is_trusted:
            return True
        if merge_turns.is_theirs_better(db, self._sides, pair):
            return self._replace(db, pair, budget)
        if not pair.is_pruned_here and self._turn_logs(db, pair, budget, as_copy=True) is None:
            return False
        if pair.has_other_facts and merge_turns.take_facts(db, self._sides, pair):
            self.done.has_changed = True
        return True

    def _take(self, db: apsw.Connection, pair: Pair, budget: BytesLeft) -> bool:
        log_ids = self._turn_logs(db, pair, budget)
        if log_ids is None:
            return False
        self._insert_turn(db, pair, log_ids, budget)
        self.done.turns_new += 1
        return True

    def _insert_turn(self, db: apsw.Connection, pair: Pair, log_ids: dict[int, int], budget: BytesLeft) -> None:
        source = self._sides.source
        self._shift = shift = merge_turns.shift_for(db, self._sides, pair, self._shift)
        merge_turns.take(db, self._sides, pair, self._turn_copy, shift, self._log_ids | log_ids, budget)
        for theirs, ours in log_ids.items():
            merge_logs.adopt_numbers(db, source, ours, theirs, shift)
        if not self._is_aligned:
            for theirs, ours in self._log_ids.items():
                merge_logs.number(db, source, ours, theirs, pair.first_seq, pair.last_seq, shift)
        self._taken.append(pair.uid)
        self.done.has_changed = True

    def _replace(self, db: apsw.Connection, pair: Pair, budget: BytesLeft) -> bool:
        """Put their copy of a turn in the place of ours."""
        log_ids = self._turn_logs(db, pair, budget)
        if log_ids is None:
            return False
        old, new = (pair.our_first or 0, pair.our_last or 0), self._sides.new
        # Of what went on there alone the numbers are those that it has there already.
        numbered = set(self._log_ids.values()) if self._is_aligned else set[int]()
        removed = merge_turns.drop_ours(db, self._sides, pair, set(log_ids.values()), numbered)
        self._insert_turn(db, pair, log_ids, budget)
        db.execute("update turns set removed = ? where session_id = ? and uid = ?", (removed, new, pair.uid))
        merge_turns.move_children(db, new, pair.uid, pair.first_seq + self._shift - old[0], old)
        self.done.turns_replaced += 1
        self._is_stale = True
        return True

    def _turn_logs(
        self, db: apsw.Connection, pair: Pair, budget: BytesLeft, *, as_copy: bool = False
    ) -> dict[int, int] | None:
        """Ensure that the logs of a turn are here; returns ours by theirs, None if there was no room for all.

        ``as_copy``: the turn itself stays ours, so what is not the beginning of a log of ours is bytes alone.
        """
        source, old, new = self._sides
        log_ids = dict[int, int]()
        for log in merge_logs.of_session(db, source, old, pair.uid):
            found = merge_logs.match(db, source, new, log)
            if as_copy and found.id is not None and not found.has_all:
                # Ours is a beginning of theirs, but the turn has as much without the rest.
                continue
            if self._copy_log(db, log, found, log_ids, budget, as_copy=as_copy) is None:
                return None
        return log_ids

    def _take_before_turns(self, db: apsw.Connection, budget: BytesLeft) -> None:
        """Take the events that belong to no turn: those of records that are not here."""
        if self._after != (0, -1):
            return
        source, old, new = self._sides
        rows = fetch(
            db,
            tuple[int, int | None, int | None, int | None],
            f"select distinct seq, log_id, position, length from {source}.events where session_id = ? "
            "and turn_id is null order by seq",
            (old,),
        )
        shift: int | None = 0 if self._is_aligned else None
        for seq, log_id, position, length in rows:
            if self._has_record(db, seq, log_id, position, length):
                continue
            if shift is None:
                shift = merge_turns.next_seq(db, new) - seq
            merge_turns.copy_events(
                db, self._sides, f"turn_id is null and seq = {seq}", None, shift, self._log_ids, budget
            )
            ours = self._log_ids.get(log_id or 0)
            if ours is not None and not self._is_aligned:
                merge_logs.number(db, source, ours, log_id or 0, seq, seq, shift)
            db.execute("update sessions set next_seq = max(next_seq, ?) where id = ?", (seq + shift + 1, new))
            self.done.has_changed = True

    def _has_record(
        self, db: apsw.Connection, seq: int, log_id: int | None, position: int | None, length: int | None
    ) -> bool:
        """Return True if a record of theirs before the first prompt is here, in whichever log."""
        new = self._sides.new
        if seq < self._whole_from:
            return True
        if log_id is None or self._is_aligned:
            asked = "select exists (select 1 from events where session_id = ? and seq = ?)"
            return bool(db.execute(asked, (new, seq)).get)
        if (position or 0) + (length or 0) <= self._shared.get(log_id, 0):
            return True
        asked = "select exists (select 1 from events where session_id = ? and log_id = ? and position = ?)"
        return bool(db.execute(asked, (new, self._log_ids.get(log_id), position)).get)

    # the end ----------------------------------------------------------------------------------------------------

    def _finish(self, db: apsw.Connection, _budget: BytesLeft) -> bool:
        source, old, new = self._sides
        has_come = bool(self._taken) or bool(
            db.execute(
                "select exists (select 1 from logs where session_id = ? and derived = ?)", (new, merge_logs.COPIED)
            ).get
        )
        before = db.total_changes()
        if has_come:
            merge_decided.copy_derived(db, self._sides, is_stale=self._is_stale)
        if self._is_trusted:
            self.pruned = merge_decided.decide(db, self._sides)
            merge_decided.merge_labels(db, self._sides)
        elif has_come:
            merge_decided.keep_leaf(db, new)
            db.execute(
                f"update sessions set last_active = max(coalesce(last_active, 0), (select coalesce(last_active, 0) "
                f"from {source}.sessions where id = ?)) where id = ?",
                (old, new),
            )
        if self._is_trusted or self.done.is_new:
            merge_decided.merge_summaries(db, self._sides)
        if has_come:
            self._link(db)
        self.done.has_changed |= db.total_changes() > before
        if self.done.has_changed:
            self.done.moved = list(_moved(db, self._sides))
        return True

    def _link(self, db: apsw.Connection) -> None:
        """Sum up what came, and link it with what else is here."""
        _, _, new = self._sides
        turns.sum_up(db, new)
        replicate.link_relatives(db, new, str(db.execute("select uid from sessions where id = ?", (new,)).get))
        for uid in self._taken:
            claims.link_run_to_log(db, new, uid)
        if db.execute("select exists (select 1 from sessions where owner is null)").get:
            lineage.link_copies(db, {*self._taken, *written.settle(db)})


def _is_aligned(db: apsw.Connection, sides: Sides) -> bool:
    """Return True if the numbers of all that only the other store has are free here: the session went on only there."""
    source, old, new = sides
    facts: list[tuple[int, int | None, int | None]] = fetch(
        db,
        tuple[int, int | None, int | None],
        f"select exists (select 1 from {source}.turns o join turns n on n.session_id = ?2 and n.uid = o.uid "
        "where o.session_id = ?1 and o.first_seq <> n.first_seq), "
        f"(select max(last_seq) from turns where session_id = ?2 and uid not in (select uid from {source}.turns "
        "where session_id = ?1)), "
        f"(select min(first_seq) from {source}.turns where session_id = ?1 and uid not in (select uid from turns "
        "where session_id = ?2))",
        (old, new),
    )
    moved, ours, theirs = facts[0]
    return not moved and (ours is None or theirs is None or ours < theirs)


def _moved(db: apsw.Connection, sides: Sides) -> Iterator[Moved]:
    """The records that have other numbers here, neighbours that moved alike together."""
    source, old, new = sides
    rows = fetch(
        db,
        tuple[int, int, int],
        f"select o.first_seq, o.last_seq, n.first_seq - o.first_seq from {source}.turns o "
        "join turns n on n.uid = o.uid and n.session_id = ? where o.session_id = ? and n.first_seq <> o.first_seq "
        "order by o.first_seq, o.id",
        (new, old),
    )
    run: tuple[int, int, int] | None = None
    for first, last, shift in rows:
        if run is not None and run[2] == shift and first == run[1] + 1:
            run = run[0], last, shift
            continue
        if run is not None:
            yield Moved(first=run[0], last=run[1], here=run[0] + run[2])
        run = first, last, shift
    if run is not None:
        yield Moved(first=run[0], last=run[1], here=run[0] + run[2])


def _drop_tombstones(db: apsw.Connection, source: str, old: int, uid: str) -> None:
    """Forget that a session, with the agents' own logs of its runs, was removed here: it went on there."""
    db.execute("delete from forgotten where substr(uid, 11) = ?", (ids.session_identity(uid),))
    if db.changes():
        runs = fetch(
            db,
            tuple[str, str],
            f"select agent, native_id from {source}.turns where session_id = ? and native_id <> ''",
            (old,),
        )
        db.executemany(
            "delete from forgotten where substr(uid, 11) = ?",
            [(ids.session_identity(ids.session_uid(agent, native_id, 0)),) for agent, native_id in runs],
        )


def remove(db: apsw.Connection, session_id: int, at: int) -> list[str]:
    """Remove a session that was removed in the other store, then; gives the uids."""
    erasing.note_removal(db)
    return sessions.remove(db, session_id, at)


def keep_tombstones(db: apsw.Connection, source: str, *, now: int) -> int:
    """Copy the tombstones of the other store, but for sessions that are here; returns how many came.

    None is later than ``now``, in ms: one of a clock that was wrong would remove what comes until then.
    """
    db.execute(
        f"insert into forgotten(uid, at) select uid, min(at, ?) from {source}.forgotten f where not exists "
        "(select 1 from sessions s where substr(s.uid, 11) = substr(f.uid, 11)) "
        "on conflict(uid) do update set at = excluded.at where excluded.at > forgotten.at",
        (now,),
    )
    return int(db.changes())
