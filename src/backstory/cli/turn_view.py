"""A turn as lines for a terminal: what stands above its events, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory import model
from backstory.cli import output
from backstory.cli.marks import outcome_mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import Turn
    from backstory.workspace.transcript import ListedTurn


def turn_line(listed: ListedTurn) -> str:
    """The line above a turn: its number, its outcome, who answered, when, and what it used."""
    turn, tokens = listed.turn, listed.turn.tokens
    used = [] if tokens.output is None else [f"{_input_tokens(tokens)} in, {_output_tokens(turn)} out"]
    cost = [] if listed.cost.low_usd is None else [output.money(listed.cost)]
    mark, colour = outcome_mark(turn.outcome, turn.stop_reason)
    facts = [turn.agent, turn.model, output.local(turn.started), output.duration(turn.duration_ms), *used, *cost]
    how = "" if turn.outcome in (None, model.Outcome.COMPLETED) else f" {_how(turn)}"
    title = f"── turn {listed.number} " + (output.style(mark + how, fg=colour) if mark else how)
    about = "  " + output.one_liner(" · ".join(each for each in facts if each))
    return output.style(title, bold=True) + output.style(about, dim=True) + _left_behind(listed)


def _how(turn: Turn) -> str:
    """How it ended, in words: what was stopped for a summary was not cancelled by anybody."""
    return "stopped for a summary" if turn.stop_reason == model.STOPPED_TO_COMPACT else str(turn.outcome)


def _left_behind(listed: ListedTurn) -> str:
    if listed.removed is not None:
        return output.style("  removed", fg="red")
    return output.style("  rewound", fg="yellow") if listed.is_rewound else ""


def _input_tokens(tokens: model.Tokens) -> str:
    known = [each for each in (tokens.input, tokens.cache_read, tokens.cache_write) if each is not None]
    return f"{sum(known):,}" if known else "–"


def _output_tokens(turn: Turn) -> str:
    return f"{'≥ ' if turn.tokens_source == model.PARTIAL else ''}{turn.tokens.output or 0:,}"


def end_line(listed: ListedTurn) -> str:
    """The line below a turn that was followed to its end."""
    turn = listed.turn
    mark, colour = outcome_mark(turn.outcome, turn.stop_reason)
    used = [] if turn.tokens.output is None else [f"{_input_tokens(turn.tokens)} in, {_output_tokens(turn)} out"]
    cost = [] if listed.cost.low_usd is None else [output.money(listed.cost)]
    facts = [f"turn {listed.number} {_how(turn)}", output.duration(turn.duration_ms), *used, *cost]
    about = output.style(output.one_liner(" · ".join(each for each in facts if each)), dim=True)
    return f"       {output.style(mark, fg=colour) if mark else ' '} {about}"


def unknown_line(count: int) -> Iterator[str]:
    """How many records were not shown because nobody understands them, if there are any."""
    if count:
        yield output.style(f"         (+{output.counted(count, 'record')} of an unknown kind: --full)", dim=True)
