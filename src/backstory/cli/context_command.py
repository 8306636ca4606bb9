"""``backstory context``: what a session looks like to the agent that carries it on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import json_option, session_argument, store_option
from backstory.context import build_context

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("context")
@session_argument()
@click.option("--budget", type=click.IntRange(min=0), help="Characters at most.  [default: run.context_chars]")
@click.option("--explain", is_flag=True, help="Say how much there is, and what was left out.")
@json_option
@store_option
@click.pass_obj
def command(app: App, session: str, budget: int | None, explain: bool, as_json: bool) -> None:
    """Print the context that the next run of a SESSION would be given."""
    budget = app.config.get("run.context_chars") if budget is None else budget
    found = app.find(session)
    told = found.store.told_turns(found.session, budget)
    context = build_context(told, budget_chars=budget)
    left_out = found.session.turns - context.turns
    if as_json:
        output.json(
            {
                "uid": found.session.uid,
                "context": context.text,
                "chars": len(context.text),
                "budget": budget,
                "turns": context.turns,
                "turns_left_out": left_out,
            }
        )
        return
    output.pages(output.clean(context.text).split("\n"))
    if explain:
        output.talk(
            f"{len(context.text):,} of {budget:,} characters: {context.turns} turns, {left_out} older ones left out."
        )
