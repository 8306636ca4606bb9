"""The events of a path through a session, as they are stored, without reading what lies between its turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backstory.conversation.tree import Span
    from backstory.store import Session, Store, StoredEvent, TreeTurn

WINDOW = 500
"""The most events that are read at once; gaps in a path that are shorter are read over."""


def path_events(
    store: Store, session: Session, spans: Sequence[Span], turns: Iterable[TreeTurn]
) -> Iterator[StoredEvent]:
    """The events of these records, in the order of their numbers."""
    ids = {turn.uid: turn.id for turn in turns}
    last = {ids[span.uid]: span.last for span in spans}
    first = {ids[span.uid]: span.first for span in spans}
    for start, stop in _joined(spans):
        after = (start - 1, 1 << 30)
        while window := store.events(session, after=after, limit=WINDOW):
            for stored in window:
                turn = stored.turn_id or 0
                if stored.seq <= stop and first.get(turn, 1) <= stored.seq <= last.get(turn, 0):
                    yield stored
            after = (window[-1].seq, window[-1].part)
            if after[0] > stop or len(window) < WINDOW:
                break


def _joined(spans: Sequence[Span]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for span in sorted(spans, key=lambda each: each.first):
        if joined and span.first - joined[-1][1] <= WINDOW:
            joined[-1] = (joined[-1][0], max(joined[-1][1], span.last))
        else:
            joined.append((span.first, span.last))
    return joined
