"""Context boards as people's machines sent them: each machine's as a whole, for the others of the same person."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backstory.exchange import portable
from backstory.exchange.json_lines import BoardLine
from backstory.server.database import one
from backstory.server.refusals import Refused
from backstory.server.shelves import next_generation, note_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from backstory.server.database import TeamDatabase
    from backstory.server.people import Caller

BOARD_BYTES_MAX = 4 * 1024 * 1024
"""The longest request with the boards of a repository."""
REPOSITORY_BYTES_MAX = 1_000
PERSON_BYTES_MAX, PERSON_BOARDS_MAX = 32 * 1024 * 1024, 2_000
"""The most that is kept of one person."""


class Boards:
    """The boards of all people. ``now`` gives the time."""

    def __init__(self, database: TeamDatabase, now: Callable[[], datetime]) -> None:
        self._database, self._now = database, now

    def put(self, caller: Caller, machine: str, repository: str, items: Sequence[BoardLine]) -> None:
        """Keep the boards of a repository, in place of those that this machine sent before. Raises Refused."""
        if caller.repositories is not None and repository not in caller.repositories:
            raise Refused(403, "not_allowed", "Your token is not for this repository.")
        if not 0 < len(repository.encode()) <= REPOSITORY_BYTES_MAX or not repository.isprintable():
            raise Refused(400, "request_wrong", "This is no key of a repository.")
        if any(not _is_of(each, repository) for each in items):
            raise Refused(400, "request_wrong", "These are no items of a board of this repository.")
        of = (caller.tenant, caller.person, machine, repository)
        with self._database.of(caller.tenant) as rows:
            # Who is put out meanwhile leaves none behind, and a machine that has one can be named.
            next_generation(rows, caller)
            note_machine(rows, caller, machine, self._now())
            if not items:
                gone = "delete from board where tenant = %s and person = %s and machine = %s and repository = %s"
                rows.execute(gone, of)
                return
            rows.execute(_PUT, (*of, msgspec.json.encode(items)))
            size, count = one(rows.execute(_SIZE, of[:2]))
            if size > PERSON_BYTES_MAX or count > PERSON_BOARDS_MAX:
                raise Refused(413, "too_much", "Your boards are more than the server keeps of a person.")

    def of_others(self, caller: Caller, machine: str) -> list[BoardLine]:
        """Return the items of the boards that the caller's other machines sent."""
        with self._database.of(caller.tenant) as rows:
            found = rows.execute(_OTHERS, (caller.tenant, caller.person, machine)).fetchall()
        among = caller.repositories
        return [
            item
            for repository, items in found
            if among is None or repository in among
            for item in msgspec.json.decode(bytes(items), type=list[BoardLine])
        ]


def _is_of(item: BoardLine, repository: str) -> bool:
    """Return True for an item that is as ours are made, of a board of this repository, which it names without host."""
    try:
        portable.item_of(item)
    except ValueError:
        return False
    return item.repository.lower() == repository.partition("/")[2].lower()


_SIZE = """
select coalesce(sum(octet_length(items)), 0), count(*) from board where tenant = %s and person = %s
"""
_PUT = """
insert into board (tenant, person, machine, repository, items) values (%s, %s, %s, %s, %s)
on conflict (tenant, person, machine, repository) do update set items = excluded.items
"""
_OTHERS = """
select repository, items from board where tenant = %s and person = %s and machine <> %s order by machine, repository
"""
