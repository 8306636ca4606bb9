"""Habits of people with agents, for reports that look for what recurs: turns, calls and reads. Never commits.

Turns are read once; calls and files are looked for in SQL, and only the few events that matter are unpacked: those of
calls that failed or took long. Each turn counts once, as in ``stats``.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from backstory.ask.costs import PAID_COLUMNS, Costs
from backstory.ask.stats import ROWS_AT_ONCE, Root, members_of
from backstory.ask.tool_stats import copied_turns
from backstory.derive import call_words
from backstory.model import Tokens, Tool, ToolCall, ToolResult, event_from_json
from backstory.store import schema
from backstory.store.codec import unpack_event
from backstory.store.schema import fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import apsw

    from backstory.ask.stats import CountedSessions, RootRow, StatsQuestion
    from backstory.derive.pricing import Cost, PriceTable
    from backstory.model import Event
    from backstory.store.codec import EventCodec


PROMPT_CHARS = 2_000
"""No more of a prompt is looked at."""
SLOW_MS = 5_000
"""A call that took less is not looked at, unless it failed."""
OUTPUT_CHARS = 400
TURNS_AT_ONCE = 500
REQUEST_MS = 2_000
"""Calls that came sooner after another are of the same request."""
READS_MIN = 3
"""A file that was read less often in one session is not looked at."""


class HabitPlace(Struct, frozen=True, kw_only=True):
    """The place of a session: its repository or project, its name, and the folder that paths are shown below."""

    key: str
    name: str
    root: str | None


class HabitTurn(Struct, frozen=True, kw_only=True):
    """A turn. ``session``: the uid of the session that is listed; ``context``: of its own, a subagent's perhaps."""

    session: str
    context: str
    uid: str
    seq: int
    agent: str
    model: str | None
    prompt: str
    started: int
    """ms since 1970."""
    ended: int | None
    tokens: Tokens
    cost: Cost

    @property
    def is_own(self) -> bool:
        """True if it is no subagent's."""
        return self.session == self.context


class HabitCall(Struct, frozen=True, kw_only=True):
    """A call. ``turn``: its uid; ``words``: what its script is for; ``reading``: of one that only reads, its words."""

    session: str
    context: str
    turn: str
    agent: str
    seq: int
    at: int | None
    tool_name: str
    tool: str
    words: tuple[str, ...]
    reading: tuple[str, ...]
    path: str | None
    is_error: bool
    output: str
    """The beginning of what it returned, if it failed."""
    error: str
    """The error that it failed with, in words that recur."""
    duration_ms: int | None
    """As its agent reports, else until its result came."""


class RepeatedRead(Struct, frozen=True, kw_only=True):
    """A call that read of a file what the same context had read of it before, with no change by a call in between.

    ``last_seq`` and ``last_at``: of the call before it; ``same_seq``: of one that returned as many characters, which is
    the same part; ``turn``: the uid of its turn.
    """

    session: str
    context: str
    turn: str
    path: str
    seq: int
    last_seq: int
    same_seq: int | None
    at: int
    last_at: int


class HabitRows(Struct, frozen=True, kw_only=True):
    """The rows of one store. ``calls_of``: the number of calls of each turn that has a call here."""

    turns: list[HabitTurn] = field(default_factory=list)
    calls: list[HabitCall] = field(default_factory=list)
    repeated: list[RepeatedRead] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    """Files that failed calls were about, and that a session read or wrote."""
    edited: set[str] = field(default_factory=set)
    """The uids of sessions in which a file was changed."""
    compacted: list[tuple[str, int]] = field(default_factory=list)
    """The places where a context was summarised: the session's uid, and the record."""
    calls_of: dict[str, int] = field(default_factory=dict)
    places: dict[str, HabitPlace] = field(default_factory=dict)


class _Known(Struct, frozen=True, kw_only=True):
    """The data that the parts share: the sessions, by their ids here, and the turns that count, by theirs."""

    uids: Mapping[int, str]
    root_of: Mapping[int, int]
    turns: Mapping[int, HabitTurn]

    def sessions(self) -> str:
        """The sessions as one parameter of a statement."""
        return schema.json_list(self.root_of)

    def listed(self, session_id: int) -> str:
        """Return the uid of the session that is listed for one."""
        return self.uids[self.root_of[session_id]]


def rows(db: apsw.Connection, prices: PriceTable, asked: StatsQuestion) -> HabitRows:
    """Return the deeds of the turns that began in the time that is asked for."""
    costs = Costs(db, prices, estimates=False)
    members = members_of(db, costs, asked)
    below = schema.json_list(members.root_of.keys() - members.roots.keys())
    uids = {each: str(row[1]) for each, row in members.roots.items()} | dict(
        fetch(db, tuple[int, str], _UIDS, (below,))
    )
    turns = dict(_turns(db, costs, asked, members, uids))
    known = _Known(uids=uids, root_of=members.root_of, turns=turns)
    calls = [*_failed(db, known), *_slow(db, known, asked.report)]
    repeated = list(_repeated(db, known))
    failed = {each.path for each in calls if each.is_error and each.path}
    of_calls = {each.turn for each in calls} | {each.turn for each in repeated}
    used = {each.session for each in turns.values()}
    return HabitRows(
        turns=list(turns.values()),
        calls=calls,
        repeated=repeated,
        touched={path for (path,) in db.execute(_TOUCHED, (schema.json_list(failed),))},
        edited={uids[each] for (each,) in db.execute(_EDITED, (known.sessions(),))},
        compacted=[(uids[each], seq) for each, seq in db.execute(_COMPACTED, (known.sessions(),))],
        calls_of=_call_counts(db, [id_ for id_, each in turns.items() if each.uid in of_calls]),
        places=_places(asked, {uids[each]: row for each, row in members.roots.items() if uids[each] in used}),
    )


def _turns(
    db: apsw.Connection, costs: Costs, asked: StatsQuestion, members: CountedSessions, uids: Mapping[int, str]
) -> Iterator[tuple[int, HabitTurn]]:
    copied = copied_turns(db, costs, asked, members.root_of)
    included = costs.included([each for each, root in members.root_of.items() if each != root])
    wanted = asked.wanted
    values = (schema.json_list(members.root_of), wanted.since or 0, wanted.until or 1 << 62)
    count = int(db.execute("select count(*) from turns").get)
    # Very many turns are of few agents and models.
    names: dict[Any, Any] = {}
    for number, row in enumerate(db.execute(_TURNS, values)):
        if number % ROWS_AT_ONCE == 0:
            # What is left is to look at the calls of these turns.
            asked.report(number, 2 * count)
        session_id, turn_id, uid = row[:3]
        if turn_id in copied:
            continue
        agent, model, started, *tokens = row[3:10]
        seq, prompt, ended = row[-3:]
        yield turn_id, HabitTurn(
            session=uids[members.root_of[session_id]], context=uids[session_id], uid=uid, seq=seq,
            agent=names.setdefault(agent, agent), model=names.setdefault(model, model), prompt=prompt,
            started=started, ended=ended,
            tokens=Tokens(
                input=tokens[0], output=tokens[1], cache_read=tokens[2], cache_write=tokens[3],
                cache_write_1h=row[10], largest_input=row[11],
            ),
            cost=costs.of_row(row[:15], 0, session_id in included),
        )  # fmt: skip


def _places(asked: StatsQuestion, rows: Mapping[str, RootRow]) -> dict[str, HabitPlace]:
    """The places of sessions, each made once."""
    places = {each: _place(row, asked) for each, row in {row[2]: row for row in rows.values()}.items()}
    return {uid: places[row[2]] for uid, row in rows.items()}


def _place(row: RootRow, asked: StatsQuestion) -> HabitPlace:
    session = Root.of(row)
    moves = asked.wanted.moves
    project, root, cwd = (
        each if each is None or moves is None else moves.here(each, session.created)
        for each in (session.project, session.root, session.cwd)
    )
    key, name = asked.names.of(project, session.repository, root, cwd)
    return HabitPlace(key=key, name=name, root=root or cwd)


def _failed(db: apsw.Connection, known: _Known) -> Iterator[HabitCall]:
    """The calls that failed."""
    yield from _calls(db, known, _FAILED, schema.json_list(known.turns))


def _slow(db: apsw.Connection, known: _Known, report: Callable[[int, int], None]) -> Iterator[HabitCall]:
    """The calls that took long and did not fail, of turns that took long. ``report`` is told of the second half."""
    long = [id_ for id_, each in known.turns.items() if (each.ended or 0) - each.started >= SLOW_MS]
    for start in range(0, len(long), TURNS_AT_ONCE):
        report(len(long) + start, 2 * len(long))
        yield from _calls(db, known, _SLOW, schema.json_list(long[start : start + TURNS_AT_ONCE]))


def _call_counts(db: apsw.Connection, turn_ids: Sequence[int]) -> dict[str, int]:
    """Return the number of calls of each of these turns, by its uid."""
    return {str(uid): int(count) for uid, count in db.execute(_COUNTS, (schema.json_list(turn_ids),))}


def _calls(db: apsw.Connection, known: _Known, sql: str, ids: str) -> Iterator[HabitCall]:
    codecs: dict[int, EventCodec] = {}
    for turn_id, session_id, seq, at, is_error, took, data, result in db.execute(sql, (ids,)):
        call = event_from_json(unpack_event(db, codecs, data))
        came = event_from_json(unpack_event(db, codecs, result))
        if not isinstance(call, ToolCall) or not isinstance(came, ToolResult):
            continue
        turn = known.turns[turn_id]
        output = came.content[:OUTPUT_CHARS] if is_error else ""
        yield HabitCall(
            session=known.listed(session_id), context=known.uids[session_id], turn=turn.uid, agent=turn.agent,
            seq=seq, at=at, tool_name=call.tool_name, tool=call.tool, words=call_words.script_words(call),
            reading=call_words.reading_words(call), path=call.file_path, is_error=bool(is_error), output=output,
            error=call_words.error_words(output), duration_ms=took if came.duration_ms is None else came.duration_ms,
        )  # fmt: skip


def _repeated(db: apsw.Connection, known: _Known) -> Iterator[RepeatedRead]:
    """The calls that read of a file that the same context had read, perhaps another part.

    The compact form of a call does not say which part it asked for; parts of the same length are the same.
    """
    codecs: dict[int, EventCodec] = {}
    rows = db.execute(_TOUCHES, (known.sessions(),))
    for (session_id, path), touches in groupby(rows, key=lambda row: row[:2]):
        parts, last_seq, last_at = dict[int, int](), 0, 0
        for _, _, seq, action, turn_id, at, data, chars in touches:
            if action != "read":
                parts.clear()
                last_seq = 0
                continue
            if chars is None or at is None or not _is_reader(event_from_json(unpack_event(db, codecs, data))):
                continue
            # Calls of one request come at once.
            if last_seq and at - last_at >= REQUEST_MS and turn_id in known.turns:
                yield RepeatedRead(
                    session=known.listed(session_id), context=known.uids[session_id], turn=known.turns[turn_id].uid,
                    path=path, seq=seq, last_seq=last_seq, same_seq=parts.get(chars), at=at, last_at=last_at,
                )  # fmt: skip
            parts[chars], last_seq, last_at = seq, seq, at


def _is_reader(call: Event) -> bool:
    """Return True if it is a tool that reads files; a shell's commands read them in passing."""
    return isinstance(call, ToolCall) and call.tool == Tool.READ


_IDS = "(select value from json_each(?))"
_UIDS = f"select id, uid from sessions where id in {_IDS}"
_TURNS = f"""
select session_id, id, uid, {PAID_COLUMNS}, first_seq, substr(prompt, 1, {PROMPT_CHARS}), ended
from turns where session_id in {_IDS} and removed is null and started >= ? and started < ?
order by session_id, first_seq, id
"""
_TOUCHED = f"select distinct file_path from session_files where file_path in {_IDS}"
_EDITED = f"select distinct session_id from session_files where action <> 'read' and session_id in {_IDS}"
_COMPACTED = f"select session_id, seq from checkpoints where seq is not null and session_id in {_IDS}"
_COLUMNS = "e.turn_id, e.session_id, e.seq, e.at, c.is_error, r.at - e.at, e.data, r.data"
_FAILED = f"""
select {_COLUMNS} from call_results c cross join events e on e.id = c.call_id cross join events r on r.id = c.result_id
where c.is_error = 1 and e.turn_id in (select value from json_each(?))
"""
"""Few calls fail, so these are found first."""
_OF_TURNS = f"""
from turns t cross join events e on e.session_id = t.session_id and e.seq between t.first_seq and t.last_seq
  and e.turn_id = t.id and e.kind in {schema.CALLS}
"""
_SLOW = f"""
select {_COLUMNS} {_OF_TURNS}
cross join call_results c on c.call_id = e.id cross join events r on r.id = c.result_id
where t.id in (select value from json_each(?)) and c.is_error = 0 and r.at - e.at >= {SLOW_MS}
"""
_COUNTS = f"select t.uid, count(*) {_OF_TURNS} where t.id in (select value from json_each(?)) group by t.id"
_TOUCHES = f"""
with often(id, session_id, file_path) as (
  select f.id, f.session_id, f.file_path from session_files f join file_touches t on t.file_id = f.id
  where f.session_id in {_IDS} group by f.id having sum(t.action = 'read') >= {READS_MIN}
)
select o.session_id, o.file_path, t.seq, t.action, e.turn_id, e.at, e.data, r.char_len
from often o cross join file_touches t on t.file_id = o.id
  cross join events e on e.session_id = o.session_id and e.seq = t.seq and e.part = t.part
  left join call_results c on c.call_id = e.id and c.is_error = 0 left join events r on r.id = c.result_id
order by o.session_id, o.file_path, t.seq, t.part
"""
