"""``backstory followup``: a prompt that runs when the session's current run ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli.options import RUNNING_AGENT
from backstory.cli.prompt_input import PromptInput
from backstory.cli.sending import send, session_options
from backstory.model import Permissions

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.workspace.runs.scheduler import IfIdle


@click.command("followup")
@click.argument("text", nargs=-1)
@click.option("--agent", "-a", type=RUNNING_AGENT, help="The agent to run it.  [default: that of the turn before]")
@click.option("--model", "-m", metavar="NAME", help="The model, as the agent names it.")
@click.option(
    "--permissions", type=click.Choice([each.value for each in Permissions]), help="What the agent may do unasked."
)
@click.option("--cwd", type=click.Path(exists=True, file_okay=False), help="Run it in this folder.")
@click.option("--no-board", is_flag=True, help="Do not add board notes to the prompt.")
@session_options
@click.pass_context
def command(
    ctx: click.Context,
    text: tuple[str, ...],
    agent: str | None,
    model: str | None,
    permissions: str | None,
    cwd: str | None,
    no_board: bool,
    wanted: str | None,
    name: str | None,
    if_idle: IfIdle,
    as_json: bool,
) -> None:
    """Queue TEXT as a session's next prompt; it runs when the current run ends.

    What is piped in follows TEXT, or is the prompt. Without both, on a terminal, it is written in $EDITOR.

    Several run in the order they were queued. If the session is not running, nothing is queued (exit code 75); on a
    terminal you are asked whether to run TEXT now.
    """
    from backstory.workspace.runs.scheduler import Options, QueuedKind

    app: App = ctx.obj
    folder = str(app.cwd / cwd) if cwd else None
    options = Options(agent=agent, model=model, permissions=permissions, cwd=folder, no_board=no_board)
    given = PromptInput(ctx)
    messages = [(QueuedKind.FOLLOWUP, given.text(text))]
    code = send(app, messages, wanted or name, options, if_idle, as_json=as_json)
    given.stored()
    ctx.exit(code)
