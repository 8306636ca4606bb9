"""``backstory steer``: a message for a running agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli.prompt_input import PromptInput
from backstory.cli.sending import send, session_options

if TYPE_CHECKING:
    from backstory.workspace.runs.scheduler import IfIdle


@click.command("steer")
@click.argument("text", nargs=-1)
@session_options
@click.pass_context
def command(
    ctx: click.Context, text: tuple[str, ...], wanted: str | None, name: str | None, if_idle: IfIdle, as_json: bool
) -> None:
    """Send a message to the running agent: TEXT, and what is piped in. It reads it between its steps.

    If the agent finishes first or accepts no input while running, TEXT becomes a follow-up. If the session is not
    running, nothing is sent (exit code 75); on a terminal you are asked whether to run TEXT as a prompt.
    """
    from backstory.workspace.runs.scheduler import Options, QueuedKind

    given = PromptInput(ctx)
    messages = [(QueuedKind.STEER, given.text(text))]
    code = send(ctx.obj, messages, wanted or name, Options(), if_idle, as_json=as_json)
    given.stored()
    ctx.exit(code)
