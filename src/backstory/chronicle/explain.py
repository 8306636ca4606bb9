"""The SQL that returns the same numbers as a report: one query for each part, for ``backstory sql``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.ask.stats import WEEKDAYS
from backstory.bounds import iso
from backstory.derive.phrasing import phrasing_condition
from backstory.model import Relation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backstory.ask.stats import By
    from backstory.derive.tally import GroupKey
    from backstory.workspace.history.sessions import SessionFilter
    from backstory.workspace.reader import Reader

GROUP_COLUMNS: Mapping[By, str] = {
    "day": "date(u.at, 'localtime')",
    "agent": "u.agent",
    "model": "u.model",
    "repository": "l.place",
    "session": "l.uid",
    "hour": "strftime('%H', u.at, 'localtime')",
    "weekday": "strftime('%w', u.at, 'localtime')",
}
SUNDAY_FIRST = ("Sunday", *WEEKDAYS[:-1])
"""The weekdays as SQLite numbers them."""
OF_COSTS: tuple[By, ...] = ("day", "agent", "model", "repository", "session")
TURNS, USED = "sessions, turns and time", "tokens and cost"
"""The names of the queries of a group."""


def cost_queries(reader: Reader, wanted: SessionFilter) -> dict[str, str]:
    """Return the SQL query of each part of a cost report, by the part's name."""
    sessions = sessions_with_subagents(reader.condition_of(wanted))
    both = f"(\n  {_TURNS_USED}{_in_time(wanted)}\n  union all\n  {_summaries(wanted)}\n)"
    return {"total": _usage(sessions, both), "summaries": _usage(sessions, f"(\n  {_summaries(wanted)}\n)")} | {
        f"by {by}": _usage(sessions, "usage", [GROUP_COLUMNS[by]], _in_time(wanted)) for by in OF_COSTS
    }


def group_queries(
    reader: Reader, wanted: SessionFilter, by: By | None = None, key: GroupKey | None = None
) -> dict[str, str]:
    """Return the SQL queries of the figures of a group of turns, by name, each of one row; of all without ``by``."""
    sessions = sessions_with_subagents(reader.condition_of(wanted))
    time = _in_time(wanted)
    turns = _turns(sessions, condition=_and(time, _of_group(by, key, "u")))
    if by is None:
        both = f"(\n  {_TURNS_USED}{time}\n  union all\n  {_summaries(wanted)}\n)"
        return {TURNS: turns, USED: _usage(sessions, both)}
    return {TURNS: turns, USED: _usage(sessions, "usage", condition=_and(time, _of_group(by, key, "l")))}


def grouped_queries(reader: Reader, wanted: SessionFilter, by: By) -> dict[str, str]:
    """Return the same with a row for each group of a grouping, which the first columns name."""
    sessions, time = sessions_with_subagents(reader.condition_of(wanted)), _in_time(wanted)
    turns, used = ([_column(each, of) for each in by.split()] for of in ("u", "l"))
    return {TURNS: _turns(sessions, turns, time), USED: _usage(sessions, "usage", used, time)}


def tool_queries(reader: Reader, wanted: SessionFilter, tool: str | None = None) -> dict[str, str]:
    """Return the SQL query of calls: a row for each tool, or of one of them for each session."""
    time, first = _also_in_time(wanted, "c.at"), "c.tool_name" if tool is None else "l.uid"
    only = "" if tool is None else f" and c.tool_name = {quoted(tool)}"
    query = (
        f"{sessions_with_subagents(reader.condition_of(wanted))}\n"
        f"select {first}, count(*) as calls, sum(c.is_error is 1) as failed, count(distinct l.uid) as sessions\n"
        f"from tool_calls c join l on l.id = c.session_id\nwhere not c.is_copy{only}{time}\n"
        "group by 1 order by 2 desc, 1"
    )
    return {"calls": query}


def standup_queries(reader: Reader, wanted: SessionFilter, *, only_work: bool = True) -> dict[str, str]:
    """Return the SQL query of each stand-up number that SQL can return, by name: a row for each session.

    ``only_work``: without turns that phrased a report, and sessions that have no other.
    """
    works = f"exists (select 1 from main.turns p where p.session_id = s.id and not {phrasing_condition('p.prompt')})"
    conditions = [reader.condition_of(wanted), works if only_work else ""]
    sessions = sessions_with_subagents(" and ".join(each for each in conditions if each))
    passed = f" and not {phrasing_condition('t.user_message')}" if only_work else ""
    own = f"from {{view}} join sessions s on s.id = {{id}} join l on l.id = s.id\nwhere {_IS_LISTED}"
    turns, refs = own.format(view="turns t", id="t.session_id"), own.format(view="session_refs r", id="r.session_id")
    return {
        "turns": (
            f"{sessions}\nselect l.uid, count(*) as turns, min(t.timestamp) as asked_at\n{turns} and not t.is_copy and "
            f"t.removed is null{passed}{_also_in_time(wanted, 't.timestamp')}\ngroup by 1 order by 1"
        ),
        "cost": _usage(sessions, "usage", ["l.uid"], _in_time(wanted)),
        "refs": (
            f"{sessions}\nselect l.uid, r.ref_type, r.ref_value, r.host, r.repository, r.created_at as as_of\n{refs}"
            f"{_also_in_time(wanted, 'r.created_at')}\norder by l.uid, r.seq, r.id"
        ),
    }


_IS_LISTED = f"s.relation is not '{Relation.SUBAGENT}'"


def sessions_with_subagents(condition: str = "") -> str:
    """The sessions that are listed, each with its subagents' sessions: id, and uid and place of the listed one.

    ``condition``: on a session ``s`` of ``main.sessions``.
    """
    chosen = f" and s.id in (\n    select s.id from main.sessions s where {condition})" if condition else ""
    return (
        "with recursive l(id, uid, place) as (\n"
        f"  select id, uid, shown_place(project, repository, root, cwd) from sessions s "
        f"where {_IS_LISTED}{chosen}\n"
        "  union select s.id, l.uid, l.place from sessions s join l on s.parent_id = l.id "
        f"where s.relation = '{Relation.SUBAGENT}'\n)"
    )


def _usage(sessions: str, source: str, shown: Sequence[str] = (), condition: str = "") -> str:
    return (
        f"{sessions}\nselect {_named(shown)}sum(u.input_tokens) as input, sum(u.output_tokens) as output,\n"
        "  sum(u.cache_read_tokens) as cache_read, sum(u.cache_write_tokens) as cache_write,\n"
        "  sum(u.low_usd) as low_usd, sum(iif(u.cost_kind = 'exact', u.low_usd, null)) as exact_usd,\n"
        "  coalesce(sum(u.cost_kind = 'unknown' and u.model is not null), 0) as unknown_turns\n"
        f"from {source} u join l on l.id = u.session_id{condition}{_grouped(shown)}"
    )


def _turns(sessions: str, shown: Sequence[str] = (), condition: str = "") -> str:
    """A query of turns and the sessions with them. A session without turns counts when it was last active."""
    return (
        f"{sessions}, u(uid, place, at, agent, model, is_own, duration_ms) as (\n"
        "  select l.uid, l.place, t.timestamp, t.agent, t.model, s.id = t.session_id and not t.is_copy, t.duration_ms\n"
        "  from turns t join l on l.id = t.session_id join main.sessions s on s.uid = l.uid\n"
        "  union all\n"
        "  select l.uid, l.place, strftime('%Y-%m-%dT%H:%M:%fZ', nullif(s.last_active, 0) / 1000.0, 'unixepoch'),\n"
        "    null, null, 0, s.duration_ms\n"
        f"  from l join main.sessions s on s.id = l.id and s.uid = l.uid where s.relation is not '{Relation.UNREAD}'\n"
        "    and l.uid not in (select l.uid from l join main.turns t on t.session_id = l.id)\n)\n"
        f"select {_named(shown)}count(distinct u.uid) as sessions, coalesce(sum(u.is_own), 0) as turns,\n"
        "  sum(iif(u.is_own or u.agent is null, u.duration_ms, null)) as duration_ms\n"
        f"from u{condition}{_grouped(shown)}"
    )


def _named(shown: Sequence[str]) -> str:
    return "".join(f"{each}, " for each in shown)


def _grouped(shown: Sequence[str]) -> str:
    numbers = ", ".join(str(n) for n, _ in enumerate(shown, 1))
    return f"\ngroup by {numbers} order by {numbers}" if shown else ""


def _column(by: str, of: str) -> str:
    """The column of a property. ``of``: the table that has a session's uid and place."""
    return GROUP_COLUMNS[by].replace("l.", f"{of}.")  # type: ignore[index]


def _and(condition: str, more: str) -> str:
    return condition + (f" and {more}" if condition else f"\nwhere {more}") if more else condition


def _of_group(by: By | None, key: GroupKey | None, of: str) -> str:
    """The condition of a group on ``u``, and on the table ``of``; '' for all turns."""
    if by is None or key is None:
        return ""
    within, _, second = by.rpartition(" ")
    values = [(within, key.within)] if within else []
    values.append((second, (key.project or key.value) if second == "repository" else key.value))
    return " and ".join(_is(_column(each, of), each, value) for each, value in values)


def _is(column: str, by: str, value: str | None) -> str:
    if value is None:
        return f"{column} is null"
    return f"{column} = {quoted(str(SUNDAY_FIRST.index(value)) if by == 'weekday' else value)}"


_USED = "session_id, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens"
_TURNS_USED = f"select {_USED},\n    low_usd, cost_kind, model from usage u"


def _summaries(wanted: SessionFilter) -> str:
    """Rows of what each summary took that an agent was asked for, as ``_TURNS_USED``; copies of one count once."""
    return (
        f"select {_USED},\n"
        "    cost_usd as low_usd, iif(cost_usd is null, 'unknown', 'exact') as cost_kind, null as model\n"
        f"    from compactions where agent is not null{_also_in_time(wanted, 'created')}\n"
        "    group by created, agent, length(summary) having id = min(id)"
    )


def _in_time(wanted: SessionFilter) -> str:
    conditions = _also_in_time(wanted, "u.at")
    return f"\nwhere{conditions.removeprefix(' and')}" if conditions else ""


def _also_in_time(wanted: SessionFilter, column: str) -> str:
    bounds = ((">=", wanted.since), ("<", wanted.until))
    return "".join(f" and {column} {sign} {quoted(str(iso(ms)))}" for sign, ms in bounds if ms is not None)


def quoted(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"
