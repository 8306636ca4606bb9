"""Folders of Claude Code's logs, its name here, and the session that asks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from backstory.agents import jsonl
from backstory.agents.claude.resume import LiveSession
from backstory.agents.contract import LogRoot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backstory.agents.contract import Asker


NAME = "claude"


def log_roots(environ: Mapping[str, str], home: Path) -> list[LogRoot]:
    root = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    return [LogRoot(folder=root / "projects", root=root)]


def is_log(path: Path) -> bool:
    return path.name.endswith(jsonl.ENDINGS) and path.name != "journal.jsonl"


# the session that asks ------------------------------------------------------------------------------------------------


VARIABLE = "CLAUDE_CODE_SESSION_ID"
FILE_BYTES_MAX = 64 * 1024


class Asking:
    """See ``contract.AskingPart``."""

    def native_id(self, asker: Asker) -> str | None:
        at_start = asker.environ.get(VARIABLE) or None
        for root in log_roots(asker.environ, asker.home):
            for pid, birth in asker.processes:
                live = _live_session(root.root / "sessions" / f"{pid}.json")
                if live is not None and live.started in (None, birth):
                    return live.session_id
        return at_start


def _live_session(path: Path) -> LiveSession | None:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            return None
        return msgspec.json.decode(path.read_bytes(), type=LiveSession)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
