"""From which session the client asks a server that it started: each call of a tool says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backstory.agents.contract import Asker

KEY = "x-codex-turn-metadata"


class Asking:
    """See ``contract.AskingPart``."""

    def native_id(self, asker: Asker) -> str | None:
        said = asker.said.get(KEY)
        native_id = said.get("thread_id") if isinstance(said, Mapping) else None
        return native_id if isinstance(native_id, str) and native_id else None
