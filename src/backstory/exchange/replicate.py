"""A session out of another store, or out of this one under another uid: its bytes, numbers, turns and events.

The other store is attached to this one's connection as ``source`` by the caller. Functions never commit.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory import ids
from backstory.derive import index_text
from backstory.derive.naming import repository_name
from backstory.errors import SessionDiverged, SessionNotFound, StoreDamaged
from backstory.exchange.copying import copy_rows
from backstory.lazy import lazy_module
from backstory.model import Parts, Relation, event_from_json
from backstory.store import codec, schema
from backstory.store.intake import claims, coverage, derived_tables, written
from backstory.store.schema import fetch, fetch_one
from backstory.store.tables import compactions, decisions, event_rows, lent, lineage, plan, sessions, turns
from backstory.store.tables.logs import COPY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import apsw

    from backstory.conversation.tree import Point
    from backstory.store.codec import EventCodec
    from backstory.store.moves import Moves
    from backstory.store.tables import pruned, side_texts
else:
    pruned = lazy_module("backstory.store.tables.pruned")
    side_texts = lazy_module("backstory.store.tables.side_texts")

EVENTS_AT_ONCE = 2_000

_OF_LOG = {
    "chunks": "log_id = :log and lender is null", "numbers": "log_id = :log", "sidecars": "log_id = :log",
}  # fmt: skip
"""The tables of a log's rows, and which of them are copied as they are."""
_OURS = ("owner", "number", "native_id", "parent_identity", "relation")
"""The columns that tell whose a session is, and whose relative."""


class Continuation(Struct, frozen=True, kw_only=True):
    """A session that goes on from another: its own uid, its owner and number."""

    uid: str
    owner: str
    number: int
    worktree: str | None = None
    """The worktree where it begins; None: where the other did."""


class Taken(Struct, frozen=True, kw_only=True):
    """Marks of a session from elsewhere: the store it was taken from, and the project that it lies in."""

    elsewhere: str
    project: str | None
    folder: str


def copy_session(db: apsw.Connection, source: str, uid: str, folders: Moves) -> None:
    """Copy a session that another store owns, as it is there, in place of our copy of it.

    What was decided later here stays. ``folders``: how the paths of the other store are to be read.
    Raises SessionDiverged, SessionNotFound.
    """
    known = fetch_one(
        db, tuple[int, str | None, str | None], "select id, owner, elsewhere from sessions where uid = ?", (uid,)
    )
    if known and (_is_anothers(db, source, known, uid) or _has_more(db, source, known[0], uid)):
        raise SessionDiverged(uid)
    if known and pruned.words_in(db, "main", known[0]) != pruned.words_in(db, source, _id_of(db, source, uid)):
        # Neither is what was pruned here filled from there, nor ours pruned because that one was.
        raise SessionDiverged(uid)
    mine = decisions.session_states(db, uids=[uid]).get(uid)
    other = decisions.session_states(db, source, uids=[uid]).get(uid)
    if other is None:
        raise SessionNotFound(uid)
    session_id = replace_session(db, source, uid, known)
    _place_here(db, session_id, folders)
    if mine is None or mine.is_borrowed:
        decided, known_turns = other.decided, other.turns
    else:
        decided, known_turns = plan.fitting(plan.merge(other, mine), other), mine.turns
    decisions.write(db, uid, decided, known_turns)
    if decided.values == other.decided.values and decided.leaf == other.decided.leaf:
        copy_count(db, source, uid, session_id)
    link_relatives(db, session_id, uid)
    for (turn_uid,) in db.execute("select uid from turns where session_id = ?", (session_id,)).fetchall():
        claims.link_run_to_log(db, session_id, str(turn_uid))
    lineage.link_copies(db, written.settle(db))


def copy_count(db: apsw.Connection, source: str, uid: str, session_id: int) -> None:
    """Take over how full a session's context is, once everything is here that this is counted from."""
    db.execute(
        "update sessions set (context_chars, context_limit) = "
        f"(select context_chars, context_limit from {source}.sessions where uid = ?) where id = ?",
        (uid, session_id),
    )


def replace_session(
    db: apsw.Connection, source: str, uid: str, known: Any, texts: event_rows.ReadyTexts | None = None
) -> int:
    """Put a session as another store has it in the place of ours; returns its id.

    ``texts``: where the other store has the texts of its events ready; the caller indexes them.
    """
    number = known and db.execute("select number from sessions where id = ?", (known[0],)).get
    if known:
        event_rows.delete_of_session(db, known[0])
        db.execute("delete from sessions where id = ?", (known[0],))
        lent.settle(db)
    old = _id_of(db, source, uid)
    # Two copies of one store may have given a number to a session each: the first to come has it here.
    is_taken = "exists (select 1 from main.sessions s where s.owner = o.owner and s.number = o.number)"
    at_most_one = {"number": f"iif({is_taken}, :number, number)"}
    copy_rows(db, source, "sessions", "id = :old", at_most_one, {"old": old, "number": number})
    session_id = db.last_insert_rowid()
    if known:
        db.execute("update sessions set elsewhere = ? where id = ?", (known[2], session_id))
    _copy_content(db, source, old, session_id, kind="kind", texts=texts)
    return session_id


def _place_here(db: apsw.Connection, session_id: int, folders: Moves) -> None:
    """Give a copied session the folders as they lie now."""
    was_covered = coverage.is_covered(db, session_id)
    if folders:
        copied = sessions.get(db, session_id)
        here = copied.moved(folders)
        if here is not copied:
            db.execute(
                "update sessions set project = ?, cwd = ?, worktree = ?, root = ? where id = ?",
                (here.project, here.cwd, here.worktree, here.root, session_id),
            )
            coverage.settle(db, session_id, was_covered=was_covered)


def link_relatives(db: apsw.Connection, session_id: int, uid: str) -> None:
    """Link a session that was copied to its parent and its children, as far as they are here."""
    db.execute(
        "update sessions set parent_id = ? where parent_identity = ? and parent_id is null",
        (session_id, ids.session_identity(uid)),
    )
    db.execute(
        "update sessions set parent_id = (select p.id from sessions p "
        "where substr(p.uid, 11) = sessions.parent_identity) where id = ? and parent_identity is not null",
        (session_id,),
    )


def _is_anothers(db: apsw.Connection, source: str, known: tuple[object, ...], uid: str) -> bool:
    """Return True if a session here only bears the uid of the other store's: one never replaces the other."""
    _, owner, elsewhere = known
    theirs = db.execute(f"select owner from {source}.sessions where uid = ?", (uid,)).get
    return owner != theirs and not (owner is None and elsewhere is not None)


def take_elsewhere(db: apsw.Connection, source: str, uid: str, origin: Taken) -> int:
    """Copy a session that is not here out of a store from elsewhere; gives its id.

    It is nobody's: it has no owner and no number, claims no log and is no relative of a session of ours. What people
    decided there is not copied, and its bytes are no log that one of ours could be taken for.
    """
    theirs, ours = (f"select id, sha256, data from {name}.dictionaries" for name in (source, "main"))
    if db.execute(f"select exists ({theirs} except {ours})").get:
        raise StoreDamaged(Path(origin.elsewhere), "its events are packed in a way that is not known here")
    old = _id_of(db, source, uid)
    copy_rows(db, source, "sessions", "id = :old", dict.fromkeys(_OURS, "null"), {"old": old})
    session_id = db.last_insert_rowid()
    _copy_content(db, source, old, session_id, kind=f"'{COPY}' || replace(kind, '{COPY}', '')")
    db.execute("delete from branches where session_id = ?", (session_id,))
    was_covered = coverage.is_covered(db, session_id)
    db.execute(
        "update sessions set name = '', elsewhere = ?, project = ?, repository = ?, worktree = ?, cwd = ?, root = ? "
        "where id = ?",
        (
            origin.elsewhere, origin.project, repository_name(origin.project), *[origin.folder] * 3,
            session_id,
        ),
    )  # fmt: skip
    coverage.settle(db, session_id, was_covered=was_covered)
    return session_id


def shared_turn(db: apsw.Connection, source: str, uid: str, elsewhere: str) -> bool:
    """Return True if a session of a store from elsewhere holds a turn that is known here from another place."""
    return bool(
        db.execute(
            f"select exists (select 1 from {source}.sessions o join {source}.turns t on t.session_id = o.id "
            "join turns h on h.uid = t.uid join sessions s on s.id = h.session_id "
            "where o.uid = ? and s.elsewhere is not ?)",
            (uid, elsewhere),
        ).get
    )


def _has_more(db: apsw.Connection, source: str, known: object, uid: str) -> bool:
    """Return True if a session has a turn here that it lacks there: an older copy does not replace a newer one."""
    return bool(
        db.execute(
            "select count(*) from turns where session_id = ? and outcome is not null and removed is null "
            f"and uid not in (select t.uid from {source}.turns t join {source}.sessions s on s.id = t.session_id "
            "where s.uid = ?)",
            (known, uid),
        ).get
    )


def continue_from(db: apsw.Connection, source: str, uid: str, new: Continuation, folders: Moves) -> int:
    """A new session of this store that begins with copies of another's turns; gives its id.

    ``folders``: how the paths of the other store are to be read.
    """
    old = _id_of(db, source, uid)
    ours = {
        "uid": new.uid, "owner": new.owner, "number": new.number, "relation": Relation.CONTINUATION.value,
        "parent_identity": ids.session_identity(uid), "native_id": None, "name": "",
    }  # fmt: skip
    copy_rows(db, source, "sessions", "id = :old", {name: f":{name}" for name in ours}, ours | {"old": old})
    session_id = db.last_insert_rowid()
    db.execute(
        "update sessions set parent_id = (select p.id from sessions p where p.uid = ?) where id = ?",
        (uid, session_id),
    )
    # A summary's title is the words of another log, and goes when that one is removed.
    db.execute(
        "update sessions set title = null where id = ? and exists "
        f"(select 1 from {source}.lent_titles where session_id = ?)",
        (session_id, old),
    )
    _copy_content(db, source, old, session_id, kind=f"'{COPY}' || replace(kind, '{COPY}', '')")
    _place_here(db, session_id, folders)
    if new.worktree is not None:
        db.execute("update sessions set worktree = ?, root = null where id = ?", (new.worktree, session_id))
    copy_count(db, source, uid, session_id)
    return session_id


def continuation_of(db: apsw.Connection, uid: str, holding: Point | None = None) -> int | None:
    """The session of this store that goes on from another, if there is one; the last active if there are several.

    ``holding``: only one that has this record, in this turn, for more may have come since it was made.
    """
    found = db.execute(
        "select s.id from sessions s where parent_identity = ? and relation = ? and owner is not null "
        "and (?3 is null or exists (select 1 from turns where session_id = s.id and uid = ?3 "
        "and ?4 between first_seq and last_seq and removed is null)) order by last_active desc limit 1",
        (
            ids.session_identity(uid), Relation.CONTINUATION, holding.uid if holding else None,
            holding.seq if holding else None,
        ),
    ).fetchone()  # fmt: skip
    return int(str(found[0])) if found else None


def _id_of(db: apsw.Connection, source: str, uid: str) -> int:
    found = db.execute(f"select id from {source}.sessions where uid = ?", (uid,)).fetchone()
    if found is None:
        raise SessionNotFound(uid)
    return int(str(found[0]))


def _copy_content(
    db: apsw.Connection,
    source: str,
    old: int,
    new: int,
    *,
    kind: str,
    texts: event_rows.ReadyTexts | None = None,
) -> None:
    db.execute(
        f"insert or ignore into dictionaries(id, sha256, data) select id, sha256, data from {source}.dictionaries"
    )
    log_ids = _copy_logs(db, source, old, new, kind)
    for table in ("turns", "branches", "compactions"):
        copy_rows(db, source, table, "session_id = :old order by id", {"session_id": ":new"}, {"old": old, "new": new})
    pairs = fetch(
        db,
        tuple[int, int],
        f"select o.id, n.id from {source}.turns o join turns n on n.uid = o.uid and n.session_id = ? "
        "where o.session_id = ?",
        (new, old),
    )
    turn_ids, is_covered = dict(pairs), coverage.is_covered(db, new)
    if is_covered:
        _copy_answers(db, source, old, new)
    _copy_events(db, source, old, new, log_ids, turn_ids, texts)
    turns.sum_up(db, new)
    compactions.index(db, new)
    # What an earlier version derived may be other columns: the next ingest derives it anew.
    version = db.execute(f"select value from {source}.meta where key = 'derived_version'").get
    if version == str(derived_tables.TABLES_VERSION) and (not is_covered or coverage.are_alike(db, source)):
        _copy_derived(db, source, old, new, is_covered=is_covered)
        # A store that was brought forward may still hold what an earlier version derived.
        db.execute(
            f"update logs set derived = (select min(min(derived), ?) from {source}.logs where session_id = ?) "
            "where session_id = ?",
            (derived_tables.VERSION, old, new),
        )


def _copy_logs(db: apsw.Connection, source: str, old: int, new: int, kind: str) -> dict[int, int]:
    """Copy the logs of a session with all that is theirs; returns their ids here by those there."""
    log_ids: dict[int, int] = {}
    for (log_id,) in db.execute(f"select id from {source}.logs where session_id = ? order by id", (old,)).fetchall():
        copy_rows(db, source, "logs", "id = :log", {"session_id": ":new", "kind": kind}, {"log": log_id, "new": new})
        copied = log_ids[int(str(log_id))] = db.last_insert_rowid()
        for table, where in _OF_LOG.items():
            copy_rows(db, source, table, where, {"log_id": ":copied"}, {"log": log_id, "copied": copied})
        lent.copy_whole(db, source, int(str(log_id)), copied)
        pruned.copy_log(db, source, int(str(log_id)), new, copied)
    pruned.copy_note(db, source, old, new)
    return log_ids


def _copy_answers(db: apsw.Connection, source: str, old: int, new: int) -> None:
    db.execute(
        f"insert into turn_texts(turn_id, answer) select n.id, x.answer from {source}.turns o "
        f"join {source}.turn_texts x on x.turn_id = o.id join turns n on n.uid = o.uid and n.session_id = ? "
        "where o.session_id = ?",
        (new, old),
    )


def _copy_events(
    db: apsw.Connection,
    source: str,
    old: int,
    new: int,
    log_ids: dict[int, int],
    turn_ids: dict[Any, Any],
    texts: event_rows.ReadyTexts | None,
) -> None:
    codecs: dict[int, EventCodec] = {}
    after, parts = (0, -1), Parts()
    while True:
        rows: list[tuple[Any, ...]] = db.execute(
            f"select {event_rows.COLUMNS}, id from {source}.events where session_id = ? and (seq, part) > (?, ?) "
            "order by seq, part limit ?",
            (old, *after, EVENTS_AT_ONCE),
        ).fetchall()
        if not rows:
            return
        first_id = event_rows.insert(
            db, new,
            [
                (row[0], parts.of(*row[:2]), turn_ids.get(row[2]), *row[3:7], log_ids.get(row[7]), *row[8:10])
                for row in rows
            ],
        )  # fmt: skip
        if texts is not None:
            texts.events.append((new, rows[0][-1], rows[-1][-1], first_id - rows[0][-1]))
        else:
            event_rows.index_texts(db, new, list(_texts_of(db, zip(count(first_id), rows), codecs)))
        after = (rows[-1][0], rows[-1][1])


def index_compact(db: apsw.Connection, uid: str) -> None:
    """Put the compact forms of a session's events into the index: it cannot be derived, so nothing of it is there."""
    found = db.execute(
        f"select e.id, e.session_id, {event_rows.COLUMNS} from events e where session_id = "
        "(select id from sessions where uid = ?) and e.id not in (select id from search_index_content)",
        (uid,),
    )
    rows: list[tuple[Any, ...]] = found.fetchall()
    for at in range(0, len(rows), EVENTS_AT_ONCE):
        some = rows[at : at + EVENTS_AT_ONCE]
        event_rows.index_texts(db, some[0][1], list(_texts_of(db, ((row[0], row[2:]) for row in some), {})))


def _texts_of(
    db: apsw.Connection, rows: Iterable[tuple[int, tuple[Any, ...]]], codecs: dict[int, EventCodec]
) -> Iterator[event_rows.Text]:
    for event_id, row in rows:
        event = event_from_json(codec.unpack_event(db, codecs, row[5]))
        scope, text = index_text.searchable(event, in_index=True) or (None, "")
        if scope is not None:
            yield event_id, int(row[0]), scope, index_text.index_text(text, scope)


def _copy_derived(db: apsw.Connection, source: str, old: int, new: int, *, is_covered: bool) -> None:
    db.execute(
        "insert or ignore into session_branches(session_id, branch) select ?, branch "
        f"from {source}.session_branches where session_id = ?",
        (new, old),
    )
    copy_rows(db, source, "session_values", "session_id = :old", {"session_id": ":new"}, {"old": old, "new": new})
    if not is_covered:
        return
    turn_of = (
        f"(select n.id from {source}.turns t join turns n on n.uid = t.uid "
        "where t.id = o.turn_id and n.session_id = :new)"
    )
    of, ids_ = "session_id = :old", {"new": new, "old": old}
    for table in ("session_files", "session_refs"):
        copy_rows(db, source, table, f"{of} order by id", {"session_id": ":new", "turn_id": turn_of}, ids_)
    copy_rows(db, source, "checkpoints", f"{of} order by id", {"session_id": ":new"}, ids_)
    side_texts.copy(db, source, old, new)
    db.execute(
        "insert into file_touches(file_id, seq, part, action, to_path) select n.id, t.seq, t.part, t.action, t.to_path "
        f"from {source}.session_files o join {source}.file_touches t on t.file_id = o.id "
        "join session_files n on n.session_id = ? and n.file_path = o.file_path where o.session_id = ?",
        (new, old),
    )
    db.execute(
        "insert or replace into call_results(call_id, result_id, is_error, exit_code) "
        "select nc.id, nr.id, x.is_error, x.exit_code "
        f"from {source}.events oc join {source}.call_results x on x.call_id = oc.id "
        f"join {source}.events r on r.id = x.result_id "
        "join events nc on nc.session_id = ?1 and nc.seq = oc.seq and nc.part = oc.part "
        "join events nr on nr.session_id = ?1 and nr.seq = r.seq and nr.part = r.part "
        f"where oc.session_id = ?2 and oc.kind in {schema.CALLS}",
        (new, old),
    )
