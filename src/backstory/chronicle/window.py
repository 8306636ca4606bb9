"""The time that a report is about, and where else there is history if that time has none."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backstory.bounds import local, time_ms
from backstory.workspace.history.sessions import Page

if TYPE_CHECKING:
    from backstory.workspace.history.sessions import ListedSession, SessionFilter
    from backstory.workspace.reader import Reader

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def last(wanted: SessionFilter, now_ms: int, span_ms: int) -> SessionFilter:
    """The same sessions in the time up to now, if no time was asked for."""
    if wanted.since is not None or wanted.until is not None:
        return wanted
    return replace(wanted, since=now_ms - span_ms)


def window_words(wanted: SessionFilter) -> str:
    """Return a report's subject in words: ``about "the parser" from 2026-01-01 to 2026-01-30 18:00``."""
    about = f'about "{wanted.about}" ' if wanted.about else ""
    since, until = wanted.since, wanted.until
    if since is None and until is None:
        return f"{about}of all time"
    begin = "" if since is None else f"from {local(since)}"
    end = "until now" if until is None else f"to {local(until)}"
    return f"{about}{begin} {end}".strip()


def nearest_day(reader: Reader, wanted: SessionFilter) -> str | None:
    """The day nearest to the time that is asked for on which such a session has a turn, as ISO 8601; None: no day."""
    since, until = wanted.since, wanted.until
    before = None if since is None else _day(reader, wanted, _newest(reader, wanted, None, since), before=since)
    after = None if until is None else _day(reader, wanted, _first_after(reader, wanted, until), after=until)
    if before is None or after is None or since is None or until is None:
        return before or after or _day(reader, wanted, _newest(reader, wanted, None, None))
    is_later = _start(after) - until < since - _start(before) - DAY_MS
    return after if is_later else before


def _newest(reader: Reader, wanted: SessionFilter, since: int | None, until: int | None) -> ListedSession | None:
    found = reader.sessions(replace(wanted, since=since, until=until), Page(limit=1)).sessions
    return found[0] if found else None


def _first_after(reader: Reader, wanted: SessionFilter, after: int) -> ListedSession | None:
    """One of the first sessions that were active after a moment: by halves, since lists begin with the newest."""
    newest = _newest(reader, wanted, after, None)
    last_ms = None if newest is None else time_ms(newest.last_active)
    if newest is None or last_ms is None:
        return newest
    low, high, found = 0, (last_ms - after) // DAY_MS + 1, newest
    while high - low > 1:
        middle = (low + high) // 2
        earlier = _newest(reader, wanted, after, after + middle * DAY_MS)
        low, high, found = (middle, high, found) if earlier is None else (low, middle, earlier)
    return _newest(reader, wanted, after, after + high * DAY_MS) or found


def _day(
    reader: Reader, wanted: SessionFilter, session: ListedSession | None, *, before: int | None = None,
    after: int | None = None,
) -> str | None:  # fmt: skip
    """The last day on which a session has a turn that began before a moment, else the first behind one."""
    from backstory.workspace.history.stats import StatsQuery  # only a report that is empty asks

    if session is None:
        return None
    mine = replace(wanted, uids=(session.uid,), since=after, until=before)
    days = [each.key.value for each in reader.stats(StatsQuery(wanted=mine, by="day")).groups if each.key.value]
    return None if not days else days[0] if after is not None else days[-1]


def _start(day: str) -> int:
    return int(datetime.fromisoformat(day).timestamp() * 1000)
