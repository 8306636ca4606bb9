"""People's decisions about two copies of a session, and the facts of the session as a whole, made one.

The other store is attached as ``source``. Of each decision the later one counts. Never commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from backstory.derive.pruning import MARK, PROMPTS
from backstory.exchange import merge_logs, merge_turns
from backstory.exchange.copying import names
from backstory.lazy import lazy_module
from backstory.store import schema
from backstory.store.intake import coverage, derived_tables
from backstory.store.schema import fetch, fetch_one
from backstory.store.tables import compactions, decisions, plan
from backstory.store.tables import pruned as pruned_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    import apsw

    from backstory.exchange.merge_turns import Sides
    from backstory.store.tables import side_texts
    from backstory.store.tables.plan import Decisions, Leaf, SessionState, Value
else:
    side_texts = lazy_module("backstory.store.tables.side_texts")

STALE = -1
"""In place of the version that derived a log: it is to be derived anew, what the other store derived is not enough."""
_LABELS = "title, project, repository, branch"


def decide(db: apsw.Connection, sides: Sides) -> dict[str, int]:
    """Give a session the names, removals and leaf that were decided last.

    Returns the turns that were pruned in the other store and are here, each with when it was removed.
    """
    mine, other = _state(db, "main", sides.new), _state(db, sides.source, sides.old)
    other = replace(other, decided=_as_here(db, sides, other.decided))
    merged = plan.fitting(plan.merge_alike(mine, other), mine)
    # A name goes with the tip that was pruned.
    pruned = {*mine.pruned, *other.pruned}
    values = {about: value for about, value in merged.values.items() if not _is_at(value, pruned)}
    merged = replace(merged, values=values)
    wanted = replace(merged, **_leaf(db, sides.new, mine.decided, other.decided, merged.values))
    if wanted != mine.decided:
        decisions.write(db, mine.uid, wanted, mine.turns)
    return {uid: ms for uid, ms in other.pruned.items() if uid not in mine.pruned}


def _is_at(value: Value, turns: set[str]) -> bool:
    """Return True if a value is the name of a branch whose tip is in one of these turns."""
    return isinstance(value, tuple) and value[1] in turns


def keep_leaf(db: apsw.Connection, session_id: int) -> None:
    """Keep the place where a session goes on, whatever numbers the turns have that came."""
    mine = _state(db, "main", session_id)
    wanted = replace(mine.decided, **_leaf(db, session_id, mine.decided, mine.decided, mine.decided.values))
    if wanted != mine.decided:
        decisions.write(db, mine.uid, wanted, mine.turns)


def _state(db: apsw.Connection, schema: str, session_id: int) -> SessionState:
    uid = str(db.execute(f"select uid from {schema}.sessions where id = ?", (session_id,)).get)
    return decisions.session_states(db, schema, uids=[uid])[uid]


def _as_here(db: apsw.Connection, sides: Sides, decided: Decisions) -> Decisions:
    """Decisions of the other store with the numbers that records have here."""
    values: dict[str, Value] = {}
    for about, value in decided.values.items():
        if isinstance(value, tuple):
            name, uid, seq, *times = value
            values[about] = (name, uid, merge_turns.parent_seq(db, sides, uid, seq), times[0] or 0, times[1])
        else:
            values[about] = value
    tip, at = decided.leaf
    return replace(decided, values=values, leaf=(tip, merge_turns.parent_seq(db, sides, tip, at)))


class _Tip(NamedTuple):
    """The turn where a session may go on; when it began, and its last record."""

    uid: str
    started: int | None
    first_seq: int
    last_seq: int


class _Leaf(NamedTuple):
    """The place where a session goes on, and the time of that decision."""

    at: int | None
    tip: _Tip
    seq: int | None


def _leaf(
    db: apsw.Connection, session_id: int, ours: Decisions, theirs: Decisions, values: Mapping[str, Value]
) -> dict[str, Any]:
    """Return the place where a session goes on, and its time: the later of two decisions that can be followed."""
    found = [each for decided in (ours, theirs) if (each := _candidate(db, session_id, decided, values)) is not None]
    newest, at = _newest(db, session_id, values), max(ours.leaf_at or 0, theirs.leaf_at or 0) or None
    if newest is None:
        return {"leaf": (None, None), "leaf_at": at}
    if not found:
        return {"leaf": _explicit(_latest(db, session_id, values) or newest, None, newest), "leaf_at": at}
    chosen = max(found, key=_rank)
    return {"leaf": _explicit(chosen.tip, chosen.seq, newest), "leaf_at": chosen.at}


def _rank(leaf: _Leaf) -> tuple[int, int, str, int]:
    """Return a key by which the later of two decided leaves sorts last; the same whatever numbers the records have."""
    tip, began = leaf.tip, leaf.tip.started or 0
    return leaf.at or began, began, tip.uid, (leaf.seq or tip.last_seq) - tip.first_seq


def _explicit(tip: _Tip, seq: int | None, newest: _Tip) -> Leaf:
    """A leaf with its record, but where it is simply the newest turn, which is the one with the greatest number."""
    return tip.uid, seq if seq is not None or tip.uid == newest.uid else tip.last_seq


def _candidate(db: apsw.Connection, session_id: int, decided: Decisions, values: Mapping[str, Value]) -> _Leaf | None:
    uid, seq = decided.leaf
    if uid is None or f"{plan.TURN}{uid}" in values:
        return None
    tip = fetch_one(
        db,
        _Tip,
        "select uid, started, first_seq, last_seq from turns where session_id = ? and uid = ?",
        (session_id, uid),
    )
    return None if tip is None else _Leaf(decided.leaf_at, tip, seq)


_TIPS = (
    "select uid, started, first_seq, last_seq from turns where session_id = ? "
    "and uid not in (select value from json_each(?)) "
)


def _newest(db: apsw.Connection, session_id: int, values: Mapping[str, Value]) -> _Tip | None:
    """The turn with the greatest number that is not removed."""
    return fetch_one(db, _Tip, f"{_TIPS} order by first_seq desc, id desc limit 1", (session_id, _removed(values)))


def _latest(db: apsw.Connection, session_id: int, values: Mapping[str, Value]) -> _Tip | None:
    """The turn that began last of those that are not removed."""
    return fetch_one(
        db, _Tip, f"{_TIPS} order by coalesce(started, 0) desc, uid desc limit 1", (session_id, _removed(values))
    )


def _removed(values: Mapping[str, Value]) -> str:
    return schema.json_list(sorted(about[len(plan.TURN) :] for about in values if about.startswith(plan.TURN)))


# summaries ------------------------------------------------------------------------------------------------------


class _Summary(NamedTuple):
    """A stored summary: the turn of its last record, how far in it that is, and its columns."""

    turn_uid: str
    place: int
    columns: tuple[Any, ...]

    @property
    def key(self) -> tuple[object, ...]:
        """The values that two copies of one summary share."""
        return self.turn_uid, self.place, self.columns[0], self.columns[1]

    @property
    def is_undone(self) -> bool:
        return bool(self.columns[3])


def merge_summaries(db: apsw.Connection, sides: Sides) -> bool:
    """Merge the summaries of both; one taken out of force in either stays so. Returns whether any changed.

    Of several at one record that which was made last is in force, so they stand in the order of their times.
    """
    ours, theirs = _summaries(db, "main", sides.new), _summaries(db, sides.source, sides.old)
    pruned = _state(db, "main", sides.new).pruned
    note = pruned_parts.noted(db, sides.new)
    if note is not None and note.pruning.keep == PROMPTS:
        theirs = []
    theirs = [each for each in theirs if each.columns[0] != MARK]
    wanted: dict[tuple[object, ...], _Summary] = {}
    for each in [*ours, *(each for each in theirs if each.turn_uid not in pruned)]:
        known = wanted.get(each.key)
        wanted[each.key] = each if known is None or (each.is_undone and not known.is_undone) else known
    ordered = sorted(
        wanted.values(), key=lambda each: (str(each.columns[1]), each.turn_uid, each.place, str(each.columns[0]))
    )
    if {each.key: each.is_undone for each in ours} == {each.key: each.is_undone for each in ordered}:
        return False
    asked = "select uid, first_seq from turns where session_id = ?"
    firsts = dict(fetch(db, tuple[str, int], asked, (sides.new,)))
    compactions.clear(db, sides.new)
    columns = names("compactions", ("after_seq",))
    db.executemany(
        f"insert into compactions(session_id, after_seq, {', '.join(columns)}) values (?, ?{', ?' * len(columns)})",
        [(sides.new, firsts[each.turn_uid] + each.place, *each.columns) for each in ordered if each.turn_uid in firsts],
    )
    compactions.index(db, sides.new)
    return True


def _summaries(db: apsw.Connection, schema: str, session_id: int) -> list[_Summary]:
    columns = ", ".join(f"c.{name}" for name in names("compactions", ("after_seq",)))
    rows: list[Any] = db.execute(
        f"select t.uid, c.after_seq - t.first_seq, {columns} "
        f"from {schema}.compactions c join {schema}.turns t on t.session_id = c.session_id "
        "and c.after_seq between t.first_seq and t.last_seq where c.session_id = ? group by c.id order by c.id",
        (session_id,),
    ).fetchall()
    return [_Summary(uid, place, tuple(columns)) for uid, place, *columns in rows]


# the rest ------------------------------------------------------------------------------------------------------


def merge_labels(db: apsw.Connection, sides: Sides) -> None:
    """Take a session's labels from the copy that was active later, and those that only one of both has."""
    asked = f"select coalesce(last_active, 0), {_LABELS}, created from {{}}.sessions where id = ?"
    ours: Any = db.execute(asked.format("main"), (sides.new,)).fetchone()
    theirs: Any = db.execute(asked.format(sides.source), (sides.old,)).fetchone()
    later, earlier = sorted([ours, theirs], key=repr, reverse=True)
    if theirs[0] != ours[0]:
        later, earlier = (theirs, ours) if theirs[0] > ours[0] else (ours, theirs)
    labels = [one if one is not None else other for one, other in zip(later[1:-1], earlier[1:-1], strict=True)]
    wanted = (later[0], *labels, min(ours[-1], theirs[-1]))
    if wanted != ours:
        db.execute(
            f"update sessions set (last_active, {_LABELS}, created) = ({', '.join('?' * len(wanted))}) where id = ?",
            (*wanted, sides.new),
        )
    db.execute(
        "insert or ignore into session_branches(session_id, branch) "
        f"select ?, branch from {sides.source}.session_branches where session_id = ?",
        (sides.new, sides.old),
    )


def copy_derived(db: apsw.Connection, sides: Sides, *, is_stale: bool) -> None:
    """Copy the facts derived of the turns that came, or note that they are to be derived anew."""
    source, old, new = sides
    version = db.execute(f"select value from {source}.meta where key = 'derived_version'").get
    known = db.execute(
        f"select coalesce(min(derived), ?) from {source}.logs where session_id = ?", (derived_tables.VERSION, old)
    ).get
    stale = "select exists (select 1 from logs where session_id = ? and derived < ? and derived <> ?)"
    is_stale |= bool(db.execute(stale, (new, derived_tables.VERSION, merge_logs.COPIED)).get)
    is_covered = coverage.is_covered(db, new)
    is_stale |= is_covered and not coverage.are_alike(db, source)
    is_stale |= bool(db.execute(_OUTSIDE_TURNS.replace("SOURCE", source), {"old": old}).get)
    if is_stale or version != str(derived_tables.TABLES_VERSION) or known < derived_tables.VERSION:
        db.execute("update logs set derived = ? where session_id = ?", (STALE, new))
        return
    db.execute(
        "insert or ignore into session_values(session_id, key, value) "
        f"select ?, key, value from {source}.session_values where session_id = ?",
        (new, old),
    )
    if is_covered:
        _note_shifts(db, sides)
        for sql in _DERIVED:
            db.execute(sql.replace("SOURCE", source), {"old": old, "new": new})
        side_texts.copy(db, source, old, new)
        db.execute("delete from temp.shifts")
    db.execute("update logs set derived = ? where session_id = ?", (derived_tables.VERSION, new))


def _note_shifts(db: apsw.Connection, sides: Sides) -> None:
    """Note by how much the numbers of each turn grew."""
    db.execute(
        "create temp table if not exists shifts("
        "first integer primary key, last integer not null, shift integer not null, turn_id integer)"
    )
    db.execute("delete from temp.shifts")
    db.execute(
        "insert or ignore into temp.shifts select o.first_seq, o.last_seq, n.first_seq - o.first_seq, n.id "
        f"from {sides.source}.turns o join turns n on n.session_id = ? and n.uid = o.uid "
        "and n.last_seq - n.first_seq = o.last_seq - o.first_seq "
        # Of what was pruned here nothing comes back.
        "and not (n.removed is not null and n.prompt = '') where o.session_id = ?",
        (sides.new, sides.old),
    )


_OUTSIDE_TURNS = """
with first(seq) as (select min(first_seq) from SOURCE.turns where session_id = :old)
select exists (select 1 from SOURCE.checkpoints c, first f where session_id = :old and (c.seq is null or c.seq < f.seq))
  or exists (select 1 from SOURCE.session_files, first f where session_id = :old and first_seq < f.seq)
  or exists (select 1 from SOURCE.session_refs r, first f where session_id = :old and r.seq < f.seq)
"""
"""True if something derived belongs to no turn, so that no shift says where it stands here."""
_SHIFT = "join temp.shifts m on m.first = (select max(first) from temp.shifts where first <= {seq}) and {seq} <= m.last"
_RANK = f"instr('{derived_tables.ACTIONS}', {{}})"
_DERIVED = (
    "insert into session_files(session_id, file_path, tool_name, action, turn_id, first_seq, first_seen_at) "
    "select :new, x.file_path, x.tool_name, x.action, m.turn_id, x.first_seq + m.shift, x.first_seen_at "
    f"from SOURCE.session_files x {_SHIFT.format(seq='x.first_seq')} where x.session_id = :old "
    "on conflict(session_id, file_path) do update set "
    f"action = iif({_RANK.format('excluded.action')} > {_RANK.format('action')}, excluded.action, action)",
    "insert or replace into file_touches(file_id, seq, part, action, to_path) "
    "select n.id, t.seq + m.shift, t.part, t.action, t.to_path from SOURCE.session_files o "
    f"join SOURCE.file_touches t on t.file_id = o.id {_SHIFT.format(seq='t.seq')} "
    "join session_files n on n.session_id = :new and n.file_path = o.file_path where o.session_id = :old",
    "insert into session_refs(session_id, ref_type, ref_value, host, repository, turn_id, seq, created_at) "
    "select :new, x.ref_type, x.ref_value, x.host, x.repository, m.turn_id, x.seq + m.shift, x.created_at "
    f"from SOURCE.session_refs x {_SHIFT.format(seq='x.seq')} where x.session_id = :old "
    "on conflict(session_id, ref_type, ref_value) do update set host = coalesce(host, excluded.host), "
    "repository = coalesce(repository, excluded.repository)",
    "insert into checkpoints(session_id, checkpoint_number, seq, title, overview, history, work_done, "
    "technical_details, important_files, next_steps, created_at) "
    "select :new, row_number() over (order by x.seq) + "
    "coalesce((select max(checkpoint_number) from checkpoints where session_id = :new), 0), x.seq + m.shift, x.title, "
    "x.overview, x.history, x.work_done, x.technical_details, x.important_files, x.next_steps, x.created_at "
    f"from SOURCE.checkpoints x {_SHIFT.format(seq='x.seq')} where x.session_id = :old and not exists "
    "(select 1 from checkpoints n where n.session_id = :new and n.seq = x.seq + m.shift)",
    "insert or replace into call_results(call_id, result_id, is_error, exit_code) "
    "select nc.id, nr.id, x.is_error, x.exit_code from SOURCE.events oc "
    "join SOURCE.call_results x on x.call_id = oc.id "
    f"join SOURCE.events r on r.id = x.result_id {_SHIFT.format(seq='oc.seq')} "
    "join events nc on nc.session_id = :new and nc.seq = oc.seq + m.shift and nc.part = oc.part "
    "join events nr on nr.session_id = :new and nr.seq = r.seq + m.shift and nr.part = r.part "
    f"where oc.session_id = :old and oc.kind in {schema.CALLS}",
)
"""Copies the derived facts of the other store's session, under the numbers that its records have here."""
