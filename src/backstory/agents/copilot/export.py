"""Sessions, written as the session store of Copilot."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from backstory.agents.contract import StoreContent
from backstory.agents.copilot.places import DATABASE, LOG, NAME
from backstory.agents.copilot.sidecars import is_made, workspace_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backstory.agents.contract import ExportSource


class Export:
    """See ``contract.ExportPart``."""

    format = NAME

    def write_store(self, path: Path, sources: Iterable[ExportSource], *, exact: bool, now: int) -> StoreContent:
        # Only an export needs them, and the agent is loaded for every ingest.
        from backstory.agents.copilot import reindex, store

        with store.SessionStore(path) as file:
            if exact:
                own = [log for source in sources for log in source.logs() if log.agent == NAME]
                reindex.keep_rows(file, (log for log in own if f"{DATABASE}#" in log.path))
                folders = (log for log in own if PurePath(log.path).name == f"{LOG}.jsonl")
                reindex.reindex(file, folders, workspace_pairs, now)
            else:
                for source in sources:
                    store.write_known(file, source, NAME, is_made)
        return StoreContent(rows=file.counts)
