"""Facts of our runs that the agents' own logs have and the streams lack. Functions take the connection, never commit.

What is said of a turn stands in its row: model, tokens, cost, latency. What is said of its events, times and what edits
changed, is kept as a sidecar of the run's stream and put into the events; ``apply`` does that whenever they are derived
anew. Both reach the project's store by ``lacking`` and ``take_over``: the log itself is in the machine's store alone.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from backstory import bounds
from backstory.model import PARTIAL, ToolCall, event_from_json
from backstory.store import codec
from backstory.store.intake.batches import packed
from backstory.store.schema import fetch, fetch_one
from backstory.store.tables import event_rows, sidecars, turns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import apsw

SUFFIX = ".facts"
"""The end of the sidecar's name; it begins with the name of the run's stream."""
FROM_LOG = "log"
"""The source of tokens that only the agent's own log of a run has."""
GIVEN = "facts "
"""Before the id of a project's store: the key in ``meta`` of what it was given last, as a hash."""
_TURN = (
    "model", "api_latency_ms", "cost_usd", "cost_source", "input_tokens", "output_tokens", "cache_read_tokens",
    "cache_write_tokens", "cache_write_1h_tokens", "largest_input_tokens", "reasoning_tokens", "tokens_source",
    "context_window",
)  # fmt: skip
_RUNS_AND_TURNS = (
    f"select r.id, r.session_id, {', '.join(f'r.{name}' for name in _TURN)}, "
    f"{', '.join(f't.{name}' for name in _TURN)} from sessions s join turns t on t.session_id = s.id "
    "join turns r on r.uid = t.uid and r.native_id = s.native_id join sessions o on o.id = r.session_id "
    "where s.id = ? and s.owner is null and o.owner is not null"
)
"""The runs of ours of which a session is the agent's own log, with what their turns say in both."""
BYTES_MAX = 17 * 1024 * 1024
"""A larger sidecar is none of ours: ``ingest.own_logs`` writes less."""


class _KeptFacts(Struct, frozen=True):
    """RunFacts as they are read: an input is taken apart only for a call that is there."""

    times: dict[int, int] = {}
    inputs: dict[int, msgspec.Raw] = {}


_decoder = msgspec.json.Decoder(_KeptFacts)
_input_decoder = msgspec.json.Decoder(dict[str, Any])
_NOT_OURS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors of reading a sidecar that came with a store of a stranger's: nothing is known from it."""


class TurnFacts(Struct, frozen=True):
    """Facts of a turn that may be known from more than one place; the fields are the columns."""

    model: str | None
    api_latency_ms: int | None
    cost_usd: float | None
    cost_source: str | None
    input: int | None
    output: int | None
    cache_read: int | None
    cache_write: int | None
    cache_write_1h: int | None
    largest_input: int | None
    reasoning: int | None
    tokens_source: str | None
    context_window: int | None


class LoggedRun(Struct, frozen=True):
    """A run of which the agent's own log is here. ``digest``: of what that says of its events; None where nothing."""

    session_uid: str
    turn_uid: str
    turn: TurnFacts
    digest: bytes | None


class Unmatched(Struct, frozen=True):
    """A run's stream, and the agent's own log of it up to the end of the run's turn, to be read side by side."""

    stream_id: int
    log_id: int
    agent: str
    name: str
    """The name of the sidecar."""
    last_seq: int
    mtime_ns: int


class _EventRow(NamedTuple):
    """An event of a run's stream as its row has it."""

    id: int
    seq: int
    part: int
    at: int | None
    kind: str
    data: bytes | str
    position: int
    length: int


# turns ------------------------------------------------------------------------------------------------------------


def improved(known: TurnFacts, given: TurnFacts) -> TurnFacts:
    """Return the known facts of a turn together with given ones; the counts of its stream stay."""
    better: dict[str, Any] = {
        "model": given.model or known.model,
        "api_latency_ms": given.api_latency_ms if known.api_latency_ms is None else known.api_latency_ms,
        "context_window": given.context_window if known.context_window is None else known.context_window,
    }
    if known.cost_usd is None:
        better |= {"cost_usd": given.cost_usd, "cost_source": given.cost_source}
    counts = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "largest_input", "reasoning")
    # A stream that was cut off counted less than the log, which the agent went on to write.
    is_less = known.tokens_source == PARTIAL and (given.output or 0) >= (known.output or 0)
    if (known.tokens_source in (None, FROM_LOG) or is_less) and given.tokens_source is not None:
        source = PARTIAL if given.tokens_source == PARTIAL else FROM_LOG
        better |= {name: getattr(given, name) for name in counts} | {"tokens_source": source}
    # The same request counted by both, so what only one of them knows is about it, too.
    elif (known.input, known.output, known.cache_read) == (given.input, given.output, given.cache_read):
        better |= {name: getattr(given, name) for name in counts if getattr(known, name) is None}
    return msgspec.structs.replace(known, **better)


def take(db: apsw.Connection, own_id: int) -> None:
    """Give runs what the turns of the agent's own log of them say, which is read as the session ``own_id``."""
    rows: list[Any] = db.execute(_RUNS_AND_TURNS, (own_id,)).fetchall()
    for turn_id, session_id, *values in rows:
        known, given = TurnFacts(*values[: len(_TURN)]), TurnFacts(*values[len(_TURN) :])
        _improve(db, turn_id, session_id, known, given)


def _improve(db: apsw.Connection, turn_id: int, session_id: int, known: TurnFacts, given: TurnFacts) -> None:
    better = improved(known, given)
    if better != known:
        assignments = ", ".join(f"{name} = ?" for name in _TURN)
        db.execute(f"update turns set {assignments} where id = ?", (*msgspec.structs.astuple(better), turn_id))
        turns.sum_up(db, session_id)


# events -----------------------------------------------------------------------------------------------------------


def unmatched(db: apsw.Connection) -> list[Unmatched]:
    """The runs whose agents' own logs are here, and were not read for them, or have changed since."""
    return fetch(
        db,
        Unmatched,
        # The sidecar's time is that of the log it was made from, so one that is outdated shows by itself.
        "select st.id, f.id, st.agent, st.turn_uid || '.' || st.kind || ?, t.last_seq, "
        "coalesce(f.modified, 0) * 1000000 "
        "from sessions o join turns r on r.session_id = o.id join logs st on st.session_id = o.id "
        "and st.turn_uid = r.uid and st.kind = 'stream' join sessions s on s.native_id = r.native_id "
        "and s.owner is null join turns t on t.session_id = s.id and t.uid = r.uid "
        "join logs f on f.session_id = s.id and f.kind = 'file' and f.agent = st.agent "
        "where o.owner is not null and r.outcome is not null and r.native_id <> '' and not exists ("
        "select 1 from logs n where n.session_id = s.id and n.kind = 'file' and n.generation > f.generation) "
        "and not exists (select 1 from sidecars c where c.log_id = st.id "
        "and c.name = st.turn_uid || '.' || st.kind || ? and c.mtime_ns = coalesce(f.modified, 0) * 1000000)",
        (SUFFIX, SUFFIX),
    )


def keep(db: apsw.Connection, log_id: int, sidecar: sidecars.Sidecar, *, own_log: int | None = None) -> None:
    """Keep what an agent's own log says of a run's stream, and put it into its events; of its turn where that is here.

    An earlier version may have read both without that.
    """
    sidecars.write(db, sidecars.SidecarBatch(log_id=log_id, sidecars=[sidecar]))
    apply(db, log_id)
    own_session = db.execute("select session_id from logs where id = ?", (own_log,)).get
    if own_session is not None:
        take(db, int(own_session))


def apply(db: apsw.Connection, log_id: int) -> None:
    """Put what is kept beside a run's stream into its events; nothing where nothing is kept."""
    where = fetch_one(
        db,
        tuple[int, int, int, int],
        "select l.session_id, t.first_seq, t.last_seq, t.started from logs l join turns t "
        "on t.session_id = l.session_id and t.uid = l.turn_uid where l.id = ?",
        (log_id,),
    )
    facts = _facts(db, log_id)
    if where is None or facts is None:
        return
    session_id, first, last, started = where
    rows = fetch(
        db,
        _EventRow,
        "select id, seq, part, at, kind, data, position, length from events "
        "where session_id = ? and seq between ? and ? and log_id = ?",
        (session_id, first, last, log_id),
    )
    db.executemany("update events set at = ? where id = ?", _new_times(rows, facts.times, started))
    calls = [row for row in rows if row.position in facts.inputs and row.kind == ToolCall.kind]
    _give_inputs(db, session_id, calls, facts.inputs)
    # These were derived while the events had the times at which their lines came.
    for table, place, time in (("session_files", "first_seq", "first_seen_at"), ("session_refs", "seq", "created_at")):
        db.execute(
            f"update {table} set {time} = coalesce((select min(e.at) from events e where e.session_id = ?1 "
            f"and e.seq = {table}.{place}), {time}) where session_id = ?1 and {place} between ?2 and ?3",
            (session_id, first, last),
        )


def _new_times(rows: Sequence[_EventRow], times: Mapping[int, int], started: int) -> Iterator[tuple[int, int]]:
    """Return the times of events that are not what their rows have, each with its row's id."""
    latest = bounds.TIME_MAX_MS
    # Found by their places in the stream: numbers of records change when an adapter sees more of them.
    for row in sorted(rows, key=attrgetter("position"), reverse=True):
        at = bounds.time_ms(times.get(row.position))
        if at is None:
            # A line came at the latest when the agent made the next one: a busy machine reads both late.
            at = row.at if row.at is None or row.at < started else min(row.at, latest)
        # A clock that was set back says nothing of what came before.
        elif at >= started:
            latest = min(latest, at)
        if at is not None and at != row.at:
            yield at, row.id


def _give_inputs(
    db: apsw.Connection, session_id: int, calls: Sequence[_EventRow], inputs: Mapping[int, msgspec.Raw]
) -> None:
    codecs: dict[int, codec.EventCodec] = {}
    # The inputs of edits are part of a context.
    if calls:
        turns.forget_context(db, session_id)
    for row in calls:
        event = event_from_json(codec.unpack_event(db, codecs, row.data))
        given = _input(inputs[row.position])
        if not isinstance(event, ToolCall) or given is None:
            continue
        whole = msgspec.structs.replace(event, input=given)
        new = packed(whole, row.seq, row.part, None, None, row.position, row.length)
        # Also what stands there already may have gone into the index without it.
        db.execute("update events set data = ?, char_len = ? where id = ?", (new.data, new.char_len, row.id))
        db.execute("delete from search_index where rowid = ?", (row.id,))
        event_rows.index_texts(db, session_id, [(row.id, row.seq, new.scope, new.text)] if new.scope else [])


def _input(given: msgspec.Raw) -> dict[str, Any] | None:
    try:
        return _input_decoder.decode(given)
    except _NOT_OURS:
        return None


def _facts(db: apsw.Connection, log_id: int) -> _KeptFacts | None:
    kept = _sidecar(db, log_id)
    # The size is looked at before anything is unpacked: a stranger's store may hold anything.
    if kept is None or kept.size > BYTES_MAX:
        return None
    try:
        return _decoder.decode(sidecars.read(db, kept.id))
    except _NOT_OURS:
        return None


def _sidecar(db: apsw.Connection, log_id: int) -> sidecars.StoredSidecar | None:
    return next((each for each in sidecars.of_log(db, log_id) if each.name.endswith(SUFFIX)), None)


# from store to store ------------------------------------------------------------------------------------------------


def of_owner(db: apsw.Connection, owner: str) -> list[LoggedRun]:
    """Return the facts of another store's runs that became known since the agents' own logs of them were read."""
    rows: list[Any] = db.execute(
        f"select o.uid, r.uid, {', '.join(f'r.{name}' for name in _TURN)}, c.sha256 from sessions o "
        "join turns r on r.session_id = o.id left join logs st on st.session_id = o.id and st.turn_uid = r.uid "
        "and st.kind = 'stream' left join sidecars c on c.log_id = st.id and c.name = st.turn_uid || '.stream' || ?2 "
        "where o.owner = ?1 and r.native_id <> '' and exists (select 1 from sessions s join turns t "
        "on t.session_id = s.id and t.uid = r.uid where s.native_id = r.native_id and s.owner is null) order by r.uid",
        (owner, SUFFIX),
    ).fetchall()
    return [LoggedRun(row[0], row[1], TurnFacts(*row[2:-1]), row[-1]) for row in rows]


def digest(runs: Sequence[LoggedRun]) -> str:
    """The key that distinguishes two results of ``of_owner``."""
    return codec.text_digest(msgspec.json.encode(runs))


def given(db: apsw.Connection, store_id: str) -> str | None:
    """Return the ``digest`` of the facts that a project's store was given last."""
    found = db.execute("select value from meta where key = ?", (GIVEN + store_id,)).get
    return None if found is None else str(found)


def note_given(db: apsw.Connection, store_id: str, runs: Sequence[LoggedRun]) -> None:
    """Note what a project's store was given."""
    db.execute("insert or replace into meta(key, value) values (?, ?)", (GIVEN + store_id, digest(runs)))


def lacking(db: apsw.Connection, runs: Sequence[LoggedRun]) -> list[LoggedRun]:
    """Those of these runs that are here, and of which more is given than is known here."""
    return [run for run in runs if (here := _here(db, run)) is not None and _is_less(db, here, run)]


def take_over(db: apsw.Connection, runs: Sequence[LoggedRun], contents: Mapping[str, sidecars.Sidecar]) -> None:
    """Take what another store knows of runs of ours; ``contents``: the sidecars of their streams, by turn uid."""
    for run in runs:
        here = _here(db, run)
        # The run may have been removed, or merged under another uid, since it was asked about.
        if here is None:
            continue
        turn_id, session_id, log_id, known = here
        _improve(db, turn_id, session_id, known, run.turn)
        if log_id is not None and run.turn_uid in contents:
            keep(db, log_id, contents[run.turn_uid])


def sidecar_of(db: apsw.Connection, turn_uid: str) -> sidecars.Sidecar | None:
    """Return the sidecar of a run's stream, to be taken over by another store."""
    return fetch_one(
        db,
        sidecars.Sidecar,
        "select c.name, c.size, c.mtime_ns, c.sha256, c.data from logs l join sidecars c on c.log_id = l.id "
        "where l.turn_uid = ?1 and l.kind = 'stream' and c.name = ?1 || '.stream' || ?2",
        (turn_uid, SUFFIX),
    )


def _here(db: apsw.Connection, run: LoggedRun) -> tuple[int, int, int | None, TurnFacts] | None:
    row: Any = db.execute(
        f"select t.id, s.id, (select id from logs where session_id = s.id and turn_uid = t.uid and kind = 'stream'), "
        f"{', '.join(f't.{name}' for name in _TURN)} from sessions s join turns t on t.session_id = s.id "
        "where s.uid = ? and t.uid = ? and t.outcome is not null",
        (run.session_uid, run.turn_uid),
    ).fetchone()
    return None if row is None else (row[0], row[1], row[2], TurnFacts(*row[3:]))


def _is_less(db: apsw.Connection, here: tuple[int, int, int | None, TurnFacts], run: LoggedRun) -> bool:
    _, _, log_id, known = here
    if improved(known, run.turn) != known:
        return True
    kept = None if log_id is None else _sidecar(db, log_id)
    return log_id is not None and run.digest is not None and (kept is None or kept.digest != run.digest)
