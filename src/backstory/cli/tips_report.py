"""What ``chronicle tips`` and ``chronicle cost-tips`` do alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.chronicle.window import DAY_MS, last
from backstory.cli import output
from backstory.cli.counting import counting
from backstory.cli.report_options import print_where_there_is
from backstory.workspace.sessions import SessionFilter
from backstory.workspace.workspace import now_ms

if TYPE_CHECKING:
    from backstory.cli.app import App

DAYS = 30

all_option = click.option("--all", "whole", is_flag=True, help="Print every tip, not only the strongest of each pattern.")
explain_option = click.option(
    "--explain", is_flag=True, help="Print the rule of each tip and the SQL that returns what it counts."
)


def print_tips(
    app: App, wanted: SessionFilter, *, about_costs: bool, whole: bool, as_markdown: bool, as_json: bool, explain: bool
) -> None:
    """Look for patterns, and print what was found."""
    app.bring_up_to_date()
    from backstory.chronicle import tips

    wanted = last(wanted, now_ms(), DAYS * DAY_MS)
    with counting("Looking for patterns") as report:
        found = tips.tips(
            app.reader, wanted, about_costs=about_costs, most=None if whole else tips.MOST, report=report
        )  # fmt: skip
    if not found.turns:
        print_where_there_is(app, wanted)
    elif not found.findings:
        output.talk(
            f"No pattern in {output.counted(found.turns, 'turn')} of {output.counted(found.looked_at, 'session')}: most "
            "rules ask for the same thing in 3 sessions or more. A longer time may show some: --since 2020-01-01"
        )
    if as_json:
        output.json(tips.as_json(found))
    elif explain and found.findings:
        from backstory.chronicle.explain_tips import explained

        for each in explained(found):
            output.data(each)
    elif found.findings or (found.facts is not None and found.turns):
        from backstory.cli import tips_view

        output.pages((tips_view.markdown_lines if as_markdown else tips_view.text_lines)(found))
