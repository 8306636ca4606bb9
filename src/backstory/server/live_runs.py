"""Runs that go on, as their machines tell of them: what they print, masked, for a while and within bounds.

It goes when the frames of the session have the turn; when nothing more is heard of a run; with its session, its machine
or its person. A machine that is silent is not taken for one whose run goes on.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from backstory.bounds import TIME_MAX_MS, moment
from backstory.exchange.json_lines import Uid
from backstory.model import event_from_json
from backstory.server.refusals import Refused
from backstory.server.shelves import marks_of, note_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg import Cursor

    from backstory.server.database import TeamDatabase
    from backstory.server.jobs import ShelfPlace
    from backstory.server.people import Caller

LIVE_BYTES_MAX = 512 * 1024
"""The longest request that tells of a run."""
RUN_BYTES_MAX = 1024 * 1024
"""The most that is kept of what a run printed; of more the beginning goes, and that is said."""
RUNS_MAX = 50
"""The most runs of a person that are told of at once."""
SILENT_AFTER = timedelta(seconds=20)
"""A machine that said nothing for so long may be gone, and its run with it."""
OVER_KEPT, KEPT = timedelta(minutes=10), timedelta(hours=1)
"""The time that a run is kept behind its last word: one that is over, and any other."""
WAITS_FOR, TOO_LATE = timedelta(minutes=10), "No machine took it within ten minutes."
"""The longest that a message for a run waits, and what is said of it then."""
ERASED_EVERY = timedelta(minutes=1)
RUNNING = "running"
Text = Annotated[str, Meta(max_length=1_000)]


class SteeringWord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The word of a machine about a message for its run."""

    id: Annotated[str, Meta(max_length=64)]
    state: Literal["taken", "refused"]
    reason: Annotated[str, Meta(max_length=300)] = ""


class LivePart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words of a machine about a run. ``first``: the number of the first of ``events``, from 1.

    ``writing``: the answer that the agent writes, as far as it has no secret; ``takes``: the machine takes messages;
    ``steered``: those that it took, or refused.
    """

    uid: Uid
    run: Uid
    repository: Text = ""
    agent: Text
    started: Annotated[int, Meta(ge=0, le=TIME_MAX_MS)]
    state: Literal["running", "over", "killed"] = "running"
    first: Annotated[int, Meta(ge=1, lt=2**31)] = 1
    events: Annotated[list[msgspec.Raw], Meta(max_length=1_000)] = msgspec.field(default_factory=list)
    writing: str = ""
    takes: bool = False
    steered: Annotated[list[SteeringWord], Meta(max_length=100)] = msgspec.field(default_factory=list)


class LiveRow(NamedTuple):
    """A run as it is kept. ``is_silent``: its machine said nothing for a while."""

    run: str
    repository: str
    agent: str
    started: datetime
    state: str
    writing: str
    takes: bool
    news: int
    first: int
    last: int
    at: datetime
    is_silent: bool


class LiveRuns:
    """The runs of all people that go on. ``now`` gives the time."""

    def __init__(self, database: TeamDatabase, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database, self._now, self._erased = database, now, datetime.min.replace(tzinfo=UTC)

    def put(self, caller: Caller, machine: str, part: LivePart) -> int | None:
        """Keep what a machine says; return the number of the next event, None for a session that was removed.

        What came before is passed over. Raises Refused.
        """
        texts = [_checked(each) for each in part.events]
        with self._database.of(caller.tenant) as rows:
            # Who removes a session has this row, so nothing is put behind what is erased.
            of = caller.tenant, caller.person
            if rows.execute(_PERSON, of).fetchone() is None:
                raise Refused(401, "not_logged_in", "This needs a login.")
            erase_old(rows, *of, self._now())
            if rows.execute(_REMOVED, (*of, marks_of(rows, caller.tenant, [part.uid]))).fetchone() is not None:
                return None
            place = (*of, part.uid, machine)
            self._check(rows, caller, place, part)
            note_machine(rows, caller, machine, self._now())
            if (
                part.state != RUNNING
                and (part.first > 1 or not texts)
                and rows.execute(_HAS, (*place, part.run)).fetchone() is None
            ):
                # Its frames came, or nothing was told of it: it is not begun anew to be ended.
                return part.first + len(texts)
            rows.execute(_PUT, (
                *place, part.run, part.repository, part.agent, moment(part.started), part.state, _kept(part.writing),
                part.takes, self._now(),
            ))  # fmt: skip
            number = self._add(rows, (*place, part.run), part.first, texts)
            if part.state != RUNNING:
                for statement in (_MANY_EVENTS, _MANY_RUNS):
                    rows.execute(statement, (*of, RUNS_MAX))
            return number

    def erase_old(self) -> None:
        """Erase the runs of all organisations of which nothing was heard for long, once a minute."""
        now = self._now()
        if now - self._erased < ERASED_EVERY:
            return
        with self._database.of(0) as rows:
            tenants = [tenant for (tenant,) in rows.execute("select tenants()").fetchall()]
        for tenant in tenants:
            with self._database.of(tenant) as rows:
                people = [person for (person,) in rows.execute(_WITH_OLD, {"tenant": tenant}).fetchall()]
            for person in people:
                with self._database.of(tenant) as rows:
                    rows.execute(_PERSON, (tenant, person))
                    erase_old(rows, tenant, person, now)
        self._erased = now

    def _check(self, rows: Cursor[Any], caller: Caller, place: tuple[Any, ...], part: LivePart) -> None:
        """Refuse a session that the token is not for, wherever a machine of the person has it, and too many runs."""
        allowed, of = caller.repositories, place[:3]
        known = [repository for (repository,) in rows.execute(_REPOSITORIES, (*of, *of)).fetchall()]
        if allowed is not None and not {part.repository, *known} <= allowed:
            raise Refused(403, "not_allowed", "Your token is not for the repository of a session.")
        others = rows.execute(_OTHERS, (*place[:2], part.run, RUNS_MAX)).fetchall()
        if part.state == RUNNING and len(others) >= RUNS_MAX:
            raise Refused(409, "too_many", f"At most {RUNS_MAX} runs are followed at once.")

    def _add(self, rows: Cursor[Any], place: tuple[Any, ...], number: int, texts: Sequence[str]) -> int:
        found = rows.execute(_HAS, place).fetchone()
        assert found is not None
        first, last, size = found
        if number > last + 1:
            # What is between is not known here any more, or is to be forgotten with what is before.
            rows.execute(_GONE_BEFORE, (*place, number))
            first, last, size = number, number - 1, 0
        new = texts[max(last + 1 - number, 0) :]
        begin = max(number, last + 1)
        rows.executemany(_ADD, [(*place, begin + n, each, self._now()) for n, each in enumerate(new)])
        last, size = last + len(new), size + sum(map(len, new))
        first = first or (1 if last else 0)
        if size > RUN_BYTES_MAX:
            (until,) = rows.execute(_TOO_OLD, (*place, RUN_BYTES_MAX)).fetchone() or (0,)
            rows.execute(_GONE_BEFORE, (*place, until + 1))
            first = until + 1
            (size,) = rows.execute(_SIZE, place).fetchone() or (0,)
        rows.execute(_COUNT, (first, last, size, *place))
        return int(last) + 1


def runs_of(rows: Cursor[Any], place: ShelfPlace, now: datetime) -> list[LiveRow]:
    """Return the runs of a session that are told of, the oldest first."""
    found = rows.execute(_RUNS, (now - SILENT_AFTER, *place)).fetchall()
    return [LiveRow(*each) for each in found]


def going(rows: Cursor[Any], tenant: int, among: Sequence[str] | None, now: datetime) -> set[tuple[str, str]]:
    """Return the sessions in which a run goes on, by uid and machine. ``among``: of these repositories alone."""
    return set(rows.execute(_GOING, (tenant, now - SILENT_AFTER, among, among)).fetchall())


def events_of(rows: Cursor[Any], place: ShelfPlace, run: str, after: int) -> list[tuple[int, bytes]]:
    """Return the events of a run behind a number, with theirs."""
    return [(number, data.encode()) for number, data in rows.execute(_EVENTS, (*place, run, after)).fetchall()]


def erase_old(rows: Cursor[Any], tenant: int, person: int, now: datetime) -> None:
    """Erase runs of a person of which nothing was heard for long, and messages for runs that nobody took.

    Who does holds the person's row, as all do that change these: so none of them waits for another in a circle.
    """
    for statement in (_OLD_EVENTS, _OLD_RUNS):
        rows.execute(statement, (tenant, person, now - KEPT, now - OVER_KEPT))
    rows.execute(_LATE, (TOO_LATE, tenant, person, now - WAITS_FOR))
    rows.execute("delete from steering where tenant = %s and person = %s and at < %s", (tenant, person, now - KEPT))


def _checked(data: msgspec.Raw) -> str:
    """An event as it is kept. Raises Refused for what is none."""
    try:
        event_from_json(bytes(data))
        return bytes(data).decode()
    except (ValueError, RecursionError) as refused:
        raise Refused(400, "request_wrong", "The request has an event that is not understood.") from refused


def _kept(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


_PERSON = "select from person where tenant = %s and id = %s for no key update"
_REMOVED = "select from removal where tenant = %s and person = %s and mark = any(%s)"
_WITH_OLD = """
select person from live_run where tenant = %(tenant)s union select person from steering where tenant = %(tenant)s
order by 1
"""
_REPOSITORIES = """
select repository from session where tenant = %s and person = %s and uid = %s
union select repository from live_run where tenant = %s and person = %s and session = %s
"""
_OTHERS = "select run from live_run where tenant = %s and person = %s and run <> %s and state = 'running' limit %s"
_OF_RUN = "tenant = %s and person = %s and session = %s and machine = %s and run = %s"
_PUT = """
insert into live_run as r (tenant, person, session, machine, run, repository, agent, started, state, writing, takes,
  news, first, last, bytes, at)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 1, 0, 0, 0, %s)
on conflict (tenant, person, session, machine, run) do update set state = excluded.state, writing = excluded.writing,
  takes = excluded.takes, at = excluded.at,
  news = r.news + ((r.state, r.writing, r.takes) <> (excluded.state, excluded.writing, excluded.takes))::int
"""
_HAS = f"select first, last, bytes from live_run where {_OF_RUN}".encode()
_ADD = """
insert into live (tenant, person, session, machine, run, number, data, at) values (%s, %s, %s, %s, %s, %s, %s, %s)
"""
_GONE_BEFORE = f"delete from live where {_OF_RUN} and number < %s".encode()
_TOO_OLD = f"""
select max(number) from (
  select number, sum(length(data)) over (order by number desc) as behind from live where {_OF_RUN}) x
where behind > %s
""".encode()
_SIZE = f"select coalesce(sum(length(data)), 0) from live where {_OF_RUN}".encode()
_COUNT = f"update live_run set first = %s, last = %s, bytes = %s where {_OF_RUN}".encode()
_OF_SESSION = "tenant = %s and person = %s and session = %s and machine = %s"
_RUNS = f"""
select run, repository, agent, started, state, writing, takes, news, first, last, at, at < %s from live_run
where {_OF_SESSION} order by started, run
""".encode()
_GOING = """
select session, machine from live_run where tenant = %s and at >= %s and state = 'running'
  and (%s::text[] is null or repository = any(%s))
"""
_EVENTS = f"select number, data from live where {_OF_RUN} and number > %s order by number".encode()
_OLD = "tenant = %s and person = %s and (at < %s or (state <> 'running' and at < %s))"
_OLD_RUNS = f"delete from live_run where {_OLD}".encode()
_EVENTS_OF = """
delete from live l using ({}) o
where l.tenant = o.tenant and l.person = o.person and l.session = o.session and l.machine = o.machine
  and l.run = o.run
"""
_OLD_EVENTS = _EVENTS_OF.format(f"select person, session, machine, run, tenant from live_run where {_OLD}").encode()
_MANY = """
select person, session, machine, run, tenant from live_run
where tenant = %s and person = %s and state <> 'running' order by at desc, run offset %s
"""
"""Runs that are over behind the newest of them."""
_MANY_EVENTS = _EVENTS_OF.format(_MANY).encode()
_MANY_RUNS = _EVENTS_OF.format(_MANY).replace("from live l", "from live_run l").encode()
_LATE = """
update steering set state = 'refused', reason = %s, text = ''
where tenant = %s and person = %s and state = 'waiting' and at < %s
"""
