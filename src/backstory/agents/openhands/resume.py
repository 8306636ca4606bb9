"""Handing a conversation over to ``openhands --resume``, which looks for its folder by its id."""

from __future__ import annotations

from backstory.agents.part_resume import PartResuming


class Resuming(PartResuming):
    """See ``contract.ResumePart``."""

    def __init__(self) -> None:
        super().__init__("openhands")

    def command(self, executable: str, native_id: str) -> list[str]:
        return [executable, "--resume", native_id]
