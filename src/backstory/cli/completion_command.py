"""``backstory completion``: scripts for shells."""

from __future__ import annotations

import click

from backstory.cli import output
from backstory.cli.shell_scripts import script_for


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell, with a key that picks a session: Ctrl-X B.

    bash: source <(backstory completion bash); zsh: the same with zsh, after compinit; fish: backstory completion fish |
    source.
    """
    output.data(script_for(shell, ctx.find_root().command))
