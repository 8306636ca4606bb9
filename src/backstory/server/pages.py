"""The pages of ``web`` over what a server has: mounted beside its answers, for people whom a code let in."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlencode
from zlib import crc32

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from backstory.bounds import duration
from backstory.derive.moments import OUTCOMES, when
from backstory.derive.naming import NO_PROMPT
from backstory.derive.pricing import Cost, CostKind
from backstory.errors import DatabaseUnusable, RecordNotFound
from backstory.exchange.json_lines import Uid
from backstory.server.bodies import body
from backstory.server.door import LOGIN, WAITING, Door, Doorbell, is_ours
from backstory.server.kept_sessions import is_whole
from backstory.server.people import LOGIN_S
from backstory.server.reading import TeamFilter, TeamList, unknown_session
from backstory.server.refusals import Refused
from backstory.server.session_answers import OneSession
from backstory.web.drawing import PageLinks
from backstory.web.kept import KeptAnswers
from backstory.web.listing import AFTER, ROWS, FormField, List, SessionRow, address
from backstory.web.markup import plain
from backstory.web.pages import ZIPPING, Pages
from backstory.web.sharing import TooLongToPrint
from backstory.web.source import A, OpenSession, PageRefused, RelatedSession, SessionCopy
from backstory.workspace import questions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from backstory.server.door import BrowserNames
    from backstory.server.jobs import ShelfPlace
    from backstory.server.limits import Limits
    from backstory.server.live_view import LiveViews
    from backstory.server.one_session import WholeSession
    from backstory.server.people import Caller, People
    from backstory.server.reading import TeamReading
    from backstory.server.session_answers import SessionAnswers
    from backstory.web.acting import PromptForm
    from backstory.web.finding import FoundPage
    from backstory.web.reporting import ReportPage
    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.workspace import Workspace

TOTALS_KEPT = 256
RECENT = timedelta(hours=1)
"""A session in which something happened so lately is followed on its page, and any that runs."""
FORM_BYTES_MAX = 64 * 1024
PERSON, MACHINE, COPY = "person", "machine", "~"
"""Parameters that name a copy of a session, and what parts its names from the uid in an address."""
KNOWN = ("agent", "repo", "branch", "grep", "since", "until")
"""The fields of the filter that a server's list has."""


class TeamAnswers(NamedTuple):
    """The parts of a server that its pages ask. ``folder``: of no paths that are typed."""

    people: People
    reading: TeamReading
    sessions: SessionAnswers
    views: LiveViews
    now: Callable[[], datetime]
    folder: Path


class TeamPages:
    """The pages, and the login to them."""

    def __init__(self, answers: TeamAnswers, limits: Limits, names: BrowserNames) -> None:
        self._answers, self._limits, self._names = answers, limits, names
        self._bell = Doorbell(answers.people, limits, names)
        totals: KeptAnswers[int] = KeptAnswers(TOTALS_KEPT)

        @contextmanager
        def source(request: Request) -> Iterator[TeamSource]:
            try:
                yield TeamSource(answers, request.state.caller, totals)
            except Refused as refused:
                raise PageRefused(refused.status, str(refused)) from refused
            except DatabaseUnusable as refused:
                raise PageRefused(503, "The server's database cannot be reached now.") from refused

        links = PageLinks(acts=False, of_team=True, searches=False, reports=False, compares=False)
        self._pages = Pages(source, links)

    def app(self) -> ASGIApp:
        """The application."""
        guarded = self._pages.guarded
        routes = [
            Route(LOGIN, guarded(self._login), methods=["GET"]),
            Route("/account", guarded(self._account), methods=["GET"]),
            Route("/logout", self._acting(self._logout), methods=["POST"]),
            Route("/s/{uid}/live", guarded(lambda source, request: source.live(request)), methods=["GET"]),
            *self._pages.routes(),
        ]
        pages = Starlette(routes=routes, middleware=[ZIPPING])
        return Door(pages, self._answers.people, self._limits, self._names)

    def _login(self, _: TeamSource, request: Request) -> Response:
        waits, answer = self._bell.wait(request)
        if waits is None:
            assert answer is not None
            return answer
        answer = self._pages.page("login.html", code=waits.code)
        self._names.put(answer, WAITING, str(waits), LOGIN_S, request)
        return answer

    def _account(self, source: TeamSource, request: Request) -> Response:
        caller = source.caller
        organisation = self._answers.people.organisation(caller)
        return self._pages.page(
            "account.html", person=plain(caller.name), organisation=plain(organisation), role=caller.role,
            scopes=sorted(caller.scopes), repositories=caller.among, csrf=request.state.csrf,
        )  # fmt: skip

    def _logout(self, request: Request, _: Mapping[str, str]) -> Response:
        return self._bell.leave(request)

    def _acting(self, act: Callable[[Request, Mapping[str, str]], Response]) -> Any:
        """Do what a form of one of our pages asks for; any other is refused."""

        async def answered(request: Request) -> Response:
            try:
                sent = parse_qs((await body(request, FORM_BYTES_MAX)).decode("utf-8", "replace"))
                fields = {name: values[0] for name, values in sent.items()}
                if not is_ours(request, fields.get("csrf", "")):
                    return PlainTextResponse("This form is of another login. Load the page again.", 403)
                return await run_in_threadpool(act, request, fields)
            except Refused as refused:
                return self._pages.refused(str(refused), refused.status)

        return answered


class TeamSource:
    """The history that a person of an organisation may see, as the source of pages."""

    def __init__(self, answers: TeamAnswers, caller: Caller, totals: KeptAnswers[int]) -> None:
        self.caller, self.user_home, self.now = caller, answers.folder, int(answers.now().timestamp() * 1_000)
        self._answers, self._totals, self._at = answers, totals, answers.now()

    def form(self, typed: Mapping[str, str], *, of_events: bool = False) -> list[FormField]:
        people = tuple(each.name for each in self._answers.people.everyone(self.caller))
        return [
            FormField(PERSON, "whose sessions", typed.get(PERSON, ""), people),
            *(FormField(each.name, each.hint, typed.get(each.name, ""), each.choices)
              for each in questions.fields() if each.name in KNOWN),
        ]  # fmt: skip

    def sessions(self, typed: Mapping[str, str]) -> List:
        asked, after = self._asked(typed), typed.get(AFTER) or None
        page = self._answers.reading.sessions(self.caller, TeamList(limit=ROWS, after=after, counts=False, **asked))
        total = None
        if after is None:
            caller, wanted = self.caller, TeamFilter(**asked)
            key = (caller.tenant, caller.repositories, wanted, self._answers.reading.change_token(caller))
            total = self._totals.get(key, (), lambda: self._answers.reading.count(caller, wanted))
        rows = tuple(row(each, self.now) for each in page["sessions"])
        kept = {name: value for name, value in typed.items() if value and name != AFTER}
        more = address("/sessions", {**kept, AFTER: page["end"]}) if page["has_more"] else ""
        return List(rows=rows, total=total, more=more)

    def stamp(self) -> str:
        return f"{crc32(self._answers.reading.change_token(self.caller).encode()):08x}"

    def state(self) -> tuple[str, str]:
        return "", ""

    def search(self, typed: Mapping[str, str]) -> FoundPage:
        raise PageRefused(404, "There is no such page here.")

    def report(self, name: str, typed: Mapping[str, str]) -> ReportPage | None:
        return None

    def prompt(self, session: ListedSession, typed: Mapping[str, str]) -> PromptForm | None:
        return None

    def read(self, request: Request, question: Callable[[OpenSession], A], *, last: int | None = None) -> A:
        copies, meant = self._found(request)
        listed, children = self._answers.sessions.family(self.caller, meant.place)
        name = self._name(meant.place, is_first=meant == copies[0][0])

        is_live = self._is_recent(listed) or self._answers.views.is_going(meant.place)
        answers, refusals = list[A](), list[Exception]()

        def asked(workspace: Workspace, located: LocatedSession) -> None:
            opened = OpenSession(
                workspace, located, (meant, is_whole(located)), name, self._copies(copies, meant),
                self._parent(listed, meant.place), tuple(self._coming(each, meant.place) for each in children),
                is_whole(located), is_live,
            )  # fmt: skip
            try:
                answers.append(question(opened))
            except (RecordNotFound, TooLongToPrint) as refused:
                # These say something of what was asked. Anything else is of the file that was read.
                refusals.append(refused)

        self._answers.sessions.asked(meant, asked, last)
        if refusals:
            raise refusals[-1]
        return answers[-1]

    def live(self, request: Request) -> Response:
        """Send a session as it grows."""
        copies, meant = self._found(request)
        said = next(said for session, said in copies if session == meant)
        wanted = OneSession(person=said[PERSON], machine=said[MACHINE])
        return self._answers.views.view(self.caller, meant.place.uid, wanted)

    # one session ------------------------------------------------------------------------------------------------------

    def _found(self, request: Request) -> tuple[list[tuple[WholeSession, dict[str, Any]]], WholeSession]:
        """The copies of the session that an address names, and the one that is meant. Raises Refused."""
        uid, _, copy = request.path_params["uid"].partition(COPY)
        copies = self._answers.sessions.copies(self.caller, self._uid(uid))
        meant = next(iter(_meant(copies, copy, request.query_params)), None)
        if meant is None:
            raise unknown_session()
        return copies, meant

    def _is_recent(self, listed: Mapping[str, Any]) -> bool:
        """True if somebody may be at work on a session now."""
        active = listed.get("last_active")
        return active is not None and self._at - datetime.fromisoformat(active) < RECENT

    def _uid(self, words: str) -> str:
        try:
            return msgspec.convert(words, Uid)
        except msgspec.ValidationError:
            found = self._answers.reading.resolve(self.caller, words)
        if len(found) > 1:
            raise Refused(404, "session_ambiguous", "Several sessions may be meant.")
        return str(found[0]["uid"])

    def _name(self, place: ShelfPlace, *, is_first: bool) -> str:
        return place.uid if is_first else f"{place.uid}{COPY}{place.person:x}{COPY}{place.machine}"

    def _copies(
        self, copies: list[tuple[WholeSession, dict[str, Any]]], meant: WholeSession
    ) -> tuple[SessionCopy, ...]:
        return tuple(
            SessionCopy(
                plain(said[PERSON]), said[MACHINE], session.events,
                f"/s/{self._name(session.place, is_first=session == copies[0][0])}", session == meant,
            )
            for session, said in copies
        )  # fmt: skip

    def _parent(self, listed: Mapping[str, Any], place: ShelfPlace) -> RelatedSession | None:
        uid = listed.get("parent_uid")
        if not uid:
            return None
        return RelatedSession(self._related(uid, place), uid[:12], plain(listed.get("relation") or "comes"))

    def _coming(self, child: Mapping[str, Any], place: ShelfPlace) -> ComingOne:
        title = child.get("title") or child["uid"]
        return ComingOne(self._related(child["uid"], place), child.get("relation"), child.get("native_id"), title)

    def _related(self, uid: str, place: ShelfPlace) -> str:
        """The name of a session of the same person and machine."""
        return self._name(place._replace(uid=uid), is_first=place.person == self.caller.person)

    # what is asked ----------------------------------------------------------------------------------------------------

    def _asked(self, typed: Mapping[str, str]) -> dict[str, Any]:
        """The conditions of a list as they were typed. Raises PageRefused for one that the server does not know."""
        for each in questions.fields():
            if typed.get(each.name) and each.name not in KNOWN:
                raise PageRefused(400, f"The server's list cannot be chosen by {each.name!r}.")
        read = questions.read(typed, now=self._at.astimezone().replace(tzinfo=None))
        times = {name: datetime.fromtimestamp(read[name] / 1_000, self._at.tzinfo) for name in ("since", "until")
                 if name in read}  # fmt: skip
        if any("\0" in each for each in typed.values()):
            raise PageRefused(400, "No field has a NUL.")
        return read | times | ({PERSON: typed[PERSON]} if typed.get(PERSON) else {})


class ComingOne(NamedTuple):
    """A session that comes from another one of the same person."""

    uid: str
    relation: str | None
    native_id: str | None
    shown_title: str


def _meant(
    copies: list[tuple[WholeSession, dict[str, Any]]], copy: str, asked: Mapping[str, str]
) -> Iterator[WholeSession]:
    """The copies that an address may mean, the one that is shown unasked first."""
    for session, said in copies:
        own = f"{session.place.person:x}{COPY}{session.place.machine}"
        if copy in ("", own) and all(asked.get(each) in (None, "", said[each]) for each in (PERSON, MACHINE)):
            yield session


def row(session: Mapping[str, Any], now: int) -> SessionRow:
    """A session in the list, of what lists have as JSON."""
    uid, state = session["uid"], session.get("outcome") or ""
    active = session.get("last_active")
    repository, folder = session.get("repository"), session.get("project") or ""
    # All but the host: two people may mean repositories of one name.
    project = "/".join(repository.split("/")[-2:]) if repository else folder.rpartition("/")[2]
    cost = Cost(
        kind=CostKind(session.get("cost_kind") or CostKind.UNKNOWN),
        **{name: session.get(key) for name, key in (("usd", "cost_usd"), ("low_usd",) * 2, ("high_usd",) * 2)},
    )
    return SessionRow(
        uid=uid,
        where=f"/s/{uid}?{urlencode({PERSON: session[PERSON], MACHINE: session[MACHINE]})}",
        heading=plain(session.get("title") or "") or NO_PROMPT,
        mark=OUTCOMES.get(state, ("", ""))[0],
        state=plain(state),
        agents=plain(", ".join(session.get("agents") or ())),
        project=plain(project),
        branch=plain(session.get("branch") or ""),
        turns=session.get("turn_count") or 0,
        active=when(int(datetime.fromisoformat(active).timestamp() * 1_000), now) if active else "",
        lasted=duration(session.get("duration_ms")),
        cost=cost.known,
        label=session["label"],
        person=plain(session[PERSON]),
    )
