"""Sums over turns as a table: a line for each group, with the columns and the bars that a terminal has room for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.workspace.history.stats import used

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from backstory.derive.pricing import Cost
    from backstory.derive.tally import Figures
    from backstory.workspace.history.stats import Stats, StatsGroup, ToolStats

HEADS = ("SESSIONS", "TURNS", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "TIME", "COST")
LAYOUTS = (tuple(range(9)), (0, 1, 2, 3, 4, 7, 8), (0, 1, 2, 7, 8), (0, 2, 8))
"""Sets of columns: the first that leaves room for names and bars is shown."""
NAME_COLUMNS_LEAST, NAME_COLUMNS_WANTED, NAME_COLUMNS_MOST = 8, 20, 40
BAR_COLUMNS_LEAST, BAR_COLUMNS_MOST = 8, 30
EIGHTHS = " ▏▎▍▌▋▊▉"
UNITS = (("", 1), ("k", 1_000), ("M", 1_000_000), ("B", 1_000_000_000), ("T", 1_000_000_000_000))
NAMES = {"day": "no date", "model": "no model"}


def print_turns(stats: Stats) -> None:
    """Print the sums, and what is not known of them."""
    if stats.query.by is None:
        for line in summary_lines(summary(stats.total, stats.summaries)):
            output.data(line)
    else:
        output.pages(group_lines(stats, head=stats.query.by))
    print_unknown(stats.total, stats.summaries, stats.undated)


def print_tools(stats: ToolStats) -> None:
    """Print how often each tool was called."""
    rows = [
        (each.tool or output.UNKNOWN, f"{each.calls:,}", f"{each.failed:,}", f"{each.sessions:,}")
        for each in stats.tools
    ]
    output.pages(_table(("TOOL", "CALLS", "FAILED", "SESSIONS"), rows, [each.calls for each in stats.tools]))


def summary_lines(facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A line for each sum, the values below each other."""
    named = list(facts)
    width = max(len(name) for name, _ in named)
    yield from (f"{output.style(name.ljust(width), dim=True)}  {value}" for name, value in named)


def summary(total: Figures, summaries: Figures) -> Iterator[tuple[str, str]]:
    """The sums of everything: what each is called, and its value. What summaries took is part of them."""
    yield "Sessions", f"{total.sessions:,}"
    yield "Turns", f"{total.turns:,}"
    yield "Tokens", _by_kind(total)
    yield "Cost", money(total.cost)
    yield "Time", output.duration(total.duration_ms) or output.UNKNOWN
    if summaries.turns:
        yield "Summaries", f"{summaries.turns:,}: {_by_kind(summaries)}, {money(summaries.cost)}, in these sums"


def _by_kind(figures: Figures) -> str:
    kinds = ("input", "output", "cache read", "cache write")
    return " · ".join(map(" ".join, zip(_tokens(figures), kinds, strict=True)))


def group_lines(stats: Stats, *, head: str, name: Callable[[StatsGroup], str] | None = None) -> list[str]:
    """A table with a line for each group, and their sum; ``head`` stands above what ``name`` returns for each."""
    heads, *rows = group_cells(stats, head=head.upper(), name=name)
    measure = [each.figures.cost.low_usd or 0.0 for each in stats.groups]
    if not any(measure):
        measure = [used(each.figures) or each.figures.turns for each in stats.groups]
    return _table(heads, rows, measure)


def group_cells(
    stats: Stats, *, head: str, name: Callable[[StatsGroup], str] | None = None
) -> Iterator[tuple[str, ...]]:
    """The cells of that table: the heads, each group, and the sum, which is no sum of a column.

    A session may be in several groups.
    """
    yield (head, *HEADS)
    for each in stats.groups:
        yield (name(each) if name else _name(stats, each), *_cells(each.figures))
    if stats.summaries.turns:
        yield ("Summaries", *_cells(stats.summaries, is_turns=False))
    if len(stats.groups) > 1 or stats.summaries.turns:
        yield ("Total", *_cells(stats.total))


def _name(stats: Stats, group: StatsGroup) -> str:
    name = group.key.value or NAMES.get(stats.query.by or "", output.UNKNOWN)
    is_elsewhere = stats.query.by == "branch" and stats.query.wanted.everywhere and group.key.project_name
    return f"{name} ({group.key.project_name})" if is_elsewhere else name


def _cells(figures: Figures, *, is_turns: bool = True) -> tuple[str, ...]:
    return (
        f"{figures.sessions:,}",
        f"{figures.turns:,}" if is_turns else output.UNKNOWN,
        *_tokens(figures),
        output.duration(figures.duration_ms) or output.UNKNOWN,
        money(figures.cost),
    )


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], measure: Sequence[float]) -> list[str]:
    """A table with numbers to the right; on a terminal with bars of a measure, which the last rows may not have."""
    everything = [heads, *rows]
    widths = [max(output.columns(output.clean(row[n])) for row in everything) for n in range(len(heads))]
    if sys.stdout.isatty():
        widths[0] = min(widths[0], NAME_COLUMNS_MOST)
    shown = _layout(widths)
    bar = min(output.width() - sum(widths[n] + 2 for n in shown), BAR_COLUMNS_MOST) if sys.stdout.isatty() else 0
    most, lines = max(measure, default=0), list[str]()
    for number, row in enumerate(everything):
        name = output.one_line(row[0], widths[0])
        cells = [name + " " * (widths[0] - output.columns(name)), *(row[n].rjust(widths[n]) for n in shown[1:])]
        line = "  ".join(cells)
        if number == 0:
            lines.append(output.style(line.rstrip(), dim=True))
        elif bar >= BAR_COLUMNS_LEAST and number <= len(measure) and most:
            lines.append(f"{line}  {output.style(_bar(measure[number - 1] / most, bar), fg='cyan')}".rstrip())
        else:
            lines.append(line.rstrip())
    return lines


def _layout(widths: list[int]) -> Sequence[int]:
    """The columns that a terminal has room for; where even the fewest need more, the name is cut."""
    whole = range(len(widths))
    if not sys.stdout.isatty():
        return whole
    layouts = LAYOUTS if len(widths) == len(LAYOUTS[0]) else (whole,)
    beside = BAR_COLUMNS_LEAST + 2
    least = min(widths[0], NAME_COLUMNS_WANTED) + beside
    room = {each: output.width() - sum(widths[n] + 2 for n in each[1:]) for each in layouts}
    shown = next((each for each in layouts if room[each] >= least), layouts[-1])
    widths[0] = min(widths[0], max(room[shown] - beside, NAME_COLUMNS_LEAST))
    return shown


def _bar(part: float, columns: int) -> str:
    """A bar that long, to an eighth of a column; what is more than nothing is seen.

    >>> _bar(0.5, 3), _bar(0.001, 3), _bar(0, 3)
    ('█▌', '▏', '')
    """
    eighths = max(round(part * columns * 8), 1 if part > 0 else 0)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def money(cost: Cost) -> str:
    """Format a cost for a person; between its bounds where both are known."""
    if cost.usd is None and cost.low_usd is not None and cost.high_usd is not None:
        low, high = output.dollars(cost.low_usd), output.dollars(cost.high_usd)
        if low != high:
            return f"{low}–{high}"
    return output.money(cost)


def _tokens(figures: Figures) -> Iterator[str]:
    """The sums of tokens, with ``≥`` where some are not known: in short on a terminal, whole elsewhere."""
    least = "≥ " if figures.partial_tokens else ""
    for count in (figures.input, figures.output, figures.cache_read, figures.cache_write):
        if count is None:
            yield output.UNKNOWN
        else:
            yield f"{least if count else ''}{short(count) if sys.stdout.isatty() else count}"


def short(count: int) -> str:
    """A number in three digits.

    >>> short(0), short(999), short(1_000), short(15_099), short(999_999), short(429_636_582)
    ('0', '999', '1.00k', '15.1k', '1.00M', '430M')
    """
    unit, size = next((each for each in UNITS if count < each[1] * 999.5), UNITS[-1])
    value = count / size
    digits = 0 if size == 1 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:,.{digits}f}{unit}"


def print_unknown(total: Figures, summaries: Figures, undated: int) -> None:
    """Print what is not known of turns and summaries, in a sentence, if anything is not."""
    facts = [("tokens", total.without_tokens), ("cost", total.without_cost), ("duration", total.without_duration)]
    said = [f"{name} of {output.counted(count, 'turn')}" for name, count in facts if count]
    facts = [("tokens", summaries.without_tokens), ("cost", summaries.without_cost)]
    said += [f"{name} of {output.counted(count, 'summary', 'summaries')}" for name, count in facts if count]
    sentences = [f"Not counted, because unknown: {', '.join(said)}."] if said else []
    if total.partial_tokens:
        turns = output.counted(total.partial_tokens, "turn")
        sentences.append(f"Tokens are at least these: some of {turns} are not known.")
    if undated:
        sentences.append(f"{output.counted(undated, 'turn')} without a time left out.")
    if sentences:
        output.talk(" ".join(sentences))
