"""Handing a session over to ``cline --id``, which looks for it by its id in the client's own folder."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

import msgspec
from msgspec import Struct

from backstory.agents.client_resume import ClientResume
from backstory.agents.cline.places import ENDING, SESSIONS
from backstory.agents.contract import InUse


class _Process(Struct):
    pid: Any = None
    ended_at: Any = None


class Resuming(ClientResume):
    """See ``contract.ResumePart``."""

    executable, _word = "cline", "--id"

    def log_names(self, relpath: PurePath, folder: str) -> list[PurePath]:
        match relpath.parts:
            case (first, _, name) if first == SESSIONS and name.endswith(ENDING):
                return [relpath]
        return []

    def in_use(self, root: Path, native_id: str) -> list[InUse]:
        try:
            said = (root / SESSIONS / native_id / f"{native_id}.json").read_bytes()
            found = msgspec.json.decode(said, type=_Process)
        except (OSError, ValueError, RecursionError):
            return []
        is_running = found.ended_at is None and isinstance(found.pid, int) and found.pid > 0
        return [InUse(pid=found.pid)] if is_running else []
