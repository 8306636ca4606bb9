"""``backstory chronicle standup``: what was worked on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.chronicle.window import DAY_MS, last
from backstory.cli import output
from backstory.cli.counting import counting
from backstory.cli.report_options import print_where_there_is, report_options
from backstory.workspace.sessions import SessionFilter
from backstory.workspace.workspace import now_ms

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.store.session_filter import SessionFilter as Chosen


@click.command("standup")
@report_options
@click.option("--explain", is_flag=True, help="Print the rule by which work is done, in progress or stuck.")
@click.pass_obj
def command(app: App, here: bool, chosen: Chosen, as_markdown: bool, as_json: bool, explain: bool) -> None:
    """Report what was worked on: by repository and branch, what is done, in progress and stuck.

    The last 24 hours, in every project. --since workday: from the beginning of the last working day.
    """
    from backstory.chronicle import standup
    from backstory.chronicle.progress import RULE

    if explain:
        output.data(RULE)
        return
    app.bring_up_to_date()
    wanted = last(SessionFilter(**chosen.shared, everywhere=not here), now_ms(), DAY_MS)
    with counting("Reading sessions") as report:
        found = standup.standup(app.reader, wanted, report)
    if not found.places:
        print_where_there_is(app, wanted)
    if as_json:
        output.json(standup.as_json(found))
    elif found.places:
        from backstory.cli import standup_view

        (standup_view.print_markdown if as_markdown else standup_view.print_text)(found)
