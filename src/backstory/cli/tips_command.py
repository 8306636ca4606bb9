"""``backstory chronicle tips``: how you work with agents, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli.report_options import report_options
from backstory.cli.tips_report import all_option, explain_option, print_tips
from backstory.workspace.sessions import SessionFilter

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.store.session_filter import SessionFilter as Chosen


@click.command("tips")
@report_options
@all_option
@explain_option
@click.pass_obj
def command(
    app: App, here: bool, chosen: Chosen, whole: bool, as_markdown: bool, as_json: bool, explain: bool
) -> None:
    """Find patterns in how you work with agents: each with its evidence, what it cost, and what to do about it.

    The last 30 days, in every project. Printed are the strongest of each pattern, 5 at most, by what they cost: dollars,
    and time. Both are estimates; --explain prints how each is known.
    """
    print_tips(
        app, SessionFilter(**chosen.shared, everywhere=not here), about_costs=False, whole=whole,
        as_markdown=as_markdown, as_json=as_json, explain=explain,
    )  # fmt: skip
