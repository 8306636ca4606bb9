"""``backstory chronicle standup``: what was worked on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.chronicle.window import DAY_MS
from backstory.cli import output
from backstory.cli.counting import counting
from backstory.cli.report_options import print_queries, print_report, print_where_there_is, report_options, wanted_by

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.cli.report_options import Asked, Form
    from backstory.workspace.sessions import SessionFilter


@click.command("standup", short_help="Report what was worked on: what is done, in progress, stuck.")
@report_options
@click.pass_obj
def command(app: App, asked: Asked, form: Form) -> None:
    """Report what was worked on: by repository and branch, what is done, in progress and stuck.

    The last 24 hours, in every project; WORDS narrow it to what is about them. --since workday: from the beginning of
    the last working day.
    """
    from backstory.chronicle import standup

    app.bring_up_to_date()
    wanted = wanted_by(app, asked, DAY_MS)
    if form.explain:
        _explain(app, wanted)
        return
    with counting("Reading sessions") as report:
        found = standup.standup(app.reader, wanted, report)
    if found.undated:
        output.talk(f"{output.counted(found.undated, 'turn')} without a time left out.")
    if not found.places:
        print_where_there_is(app, wanted)
    if not (found.places or form.json):
        return
    from backstory.cli.standup_view import markdown_lines, text_lines

    print_report(
        app, form, found, as_json=standup.as_json, text_lines=text_lines, markdown_lines=markdown_lines,
        kind="a stand-up: by repository and branch, what is done, in progress and stuck",
    )  # fmt: skip


def _explain(app: App, wanted: SessionFilter) -> None:
    """Print the rule, and the SQL of what SQL can return: all of it can be given to ``backstory sql`` part by part."""
    from backstory.chronicle.explain import standup_queries
    from backstory.chronicle.progress import explained

    for line in explained():
        output.data(line)
    print_queries(standup_queries(app.reader, wanted))
