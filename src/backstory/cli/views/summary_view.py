"""Summaries as lines, and the context of the next run, which begins with one."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from backstory.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.cli.app import App
    from backstory.conversation.board import Offer
    from backstory.conversation.compaction import KeptFacts
    from backstory.workspace.history.transcript import ShownSummary
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.runs.contexts import ContextTurn, SessionContext
    from backstory.workspace.runs.run_events import Compacting, SummaryMade

LEFT_OUT_SHOWN_MAX = 10
"""If more turns than these are left out, they share one line; JSON lists each."""


def summary_lines(summary: ShownSummary, *, full: bool) -> Iterator[str]:
    """Yield the exchanges that a summary replaces, and with ``full`` its text."""
    facts = [
        f"{exchanges(summary.exchanges)} summarised (@{summary.first_seq}–@{summary.after_seq})",
        f"{len(summary.summary):,} characters",
        f"by {summary.agent}" if summary.agent else "",
        "" if summary.in_force else "not in force here",
        "" if full else "--full",
    ]
    yield "       " + output.style(output.one_liner(f"≡ {' · '.join(each for each in facts if each)}"), fg="magenta")
    if full:
        for line in summary.summary.strip().split("\n"):
            yield output.style(f"         {line}".rstrip(), fg="magenta")


# compaction words -----------------------------------------------------------------------------------------------------
# Sentences about summaries that are made.


def compacting_line(event: Compacting) -> str:
    """Return a line that a summary is being made."""
    of = f", step {event.step} of {event.steps}" if event.steps > 1 else ""
    return f"{event.agent} summarises {exchanges(event.exchanges)}{of} …"


def compacted_line(event: SummaryMade) -> str:
    """Return a line on the exchanges that a summary replaces, and the facts that it still names."""
    if not event.is_stored:
        return "The summary was not stored: a newer one is in force, or its branch is gone."
    names = f" that still name {kept}" if (kept := kept_words(event.retention)) else ""
    return f"{exchanges(event.exchanges)} up to @{event.after_seq} became {len(event.summary):,} characters{names}."


def kept_words(retention: Sequence[KeptFacts]) -> str:
    """Return the numbers of facts that a summary still names, by kind; '' if there were none.

    A fact of which there is one is named in the singular.
    """
    return ", ".join(
        f"{each.named} of {each.total:,} {each.kind.removesuffix('s') if each.total == 1 else each.kind}"
        for each in retention
    )


def exchanges(count: int) -> str:
    """Exchanges as words.

    >>> exchanges(1), exchanges(2)
    ('1 exchange', '2 exchanges')
    """
    return f"{count} exchange{'s' * (count != 1)}"


# contexts -------------------------------------------------------------------------------------------------------------


def print_context(
    app: App, found: LocatedSession, *, budget: int | None = None, offer: Offer | None = None, explain: bool = False,
    as_json: bool,
) -> None:  # fmt: skip
    """Print the context that the next run of a session receives, of ``budget`` characters at most."""
    from backstory.workspace.runs import contexts

    budget = app.config.settings.run.context_chars if budget is None else budget
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
