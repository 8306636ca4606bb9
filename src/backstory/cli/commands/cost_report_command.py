"""``backstory report cost``: what agents used and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.chronicle.window import DAY_MS
from backstory.cli import output
from backstory.cli.remote_reports import reading, team_options
from backstory.cli.report_options import print_queries, print_report, report_options, wanted_by
from backstory.cli.views.counting import counting
from backstory.workspace.history.stats import StatsQuery

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.cli.remote_reports import TeamQuestion
    from backstory.cli.report_options import Form, ReportQuestion


DAYS = 30
DEAREST = 10
"""The most sessions that are shown by their titles."""


@click.command("cost", short_help="Sum up what agents used and cost.")
@report_options
@team_options
@click.pass_obj
def command(app: App, asked: ReportQuestion, form: Form, team: TeamQuestion | None) -> None:
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
    with reading(app, team, wanted, has_work=False) as source:
        with counting("Counting turns") as report:
            found = cost.cost_report(
                source.reader, StatsQuery(wanted=wanted), dearest=DEAREST, report=report, whose=source.whose
            )
        if not found.total.sessions:
            source.print_where_there_is(wanted)
        if not (found.total.sessions or form.json):
            return
        print_report(
            app, form, found, as_json=source.as_json(cost.as_json), drawn=source.drawn(cost.report),
            kind="a report of what agents used and cost", wanted=source.wanted_here(wanted),
        )  # fmt: skip
        source.say_what_is_missing(form)
    unknown = cost.not_counted(found.total, found.summaries, found.undated)
    if unknown and not (form.json or form.markdown):
        output.talk(unknown)
