"""A command of commands, some or all in modules that are imported when they are asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import click

from backstory.cli import CommandGroup

if TYPE_CHECKING:
    from collections.abc import Mapping


class LazyFamily(CommandGroup):
    """``modules``: of each such command by its name, the module of ``backstory.cli.commands`` that has it.

    It is called ``command`` there, unless a colon and its name follow: ``branch_command:prune``.
    """

    def __init__(self, *args: Any, modules: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.modules, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            return super().get_command(ctx, cmd_name)
        module, _, name = self.modules[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"backstory.cli.commands.{module}"), name or "command")
        return command


class ActingFamily(LazyFamily):
    """The same, with arguments of its own: only the first word names a command. Behind ``--`` it is an argument."""

    allow_extra_args = False
    allow_interspersed_args = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in self.modules:
            return super().parse_args(ctx, args)
        super().parse_args(ctx, [])
        ctx.args = args
        return args

    def invoke(self, ctx: click.Context) -> Any:
        if not ctx.args:
            return super().invoke(ctx)
        name, command, rest = self.resolve_command(ctx, ctx.args)
        assert command is not None
        with command.make_context(name, rest, parent=ctx) as below:
            return command.invoke(below)
