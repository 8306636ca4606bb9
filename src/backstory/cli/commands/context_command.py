"""``backstory context``: what the next run of a session receives of it, and what a person set in its context."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli.lazy_family import ActingFamily
from backstory.cli.options import find, json_option, readable, session_argument, store_option
from backstory.cli.views.summary_view import print_context

if TYPE_CHECKING:
    from backstory.cli.app import App


COMMANDS = {"set": "context_values_command:set_value", "unset": "context_values_command:unset_value"}
"""The module of each, imported when it is asked for."""


@click.group(
    "context",
    cls=ActingFamily,
    modules=COMMANDS,
    invoke_without_command=True,
    subcommand_metavar="| COMMAND ...",
)
@session_argument
@click.option("--budget", type=click.IntRange(min=0), help="Characters at most.  [default: run.context_chars]")
@click.option("--prompt", metavar="TEXT", help="With the notes of the board that this prompt is offered.")
@click.option("--explain", is_flag=True, help="Show turn by turn how many characters there are, and which are sent.")
@json_option
@store_option
@click.pass_obj
def command(
    app: App, session: str | None, budget: int | None, prompt: str | None, explain: bool, as_json: bool
) -> None:
    """Preview the context of the next run of SESSION (default: the session last active here).

    A first word that is a command is that command: a session of this name is meant by `backstory context -- NAME`.
    """
    found = find(app, session)
    offer = app.workspace.offer(readable(prompt)) if prompt is not None else None
    print_context(app, found, budget=budget, offer=offer, explain=explain, as_json=as_json)
