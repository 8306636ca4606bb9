"""The tokens and costs of agents in some time: by day, agent, model, repository and session, each turn once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.bounds import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backstory.ask.stats import By
    from backstory.derive.tally import Figures
    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.history.stats import StatsGroup, StatsQuery
    from backstory.workspace.reader import Reader

GROUPINGS: tuple[By, ...] = ("day", "agent", "model", "repository", "session")


class CostReport(Struct, frozen=True, kw_only=True):
    """The sums of turns, and of the summaries that agents were asked for, which are in ``total``, too.

    ``groups``: days in order of time, every other grouping with the dearest first.
    ``dearest``: the sessions that cost most, by their uids. ``undated``: turns without a time, which are not counted.
    ``is_counted_earlier``: as ``Stats`` has it.
    """

    query: StatsQuery
    total: Figures
    summaries: Figures
    groups: Mapping[By, tuple[StatsGroup, ...]]
    dearest: Mapping[str, ListedSession]
    undated: int
    is_counted_earlier: bool = False


def cost_report(reader: Reader, query: StatsQuery, *, dearest: int, report: Callable[[int, int], None]) -> CostReport:
    """Count the turns that a query asks for. ``report`` receives how many turns were read, of how many."""
    found = reader.stats_by(query, GROUPINGS, report)
    groups = {by: stats.groups for by, stats in zip(GROUPINGS, found, strict=True)}
    uids = [each.key.value for each in groups["session"][:dearest] if each.key.value]
    return CostReport(
        query=query,
        total=found[0].total,
        summaries=found[0].summaries,
        groups=groups,
        dearest={each.uid: each for each in reader.sessions_of(uids)},
        undated=found[0].undated,
        is_counted_earlier=found[0].is_counted_earlier,
    )


def as_json(report: CostReport) -> dict[str, Any]:
    """A report as ``report cost --json`` prints it."""
    total = report.total
    return {
        "since": iso(report.query.wanted.since),
        "until": iso(report.query.wanted.until),
        "total": _figures(total),
        "summaries": {"summaries": report.summaries.turns} | _used(report.summaries),
        **{
            f"by_{by}": [_key(by, each) | _figures(each.figures) for each in groups]
            for by, groups in report.groups.items()
        },
        "exact_usd": total.reported_usd,
        "computed_usd": total.computed_usd,
        "unknown_turns": total.without_cost,
        "undated_turns": report.undated,
        "counted_earlier": report.is_counted_earlier,
    }


def _key(by: By, group: StatsGroup) -> dict[str, Any]:
    place = {"project": group.key.project} if by == "repository" else {}
    return {by: group.key.value} | place


def _figures(figures: Figures) -> dict[str, Any]:
    return {
        "sessions": figures.sessions,
        "turns": figures.turns,
        **_used(figures),
        "turns_with_partial_tokens": figures.partial_tokens,
    }


def _used(figures: Figures) -> dict[str, Any]:
    return {
        "input": figures.input,
        "output": figures.output,
        "cache_read": figures.cache_read,
        "cache_write": figures.cache_write,
        "cost_usd": figures.cost.usd,
        "cost_kind": figures.cost.kind,
        "low_usd": figures.cost.low_usd,
        "high_usd": figures.cost.high_usd,
    }
