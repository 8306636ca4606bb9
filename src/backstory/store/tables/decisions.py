"""People's decisions about a session with their times: read as values, and written to match another store.

Names and removals are in the tables of sessions, branches and turns; ``meta`` has the time of each decision, so that an
older copy does not undo a later one. Functions never commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from backstory import ids
from backstory.store import schema
from backstory.store.schema import fetch
from backstory.store.tables import branches, turns
from backstory.store.tables.plan import (
    BRANCH,
    NAME,
    TURN,
    Decide,
    Decisions,
    SessionState,
    StoreState,
    Value,
    about_branch,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import apsw

DECIDED = "decided "
"""The prefix of a key in meta, before a session's uid: the times of its decisions in ms, as JSON."""
ALL = "1"


def note(db: apsw.Connection, session_id: int, abouts: Iterable[str], now: int) -> None:
    """Record decisions about a session, always with a later time than the ones before."""
    uid = str(db.execute("select uid from sessions where id = ?", (session_id,)).get)
    at = times(db, uid)
    # A clock that was set back must not let an older decision count as the later one.
    _set_times(db, uid, at | {about: max(now, at.get(about, 0) + 1) for about in abouts})


def forget(db: apsw.Connection, uid: str) -> None:
    """Remove the times of the decisions about a removed session."""
    db.execute("delete from meta where key = ?", (DECIDED + uid,))


def times(db: apsw.Connection, uid: str) -> dict[str, int]:
    """Return the times of a person's decisions about a session, ms."""
    found = db.execute("select value from meta where key = ?", (DECIDED + uid,)).get
    return _parsed(found)


def _parsed(found: object) -> dict[str, int]:
    times = msgspec.json.decode(str(found)) if found is not None else {}
    return {str(about): int(ms) for about, ms in times.items()}


def _set_times(db: apsw.Connection, uid: str, at: Mapping[str, int]) -> None:
    if at:
        written = msgspec.json.encode(dict(sorted(at.items()))).decode()
        db.execute("insert or replace into meta(key, value) values (?, ?)", (DECIDED + uid, written))
    else:
        forget(db, uid)


def store_state(db: apsw.Connection, uids: Collection[str] | None = None) -> StoreState:
    """Return the state of a store for a plan: of all sessions, or of these."""
    removed = fetch(db, tuple[str, int], "select uid, at from forgotten")
    return StoreState(
        store_id=str(db.execute("select value from meta where key = 'store_id'").get),
        sessions=session_states(db, uids=uids),
        removed={ids.session_identity(uid): at for uid, at in removed},
    )


class _DecidedTurn(NamedTuple):
    """The facts of a turn that a plan needs; ``removed`` and ``started`` are times in ms."""

    session_id: int
    uid: str
    has_ended: int
    removed: int | None
    is_pruned: int
    started: int | None


def session_states(
    db: apsw.Connection, source: str = "main", *, uids: Collection[str] | None = None
) -> dict[str, SessionState]:
    """Return the states of sessions for a plan, by uid."""
    wanted, bound = (ALL, ()) if uids is None else ("s.uid in (select value from json_each(?))", (_as_json(uids),))
    rows: list[Any] = db.execute(
        "select s.id, s.uid, s.owner, s.owner is null and s.elsewhere is not null, s.name, s.leaf_uid, s.leaf_seq, "
        "s.leaf_at, m.value, s.number, s.next_seq, s.project, s.branch, s.completed, "
        f"(select count(*) from {source}.turns where session_id = s.id and tokens_source is not null), "
        # Enough to see that summaries differ, without reading them.
        "(select group_concat(c.after_seq || ' ' || c.undone || ' ' || length(c.summary) order by c.id) "
        f"from {source}.compactions c where c.session_id = s.id) "
        f"from {source}.sessions s left join {source}.meta m on m.key = '{DECIDED}' || s.uid where {wanted}",
        bound,
    ).fetchall()
    of_turns, of_branches = _turns(db, source, wanted, bound), _branches(db, source, wanted, bound)
    found = dict[str, SessionState]()
    for session_id, uid, owner, is_borrowed, name, leaf_uid, leaf_seq, leaf_at, times, *content in rows:
        all_turns = of_turns.get(session_id, [])
        removed = {turn.uid: turn.removed for turn in all_turns if turn.removed is not None}
        values: dict[str, Value] = {NAME: name, **of_branches.get(session_id, {})}
        values |= {f"{TURN}{turn}": ms for turn, ms in removed.items()}
        found[uid] = SessionState(
            uid=uid,
            owner=owner,
            is_borrowed=bool(is_borrowed),
            content=tuple(content),
            decided=Decisions(values=values, at=_parsed(times), leaf=(leaf_uid, leaf_seq), leaf_at=leaf_at),
            turns=frozenset(turn.uid for turn in all_turns),
            finished=frozenset(turn.uid for turn in all_turns if turn.has_ended and turn.removed is None),
            pruned={turn.uid: removed[turn.uid] for turn in all_turns if turn.is_pruned},
            last_started=max((turn.started or 0 for turn in all_turns), default=0),
        )
    return found


def _turns(db: apsw.Connection, source: str, wanted: str, bound: tuple[str, ...]) -> dict[int, list[_DecidedTurn]]:
    """Return the turns of each session."""
    rows = fetch(
        db,
        _DecidedTurn,
        "select t.session_id, t.uid, t.outcome is not null, t.removed, t.removed is not null and t.prompt = '' "
        # The prompt alone may have been empty from the beginning.
        f"and not exists (select 1 from {source}.events e where e.session_id = t.session_id "
        f"and e.seq between t.first_seq and t.last_seq and e.kind in {schema.CONTENT}), t.started "
        f"from {source}.turns t join {source}.sessions s on s.id = t.session_id where {wanted}",
        bound,
    )
    found: dict[int, list[_DecidedTurn]] = {}
    for turn in rows:
        found.setdefault(turn.session_id, []).append(turn)
    return found


def _branches(db: apsw.Connection, source: str, wanted: str, bound: tuple[str, ...]) -> dict[int, dict[str, Value]]:
    rows = fetch(
        db,
        tuple[int, str, str, int | None, int, int | None],
        "select b.session_id, b.name, b.leaf_uid, b.leaf_seq, b.created, b.moved "
        f"from {source}.branches b join {source}.sessions s on s.id = b.session_id where {wanted}",
        bound,
    )
    found: dict[int, dict[str, Value]] = {}
    for session_id, name, uid, seq, created, moved in rows:
        found.setdefault(session_id, {})[about_branch(name)] = (name, uid, seq, created, moved)
    return found


def write_step(db: apsw.Connection, step: Decide) -> None:
    """Write the decisions of a plan, unless there are newer ones here."""
    current = session_states(db, uids=[step.uid]).get(step.uid)
    # Somebody decided something between the plan and this; the next one sees it.
    if current is None or current.decided.at != step.before.at:
        return
    # The leaf may have changed since; only its owner decides it.
    is_same = step.decided.leaf == step.before.leaf
    here = replace(step.decided, leaf=current.decided.leaf, leaf_at=current.decided.leaf_at)
    write(db, step.uid, here if is_same else step.decided, step.known)


def write(db: apsw.Connection, uid: str, decided: Decisions, known: Collection[str]) -> None:
    """Replace a session's decisions. ``known``: the turns of the store where they were made."""
    session_id = int(db.execute("select id from sessions where uid = ?", (uid,)).get)
    name = decided.values.get(NAME, "")
    db.execute(
        "update sessions set name = ?, leaf_uid = ?, leaf_seq = ?, leaf_at = ? where id = ?",
        (name, *decided.leaf, decided.leaf_at, session_id),
    )
    _write_removed(db, session_id, decided)
    _write_branches(db, session_id, decided, known)
    _set_times(db, uid, decided.at)
    turns.sum_up(db, session_id)


def _write_removed(db: apsw.Connection, session_id: int, decided: Decisions) -> None:
    rows = fetch(db, tuple[str, int | None], "select uid, removed from turns where session_id = ?", (session_id,))
    changed = [(when, session_id, turn) for turn, ms in rows if (when := decided.values.get(f"{TURN}{turn}")) != ms]
    db.executemany("update turns set removed = ? where session_id = ? and uid = ?", changed)


def _write_branches(db: apsw.Connection, session_id: int, decided: Decisions, known: Collection[str]) -> None:
    rows = fetch(
        db,
        tuple[str, str, int | None, int, int | None],
        "select name, leaf_uid, leaf_seq, created, moved from branches where session_id = ?",
        (session_id,),
    )
    here = {about_branch(named[0]): named for named in rows}
    wanted = {about: value for about, value in decided.values.items() if about.startswith(BRANCH)}
    for about in here.keys() - wanted.keys():
        branches.unname_branch(db, session_id, here[about][0])
    for about, value in wanted.items():
        if here.get(about) != value and isinstance(value, tuple):
            branches.put_name(db, session_id, value)
            branches.follow_unknown(db, session_id, value[0], known)


def _as_json(uids: Collection[str]) -> str:
    return schema.json_list(sorted(uids))
