"""Summaries as lines: one for what each stands for; all that it says, if that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.conversation.compaction import KeptFacts
    from backstory.workspace.history.transcript import ShownSummary
    from backstory.workspace.runs.run_events import Compacting, SummaryMade


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
