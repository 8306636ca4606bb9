"""``backstory chronicle cost``: what agents used and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.chronicle.window import DAY_MS, last
from backstory.cli import output
from backstory.cli.counting import counting
from backstory.cli.report_options import print_where_there_is, report_options
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
@report_options
@click.option("--explain", is_flag=True, help="Print the SQL that returns the same numbers, for backstory sql.")
@click.pass_obj
def command(app: App, here: bool, chosen: Chosen, as_markdown: bool, as_json: bool, explain: bool) -> None:
    """Sum up what agents used and cost: by day, agent, model, repository and session.

    The last 30 days, in every project. A turn that several sessions hold counts once; what subagents used counts with
    their session. Costs: $1.20 reported, ~$1.20 computed, $1.20–$1.50 between, ≥ $1.20 at least, – unknown.
    """
    app.bring_up_to_date()
    from backstory.chronicle import cost

    wanted = last(SessionFilter(**chosen.shared, everywhere=not here), now_ms(), DAYS * DAY_MS)
    with counting("Counting turns") as report:
        found = cost.cost_report(app.reader, StatsQuery(wanted=wanted), dearest=DEAREST, report=report)
    if not found.total.sessions and not explain:
        print_where_there_is(app, wanted)
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
