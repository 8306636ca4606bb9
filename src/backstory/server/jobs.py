"""Jobs: sessions whose search text and facts are to be derived, in the database, so that a kill loses none.

What comes is queued in the transaction that stores it. Who works takes a job for a while, so that one whose worker was
killed is taken by the next; what came meanwhile is derived again. What was derived by earlier rules is derived anew.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg import Cursor

VERSION = 6
"""The rules by which is derived. Raised when they change: a newer server derives all anew."""
TAKEN_FOR = timedelta(seconds=60)
"""A job that was taken longer ago is free again: whoever took it is gone."""
TRIES_MAX = 5
PER_EVENT, WAIT_MAX = timedelta(milliseconds=5), timedelta(seconds=60)
"""The time that a session which grows waits until it is derived again, by its events: each time all of it is read."""


class ShelfPlace(NamedTuple):
    """A session on the shelf of a machine."""

    tenant: int
    person: int
    uid: str
    machine: str


class DerivingJob(NamedTuple):
    """A session that is to be derived. ``revision``: raised by what comes; ``tries``: with this one."""

    place: ShelfPlace
    revision: int
    tries: int


def queue(rows: Cursor[Any], place: ShelfPlace, now: datetime, events_before: int) -> None:
    """Have a session derived, in the transaction that changes it. ``events_before``: those that it had before."""
    rows.execute(_QUEUE, (*place, now + min(events_before * PER_EVENT, WAIT_MAX), VERSION))


def forget_derived(rows: Cursor[Any], place: ShelfPlace) -> None:
    """Erase what was derived of a session; whoever does has its own row."""
    for table in ("turn", "turn_text", "derivation"):
        rows.execute(_FORGET.format(table=table).encode(), place)


def queue_underived(
    rows: Cursor[Any], now: datetime, tenant: int, person: int | None = None, uid: str | None = None,
    among: list[str] | None = None,
) -> int:  # fmt: skip
    """Queue sessions that are not derived as they are now, by these rules; return how many these are.

    ``person``, ``uid``, ``among``: only this one's, only this session, only of these repositories. One that is named
    is queued in any case.
    """
    of = (tenant, person, person, uid, uid, among, among, uid, VERSION)
    return rows.execute(_UNDERIVED, (now, VERSION, *of)).rowcount


def take(rows: Cursor[Any], tenant: int, now: datetime) -> DerivingJob | None:
    """Take the job of an organisation that waits longest; None if none is free."""
    row = rows.execute(_TAKE, (tenant, now, TRIES_MAX, now + TAKEN_FOR, VERSION)).fetchone()
    return None if row is None else DerivingJob(ShelfPlace(tenant, *row[:3]), *row[3:])


def end(rows: Cursor[Any], job: DerivingJob) -> None:
    """Remove a job that is done, unless more came meanwhile."""
    rows.execute(_DONE, (*job.place, job.revision, job.tries))


def put_back(rows: Cursor[Any], job: DerivingJob, now: datetime) -> None:
    """Have a job taken again later as if this had been no try: somebody else was in its way."""
    rows.execute(_BACK, (now + TAKEN_FOR, *job.place, job.revision, job.tries))


def fail(rows: Cursor[Any], job: DerivingJob, error: str, now: datetime) -> None:
    """Have a job tried again later. ``error``: a name; no words, which may be of the history."""
    rows.execute(_FAILED, (error, now + timedelta(minutes=2**job.tries), *job.place, job.revision, job.tries))


_QUEUE = """
insert into job as j (tenant, person, session, machine, revision, free_at, tries, version)
values (%s, %s, %s, %s, 1, %s, 0, %s)
on conflict (tenant, person, session, machine) do update set revision = j.revision + 1, tries = 0, error = null,
  free_at = excluded.free_at, version = excluded.version
"""
_FORGET = """
delete from {table} where tenant = %s and person = %s and session = %s and machine = %s
"""
_UNDERIVED = """
insert into job as j (tenant, person, session, machine, revision, free_at, tries, version)
select s.tenant, s.person, s.uid, s.machine, 1, %s, 0, %s
from session s left join derivation d on d.tenant = s.tenant and d.person = s.person and d.session = s.uid
  and d.machine = s.machine
where s.tenant = %s and (%s::bigint is null or s.person = %s) and (%s::text is null or s.uid = %s)
  and (%s::text[] is null or s.repository = any(%s))
  and (%s::text is not null or d.version is distinct from %s or (d.epoch, d.frames) <> (s.epoch, s.frames))
on conflict (tenant, person, session, machine) do update set tries = 0, error = null, version = excluded.version,
  free_at = least(j.free_at, excluded.free_at)
"""
_TAKE = """
with free as materialized (
  select tenant, person, session, machine from job where tenant = %s and free_at <= %s and tries < %s
  order by free_at limit 1 for update skip locked)
update job j set free_at = %s, tries = j.tries + 1, version = %s from free
where j.tenant = free.tenant and j.person = free.person and j.session = free.session and j.machine = free.machine
returning j.person, j.session, j.machine, j.revision, j.tries
"""
"""Materialized: as a part of the join it may be asked again for each job, and then takes them all."""
_DONE = """
delete from job where tenant = %s and person = %s and session = %s and machine = %s and revision = %s and tries = %s
"""
"""A job that was made anew meanwhile has the same revision, and was not tried."""
_BACK = """
update job set tries = tries - 1, free_at = %s
where tenant = %s and person = %s and session = %s and machine = %s and revision = %s and tries = %s
"""
_FAILED = """
update job set error = %s, free_at = %s
where tenant = %s and person = %s and session = %s and machine = %s and revision = %s and tries = %s
"""
