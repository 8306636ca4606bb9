"""Summaries as lines: one for what each stands for; all that it says, if that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.views.compaction_words import exchanges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.workspace.history.transcript import ShownSummary


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
