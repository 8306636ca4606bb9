"""A command of commands, each in a module that is imported when it is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from backstory.cli import CommandGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    import click


class LazyFamily(CommandGroup):
    """``modules``: of each command by its name, the module of ``backstory.cli`` that has it as ``command``."""

    def __init__(self, *args: Any, modules: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            return None
        command: click.Command = importlib.import_module(f"backstory.cli.commands.{self.modules[cmd_name]}").command
        return command
