"""Handing a session over to ``pi --session``, which looks for its log below the folder that is named like its cwd."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from backstory.agents.pi.places import SESSIONS, project_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backstory.agents.contract import IndexChange, InUse


class Resuming:
    """See ``contract.ResumePart``."""

    executable = "pi"

    def command(self, executable: str, native_id: str) -> list[str]:
        return [executable, "--session", native_id]

    def log_names(self, relpath: PurePath, folder: str) -> list[PurePath]:
        match relpath.parts:
            case (first, _, name) if first == SESSIONS and relpath.suffix == ".jsonl":
                return [PurePath(SESSIONS, project_folder(folder), name)]
        return []

    def in_use(self, root: Path, native_id: str) -> list[InUse]:
        # The client writes down nothing of its processes.
        return []

    def enter(
        self, environ: Mapping[str, str], log: Path, root: Path, native_id: str, aside: Callable[[Path], None]
    ) -> IndexChange | None:
        return None

    def leave(self, change: IndexChange) -> None:
        return
