"""Writing what was read from a log: bytes, numbers, turns, events and what is derived, in one transaction.

A slice is written only if the log still ends where its reader started from; otherwise somebody else was
faster, and the slice is thrown away to be read again. Functions take the connection, never commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from backstory import ids
from backstory.conversation.compact import compact_event
from backstory.derive import index_text
from backstory.derive.facts import Found
from backstory.derive.remotes import repository_name
from backstory.model import Event, LogIdentity, Relation, SessionFacts, Turn, event_to_json
from backstory.store import claims, codec, derived_tables, logs, titles, turns
from backstory.store.logs import Chunk, Run, SeenPlace

if TYPE_CHECKING:
    import apsw

FIRST_EVENT_ID = 1
Place = tuple[int, int]
"""Of an event: its record's number, and which event of the record it is."""
Text = tuple[int, int, str | None, str]
"""What is searched of an event: the event's id, its record's number, the scope, the text."""


class NewEvent(Struct, frozen=True):
    """An event on its way into the store: its compact form packed, its text ready for the index."""

    seq: int
    part: int
    turn_uid: str | None
    at: int | None
    kind: str
    data: bytes
    char_len: int
    position: int | None
    length: int | None
    scope: str | None
    text: str


def packed(
    event: Event, seq: int, part: int, turn_uid: str | None, at: int | None, position: int | None, length: int | None
) -> NewEvent:
    """An event made ready for the store."""
    scope, text = index_text.searchable(event) or (None, "")
    return NewEvent(
        seq, part, turn_uid, at, event.kind, codec.shipped_codec().pack(event_to_json(compact_event(event))),
        index_text.char_len(event), position, length, scope, index_text.index_text(text, scope),
    )  # fmt: skip


class LogSlice(Struct, kw_only=True):
    """A piece of one log, read and understood, with the state of the store that it was read against."""

    agent: str
    identity: LogIdentity
    session_uid: str
    created: int
    kind: str = "file"
    relpath: str
    path: str
    modified: int | None = None
    place: SeenPlace | None = None
    project: str | None = None
    root: str | None = None

    log_id: int | None
    expected_read_to: int
    """Where it begins: behind what was kept when the reader started, or, where its bytes are, behind what was told."""
    expected_next_seq: int
    """What the store said when the reader started; a different answer now means that the slice is stale."""
    undo_from: int | None = None
    """Events of this log from this offset on were provisional and are replaced."""
    matched: bool = False
    """Its records may be ones that another log of the session already holds."""

    read_to: int
    parsed_to: int
    tail_seq: int | None
    next_seq: int
    generation: int
    first_hash: str | None
    tail_hash: str
    state: bytes
    pending: bytes | None = None
    """Calls whose results had not come at ``parsed_to``; see ``deriver``."""
    chunks: list[Chunk] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    """The numbers of its records; not of one that may still grow."""
    tail_run: Run | None = None
    """The number of that one, if it is told for the time being."""
    events: list[NewEvent] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    """The last thing said in each turn, by its uid."""
    found: Found = field(default_factory=Found)
    facts: SessionFacts
    last_active: int | None = None
    has_reported: bool = False
    """Whether it reports of subagents, whose own logs may not be there."""
    is_told: bool = True
    """Whether it is understood; else its bytes alone are kept, to be told from the store later."""
    is_kept: bool = False
    """Whether its bytes are in the store already, behind ``told_to``: only what they say is new."""

    @property
    def length(self) -> int:
        """How many bytes it tells of."""
        return self.read_to - self.expected_read_to


class Written(Struct, frozen=True, kw_only=True):
    """What became of a slice: the log's id, or the reason why it was not taken."""

    log_id: int | None = None
    session_id: int | None = None
    session_is_new: bool = False
    turn_uids: tuple[str, ...] = ()
    """The turns that it told of."""
    refused: str | None = None


UNTRUSTED = "elsewhere is not null and owner is null"
"""A session that was taken from a store which nobody has trusted since."""
STALE = "changed by another process"
FORGOTTEN = "forgotten"
EMPTY = "empty"
NOT_UNDERSTOOD = "not_understood"


class Waiting(Struct):
    """Texts of events that were stored, to be indexed when nothing else is left to write.

    Any statement that may fail half-way makes FTS5 write what it holds as a segment of its own, and it has room for
    no more than 2,000: texts that go in one after the other become one segment, however many sessions they are of.
    """

    texts: list[tuple[int, list[Text]]] = field(default_factory=list)

    def index(self, db: apsw.Connection) -> None:
        """Put all of them into the index."""
        for session_id, texts in self.texts:
            index_texts(db, session_id, texts)
        self.texts.clear()


def write(db: apsw.Connection, piece: LogSlice, waiting: Waiting) -> Written:
    """Store one slice, or say why not. Its texts are left in ``waiting``, for the caller to index."""
    if piece.undo_from is not None or piece.matched:
        # What this slice takes back must not be indexed afterwards.
        waiting.index(db)
    if db.execute(
        "select 1 from forgotten where substr(uid, 11) = ?", (ids.session_identity(piece.session_uid),)
    ).fetchone():
        return Written(refused=FORGOTTEN)
    _drop_taken(db, ids.session_identity(piece.session_uid))
    session = db.execute(
        "select id, next_seq from sessions where substr(uid, 11) = ?", (ids.session_identity(piece.session_uid),)
    ).fetchone()
    session_id, next_seq = session or (None, 1)
    if (piece.is_told and next_seq != piece.expected_next_seq) or not _log_is_as_expected(db, piece):
        return Written(refused=STALE)
    if session_id is None:
        session_id = _insert_session(db, piece)
    log_id = piece.log_id or _insert_log(db, session_id, piece)
    if not piece.is_told:
        _keep_untold(db, log_id, piece)
        return Written(log_id=log_id, session_id=session_id, session_is_new=session is None)
    _clear_replaced(db, session_id, log_id, piece)
    turn_ids = _write_turns(db, session_id, piece)
    event_ids = insert_events(db, session_id, log_id, piece.events, turn_ids, waiting)
    turns.note_answers(db, turn_ids, piece.answers)
    _note_told(db, log_id, piece)
    if not piece.is_kept:
        _keep_bytes(db, log_id, piece)
    _update_session(db, session_id, piece)
    if piece.created:
        note_created(db, session_id, log_id, piece.created)
    derived_tables.write(db, session_id, piece.found, turn_ids, event_ids)
    titles.note(db, log_id, piece.found)
    is_new = session is None
    return Written(log_id=log_id, session_id=session_id, session_is_new=is_new, turn_uids=tuple(turn_ids))


def without_words(piece: LogSlice) -> LogSlice:
    """The same bytes, without anything of what they say."""
    return LogSlice(
        agent=piece.agent, identity=piece.identity, session_uid=piece.session_uid, created=piece.created,
        relpath=piece.relpath, path=piece.path, modified=piece.modified, log_id=piece.log_id,
        expected_read_to=piece.expected_read_to, expected_next_seq=piece.expected_next_seq, read_to=piece.read_to,
        parsed_to=piece.expected_read_to, tail_seq=None, next_seq=piece.expected_next_seq, generation=piece.generation,
        first_hash=piece.first_hash, tail_hash=piece.tail_hash, state=b"", chunks=piece.chunks, facts=SessionFacts(),
        is_told=False,
    )  # fmt: skip


def _keep_untold(db: apsw.Connection, log_id: int, piece: LogSlice) -> None:
    """Keep bytes alone; all else that is known of the log stays as it was before them."""
    logs.insert_chunks(db, log_id, piece.chunks)
    db.execute(
        "update logs set relpath = ?, path = ?, modified = ?, first_hash = coalesce(first_hash, ?), tail_hash = ?, "
        "read_to = ?, told_to = coalesce(told_to, ?), gone = null, frames = frames + ? where id = ?",
        (
            piece.relpath, piece.path, piece.modified, piece.first_hash, piece.tail_hash, piece.read_to,
            piece.expected_read_to, _small_chunks(piece), log_id,
        ),
    )  # fmt: skip


def _small_chunks(piece: LogSlice) -> int:
    return sum(chunk.length < codec.CHUNK_BYTES for chunk in piece.chunks)


def _drop_taken(db: apsw.Connection, identity: str) -> None:
    """Remove what a store from elsewhere told of a session: the agent's own log of it is here now."""
    taken = db.execute(f"select id from sessions where substr(uid, 11) = ? and {UNTRUSTED}", (identity,)).get
    if taken is not None:
        delete_events(db, "session_id = ?", (taken,))
        db.execute("delete from sessions where id = ?", (taken,))


def _write_turns(db: apsw.Connection, session_id: int, piece: LogSlice) -> dict[str, int]:
    """Store a slice's turns; gives their ids by uid, under those that their log gives them and those they have here."""
    renamed = claims.renamed(db, session_id, piece)
    turn_ids = turns.upsert(db, session_id, [claims.renamed_turn(turn, renamed) for turn in piece.turns])
    return turn_ids | {old: turn_ids[new] for old, new in renamed.items() if new in turn_ids}


def _log_is_as_expected(db: apsw.Connection, piece: LogSlice) -> bool:
    if piece.log_id is not None:
        now = db.execute("select read_to, told_to from logs where id = ?", (piece.log_id,)).fetchone()
        if now is None:
            return False
        read_to, told_to = now
        # Records are told one after the other: nothing is told behind what is not.
        is_next = told_to is not None if piece.is_kept else told_to is None or not piece.is_told
        return is_next and (told_to if piece.is_kept else read_to) == piece.expected_read_to
    taken = db.execute(
        "select 1 from logs where agent = ? and native_id = ? and generation >= ? and kind = 'file'",
        (piece.agent, piece.identity.native_id, piece.generation),
    ).fetchone()
    return taken is None


def _insert_session(db: apsw.Connection, piece: LogSlice) -> int:
    db.execute(
        "insert into sessions(uid, created, native_id) "
        "values (?, strftime('%Y-%m-%dT%H:%M:%fZ', ? / 1000.0, 'unixepoch'), ?)",
        (piece.session_uid, _created(piece), piece.identity.native_id),
    )
    session_id = db.last_insert_rowid()
    if piece.identity.relation == Relation.UNREAD:
        db.execute("update sessions set relation = ? where id = ?", (Relation.UNREAD, session_id))
    db.execute(
        "update sessions set parent_id = ? where parent_identity = ? and parent_id is null",
        (session_id, ids.session_identity(piece.session_uid)),
    )
    return session_id


def _insert_log(db: apsw.Connection, session_id: int, piece: LogSlice) -> int:
    db.execute(
        "insert into logs(session_id, agent, kind, native_id, generation) values (?, ?, ?, ?, ?)",
        (session_id, piece.agent, piece.kind, piece.identity.native_id, piece.generation),
    )
    return db.last_insert_rowid()


def _clear_replaced(db: apsw.Connection, session_id: int, log_id: int, piece: LogSlice) -> None:
    """Remove the events that this slice tells anew: an unfinished last record's, or another log's of the session."""
    if piece.undo_from is not None:
        delete_events(db, "log_id = ? and session_id = ? and position >= ?", (log_id, session_id, piece.undo_from))
        db.execute("delete from numbers where log_id = ? and start >= ?", (log_id, piece.undo_from))
    if piece.matched:
        for seq in sorted({event.seq for event in piece.events}):
            delete_events(db, "session_id = ? and seq = ?", (session_id, seq))


def delete_events(db: apsw.Connection, where: str, values: tuple[object, ...]) -> None:
    """Delete events and what the index holds of them; ``where`` is a condition on events."""
    db.execute(f"delete from search_index where rowid in (select id from events where {where})", values)
    db.execute(f"delete from events where {where}", values)


def insert_events(
    db: apsw.Connection,
    session_id: int,
    log_id: int | None,
    new: list[NewEvent],
    turn_ids: dict[str, int],
    waiting: Waiting | None = None,
) -> dict[Place, int]:
    """Store events and index their texts; gives their ids by (seq, part). ``turn_ids``: turns.id by turn uid.

    With ``waiting`` the texts are left there.
    """
    if not new:
        return {}
    first_id = next_event_id(db)
    db.executemany(
        "insert into events(id, session_id, seq, part, turn_id, at, kind, data, char_len, log_id, position, length) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                first_id + n, session_id, e.seq, e.part, turn_ids.get(e.turn_uid) if e.turn_uid else None,
                e.at, e.kind, e.data, e.char_len, log_id, e.position, e.length,
            )
            for n, e in enumerate(new)
        ],
    )  # fmt: skip
    texts: list[Text] = [(first_id + n, e.seq, e.scope, e.text) for n, e in enumerate(new) if e.scope]
    if waiting is None:
        index_texts(db, session_id, texts)
    else:
        waiting.texts.append((session_id, texts))
    return {(e.seq, e.part): first_id + n for n, e in enumerate(new)}


def next_event_id(db: apsw.Connection) -> int:
    """An id that no event ever had: the index may still hold rows of events that other programs deleted."""
    last = db.execute("select seq from sqlite_sequence where name = 'events'").fetchone()
    return int(last[0]) + 1 if last else FIRST_EVENT_ID


def index_texts(db: apsw.Connection, session_id: int, texts: list[Text]) -> None:
    """Put texts of events into the search index."""
    db.executemany(
        "insert into search_index(rowid, content, session_id, source_type, source_id, scope) "
        "values (?, ?, ?, null, ?, ?)",
        [(event_id, text, session_id, seq, scope) for event_id, seq, scope, text in texts],
    )


def _note_told(db: apsw.Connection, log_id: int, piece: LogSlice) -> None:
    """Note how its records are numbered, and where the reader stands."""
    logs.insert_runs(db, log_id, piece.runs)
    if piece.tail_run is not None:
        logs.insert_tail_run(db, log_id, piece.tail_run)
    # What an earlier version derived of a log stays to be derived anew when more of the log comes.
    db.execute(
        "update logs set first_hash = ?, parsed_to = ?, tail_seq = ?, state = ?, pending = ?, "
        "derived = min(?, iif(parsed_to = 0, ?, derived)), "
        "told_to = case when told_to is not null and ? < read_to then ? end where id = ?",
        (
            piece.first_hash, piece.parsed_to, piece.tail_seq, codec.pack_chunk(piece.state),
            codec.pack_chunk(piece.pending) if piece.pending else None, derived_tables.VERSION,
            derived_tables.VERSION, piece.read_to, piece.read_to, log_id,
        ),
    )  # fmt: skip


def _keep_bytes(db: apsw.Connection, log_id: int, piece: LogSlice) -> None:
    logs.insert_chunks(db, log_id, piece.chunks)
    db.execute(
        "update logs set relpath = ?, path = ?, modified = ?, tail_hash = ?, read_to = ?, gone = null, "
        "frames = frames + ? where id = ?",
        (piece.relpath, piece.path, piece.modified, piece.tail_hash, piece.read_to, _small_chunks(piece), log_id),
    )
    if db.execute("select frames from logs where id = ?", (log_id,)).get >= logs.FRAMES_MAX:
        logs.fold(db, log_id, idle=False)
    if piece.place is not None:
        place = piece.place
        logs.remember_place(
            db,
            logs.SeenPlace(
                path=place.path, agent=place.agent, log_id=log_id, device=place.device,
                inode=place.inode, size=place.size, mtime_ns=place.mtime_ns, ctime_ns=place.ctime_ns,
                reason=place.reason,
            ),
        )  # fmt: skip


def note_created(db: apsw.Connection, session_id: int, log_id: int, created_ms: int) -> None:
    """Note when a session began: with the first record of its first log, or a prompt that was logged behind it.

    Its uid keeps the time that it was made with.
    """
    db.execute(
        "update sessions set created = began.at from (select strftime('%Y-%m-%dT%H:%M:%fZ', "
        "min(?1, coalesce(min(started), ?1)) / 1000.0, 'unixepoch') as at from turns where session_id = ?2) as began "
        "where id = ?2 and owner is null and created <> began.at "
        "and ?3 = (select min(id) from logs where session_id = ?2)",
        (created_ms, session_id, log_id),
    )


def _created(piece: LogSlice) -> int:
    return piece.created or ids.time_of(piece.session_uid)


def _update_session(db: apsw.Connection, session_id: int, piece: LogSlice) -> None:
    facts = piece.facts
    if piece.identity.parent_native_id is not None:
        _link_parent(db, session_id, piece)
    if ids.time_of(piece.session_uid):
        # A log may begin with records that have no time: it is known from the first that has one.
        db.execute(
            "update sessions set uid = ?, created = strftime('%Y-%m-%dT%H:%M:%fZ', ? / 1000.0, 'unixepoch') "
            "where id = ? and substr(uid, 1, 10) = '0000000000'",
            (piece.session_uid, _created(piece), session_id),
        )
    db.execute(
        "update sessions set next_seq = ?, title = coalesce(?, title), cwd = coalesce(cwd, ?), "
        "branch = coalesce(?, branch), repository = coalesce(?, repository, ?), project = coalesce(project, ?), "
        "root = coalesce(root, ?), "
        "last_active = max(coalesce(last_active, 0), coalesce(?, last_active, ?)) where id = ?",
        (
            piece.next_seq, facts.title, facts.cwd, facts.branch, repository_name(facts.repository),
            repository_name(piece.project), piece.project, piece.root, piece.last_active, _created(piece), session_id,
        ),
    )  # fmt: skip
    if facts.title:
        titles.note_own(db, session_id)
    derived_tables.note_branches(db, session_id, facts.branches)
    if piece.turns:
        claims.take_usage(db, session_id)
        turns.sum_up(db, session_id)
    turns.follow(db, session_id, facts.leaf)


def _link_parent(db: apsw.Connection, session_id: int, piece: LogSlice) -> None:
    """Note the session that a log says its own comes from. The record that says so may come after the first slice."""
    parent = ids.session_identity(ids.session_uid(piece.agent, piece.identity.parent_native_id or "", 0))
    db.execute(
        "update sessions set parent_identity = ?1, relation = ?2, "
        "parent_id = (select p.id from sessions p where substr(p.uid, 11) = ?1) "
        "where id = ?3 and (parent_identity is not ?1 or relation is not ?2)",
        (parent, piece.identity.relation, session_id),
    )
