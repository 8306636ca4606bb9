"""A command of commands, some or all in modules that are imported when they are asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from backstory.cli import CommandGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    import click


class LazyFamily(CommandGroup):
    """``modules``: of each such command by its name, the module of ``backstory.cli`` that has it as ``command``."""

    def __init__(self, *args: Any, modules: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.modules, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            return super().get_command(ctx, cmd_name)
        command: click.Command = importlib.import_module(f"backstory.cli.commands.{self.modules[cmd_name]}").command
        return command
