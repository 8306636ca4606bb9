"""``backstory report cost``: what agents used and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from backstory.chronicle.cost import GROUPINGS
from backstory.chronicle.window import DAY_MS
from backstory.cli import output
from backstory.cli.report_options import (
    print_queries,
    print_report,
    print_where_there_is,
    report_options,
    wanted_by,
    window,
)
from backstory.cli.views import stats_table
from backstory.cli.views.counting import counting
from backstory.export.safe_markdown import plain
from backstory.workspace.history.stats import Stats, StatsQuery

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backstory.ask.stats import By
    from backstory.chronicle.cost import CostReport
    from backstory.cli.app import App
    from backstory.cli.report_options import Form, ReportQuestion
    from backstory.workspace.history.stats import StatsGroup


DAYS = 30
DEAREST = 10
"""The most sessions that are shown by their titles."""


@click.command("cost", short_help="Sum up what agents used and cost.")
@report_options
@click.pass_obj
def command(app: App, asked: ReportQuestion, form: Form) -> None:
    """Sum up what agents used and cost: by day, agent, model, repository and session.

    The last 30 days, in every project; WORDS limit it to matching sessions. A turn that several sessions hold counts
    once; what subagents used counts with their session. Costs: $1.20 reported, ~$1.20 computed, $1.20–$1.50 between,
    ≥ $1.20 at least, – unknown.
    """
    app.bring_up_to_date()
    from backstory.chronicle import cost
    from backstory.chronicle.explain import cost_queries

    wanted = wanted_by(app, asked, DAYS * DAY_MS)
    if form.explain:
        print_queries(cost_queries(app.reader, wanted))
        return
    with counting("Counting turns") as report:
        found = cost.cost_report(app.reader, StatsQuery(wanted=wanted), dearest=DEAREST, report=report)
    if not found.total.sessions:
        print_where_there_is(app, wanted)
    if not (found.total.sessions or form.json):
        return
    from backstory.cli.views.stats_table import print_unknown

    print_report(
        app, form, found, as_json=cost.as_json, text_lines=text_lines, markdown_lines=markdown_lines,
        kind="a report of what agents used and cost",
    )  # fmt: skip
    if not (form.json or form.markdown):
        print_unknown(found.total, found.summaries, found.undated)


# a cost report as text and as markdown --------------------------------------------------------------------------------


MOST_SHOWN = 10
"""The most groups that are shown, except of days; --json has all."""


def text_lines(report: CostReport) -> Iterator[str]:
    """Yield the sums, then a table of each grouping."""
    yield output.style(f"Cost {window(report.query.wanted)}", bold=True)
    yield from stats_table.summary_lines(_summary(report))
    for by in GROUPINGS:
        shown = _shown(report, by)
        yield ""
        yield from stats_table.group_lines(shown, head=by, name=lambda each: _name(report, by, each))  # noqa: B023
        yield from (output.style(each, dim=True) for each in _left_out(report, by))


def markdown_lines(report: CostReport) -> Iterator[str]:
    """Yield the same as Markdown."""
    yield f"# Cost {plain(window(report.query.wanted))}"
    yield ""
    yield from (f"- {name}: {plain(value)}" for name, value in _summary(report))
    for by in GROUPINGS:
        yield from ("", f"## By {by}", "")
        heads, *rows = stats_table.group_cells(
            _shown(report, by),
            head=by.capitalize(),
            name=lambda each: plain(_name(report, by, each)),  # noqa: B023
        )
        yield from _table(heads, rows)
        yield from (f"\n{each}" for each in _left_out(report, by))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table of Markdown: the first column, whose names are ``plain``, to the left, the others to the right."""
    yield f"| {' | '.join(heads)} |"
    yield "|:--|" + "--:|" * (len(heads) - 1)
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _summary(report: CostReport) -> Iterator[tuple[str, str]]:
    total = report.total
    yield from stats_table.summary(total, report.summaries)
    known = [
        (total.reported_usd, "reported by agents"), (total.computed_usd, "computed from tokens and prices")
    ]  # fmt: skip
    said = [f"{output.dollars(usd)} {how}" for usd, how in known if usd is not None]
    if total.without_cost:
        said.append(f"{output.counted(total.without_cost, 'turn')} unknown")
    if said:
        yield "Known", " · ".join(said)


def _shown(report: CostReport, by: By) -> Stats:
    groups = report.groups[by]
    shown = groups if by == "day" else groups[:MOST_SHOWN]
    return Stats(
        query=replace(report.query, by=by), total=report.total, groups=shown, summaries=report.summaries,
        undated=report.undated,
    )  # fmt: skip


def _left_out(report: CostReport, by: By) -> list[str]:
    more = len(report.groups[by]) - MOST_SHOWN
    return [] if by == "day" or more <= 0 else [f"{more:,} more: --json"]


def _name(report: CostReport, by: By, group: StatsGroup) -> str:
    value = group.key.value
    if by != "session" or value is None:
        return value or stats_table.NAMES.get(by, output.UNKNOWN)
    session = report.dearest.get(value)
    return value if session is None else f"{session.label} {session.heading}".strip()
