"""Which time a report is about, and where else there is history when that holds none."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backstory.bounds import time_ms
from backstory.workspace.sessions import Page

if TYPE_CHECKING:
    from datetime import tzinfo

    from backstory.workspace.reader import Reader
    from backstory.workspace.sessions import SessionFilter

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def last(wanted: SessionFilter, now_ms: int, span_ms: int) -> SessionFilter:
    """The same sessions in the time up to now, if no time was asked for."""
    if wanted.since is not None or wanted.until is not None:
        return wanted
    return replace(wanted, since=now_ms - span_ms)


def nearest_day(reader: Reader, wanted: SessionFilter, zone: tzinfo | None = None) -> str | None:
    """The day, as ISO 8601, of the last such session before the time that is asked for, else of the newest of all."""
    newest = Page(limit=1)
    found = reader.sessions(replace(wanted, since=None, until=wanted.since), newest).sessions
    found = found or reader.sessions(replace(wanted, since=None, until=None), newest).sessions
    newest_ms = time_ms(found[0].last_active) if found else None
    return datetime.fromtimestamp(newest_ms / 1000, zone).date().isoformat() if newest_ms else None
