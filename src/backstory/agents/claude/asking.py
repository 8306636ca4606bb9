"""From which session a client asks a server that it started.

The client names its session in the server's environment, as it was when it started that. A person who resumes another
session, or clears this one, stays in the same process: ``sessions/PID.json`` says which one it has now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backstory.agents.claude.places import log_roots
from backstory.agents.claude.resume import LiveSession

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.agents.contract import Asker

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
