"""The SQL that returns the same numbers as a report: one query for each part, for ``backstory sql``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.bounds import iso
from backstory.model import Relation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backstory.chronicle.cost import CostReport
    from backstory.store.stats import By
    from backstory.workspace.sessions import SessionFilter

GROUP_COLUMNS: Mapping[By, str] = {
    "day": "date(u.at, 'localtime')",
    "agent": "u.agent",
    "model": "u.model",
    "repository": "l.place",
    "session": "l.uid",
}


def cost_queries(report: CostReport) -> dict[str, str]:
    """What each part of a cost report is named, and its query."""
    wanted = report.query.wanted
    uids = [each.key.value for each in report.groups["session"] if each.key.value] if wanted.is_chosen else None
    sessions = sessions_with_subagents(uids)
    return {"total": _usage(sessions, wanted, None)} | {
        f"by {by}": _usage(sessions, wanted, column) for by, column in GROUP_COLUMNS.items()
    }


def sessions_with_subagents(uids: Iterable[str] | None = None) -> str:
    """The sessions that are listed, each with its subagents' sessions: id, and uid and place of the listed one."""
    chosen = "" if uids is None else f" and s.uid in ({', '.join(map(quoted, uids))})"
    return (
        "with recursive l(id, uid, place) as (\n"
        f"  select id, uid, coalesce(repository, main_folder(project)) from sessions s "
        f"where s.relation is not '{Relation.SUBAGENT}'{chosen}\n"
        "  union select s.id, l.uid, l.place from sessions s join l on s.parent_id = l.id "
        f"where s.relation = '{Relation.SUBAGENT}'\n)"
    )


def _usage(sessions: str, wanted: SessionFilter, column: str | None) -> str:
    shown, grouped = ("", "") if column is None else (f"{column}, ", "\ngroup by 1 order by 1")
    return (
        f"{sessions}\nselect {shown}sum(u.input_tokens) as input, sum(u.output_tokens) as output,\n"
        "  sum(u.cache_read_tokens) as cache_read, sum(u.cache_write_tokens) as cache_write,\n"
        "  sum(u.low_usd) as low_usd, sum(iif(u.cost_kind = 'exact', u.low_usd, null)) as exact_usd,\n"
        "  sum(u.cost_kind = 'unknown' and u.model is not null) as unknown_turns\n"
        f"from usage u join l on l.id = u.session_id{_in_time(wanted)}{grouped}"
    )


def _in_time(wanted: SessionFilter) -> str:
    bounds = ((">=", wanted.since), ("<", wanted.until))
    conditions = [f"u.at {sign} {quoted(str(iso(ms)))}" for sign, ms in bounds if ms is not None]
    return f"\nwhere {' and '.join(conditions)}" if conditions else ""


def quoted(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"
