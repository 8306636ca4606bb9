"""``backstory context``: what the next run of a session receives of it."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import find, json_option, readable, session_argument, store_option
from backstory.workspace.runs import contexts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.cli.app import App
    from backstory.workspace.runs.contexts import ContextTurn, SessionContext

LEFT_OUT_SHOWN_MAX = 10
"""If more turns than these are left out, they share one line; JSON lists each."""


@click.command("context")
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
    """Preview the context of the next run of SESSION (default: the session last active here)."""
    budget = app.config.settings.run.context_chars if budget is None else budget
    found = find(app, session)
    offer = app.workspace.offer(readable(prompt)) if prompt is not None else None
    context = app.reader.context(found, budget, explain=explain, offer=offer)
    if as_json:
        output.json(contexts.as_json(context))
        return
    output.pages(context.text.split("\n"))
    if context.explained is not None:
        _explain(context, context.explained)
        if any(each.session == found.session.uid for each in app.reader.runs()):
            output.talk("A run of this session is not stored yet: backstory show. The next run receives it, too.")


def _rows(turns: Sequence[ContextTurn]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for state, group in groupby(turns, key=lambda each: each.state):
        some = list(group)
        if state != "sent" and len(some) > LEFT_OUT_SHOWN_MAX:
            chars = sum(each.chars for each in some)
            rows.append((f"{some[0].turn}-{some[-1].turn}", f"{chars:,}", state, ""))
        else:
            rows += [(str(each.turn), f"{each.chars:,}", state, each.prompt) for each in some]
    widest = max((len(row[1]) for row in rows if "-" not in row[0]), default=0)
    return [(row[0], row[1].rjust(widest), *row[2:]) for row in rows]


def _explain(context: SessionContext, turns: Sequence[ContextTurn]) -> None:
    for line in output.table(_rows(turns), flexible=3, heads=("TURN", "CHARACTERS", "", "PROMPT")):
        output.talk(line)
    whole = sum(each.chars for each in turns)
    percent = round(100 * len(context.text) / context.budget) if context.budget else 100
    is_cut = context.turns == 1 and turns[-1].chars > len(context.text)
    brief = f"{context.turns_in_brief} before those in brief, " if context.turns_in_brief else ""
    held = output.counted(context.turns, "turn")
    output.talk(
        f"{len(context.text):,} of {context.budget:,} characters ({percent} %): {held}, "
        f"{brief}{context.turns_left_out} older ones left out. All turns together are {whole:,} characters."
    )
    if (summary := context.summary) is not None:
        by = f", by {summary.agent}," if summary.agent else ""
        output.talk(
            f"A summary of {len(summary.summary):,} characters{by} stands for all up to @{summary.after_seq}: "
            "backstory compact --show"
        )
    if context.results_left_out:
        output.talk(f"{context.results_left_out:,} results of tools are left out, the oldest first.")
    if is_cut:
        output.talk(f"Turn {turns[-1].turn} alone is larger than the budget, so only its end is sent.")
    if context.board:
        output.talk(output.one_liner(f"Before them stand notes of the board: {', '.join(context.board)}."))
    if context.text:
        output.talk(f"With the tags around it, {context.prefix_chars:,} characters go before the prompt.")
