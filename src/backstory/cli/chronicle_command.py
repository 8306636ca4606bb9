"""``backstory chronicle``: reports from history."""

from __future__ import annotations

import importlib

import click

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


class _Family(click.Group):
    """Its commands, each in a module of its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"backstory.cli.{COMMANDS[cmd_name]}").command
        return command


@click.group("chronicle", cls=_Family)
def command() -> None:
    """Report from history: what was worked on, what agents used and cost, who wrote what. No model is asked."""
