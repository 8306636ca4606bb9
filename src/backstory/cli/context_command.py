"""``backstory context``: what a session looks like to the agent that carries it on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from backstory.cli import output
from backstory.cli.options import json_option, session_argument, store_option
from backstory.cli.points import find
from backstory.conversation.context import build_context, context_prefix
from backstory.runs.spool import SPOOLS, list_spools

if TYPE_CHECKING:
    from backstory.cli.app import App, Found
    from backstory.conversation.context import Context

NO_LIMIT = 1 << 60
LEFT_OUT_SHOWN_MAX = 10
"""More turns than these that are left out are told in one line; in JSON each is told."""


class TurnTold(Struct, frozen=True, kw_only=True):
    """A turn in a context: how many characters it has there, whole, and whether it is sent."""

    turn: int
    chars: int
    sent: bool
    prompt: str


@click.command("context")
@session_argument
@click.option("--budget", type=click.IntRange(min=0), help="Characters at most.  [default: run.context_chars]")
@click.option("--explain", is_flag=True, help="Say turn by turn how much there is, and what is sent of it.")
@json_option
@store_option
@click.pass_obj
def command(app: App, session: str | None, budget: int | None, explain: bool, as_json: bool) -> None:
    """Print the context that the next run of a SESSION would be given; without one, of the one last active here."""
    budget = app.config.settings.run.context_chars if budget is None else budget
    found = find(app, session)
    told = found.store.context_turns(found.session, budget)
    context = build_context(told, budget_chars=budget, turns=found.store.branch_length(found.session))
    turns = _explained(found, context) if explain else []
    if as_json:
        output.json(_as_json(found, context, budget) | ({"explained": turns} if explain else {}))
        return
    output.pages(context.text.split("\n"))
    if explain:
        _explain(context, turns, budget)
        if any((run := spool.run) and run.session_uid == found.session.uid for spool in list_spools(app.home / SPOOLS)):
            output.talk("A run of this session is not stored yet: backstory show. The next run is told it, too.")


def _as_json(found: Found, context: Context, budget: int) -> dict[str, Any]:
    return {
        "uid": found.session.uid,
        "context": context.text,
        "chars": len(context.text),
        "prefix_chars": len(context_prefix(context.text)),
        "budget": budget,
        "turns": context.turns,
        "turns_left_out": context.turns_left_out,
    }


def _explained(found: Found, context: Context) -> list[TurnTold]:
    """Every turn of the current branch as a context tells it, the oldest first; the newest are those that are sent."""
    told = found.store.context_turns(found.session, NO_LIMIT)
    numbers = {turn.uid: number for number, turn in enumerate(found.store.turns(found.session), 1)}
    return [
        TurnTold(
            turn=numbers[each.turn.uid],
            chars=len(build_context([each], budget_chars=NO_LIMIT).text),
            sent=n >= len(told) - context.turns,
            prompt=each.turn.prompt,
        )
        for n, each in enumerate(told)
    ]


def _rows(turns: list[TurnTold]) -> list[tuple[str, ...]]:
    left_out = [each for each in turns if not each.sent]
    rows: list[tuple[str, ...]] = []
    if len(left_out) > LEFT_OUT_SHOWN_MAX:
        chars = sum(each.chars for each in left_out)
        rows.append((f"{left_out[0].turn}-{left_out[-1].turn}", f"{chars:,}", "left out", ""))
        turns = turns[len(left_out) :]
    widest = max((len(f"{each.chars:,}") for each in turns), default=0)
    for each in turns:
        rows.append((str(each.turn), f"{each.chars:,}".rjust(widest), "sent" if each.sent else "left out", each.prompt))
    return rows


def _explain(context: Context, turns: list[TurnTold], budget: int) -> None:
    for line in output.table(_rows(turns), flexible=3, heads=("TURN", "CHARACTERS", "", "PROMPT")):
        output.talk(line)
    whole = sum(each.chars for each in turns)
    percent = round(100 * len(context.text) / budget) if budget else 100
    is_cut = context.turns == 1 and turns[-1].chars > len(context.text)
    output.talk(
        f"{len(context.text):,} of {budget:,} characters ({percent} %): {context.turns} turns, "
        f"{context.turns_left_out} older ones left out. All turns together are {whole:,} characters."
    )
    if is_cut:
        output.talk(f"Turn {turns[-1].turn} alone is larger than the budget, so only its end is sent.")
    if context.text:
        output.talk(f"With the tags around it, {len(context_prefix(context.text)):,} characters go before the prompt.")
