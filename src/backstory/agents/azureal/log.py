"""AZUREAL's sessions: databases ``.azureal/sessions.azs``, one in each worktree that it was used in.

Source: its code up to 2026-06-29. It runs other agents, a new process for each prompt, and keeps what its terminal
shows of their events: of results a few lines, of calls the field that matters. No event has a time. See ``rows`` for
how a file becomes lines of records, and ``reader`` for what they say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.agents import jsonl
from backstory.agents.azureal import rows
from backstory.agents.azureal.places import ENDING, FILE, FOLDER
from backstory.agents.azureal.reader import Reader, record
from backstory.model import LogIdentity, Relation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from backstory.agents.contract import LogRoot, SessionRows, UnreadRows


class Logs:
    """See ``contract.LogPart``."""

    is_whole = staticmethod(jsonl.is_whole)

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        # It keeps no logs, only databases.
        return []

    def is_log(self, path: Path) -> bool:
        return False

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        records = list(filter(None, map(record, jsonl.lines_in(head))))
        if not any(isinstance(each.row, dict) and str(each.table) in rows.TABLES for each in records):
            return None
        row = records[0].row if records[0].table == rows.SESSION else None
        named = row.get("id") if isinstance(row, dict) else None
        native_id = named if isinstance(named, str) and named else path.name.rpartition("#")[2]
        return LogIdentity(native_id=native_id, relation=Relation.RETOLD)

    def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> Reader:
        return Reader(identity, state)

    def native_id_of(self, line: bytes) -> str | None:
        # A row is written once and never changed, so its content names it.
        return None


class Databases:
    """See ``contract.DatabasePart``."""

    def databases(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        # In a home lies only what it is set up with.
        return []

    def databases_in(self, place: Path) -> list[Path]:
        folder = place if place.name == FOLDER else place / FOLDER
        try:
            if place.name.endswith(ENDING) and place.is_file():
                return [place]
            return [folder / FILE] if (folder / FILE).is_file() else []
        except (OSError, ValueError):
            return []

    def beside(self, database: Path) -> list[Path]:
        return []

    def sessions_without_logs(self, database: Path, copy: Path) -> Iterator[SessionRows | UnreadRows]:
        is_in_worktree = database.parent.name == FOLDER
        folder = str(database.parent.parent) if is_in_worktree else None
        return rows.sessions_in(rows.Database(path=copy, file_name=database.name, folder=folder))
