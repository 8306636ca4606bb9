"""``backstory steer``: words for an agent while it works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli.followup_command import say, session_options, told

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("steer")
@click.argument("text", nargs=-1)
@session_options
@click.pass_context
def command(
    ctx: click.Context, text: tuple[str, ...], wanted: str | None, name: str | None, no_run: bool, as_json: bool
) -> None:
    """Tell a running agent TEXT, or what comes on stdin, between its steps.

    Where its answer is done before it listens, or it is one that takes no words while it runs, it is a follow-up. Where
    nothing runs it is run at once as a prompt of its own.
    """
    from backstory.store.queue import Kind, Options

    app: App = ctx.obj
    ctx.exit(say(app, [(Kind.STEER, told(text))], wanted or name, Options(), no_run=no_run, as_json=as_json))
