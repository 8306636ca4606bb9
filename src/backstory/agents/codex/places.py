"""Folders of Codex CLI's logs, its name here, and the session that asks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.agents import jsonl
from backstory.agents.contract import LogRoot

if TYPE_CHECKING:
    from backstory.agents.contract import Asker


NAME = "codex"


def log_roots(environ: Mapping[str, str], home: Path) -> list[LogRoot]:
    root = Path(environ.get("CODEX_HOME") or home / ".codex")
    return [LogRoot(folder=root / name, root=root) for name in ("sessions", "archived_sessions")]


def is_log(path: Path) -> bool:
    return path.name.startswith("rollout-") and path.name.endswith(jsonl.ENDINGS)


# the session that asks ------------------------------------------------------------------------------------------------


KEY = "x-codex-turn-metadata"


class Asking:
    """See ``contract.AskingPart``."""

    def native_id(self, asker: Asker) -> str | None:
        said = asker.said.get(KEY)
        native_id = said.get("thread_id") if isinstance(said, Mapping) else None
        return native_id if isinstance(native_id, str) and native_id else None
