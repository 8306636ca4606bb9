"""The progress of a count of many turns."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from backstory.cli import output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRESS_S = 0.4
"""Progress is shown after this time."""


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
