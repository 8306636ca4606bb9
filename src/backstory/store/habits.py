"""What people did with agents, for reports that look for what recurs: turns, calls and reads. Never commits.

Turns are read once; calls and files are looked for in SQL, and only the few events that matter are unpacked: those of
calls that failed or took long. Each turn counts once, as in ``stats``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from backstory.derive.naming import main_folder, project_name
from backstory.model import Tokens
from backstory.store import habit_calls, habit_reads, kinds
from backstory.store.costs import PAID_COLUMNS
from backstory.store.rows import fetch
from backstory.store.stats import ROWS_AT_ONCE, Root, members_of
from backstory.store.tool_stats import copied_turns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import apsw

    from backstory.derive.pricing import Cost
    from backstory.store.costs import Costs
    from backstory.store.habit_calls import HabitCall
    from backstory.store.habit_reads import RepeatedRead
    from backstory.store.stats import Asked, Members


PROMPT_CHARS = 2_000
"""No more of a prompt is looked at."""


class HabitPlace(Struct, frozen=True, kw_only=True):
    """Where a session is: its repository or project, what that is called, and the folder that paths are shown below."""

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
        """Whether it is no subagent's."""
        return self.session == self.context


class HabitRows(Struct, frozen=True, kw_only=True):
    """What one store says. ``calls_of``: how many calls a turn has, of turns that a call here is of."""

    turns: list[HabitTurn] = field(default_factory=list)
    calls: list[HabitCall] = field(default_factory=list)
    repeated: list[RepeatedRead] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    """Of the files that failed calls were about those that a session read or wrote."""
    edited: set[str] = field(default_factory=set)
    """The uids of sessions in which a file was changed."""
    compacted: list[tuple[str, int]] = field(default_factory=list)
    """Where a context was summarised: the session's uid, and the record."""
    calls_of: dict[str, int] = field(default_factory=dict)
    places: dict[str, HabitPlace] = field(default_factory=dict)


class Known(Struct, frozen=True, kw_only=True):
    """What the parts share: the sessions, by their ids here, and the turns that count, by theirs."""

    listed: Mapping[int, str]
    contexts: Mapping[int, str]
    turns: Mapping[int, HabitTurn]

    def sessions(self) -> str:
        """The sessions as one parameter of a statement."""
        return kinds.json_list(self.contexts)


def rows(db: apsw.Connection, costs: Costs, asked: Asked) -> HabitRows:
    """What was done in the turns that began in the time that is asked for."""
    members = members_of(db, costs, asked)
    uids = dict(fetch(db, tuple[int, str], _UIDS, (kinds.json_list({*members.root_of, *members.root_of.values()}),)))
    contexts = {each: uids[each] for each in members.root_of}
    listed = {each: uids[root] for each, root in members.root_of.items()}
    turns = dict(_turns(db, costs, asked, members, uids))
    known = Known(listed=listed, contexts=contexts, turns=turns)
    calls = [*habit_calls.failed(db, known), *habit_calls.slow(db, known, asked.report)]
    repeated = list(habit_reads.repeated(db, known))
    failed = {each.path for each in calls if each.is_error and each.path}
    of_calls = {each.turn for each in calls} | {each.turn for each in repeated}
    used = {each.session for each in turns.values()}
    return HabitRows(
        turns=list(turns.values()),
        calls=calls,
        repeated=repeated,
        touched={path for (path,) in db.execute(_TOUCHED, (kinds.json_list(failed),))},
        edited={contexts[each] for (each,) in db.execute(_EDITED, (known.sessions(),))},
        compacted=[(contexts[each], seq) for each, seq in db.execute(_COMPACTED, (known.sessions(),))],
        calls_of=habit_calls.counts(db, [id_ for id_, each in turns.items() if each.uid in of_calls]),
        places={uids[each]: _place(row, asked) for each, row in members.roots.items() if uids[each] in used},
    )


def _turns(
    db: apsw.Connection, costs: Costs, asked: Asked, members: Members, uids: Mapping[int, str]
) -> Iterator[tuple[int, HabitTurn]]:
    copied = copied_turns(db, costs, asked, members.root_of)
    included = costs.included([each for each, root in members.root_of.items() if each != root])
    wanted = asked.wanted
    values = (kinds.json_list(members.root_of), wanted.since or 0, wanted.until or 1 << 62)
    count = int(db.execute("select count(*) from turns").get)
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
            session=uids[members.root_of[session_id]], context=uids[session_id], uid=uid, seq=seq, agent=agent,
            model=model, prompt=prompt, started=started, ended=ended,
            tokens=Tokens(
                input=tokens[0], output=tokens[1], cache_read=tokens[2], cache_write=tokens[3],
                cache_write_1h=row[10], largest_input=row[11],
            ),
            cost=costs.of_row(row[:15], 0, session_id in included),
        )  # fmt: skip


def _place(row: tuple[Any, ...], asked: Asked) -> HabitPlace:
    session = Root._make(row)
    moves = asked.wanted.moves
    project, root, cwd = (
        each if each is None or moves is None else moves.here(each, session.created)
        for each in (session.project, session.root, session.cwd)
    )
    name = project_name(project, session.repository, root, cwd)
    return HabitPlace(key=session.repository or main_folder(project or ""), name=name, root=root or cwd)


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
