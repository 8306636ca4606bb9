"""A session told again from the bytes that are kept: what is derived, and if wanted its events. Never commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from backstory.derive.facts import Found
from backstory.derive.remotes import repository_name
from backstory.model import AssistantText, At, SessionFacts, Turn, UserMessage, event_from_json
from backstory.store import claims, codec, derived_tables, sidecars, slices, titles, turns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw


_TOLD_END = "coalesce(told_to, read_to)"


class Retold(Struct, kw_only=True):
    """A piece of a log that was read again: its events under the numbers that its records have."""

    session_id: int
    log_id: int
    told_end: int
    """Where what was told of the log ended when it was read; when more was since, its state is not replaced."""
    is_last: bool = False
    events: list[slices.NewEvent] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    found: Found = field(default_factory=Found)
    facts: SessionFacts | None = None
    created: int = 0
    """When the session began, as the log says; 0 where it does not."""
    state: bytes | None = None
    """Of the adapter, behind the last whole record; None where there is none."""
    pending: bytes | None = None


def sessions(db: apsw.Connection, *, only_stale: bool) -> list[int]:
    """The sessions to derive again: all, or those with a log that an earlier version derived."""
    stale = "where exists (select 1 from logs where session_id = s.id and derived < ?)" if only_stale else "where ? > 0"
    rows = db.execute(f"select s.id from sessions s {stale} order by s.id", (derived_tables.VERSION,))
    return [int(str(found)) for (found,) in rows]


def clear(db: apsw.Connection, session_id: int) -> None:
    """Remove what is derived of a session; its logs say that it is to be derived."""
    derived_tables.clear(db, session_id)
    titles.clear(db, session_id)
    db.execute("delete from turn_texts where turn_id in (select id from turns where session_id = ?)", (session_id,))
    db.execute("update logs set derived = 0 where session_id = ?", (session_id,))


def drop_logs(db: apsw.Connection, log_ids: Sequence[int], in_favour_of: int) -> None:
    """Remove logs whose records another one of the session holds, too; what lies beside them goes on with that."""
    for log_id in log_ids:
        session = db.execute("select session_id from logs where id = ?", (log_id,)).get
        db.execute("update log_places set log_id = ? where log_id = ?", (in_favour_of, log_id))
        slices.delete_events(db, "session_id = ? and log_id = ?", (session, log_id))
        sidecars.move(db, log_id, in_favour_of)
        db.execute("delete from logs where id = ?", (log_id,))


def drop_reported(db: apsw.Connection, log_id: int) -> None:
    """Remove a log that was made of what another one reports; if it was its session's only one, with all it told."""
    session_id = db.execute("select session_id from logs where id = ?", (log_id,)).get
    slices.delete_events(db, "session_id = ? and log_id = ?", (session_id, log_id))
    db.execute("delete from logs where id = ?", (log_id,))
    if not db.execute("select exists (select 1 from logs where session_id = ?)", (session_id,)).get:
        clear(db, session_id)
        db.execute("delete from turns where session_id = ?", (session_id,))
        # Its records are numbered as where this log had never been.
        db.execute("update sessions set next_seq = 1, leaf_uid = null, leaf_seq = null where id = ?", (session_id,))


def write(db: apsw.Connection, piece: Retold, *, events_too: bool) -> None:
    """Store a piece that was told again."""
    renamed = claims.known_as(db, piece.session_id)
    if events_too:
        turns.upsert(db, piece.session_id, [claims.renamed_turn(turn, renamed) for turn in piece.turns])
    turn_ids = _turn_ids(db, piece.session_id, renamed)
    if events_too:
        for seq in sorted({event.seq for event in piece.events}):
            slices.delete_events(db, "session_id = ? and seq = ?", (piece.session_id, seq))
        slices.insert_events(db, piece.session_id, piece.log_id, piece.events, turn_ids)
    else:
        _index(db, piece)
    turns.note_answers(db, turn_ids, {uid: text for uid, text in piece.answers.items() if uid in turn_ids})
    derived_tables.write(db, piece.session_id, piece.found, turn_ids)
    titles.note_again(db, piece.session_id, piece.log_id, piece.found)
    if piece.is_last:
        _mark(db, piece, events_too=events_too)
        turns.sum_up(db, piece.session_id)


def write_unlogged(db: apsw.Connection, session_id: int) -> None:
    """Derive what events say that no log holds: the prompts of runs."""
    from backstory.derive.deriver import Deriver

    rows: list[Any] = db.execute(
        "select e.seq, e.part, e.at, e.data, t.uid, t.prompt from events e left join turns t on t.id = e.turn_id "
        "where e.session_id = ? and e.log_id is null order by e.seq, e.part",
        (session_id,),
    ).fetchall()
    deriver, codecs, answers = Deriver(), dict[int, codec.EventCodec](), dict[str, str]()
    for seq, part, at, data, turn_uid, prompt in rows:
        event = event_from_json(turns.unpack_event(db, codecs, data))
        whole = UserMessage(content=prompt) if isinstance(event, UserMessage) and prompt else event
        deriver.take(whole, At(seq, part, turn_uid, at), None)
        if isinstance(event, AssistantText) and turn_uid is not None:
            answers[turn_uid] = event.text
    turn_ids = _turn_ids(db, session_id, {})
    derived_tables.write(db, session_id, deriver.cut(None), turn_ids)
    turns.note_answers(db, turn_ids, answers)


def drop_turns_but(db: apsw.Connection, session_id: int, told: set[str], read: dict[int, int]) -> None:
    """Remove the turns of a session that today's adapter does not tell any more.

    Nothing is removed if a log is another one or longer than what was ``read``: another process told more meanwhile.
    """
    now: list[Any] = db.execute(f"select id, {_TOLD_END} from logs where session_id = ?", (session_id,)).fetchall()
    if dict(now) != read:
        return
    renamed = claims.known_as(db, session_id)
    kept = {renamed.get(uid, uid) for uid in told}
    rows: list[Any] = db.execute("select id, uid from turns where session_id = ?", (session_id,)).fetchall()
    db.executemany("delete from turns where id = ?", [(turn_id,) for turn_id, uid in rows if uid not in kept])
    turns.sum_up(db, session_id)


def rewound(db: apsw.Connection, session_id: int) -> frozenset[str]:
    """The uids of a session's turns that a rewind, or another branch, left behind; their records are kept.

    They are not on the way to where the session goes on, or their prompt is in its log no more: that was written anew
    without it, or cut short before it. Nothing is known of a session without a leaf.
    """
    leaf: str | None = db.execute("select leaf_uid from main.sessions where id = ?", (session_id,)).get
    rows: list[Any] = db.execute(
        "select uid, parent_uid from main.turns where session_id = ?", (session_id,)
    ).fetchall()
    parents: dict[str, str | None] = dict(rows)
    path, uid = set[str](), leaf
    while uid is not None and uid not in path:
        path.add(uid)
        uid = parents.get(uid)
    off = parents.keys() - path if leaf in parents else set[str]()
    gone: list[Any] = db.execute(_NOT_IN_LOG, (session_id,)).fetchall()
    return frozenset(off | {uid for (uid,) in gone})


_NOT_IN_LOG = """
select t.uid from main.turns t
join main.events e on e.session_id = t.session_id and e.seq = t.first_seq and e.turn_id = t.id
join main.logs l on l.id = e.log_id
where t.session_id = ? and l.kind = 'file' and (
  exists (select 1 from main.logs n where n.agent = l.agent and n.native_id = l.native_id and n.kind = 'file'
    and n.path = l.path and n.generation > l.generation)
  or exists (select 1 from main.log_places p where p.path = l.path and p.log_id = l.id and p.size < l.read_to
    and e.position >= p.size and p.path not like '%.zst'))
"""
"""Turns whose prompt was last told by a log that another generation took the place of, or behind its present end."""


def mark_gone(db: apsw.Connection, log_ids: list[int], now: int) -> int:
    """Note which logs' files are gone, and since when that is known; gives how many sessions have none left."""
    gone = set(log_ids)
    known: list[Any] = db.execute("select id, gone from logs where kind = 'file'").fetchall()
    db.executemany(
        "update logs set gone = ? where id = ?",
        [
            (now if log_id in gone else None, log_id)
            for log_id, since in known
            if (log_id in gone) != (since is not None)
        ],
    )
    return int(
        db.execute(
            "select count(*) from sessions s where s.owner is null "
            "and exists (select 1 from logs where session_id = s.id) "
            "and not exists (select 1 from logs where session_id = s.id and gone is null)"
        ).get
    )


def counts(db: apsw.Connection) -> dict[str, int]:
    """How many rows the store has, by what they are."""
    tables = {"sessions": "sessions", "turns": "turns", "events": "events", "files": "session_files",
              "refs": "session_refs", "checkpoints": "checkpoints"}  # fmt: skip
    return {name: int(db.execute(f"select count(*) from {table}").get) for name, table in tables.items()}


def _turn_ids(db: apsw.Connection, session_id: int, renamed: dict[str, str]) -> dict[str, int]:
    rows: list[Any] = db.execute("select uid, id from turns where session_id = ?", (session_id,)).fetchall()
    here: dict[str, int] = dict(rows)
    return here | {old: here[new] for old, new in renamed.items() if new in here}


def _index(db: apsw.Connection, piece: Retold) -> None:
    """Put the texts of events that are there into the index anew."""
    if not piece.events:
        return
    rows: list[Any] = db.execute(
        "select seq, part, id from events where session_id = ? and seq between ? and ?",
        (piece.session_id, min(e.seq for e in piece.events), max(e.seq for e in piece.events)),
    ).fetchall()
    event_ids = {(seq, part): event_id for seq, part, event_id in rows}
    told = [(event_ids[e.seq, e.part], e) for e in piece.events if (e.seq, e.part) in event_ids]
    db.executemany("delete from search_index where rowid = ?", [(event_id,) for event_id, _ in told])
    slices.index_texts(db, piece.session_id, [(event_id, e.seq, e.scope, e.text) for event_id, e in told if e.scope])


def _mark(db: apsw.Connection, piece: Retold, *, events_too: bool) -> None:
    if db.execute(f"select {_TOLD_END} from logs where id = ?", (piece.log_id,)).get != piece.told_end:
        # Another process read on meanwhile, and knows more; the next ingest derives the whole again.
        db.execute("update logs set derived = 0 where id = ?", (piece.log_id,))
        return
    pending = codec.pack_chunk(piece.pending) if piece.pending else None
    db.execute("update logs set derived = ?, pending = ? where id = ?", (derived_tables.VERSION, pending, piece.log_id))
    if events_too and piece.state is not None:
        db.execute("update logs set state = ? where id = ?", (codec.pack_chunk(piece.state), piece.log_id))
    if piece.created:
        slices.note_created(db, piece.session_id, piece.log_id, piece.created)
    if piece.facts is not None:
        derived_tables.note_branches(db, piece.session_id, piece.facts.branches)
    if events_too and piece.facts is not None:
        facts = piece.facts
        db.execute(
            "update sessions set title = coalesce(?, title), cwd = coalesce(cwd, ?), branch = coalesce(?, branch), "
            "repository = coalesce(?, repository) where id = ? and owner is null",
            (facts.title, facts.cwd, facts.branch, repository_name(facts.repository), piece.session_id),
        )
        if facts.title:
            titles.note_own(db, piece.session_id)
        turns.follow(db, piece.session_id, facts.leaf)
