"""The database of all sessions, also of those whose folders are gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backstory.agents import jsonl
from backstory.agents.copilot import rows
from backstory.agents.copilot.log import Logs
from backstory.agents.copilot.places import DATABASE, FOLDER, entries_of, holds_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backstory.agents.contract import SessionRows, UnreadRows


class Databases:
    """See ``contract.DatabasePart``. There is one, in the agent's own folder."""

    def databases(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        return [each.root / DATABASE for each in Logs().roots(environ, home) if each.folder.name == FOLDER]

    def databases_in(self, place: Path) -> list[Path]:
        return []

    def beside(self, database: Path) -> list[Path]:
        return []

    def sessions_without_logs(self, database: Path, copy: Path) -> Iterator[SessionRows | UnreadRows]:
        folder = database.with_name(FOLDER)
        here = {jsonl.stem(log) if log.is_file() else log.name for log in entries_of(folder) if holds_log(log)}
        return rows.sessions_in(copy, here)
