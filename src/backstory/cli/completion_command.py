"""``backstory completion``: scripts for shells."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from backstory.cli import output


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell. For bash: source <(backstory completion bash)."""
    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"No completion for {shell}.")
    output.data(script(ctx.find_root().command, {}, "backstory", "_BACKSTORY_COMPLETE").source())
