"""Sessions that a person removed: known by their marks alone, so who asks about one has to know its uid or mark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.server.audit import note
from backstory.server.erasing import OF_SESSION
from backstory.server.refusals import Refused
from backstory.server.shelves import ASKED_MAX, marks_of, next_generation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from backstory.server.database import TeamDatabase
    from backstory.server.people import Caller

BACKUPS = "Copies of the database that were made before this time have it for as long as they are kept."


class RemovedSession(Struct, frozen=True, kw_only=True):
    """A session that the caller removed, and when, in ms."""

    uid: str
    at: int


class ErasedSession(Struct, frozen=True, kw_only=True):
    """A session that was erased. ``left``: the number of its rows in each table, counted now."""

    removal: str
    at: datetime
    left: dict[str, int]
    backups: str = BACKUPS


class Removals:
    """The removals of all people. ``now`` gives the time."""

    def __init__(self, database: TeamDatabase, now: Callable[[], datetime]) -> None:
        self._database, self._now = database, now

    def among(self, caller: Caller, uids: Sequence[str]) -> list[RemovedSession]:
        """Return those of these sessions that the caller removed. Raises Refused for too many."""
        if len(uids) > ASKED_MAX:
            raise Refused(400, "too_many", f"At most {ASKED_MAX:,} sessions at once.")
        with self._database.of(caller.tenant) as rows:
            marks = dict(zip(marks_of(rows, caller.tenant, uids), uids, strict=True))
            found = rows.execute(_AMONG, (caller.tenant, caller.person, [*marks])).fetchall()
        return [RemovedSession(uid=marks[bytes(mark)], at=int(at.timestamp() * 1_000)) for mark, at in found]

    def removal(self, caller: Caller, said: str) -> ErasedSession:
        """Return what is left of a session that the caller removed. Raises Refused if the caller removed none."""
        try:
            asked = bytes.fromhex(said)
        except ValueError:
            asked = b""
        of = (caller.tenant, caller.person)
        with self._database.of(caller.tenant) as rows:
            row = rows.execute(
                "select at from removal where tenant = %s and person = %s and mark = %s", (*of, asked)
            ).fetchone()
            if row is None:
                raise Refused(404, "removal_unknown", "You removed no such session here.")
            left = dict.fromkeys(OF_SESSION, 0)
            for table, column in OF_SESSION.items():
                counted: list[tuple[Any, ...]] = rows.execute(
                    f"select {column}, count(*) from {table} where tenant = %s and person = %s group by 1".encode(), of
                ).fetchall()
                marks = marks_of(rows, caller.tenant, [uid for uid, _ in counted])
                left[table] = sum(count for mark, (_, count) in zip(marks, counted, strict=True) if mark == asked)
        return ErasedSession(removal=said, at=row[0], left=left)

    def take_back(self, caller: Caller, machine: str, uid: str) -> None:
        """Erase what one machine sent of a session: a copy of another one's. Raises Refused if there is none."""
        of = (caller.tenant, caller.person, machine, uid)
        with self._database.of(caller.tenant) as rows:
            next_generation(rows, caller)
            there = 0
            for table, column in OF_SESSION.items():
                gone = f"delete from {table} where tenant = %s and person = %s and machine = %s and {column} = %s"
                there += rows.execute(gone.encode(), of).rowcount
            if not there:
                raise Refused(404, "session_unknown", "You have no such session here.")
            note(rows, caller.tenant, caller.person, "forget", "copy", self._now())


_AMONG = "select mark, at from removal where tenant = %s and person = %s and mark = any(%s)"
