"""A run on its way into the store: its prompt, what it streamed, how it ended, in one transaction. Never commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from backstory.errors import SessionNotFound
from backstory.model import AssistantText, Complete, Error, Event, Outcome, Turn, UserMessage
from backstory.store import codec, logs, slices, turns

if TYPE_CHECKING:
    import apsw

STDOUT, STDERR = "stream", "stderr"


class RunLog(Struct, kw_only=True):
    """What a run wrote to one of its outputs: the bytes, and (offset, length, events) of each record that is numbered.

    Records without a number (deltas) have no row here; their bytes are kept all the same.
    """

    kind: str
    data: bytes
    records: list[tuple[int, int, list[tuple[int, Event]]]] = field(default_factory=list)


class FinishedRun(Struct, kw_only=True):
    """A run that is over. ``turn`` holds all that is known of it but its numbers."""

    session_uid: str
    turn: Turn
    native_id: str
    ended: int
    error: str | None = None
    """Why it failed, where no event says so; it is stored as one."""
    prefix_chars: int = 0
    prefix_sha256: str | None = None
    outputs: list[RunLog] = field(default_factory=list)


def is_stored(db: apsw.Connection, session_uid: str, turn_uid: str) -> bool:
    """Whether a run's turn is in the store already."""
    return bool(
        db.execute(
            "select count(*) from turns t join sessions s on s.id = t.session_id where s.uid = ? and t.uid = ?",
            (session_uid, turn_uid),
        ).get
    )


def store(db: apsw.Connection, run: FinishedRun) -> int | None:
    """Store a run as the newest turn of its session; gives the turn's first number, None if it was stored before."""
    if is_stored(db, run.session_uid, run.turn.uid):
        return None
    found = db.execute("select id, next_seq, leaf_uid from sessions where uid = ?", (run.session_uid,)).fetchone()
    if found is None:
        raise SessionNotFound(run.session_uid)
    session_id, seq, leaf = found
    turn = run.turn
    turn.first_seq = seq
    turn.parent_uid = leaf
    turn.parent_seq = (
        db.execute("select last_seq from turns where session_id = ? and uid = ?", (session_id, leaf)).get
        if leaf
        else None
    )
    new = [slices.packed(UserMessage(content=turn.prompt), seq, 0, turn.uid, turn.started, None, None)]
    by_log: list[tuple[int, list[slices.NewEvent]]] = []
    seq += 1
    for output in run.outputs:
        log_id = _keep(db, session_id, run, output, seq)
        told = []
        for position, length, events in output.records:
            told += [slices.packed(event, seq, part, turn.uid, None, position, length) for part, event in events]
            seq += 1
        by_log.append((log_id, told))
    if run.error is not None:
        new.append(slices.packed(Error(message=run.error), seq, 0, turn.uid, run.ended, None, None))
        seq += 1
    if not any(event.kind == Complete.kind for _, told in by_log for event in told):
        end = Complete(success=turn.outcome == Outcome.COMPLETED, duration_ms=turn.duration_ms, cost_usd=turn.cost_usd)
        new.append(slices.packed(end, seq, 0, turn.uid, run.ended, None, None))
        seq += 1
    turn.last_seq = seq - 1
    turn_ids = turns.upsert(db, session_id, [turn])
    db.execute(
        "update turns set prefix_chars = ?, prefix_sha256 = ? where id = ?",
        (run.prefix_chars, run.prefix_sha256, turn_ids[turn.uid]),
    )
    slices.insert_events(db, session_id, None, new, turn_ids)
    for log_id, told in by_log:
        slices.insert_events(db, session_id, log_id, told, turn_ids)
    _note_answer(db, turn_ids, run)
    db.execute(
        "update sessions set next_seq = ?, last_active = ?, last_claude_uuid = '' where id = ?",
        (seq, run.ended, session_id),
    )
    turns.sum_up(db, session_id)
    return turn.first_seq


def _keep(db: apsw.Connection, session_id: int, run: FinishedRun, output: RunLog, first_seq: int) -> int:
    db.execute(
        "insert into logs(session_id, turn_uid, agent, kind, native_id, relpath, modified) "
        "values (?, ?, ?, ?, ?, ?, ?)",
        (
            session_id, run.turn.uid, run.turn.agent, output.kind, run.native_id,
            f"runs/{run.turn.uid}.{output.kind}", run.ended,
        ),
    )  # fmt: skip
    log_id = db.last_insert_rowid()
    size = codec.CHUNK_BYTES
    pieces = [logs.pack(at, output.data[at : at + size]) for at in range(0, len(output.data), size)]
    logs.insert_chunks(db, log_id, pieces)
    runs: list[logs.Run] = []
    for n, (position, length, _) in enumerate(output.records):
        stop = min(position + length + 1, len(output.data))
        if runs and runs[-1].takes(position, first_seq + n):
            runs[-1].records, runs[-1].stop = runs[-1].records + 1, stop
        else:
            runs.append(logs.Run(position, stop, first_seq + n, 1))
    logs.insert_runs(db, log_id, runs)
    end = len(output.data)
    tail = codec.text_digest(output.data[-logs.TAIL_BYTES :])
    db.execute(
        "update logs set read_to = ?, parsed_to = ?, tail_hash = ?, frames = 1 where id = ?", (end, end, tail, log_id)
    )
    return log_id


def _note_answer(db: apsw.Connection, turn_ids: dict[str, int], run: FinishedRun) -> None:
    said = [
        event.text
        for output in run.outputs
        for _, _, events in output.records
        for _, event in events
        if isinstance(event, AssistantText)
    ]
    if said:
        turns.note_answers(db, turn_ids, {run.turn.uid: said[-1]})
