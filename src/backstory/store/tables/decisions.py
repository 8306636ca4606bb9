"""People's decisions about a session with their times: read as values, and written to match another store.

Names and removals are in the tables of sessions, branches and turns; ``meta`` has the values of contexts, and the time
of each decision, so that an older copy does not undo a later one. Functions never commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from backstory import ids
from backstory.errors import ContextFull, ContextKeyNotFound, ContextUnusable
from backstory.store import schema
from backstory.store.schema import fetch
from backstory.store.tables import branches, turns
from backstory.store.tables.plan import (
    BRANCH,
    CONTEXT,
    NAME,
    TURN,
    ContextValue,
    Decide,
    Decisions,
    SessionState,
    StoreState,
    Value,
    about_branch,
    about_context,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import apsw

DECIDED = "decided "
"""The prefix of a key in meta, before a session's uid: the times of its decisions in ms, as JSON."""
ALL = "1"
OWN_KEYS = ("session_name", "current_message", "session_state", "current_conversation", "work:benchmark", "work:goal")
"""Keys of a context that are kept by agents and by backstory: no person gives them a value."""
KEY_CHARS_MAX = 200
VALUE_BYTES_MAX = 64 * 1024
KEYS_MAX = 64
"""The most keys that are set in a session: its line of an export has them all, however they are escaped."""


def note(db: apsw.Connection, session_id: int, abouts: Iterable[str], now: int) -> None:
    """Record decisions about a session, always with a later time than the ones before."""
    uid = str(db.execute("select uid from sessions where id = ?", (session_id,)).get)
    at = times(db, uid)
    # A clock that was set back must not let an older decision count as the later one.
    _set_times(db, uid, at | {about: max(now, at.get(about, 0) + 1) for about in abouts})


def forget(db: apsw.Connection, uid: str) -> None:
    """Remove the times of the decisions about a removed session, and what was set in its context."""
    db.execute("delete from meta where key = ?", (DECIDED + uid,))
    db.execute(f"delete from meta where {_CONTEXT_OF}", _range(uid))


def copy_rows(db: apsw.Connection, source: str, uid: str) -> None:
    """Take over what ``meta`` has of the decisions about a session that is new here."""
    db.execute(
        f"insert or replace into meta(key, value) select key, value from {source}.meta "
        f"where key = ? or ({_CONTEXT_OF})",
        (DECIDED + uid, *_range(uid)),
    )


def follow_uid(db: apsw.Connection, old: str, new: str) -> None:
    """Keep what was decided about a session that has another uid now."""
    db.execute("update meta set key = ? where key = ?", (DECIDED + new, DECIDED + old))
    db.execute(
        f"update meta set key = ? || substr(key, ?) where {_CONTEXT_OF}",
        (_context(new), len(_context(old)) + 1, *_range(old)),
    )


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


# values in contexts ---------------------------------------------------------------------------------------------
# One row of meta each: its key has the session's uid and theirs.

_CONTEXT_OF = "key >= ? and key < ?"


def _context(uid: str) -> str:
    return f"{CONTEXT}{uid} "


def _range(uid: str) -> tuple[str, str]:
    """The keys of meta between which those of a session's context are: a "!" is what comes behind a blank."""
    return _context(uid), f"{CONTEXT}{uid}!"


def context_of(db: apsw.Connection, uid: str) -> dict[str, str]:
    """Return what people set in the context of a session."""
    rows = fetch(db, tuple[str, str], f"select key, value from meta where {_CONTEXT_OF} order by key", _range(uid))
    return {key.removeprefix(_context(uid)): value for key, value in rows}


def check_context(key: str, value: str) -> None:
    """Raise ContextUnusable unless a person may set this key to this value."""
    if key in OWN_KEYS:
        raise ContextUnusable(f"{key!r} is kept by agents and by backstory, as are: {', '.join(OWN_KEYS)}.")
    if not key.strip() or "\0" in key:
        raise ContextUnusable("A key of a context has at least one character that can be seen, and no NUL.")
    if len(key) > KEY_CHARS_MAX:
        raise ContextUnusable(f"A key of a context has at most {KEY_CHARS_MAX} characters; this has {len(key):,}.")
    if (size := len(value.encode("utf-8", "surrogatepass"))) > VALUE_BYTES_MAX:
        raise ContextUnusable(f"A value in a context has at most {VALUE_BYTES_MAX:,} bytes; this has {size:,}.")


def set_context(db: apsw.Connection, uid: str, key: str, value: str | None, now: int) -> None:
    """Set a key in the context of a session; None removes it.

    Raises ContextUnusable, ContextFull, and ContextKeyNotFound for one to be removed that is not set.
    """
    known = context_of(db, uid)
    if value is None:
        if key not in known:
            raise ContextKeyNotFound(key, known)
        _drop_context(db, uid, key)
    else:
        check_context(key, value)
        if key not in known and len(known) >= KEYS_MAX:
            raise ContextFull(KEYS_MAX)
        _put_context(db, uid, ContextValue(key, value))
    note(db, int(db.execute("select id from sessions where uid = ?", (uid,)).get), [about_context(key)], now)


def _drop_context(db: apsw.Connection, uid: str, key: str) -> None:
    db.execute("delete from meta where key = ?", (_context(uid) + key,))


def _put_context(db: apsw.Connection, uid: str, said: ContextValue) -> None:
    db.execute("insert or replace into meta(key, value) values (?, ?)", (_context(uid) + said.key, said.value))


def context_rows(uid: str, values: Mapping[str, str]) -> list[tuple[str, str]]:
    """The rows of meta that have these values of a session's context. Raises ContextUnusable, ContextFull."""
    if len(values) > KEYS_MAX:
        raise ContextFull(KEYS_MAX)
    for key, value in values.items():
        check_context(key, value)
    return [(_context(uid) + key, value) for key, value in values.items()]


# states of sessions ---------------------------------------------------------------------------------------------


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
    of_contexts = _contexts(db, source, uids)
    found = dict[str, SessionState]()
    for session_id, uid, owner, is_borrowed, name, leaf_uid, leaf_seq, leaf_at, times, *content in rows:
        all_turns = of_turns.get(session_id, [])
        removed = {turn.uid: turn.removed for turn in all_turns if turn.removed is not None}
        values: dict[str, Value] = {NAME: name, **of_branches.get(session_id, {}), **of_contexts.get(uid, {})}
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


def _contexts(db: apsw.Connection, source: str, uids: Collection[str] | None) -> dict[str, dict[str, Value]]:
    uid = f"substr(key, {len(CONTEXT) + 1}, {ids.UID_LENGTH})"
    wanted, bound = (ALL, ()) if uids is None else (f"{uid} in (select value from json_each(?))", (_as_json(uids),))
    rows = fetch(
        db,
        tuple[str, str, str],
        f"select {uid}, substr(key, {len(_context('')) + ids.UID_LENGTH + 1}), value from {source}.meta "
        f"where key >= '{CONTEXT}' and key < '{CONTEXT.rstrip()}!' and {wanted}",
        bound,
    )
    found: dict[str, dict[str, Value]] = {}
    for of, key, value in rows:
        found.setdefault(of, {})[about_context(key)] = ContextValue(key, value)
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
    _write_context(db, uid, decided)
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


def _write_context(db: apsw.Connection, uid: str, decided: Decisions) -> None:
    here = context_of(db, uid)
    wanted = {each.key: each for each in decided.values.values() if isinstance(each, ContextValue)}
    for key in here.keys() - wanted.keys():
        _drop_context(db, uid, key)
    for key, said in wanted.items():
        if here.get(key) != said.value:
            _put_context(db, uid, said)


def _as_json(uids: Collection[str]) -> str:
    return schema.json_list(sorted(uids))
