"""``backstory steer``: a message for a running agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli.followup_command import checked, send, session_options
from backstory.cli.prompt_input import PromptInput

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.cli.followup_command import Start


@click.command("steer")
@click.argument("text", nargs=-1)
@session_options
@click.pass_context
def command(
    ctx: click.Context, text: tuple[str, ...], wanted: str | None, name: str | None, start: Start, as_json: bool
) -> None:
    """Send a message to the running agent: TEXT, and what is piped in. It reads it between its steps.

    If the agent finishes first or accepts no input while running, TEXT becomes a follow-up. If the session is not
    running, nothing is sent (exit code 75); on a terminal you are asked whether to run TEXT as a prompt.
    """
    from backstory.store.queue import Kind, Options

    app: App = ctx.obj
    given = PromptInput(ctx)
    said = [(Kind.STEER, checked(given.text(text)))]
    code = send(app, said, wanted or name, Options(), start, as_json=as_json)
    given.stored()
    ctx.exit(code)
