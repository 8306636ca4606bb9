"""Where Codex CLI keeps its logs, and what it is called here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backstory.agents import jsonl
from backstory.agents.contract import LogRoot

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "codex"


def log_roots(environ: Mapping[str, str], home: Path) -> list[LogRoot]:
    root = Path(environ.get("CODEX_HOME") or home / ".codex")
    return [LogRoot(folder=root / name, root=root) for name in ("sessions", "archived_sessions")]


def is_log(path: Path) -> bool:
    return path.name.startswith("rollout-") and path.name.endswith(jsonl.ENDINGS)
