"""The SQL that returns the same numbers as a report: one query for each part, for ``backstory sql``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.bounds import iso
from backstory.derive.phrasing import phrasing_condition
from backstory.model import Relation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backstory.ask.stats import By
    from backstory.workspace.history.sessions import SessionFilter
    from backstory.workspace.reader import Reader

GROUP_COLUMNS: Mapping[By, str] = {
    "day": "date(u.at, 'localtime')",
    "agent": "u.agent",
    "model": "u.model",
    "repository": "l.place",
    "session": "l.uid",
}


def cost_queries(reader: Reader, wanted: SessionFilter) -> dict[str, str]:
    """Return the SQL query of each part of a cost report, by the part's name."""
    sessions = sessions_with_subagents(reader.condition_of(wanted))
    both = f"(\n  {_TURNS_USED}{_in_time(wanted)}\n  union all\n  {_summaries(wanted)}\n)"
    return {"total": _usage(sessions, both), "summaries": _usage(sessions, f"(\n  {_summaries(wanted)}\n)")} | {
        f"by {by}": _usage(sessions, "usage", f"{column}, ", _in_time(wanted)) for by, column in GROUP_COLUMNS.items()
    }


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
        "cost": _usage(sessions, "usage", "l.uid, ", _in_time(wanted)),
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
        f"  select id, uid, coalesce(repository, main_folder(project)) from sessions s "
        f"where {_IS_LISTED}{chosen}\n"
        "  union select s.id, l.uid, l.place from sessions s join l on s.parent_id = l.id "
        f"where s.relation = '{Relation.SUBAGENT}'\n)"
    )


def _usage(sessions: str, source: str, shown: str = "", condition: str = "") -> str:
    grouped = "\ngroup by 1 order by 1" if shown else ""
    return (
        f"{sessions}\nselect {shown}sum(u.input_tokens) as input, sum(u.output_tokens) as output,\n"
        "  sum(u.cache_read_tokens) as cache_read, sum(u.cache_write_tokens) as cache_write,\n"
        "  sum(u.low_usd) as low_usd, sum(iif(u.cost_kind = 'exact', u.low_usd, null)) as exact_usd,\n"
        "  coalesce(sum(u.cost_kind = 'unknown' and u.model is not null), 0) as unknown_turns\n"
        f"from {source} u join l on l.id = u.session_id{condition}{grouped}"
    )


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
