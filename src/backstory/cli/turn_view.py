"""A turn as lines for a terminal: what stands above its events, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory import model
from backstory.cli import output
from backstory.cli.layout import GUTTER, MARGIN, flowing_facts
from backstory.cli.marks import outcome_mark
from backstory.cli.moments import moment
from backstory.derive.naming import short_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import Turn
    from backstory.workspace.transcript import ListedTurn


def turn_line(listed: ListedTurn, now: int, *, beside: ListedTurn | None = None) -> str:
    """The line above a turn: its number and when it began; who answers, where that is not as in the turn ``beside``."""
    turn = listed.turn
    before = None if beside is None else beside.turn
    facts = [moment(turn.started, None if before is None else before.started, now)]
    facts += [turn.agent] if before is None or turn.agent != before.agent else []
    if turn.model and (before is None or turn.model != before.model):
        facts.append(short_model(turn.model, [turn.agent]))
    title = f"── turn {listed.number}"
    about = _about(facts, len(title) + 2)
    return output.style(title, bold=True) + output.style(f"  {about}", dim=True) + _left_behind(listed)


def _how(turn: Turn) -> str:
    """Return the outcome in words: a turn stopped for a summary was not cancelled by anybody."""
    return "stopped for a summary" if turn.stop_reason == model.STOPPED_TO_COMPACT else str(turn.outcome)


def _left_behind(listed: ListedTurn) -> str:
    if listed.removed is not None:
        return output.style("  removed", fg="red")
    return output.style("  rewound", bold=True) if listed.is_rewound else ""


def end_line(listed: ListedTurn, *, is_news: bool = False) -> Iterator[str]:
    """The line below a turn: how it ended, how long it took and what it used; none where nothing of that is known.

    ``is_news``: somebody saw it end, and reads which turn it was.
    """
    turn, tokens = listed.turn, listed.turn.tokens
    mark, colour = outcome_mark(turn.outcome, turn.stop_reason)
    how = "" if turn.outcome in (None, model.Outcome.COMPLETED) else _how(turn)
    how = f"turn {listed.number} {_how(turn)}" if is_news else how
    is_counted = tokens.output is not None or turn.tokens_source == model.PARTIAL
    used = [f"{_input_tokens(turn)} in, {_output_tokens(turn)} out"] if is_counted else []
    cost = [] if listed.cost.low_usd is None else [output.money(listed.cost)]
    facts = [each for each in (how, output.duration(turn.duration_ms), *used, *cost) if each]
    if mark or facts:
        about = output.style(f" {_about(facts, len(MARGIN))}", dim=True) if facts else ""
        yield f"{GUTTER}{output.style(mark, fg=colour) if mark else ' '}{about}"


def _about(facts: list[str], taken: int) -> str:
    """Break facts into the lines that a narrow terminal needs, in the room that ``taken`` columns leave."""
    return f"\n{' ' * taken}".join(flowing_facts([output.one_liner(each) for each in facts if each], taken))


def _input_tokens(turn: Turn) -> str:
    tokens = turn.tokens
    known = sum(each or 0 for each in (tokens.input, tokens.cache_read, tokens.cache_write))
    # Without the input of a request none is known to be the largest.
    is_lacking = tokens.input is None or (turn.tokens_source == model.PARTIAL and tokens.largest_input is None)
    if is_lacking:
        return f"≥ {amount(known)}" if known else output.UNKNOWN
    return amount(known)


def _output_tokens(turn: Turn) -> str:
    if turn.tokens.output is None:
        return output.UNKNOWN
    return f"{'≥ ' if turn.tokens_source == model.PARTIAL else ''}{amount(turn.tokens.output)}"


def unknown_line(count: int) -> Iterator[str]:
    """Yield the number of records that are not shown because their kind is unknown, if there are any."""
    if count:
        yield output.style(f"{MARGIN}(+{output.counted(count, 'record')} of an unknown kind: --full)", dim=True)


_STEPS = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def amount(count: int) -> str:
    """Format a count in two or three digits.

    >>> [amount(each) for each in (0, 999, 1000, 9_949, 12_345, 999_600, 1_900_000)]
    ['0', '999', '1 k', '9.9 k', '12 k', '1 M', '1.9 M']
    """
    for size, unit in _STEPS:
        # 999,600 is a million rather than 1,000 thousands.
        if count >= size * 0.9995:
            scaled = count / size
            return f"{scaled:.1f}".removesuffix(".0") + f" {unit}" if scaled < 9.95 else f"{scaled:.0f} {unit}"
    return str(count)
