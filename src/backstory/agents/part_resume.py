"""Handing a session over to a client that finds it by its id in its own database, from which it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path, PurePath

    from backstory.agents.contract import IndexChange, InUse


class PartResuming:
    """See ``contract.ResumePart``. No file is ever put back: what the database lost, its client does not continue."""

    def __init__(self, executable: str) -> None:
        self.executable = executable

    def command(self, executable: str, native_id: str) -> list[str]:
        return [executable, "-s", native_id]

    def log_names(self, relpath: PurePath, folder: str) -> list[PurePath]:
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
