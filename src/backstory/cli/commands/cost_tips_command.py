"""``backstory report cost-tips``: what would have cost less."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli.remote_reports import without_team
from backstory.cli.report_options import about_one_place
from backstory.cli.views.tips_report import full_option, print_tips

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.cli.report_options import Form, ReportQuestion


@click.command("cost-tips", short_help="Find what would have cost less, and what to do.")
@about_one_place
@full_option
@without_team("The team's server does not keep what patterns are found in")
@click.pass_obj
def command(app: App, asked: ReportQuestion, form: Form, whole: bool) -> None:
    """Find what would have cost less: context, problem, what to do, and about how much that saves.

    As report tips, of the patterns that are about costs, with what is known of the costs as a whole. The last 30
    days, in every project; WORDS limit it to matching sessions.
    """
    print_tips(app, asked, form, about_costs=True, whole=whole)
