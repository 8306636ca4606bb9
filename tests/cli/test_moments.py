"""Times as people say them: in their own zone, by the calendar and not by hours."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from backstory.bounds import TIME_MAX_MS
from backstory.derive.moments import heading_of, when, when_below_heading
from tests.support.every import every

if TYPE_CHECKING:
    from collections.abc import Iterator

ZONE = "Asia/Kolkata"


@pytest.fixture(autouse=True)
def _zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", ZONE)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(ZONE)).timestamp() * 1000)


NOW = "2026-11-22T00:40:00"


@every(
    ("then", "said", "below", "heading"),
    [
        (NOW, "0 s ago", "0 s ago", "today"),
        ("2026-11-22T00:39:48", "12 s ago", "12 s ago", "today"),
        ("2026-11-22T00:39:01", "59 s ago", "59 s ago", "today"),
        ("2026-11-22T00:39:00", "1 min", "1 min", "today"),
        # Of the day before, and less than an hour ago.
        ("2026-11-21T23:41:00", "59 min", "59 min", "yesterday"),
        ("2026-11-21T23:40:00", "yesterday", "23:40", "yesterday"),
        ("2026-11-21T00:00:00", "yesterday", "00:00", "yesterday"),
        ("2026-11-20T23:59:59", "20 Nov", "23:59", "Friday 20 November"),
        ("2026-11-16T12:00:00", "16 Nov", "12:00", "Monday 16 November"),
        ("2026-11-15T12:00:00", "15 Nov", "15 Nov", "November 2026"),
        ("2026-02-01T12:00:00", "1 Feb", "1 Feb", "February 2026"),
        ("2025-12-31T23:59:59", "31 Dec 2025", "31 Dec", "December 2025"),
        # A clock that goes ahead.
        ("2026-11-22T00:41:00", "00:41", "00:41", "today"),
        ("2026-11-23T09:00:00", "23 Nov", "23 Nov", "November 2026"),
    ],
)
def test_a_time_is_said_as_a_person_would(then: str, said: str, below: str, heading: str) -> None:
    found = (when(at(then), at(NOW)), when_below_heading(at(then), at(NOW)), heading_of(at(then), at(NOW)))
    assert found == (said, below, heading)


def test_later_on_the_day_the_time_of_day_is_said() -> None:
    assert when(at("2026-11-22T09:05:00"), at("2026-11-22T18:00:00")) == "09:05"


@pytest.mark.parametrize(
    ("ms", "said"), [(None, "–"), (-1, "no time"), (TIME_MAX_MS + 1, "no time"), (TIME_MAX_MS, "1 Jan 10000")]
)
def test_a_time_that_is_none_is_no_error(ms: int | None, said: str) -> None:
    if said != "1 Jan 10000":
        assert (when(ms, at(NOW)), when_below_heading(ms, at(NOW))) == (said, said)
        assert heading_of(ms, at(NOW)) == "at an unknown time"
    else:
        # In Kolkata that is the year 10000, which no calendar of ours has: it is said in UTC.
        assert when(ms, at(NOW)) == "31 Dec 9999"
