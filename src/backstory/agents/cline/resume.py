"""Handing a session over to ``cline --id``, which looks for it by its id in the client's own folder."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.agents.cline.places import ENDING, SESSIONS
from backstory.agents.contract import InUse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backstory.agents.contract import IndexChange


class _Process(Struct):
    pid: Any = None
    ended_at: Any = None


class Resuming:
    """See ``contract.ResumePart``."""

    executable = "cline"

    def command(self, executable: str, native_id: str) -> list[str]:
        return [executable, "--id", native_id]

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

    def enter(
        self, environ: Mapping[str, str], log: Path, root: Path, native_id: str, aside: Callable[[Path], None]
    ) -> IndexChange | None:
        return None

    def leave(self, change: IndexChange) -> None:
        return
