"""Handing a session over to ``pi --session``, which looks for its log below the folder that is named like its cwd."""

from __future__ import annotations

from pathlib import PurePath

from backstory.agents.client_resume import ClientResume
from backstory.agents.pi.places import SESSIONS, project_folder


class Resuming(ClientResume):
    """See ``contract.ResumePart``."""

    executable, _word = "pi", "--session"

    def log_names(self, relpath: PurePath, folder: str) -> list[PurePath]:
        match relpath.parts:
            case (first, _, name) if first == SESSIONS and relpath.suffix == ".jsonl":
                return [PurePath(SESSIONS, project_folder(folder), name)]
        return []
