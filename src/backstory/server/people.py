"""Organisations, their people with their roles, and what lets them in. Each method is one transaction.

A reader reads, a member also stores what is theirs, an admin also lets people in and out. The last admin stays.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from backstory.server import codes
from backstory.server.audit import note
from backstory.server.database import one
from backstory.server.erasing import erase_person
from backstory.server.refusals import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg import Cursor

    from backstory.server.database import TeamDatabase

INVITE_DAYS, TOKEN_DAYS, BROWSER_DAYS, LOGIN_S = 7, 365, 30, 600
NAME_CHARS_MAX = 60
WAITING = 0
"""The tenant of machines that wait to be let in."""


class TeamRole(StrEnum):
    """Rights of a person; each may do what the one before may."""

    READER = "reader"
    MEMBER = "member"
    ADMIN = "admin"


SCOPES = {TeamRole.READER: ["read", "search"], TeamRole.MEMBER: ["read", "search", "sync"],
          TeamRole.ADMIN: ["read", "search", "sync", "admin"]}  # fmt: skip
BROWSER, STEER = ("read", "search"), "steer"
"""The rights of a browser, and the one that no login has that was not given it by name."""
MAY = {TeamRole.READER: frozenset(SCOPES[TeamRole.READER]), TeamRole.MEMBER: {*SCOPES[TeamRole.MEMBER], STEER},
       TeamRole.ADMIN: {*SCOPES[TeamRole.ADMIN], STEER}}  # fmt: skip
"""The rights that a login of each may have; a machine's has those of ``SCOPES``."""


class Caller(Struct, frozen=True, kw_only=True):
    """A person who asks, by a token. ``repositories``: None for all that the person may see.

    ``is_whole``: by the login of a machine, which may do all that its person may; a token for a program never is.
    """

    tenant: int
    person: int
    name: str
    role: TeamRole
    token: str
    scopes: frozenset[str]
    repositories: frozenset[str] | None = None
    is_whole: bool = False

    @property
    def among(self) -> list[str] | None:
        """The repositories, as statements take them."""
        return None if self.repositories is None else sorted(self.repositories)


class Person(Struct, frozen=True, kw_only=True):
    """A person, as others of the organisation see them."""

    name: str
    role: TeamRole
    created: datetime


class LetIn(Struct, frozen=True, kw_only=True):
    """A token that is shown this once, and whose it is."""

    token: str
    organisation: str
    name: str
    role: TeamRole


class ApprovedLogin(Struct, frozen=True, kw_only=True):
    """A login that was let in: the name that it gives itself, and what it may."""

    machine: str
    is_browser: bool
    scopes: list[str]


class WaitingMachine(Struct, frozen=True, kw_only=True):
    """A machine that waits: it asks again by ``login``, and a person types ``code`` elsewhere."""

    login: str
    code: str
    expires_in: int


class People:
    """The people of all organisations. ``now`` gives the time."""

    def __init__(self, database: TeamDatabase, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database, self._now = database, now

    # who comes in -----------------------------------------------------------------------------------------------------

    def first_code(self, organisation: str) -> str | None:
        """Return a code that makes the first admin, in place of any before it; None once there is one."""
        with self._database.of(WAITING) as rows:
            without = [each for (each,) in rows.execute("select organisations_without_admin()").fetchall()]
            is_first = not one(rows.execute("select has_organisation()"))[0]
        if is_first:
            return self.found(organisation)
        if not without:
            return None
        with self._database.of(without[0]) as rows:
            rows.execute("delete from invite where tenant = %s and role = %s", (without[0], TeamRole.ADMIN))
            return self._invite(rows, without[0], TeamRole.ADMIN)

    def found(self, organisation: str) -> str:
        """Make an organisation, and return a code that makes its first admin."""
        tenant = codes.new_tenant()
        with self._database.of(tenant) as rows:
            rows.execute("insert into organisation values (%s, %s, %s)", (tenant, organisation, self._now()))
            return self._invite(rows, tenant, TeamRole.ADMIN)

    def invite(self, caller: Caller, role: TeamRole) -> str:
        """Return a code by which one person comes in."""
        with self._database.of(caller.tenant) as rows:
            self._note(rows, caller.tenant, caller.person, "invite", role)
            return self._invite(rows, caller.tenant, role, caller.person)

    def join(self, code: str, name: str, machine: str, secret: str = "") -> LetIn:
        """Make a person of someone with a code, which is good once. Raises Refused.

        Who comes again with the secret of the first time gets the same answer: the line may have broken before it came.
        """
        invite = codes.invite_of(code)
        if invite is None:
            raise Refused(401, "code_unknown", "This code is not good, or was used.")
        check_name(name)
        with self._database.of(invite.tenant) as rows:
            of = (invite.tenant, codes.hashed(invite.secret))
            row = rows.execute(
                "select role, person from invite where tenant = %s and hash = %s and expires > %s for update",
                (*of, self._now()),
            ).fetchone()
            if row is not None and row[1] is not None:
                if (again := self._again(rows, invite.tenant, row[1], secret)) is not None:
                    return again
                row = None
            if row is None:
                raise Refused(401, "code_unknown", "This code is not good, or was used.")
            person = codes.new_tenant()
            rows.execute("update invite set person = %s where tenant = %s and hash = %s", (person, *of))
            made = rows.execute(
                "insert into person (tenant, id, name, role, created) values (%s, %s, %s, %s, %s)"
                " on conflict (tenant, name) do nothing",
                (invite.tenant, person, name.strip(), row[0], self._now()),
            )
            if made.rowcount == 0:
                raise Refused(409, "name_taken", "Somebody of this organisation has this name.")
            self._note(rows, invite.tenant, person, "join", row[0])
            return self._let_in(rows, self._token(invite.tenant, secret), person, machine)

    def wait(self, machine: str, scopes: Sequence[str] | None = None) -> WaitingMachine:
        """Note a machine that wants to be let in by a person who is in already. ``scopes``: those of a browser."""
        login, code = codes.new_secret(), codes.new_typed_code()
        with self._database.of(WAITING) as rows:
            rows.execute("delete from login where tenant = %s and expires <= %s", (WAITING, self._now()))
            rows.execute(
                "insert into login (tenant, hash, code, machine, scopes, expires) values (%s, %s, %s, %s, %s, %s)",
                (
                    WAITING,
                    codes.hashed(login),
                    code,
                    _seen(machine),
                    scopes and [*scopes],
                    self._now() + timedelta(seconds=LOGIN_S),
                ),
            )
        return WaitingMachine(login=login, code=code, expires_in=LOGIN_S)

    def approve(self, caller: Caller, code: str, *, steers: bool = False) -> ApprovedLogin:
        """Let a machine or a browser in that waits. Raises Refused. ``steers``: it is a browser, and may steer."""
        with self._database.of(WAITING) as rows:
            of, given = (caller.tenant, caller.person), [*BROWSER, STEER] if steers else [*BROWSER]
            row = rows.execute(
                "update login set for_tenant = %s, for_person = %s,"
                " scopes = case when scopes is null then null else %s::text[] end"
                " where tenant = %s and code = %s and expires > %s and (scopes is not null or not %s)"
                " and (for_person is null or (for_tenant, for_person) = (%s, %s)) returning machine, scopes is null",
                (*of, given, WAITING, codes.typed_code(code), self._now(), steers, *of),
            ).fetchone()
        if row is None:
            raise Refused(404, "code_unknown", f"No {'browser' if steers else 'machine'} waits with this code.")
        with self._database.of(caller.tenant) as rows:
            self._note(rows, caller.tenant, caller.person, "approve", "machine" if row[1] else " ".join(given))
        is_browser = not row[1]
        return ApprovedLogin(
            machine=str(row[0]), is_browser=is_browser, scopes=given if is_browser else SCOPES[caller.role]
        )

    def come_in(self, login: str, secret: str = "") -> LetIn | None:
        """Let a machine in that was approved; None while it waits. Raises Refused. ``secret``: as in ``join``."""
        with self._database.of(WAITING) as rows:
            of = (WAITING, codes.hashed(login))
            row = rows.execute(
                "select for_tenant, for_person, machine, token, scopes from login"
                " where tenant = %s and hash = %s and expires > %s for update", (*of, self._now()),
            ).fetchone()  # fmt: skip
            if row is None:
                raise Refused(401, "login_unknown", "This login is over. Begin it again.")
            tenant, person, machine, before, scopes = row
            if person is None:
                return None
            token = self._token(tenant, secret)
            if before not in (None, token.id):
                raise Refused(401, "login_unknown", "This login is over. Begin it again.")
            # From here on it is for this token alone, also if this is cut before the token is made.
            rows.execute("update login set token = %s where tenant = %s and hash = %s", (token.id, *of))
        with self._database.of(tenant) as rows:
            return self._let_in(rows, token, person, machine, scopes)

    def caller(self, token: str) -> Caller:
        """Return who asks with a token. Raises Refused, the same for whatever is wrong."""
        found = codes.token_of(token) or codes.new_token(0)
        with self._database.of(found.tenant) as rows:
            row = rows.execute(
                "select t.hash, t.expires, t.scopes, t.repositories, t.used, p.id, p.name, p.role from token t"
                " join person p on p.tenant = t.tenant and p.id = t.person where t.tenant = %s and t.id = %s",
                (found.tenant, found.id),
            ).fetchone()
            kept = row[0] if row is not None else codes.hashed("")
            if not codes.is_secret_of(found.secret, bytes(kept)) or row is None or row[1] <= self._now():
                raise Refused(401, "not_logged_in", "This needs a login.")
            today = self._now().date()
            if row[4] != today:
                rows.execute(
                    "update token set used = %s where tenant = %s and id = %s", (today, found.tenant, found.id)
                )
        repositories = None if row[3] is None else frozenset(row[3])
        role = TeamRole(row[7])
        return Caller(
            tenant=found.tenant, person=row[5], name=row[6], role=role, token=found.id,
            scopes=frozenset(row[2]) & MAY[role], repositories=repositories,
            is_whole=row[2] == SCOPES[TeamRole.ADMIN] and repositories is None,
        )  # fmt: skip

    def leave_machine(self, caller: Caller) -> None:
        """Make the caller's token worthless."""
        with self._database.of(caller.tenant) as rows:
            rows.execute("delete from token where tenant = %s and id = %s", (caller.tenant, caller.token))
            self._note(rows, caller.tenant, caller.person, "logout", "")
        forget_waiting(self._database, caller.token)

    # who is in --------------------------------------------------------------------------------------------------------

    def everyone(self, caller: Caller) -> list[Person]:
        """The people of the caller's organisation, by name."""
        with self._database.of(caller.tenant) as rows:
            found = rows.execute(
                "select name, role, created from person where tenant = %s order by name", (caller.tenant,)
            ).fetchall()
        return [Person(name=name, role=TeamRole(role), created=created) for name, role, created in found]

    def organisation(self, caller: Caller) -> str:
        """The name of the caller's organisation."""
        with self._database.of(caller.tenant) as rows:
            return str(one(rows.execute("select name from organisation where tenant = %s", (caller.tenant,)))[0])

    def set_role(self, caller: Caller, name: str, role: TeamRole) -> None:
        """Give a person another role. Raises Refused for nobody, and for the last admin."""
        with self._database.of(caller.tenant) as rows:
            person = self._person(rows, caller.tenant, name)
            rows.execute("update person set role = %s where tenant = %s and id = %s", (role, caller.tenant, person))
            self._keep_an_admin(rows, caller.tenant)
            if role != TeamRole.ADMIN:
                self._end_invitations(rows, caller.tenant, person)
            self._note(rows, caller.tenant, caller.person, "role", f"{person:x} {role}")

    def put_out(self, caller: Caller, name: str) -> int:
        """Take a person out with all that they sent; return of how many sessions. Their tokens end at once.

        Raises Refused as ``set_role`` does.
        """
        with self._database.of(caller.tenant) as rows:
            return self._erase(rows, caller, self._person(rows, caller.tenant, name), "put_out")

    def leave(self, caller: Caller) -> int:
        """Take the caller out as ``put_out`` does. Raises Refused for the last admin."""
        with self._database.of(caller.tenant) as rows:
            return self._erase(rows, caller, self._person(rows, caller.tenant, caller.name), "leave")

    def in_place_of(self, caller: Caller, name: str) -> Caller:
        """Return a person as whom an admin may read. Raises Refused for who is none, and for nobody."""
        if "admin" not in caller.scopes:
            raise Refused(403, "not_allowed", "Only an admin reads all that others sent.")
        with self._database.of(caller.tenant) as rows:
            return replace(caller, person=person_called(rows, caller.tenant, name))

    def note_export(self, caller: Caller, whose: Caller) -> None:
        """Note that an admin reads all that a person sent."""
        with self._database.of(caller.tenant) as rows:
            self._note(rows, caller.tenant, caller.person, "export", f"{whose.person:x}")

    def _end_invitations(self, rows: Cursor[Any], tenant: int, maker: int) -> None:
        """Make invitations worthless that nobody used yet, of one who may not make any more."""
        rows.execute("delete from invite where tenant = %s and maker = %s and person is null", (tenant, maker))

    def _erase(self, rows: Cursor[Any], caller: Caller, person: int, action: str) -> int:
        self._end_invitations(rows, caller.tenant, person)
        count = erase_person(rows, caller.tenant, person)
        self._keep_an_admin(rows, caller.tenant)
        self._note(rows, caller.tenant, caller.person, action, f"{person:x}")
        return count

    def _person(self, rows: Cursor[Any], tenant: int, name: str) -> int:
        # The organisation's row is the lock: two admins who put each other out do it one after the other.
        rows.execute("select from organisation where tenant = %s for update", (tenant,))
        return person_called(rows, tenant, name)

    def _keep_an_admin(self, rows: Cursor[Any], tenant: int) -> None:
        counted = rows.execute("select count(*) from person where tenant = %s and role = %s", (tenant, TeamRole.ADMIN))
        if one(counted)[0] == 0:
            raise Refused(409, "last_admin", "The last admin of an organisation stays. Make another one first.")

    def _invite(self, rows: Cursor[Any], tenant: int, role: TeamRole, maker: int | None = None) -> str:
        invite, now = codes.new_invite(tenant), self._now()
        rows.execute(
            "insert into invite (tenant, hash, role, created, expires, maker) values (%s, %s, %s, %s, %s, %s)",
            (tenant, codes.hashed(invite.secret), role, now, now + timedelta(days=INVITE_DAYS), maker),
        )
        return str(invite)

    def _token(self, tenant: int, secret: str) -> codes.LoginToken:
        token = codes.token_with(tenant, secret) if secret else codes.new_token(tenant)
        if token is None:
            raise Refused(400, "request_wrong", "This is no secret of a machine.")
        return token

    def _let_in(
        self, rows: Cursor[Any], token: codes.LoginToken, person: int, machine: str, scopes: list[str] | None = None
    ) -> LetIn:
        """Make a token, or find it made by a request that came twice. ``scopes``: of a browser."""
        tenant, now = token.tenant, self._now()
        ends = now + timedelta(days=TOKEN_DAYS if scopes is None else BROWSER_DAYS)
        made = rows.execute(
            "insert into token (tenant, id, person, hash, name, scopes, created, expires)"
            " values (%s, %s, %s, %s, %s, %s, %s, %s) on conflict do nothing",
            (tenant, token.id, person, codes.hashed(token.secret), _seen(machine), scopes or SCOPES[TeamRole.ADMIN],
             now, ends),
        )  # fmt: skip
        if made.rowcount == 0:
            if (again := self._again(rows, tenant, person, token.secret)) is None:
                raise Refused(400, "request_wrong", "This secret was used before.")
            return again
        self._note(rows, tenant, person, "login", token.id)
        return self._told(rows, tenant, person, token)

    def _again(self, rows: Cursor[Any], tenant: int, person: int, secret: str) -> LetIn | None:
        """The answer that was given to a machine with this secret; None if there was none, or it has ended."""
        token = codes.token_with(tenant, secret)
        if token is None:
            return None
        row = rows.execute(
            "select hash from token where tenant = %s and id = %s and person = %s", (tenant, token.id, person)
        ).fetchone()
        if row is None or not codes.is_secret_of(token.secret, bytes(row[0])):
            return None
        return self._told(rows, tenant, person, token)

    def _told(self, rows: Cursor[Any], tenant: int, person: int, token: codes.LoginToken) -> LetIn:
        row = rows.execute(
            "select p.name, p.role, o.name from person p join organisation o on o.tenant = p.tenant"
            " where p.tenant = %s and p.id = %s",
            (tenant, person),
        ).fetchone()
        if row is None:
            raise Refused(401, "login_unknown", "This login is over. Begin it again.")
        return LetIn(token=str(token), organisation=row[2], name=row[0], role=TeamRole(row[1]))

    def _note(self, rows: Cursor[Any], tenant: int, person: int | None, action: str, what: str) -> None:
        note(rows, tenant, person, action, what, self._now())


def forget_waiting(database: TeamDatabase, token: str) -> None:
    """Forget how a machine came in whose token ended: a request that comes late must not make it again."""
    with database.of(WAITING) as rows:
        rows.execute("delete from login where tenant = %s and token = %s", (WAITING, token))


def _seen(name: str) -> str:
    """The name that a machine gives itself, as it can be kept and shown."""
    return "".join(each if each.isprintable() else " " for each in name[:NAME_CHARS_MAX]).strip()


def check_name(name: str) -> None:
    """Raise Refused for what is no name of a person or a login."""
    if not name.strip() or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise Refused(400, "name_unusable", f"A name has 1 to {NAME_CHARS_MAX} characters that can be seen.")


def person_called(rows: Cursor[Any], tenant: int, name: str) -> int:
    """Return the person of an organisation with this name. Raises Refused for nobody."""
    found = None
    # A column cannot hold this, so nobody has it.
    if "\0" not in name:
        found = rows.execute("select id from person where tenant = %s and name = %s", (tenant, name)).fetchone()
    if found is None:
        raise Refused(404, "person_unknown", f"Nobody here is called {name!r:.80}.")
    return int(found[0])
