"""Handing a session over to ``vibe --resume``, which looks for its folder below its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.agents.client_resume import ClientResume
from backstory.agents.vibe.places import HEAD

if TYPE_CHECKING:
    from pathlib import PurePath


class Resuming(ClientResume):
    """See ``contract.ResumePart``."""

    executable, _word = "vibe", "--resume"

    def log_names(self, relpath: PurePath, folder: str) -> list[PurePath]:
        return [relpath / HEAD]
