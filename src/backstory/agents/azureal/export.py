"""Sessions, written as a file that AZUREAL opens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.agents.contract import StoreContent

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from backstory.agents.contract import ExportSource


class Export:
    """See ``contract.ExportPart``."""

    format = "azs"

    def write_store(self, path: Path, sources: Iterable[ExportSource], *, exact: bool, now: int) -> StoreContent:
        # Only an export needs it, and the agent is loaded for every ingest.
        from backstory.agents.azureal import writing

        return writing.write(path, sources, exact=exact)
