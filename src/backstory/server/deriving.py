"""Search text and facts of sessions, derived from their frames by the reader of every face, beside the answers."""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backstory.ask import origins
from backstory.bounds import moment
from backstory.derive.naming import folded
from backstory.errors import DatabaseUnusable
from backstory.lazy import lazy_regex
from backstory.server import jobs, one_session
from backstory.server.database import is_held
from backstory.server.turn_words import SaidTurn, labels_of, said_in, sign_of
from backstory.store.private import make_private_folder
from backstory.store.tables.logs import API
from backstory.workspace.history import sessions
from backstory.workspace.stores import report_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Cursor

    from backstory.server.database import TeamDatabase
    from backstory.server.jobs import DerivingJob, ShelfPlace
    from backstory.server.one_session import PackedFrames, WholeSession
    from backstory.server.people import Caller
    from backstory.workspace.history.transcript import ListedTurn
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.workspace import Workspace


_ELSEWHERE = {"tokens", "prompt", "parent_uid", "parent_seq", "stop_reason", "context_window"}
"""Fields of a turn that are not among its facts, or are with what was said."""
NO_TIME, NO_MONTH = datetime(1970, 1, 1, tzinfo=UTC), date.min
"""The earliest time of a text, and the month of what is too old."""
FIRST_MONTH = datetime(2020, 1, 1, tzinfo=UTC)
"""Texts of an earlier time, which no agent of today wrote, lie together, so that no time makes a table too many."""


_NUL = lazy_regex(r"(?<!\\)((?:\\\\)*)\\u0000")


class Derived(Struct, frozen=True):
    """Rows of ``derivation``, of ``turn`` and of ``turn_text``, by their columns."""

    session: dict[str, Any]
    turns: list[dict[str, Any]]
    texts: list[dict[str, Any]]


class Deriving:
    """Works off the jobs of a database. ``folder``: for files while it works; ``now`` gives the time."""

    def __init__(
        self, database: TeamDatabase, folder: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._database, self._folder, self._now = database, folder, now
        self._months, self._ahead = set[date](), set[date]()

    def begin(self) -> int:
        """Remove what a kill left, and queue what earlier rules derived, or nobody; return how many sessions."""
        shutil.rmtree(self._folder, ignore_errors=True)
        queued = 0
        for tenant in self._tenants("select tenants()", ()):
            with self._database.of(tenant) as rows:
                queued += jobs.queue_underived(rows, self._now(), tenant)
        return queued

    def backfill(self, caller: Caller, uid: str | None = None) -> int:
        """Queue the caller's sessions that are not derived as they are now; return how many these are.

        ``uid``: this one, even if it is. What the token is not good for is not among them.
        """
        with self._database.of(caller.tenant) as rows:
            return jobs.queue_underived(rows, self._now(), caller.tenant, caller.person, uid, caller.among)

    def work(self) -> int:
        """Work off all jobs that are free now, of each organisation in turn; return how many were taken."""
        self._make_ahead()
        done, is_more = 0, True
        while is_more:
            waiting = self._tenants("select tenants_with_jobs(%s, %s)", (self._now(), jobs.TRIES_MAX))
            is_more = False
            for tenant in waiting:
                if self.work_one(tenant):
                    done, is_more = done + 1, True
        return done

    def work_one(self, tenant: int) -> bool:
        """Work off the job of an organisation that waits longest; False if none is free."""
        with self._database.of(tenant) as rows:
            job = jobs.take(rows, tenant, self._now())
        if job is not None:
            self._do(job)
        return job is not None

    def _tenants(self, sql: str, values: tuple[Any, ...]) -> list[int]:
        with self._database.of(0) as rows:
            return [tenant for (tenant,) in rows.execute(sql.encode(), values).fetchall()]

    def _do(self, job: DerivingJob) -> None:
        try:
            with self._database.of(job.place.tenant) as rows:
                session = one_session.whole_session(rows, job.place)
                parts = one_session.frames_of(rows, session) if session is not None else None
                of = rows.execute(_REPOSITORY, job.place).fetchone()
            derived = self._derived(job.place, of[0], parts) if of and parts else None
            self._make_months({each["month"] for each in derived.texts} if derived is not None else set())
            with self._database.of(job.place.tenant) as rows:
                if session is not None and derived is not None:
                    _put(rows, session, derived)
                jobs.end(rows, job)
        except DatabaseUnusable as refused:
            if not is_held(refused):
                raise
            with self._database.of(job.place.tenant) as rows:
                jobs.put_back(rows, job, self._now())
        except Exception as refused:  # One that cannot be derived does not keep others waiting.
            with self._database.of(job.place.tenant) as rows:
                jobs.fail(rows, job, type(refused).__name__, self._now())

    def _make_ahead(self) -> None:
        """Have the partitions of this month and the next before something goes into them; tried once."""
        this = month_of(self._now())
        ahead = {this, (this + timedelta(days=31)).replace(day=1)}
        if ahead != self._ahead:
            self._ahead = ahead
            try:
                self._make_months(ahead)
            except DatabaseUnusable as refused:
                if not is_held(refused):
                    raise

    def _make_months(self, months: set[date]) -> None:
        """Have the partitions that texts go into, each made in a transaction of its own."""
        for month in sorted(months - self._months - {NO_MONTH}):
            with self._database.of(0) as rows:
                rows.execute("select make_turn_month(%s)", (month,))
            self._months.add(month)

    def _derived(self, place: ShelfPlace, repository: str, parts: PackedFrames) -> Derived:
        make_private_folder(self._folder)
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            path = Path(folder) / "session.db"
            one_session.build(parts, path, self._ms)
            with one_session.opened(path, place.uid, self._ms) as (workspace, located):
                return derive(workspace, located, place.tenant, repository)

    def _ms(self) -> int:
        return int(self._now().timestamp() * 1_000)


# derived --------------------------------------------------------------------------------------------------------------


def derive(workspace: Workspace, located: LocatedSession, tenant: int, repository: str) -> Derived:
    """Return what is derived of a session of an organisation, as rows. ``repository``: by which tokens see it."""
    reader, session = workspace.reader, located.session
    # The log that is made of the frames is nobody's.
    agents = tuple(each for each in session.agents if each != API) or session.agents
    listed = replace(reader.session(located.store, session), agents=agents)
    events = reader.events(located, form="full")
    said = said_in((each.outline.turn, each.outline.seq, each.outline.part, each.event) for each in events)
    owner, parent, branches = located.store.ask(origins.ties, session.id)
    row = {
        "listed": _json(sessions.as_json(listed)),
        "heading": _text(folded(listed.heading)), "name": _text(session.name), "native_id": _or_none(session.native_id),
        "parent": parent, "relation": session.relation, "is_run": owner is not None,
        "agents": list(agents), "branches": [_text(each) for each in branches],
        "project": _or_none(session.project),
        "figures": report_store.figures_of(located.store, session, listed.heading),
        "work": report_store.work_of(located.store, session),
    }  # fmt: skip
    turns = [(each, said.get(each.number, SaidTurn())) for each in reader.turns(located)]
    facts = [_turn_row(each, its, is_run=owner is not None) for each, its in turns]
    at, now = moment(session.last_active) or datetime.fromisoformat(session.created), moment(workspace.now()) or NO_TIME
    labels = labels_of(repository, _or_none(session.project), agents)
    # What was removed is found nowhere.
    texts = [
        _text_row(each, its, at, now) | {"words": its.words(sign_of(tenant), labels)}
        for each, its in turns
        if its.said and each.removed is None
    ]
    return Derived(session=row, turns=facts, texts=texts)


def _turn_row(listed: ListedTurn, said: SaidTurn, *, is_run: bool) -> dict[str, Any]:
    turn = listed.turn
    facts = {name: value for name, value in msgspec.to_builtins(turn).items() if name not in _ELSEWHERE}
    tokens = {f"{name}_tokens": value for name, value in msgspec.to_builtins(turn.tokens).items()}
    of_server = {
        "number": listed.number, "is_run": is_run, "model": _or_none(turn.model), "native_id": _or_none(turn.native_id),
        "started": moment(turn.started), "ended": moment(turn.ended), "removed": moment(listed.removed),
        "low_usd": listed.cost.low_usd, "high_usd": listed.cost.high_usd,
        "tools": _json(said.tools),
    }  # fmt: skip
    return facts | tokens | of_server


def _text_row(listed: ListedTurn, said: SaidTurn, otherwise: datetime, now: datetime) -> dict[str, Any]:
    """The texts of a turn that are searched, as a row. ``otherwise``: when it was, if nothing says so."""
    at = max(NO_TIME, min(moment(listed.turn.started) or otherwise, now))
    kept = [replace(each, text=_text(each.text)) for each in said.kept]
    return {
        "number": listed.number, "month": month_of(at), "at": at, "said": msgspec.json.encode(kept).decode(),
    }  # fmt: skip


def month_of(at: datetime) -> date:
    """The first day of the month of a time, in UTC; of one before all that agents wrote none."""
    return NO_MONTH if at < FIRST_MONTH else at.astimezone(UTC).date().replace(day=1)


def _text(text: str) -> str:
    """A text as PostgreSQL takes it: without the one character that it does not have."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _json(value: object) -> str:
    """A value as JSON that PostgreSQL takes, likewise; a text that names the escape of that character keeps it."""
    return _text(_NUL.sub(r"\1", msgspec.json.encode(value).decode()))


def _or_none(text: str | None) -> str | None:
    return _text(text) if text else None


def _put(rows: Cursor[Any], session: WholeSession, derived: Derived) -> None:
    """Put what was derived in the place of what was, if the session is still what it was derived from."""
    # Locked, so that who removes it waits, and then removes this, too.
    still = rows.execute(_STILL, (*session.place, session.epoch, session.frames, session.chain)).fetchone()
    if still is None:
        return
    place = dict(zip(("tenant", "person", "session", "machine"), session.place, strict=True))
    jobs.forget_derived(rows, session.place)
    of = place | {"version": jobs.VERSION, "epoch": session.epoch, "frames": session.frames}
    rows.execute(_DERIVED, (session.place.tenant,))
    _insert(rows, "derivation", [of | derived.session])
    _insert(rows, "turn", [place | each for each in derived.turns])
    _insert(rows, "turn_text", [place | each for each in derived.texts])


def _insert(rows: Cursor[Any], table: str, found: list[dict[str, Any]]) -> None:
    if found:
        names = list(found[0])
        values = ", ".join(f"%({name})s" for name in names)
        rows.executemany(f"insert into {table} ({', '.join(names)}) values ({values})".encode(), found)


_REPOSITORY = """
select repository from session where tenant = %s and person = %s and uid = %s and machine = %s
"""
_DERIVED = """
insert into derived as d values (%s, 1) on conflict (tenant) do update set times = d.times + 1
"""
_STILL = """
select from session where tenant = %s and person = %s and uid = %s and machine = %s and epoch = %s and frames = %s
  and chain = %s
for share
"""
