"""Where Claude Code keeps its logs, and what it is called here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backstory.agents import jsonl
from backstory.agents.contract import LogRoot

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "claude"


def log_roots(environ: Mapping[str, str], home: Path) -> list[LogRoot]:
    root = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    return [LogRoot(folder=root / "projects", root=root)]


def is_log(path: Path) -> bool:
    return path.name.endswith(jsonl.ENDINGS) and path.name != "journal.jsonl"
