"""The pages of ``web`` over what a server has: mounted beside its answers, for people whom a code let in."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime, timedelta
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, quote, urlencode
from zlib import crc32

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from backstory.bounds import counted, duration
from backstory.chronicle.tabs import TABS
from backstory.derive.moments import OUTCOMES, RUNNING, when
from backstory.derive.naming import NO_PROMPT
from backstory.derive.pricing import Cost, CostKind
from backstory.errors import DatabaseUnusable, RecordNotFound
from backstory.exchange.json_lines import Uid
from backstory.server.bodies import body
from backstory.server.door import LOGIN, UNREACHED, WAITING, Door, Doorbell, is_ours
from backstory.server.kept_sessions import is_whole
from backstory.server.live_view import COPY
from backstory.server.people import LOGIN_S, STEER
from backstory.server.reading import TeamFilter, TeamList, unknown_session
from backstory.server.refusals import Refused
from backstory.server.searching import SEARCHED, TeamSearch
from backstory.server.session_answers import OneSession
from backstory.server.steering import ALLOWS, NOT_RUNNING, TAKES_NONE, Steer
from backstory.server.team_reports import WantedParts
from backstory.web import reporting
from backstory.web.drawing import PageLinks
from backstory.web.finding import SESSIONS, WORDS, FoundPage, SessionHits, ShownHit
from backstory.web.kept import KeptAnswers
from backstory.web.listing import AFTER, ROWS, FormField, List, SessionRow, address
from backstory.web.markup import marked, plain
from backstory.web.pages import ZIPPING, Pages
from backstory.web.reading import place_of
from backstory.web.sharing import TooLongToPrint
from backstory.web.site import REPORT_KEPT_MS
from backstory.web.source import A, OpenSession, PageRefused, RelatedSession, SessionCopy, SteeringForm
from backstory.workspace import questions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
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
    from backstory.server.searching import TeamSearching
    from backstory.server.session_answers import SessionAnswers
    from backstory.server.steering import TeamSteering
    from backstory.server.team_reports import TeamReports
    from backstory.web.acting import PromptForm
    from backstory.web.reporting import ReportPage
    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.workspace import Workspace

TOTALS_KEPT, REPORTS_KEPT = 256, 32
REPORTED = ("repo", "since", "until")
"""The fields of the filter that a server's reports have."""
RECENT = timedelta(hours=1)
"""A session in which something happened so lately is followed on its page, and any that runs."""
FORM_BYTES_MAX = 64 * 1024
PERSON, MACHINE = "person", "machine"
"""Parameters that name a copy of a session."""
KNOWN = ("agent", "repo", "branch", "grep", "since", "until")
"""The fields of the filter that a server's list has."""


class TeamAnswers(NamedTuple):
    """The parts of a server that its pages ask. ``folder``: of no paths that are typed."""

    people: People
    reading: TeamReading
    sessions: SessionAnswers
    views: LiveViews
    searching: TeamSearching
    reports: TeamReports
    now: Callable[[], datetime]
    folder: Path
    steering: TeamSteering


class TeamPages:
    """The pages, and the login to them."""

    def __init__(self, answers: TeamAnswers, limits: Limits, names: BrowserNames) -> None:
        self._answers, self._limits, self._names = answers, limits, names
        self._bell = Doorbell(answers.people, limits, names)
        kept = _Kept()

        @contextmanager
        def source(request: Request) -> Iterator[TeamSource]:
            try:
                yield TeamSource(answers, request.state.caller, kept, request.state.csrf)
            except Refused as refused:
                raise PageRefused(refused.status, str(refused)) from refused
            except DatabaseUnusable as refused:
                raise PageRefused(503, UNREACHED) from refused

        links = PageLinks(acts=False, of_team=True, compares=False)
        self._pages = Pages(source, links)

    def app(self) -> ASGIApp:
        """The application."""
        guarded = self._pages.guarded
        routes = [
            Route(LOGIN, guarded(self._login), methods=["GET"]),
            Route("/account", guarded(self._account), methods=["GET"]),
            Route("/logout", self._acting(self._logout), methods=["POST"]),
            Route("/search", guarded(self._pages.search), methods=["GET"]),
            Route("/reports", lambda _: RedirectResponse("/reports/standup"), methods=["GET"]),
            Route("/reports/{name}", guarded(self._pages.report), methods=["GET"]),
            Route("/s/{uid}/live", guarded(lambda source, request: source.live(request)), methods=["GET"]),
            Route("/s/{uid}/steer", self._acting(self._steer), methods=["POST"]),
            *self._pages.routes(),
        ]
        pages = Starlette(routes=routes, middleware=[ZIPPING], exception_handlers={404: self._missing})
        return Door(pages, self._answers.people, self._limits, self._names)

    async def _missing(self, _request: Request, _error: Exception) -> Response:
        return self._pages.refused("There is no such page here.", 404)

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

    def _steer(self, request: Request, fields: Mapping[str, str]) -> Response:
        caller: Caller = request.state.caller
        if STEER not in caller.scopes:
            raise Refused(403, "not_allowed", "This browser was not let in to steer.")
        name = request.path_params["uid"]
        said = {name: fields.get(name, "") for name in ("id", "machine", "run")}
        said["text"] = fields.get("text", "").replace("\r\n", "\n")
        try:
            message = msgspec.convert(said, Steer)
        except msgspec.ValidationError as refused:
            raise Refused(400, "request_wrong", "This is no message for a run.") from refused
        self._answers.steering.send(caller, name.partition(COPY)[0], message)
        return RedirectResponse(f"/s/{quote(name, safe=COPY)}#steering", 303)

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
            except DatabaseUnusable:
                return self._pages.refused(UNREACHED, 503)

        return answered


class _Kept:
    """Answers that were given before, by who asked and a value that changes with the history."""

    def __init__(self) -> None:
        self.totals: KeptAnswers[int] = KeptAnswers(TOTALS_KEPT)
        self.reports: KeptAnswers[ReportPage | None] = KeptAnswers(REPORTS_KEPT)


class TeamSource:
    """The history that a person of an organisation may see, as the source of pages."""

    def __init__(self, answers: TeamAnswers, caller: Caller, kept: _Kept, csrf: str) -> None:
        self.caller, self.user_home, self.now = caller, answers.folder, int(answers.now().timestamp() * 1_000)
        self._answers, self._kept, self._at, self._csrf = answers, kept, answers.now(), csrf

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
            wanted = TeamFilter(**asked)
            total = self._kept.totals.get(
                self._key(wanted), (), lambda: self._answers.reading.count(self.caller, wanted)
            )  # fmt: skip
        going = self._answers.views.going(self.caller)
        rows = tuple(row(each, self.now, is_running=(each["uid"], each[MACHINE]) in going) for each in page["sessions"])
        kept = {name: value for name, value in typed.items() if value and name != AFTER}
        more = address("/sessions", {**kept, AFTER: page["end"]}) if page["has_more"] else ""
        return List(rows=rows, total=total, more=more)

    def stamp(self) -> str:
        changes = self._answers.reading.change_token(self.caller), *sorted(self._answers.views.going(self.caller))
        return f"{crc32(repr(changes).encode()):08x}"

    def state(self) -> tuple[str, str]:
        return "", ""

    def search(self, typed: Mapping[str, str]) -> FoundPage:
        if "search" not in self.caller.scopes:
            raise PageRefused(403, "This login may not search.")
        words = typed.get(WORDS, "").strip()
        if not words:
            return FoundPage(sessions=(), said="", notes=(f"Searched are {SEARCHED}.",))
        asked = TeamSearch(words=words, limit=SESSIONS, **self._asked(typed))
        return found_page(self._answers.searching.search(self.caller, asked), self.now)

    def report(self, name: str, typed: Mapping[str, str]) -> ReportPage | None:
        chosen = self._asked(typed, REPORTED)
        asked = reporting.asked_report(name, typed, self.now, self.user_home, self._today(), TABS[:3])
        if asked is None:
            return None
        since = None if asked.wanted.since is None else self._time(asked.wanted.since)
        wanted = WantedParts(
            person=chosen.get(PERSON), repository=chosen.get("repository"), since=since, until=chosen.get("until"),
            work=asked.tab is TABS[0],
        )  # fmt: skip

        def made() -> ReportPage:
            with self._answers.reports.reader(self.caller, wanted) as reader:
                form = [each for each in self.form(typed) if each.name in (PERSON, *REPORTED)]
                return reporting.drawn(reader, asked, form, has_behind=False)

        key = (name, tuple(typed.items()), self.now // REPORT_KEPT_MS)
        return self._kept.reports.get(self._key(key), (), made)

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

    def steering(self, opened: OpenSession) -> SteeringForm | None:
        state: Any = opened.state
        place: ShelfPlace = state[0].place
        if STEER not in self.caller.scopes or place.person != self.caller.person:
            return None
        steering = self._answers.steering
        run = steering.running(self.caller, place.uid, place.machine)
        states = steering.last(self.caller, place.uid)
        if run is None and not states:
            return None
        why_not = NOT_RUNNING if run is None else "" if run.takes else TAKES_NONE.format(ALLOWS)
        return SteeringForm(
            f"/s/{opened.name}/steer", self._csrf, token_urlsafe(16), *(("", "") if run is None else run[:2]), why_not,
            tuple((each.id, plain(each.words)) for each in states),
        )  # fmt: skip

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

    def _key(self, asked: Hashable) -> Hashable:
        """The key of an answer, which all who may see the same share."""
        caller = self.caller
        return caller.tenant, caller.repositories, asked, self._answers.reading.change_token(caller)

    def _today(self) -> datetime:
        return self._at.astimezone().replace(tzinfo=None)

    def _time(self, ms: int) -> datetime:
        try:
            return datetime.fromtimestamp(ms / 1_000, self._at.tzinfo)
        except (ValueError, OverflowError) as refused:
            raise PageRefused(400, "A time is of the years 1 to 9999.") from refused

    def _asked(self, typed: Mapping[str, str], known: Collection[str] = KNOWN) -> dict[str, Any]:
        """The conditions that were typed. Raises PageRefused for one that the server does not know."""
        for each in questions.fields(of_events=True):
            if typed.get(each.name) and each.name not in known:
                raise PageRefused(400, f"On the server this cannot be chosen by {each.name!r}.")
        read = questions.read(typed, now=self._today())
        times = {name: self._time(read[name]) for name in ("since", "until") if name in read}
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


def row(session: Mapping[str, Any], now: int, *, is_running: bool = False) -> SessionRow:
    """A session in the list, of what lists have as JSON."""
    uid, state = session["uid"], RUNNING if is_running else session.get("outcome") or ""
    cost = Cost(
        kind=CostKind(session.get("cost_kind") or CostKind.UNKNOWN),
        **{name: session.get(key) for name, key in (("usd", "cost_usd"), ("low_usd",) * 2, ("high_usd",) * 2)},
    )
    return SessionRow(
        uid=uid,
        where=_where(session),
        heading=plain(session.get("title") or "") or NO_PROMPT,
        mark=OUTCOMES.get(state, ("", ""))[0],
        state=plain(state),
        agents=plain(", ".join(session.get("agents") or ())),
        project=plain(_project(session)),
        branch=plain(session.get("branch") or ""),
        turns=session.get("turn_count") or 0,
        active=_ago(session.get("last_active"), now),
        lasted=duration(session.get("duration_ms")),
        cost=cost.known,
        label=session["label"],
        person=plain(session[PERSON]),
    )


def found_page(answer: Mapping[str, Any], now: int) -> FoundPage:
    """Draw the answer to a search: a hit of each session."""
    totals, waiting = answer["totals"], answer["waiting_sessions"]
    notes = [f"Searched are {answer['searched']}."]
    if waiting:
        notes.append(f"{counted(waiting, 'session')} {'is' if waiting == 1 else 'are'} not in the index yet.")
    hits = answer["hits"]
    least = "at least " if totals["at_least"] else ""
    sessions = totals["session_count"] + totals["near_sessions"]
    said = (
        f"{least}{counted(totals['hit_count'], 'turn')} in {counted(sessions, 'session')}" if hits else "Nothing found."
    )
    return FoundPage(sessions=tuple(_hits(each, now) for each in hits), said=said, notes=tuple(notes))


def _hits(hit: Mapping[str, Any], now: int) -> SessionHits:
    about = [hit[PERSON], ", ".join(hit["agents"] or ()), _project(hit), hit["branch"] or ""]
    shown = ShownHit(
        where=_where(hit, f"/{place_of((hit['seq'], hit['part']))}"), kind=plain(hit["scope"]),
        when=_ago(hit["at"], now), snippet=marked(hit["snippet"], hit["marks"]), is_near=hit["near"],
    )  # fmt: skip
    return SessionHits(
        heading=plain(hit["title"] or "") or NO_PROMPT, about=plain(" · ".join(each for each in about if each)),
        hits=(shown,), more=hit["session_hits"] - 1,
    )  # fmt: skip


def _where(session: Mapping[str, Any], place: str = "") -> str:
    """The address of a session, or a place in it, as a person's machine has it."""
    return f"/s/{session['uid']}{place}?{urlencode({PERSON: session[PERSON], MACHINE: session[MACHINE]})}"


def _ago(at: str | None, now: int) -> str:
    return when(int(datetime.fromisoformat(at).timestamp() * 1_000), now) if at else ""


def _project(session: Mapping[str, Any]) -> str:
    """The repository without its host: two people may mean repositories of one name."""
    repository, folder = session.get("repository"), session.get("project") or ""
    return "/".join(repository.split("/")[-2:]) if repository else folder.rpartition("/")[2]
