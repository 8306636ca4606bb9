"""``backstory report``: reports from history."""

from __future__ import annotations

import click

from backstory.cli.lazy_family import LazyFamily

COMMANDS = {
    "standup": "standup_command",
    "recap": "recap_command",
    "search": "search_report_command",
    "cost": "cost_report_command",
    "blame": "blame_command",
    "tips": "tips_command",
    "cost-tips": "cost_tips_command",
    "improve": "improve_command",
    "reindex": "reindex_command",
}
"""The module of each, imported when it is asked for."""


@click.group("report", cls=LazyFamily, modules=COMMANDS)
def command() -> None:
    """Report from history: what was worked on, what agents used and cost, who wrote what.

    No model is asked without --write.
    """
