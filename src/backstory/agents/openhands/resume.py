"""Handing a conversation over to ``openhands --resume``, which looks for its folder by its id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.agents.openhands.places import EVENTS
from backstory.agents.part_resume import PartResuming

if TYPE_CHECKING:
    from pathlib import PurePath


class Resuming(PartResuming):
    """See ``contract.ResumePart``."""

    def __init__(self) -> None:
        super().__init__("openhands")

    def command(self, executable: str, native_id: str) -> list[str]:
        return [executable, "--resume", native_id]

    def log_names(self, relpath: PurePath, folder: str) -> list[PurePath]:
        return [relpath / EVENTS]
