"""Context boards as people's machines sent them: each machine's as a whole, for the others of the same person."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backstory.exchange.json_lines import BoardLine
from backstory.server.refusals import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.server.database import TeamDatabase
    from backstory.server.people import Caller

BOARD_BYTES_MAX = 4 * 1024 * 1024
"""The longest request with the boards of a repository."""
REPOSITORY_CHARS_MAX = 1_000


class Boards:
    """The boards of all people."""

    def __init__(self, database: TeamDatabase) -> None:
        self._database = database

    def put(self, caller: Caller, machine: str, repository: str, items: Sequence[BoardLine]) -> None:
        """Keep the boards of a repository, in place of those that this machine sent before. Raises Refused."""
        if caller.repositories is not None and repository not in caller.repositories:
            raise Refused(403, "not_allowed", "Your token is not for this repository.")
        if not 0 < len(repository) <= REPOSITORY_CHARS_MAX or not repository.isprintable():
            raise Refused(400, "request_wrong", "This is no key of a repository.")
        of = (caller.tenant, caller.person, machine, repository)
        with self._database.of(caller.tenant) as rows:
            if not items:
                gone = "delete from board where tenant = %s and person = %s and machine = %s and repository = %s"
                rows.execute(gone, of)
                return
            # Who is put out meanwhile leaves none behind.
            rows.execute("select from person where tenant = %s and id = %s for update", of[:2])
            rows.execute(_PUT, (*of, msgspec.json.encode(items)))

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


_PUT = """
insert into board (tenant, person, machine, repository, items) values (%s, %s, %s, %s, %s)
on conflict (tenant, person, machine, repository) do update set items = excluded.items
"""
_OTHERS = """
select repository, items from board where tenant = %s and person = %s and machine <> %s order by machine, repository
"""
