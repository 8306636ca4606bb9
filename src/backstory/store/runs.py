"""A run on its way into the store: its prompt, what it streamed, how it ended, piece by piece. Never commits.

A run's first piece begins its turn, the last one sets the outcome. A turn without an outcome was left by a
process that was killed between two; the next first piece of the same run takes its place.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from backstory.conversation.tree import Point
from backstory.errors import SessionNotFound, StoreRefused
from backstory.model import AssistantText, At, Complete, Error, Event, Outcome, Turn, UserMessage
from backstory.store import branches, claims, codec, derived_tables, logs, schema, slices, turns

if TYPE_CHECKING:
    import apsw


LOST = "lost"
"""Why a turn ended that ``orphans`` closed, as its stop_reason."""


class Output(Struct, kw_only=True):
    """A piece of what a run wrote to one of its outputs: the bytes from ``start`` on, and what its records say.

    A record is (offset in the output, length, events with their parts). Those without a number (deltas) have no
    row here; their bytes are kept all the same.
    """

    kind: str
    start: int
    data: bytes = b""
    records: list[tuple[int, int, list[tuple[int, Event]]]] = field(default_factory=list)


class End(Struct, frozen=True, kw_only=True):
    """How a run ended. ``error`` is why it failed where no event says so; it is stored as one."""

    at: int
    error: str | None = None
    was_told: bool = False
    """Whether the agent itself said that it was over."""
    unfinished: str = ""
    """Text of an answer that came in pieces and was cut off before any record told it whole."""


class RunPiece(Struct, kw_only=True):
    """A piece of a run that is over. ``turn`` holds all that is known of it so far but its numbers."""

    session_uid: str
    turn: Turn
    is_first: bool
    after: Point | None = None
    """The record that it follows; None: where the session goes on, which the store notes here."""
    outputs: list[Output] = field(default_factory=list)
    cwd: str | None = None
    """The folder it was run in."""
    prefix_chars: int = 0
    prefix_sha256: str | None = None
    end: End | None = None
    """Given with the last piece."""


def is_stored(db: apsw.Connection, session_uid: str, turn_uid: str) -> bool:
    """Whether the whole of a run is in the store; not, of one that was closed as lost, should it come after all."""
    return _ended(db, session_uid, turn_uid, "and t.stop_reason is not ?", LOST)


def has_ended(db: apsw.Connection, session_uid: str, turn_uid: str) -> bool:
    """Whether a run is over as far as the store knows, also one of which the rest is lost."""
    return _ended(db, session_uid, turn_uid)


def _ended(db: apsw.Connection, session_uid: str, turn_uid: str, condition: str = "", *values: str) -> bool:
    return bool(
        db.execute(
            "select count(*) from turns t join sessions s on s.id = t.session_id "
            f"where s.uid = ? and t.uid = ? and t.outcome is not null {condition}",
            (session_uid, turn_uid, *values),
        ).get
    )


def write(db: apsw.Connection, piece: RunPiece) -> bool:
    """Store a piece of a run as the newest turn of its session.

    False if nothing was written because all of it was stored before. Raises StoreRefused where the piece does not go
    on from what is here.
    """
    if is_stored(db, piece.session_uid, piece.turn.uid):
        return False
    session_id = db.execute("select id from sessions where uid = ?", (piece.session_uid,)).get
    if session_id is None:
        raise SessionNotFound(piece.session_uid)
    if piece.is_first:
        begun_before = _drop_unfinished(db, session_id, piece.turn.uid)
        _begin(db, session_id, piece, begun_before)
    elif not _goes_on(db, session_id, piece):
        raise StoreRefused(Path(db.filename), f"a part of run {piece.turn.uid} is missing before this one")
    turn_id, seq = _place_of(db, session_id, piece.turn)
    turn_ids = {piece.turn.uid: turn_id}
    for output in piece.outputs:
        seq = _write_output(db, session_id, turn_ids, piece, output, seq)
    if piece.end is not None:
        seq = _write_end(db, session_id, turn_ids, piece, piece.end, seq)
    piece.turn.last_seq = seq - 1
    turns.upsert(db, session_id, [piece.turn])
    _note_answer(db, turn_ids, piece)
    db.execute(
        "update sessions set next_seq = ?, last_active = coalesce(?, last_active), "
        f"{schema.running_id_column()} = ? where id = ?",
        (seq, piece.end.at if piece.end else None, "" if piece.end else piece.turn.native_id, session_id),
    )
    if piece.end is not None:
        claims.settle(db, session_id, piece.turn.uid)
    turns.sum_up(db, session_id)
    return True


def _goes_on(db: apsw.Connection, session_id: int, piece: RunPiece) -> bool:
    """Whether each output goes on where it ends here; one that words were told in comes in several parts."""
    kept: Any = db.execute(
        "select kind, read_to from logs where session_id = ? and turn_uid = ?", (session_id, piece.turn.uid)
    )
    ends: dict[str, int] = dict(kept)
    for output in piece.outputs:
        if ends.get(output.kind, 0) != output.start:
            return False
        ends[output.kind] = output.start + len(output.data)
    return True


def _drop_unfinished(db: apsw.Connection, session_id: int, turn_uid: str) -> Point | None:
    """Remove a turn that was begun and left; gives the record that it followed."""
    left: Any = db.execute(
        "select id, parent_uid, parent_seq from turns where session_id = ? and uid = ?", (session_id, turn_uid)
    ).fetchone()
    if left is None:
        return None
    turn_id, parent_uid, parent_seq = left
    slices.delete_events(db, "session_id = ? and turn_id = ?", (session_id, turn_id))
    db.execute("delete from logs where session_id = ? and turn_uid = ?", (session_id, turn_uid))
    db.execute("delete from turns where id = ?", (turn_id,))
    db.execute(
        "update sessions set next_seq = 1 + max(coalesce((select max(seq) from events where session_id = ?1), 0), "
        "coalesce((select max(last_seq) from turns where session_id = ?1), 0)) where id = ?1",
        (session_id,),
    )
    turns.sum_up(db, session_id)
    return None if parent_uid is None else Point(parent_uid, parent_seq)


def _begin(db: apsw.Connection, session_id: int, piece: RunPiece, begun_before: Point | None) -> None:
    """The turn, after what it followed before, what it was told to follow or where the session goes on; its prompt."""
    turn = piece.turn
    seq = int(db.execute("select next_seq from sessions where id = ?", (session_id,)).get)
    piece.after = begun_before or piece.after or branches.leaf(db, session_id)
    if piece.after is not None:
        turn.parent_uid, turn.parent_seq = piece.after.uid, piece.after.seq
    turn.first_seq = turn.last_seq = seq
    # With a run what was checked out is over: the next prompt follows the run.
    db.execute("update sessions set next_seq = ?, leaf_seq = null where id = ?", (seq + 1, session_id))
    turn_ids = turns.upsert(db, session_id, [turn])
    db.execute(
        "update turns set prefix_chars = ?, prefix_sha256 = ? where id = ?",
        (piece.prefix_chars, piece.prefix_sha256, turn_ids[turn.uid]),
    )
    from backstory.derive.deriver import Deriver  # needed only when the agent has ended

    prompt = UserMessage(content=turn.prompt)
    packed = slices.packed(prompt, seq, 0, turn.uid, turn.started, None, None)
    slices.insert_events(db, session_id, None, [packed], turn_ids)
    deriver = Deriver()
    deriver.take(prompt, At(seq, 0, turn.uid, turn.started), piece.cwd)
    derived_tables.write(db, session_id, deriver.cut(piece.cwd), turn_ids)


def _place_of(db: apsw.Connection, session_id: int, turn: Turn) -> tuple[int, int]:
    """The id of a turn that has begun, and the number its next record gets; the turn learns what the store gave it."""
    row: Any = db.execute(
        "select t.id, t.first_seq, t.parent_uid, t.parent_seq, s.next_seq from turns t "
        "join sessions s on s.id = t.session_id where t.session_id = ? and t.uid = ?",
        (session_id, turn.uid),
    ).fetchone()
    turn_id, turn.first_seq, turn.parent_uid, turn.parent_seq, next_seq = row
    return int(turn_id), int(next_seq)


def _write_output(
    db: apsw.Connection, session_id: int, turn_ids: dict[str, int], piece: RunPiece, output: Output, seq: int
) -> int:
    """Keep the bytes and store what they say; gives the next number."""
    from backstory.derive.deriver import Deriver

    log_id = _log_of(db, session_id, piece.turn, output, piece.cwd)
    size = codec.CHUNK_BYTES
    chunks = [logs.pack(output.start + at, output.data[at : at + size]) for at in range(0, len(output.data), size)]
    logs.insert_chunks(db, log_id, chunks)
    runs: list[logs.Run] = []
    new: list[slices.NewEvent] = []
    deriver = Deriver(logs.pending(db, log_id))
    for position, length, events in output.records:
        stop = position + length + 1
        if runs and runs[-1].takes(position, seq):
            runs[-1].records, runs[-1].stop = runs[-1].records + 1, stop
        else:
            runs.append(logs.Run(position, stop, seq, 1))
        for part, event in events:
            new.append(slices.packed(event, seq, part, piece.turn.uid, None, position, length))
            deriver.take(event, At(seq, part, piece.turn.uid, None), piece.cwd)
        seq += 1
    end = output.start + len(output.data)
    if runs:
        # The last record of all may lack its end.
        runs[-1].stop = min(runs[-1].stop, end)
    logs.insert_runs(db, log_id, runs)
    slices.insert_events(db, session_id, log_id, new, turn_ids)
    derived_tables.write(db, session_id, deriver.cut(piece.cwd), turn_ids)
    waiting = deriver.state()
    tail = logs.read(db, log_id, max(end - logs.TAIL_BYTES, 0), logs.TAIL_BYTES)
    db.execute(
        "update logs set read_to = ?, parsed_to = ?, tail_hash = ?, frames = 1, native_id = ?, pending = ?, "
        "derived = ? where id = ?",
        (
            end, end, codec.text_digest(tail), piece.turn.native_id, codec.pack_chunk(waiting) if waiting else None,
            derived_tables.VERSION, log_id,
        ),
    )  # fmt: skip
    return seq


def _log_of(db: apsw.Connection, session_id: int, turn: Turn, output: Output, cwd: str | None) -> int:
    found = db.execute(
        "select id from logs where session_id = ? and turn_uid = ? and kind = ?", (session_id, turn.uid, output.kind)
    ).get
    if found is None:
        db.execute(
            "insert into logs(session_id, turn_uid, agent, kind, native_id, relpath, modified, cwd) "
            "values (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                session_id, turn.uid, turn.agent, output.kind, turn.native_id, f"runs/{turn.uid}.{output.kind}",
                turn.ended, cwd,
            ),
        )  # fmt: skip
        found = db.last_insert_rowid()
    return int(found)


def _write_end(
    db: apsw.Connection, session_id: int, turn_ids: dict[str, int], piece: RunPiece, end: End, seq: int
) -> int:
    """What no record of the agent's says: why it failed, and that it is over; gives the next number."""
    turn = piece.turn
    new: list[Event] = [AssistantText(text=end.unfinished)] if end.unfinished else []
    new += [Error(message=end.error)] if end.error is not None else []
    if not end.was_told:
        success = turn.outcome == Outcome.COMPLETED
        new.append(Complete(success=success, duration_ms=turn.duration_ms, cost_usd=turn.cost_usd))
    told = [slices.packed(event, seq + n, 0, turn.uid, end.at, None, None) for n, event in enumerate(new)]
    slices.insert_events(db, session_id, None, told, turn_ids)
    return seq + len(new)


def _note_answer(db: apsw.Connection, turn_ids: dict[str, int], piece: RunPiece) -> None:
    said = [
        event.text
        for output in piece.outputs
        for _, _, events in output.records
        for _, event in events
        if isinstance(event, AssistantText)
    ]
    if piece.end is not None and piece.end.unfinished:
        said.append(piece.end.unfinished)
    if said:
        turns.note_answers(db, turn_ids, {piece.turn.uid: said[-1]})
