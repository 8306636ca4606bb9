"""Messages for runs of one's own, given to the machine that runs: once, if its own settings let it take them.

Nothing acts here. A message waits until the machine says that it took or refused it, and ten minutes at most; what it
said is forgotten then. The audit says that somebody steered, and not how.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from backstory.server.audit import note
from backstory.server.live_runs import RUNNING, SILENT_AFTER, TOO_LATE, LiveRuns, erase_old
from backstory.server.reading import unknown_session
from backstory.server.refusals import Refused
from backstory.server.shelves import marks_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Cursor

    from backstory.server.database import TeamDatabase
    from backstory.server.jobs import ShelfPlace
    from backstory.server.live_runs import LivePart
    from backstory.server.people import Caller

WAITING_MAX = 20
SHOWN_MOST = 5
"""The number of messages whose state a page shows."""
WAITING, TAKEN, REFUSED = "waiting", "taken", "refused"
TAKES_NONE = "The machine that runs it takes no messages from here. There it is allowed by: {}"
ALLOWS = "backstory config set sync.steer true"
NOT_RUNNING = "It does not run now on a machine that this server hears of."
ENDED = "The run had ended."


class Steer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message for a run. ``id``: chosen by the sender, who may send it again by it.

    ``machine``, ``run``: those that the sender saw, '' for the one that runs now.
    """

    text: Annotated[str, Meta(min_length=1, max_length=20_000)]
    id: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{8,64}\\Z")]
    machine: Annotated[str, Meta(max_length=100)] = ""
    run: Annotated[str, Meta(max_length=100)] = ""


class SteeringState(NamedTuple):
    """The state of a message: ``waiting``, ``taken`` or ``refused``, and why."""

    id: str
    state: str
    reason: str

    @property
    def words(self) -> str:
        """The state in a sentence."""
        if self.state == REFUSED:
            return f"The message was refused. {self.reason}".strip()
        return "The run's machine took the message." if self.state == TAKEN else "The message waits for the machine."


class SteeredRun(NamedTuple):
    """A run that goes on. ``takes``: its machine takes messages."""

    machine: str
    run: str
    takes: bool


class MessageForRun(Struct, frozen=True, kw_only=True):
    """A message that a machine is to hand to its run."""

    id: str
    text: str


class TeamSteering:
    """The messages of all people. ``now`` gives the time."""

    def __init__(self, database: TeamDatabase, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database, self._now, self._live = database, now, LiveRuns(database, now)

    def tell(self, caller: Caller, machine: str, part: LivePart) -> dict[str, Any]:
        """Keep what a machine tells of a run, and return what it is to know: also the messages that wait for it.

        Raises Refused.
        """
        number = self._live.put(caller, machine, part)
        waiting = [] if number is None else self._exchange(caller, machine, part)
        return {"next": number, "is_forgotten": number is None, "steering": waiting}

    def send(self, caller: Caller, uid: str, message: Steer) -> SteeringState:
        """Have a message wait for the machine that runs a session of the caller's; return how far it is.

        Raises Refused: for a session of anybody else as for none, and where no machine would take it.
        """
        if not message.text.strip() or "\0" in message.text:
            raise Refused(400, "request_wrong", "A message has words, and no NUL.")
        with self._database.of(caller.tenant) as rows:
            of = (caller.tenant, caller.person, uid)
            # Who removes the session, or is put out, waits for this, or this for them.
            if rows.execute(_PERSON, of[:2]).fetchone() is None:
                raise Refused(401, "not_logged_in", "This needs a login.")
            erase_old(rows, *of[:2], self._now())
            running = self._running(rows, caller, of)
            if (known := rows.execute(_KNOWN, (*of, message.id)).fetchone()) is not None:
                return SteeringState(*known)
            seen = [each for each in running if message.machine in ("", each.machine) and message.run in ("", each.run)]
            if not seen:
                raise Refused(409, "not_running", ENDED if running else NOT_RUNNING)
            machine, run, takes = seen[-1]
            if not takes:
                raise Refused(409, "not_taken", TAKES_NONE.format(ALLOWS))
            if len(rows.execute(_WAITING, (*of, machine, run)).fetchall()) >= WAITING_MAX:
                raise Refused(409, "too_many", f"{WAITING_MAX} messages wait for this run already.")
            rows.execute(_SENT, (*of, machine, run, message.id, message.text, self._now()))
            (mark,) = marks_of(rows, caller.tenant, [uid])
            note(rows, caller.tenant, caller.person, "steer", mark.hex(), self._now())
        return SteeringState(message.id, WAITING, "")

    def _running(self, rows: Cursor[Any], caller: Caller, of: tuple[Any, ...]) -> list[SteeredRun]:
        """The runs of a session that go on, the one that was heard of last at the end. Raises Refused."""
        found = rows.execute(_RUNS, (*of, *of, caller.among, caller.among)).fetchall()
        if not found:
            raise unknown_session()
        heard = self._now() - SILENT_AFTER
        return [
            SteeredRun(machine, run, takes) for machine, run, state, takes, at in found
            if state == RUNNING and at >= heard
        ]  # fmt: skip

    def running(self, caller: Caller, uid: str, machine: str) -> SteeredRun | None:
        """Return the run of a session on a machine that a message would be for; None if it is not the caller's."""
        with self._database.of(caller.tenant) as rows:
            try:
                found = self._running(rows, caller, (caller.tenant, caller.person, uid))
            except Refused:
                return None
        return next((each for each in reversed(found) if each.machine == machine), None)

    def last(self, caller: Caller, uid: str) -> list[SteeringState]:
        """Return how far the last messages of the caller for a session are."""
        with self._database.of(caller.tenant) as rows:
            found = rows.execute(_LAST, (caller.tenant, caller.person, uid, SHOWN_MOST)).fetchall()
        return [SteeringState(*each) for each in reversed(found)]

    def _exchange(self, caller: Caller, machine: str, part: LivePart) -> list[MessageForRun]:
        """Note what a machine says of messages, and return those that wait for its run."""
        of = (caller.tenant, caller.person, part.uid, machine, part.run)
        with self._database.of(caller.tenant) as rows:
            rows.execute(_PERSON, of[:2])
            if part.steered:
                rows.executemany(_DECIDED, [(each.state, each.reason, *of, each.id, TOO_LATE) for each in part.steered])
            erase_old(rows, *of[:2], self._now())
            if part.state != RUNNING or not part.takes:
                why = ENDED if part.state != RUNNING else TAKES_NONE.format(ALLOWS)
                rows.execute(_ENDED, (why, *of))
                return []
            found = rows.execute(_TO_TAKE, of).fetchall()
        return [MessageForRun(id=id_, text=text) for id_, text in found]


def states_of(rows: Cursor[Any], place: ShelfPlace) -> list[SteeringState]:
    """Return how far the messages for a session are that were not decided long ago."""
    return [SteeringState(*each) for each in rows.execute(_STATES, place).fetchall()]


_PERSON = "select from person where tenant = %s and id = %s for no key update"
_KNOWN = "select id, state, reason from steering where tenant = %s and person = %s and session = %s and id = %s"
_OF_RUN = "tenant = %s and person = %s and session = %s and machine = %s and run = %s"
_WAITING = f"select from steering where {_OF_RUN} and state = 'waiting'".encode()
_SENT = """
insert into steering (tenant, person, session, machine, run, id, text, state, reason, at)
values (%s, %s, %s, %s, %s, %s, %s, 'waiting', '', %s)
"""
_RUNS = """
select x.machine, x.run, x.state, x.takes, x.at from (
  select s.machine, '' as run, s.repository, 'stored' as state, false as takes, 'epoch'::timestamptz as at
  from session s
  where s.tenant = %s and s.person = %s and s.uid = %s
  union all
  select r.machine, r.run, coalesce(s.repository, r.repository), r.state, r.takes, r.at from live_run r
  left join session s on s.tenant = r.tenant and s.person = r.person and s.uid = r.session and s.machine = r.machine
  where r.tenant = %s and r.person = %s and r.session = %s) x
where %s::text[] is null or x.repository = any(%s) order by x.at
"""
_LAST = """
select id, state, reason from steering where tenant = %s and person = %s and session = %s order by at desc, id limit %s
"""
_DECIDED = f"""
update steering set state = %s, reason = %s, text = ''
where {_OF_RUN} and id = %s and (state = 'waiting' or (state = 'refused' and reason = %s))
""".encode()
_ENDED = f"""
update steering set state = 'refused', reason = %s, text = '' where {_OF_RUN} and state = 'waiting'
""".encode()
_TO_TAKE = f"select id, text from steering where {_OF_RUN} and state = 'waiting' order by at, id".encode()
_STATES = """
select id, state, reason from steering where tenant = %s and person = %s and session = %s and machine = %s
order by at, id
"""
