"""Handing a session over to ``gemini --resume``, which looks for its log among those of the folder it is started in."""

from __future__ import annotations

from pathlib import PurePath

from backstory.agents.client_resume import ClientResume
from backstory.agents.gemini.places import CHATS, TMP


class Resuming(ClientResume):
    """See ``contract.ResumePart``."""

    executable, _word = "gemini", "--resume"

    def log_names(self, relpath: PurePath, folder: str) -> list[PurePath]:
        # The name of a project's folder stands in the client's own table of projects, so a log stays where it lay.
        match relpath.parts:
            case (first, _, chats, name) if (first, chats) == (TMP, CHATS) and name.endswith(".jsonl"):
                return [relpath]
        return []
