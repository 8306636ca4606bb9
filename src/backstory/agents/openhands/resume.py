"""Handing a conversation over to ``openhands --resume``, which looks for its folder by its id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.agents.client_resume import ClientResume
from backstory.agents.openhands.places import EVENTS

if TYPE_CHECKING:
    from pathlib import PurePath


class Resuming(ClientResume):
    """See ``contract.ResumePart``."""

    executable, _word = "openhands", "--resume"

    def log_names(self, relpath: PurePath, folder: str) -> list[PurePath]:
        return [relpath / EVENTS]
