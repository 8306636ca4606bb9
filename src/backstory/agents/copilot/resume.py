"""Handing a session over to ``copilot --resume``, which looks for ``session-state/<session>/events.jsonl``."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from backstory.agents.contract import InUse
from backstory.agents.copilot.places import FOLDER, LOG
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backstory.agents.contract import IndexChange

_LOCK = lazy_regex(r"inuse\.(\d{1,9})\.lock$")


class Resuming:
    """See ``contract.ResumePart``."""

    executable = "copilot"

    def command(self, executable: str, native_id: str) -> list[str]:
        return [executable, "--resume", native_id]

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

    def enter(
        self, environ: Mapping[str, str], log: Path, root: Path, native_id: str, aside: Callable[[Path], None]
    ) -> IndexChange | None:
        return None

    def leave(self, change: IndexChange) -> None:
        return
