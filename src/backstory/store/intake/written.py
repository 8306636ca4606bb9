"""Logs that we wrote for agents, read back: their turns are those that they were written of. Never commits.

A turn has one id in every log that is written of it (``ids.written_turn_id``). A turn that is read under such an id is
a copy of the one whose id it is, once both are here, whichever came first; until then it is a turn of its own.

What ids turns have is indexed as soon as a store holds a turn of such a log, and not before: most never do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory import ids
from backstory.model import Relation
from backstory.store import schema
from backstory.store.schema import fetch
from backstory.store.tables import turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import apsw

    from backstory.model import Turn

TURNS_AT_ONCE = 20_000
"""The most turns that are indexed in one transaction."""
KEY_DIGITS, KEY_MASK = 8, (1 << 31) - 1
"""Bits that SQLite keeps in 4 bytes."""
NO_KEY = -1
"""The key of a turn from a store that nobody has trusted: it is no copy of ours, and none of ours is one of it."""
_IS_WRITTEN = "length({turn}native_id) = 36 and substr({turn}native_id, 15, 1) = '5'"
"""As the index ``idx_turns_written`` says it."""

SESSIONS = f"(select session_id from turns where {_IS_WRITTEN.format(turn='')})"
"""The sessions with such turns."""
HAS_ANY = f"select exists (select 1 from turns where {_IS_WRITTEN.format(turn='')})"
"""SQL that is 1 if any turn has an id that we may have written into a log."""
_IS_NEW = "id > coalesce((select max(turn_id) from written_turns), 0)"
"""A turn that is not indexed. Its id is never given again."""


def is_written(turn: str) -> str:
    """Return True if the turn of this name in a query is, by its id, one of a log that we wrote: 1 or 0."""
    return f"iif({_IS_WRITTEN.format(turn=f'{turn}.')}, 1, 0)"


def precedes(turn: str, session: str, other_turn: str, other_session: str) -> str:
    """Return SQL that is true if the first of two copies of a turn, each with its session, is the one that counts.

    One that another program retold comes after all others, before that one of a log that we wrote; then the session
    with the smallest uid comes first.
    """
    retold = f"relation is '{Relation.RETOLD}'"
    mine = f"({session}.{retold}, {is_written(turn)}, {session}.uid)"
    return f"{mine} < ({other_session}.{retold}, {is_written(other_turn)}, {other_session}.uid)"


IS_COPY = (
    f"({is_written('t')} and exists (select 1 from turns c join sessions cs on cs.id = c.session_id "
    f"where c.uid = t.uid and c.id <> t.id and {precedes('c', 'cs', 't', 's')}))"
)
"""A turn ``t`` of a session ``s`` that we wrote into the session's log, and that is shown where it was written of."""
IS_ONLY_COPIES = (
    # What was added stands at the end, so that one turn says of most that they have something of their own.
    f"(s.owner is null and s.relation is 'continuation' and coalesce((select {is_written('n')} from turns n "
    "where n.session_id = s.id order by n.first_seq desc, n.id desc limit 1), 0) "
    f"and not exists (select 1 from turns t where t.session_id = s.id and not {IS_COPY}))"
)
"""A session ``s`` to whose log nobody added anything since we wrote it."""

EVENTS_OF_COPIES = (
    "select e.id from turns t cross join sessions s on s.id = t.session_id "
    "cross join events e on e.session_id = s.id and e.seq between t.first_seq and t.last_seq and e.turn_id = t.id "
    f"where {_IS_WRITTEN.format(turn='t.')} and s.owner is null and s.relation is 'continuation' and {IS_COPY} "
    "and s.id not in (select value from json_each(?))"
)
"""The events of copies, but for those of some sessions."""


def settle(db: apsw.Connection) -> set[str]:
    """Index turns that came, and make turns of logs that we wrote those that they were written of.

    Returns the uids that are known to be those of copies now. It is about ``TURNS_AT_ONCE`` turns at most: what is left
    is done by the next call.
    """
    if not db.execute(HAS_ANY).get:
        return set()
    # By id, so that a call that is cut off by the limit goes on where it was.
    new = fetch(
        db,
        tuple[int, str, str, str | None, bool],
        "select t.id, t.uid, t.agent, t.native_id, s.elsewhere is null "
        f"from turns t join sessions s on s.id = t.session_id where t.{_IS_NEW} order by t.id limit ?",
        (TURNS_AT_ONCE,),
    )
    written = {
        turn_id: _written_ids(uid, agent, native_id) if is_ours else set[str]()
        for turn_id, uid, agent, native_id, is_ours in new
    }
    db.executemany(
        "insert or ignore into written_turns(turn_id, key) values (?, ?)",
        # Also a turn without an id gets a row: the greatest id here says how far all are indexed.
        [(turn_id, key) for turn_id, each in written.items() for key in (map(_key, each) if each else [NO_KEY])],
    )
    # Both directions: the copy may have come before its original, or after it.
    read = [native_id for *_, native_id, is_ours in new if is_ours and native_id and ids.may_be_written(native_id)]
    return _unite(db, [*read, *_read_before(db, {native_id for each in written.values() for native_id in each})])


def known_as(db: apsw.Connection, session_id: int, read: Iterable[Turn]) -> dict[str, str]:
    """The uids that turns of a log which we wrote have in their session, by those they were read under."""
    own = {turn.native_id: turn.uid for turn in read if turn.native_id and ids.may_be_written(turn.native_id)}
    if not own:
        return {}
    rows = fetch(
        db,
        tuple[str, str],
        "select native_id, uid from turns where session_id = ? and native_id in (select value from json_each(?))",
        (session_id, schema.json_list(own)),
    )
    return {own[native_id]: uid for native_id, uid in rows if own[native_id] != uid}


def is_settled(db: apsw.Connection) -> bool:
    """Return True if ``settle`` has nothing to do."""
    return not db.execute(HAS_ANY).get or not db.execute(f"select exists (select 1 from turns where {_IS_NEW})").get


def unknown(db: apsw.Connection) -> dict[str, str]:
    """The uids of turns from logs that we may have written and of whose originals nothing is known, by their ids there.

    Mostly there are none.
    """
    asked = f"select native_id, uid from turns where {_IS_WRITTEN.format(turn='')}"
    rows = fetch(db, tuple[str, str], asked) if db.execute(HAS_ANY).get else []
    return {native_id: uid for native_id, uid in rows if uid == ids.turn_uid("", native_id)}


def uids_of(db: apsw.Connection, native_ids: Iterable[str]) -> dict[str, str]:
    """The uids that turns with these ids have here, as far as they are here, or what they were written of."""
    rows = fetch(
        db,
        tuple[str, str],
        "select t.native_id, t.uid from json_each(?) j cross join turns t on t.native_id = j.value "
        f"join sessions s on s.id = t.session_id where {_IS_WRITTEN.format(turn='t.')} and s.elsewhere is null",
        (schema.json_list(native_ids),),
    )
    return dict(rows)


def rename_all(db: apsw.Connection, uids: Mapping[str, str]) -> None:
    """Change the uids of turns."""
    for old, new in uids.items():
        rename(db, old, new)


def rename(db: apsw.Connection, old: str, new: str) -> None:
    """Change the uid of a turn, wherever it is; it keeps the ids that it has in logs that were written before."""
    turns.rename(db, old, new)
    db.execute(
        "insert or ignore into written_turns(turn_id, key) select id, ? from turns where uid = ? "
        # One that is not indexed yet will be, with its new uid.
        "and id <= (select max(turn_id) from written_turns)",
        (_key(ids.written_turn_id(new)), new),
    )


def _read_before(db: apsw.Connection, native_ids: Iterable[str]) -> list[str]:
    """Those of these ids that turns of logs have which are here."""
    rows = fetch(
        db,
        tuple[str],
        "select distinct t.native_id from json_each(?) j cross join turns t on t.native_id = j.value "
        f"join sessions s on s.id = t.session_id where {_IS_WRITTEN.format(turn='t.')} and s.elsewhere is null",
        (schema.json_list(native_ids),),
    )
    return [native_id for (native_id,) in rows]


def _unite(db: apsw.Connection, native_ids: Iterable[str]) -> set[str]:
    """Give turns with these ids the uids of those that they were written of, as far as these are here; returns them."""
    found = set[str]()
    for native_id in native_ids:
        original = _original(db, native_id)
        if original is not None:
            rename(db, ids.turn_uid("", native_id), original)
            found.add(original)
    return found


def _original(db: apsw.Connection, native_id: str) -> str | None:
    """The uid of the turn that one with this id was written of."""
    rows = fetch(
        db,
        tuple[str, str, str | None],
        "select t.uid, t.agent, t.native_id from written_turns k cross join turns t on t.id = k.turn_id "
        f"where k.key = ? order by {is_written('t')}, t.id",
        (_key(native_id),),
    )
    # The key is 31 bits of the id, so several turns may have it.
    return next((row[0] for row in rows if native_id in _written_ids(*row)), None)


def _written_ids(uid: str, agent: str, native_id: str | None) -> set[str]:
    """The ids that a turn has in logs we write, or had before it got its uid."""
    # A log may have been written of the turn before it was known to be a run's.
    uids = {uid, *([ids.turn_uid(agent, native_id)] if native_id else [])}
    return {ids.written_turn_id(each) for each in uids}


def _key(native_id: str) -> int:
    """The end of a UUID, which is random, as a number that takes little room; what has it is compared."""
    return int(native_id[-KEY_DIGITS:], 16) & KEY_MASK
