"""The tokens and costs of agents in some time: by day, agent, model, repository and session, each turn once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from backstory.ask.stats import HOURS, PERSON, WEEKDAYS
from backstory.bounds import UNKNOWN, counted, duration, iso
from backstory.chronicle.report import Count, OfGroup, OfSession, OfTool, Report, ReportTable, Section, facts
from backstory.chronicle.window import window_words
from backstory.derive.pricing import CostKind, shown_as
from backstory.derive.tally import Group, GroupKey
from backstory.ids import session_keys
from backstory.workspace.history.stats import StatsGroup, used, used_as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from backstory.ask.stats import By
    from backstory.derive.tally import Figures
    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.history.stats import Stats, StatsQuery, ToolStats
    from backstory.workspace.reader import Reader
    from backstory.workspace.team_reader import Whose

GROUPINGS: tuple[By, ...] = ("day", "agent", "model", "repository", "session")
OF_TEAM: tuple[By, ...] = (PERSON, *GROUPINGS)
MOST_SHOWN = 10
"""The most groups that are shown, except of days; --json has all."""
HEADS = ("SESSIONS", "TURNS", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "TIME", "COST")
NAMES = {"day": "no date", "hour": "no time", "weekday": "no time", "model": "no model"}
WHOLE: Mapping[By | None, Sequence[str]] = {"hour": HOURS, "weekday": WEEKDAYS}
"""The groups of groupings that are drawn as a whole, those without turns too."""


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
    whose: Mapping[str, Whose] = {}
    """The person and the machine of each session, of a team."""


def cost_report(
    reader: Reader, query: StatsQuery, *, dearest: int, report: Callable[[int, int], None], more: tuple[By, ...] = (),
    whose: Callable[[str], Whose] | None = None,
) -> CostReport:  # fmt: skip
    """Count the turns that a query asks for. ``report`` receives how many turns were read, of how many.

    ``more``: other groupings of them. ``whose``: tells whose a session of a team is, by its uid.
    """
    if whose is not None:
        query = replace(query, person_of=lambda uid: whose(uid).person)
    groupings = (*(GROUPINGS if whose is None else OF_TEAM), *more)
    found = reader.stats_by(query, groupings, report)
    groups = {by: stats.groups for by, stats in zip(groupings, found, strict=True)}
    all_uids = [each.key.value for each in groups["session"] if each.key.value]
    uids = all_uids[:dearest]
    return CostReport(
        query=query,
        total=found[0].total,
        summaries=found[0].summaries,
        groups=groups,
        dearest={each.uid: each for each in reader.sessions_of(uids)},
        undated=found[0].undated,
        is_counted_earlier=found[0].is_counted_earlier,
        whose={} if whose is None else {uid: whose(uid) for uid in all_uids},
    )


def report(found: CostReport, most: int = MOST_SHOWN) -> Report:
    """Draw the sums, then a table of each grouping, of all but days of ``most`` groups."""
    total = found.total
    known = facts((
        *(f"{shown_as(kind, usd)} {how}" for kind, usd, how in (
            (CostKind.EXACT, total.reported_usd, "reported by agents"),
            (CostKind.COMPUTED, total.computed_usd, "computed from tokens and prices"),
        ) if usd is not None),
        f"{counted(total.without_cost, 'turn')} unknown" if total.without_cost else "",
    ))  # fmt: skip
    head = sums(total, found.summaries)
    sections = [replace(head, sums=(*head.sums, ("Known", (known,)))) if known else head]
    for by in filter(found.groups.__contains__, OF_TEAM):
        groups = found.groups[by]
        shown = groups if by == "day" else groups[:most]
        more = len(groups) - len(shown)
        names = [_name(found, by, each) for each in shown]
        table = group_table(by, list(zip(names, shown, strict=True)), total, found.summaries)
        sections.append(Section(title=f"By {by}", table=table, notes=(f"{more:,} more: --json",) if more else ()))
    return Report(title=f"Cost {window_words(found.query.wanted)}", sections=tuple(sections))


def _name(found: CostReport, by: By, group: StatsGroup) -> str:
    value = group.key.value
    session = found.dearest.get(value) if by == "session" and value is not None else None
    if session is None:
        return group_name(by, value)
    whose = found.whose.get(session.uid)
    return " ".join(filter(None, (session.label, whose and f"{whose.person}:", session.heading)))


def group_name(by: By, value: str | None) -> str:
    """Return the name of a group in a table."""
    return value or NAMES.get(by, UNKNOWN)


def stats_report(found: Stats) -> Section:
    """Draw sums over turns, or a line for each group of them."""
    by = found.query.by
    if by is None:
        return sums(found.total, found.summaries)
    is_everywhere = by == "branch" and found.query.wanted.everywhere
    named: list[tuple[str, StatsGroup]] = []
    for each in _whole(found.groups, WHOLE.get(by, ())):
        name = group_name(by, each.key.value)
        where = each.key.project_name if is_everywhere else ""
        named.append((f"{name} ({where})" if where else name, each))
    return Section(table=group_table(by, named, found.total, found.summaries))


def activity_report(times: Sequence[Stats]) -> Report:
    """Draw when turns began, by several groupings of the same ones."""
    first = times[0]
    sections = (sums(first.total, first.summaries), *map(stats_report, times))
    return Report(title=f"Activity {window_words(first.query.wanted)}", sections=sections)


def _whole(groups: Sequence[StatsGroup], values: Sequence[str]) -> list[StatsGroup]:
    """All groups in the order of values, empty ones for those that have none, then what has another value."""
    known = {each.key.value: each for each in groups}
    empty = (StatsGroup(key=GroupKey(value=value), figures=Group().figures) for value in values)
    return [*(known.pop(each.key.value, each) for each in empty), *known.values()]


def tools_report(found: ToolStats) -> Section:
    """Draw how often each tool was called."""
    rows = ((each.tool or UNKNOWN, f"{each.calls:,}", f"{each.failed:,}", f"{each.sessions:,}") for each in found.tools)
    calls = tuple(each.calls for each in found.tools)
    about = tuple(OfTool(each.tool) for each in found.tools)
    return Section(table=ReportTable(("TOOL", "CALLS", "FAILED", "SESSIONS"), tuple(rows), calls, about=about))


def sums(total: Figures, summaries: Figures) -> Section:
    """Draw the sums of everything. What summaries took is part of them."""
    shown: list[tuple[str, tuple[str | Count, ...]]] = [
        ("Sessions", (f"{total.sessions:,}",)),
        ("Turns", (f"{total.turns:,}",)),
        ("Tokens", tuple(_by_kind(total))),
        ("Cost", (total.cost.shown,)),
        ("Time", (duration(total.duration_ms) or UNKNOWN,)),
    ]
    if summaries.turns:
        *kinds, last = _by_kind(summaries)
        parts = (f"{summaries.turns:,}:", *kinds, f"{last}, {summaries.cost.shown}, in these sums")
        shown.append(("Summaries", parts))
    return Section(sums=tuple(shown), about=OfGroup())


def _by_kind(figures: Figures) -> Iterator[str | Count]:
    kinds = ("input ·", "output ·", "cache read ·", "cache write")
    for count, kind in zip(_tokens(figures), kinds, strict=True):
        yield from (count, kind)


def group_table(by: By, named: Sequence[tuple[str, StatsGroup]], total: Figures, summaries: Figures) -> ReportTable:
    """Draw a line for each group, and the sum, which is no sum of a column: a session may be in several groups."""
    rows = [(name, *cells(each.figures)) for name, each in named]
    about: list[OfSession | OfGroup | OfTool | None] = [_about(by, each.key) for _, each in named]
    if summaries.turns:
        rows.append(("Summaries", *cells(summaries, is_turns=False)))
        about.append(None)
    if len(named) > 1 or summaries.turns:
        rows.append(("Total", *cells(total)))
        about.append(OfGroup())
    measured, measure = _measure(by, [each.figures for _, each in named])
    return ReportTable((by.upper(), *HEADS), tuple(rows), tuple(measure), measured, tuple(about))


def _measure(by: By, groups: Sequence[Figures]) -> tuple[str, list[float]]:
    """The length of the bar of each group, and the head of the bars where these are not costs.

    A time of the day or the week is asked for by who wants to know when there is work.
    """
    costs = [each.cost.low_usd or 0.0 for each in groups]
    if any(costs) and by not in WHOLE:
        return "", costs
    tokens = [used(each) for each in groups]
    if any(tokens) and by not in WHOLE:
        return "TOKENS", [*tokens]
    return "TURNS", [each.turns for each in groups]


def _about(by: By, key: GroupKey) -> OfSession | OfGroup:
    return OfSession(key.value) if by == "session" and key.value is not None else OfGroup(by, key)


def cells(figures: Figures, *, is_turns: bool = True) -> tuple[str | Count, ...]:
    """The figures of some turns, in the order of ``HEADS``."""
    return (
        f"{figures.sessions:,}",
        f"{figures.turns:,}" if is_turns else UNKNOWN,
        *_tokens(figures),
        duration(figures.duration_ms) or UNKNOWN,
        figures.cost.shown,
    )


def _tokens(figures: Figures) -> Iterator[str | Count]:
    for count in (figures.input, figures.output, figures.cache_read, figures.cache_write):
        yield UNKNOWN if count is None else Count(count, count > 0 and figures.partial_tokens > 0)


def not_counted(total: Figures, summaries: Figures, undated: int) -> str:
    """Return what is not known of turns and summaries, in sentences; '' if everything is."""
    missing = [("tokens", total.without_tokens), ("cost", total.without_cost), ("duration", total.without_duration)]
    said = [f"{name} of {counted(count, 'turn')}" for name, count in missing if count]
    missing = [("tokens", summaries.without_tokens), ("cost", summaries.without_cost)]
    said += [f"{name} of {counted(count, 'summary', 'summaries')}" for name, count in missing if count]
    sentences = [f"Not counted, because unknown: {', '.join(said)}."] if said else []
    if total.partial_tokens:
        sentences.append(f"Tokens are at least these: some of {counted(total.partial_tokens, 'turn')} are not known.")
    if undated:
        sentences.append(f"{counted(undated, 'turn')} without a time left out.")
    return " ".join(sentences)


def as_json(found: CostReport) -> dict[str, Any]:
    """A report as ``report cost --json`` prints it; groups are made as they are printed."""
    total = found.total
    return {
        "since": iso(found.query.wanted.since),
        "until": iso(found.query.wanted.until),
        "sums": _figures(total),
        "summary_sums": {"summary_count": found.summaries.turns} | used_as_json(found.summaries),
        **{f"by_{by}": map(partial(_group_as_json, found, by), groups) for by, groups in found.groups.items()},
        "exact_usd": total.reported_usd,
        "computed_usd": total.computed_usd,
        "turns_without_cost": total.without_cost,
        "undated_turns": found.undated,
        "counted_earlier": found.is_counted_earlier,
    }


def _group_as_json(found: CostReport, by: By, group: StatsGroup) -> dict[str, Any]:
    whose = found.whose.get(group.key.value or "") if by == "session" else None
    return _key(by, group) | ({} if whose is None else whose._asdict()) | _figures(group.figures)


def _key(by: By, group: StatsGroup) -> dict[str, Any]:
    place = {"project": group.key.project} if by == "repository" else {}
    key = group.key.value
    # A group of a session is named as every session is.
    if by == "session":
        return (session_keys(key) if key else {"uid": None, "label": None}) | place
    return {by: key} | place


def _figures(figures: Figures) -> dict[str, Any]:
    return {
        "session_count": figures.sessions,
        "turn_count": figures.turns,
        **used_as_json(figures),
        "turns_with_partial_tokens": figures.partial_tokens,
    }
