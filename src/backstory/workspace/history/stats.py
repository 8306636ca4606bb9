"""Figures of agents' work: sums over the turns of several stores, each turn once, and the same as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from backstory.ask import costs
from backstory.ask import stats as stored_stats
from backstory.ask.stats import WEEKDAYS, By, StatsQuestion
from backstory.bounds import iso
from backstory.derive.pricing import Cost, cost_as_json
from backstory.derive.tally import CostTally, Figures, GroupKey, Tally
from backstory.lazy import lazy_module
from backstory.model import tokens_as_json
from backstory.store.file import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import tzinfo

    from backstory.ask import tool_stats
    from backstory.ask.tool_stats import ToolCalls
    from backstory.store import Store
    from backstory.workspace.history.listing import Listing
    from backstory.workspace.history.sessions import SessionFilter
else:
    tool_stats = lazy_module("backstory.ask.tool_stats")


class StatsQuery(Struct, frozen=True, kw_only=True):
    """The turns to count: those that began between ``since`` and ``until``, of sessions that the other filters choose.

    ``zone``: where days begin; None: the system's. ``is_estimated``: also what lower bounds of costs may come to.
    ``among``: only of these sessions of the home store, by id; None: of all.
    """

    wanted: SessionFilter
    among: frozenset[int] | None = None
    by: By | None = None
    only: tuple[By, GroupKey] | None = None
    """Only the turns of this group of a grouping, without summaries; None: all."""
    zone: tzinfo | None = None
    is_estimated: bool = True
    person_of: Callable[[str], str | None] = lambda uid: None
    """As ``StatsQuestion`` has it."""


class StatsGroup(Struct, frozen=True, kw_only=True):
    """Some of the turns, by what they have in common."""

    key: GroupKey
    figures: Figures


class Stats(Struct, frozen=True, kw_only=True):
    """The figures: groups of times in their order, others with the dearest first. ``undated`` turns have no time.

    ``total`` is all groups and ``summaries``, whose turns are the summaries that an agent was asked for.
    ``is_counted_earlier``: an earlier version derived some of what is there, so sums may be other ones.
    """

    query: StatsQuery
    total: Figures
    groups: tuple[StatsGroup, ...]
    summaries: Figures
    undated: int
    is_counted_earlier: bool = False


class ToolFigures(Struct, frozen=True, kw_only=True):
    """The number of calls of a tool, and of sessions with it; ``tool`` is its agent's name for it."""

    tool: str
    calls: int
    failed: int
    without_result: int
    """Calls of which nobody knows how they ended."""
    sessions: int


class ToolStats(Struct, frozen=True, kw_only=True):
    """The calls of tools, the most called first; ``sessions``: that called any."""

    query: StatsQuery
    tools: tuple[ToolFigures, ...]
    sessions: int
    is_counted_earlier: bool = False


def count_turns(
    listing: Listing, query: StatsQuery, report: Callable[[int, int], None], stores: Sequence[Store] | None = None
) -> Stats:
    """Count the turns of the sessions that are listed. ``stores``: only of these, those that win first."""
    (found,) = count_turns_by(listing, query, (query.by,), report, stores)
    return found


def count_turns_by(
    listing: Listing,
    query: StatsQuery,
    groupings: Sequence[By | None],
    report: Callable[[int, int], None],
    stores: Sequence[Store] | None = None,
) -> tuple[Stats, ...]:
    """Count the same turns in several groupings, reading them once."""
    tallies, is_earlier = [Tally() for _ in groupings], False
    for number, (store, asked) in enumerate(asked_of_each(listing, query, groupings, report, stores)):
        store.ask_or(None, stored_stats.add_turns, costs.price_table(store.prices_file), asked, tallies, number)
        is_earlier |= not store.ask_or(True, migrate.is_derived)
    # All of them have the same turns.
    total = min(tallies, key=lambda each: len(each.groups)).whole.figures
    by_each = zip(groupings, tallies, strict=True)
    return tuple(_stats(replace(query, by=by), tally, total, is_earlier=is_earlier) for by, tally in by_each)


def session_costs(
    listing: Listing, wanted: SessionFilter, report: Callable[[int, int], None]
) -> tuple[dict[str | None, Cost], int]:
    """Return the cost of each session's turns that are wanted, and the number of turns without a time.

    The costs are those of ``count_turns`` by session, without its other figures. ``report``: as there.
    """
    tally, query = CostTally(), StatsQuery(wanted=wanted)
    for number, (store, asked) in enumerate(asked_of_each(listing, query, ("session",), report)):
        store.ask_or(None, stored_stats.add_turns, costs.price_table(store.prices_file), asked, [tally], number)
    return tally.costs(), tally.undated


def _stats(query: StatsQuery, tally: Tally, total: Figures, *, is_earlier: bool) -> Stats:
    # There may be very many, so each goes when its figures are there.
    groups = [StatsGroup(key=key, figures=tally.groups.pop(key).figures) for key in list(tally.groups)]
    groups.sort(key=_by_time if query.by in stored_stats.TIMES else _by_cost)
    shown = () if query.by is None else tuple(groups)
    return Stats(
        query=query, total=total, groups=shown, summaries=tally.summaries.figures,
        undated=tally.undated, is_counted_earlier=is_earlier,
    )  # fmt: skip


def count_calls(
    listing: Listing, query: StatsQuery, report: Callable[[int, int], None], stores: Sequence[Store] | None = None,
    only: str | None = None,
) -> ToolStats:  # fmt: skip
    """Count the calls of tools in the sessions that are listed; ``only``: of this tool, by the session's uid."""
    tools, is_earlier = dict[str, "ToolCalls"](), False
    for number, (store, asked) in enumerate(asked_of_each(listing, query, (None,), report, stores)):
        store.ask_or(None, tool_stats.add_calls, costs.price_table(store.prices_file), asked, tools, number, only)
        is_earlier |= not store.ask_or(True, migrate.is_derived)
    found = [
        ToolFigures(
            tool=name, calls=each.calls, failed=each.failed, without_result=each.without_result,
            sessions=len(each.sessions),
        )
        for name, each in tools.items()
    ]  # fmt: skip
    found.sort(key=lambda each: (-each.calls, each.tool))
    sessions = set[int]().union(*(each.sessions for each in tools.values()))
    return ToolStats(query=query, tools=tuple(found), sessions=len(sessions), is_counted_earlier=is_earlier)


def asked_of_each(
    listing: Listing,
    query: StatsQuery,
    groupings: Sequence[By | None],
    report: Callable[[int, int], None],
    stores: Sequence[Store] | None = None,
) -> list[tuple[Store, StatsQuestion]]:
    """Return the question for each store. Sessions that a better store has are counted there."""
    found, sessions, turns = list[tuple["Store", StatsQuestion]](), frozenset[str](), frozenset[str]()
    stores = stores or listing.stores(everywhere=query.wanted.everywhere)
    for store in stores:
        wanted = listing.filter_of(store, query.wanted)
        asked = StatsQuestion(
            wanted=wanted, among=query.among, groupings=tuple(groupings), zone=query.zone, but_sessions=sessions,
            but_turns=turns, is_estimated=query.is_estimated, report=report, names=listing.project_names(),
            only=query.only, person_of=query.person_of,
        )  # fmt: skip
        found.append((store, asked))
        if store is not stores[-1]:
            sessions |= listing.taken_by(store)
            turns |= store.ask_or(frozenset(), stored_stats.uids, costs.price_table(store.prices_file), asked)
    return found


def _by_time(group: StatsGroup) -> tuple[bool, int, str]:
    value = group.key.value or ""
    weekday = WEEKDAYS.index(value) if value in WEEKDAYS else 0
    return group.key.value is None, weekday, value


def _by_cost(group: StatsGroup) -> tuple[float, int, str]:
    figures = group.figures
    return -(figures.cost.low_usd or 0), -used(figures), group.key.value or ""


def used(figures: Figures) -> int:
    """Return the number of tokens of any kind."""
    return sum(each or 0 for each in (figures.input, figures.output, figures.cache_read, figures.cache_write))


def as_json(stats: Stats) -> dict[str, Any]:
    """Sums as ``stats --json`` prints them."""
    query, by = stats.query, stats.query.by
    return {
        "by": by,
        "since": iso(query.wanted.since),
        "until": iso(query.wanted.until),
        "sums": figures_as_json(stats.total),
        "groups": [_key_as_json(by, each.key) | figures_as_json(each.figures) for each in stats.groups],
        "summary_sums": _summaries_as_json(stats.summaries),
        "undated_turns": stats.undated,
        "counted_earlier": stats.is_counted_earlier,
    }


def _summaries_as_json(figures: Figures) -> dict[str, Any]:
    return {
        "summary_count": figures.turns,
        "session_count": figures.sessions,
        **used_as_json(figures),
        "summaries_without_tokens": figures.without_tokens,
        "summaries_without_cost": figures.without_cost,
    }


def used_as_json(figures: Figures) -> dict[str, Any]:
    """Tokens and cost of some turns, by the names of all JSON."""
    return {"tokens": tokens_as_json(figures), **cost_as_json(figures.cost)}


def _key_as_json(by: By | None, key: GroupKey) -> dict[str, Any]:
    if by == "project":
        return {"project": key.project, "project_name": key.project_name}
    if by == "branch":
        return {"branch": key.value, "project": key.project, "project_name": key.project_name}
    return {} if by is None else {by: key.value}


def figures_as_json(figures: Figures) -> dict[str, Any]:
    """The figures of some turns; null where nothing is known."""
    return {
        "session_count": figures.sessions,
        "turn_count": figures.turns,
        **used_as_json(figures),
        "duration_ms": figures.duration_ms,
        "turns_without_tokens": figures.without_tokens,
        "turns_with_partial_tokens": figures.partial_tokens,
        "turns_without_cost": figures.without_cost,
        "turns_without_duration": figures.without_duration,
    }


def tools_as_json(stats: ToolStats) -> dict[str, Any]:
    """Calls as ``stats --by tool --json`` prints them."""
    wanted = stats.query.wanted
    tools = [
        {
            "tool": each.tool,
            "calls": each.calls,
            "failed_calls": each.failed,
            "calls_without_result": each.without_result,
            "session_count": each.sessions,
        }
        for each in stats.tools
    ]
    return {
        "by": "tool",
        "since": iso(wanted.since),
        "until": iso(wanted.until),
        "sums": {
            "calls": sum(each.calls for each in stats.tools),
            "failed_calls": sum(each.failed for each in stats.tools),
            "calls_without_result": sum(each.without_result for each in stats.tools),
            "session_count": stats.sessions,
        },
        "groups": tools,
        "counted_earlier": stats.is_counted_earlier,
    }
