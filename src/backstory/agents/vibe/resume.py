"""Handing a session over to ``vibe --resume``, which looks for its folder below its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.agents.part_resume import PartResuming
from backstory.agents.vibe.places import HEAD

if TYPE_CHECKING:
    from pathlib import PurePath


class Resuming(PartResuming):
    """See ``contract.ResumePart``."""

    def __init__(self) -> None:
        super().__init__("vibe")

    def command(self, executable: str, native_id: str) -> list[str]:
        return [executable, "--resume", native_id]

    def log_names(self, relpath: PurePath, folder: str) -> list[PurePath]:
        return [relpath / HEAD]
