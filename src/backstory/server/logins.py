"""Logins of a person: of machines that were let in, and tokens for programs, with fewer rights and for less time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.server import codes
from backstory.server.audit import note
from backstory.server.people import MAY, STEER, TOKEN_DAYS, TeamRole, check_name, forget_waiting
from backstory.server.refusals import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from psycopg import Cursor

    from backstory.server.database import TeamDatabase
    from backstory.server.people import Caller

REPOSITORIES_MAX = 1_000
OF_PROGRAMS = frozenset(MAY[TeamRole.MEMBER])
"""The most rights of a token that is no machine's login."""


class Login(Struct, frozen=True, kw_only=True):
    """A login. ``name``: of the machine, or what it is for; ``repositories``: None for all; ``used``: the last day."""

    id: str
    name: str
    scopes: list[str]
    repositories: list[str] | None
    created: datetime
    expires: datetime
    used: str | None
    is_this: bool


class Logins:
    """The logins of all people. ``now`` gives the time."""

    def __init__(self, database: TeamDatabase, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database, self._now = database, now

    def everyone(self, caller: Caller) -> list[Login]:
        """Return the logins of the caller that are good, the newest first."""
        with self._database.of(caller.tenant) as rows:
            found = rows.execute(_GOOD, (caller.tenant, caller.person, self._now())).fetchall()
        return [
            Login(
                id=id_, name=name, scopes=sorted(scopes), repositories=among, created=created, expires=expires,
                used=None if used is None else used.isoformat(), is_this=id_ == caller.token,
            )
            for id_, name, scopes, among, created, expires, used in found
        ]  # fmt: skip

    def make(
        self, caller: Caller, name: str, scopes: Iterable[str], repositories: Iterable[str] | None, days: int
    ) -> str:
        """Return a token that may no more than the caller's, and is good no longer. Raises Refused.

        To steer, too, where a person gives it by name: a machine's own login may not.
        """
        wanted, among = sorted({*scopes}), None if repositories is None else sorted({*repositories})
        # Who lets people in, or erases, does it with a login of a machine.
        given = (caller.scopes | ({STEER} & MAY[caller.role] if caller.is_whole else set())) & OF_PROGRAMS
        if not wanted or not {*wanted} <= given:
            has = ", ".join(sorted(given))
            raise Refused(403, "not_allowed", f"A token has some of these rights: {has}.")
        if caller.repositories is not None and (among is None or not {*among} <= caller.repositories):
            raise Refused(403, "not_allowed", "A token is good for no other repositories than its maker's.")
        if among is not None and not 0 < len(among) <= REPOSITORIES_MAX:
            raise Refused(400, "request_wrong", f"A token is for 1 to {REPOSITORIES_MAX:,} repositories, or for all.")
        check_name(name)
        if not 0 < days <= TOKEN_DAYS:
            raise Refused(400, "request_wrong", f"A token is good for 1 to {TOKEN_DAYS} days.")
        token, now = codes.new_token(caller.tenant), self._now()
        with self._database.of(caller.tenant) as rows:
            rows.execute(_MADE, (
                token.id, codes.hashed(token.secret), name.strip(), wanted, among, now, now + timedelta(days=days),
                caller.tenant, caller.token,
            ))  # fmt: skip
            self._note(rows, caller, "token", token.id)
        return str(token)

    def end(self, caller: Caller, login: str) -> None:
        """Make a login of the caller worthless. Raises Refused if there is none."""
        of = (caller.tenant, caller.person, login)
        with self._database.of(caller.tenant) as rows:
            if not rows.execute("delete from token where tenant = %s and person = %s and id = %s", of).rowcount:
                raise Refused(404, "login_unknown", "You have no such login.")
            self._note(rows, caller, "logout", login)
        forget_waiting(self._database, login)

    def _note(self, rows: Cursor[Any], caller: Caller, action: str, what: str) -> None:
        note(rows, caller.tenant, caller.person, action, what, self._now())


_GOOD = """
select id, name, scopes, repositories, created, expires, used from token
where tenant = %s and person = %s and expires > %s order by created desc, id
"""
_MADE = """
insert into token (tenant, id, person, hash, name, scopes, repositories, created, expires)
select tenant, %s, person, %s, %s, %s, %s, %s, least(expires, %s) from token where tenant = %s and id = %s
"""
