"""``backstory chronicle``: commands for the whole history."""

from __future__ import annotations

import importlib

import click

COMMANDS = {"reindex": "Import, then rebuild the index and all derived tables."}


class _Family(click.Group):
    """Its commands, each in a module of its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"backstory.cli.{cmd_name}_command").command
        return command


@click.group("chronicle", cls=_Family)
def command() -> None:
    """Commands for the whole history."""
