"""Handing a session over to ``codex resume``.

The client finds a log by a row of its database; a row with another path, or one that says "archived", keeps it from
resuming. Some builds need the row, newer ones add a missing one. A ``.zst`` among the sessions is unpacked by the
client itself.
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from backstory.agents.client_resume import ClientResume
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backstory.agents.contract import IndexChange

SESSIONS, ARCHIVED = "sessions", "archived_sessions"
_DAY = lazy_regex(r"rollout-(\d{4})-(\d\d)-(\d\d)T")


class Resuming(ClientResume):
    """See ``contract.ResumePart``."""

    executable, _word = "codex", "resume"

    def log_names(self, relpath: PurePath, folder: str) -> list[PurePath]:
        # Builds of 2025 wrote one document a session, which no client of today continues.
        if relpath.suffix != ".jsonl":
            return []
        day = _DAY.match(relpath.name)
        if relpath.parts[0] == ARCHIVED and day:
            relpath = PurePath(SESSIONS, *day.groups(), relpath.name)
        if relpath.parts[0] != SESSIONS:
            return []
        return [relpath, relpath.with_name(f"{relpath.name}.zst")]

    def enter(
        self, environ: Mapping[str, str], log: Path, root: Path, native_id: str, aside: Callable[[Path], None]
    ) -> IndexChange | None:
        from backstory.agents.codex import threads  # imports sqlite3, which no other part needs

        return threads.enter(Path(environ.get("CODEX_SQLITE_HOME") or root), log, native_id, aside)

    def leave(self, change: IndexChange) -> None:
        from backstory.agents.codex import threads

        threads.leave(change)
