"""Handing a session over to ``gemini --resume``, which looks for its log among those of the folder it is started in."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from backstory.agents.gemini.places import CHATS, TMP

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backstory.agents.contract import IndexChange, InUse


class Resuming:
    """See ``contract.ResumePart``."""

    executable = "gemini"

    def command(self, executable: str, native_id: str) -> list[str]:
        return [executable, "--resume", native_id]

    def log_names(self, relpath: PurePath, folder: str) -> list[PurePath]:
        # The name of a project's folder stands in the client's own table of projects, so a log stays where it lay.
        match relpath.parts:
            case (first, _, chats, name) if (first, chats) == (TMP, CHATS) and name.endswith(".jsonl"):
                return [relpath]
        return []

    def in_use(self, root: Path, native_id: str) -> list[InUse]:
        # The client writes down nothing while it runs.
        return []

    def enter(
        self, environ: Mapping[str, str], log: Path, root: Path, native_id: str, aside: Callable[[Path], None]
    ) -> IndexChange | None:
        return None

    def leave(self, change: IndexChange) -> None:
        return
