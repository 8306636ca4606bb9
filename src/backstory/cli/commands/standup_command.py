"""``backstory report standup``: what was worked on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.chronicle.window import DAY_MS
from backstory.cli import output
from backstory.cli.remote_reports import reading, team_options
from backstory.cli.report_options import (
    print_queries,
    print_report,
    report_options,
    wanted_by,
)
from backstory.cli.views.counting import counting

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.cli.remote_reports import TeamQuestion
    from backstory.cli.report_options import Form, ReportQuestion
    from backstory.workspace.history.sessions import SessionFilter


@click.command("standup", short_help="Report what was worked on: what is done, in progress, stuck.")
@report_options
@team_options
@click.pass_obj
def command(app: App, asked: ReportQuestion, form: Form, team: TeamQuestion | None) -> None:
    """Report what was worked on: by repository and branch, what is done, in progress and stuck.

    The last 24 hours, in every project; WORDS limit it to matching sessions. --since workday: from the beginning of
    the last working day.
    """
    from backstory.chronicle import standup

    app.bring_up_to_date()
    wanted = wanted_by(app, asked, DAY_MS)
    if form.explain:
        _explain(app, wanted)
        return
    with reading(app, team, wanted, has_work=True) as source:
        with counting("Reading sessions") as report:
            found = standup.standup(source.reader, wanted, report, source.whose)
        if found.undated:
            output.talk(f"{output.counted(found.undated, 'turn')} without a time left out.")
        if not found.places:
            source.print_where_there_is(wanted)
        if not (found.places or form.json):
            return
        print_report(
            app, form, found, as_json=source.as_json(standup.as_json), drawn=source.drawn(standup.report),
            kind="a stand-up: by repository and branch, what is done, in progress and stuck",
            wanted=source.wanted_here(wanted),
        )  # fmt: skip
        source.say_what_is_missing(form)


def _explain(app: App, wanted: SessionFilter) -> None:
    """Print the rule, and the SQL of what SQL can return: all of it can be given to ``backstory sql`` part by part."""
    from backstory.chronicle.explain import standup_queries
    from backstory.chronicle.progress import explained

    for line in explained():
        output.data(line)
    print_queries(standup_queries(app.reader, wanted))
