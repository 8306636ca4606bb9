"""``backstory help``: what ``--help`` shows, of any command."""

from __future__ import annotations

from typing import Any

import click

from backstory.cli import no_command, output


def _commands(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    named, group = _named(ctx, ctx.params.get("names") or ())
    found = group.list_commands(named) if isinstance(group, click.Group) else []
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]


@click.command("help")
@click.argument("names", metavar="[COMMAND]...", nargs=-1, shell_complete=_commands)
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of COMMAND, for example `search` or `queue list`; without one, the list of commands."""
    output.data(_named(ctx, names)[0].get_help())


def _named(ctx: click.Context, names: tuple[str, ...]) -> tuple[click.Context, click.Command]:
    """Return the command with this name, such as ``queue list``. Raises UsageError."""
    at = ctx.find_root()
    for name in names:
        found = at.command.get_command(at, name) if isinstance(at.command, click.Group) else None
        if found is None:
            raise _unknown(at, name)
        at = click.Context(found, info_name=name, parent=at)
    return at, at.command


def _unknown(at: click.Context, name: str) -> click.UsageError:
    if isinstance(at.command, click.Group):
        return no_command(at.command, at, name)
    return click.UsageError(f"{at.command_path} has no command {name!r}.", at)
