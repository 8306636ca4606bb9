"""The progress of a count of many turns, and how many lines are printed."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from backstory.cli import output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PROGRESS_S = 0.4
"""Progress is shown after this time."""
LINES_AT_ONCE = 200


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show how far it is, on a terminal, once it takes long; of an unknown total (None) that it goes on."""
    began = time.monotonic()
    bars: list[Callable[[int, int | None], None]] = []
    with ExitStack() as shown:

        def report(done: int, total: int | None) -> None:
            if not bars and output.is_watched() and time.monotonic() - began > PROGRESS_S:
                bars.append(shown.enter_context(output.progress(what)))
            for each in bars:
                each(done, total)

        yield report


def at_once(texts: Iterable[str]) -> Iterator[str]:
    """Lines, many in one text, so that printing them costs little."""
    texts = iter(texts)
    while some := list(islice(texts, LINES_AT_ONCE)):
        yield "\n".join(some)
