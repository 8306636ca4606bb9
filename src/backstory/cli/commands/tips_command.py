"""``backstory report tips``: how you work with agents, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli.remote_reports import without_team
from backstory.cli.report_options import about_one_place
from backstory.cli.views.tips_report import full_option, print_tips

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.cli.report_options import Form, ReportQuestion


@click.command("tips", short_help="Find what recurs in how you work, and what to do about it.")
@about_one_place
@full_option
@without_team("The team's server does not keep what patterns are found in")
@click.pass_obj
def command(app: App, asked: ReportQuestion, form: Form, whole: bool) -> None:
    """Find patterns in how you work with agents: each with its evidence, what it cost, and what to do about it.

    The last 30 days, in every project; WORDS limit it to matching sessions. At most five tips, the costliest first;
    --full prints all. Dollars and time are estimates; --explain prints how they are made.
    """
    print_tips(app, asked, form, about_costs=False, whole=whole)
