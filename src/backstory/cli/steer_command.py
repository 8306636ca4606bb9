"""``backstory steer``: words for an agent while it works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli.followup_command import checked, say, session_options
from backstory.cli.prompt_input import PromptInput

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("steer")
@click.argument("text", nargs=-1)
@session_options
@click.pass_context
def command(
    ctx: click.Context, text: tuple[str, ...], wanted: str | None, name: str | None, no_run: bool, as_json: bool
) -> None:
    """Tell a running agent TEXT, and what is piped in, between its steps.

    Where its answer is done before it listens, or it is one that takes no words while it runs, it is a follow-up. Where
    nothing runs it is run at once as a prompt of its own.
    """
    from backstory.store.queue import Kind, Options

    app: App = ctx.obj
    given = PromptInput(ctx)
    said = [(Kind.STEER, checked(given.text(text)))]
    code = say(app, said, wanted or name, Options(), no_run=no_run, as_json=as_json)
    given.stored()
    ctx.exit(code)
