"""The server's answers over HTTP, under ``/v1``: JSON in and out, frames where history goes.

Every request but the few that let someone in has ``Authorization: Bearer`` and a token. An error is an object with its
kind and a sentence, as the command line's are. What is not there and what is not the caller's are answered alike.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

from backstory import __version__
from backstory.errors import DatabaseUnusable
from backstory.exchange.json_lines import Uid
from backstory.server import shelves
from backstory.server.boards import BOARD_BYTES_MAX, Boards
from backstory.server.bodies import Bodies, announced, body
from backstory.server.deriving import Deriving
from backstory.server.door import BrowserNames
from backstory.server.kept_sessions import BYTES_MAX, KeptSessions
from backstory.server.limits import Limits
from backstory.server.live_runs import LIVE_BYTES_MAX, LivePart
from backstory.server.live_view import LiveViews, OneLive, drawn
from backstory.server.logins import Logins
from backstory.server.offers import ShelfOffers
from backstory.server.pages import TeamAnswers, TeamPages
from backstory.server.people import STEER, Caller, People
from backstory.server.reading import TeamFilter, TeamList, TeamReading
from backstory.server.refusals import Refused
from backstory.server.removals import Removals
from backstory.server.request_bodies import (
    Approve,
    ComeIn,
    Join,
    Named,
    NewInvite,
    NewRole,
    NewToken,
    SentBoard,
    Wait,
    WantedBackfill,
    WantedFrames,
    WantedState,
)
from backstory.server.searching import TeamSearch, TeamSearching
from backstory.server.session_answers import OneSession, SessionAnswers, WantedEntries
from backstory.server.shelves import Shelves, SyncWord
from backstory.server.steering import Steer, TeamSteering
from backstory.server.team_reports import TeamReports, WantedParts
from backstory.sync.remote import CLIENT_TOO_OLD, PROTOCOL, PROTOCOL_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from backstory.server.database import TeamDatabase

BODY_BYTES_MAX = 64 * 1024
"""The longest body of a request that sends no history."""
FRAMES_BYTES_MAX = shelves.BYTES_MAX
RETRY_S = 5
FOR_ANY = ("/v1/health", "/v1/ready")
"""Addresses that answer a client of any age."""
PROTOCOL_DIGITS_MAX = 9
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", PROTOCOL_HEADER: str(PROTOCOL)}
PROTOCOL_LEAST = 1
"""The oldest client that is answered."""
MACHINE = "Backstory-Machine"
"""The header with the id of the machine that asks."""
DERIVING, KEPT, REPORTS = "deriving", "kept", "reports"
"""The folders for files of jobs, for sessions that are read and for reports, in that of sessions."""
WHOLE, ANY = "whole", ""
"""The rights that a machine's login has, and what every token may."""
Body = TypeVar("Body", bound=Struct)


class Api:
    """The routes of a server. ``folder``: for sessions that are read, ``kept_bytes`` of each organisation."""

    def __init__(
        self, database: TeamDatabase, folder: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC),
        limits: Limits | None = None, kept_bytes: int = BYTES_MAX, names: BrowserNames | None = None,
    ) -> None:  # fmt: skip
        self._database, self._limits = database, limits or Limits()
        self.deriving, self.kept = (
            Deriving(database, folder / DERIVING, now), KeptSessions(database, folder / KEPT, kept_bytes, now),
        )  # fmt: skip
        self.logins = Logins(database, now)
        self._answers, self.reports = SessionAnswers(database, self.kept), TeamReports(database, folder / REPORTS)
        self.people, self._shelves, self._reading = People(database, now), Shelves(database, now), TeamReading(database)
        self._searching = TeamSearching(database, self._reading)
        self._bodies, self._offered = Bodies(), ShelfOffers(database)
        self._removals, self._boards_sent = Removals(database, now), Boards(database, now)
        self._steering, self.views = TeamSteering(database, now), LiveViews(database, self.kept, drawn(), now)
        pages = TeamAnswers(
            self.people,
            self._reading,
            self._answers,
            self.views,
            self._searching,
            self.reports,
            now,
            folder,
            self._steering,
        )
        self._pages = TeamPages(pages, self._limits, names or BrowserNames(is_encrypted=False))

    def app(self) -> ASGIApp:
        """The application: the answers, and at every other address the pages."""
        routes = [*self._routes_of_people(), *self._routes_of_history(), *self._while_it_runs()]
        answers, pages, named = Starlette(routes=routes), self._pages.app(), {each.path for each in routes}

        async def answered(scope: Scope, receive: Receive, send: Send) -> None:
            is_page = scope["type"] == "http" and scope["path"] not in named and not scope["path"].startswith("/v1/")
            await (pages if is_page else answers)(scope, receive, send)

        return answered

    def _routes_of_people(self) -> list[Route]:
        return [
            Route("/v1/health", self._open(self._health), methods=["GET"]),
            Route("/v1/ready", self._open(self._ready), methods=["GET"]),
            Route("/v1/join", self._open(self._join), methods=["POST"]),
            Route("/v1/login", self._open(self._wait), methods=["POST"]),
            Route("/v1/login/token", self._open(self._come_in), methods=["POST"]),
            Route("/v1/login/approve", self._closed(WHOLE, self._approve), methods=["POST"]),
            Route("/v1/logout", self._closed(ANY, self._logout), methods=["POST"]),
            Route("/v1/logins", self._closed(WHOLE, self._logins), methods=["GET"]),
            Route("/v1/logins", self._closed(WHOLE, self._new_login), methods=["POST"]),
            Route("/v1/logins/{login}", self._closed(WHOLE, self._end_login), methods=["DELETE"]),
            Route("/v1/me", self._closed(ANY, self._me), methods=["GET"]),
            Route("/v1/me", self._closed(WHOLE, self._leave), methods=["DELETE"]),
            Route("/v1/people", self._closed("read", self._people), methods=["GET"]),
            Route("/v1/people/{name}", self._closed("admin", self._set_role), methods=["PATCH"]),
            Route("/v1/people/{name}", self._closed("admin", self._put_out), methods=["DELETE"]),
            Route("/v1/invites", self._closed("admin", self._invite), methods=["POST"]),
        ]

    def _routes_of_history(self) -> list[Route]:
        return [
            Route("/v1/sync", self._closed("sync", self._sync, FRAMES_BYTES_MAX), methods=["POST"]),
            Route("/v1/state", self._closed("sync", self._state), methods=["POST"]),
            Route("/v1/changes", self._closed(WHOLE, self._changes), methods=["GET"]),
            Route("/v1/machines", self._closed(ANY, self._machines), methods=["GET"]),
            Route("/v1/machines/{machine}/sessions", self._closed("read", self._offers), methods=["GET"]),
            Route("/v1/machines/{machine}/frames", self._closed("read", self._frames), methods=["POST"]),
            Route("/v1/machines/{machine}/sessions/{uid}", self._closed("sync", self._take_back), methods=["DELETE"]),
            Route("/v1/removals", self._closed("read", self._removed), methods=["POST"]),
            Route("/v1/removals/{removal}", self._closed("read", self._removal), methods=["GET"]),
            Route("/v1/machines/{machine}", self._closed(WHOLE, self._remove_machine), methods=["DELETE"]),
            Route("/v1/boards", self._closed("sync", self._put_board, BOARD_BYTES_MAX), methods=["PUT"]),
            Route("/v1/boards", self._closed("read", self._boards), methods=["GET"]),
            Route("/v1/sessions", self._closed("read", self._sessions), methods=["GET"]),
            Route("/v1/search", self._closed("search", self._search), methods=["GET"]),
            Route("/v1/sessions/count", self._closed("read", self._count), methods=["GET"]),
            Route("/v1/sessions/{uid}", self._closed("read", self._session), methods=["GET"]),
            Route("/v1/sessions/{uid}", self._closed("sync", self._remove), methods=["DELETE"]),
            Route("/v1/sessions/{uid}/entries", self._closed("read", self._entries), methods=["GET"]),
            Route("/v1/sessions", self._closed(WHOLE, self._remove_all), methods=["DELETE"]),
            Route("/v1/sessions/{uid}/parts", self._closed("read", self._parts_of_one), methods=["POST"]),
            Route("/v1/session-parts", self._closed("read", self._session_parts), methods=["POST"]),
            Route("/v1/resolve", self._closed("read", self._resolve), methods=["GET"]),
            Route("/v1/change-token", self._closed("read", self._change_token), methods=["GET"]),
            Route("/v1/repositories", self._closed("read", self._repositories), methods=["GET"]),
            Route("/v1/analytics/backfill", self._closed("sync", self._backfill), methods=["POST"]),
        ]

    def _while_it_runs(self) -> list[Route]:
        return [
            Route("/v1/live", self._closed("sync", self._put_live, LIVE_BYTES_MAX), methods=["POST"]),
            Route("/v1/sessions/{uid}/live", self._closed("read", self._view), methods=["GET"]),
            Route("/v1/sessions/{uid}/steer", self._closed(STEER, self._steer), methods=["POST"]),
        ]

    # who comes in -----------------------------------------------------------------------------------------------------

    def _health(self, asked: ServerRequest) -> Any:
        return {"version": __version__, "protocol": PROTOCOL, "protocol_least": PROTOCOL_LEAST}

    def _ready(self, asked: ServerRequest) -> Any:
        with self._database.of(0) as rows:
            rows.execute("select 1")
        return {"version": __version__}

    def _join(self, asked: ServerRequest) -> Any:
        body = asked.body(Join)
        return self.people.join(body.code, body.name, body.machine, body.secret)

    def _wait(self, asked: ServerRequest) -> Any:
        return self.people.wait(asked.body(Wait).machine)

    def _come_in(self, asked: ServerRequest) -> Any:
        body = asked.body(ComeIn)
        found = self.people.come_in(body.login, body.secret)
        return {"waiting": True} if found is None else found

    def _approve(self, caller: Caller, asked: ServerRequest) -> Any:
        meant = asked.body(Approve)
        return self.people.approve(caller, meant.code, steers=meant.steer)

    def _logout(self, caller: Caller, asked: ServerRequest) -> Any:
        self.people.leave_machine(caller)
        return {}

    # who is in --------------------------------------------------------------------------------------------------------

    def _me(self, caller: Caller, asked: ServerRequest) -> Any:
        return {
            "organisation": self.people.organisation(caller), "name": caller.name, "role": caller.role,
            "scopes": sorted(caller.scopes), "state": self._database.state(),
        }  # fmt: skip

    def _logins(self, caller: Caller, asked: ServerRequest) -> Any:
        return {"logins": self.logins.everyone(caller)}

    def _new_login(self, caller: Caller, asked: ServerRequest) -> Any:
        new = asked.body(NewToken)
        return {"token": self.logins.make(caller, new.name, new.scopes, new.repositories, new.days)}

    def _end_login(self, caller: Caller, asked: ServerRequest) -> Any:
        self.logins.end(caller, asked.path["login"])
        return {}

    def _people(self, caller: Caller, asked: ServerRequest) -> Any:
        return {"people": self.people.everyone(caller)}

    def _set_role(self, caller: Caller, asked: ServerRequest) -> Any:
        self.people.set_role(caller, asked.path["name"], asked.body(NewRole).role)
        return {}

    def _put_out(self, caller: Caller, asked: ServerRequest) -> Any:
        erased = self.people.put_out(caller, asked.path["name"])
        self.kept.erase(caller.tenant)
        return {"erased_count": erased}

    def _leave(self, caller: Caller, asked: ServerRequest) -> Any:
        erased = self.people.leave(caller)
        self.kept.erase(caller.tenant, caller.person)
        return {"erased_count": erased}

    def _invite(self, caller: Caller, asked: ServerRequest) -> Any:
        return {"code": self.people.invite(caller, asked.body(NewInvite).role)}

    # history ----------------------------------------------------------------------------------------------------------

    def _sync(self, caller: Caller, asked: ServerRequest) -> Any:
        found = self._shelves.store(caller, asked.machine(), asked.data)
        for uid in {each.uid for each in found.confirmed if each.word == SyncWord.OK}:
            self.kept.erase(caller.tenant, caller.person, uid)
        return found

    def _put_live(self, caller: Caller, asked: ServerRequest) -> Any:
        return self._steering.tell(caller, asked.machine(), asked.body(LivePart))

    def _steer(self, caller: Caller, asked: ServerRequest) -> Any:
        return self._steering.send(caller, asked.uid(), asked.body(Steer))._asdict()

    def _view(self, caller: Caller, asked: ServerRequest) -> Response:
        return self.views.view(caller, asked.uid(), asked.asks(OneLive))

    def _state(self, caller: Caller, asked: ServerRequest) -> Any:
        wanted = asked.body(WantedState)
        found = self._shelves.state(caller, asked.machine(), wanted.uids, is_hashed=wanted.is_hashed)
        return {"sessions": found}

    def _changes(self, caller: Caller, asked: ServerRequest) -> Response:
        found = self._shelves.changes(caller, asked.machine(), asked.query.get("after", ""))
        said = {"Backstory-Upto": found.upto, "Backstory-Removals": str(found.removals),
                "Backstory-More": str(int(found.has_more))}  # fmt: skip
        return Response(found.data, media_type="application/octet-stream", headers=HEADERS | said)

    def _remove(self, caller: Caller, asked: ServerRequest) -> Any:
        _check_erases(caller)
        uid = asked.uid()
        removal = self._shelves.remove(caller, uid)
        self.kept.erase(caller.tenant, caller.person, uid)
        return {"removal": removal}

    def _sessions(self, caller: Caller, asked: ServerRequest) -> Any:
        return self._reading.sessions(caller, asked.asks(TeamList))

    def _search(self, caller: Caller, asked: ServerRequest) -> Any:
        return self._searching.search(caller, asked.asks(TeamSearch))

    def _count(self, caller: Caller, asked: ServerRequest) -> Any:
        return {"total": self._reading.count(caller, asked.asks(TeamFilter))}

    def _session(self, caller: Caller, asked: ServerRequest) -> Any:
        return self._answers.head(caller, asked.uid(), asked.asks(OneSession))

    def _entries(self, caller: Caller, asked: ServerRequest) -> Any:
        return self._answers.entries(caller, asked.uid(), asked.asks(WantedEntries))

    def _session_parts(self, caller: Caller, asked: ServerRequest) -> Response:
        return _packed(self.reports.page(caller, asked.body(WantedParts)))

    def _parts_of_one(self, caller: Caller, asked: ServerRequest) -> Response:
        return _packed(self.reports.one(caller, asked.uid(), asked.body(OneSession).person))

    def _resolve(self, caller: Caller, asked: ServerRequest) -> Any:
        found = self._reading.resolve(caller, asked.asks(Named).words)
        return {"uid": found[0]["uid"] if len(found) == 1 else None, "candidates": found}

    def _change_token(self, caller: Caller, asked: ServerRequest) -> Any:
        return {"token": self._reading.change_token(caller)}

    def _repositories(self, caller: Caller, asked: ServerRequest) -> Any:
        return {"repositories": self._reading.repositories(caller)}

    def _remove_all(self, caller: Caller, asked: ServerRequest) -> Any:
        uids = self._shelves.remove_all(caller)
        self.kept.erase(caller.tenant, caller.person)
        return {"uids": uids}

    def _machines(self, caller: Caller, asked: ServerRequest) -> Any:
        if (whose := self._whose(caller, asked)) is not caller:
            self.people.note_export(caller, whose)
        found, removals = self._shelves.machines(whose)
        return {"machines": found, "removals": removals}

    def _offers(self, caller: Caller, asked: ServerRequest) -> Any:
        if (whose := self._whose(caller, asked)) is not caller and not asked.query.get("after"):
            self.people.note_export(caller, whose)
        return self._offered.offers(whose, asked.named_machine(), asked.uid_after())

    def _frames(self, caller: Caller, asked: ServerRequest) -> Response:
        found = self._offered.frames(self._whose(caller, asked), asked.named_machine(), asked.body(WantedFrames).wants)
        return Response(found, media_type="application/octet-stream", headers=HEADERS)

    def _whose(self, caller: Caller, asked: ServerRequest) -> Caller:
        """The person whose machines it is about: the caller, or whom an admin names. Raises Refused."""
        name = asked.query.get("person")
        return caller if name is None else self.people.in_place_of(caller, name)

    def _put_board(self, caller: Caller, asked: ServerRequest) -> Any:
        sent = asked.body(SentBoard)
        self._boards_sent.put(caller, asked.machine(), sent.repository, sent.items)
        return {}

    def _boards(self, caller: Caller, asked: ServerRequest) -> Any:
        return {"items": self._boards_sent.of_others(caller, asked.machine())}

    def _take_back(self, caller: Caller, asked: ServerRequest) -> Any:
        _check_erases(caller)
        self._removals.take_back(caller, asked.named_machine(), asked.uid())
        self.kept.erase(caller.tenant, caller.person, asked.uid())
        return {}

    def _removed(self, caller: Caller, asked: ServerRequest) -> Any:
        return {"removed": self._removals.among(caller, asked.body(WantedState).uids)}

    def _removal(self, caller: Caller, asked: ServerRequest) -> Any:
        return self._removals.removal(caller, asked.path["removal"])

    def _remove_machine(self, caller: Caller, asked: ServerRequest) -> Any:
        count = self._shelves.remove_machine(caller, asked.named_machine())
        self.kept.erase(caller.tenant, caller.person)
        return {"session_count": count}

    def _backfill(self, caller: Caller, asked: ServerRequest) -> Any:
        return {"sessions_queued": self.deriving.backfill(caller, asked.body(WantedBackfill).session_id)}

    # every request ----------------------------------------------------------------------------------------------------

    def _open(self, answer: Callable[[ServerRequest], Any]) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """An address for whoever asks."""

        def answered(asked: ServerRequest) -> Any:
            self._limits.count(asked.address)
            return answer(asked)

        async def short(request: Request) -> Any:
            return await run_in_threadpool(answered, ServerRequest(request, await body(request, BODY_BYTES_MAX)))

        return self._answering(short)

    def _closed(
        self, scope: str, answer: Callable[[Caller, ServerRequest], Any], bytes_max: int = BODY_BYTES_MAX
    ) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """An address for people of an organisation whose token has this scope."""

        def answered(asked: ServerRequest) -> Any:
            return answer(self._caller(scope, asked), asked)

        async def short(request: Request) -> Any:
            return await run_in_threadpool(answered, ServerRequest(request, await body(request, bytes_max)))

        def answered_again(asked: ServerRequest) -> Any:
            return answer(self._allowed(scope, asked), asked)

        async def long(request: Request) -> Any:
            # Who may not send history has none of it read.
            caller = await run_in_threadpool(self._caller, scope, ServerRequest(request, b""))
            async with self._bodies.room((caller.tenant, caller.person), announced(request, bytes_max)):
                asked = ServerRequest(request, await body(request, bytes_max))
                async with self._bodies.working:
                    # While it was read the token may have ended.
                    return await run_in_threadpool(answered_again, asked)

        return self._answering(long if bytes_max > BODY_BYTES_MAX else short)

    def _caller(self, scope: str, asked: ServerRequest) -> Caller:
        """Return who asks. Raises Refused."""
        self._limits.count(asked.address, 0)
        try:
            caller = self.people.caller(asked.token)
        except Refused:
            # Only what fails counts here: a token is not to be guessed.
            self._limits.count(asked.address)
            raise
        self._limits.count(caller.token)
        return self._checked(scope, caller)

    def _allowed(self, scope: str, asked: ServerRequest) -> Caller:
        """Return who asks, who was counted before. Raises Refused."""
        return self._checked(scope, self.people.caller(asked.token))

    def _checked(self, scope: str, caller: Caller) -> Caller:
        if scope == WHOLE and not caller.is_whole:
            raise Refused(403, "not_allowed", "This needs the login of a machine; your token has fewer rights.")
        if scope not in (WHOLE, ANY) and scope not in caller.scopes:
            raise Refused(403, "not_allowed", f"This needs the right to {scope}, which your token does not have.")
        return caller

    def _answering(
        self, answer: Callable[[Request], Coroutine[Any, Any, Any]]
    ) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def answered(request: Request) -> Response:
            try:
                if request.url.path not in FOR_ANY:
                    _check_protocol(request)
                found = await answer(request)
            except Refused as refused:
                retry_s = RETRY_S if refused.status == 503 else None
                return _refusal(refused.status, refused.kind, str(refused), retry_s)
            except DatabaseUnusable:
                return _refusal(503, "try_again", "The server's database cannot be reached now.", RETRY_S)
            return found if isinstance(found, Response) else _json(200, found)

        return answered


class ServerRequest:
    """A request, read: who sent it from where, and what it says."""

    def __init__(self, request: Request, body: bytes) -> None:
        self.data, self.query, self._headers = body, request.query_params, request.headers
        self.path: dict[str, str] = request.path_params
        self.address = request.client.host if request.client is not None else ""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        self.token = token.strip() if scheme.lower() == "bearer" else ""

    def machine(self) -> str:
        """The id of the machine that asks, whose shelf it is about. Raises Refused."""
        try:
            return msgspec.convert(self._headers.get(MACHINE), Uid)
        except msgspec.ValidationError as refused:
            raise Refused(
                400, "machine_missing", f"The request does not say, in {MACHINE}, which machine asks."
            ) from refused

    def named_machine(self) -> str:
        """The id of a machine in its address. Raises Refused, as for one that is not there."""
        try:
            return msgspec.convert(self.path["machine"], Uid)
        except msgspec.ValidationError as refused:
            raise Refused(404, "machine_unknown", "You have no such machine here.") from refused

    def uid_after(self) -> str:
        """The uid behind which an answer is to begin; '' for the beginning. Raises Refused."""
        try:
            return msgspec.convert(self.query["after"], Uid) if self.query.get("after") else ""
        except msgspec.ValidationError as refused:
            raise Refused(400, "request_wrong", "'after' is no uid.") from refused

    def asks(self, of: type[Body]) -> Body:
        """The fields of its query. Raises Refused."""
        try:
            if any("\0" in each for each in self.query.values()):
                raise ValueError("no field has a NUL")
            return msgspec.convert(dict(self.query), type=of, strict=False)
        except ValueError as refused:
            raise Refused(400, "request_wrong", f"The question is not understood: {refused}") from refused

    def uid(self) -> str:
        """The uid in its address. Raises Refused, as for a session that is not there."""
        try:
            return msgspec.convert(self.path["uid"], Uid)
        except msgspec.ValidationError as refused:
            raise Refused(404, "session_unknown", "You have no such session here.") from refused

    def body(self, of: type[Body]) -> Body:
        """Its content, read. Raises Refused."""
        try:
            return msgspec.json.decode(self.data or b"{}", type=of)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as refused:
            raise Refused(400, "request_wrong", f"The request is not understood: {refused}") from refused


def _check_protocol(request: Request) -> None:
    """Refuse a client that is too old. One that says no number is somebody's own program."""
    said = request.headers.get(PROTOCOL_HEADER, str(PROTOCOL))
    if not said.isascii() or not said.isdigit() or len(said) > PROTOCOL_DIGITS_MAX:
        raise Refused(400, "request_wrong", f"{PROTOCOL_HEADER} is no number.")
    if int(said) < PROTOCOL_LEAST:
        raise Refused(426, CLIENT_TOO_OLD, "This backstory is too old for the server.")


def _check_erases(caller: Caller) -> None:
    """Raise Refused for a token that may not erase a session."""
    if caller.repositories is not None:
        raise Refused(403, "not_allowed", "A token for some repositories erases nothing.")


def _packed(value: Any) -> Response:
    return Response(msgspec.msgpack.encode(value), media_type="application/octet-stream", headers=HEADERS)


def _json(status: int, value: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(
        msgspec.json.encode(value), status, media_type="application/json", headers=HEADERS | (headers or {})
    )


def _refusal(status: int, kind: str, message: str, retry_s: int | None = None) -> Response:
    headers = {} if retry_s is None else {"Retry-After": str(retry_s)}
    return _json(status, {"error": {"kind": kind, "message": message}}, headers)
