"""Sessions of the server that are followed: each is read once, by a thread, for all who look at it.

What comes is the frames that its machine sends, of which the new ones alone are read, and what the machine tells of a
run that goes on. With each look it is asked who of those that look still may.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from starlette.responses import Response

from backstory.ask.costs import of_turn, price_table
from backstory.conversation.compact import compact_event
from backstory.errors import BackstoryError, SessionNotFound
from backstory.exchange import frames
from backstory.exchange.frames import FrameDamaged
from backstory.exchange.json_lines import EventLine, TurnLine, ms_of
from backstory.model import Error, Turn, UserMessage, event_from_json
from backstory.runs.spool import RUNNING
from backstory.server.jobs import ShelfPlace
from backstory.server.kept_sessions import LAST_EVENTS
from backstory.server.live_runs import events_of, going, runs_of
from backstory.server.one_session import whole_session
from backstory.server.people import SCOPES, TeamRole
from backstory.server.reading import unknown_session
from backstory.server.refusals import Refused
from backstory.server.session_answers import OneSession
from backstory.server.shelves import line_kind
from backstory.server.steering import states_of
from backstory.web.drawing import PageLinks, environment
from backstory.web.growing import Growing
from backstory.web.live import DROPPED, Channel, Hub, Settled, stored_place
from backstory.web.markup import plain
from backstory.web.streaming import StreamViewer
from backstory.workspace.history.blocks import content_of
from backstory.workspace.history.following import FollowedEvent, Grown
from backstory.workspace.history.transcript import ListedTurn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from psycopg import Cursor
    from starlette.types import Receive, Scope, Send

    from backstory.model import Event
    from backstory.server.database import TeamDatabase
    from backstory.server.kept_sessions import KeptSessions
    from backstory.server.live_runs import LiveRow
    from backstory.server.one_session import WholeSession
    from backstory.server.people import Caller
    from backstory.server.steering import SteeringState
    from backstory.web.live import Draw, Wake
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.workspace import Workspace

LOOK_S = 1.0
"""The time between two looks at a session that somebody follows."""
COPY = "~"
"""The sign that parts the names of a copy from the uid in an address."""
OWN, OF_OTHERS = "own", "others"
PUT_OUT = "You may not see this session any more, or it is not here any more."
KILLED = "The run's process is gone, and nobody saw its end. What it said is stored by the next command on its machine."
UNREADABLE = "The server cannot read this session now."


class OneLive(OneSession, frozen=True, kw_only=True):
    """Asks for a session as it grows. ``last``: the place up to which it was seen."""

    last: str = ""


class _Seen(NamedTuple):
    """The findings of one look. ``session``: None while no frame of it is here; ``events``: new ones, by their runs."""

    session: WholeSession | None
    runs: list[LiveRow]
    events: dict[str, list[tuple[int, bytes]]]
    steered: list[SteeringState]


class _Stored(NamedTuple):
    """The part of a session that pages show: its last record and turn, all turns, the last one's number, a folder."""

    place: tuple[int, int] = (0, 0)
    turns: tuple[ListedTurn, ...] = ()
    current: int | None = None
    folder: str = ""


class LiveViews:
    """The sessions of all organisations that are followed now. ``draw`` makes HTML of entries."""

    def __init__(self, database: TeamDatabase, kept: KeptSessions, draw: Draw, now: Callable[[], datetime]) -> None:
        self._database, self._kept, self._draw, self._now = database, kept, draw, now
        self.hub, self._lock = Hub(self._channel, lambda key: key.partition(" ")[0]), threading.Lock()
        self._viewers: dict[str, dict[Wake, tuple[Caller, StreamViewer]]] = {}

    def view(self, caller: Caller, uid: str, wanted: OneSession) -> Response:
        """Return the answer that sends a session as it grows. Raises Refused, as for one that is not there."""
        with self._database.of(caller.tenant) as rows:
            found = rows.execute(_COPIES, {
                "tenant": caller.tenant, "uid": uid, "among": caller.among, "person": caller.person,
                "name": wanted.person, "machine": wanted.machine,
            }).fetchone()  # fmt: skip
        if found is None:
            raise unknown_session()
        # Messages are told to their sender alone: colleagues follow the session apart from the person.
        whose = OWN if found[0] == caller.person else OF_OTHERS
        key = f"{caller.tenant:x} {found[0]:x} {uid} {found[1]} {whose}"
        return _Streaming(lambda headers: self._viewer(caller, key, headers))

    def going(self, caller: Caller) -> set[tuple[str, str]]:
        """Return the sessions that run now, by uid and machine, of those that a person may see."""
        with self._database.of(caller.tenant) as rows:
            return going(rows, caller.tenant, caller.among, self._now())

    def is_going(self, place: ShelfPlace) -> bool:
        """Return True if a run of a session is told of."""
        with self._database.of(place.tenant) as rows:
            return bool(runs_of(rows, place, self._now()))

    def _viewer(self, caller: Caller, key: str, headers: list[tuple[bytes, bytes]]) -> StreamViewer:
        def join(wake: Wake) -> Channel | None:
            with self._lock:
                self._viewers.setdefault(key, {})[wake] = caller, viewer
            return self.hub.join(key, wake)

        viewer = StreamViewer(join, partial(self._leave, key), headers)
        return viewer

    def _leave(self, key: str, wake: Wake) -> None:
        with self._lock:
            others = self._viewers.get(key, {})
            others.pop(wake, None)
            if not others:
                self._viewers.pop(key, None)
        self.hub.leave(key, wake)

    def _channel(self, key: str) -> Channel:
        tenant, person, uid, machine, _ = key.split(" ")
        place = ShelfPlace(int(tenant, 16), int(person, 16), uid, machine)
        # A name in addresses that means this copy, whoever looks.
        name = f"{uid}{COPY}{place.person:x}{COPY}{machine}"
        return Channel(name, lambda channel: _Following(self, channel, key, place).follow(), self._draw)

    # for what follows -------------------------------------------------------------------------------------------------

    def look(self, key: str, place: ShelfPlace, shown: dict[str, int]) -> _Seen:
        """Look at a session once for all: its frames, its runs with the events behind those shown, and who may see it.

        Who may not any more is put out.
        """
        with self._lock:
            viewers = [*self._viewers.get(key, {}).items()]
        now = self._now()
        with self._database.of(place.tenant) as rows:
            session, runs = whole_session(rows, place), runs_of(rows, place, now)
            stored = rows.execute(_REPOSITORY, place).fetchone()
            steered = states_of(rows, place) if key.endswith(f" {OWN}") else []
            repositories = {stored[0]} if stored is not None else {each.repository for each in runs}
            allowed = _allowed(rows, place.tenant, [caller.token for _, (caller, _) in viewers], repositories, now)
            events = {
                each.run: events_of(rows, place, each.run, shown.get(each.run, 0)) for each in runs
                if each.last > shown.get(each.run, 0)
            }  # fmt: skip
        if session is None and not runs:
            allowed = set()
        for wake, (caller, viewer) in viewers:
            if caller.token not in allowed:
                viewer.put_out = PUT_OUT
                wake()
        return _Seen(session, runs, events, steered)

    def stored(self, session: WholeSession | None) -> _Stored:
        """Return what pages show of a session. Raises SessionNotFound where it changed meanwhile."""
        if session is None:
            return _Stored()
        found, _ = self._kept.ask(session, _stored, LAST_EVENTS)
        return found

    def lines(self, session: WholeSession, after: int) -> list[bytes]:
        """Return the lines of the frames of a session behind one."""
        with self._database.of(session.place.tenant) as rows:
            of = (*session.place, session.epoch, after, session.frames)
            packed = [head.encode() + b"\n" + bytes(data) for head, data in rows.execute(_FRAMES, of).fetchall()]
        return [line for each in packed for line in frames.read_again(each).lines]

    def ms(self) -> int:
        """The time, in ms."""
        return int(self._now().timestamp() * 1_000)


class _Following:
    """A session that is followed from one state of its store on."""

    def __init__(self, views: LiveViews, channel: Channel, key: str, place: ShelfPlace) -> None:
        self._views, self._channel, self._key, self._place = views, channel, key, place
        self._numbers: dict[str, int] = {}
        self._outcomes: dict[str, str | None] = {}
        self._shown: dict[str, int] = {}
        """The number of the last event that was shown of each run that is told of."""
        self._errors: dict[str, list[Event]] = {}
        self._said: dict[str, tuple[str, bool]] = {}
        self._steered: dict[str, SteeringState] = {}
        self._prices = price_table()

    def follow(self) -> None:
        """Follow until what was shown is stored. Raises Settled then, and Unwanted."""
        try:
            self._follow()
        except (FrameDamaged, Refused) as refused:
            raise _Unreadable from refused

    def _follow(self) -> None:
        seen = self._look()
        try:
            stored = self._views.stored(seen.session)
        except SessionNotFound:
            # It changed at this moment.
            self._channel.wait(LOOK_S)
            raise Settled from None
        self._numbers = {each.turn.uid: each.number for each in stored.turns}
        self._outcomes = {each.turn.uid: each.turn.outcome for each in stored.turns}
        self._channel.begin(stored.place)
        drawing = Growing({each.number: each for each in stored.turns}, stored.current, stored.folder)
        known = seen.session
        while True:
            for state in seen.steered:
                if self._steered.get(state.id) != state:
                    self._steered[state.id] = state
                    self._channel.say("steering", {"id": state.id, "state": state.state, "words": plain(state.words)})
            for grown in self._told(seen):
                self._channel.take(drawing, grown, self._views.ms())
            if seen.session != known:
                if not _goes_on(known, seen.session):
                    raise Settled
                assert seen.session is not None
                # A run that ended is read from the store, as everything is after very much.
                for grown in self._of_frames(self._views.lines(seen.session, known.frames if known else 0)):
                    self._channel.take(drawing, grown, self._views.ms())
                if any(each in self._shown for each, outcome in self._outcomes.items() if outcome is not None):
                    raise Settled
                known = seen.session
            if self._channel.has_much and not seen.runs:
                raise Settled
            self._channel.wait(LOOK_S)
            seen = self._look()

    def _look(self) -> _Seen:
        seen = self._views.look(self._key, self._place, self._shown)
        if seen.session is None and not seen.runs:
            # Everybody was told; the last of them ends this.
            self._channel.wait(LOOK_S)
            raise Settled
        return seen

    # runs that go on --------------------------------------------------------------------------------------------------

    def _told(self, seen: _Seen) -> Iterator[Grown]:
        for row in seen.runs:
            if row.run in self._outcomes:
                continue
            before, is_first = self._shown.get(row.run, 0), row.run not in self._shown
            number = self._numbers.setdefault(row.run, len(self._numbers) + 1)
            found = [(n, event_from_json(data)) for n, data in seen.events.get(row.run, ())]
            if row.first > before + 1:
                if before:
                    # What was shown is to be forgotten: it may have told a secret.
                    raise Settled
                yield Grown(remark=DROPPED)
            self._shown[row.run] = found[-1][0] if found else max(before, row.last)
            events = [event for _, event in found]
            self._errors.setdefault(row.run, []).extend(compact_event(e) for e in events if isinstance(e, Error))
            turns = (self._begun(row, number, events),) if is_first else ()
            if remark := self._remark(row):
                yield Grown(remark=remark)
            is_going = row.state == RUNNING and not row.is_silent
            yield Grown(
                turns=turns, events=tuple(FollowedEvent(turn=number, event=each) for each in events),
                writing=row.writing if is_going else "",
            )  # fmt: skip

    def _begun(self, row: LiveRow, number: int, events: list[Event]) -> ListedTurn:
        prompt = next((each.content for each in events if isinstance(each, UserMessage)), "")
        turn = Turn(uid=row.run, agent=row.agent, prompt=prompt, started=int(row.started.timestamp() * 1_000))
        return ListedTurn(number=number, turn=turn, cost=of_turn(turn, self._prices), live=RUNNING)

    def _remark(self, row: LiveRow) -> str:
        """A sentence for a change of how a run goes on; '' for none."""
        is_silent = row.is_silent and row.state == RUNNING
        before = self._said.get(row.run, (RUNNING, False))
        self._said[row.run] = row.state, is_silent
        if (row.state, is_silent) == before:
            return ""
        if is_silent:
            return f"There is no news of this run since {row.at.astimezone(UTC):%H:%M:%S} UTC. Its machine may be away."
        if row.state == RUNNING:
            return "There is news of this run again."
        return KILLED if row.state == "killed" else ""

    # frames -----------------------------------------------------------------------------------------------------------

    def _of_frames(self, lines: Iterable[bytes]) -> Iterator[Grown]:
        turns, ended, events = list[ListedTurn](), list[ListedTurn](), list[FollowedEvent]()
        for line in lines:
            kind = line_kind(line)
            if kind == b"turn":
                listed = self._listed(msgspec.json.decode(line, type=TurnLine))
                turns.append(listed)
                outcome = listed.turn.outcome
                if outcome is not None and self._outcomes.get(listed.turn.uid) != outcome:
                    ended.append(listed)
                self._outcomes[listed.turn.uid] = outcome
            elif kind == b"event":
                said = msgspec.json.decode(line, type=EventLine)
                event = event_from_json(bytes(said.event))
                number = None if said.turn is None else self._numbers.get(said.turn)
                if said.turn not in self._shown or self._is_news(said.turn, event):
                    at = ms_of(said.at)
                    events.append(FollowedEvent(turn=number, event=event, seq=said.seq, part=said.part, at=at))
        yield Grown(turns=tuple(turns), events=tuple(events), ended=tuple(ended))

    def _is_news(self, run: str | None, event: Event) -> bool:
        """Return True for an error of a run that its machine did not tell of while it went on."""
        return isinstance(event, Error) and compact_event(event) not in self._errors.get(run or "", [])

    def _listed(self, line: TurnLine) -> ListedTurn:
        turn = Turn(
            uid=line.uid, agent=line.agent, first_seq=line.first_seq, last_seq=line.last_seq, prompt=line.prompt,
            model=line.model, started=ms_of(line.started), ended=ms_of(line.ended), outcome=line.outcome,
            stop_reason=line.stop_reason, duration_ms=line.duration_ms, cost_usd=line.cost_usd,
            cost_source=line.cost_source, tokens_source=line.tokens_source,
        )  # fmt: skip
        number = self._numbers.setdefault(turn.uid, len(self._numbers) + 1)
        return ListedTurn(number=number, turn=turn, cost=of_turn(turn, self._prices))


class _Unreadable(BackstoryError):
    """The session cannot be read now; why may be of its history."""

    def __init__(self) -> None:
        super().__init__(UNREADABLE)


class _Streaming(Response):
    """An answer that goes on. ``made`` gives what sends it, with the headers of every answer."""

    def __init__(self, made: Callable[[list[tuple[bytes, bytes]]], StreamViewer]) -> None:
        super().__init__()
        self._made = made

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until either ends."""
        own = [each for each in self.raw_headers if each[0] not in (b"content-length", b"content-type")]
        await self._made(own)(scope, receive, send)


def drawn() -> Draw:
    """Return what makes HTML of entries, as pages have it."""
    templates = environment(PageLinks(acts=False))
    return lambda items, uid: templates.get_template("_items.html").render(items=items, uid=uid)


def _stored(workspace: Workspace, located: LocatedSession) -> _Stored:
    content = content_of(workspace.reader, located)
    turns = tuple(each for each in content.turns.values() if each.live is None)
    current = content.order.turns[-1] if len(content.order) else None
    return _Stored(stored_place(content), turns, current, content.folder)


def _goes_on(known: WholeSession | None, now: WholeSession | None) -> bool:
    """Return True if a session only has more frames than before."""
    return now is not None and (known is None or (known.epoch == now.epoch and known.frames <= now.frames))


def _allowed(
    rows: Cursor[Any], tenant: int, tokens: list[str], repositories: set[str], now: datetime
) -> set[str]:  # fmt: skip
    """Return those of these tokens that still may see a session of these repositories."""
    found = rows.execute(_TOKENS, (tenant, tokens, now)).fetchall()
    return {
        token for token, scopes, among, role in found
        if "read" in {*scopes} & {*SCOPES[TeamRole(role)]} and (among is None or repositories <= {*among})
    }  # fmt: skip


_COPIES = """
select x.person, x.machine from (
  select s.person, s.machine, s.repository, s.events, false as goes_on from session s
  where s.tenant = %(tenant)s and s.uid collate "C" = %(uid)s
  union all
  select r.person, r.machine, coalesce(s.repository, r.repository), 0, true from live_run r
  left join session s on s.tenant = r.tenant and s.person = r.person and s.uid = r.session and s.machine = r.machine
  where r.tenant = %(tenant)s and r.session = %(uid)s) x
join person p on p.tenant = %(tenant)s and p.id = x.person
where (%(among)s::text[] is null or x.repository = any(%(among)s)) and (%(name)s::text is null or p.name = %(name)s)
  and (%(machine)s::text is null or x.machine = %(machine)s)
order by x.goes_on desc, x.person <> %(person)s, x.events desc, x.person, x.machine limit 1
"""
_REPOSITORY = "select repository from session where tenant = %s and person = %s and uid = %s and machine = %s"
_FRAMES = """
select head, data from frame where tenant = %s and person = %s and session = %s and machine = %s
  and epoch = %s and number > %s and number <= %s order by number
"""
_TOKENS = """
select t.id, t.scopes, t.repositories, p.role from token t join person p on p.tenant = t.tenant and p.id = t.person
where t.tenant = %s and t.id = any(%s) and t.expires > %s
"""
