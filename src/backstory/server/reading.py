"""Answers about the history of an organisation: over all that its people sent, or a part, by the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from datetime import datetime

    from backstory.server.database import TeamDatabase
    from backstory.server.people import Caller


class TeamRepository(Struct, frozen=True):
    """A repository of an organisation: what is there, and of how many people."""

    repository: str
    sessions: int
    events: int
    people: int
    last_active: datetime | None


class TeamReading:
    """Answers what a caller may see: all of the organisation, or of the repositories that the token is good for."""

    def __init__(self, database: TeamDatabase) -> None:
        self._database = database

    def repositories(self, caller: Caller) -> list[TeamRepository]:
        """Return the repositories with sessions, the last active first."""
        with self._database.of(caller.tenant) as rows:
            found = rows.execute("select * from repositories_of(%s, %s)", (caller.tenant, _among(caller))).fetchall()
        return [TeamRepository(*each) for each in found]


def _among(caller: Caller) -> list[str] | None:
    return None if caller.repositories is None else sorted(caller.repositories)
