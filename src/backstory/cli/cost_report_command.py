"""``backstory chronicle cost``: what agents used and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.chronicle.window import DAY_MS, last, nearest_day
from backstory.cli import output
from backstory.cli.counting import counting
from backstory.cli.filters import filter_options
from backstory.cli.list_remarks import why_no_sessions
from backstory.cli.options import json_option, store_option
from backstory.workspace.sessions import SessionFilter
from backstory.workspace.stats import StatsQuery
from backstory.workspace.workspace import now_ms

if TYPE_CHECKING:
    from backstory.chronicle.cost import CostReport
    from backstory.cli.app import App
    from backstory.store.session_filter import SessionFilter as Chosen

DAYS = 30
DEAREST = 10
"""So many sessions are shown by their titles."""


@click.command("cost")
@click.option("--here", is_flag=True, help="Only this project's sessions.")
@filter_options
@click.option("--md", "as_markdown", is_flag=True, help="Print Markdown.")
@json_option
@click.option("--explain", is_flag=True, help="Print the SQL that returns the same numbers, for backstory sql.")
@store_option
@click.pass_obj
def command(app: App, here: bool, chosen: Chosen, as_markdown: bool, as_json: bool, explain: bool) -> None:
    """Sum up what agents used and cost: by day, agent, model, repository and session.

    The last 30 days, in every project. A turn that several sessions hold counts once; what subagents used counts with
    their session. Costs: $1.20 reported, ~$1.20 computed, $1.20–$1.50 between, ≥ $1.20 at least, – unknown.
    """
    if as_markdown + as_json + explain > 1:
        raise click.UsageError("Choose one of --md, --json and --explain.")
    app.bring_up_to_date()
    from backstory.chronicle import cost

    wanted = last(SessionFilter(**chosen.shared, everywhere=not here), now_ms(), DAYS * DAY_MS)
    with counting("Counting turns") as report:
        found = cost.cost_report(app.reader, StatsQuery(wanted=wanted), dearest=DEAREST, report=report)
    if not found.total.sessions and not explain:
        _print_where_there_is(app, wanted)
    if as_json:
        output.json(cost.as_json(found))
    elif explain:
        _print_queries(found)
    elif found.total.sessions:
        from backstory.cli import cost_view

        (cost_view.print_markdown if as_markdown else cost_view.print_text)(found)


def _print_queries(found: CostReport) -> None:
    from backstory.chronicle.explain import cost_queries

    for part, query in cost_queries(found).items():
        output.data(f"-- {part}\n{query};\n")


def _print_where_there_is(app: App, wanted: SessionFilter) -> None:
    day = nearest_day(app.reader, wanted)
    if day is None:
        output.talk(why_no_sessions(app, wanted))
    else:
        output.talk(
            f"No sessions in this time. The nearest are of {day}: --since {day}. If some are missing, "
            "`backstory chronicle reindex` imports them and rebuilds what is derived."
        )
