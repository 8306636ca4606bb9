"""Turns in the store, and what sessions sum up from them. Functions take the connection, never commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from backstory import bounds
from backstory.derive import naming
from backstory.lazy import lazy_module
from backstory.model import PARTIAL, Complete, Outcome, Tokens, ToolCall, Turn
from backstory.store import codec, schema
from backstory.store.schema import fetch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import apsw

    from backstory.conversation.tree import Point
    from backstory.derive import essence
else:
    essence = lazy_module("backstory.derive.essence")

TURNS_AT_ONCE = 32
_COLUMNS = (
    "uid, parent_uid, parent_seq, first_seq, last_seq, agent, model, native_id, prompt, started, ended, outcome, "
    "stop_reason, api_latency_ms, duration_ms, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, "
    "cache_write_1h_tokens, largest_input_tokens, reasoning_tokens, tokens_source, cost_usd, cost_source, "
    "context_window"
)
_COUNTED = "input_tokens, output_tokens, cache_read_tokens, cache_write_tokens"
USED = (
    f"iif(count(coalesce({_COUNTED})), "
    f"cast({' + '.join(f'total({name})' for name in _COUNTED.split(', '))} as integer), null)"
)
"""The sum of all tokens of some turns, in SQL: null where nothing is known, else over what is.

A log may say any number: a sum of doubles has no overflow.
"""
LACKING = (
    f"count(iif(tokens_source = '{PARTIAL}' or coalesce({_COUNTED}) is not null "
    "and (input_tokens is null or output_tokens is null), 1, null))"
)
"""Counts in SQL the turns of which a count is missing, or was lost; as the sums of ``derive.tally`` have it."""


def upsert(db: apsw.Connection, session_id: int, turns: list[Turn]) -> dict[str, int]:
    """Store turns as they stand now; a shorter version never replaces a longer one. Returns their ids by uid."""
    if not turns:
        return {}
    rows = [_values(session_id, turn) for turn in turns]
    try:
        db.executemany(_UPSERT, rows)
    except OverflowError:
        # A log may say any number; one that no column holds is not known.
        db.executemany(_UPSERT, [[None if _is_too_large(value) else value for value in row] for row in rows])
    return ids_of(db, session_id, turns)


def _is_too_large(value: object) -> bool:
    return isinstance(value, int) and not -(1 << 63) <= value < 1 << 63


def ids_of(db: apsw.Connection, session_id: int, turns: list[Turn]) -> dict[str, int]:
    """The ids of those of these turns that the session has, by uid."""
    uids = schema.json_list(turn.uid for turn in turns)
    rows = fetch(
        db,
        tuple[str, int],
        "select uid, id from turns where session_id = ? and uid in (select value from json_each(?))",
        (session_id, uids),
    )
    return dict(rows)


def of_session(db: apsw.Connection, session_id: int) -> list[Turn]:
    """A session's turns in the order of their prompts."""
    rows = db.execute(f"select {_COLUMNS} from turns where session_id = ? order by first_seq, id", (session_id,))
    return [_turn(row) for row in rows]


def ending(db: apsw.Connection, session_id: int, most: int, up_to: int | None = None) -> dict[int, Turn]:
    """The last turns of a session that began up to a record, at most so many, each by its number, in order."""
    where, given = "session_id = ?1 and (?2 is null or first_seq <= ?2)", (session_id, up_to)
    rows = db.execute(
        f"select {_COLUMNS} from turns where {where} order by first_seq desc, id desc limit ?3", (*given, most)
    ).fetchall()
    count = int(db.execute(f"select count(*) from turns where {where}", given).get)
    return {number: _turn(row) for number, row in enumerate(reversed(rows), count - len(rows) + 1)}


def outcomes(db: apsw.Connection, session_id: int) -> dict[str, str | None]:
    """The outcome of each turn of a session by its uid, in the order of their prompts."""
    sql = "select uid, outcome from turns where session_id = ? order by first_seq, id"
    return dict(fetch(db, tuple[str, str | None], sql, (session_id,)))


def removed(db: apsw.Connection, session_id: int) -> dict[str, int]:
    """The turns of a session whose branches a person removed, each with the time of that in ms since 1970."""
    sql = "select uid, removed from turns where session_id = ? and removed is not null"
    return dict(fetch(db, tuple[str, int], sql, (session_id,)))


def is_line(db: apsw.Connection, session_id: int) -> bool:
    """Return True if every turn of a session follows the one before, and it goes on behind the last one."""
    found = db.execute(
        "select min(parent_uid is before and (not is_last or leaf_uid is null or uid = leaf_uid)) from ("
        "select t.parent_uid, t.uid, s.leaf_uid, lag(t.uid) over places as before, "
        "lead(t.id) over places is null as is_last from turns t join sessions s on s.id = t.session_id "
        "where t.session_id = ? window places as (order by t.first_seq, t.id))",
        (session_id,),
    )
    return bool(found.get)


def uid(db: apsw.Connection, turn_id: int) -> str | None:
    """The uid of the turn with this id."""
    found = db.execute("select uid from turns where id = ?", (turn_id,)).get
    return None if found is None else str(found)


def rename(db: apsw.Connection, old: str, new: str) -> None:
    """Change the uid of a turn, wherever it is.

    Not in a session that has a turn of the new uid already, and not in one of a store that nobody has trusted.
    """
    where = fetch(
        db,
        tuple[int],
        "select t.session_id from turns t join sessions s on s.id = t.session_id where t.uid = ?1 "
        # A session with both has the turn twice, once from each source, and uids are unique in it.
        "and s.elsewhere is null and t.session_id not in (select session_id from turns where uid = ?2)",
        (old, new),
    )
    for (session_id,) in where:
        db.execute("update turns set uid = ? where session_id = ? and uid = ?", (new, session_id, old))
        # Nothing but the uid links these, so that all of it can be copied between stores.
        db.execute("update turns set parent_uid = ? where session_id = ? and parent_uid = ?", (new, session_id, old))
        db.execute("update sessions set leaf_uid = ? where id = ? and leaf_uid = ?", (new, session_id, old))
        db.execute("update branches set leaf_uid = ? where session_id = ? and leaf_uid = ?", (new, session_id, old))


def count(db: apsw.Connection, session_id: int) -> int:
    """Return the number of turns of a session."""
    return int(db.execute("select count(*) from turns where session_id = ?", (session_id,)).get)


def upwards(db: apsw.Connection, session_id: int, point: Point | None) -> Iterator[tuple[int, Turn, int]]:
    """The turns that lead to a record, the last first, read as they are asked for: id, turn, the record it is left at.

    Ends where a parent is not there, or was met before.
    """
    met: set[str] = set()
    read: dict[str, tuple[Any, ...]] = {}
    uid, cut = (point.uid, point.seq) if point is not None else (None, None)
    while uid is not None and uid not in met:
        met.add(uid)
        if uid not in read:
            # What a turn follows is mostly one of those before it.
            read = {row[1]: row for row in _with_those_before(db, session_id, uid)}
        if uid not in read:
            return
        turn_id, *values = read[uid]
        turn = _turn(tuple(values))
        # A fork may name a record that its copy of the turn does not have.
        is_inside = cut is not None and turn.first_seq <= cut <= turn.last_seq
        yield turn_id, turn, cut if is_inside and cut is not None else turn.last_seq
        uid, cut = turn.parent_uid, turn.parent_seq


def _with_those_before(db: apsw.Connection, session_id: int, uid: str) -> list[tuple[Any, ...]]:
    return db.execute(
        f"select id, {_COLUMNS} from turns where session_id = ?1 and (first_seq, id) <= "
        "(select first_seq, id from turns where session_id = ?1 and uid = ?2) "
        "order by first_seq desc, id desc limit ?3",
        (session_id, uid, TURNS_AT_ONCE),
    ).fetchall()


def newest(db: apsw.Connection, session_id: int) -> tuple[int, Turn] | None:
    """The id of a session's last turn, and the turn."""
    for turn_id, *row in db.execute(
        f"select id, {_COLUMNS} from turns where session_id = ? order by first_seq desc, id desc limit 1",
        (session_id,),
    ):
        return turn_id, _turn(tuple(row))
    return None


def newest_of(db: apsw.Connection, session_ids: Collection[int]) -> dict[int, Turn]:
    """The last turn of each of these sessions that has one, by the session's id."""
    if not session_ids:
        return {}
    rows = db.execute(
        f"select session_id, {_COLUMNS} from turns where id in (select (select id from turns where session_id = value "
        "order by first_seq desc, id desc limit 1) from json_each(?))",
        (schema.json_list(session_ids),),
    )
    return {session_id: _turn(tuple(row)) for session_id, *row in rows}


def context_window(
    db: apsw.Connection, session_id: int, agent: str, model: str | None
) -> tuple[str | None, int | None]:
    """The model that an agent goes on with, and what that can take, in tokens, as far as the session's turns say.

    ``model``: None: that of the agent's last turn.
    """
    by_agent, newest_first = "where session_id = ?1 and agent = ?2", "order by first_seq desc, id desc limit 1"
    model = model or db.execute(f"select model from turns {by_agent} {newest_first}", (session_id, agent)).get
    window = db.execute(
        f"select context_window from turns {by_agent} and (?3 is null or model = ?3) and context_window is not null "
        f"{newest_first}",
        (session_id, agent, model),
    ).get
    return model, window


def numbers(db: apsw.Connection, session_id: int) -> dict[int, int]:
    """The number (1, 2, …) of each turn of a session by its id, in the order of their prompts."""
    sql = "select id from turns where session_id = ? order by first_seq, id"
    return {turn_id: number for number, (turn_id,) in enumerate(fetch(db, tuple[int], sql, (session_id,)), 1)}


def ends(db: apsw.Connection, session_id: int) -> tuple[int, int] | None:
    """The records with which the first and the last turn of a session begin; None if it has no turn."""
    sql = "select min(first_seq), max(first_seq) from turns where session_id = ?"
    first, last = db.execute(sql, (session_id,)).get
    return None if first is None else (int(first), int(last))


def complete(
    db: apsw.Connection, session_id: int, duration_ms: int | None, cost_usd: float | None, success: bool
) -> None:
    """Write how a session's last turn ended; a session without a turn is marked itself."""
    outcome = Outcome.COMPLETED if success else Outcome.FAILED
    duration_ms, cost_usd = bounds.count(duration_ms), bounds.amount(cost_usd)
    last = newest(db, session_id)
    # Events may be given through the API without any turn.
    if last is None:
        db.execute(
            "update sessions set completed = ?, duration_ms = ?, cost_usd = ? where id = ?",
            (int(success), duration_ms, cost_usd, session_id),
        )
        return
    db.execute(
        "update turns set outcome = ?, duration_ms = ?, cost_usd = ?, cost_source = ? where id = ?",
        (outcome, duration_ms, cost_usd, None if cost_usd is None else "reported", last[0]),
    )
    sum_up(db, session_id)


def completed(turn: Turn, end: Complete) -> Turn:
    """A turn as ``complete`` leaves it."""
    duration_ms, cost_usd = bounds.count(end.duration_ms), bounds.amount(end.cost_usd)
    return replace(
        turn,
        outcome=Outcome.COMPLETED if end.success else Outcome.FAILED,
        duration_ms=duration_ms,
        cost_usd=cost_usd,
        cost_source=None if cost_usd is None else "reported",
    )


def note_answers(db: apsw.Connection, turn_ids: dict[str, int], answers: dict[str, str]) -> None:
    """Keep the last thing the model said in each of these turns, given by turn uid."""
    db.executemany(
        "insert into turn_texts(turn_id, answer) values (?, ?) "
        "on conflict(turn_id) do update set answer = excluded.answer",
        [(turn_ids[uid], text) for uid, text in answers.items()],
    )


def has_summary(db: apsw.Connection, session_id: int) -> bool:
    """Return True if a summary is stored for some turns of a session, and was not taken out of force."""
    query = "select exists (select 1 from compactions where session_id = ? and undone = 0)"
    return bool(db.execute(query, (session_id,)).get)


def forget_context(db: apsw.Connection, session_id: int) -> None:
    """Forget the size of a session's context: its records are read in another way now."""
    db.execute("update sessions set context_chars = null where id = ? and context_chars is not null", (session_id,))


def sum_up(db: apsw.Connection, session_id: int) -> None:
    """Bring a session's own columns in step with its turns: how the last one ended, the sums, the leaf.

    The leaf is the newest turn, unless a person checked out another, which is there.
    """
    db.execute(
        # A checkout counts as long as its turn is there; after that the newest turn is the leaf again.
        "update sessions set leaf_uid = null, leaf_seq = null where id = ?1 and leaf_seq is not null and not exists "
        "(select 1 from turns where session_id = ?1 and uid = sessions.leaf_uid and removed is null)",
        (session_id,),
    )
    db.execute(
        "update sessions set "
        # The sum of integers is an error where it grows too large, that of floats is not.
        "duration_ms = (select iif(count(duration_ms), cast(total(duration_ms) as integer), null) "
        "from turns where session_id = ?1), "
        # Not min(): a function in an update has SQLite write a journal of the statement.
        "cost_usd = (select iif(total(cost_usd) > ?6, ?6, sum(cost_usd)) from turns where session_id = ?1), "
        "(leaf_uid, completed) = (select iif(sessions.leaf_seq is null, uid, sessions.leaf_uid), "
        "case outcome when ?2 then 1 when ?3 then 0 when ?4 then 0 when ?5 then 0 end "
        "from turns where session_id = ?1 and removed is null "
        "order by first_seq desc, id desc limit 1) "
        "where id = ?1",
        (session_id, Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED, Outcome.CRASHED, float(bounds.INTEGER_MAX)),
    )


def follow(db: apsw.Connection, session_id: int, leaf: tuple[str, int] | None) -> None:
    """Let a session that is read from a log go on at the log's own point: this record of this turn, or at its end."""
    known = leaf and db.execute("select 1 from turns where session_id = ? and uid = ?", (session_id, leaf[0])).get
    uid, seq = leaf if leaf and known else (None, None)
    if uid is not None or db.execute("select leaf_seq is not null from sessions where id = ?", (session_id,)).get:
        db.execute(
            "update sessions set leaf_seq = ?2, leaf_uid = coalesce(?1, leaf_uid) where id = ?3 and owner is null",
            (uid, seq, session_id),
        )
        sum_up(db, session_id)


_UPSERT = (
    f"insert into turns(session_id, {_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
    "?, ?, ?, ?, ?, ?) on conflict(session_id, uid) do update set "
    "first_seq = excluded.first_seq, last_seq = excluded.last_seq, "
    "parent_uid = excluded.parent_uid, parent_seq = excluded.parent_seq, model = excluded.model, "
    # A reader's state keeps an open turn without its prompt, so a later part of the log gives none.
    "prompt = coalesce(nullif(excluded.prompt, ''), prompt), started = excluded.started, ended = excluded.ended, "
    "outcome = excluded.outcome, stop_reason = excluded.stop_reason, "
    "api_latency_ms = excluded.api_latency_ms, duration_ms = excluded.duration_ms, "
    "input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens, "
    "cache_read_tokens = excluded.cache_read_tokens, cache_write_tokens = excluded.cache_write_tokens, "
    "cache_write_1h_tokens = excluded.cache_write_1h_tokens, largest_input_tokens = excluded.largest_input_tokens, "
    "reasoning_tokens = excluded.reasoning_tokens, tokens_source = excluded.tokens_source, "
    "cost_usd = excluded.cost_usd, cost_source = excluded.cost_source, "
    # Of two logs that have the turn, the one that was read last may have the smaller part of it.
    "context_window = excluded.context_window where excluded.last_seq >= turns.last_seq"
)


def _values(session_id: int, turn: Turn) -> tuple[Any, ...]:
    """A turn as ``_UPSERT`` takes it."""
    tokens = turn.tokens
    return (
        session_id, turn.uid, turn.parent_uid, turn.parent_seq, turn.first_seq, turn.last_seq, turn.agent,
        turn.model, turn.native_id, turn.prompt, turn.started, turn.ended, turn.outcome, turn.stop_reason,
        turn.api_latency_ms, _duration(turn), tokens.input, tokens.output, tokens.cache_read, tokens.cache_write,
        tokens.cache_write_1h, tokens.largest_input, tokens.reasoning, turn.tokens_source, turn.cost_usd,
        turn.cost_source, turn.context_window,
    )  # fmt: skip


def _duration(turn: Turn) -> int | None:
    if turn.duration_ms is not None:
        return turn.duration_ms
    if turn.started is None or turn.ended is None:
        return None
    # A clock may have been set back between the two.
    return max(turn.ended - turn.started, 0)


def _turn(row: tuple[Any, ...]) -> Turn:
    # Written out, because a long session has ten thousand.
    (
        uid, parent_uid, parent_seq, first_seq, last_seq, agent, model, native_id, prompt, started, ended, outcome,
        stop_reason, api_latency_ms, duration_ms, read, wrote, cache_read, cache_write, cache_write_1h, largest_input,
        reasoning, tokens_source, cost_usd, cost_source, context_window,
    ) = row  # fmt: skip
    tokens = Tokens(
        input=read, output=wrote, cache_read=cache_read, cache_write=cache_write, cache_write_1h=cache_write_1h,
        largest_input=largest_input, reasoning=reasoning,
    )  # fmt: skip
    return Turn(
        uid=uid, parent_uid=parent_uid, parent_seq=parent_seq, first_seq=first_seq, last_seq=last_seq, agent=agent,
        model=model, native_id=native_id, prompt=prompt, started=started, ended=ended, outcome=outcome,
        stop_reason=stop_reason, api_latency_ms=api_latency_ms, duration_ms=duration_ms, tokens=tokens,
        tokens_source=tokens_source, cost_usd=cost_usd, cost_source=cost_source, context_window=context_window,
    )  # fmt: skip


# the titles of sessions ----------------------------------------------------------------------------------------------


CALLS_LOOKED_AT = 5
"""The first calls of a session among which its first file or command is looked for."""


def sayings(db: apsw.Connection, short: Mapping[int, str]) -> dict[int, str]:
    """Return the texts for the titles of sessions whose first prompts, ``short`` by id, say too little.

    That is the first later prompt that says enough; without one the first prompt, with the first file or command of the
    session behind it.
    """
    if not short:
        return {}
    found, begun, calls, codecs = dict[int, str](), set[int](), dict[int, tuple[str, str]](), dict[int, Any]()
    rows = fetch(
        db, tuple[int, str, str | None, bytes | str | None, int, int], _SAID,
        (schema.json_list(list(short)), CALLS_LOOKED_AT),
    )  # fmt: skip
    # Sorting here is less work than sorting in SQL, where the index has most of them in order.
    for session_id, folder, prompt, call, *_ in sorted(rows, key=lambda row: (row[3] is not None, row[4:])):
        if session_id in found or session_id in calls:
            continue
        if call is not None:
            subject = essence.subject(codec.unpack_event(db, codecs, call))
            calls.update({session_id: (subject, folder)} if subject else {})
            continue
        # What is before the first prompt is shown in another session.
        begun.update([session_id] if prompt == short[session_id] else [])
        if session_id in begun and naming.says_enough(prompt or ""):
            found[session_id] = prompt or ""
    return found | {each: naming.with_subject(short[each], *subject) for each, subject in calls.items()}


def saying(db: apsw.Connection, session_id: object, prompt: object) -> object:
    """Return the same for one session and its first prompt; a prompt that says enough is returned as it is."""
    text = prompt.decode("utf-8", "replace") if isinstance(prompt, bytes) else prompt
    if not isinstance(text, str) or not isinstance(session_id, int) or naming.says_enough(text):
        return prompt
    return sayings(db, {session_id: text}).get(session_id, text)


_SAID = (
    "select s.id, coalesce(s.cwd, ''), substr(t.prompt, 1, 200), null, t.first_seq, t.id from json_each(?1) j "
    "cross join main.sessions s on s.id = j.value cross join main.turns t on t.session_id = s.id where t.prompt <> '' "
    "union all select s.id, coalesce(s.cwd, ''), null, e.data, e.seq, e.part from json_each(?1) j "
    "cross join main.sessions s on s.id = j.value cross join main.events e on e.id in (select id from main.events "
    f"where session_id = s.id and kind = '{ToolCall.kind}' order by seq, part limit ?2)"
)
"""The prompts of sessions, and their first calls."""
