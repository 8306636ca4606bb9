"""Sentences about summaries that are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.conversation.compaction import Kept
    from backstory.workspace.runs.run_events import Compacted, Compacting


def compacting_line(event: Compacting) -> str:
    """Return a line that a summary is being made."""
    of = f", step {event.step} of {event.steps}" if event.steps > 1 else ""
    return f"{event.agent} summarises {exchanges(event.exchanges)}{of} …"


def compacted_line(event: Compacted) -> str:
    """Return a line on the exchanges that a summary replaces, and the facts that it still names."""
    if not event.is_stored:
        return "The summary was not stored: a newer one is in force, or its branch is gone."
    names = f" that still name {kept}" if (kept := kept_words(event.retention)) else ""
    return f"{exchanges(event.exchanges)} up to @{event.after_seq} became {len(event.summary):,} characters{names}."


def kept_words(retention: Sequence[Kept]) -> str:
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
