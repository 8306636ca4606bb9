"""``backstory chronicle cost-tips``: what would have cost less."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli.report_options import report_options
from backstory.cli.tips_report import all_option, explain_option, print_tips
from backstory.workspace.sessions import SessionFilter

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.store.session_filter import SessionFilter as Chosen


@click.command("cost-tips")
@report_options
@all_option
@explain_option
@click.pass_obj
def command(
    app: App, here: bool, chosen: Chosen, whole: bool, as_markdown: bool, as_json: bool, explain: bool
) -> None:
    """Find what would have cost less: context, problem, what to do, and about how much that saves.

    As chronicle tips, of the patterns that are about costs, with what is known of the costs as a whole. The last 30
    days, in every project.
    """
    print_tips(
        app, SessionFilter(**chosen.shared, everywhere=not here), about_costs=True, whole=whole,
        as_markdown=as_markdown, as_json=as_json, explain=explain,
    )  # fmt: skip
