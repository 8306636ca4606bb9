"""Handing a session over to ``copilot --resume``, which looks for ``session-state/<session>/events.jsonl``."""

from __future__ import annotations

from pathlib import Path, PurePath

from backstory.agents.client_resume import ClientResume
from backstory.agents.contract import InUse
from backstory.agents.copilot.places import FOLDER, LOG
from backstory.lazy import lazy_regex

_LOCK = lazy_regex(r"inuse\.(\d{1,9})\.lock$")


class Resuming(ClientResume):
    """See ``contract.ResumePart``."""

    executable, _word = "copilot", "--resume"

    def log_names(self, relpath: PurePath, folder: str) -> list[PurePath]:
        # Older builds' logs are converted by the client only where they lie beside its own, which no test here shows.
        match relpath.parts:
            case (first, _, name) if first == FOLDER and name == f"{LOG}.jsonl":
                return [relpath]
        return []

    def in_use(self, root: Path, native_id: str) -> list[InUse]:
        locks = (root / FOLDER / native_id).glob("inuse.*.lock")
        found = (_LOCK.match(lock.name) for lock in sorted(locks))
        return [InUse(pid=int(each.group(1))) for each in found if each]
