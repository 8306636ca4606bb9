"""A record of what was done in an organisation, by whom and when, without content: lines chained by hashes."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Cursor


def note(rows: Cursor[Any], tenant: int, person: int | None, action: str, what: str, now: datetime) -> None:
    """Add a line, in the transaction of what was done. ``what`` holds no content."""
    # One at a time: a line is chained to the one before it.
    rows.execute("select pg_advisory_xact_lock(%s)", (tenant,))
    last = rows.execute(
        "select number, hash from audit where tenant = %s order by number desc limit 1", (tenant,)
    ).fetchone()
    number, before = (last[0] + 1, bytes(last[1])) if last is not None else (1, b"")
    chain = _hash(before, tenant, number, now, person, action, what)
    rows.execute(
        "insert into audit values (%s, %s, %s, %s, %s, %s, %s)", (tenant, number, now, person, action, what, chain)
    )


def _hash(before: bytes, tenant: int, number: int, at: datetime, person: int | None, action: str, what: str) -> bytes:
    """The hash of a line: over the one before it and what it says."""
    said = f"{tenant} {number} {at.astimezone(UTC).isoformat()} {person} {action} {what}"
    return hashlib.sha256(before + said.encode()).digest()


def first_wrong(rows: Cursor[Any], tenant: int) -> int | None:
    """Return the number of the first line that was changed, or behind which one is missing; None if all are right."""
    before, expected = b"", 1
    for number, at, person, action, what, kept in rows.execute(
        "select number, at, person, action, object, hash from audit where tenant = %s order by number", (tenant,)
    ):
        if number != expected or bytes(kept) != _hash(before, tenant, number, at, person, action, what):
            return expected
        before, expected = bytes(kept), number + 1
    return None
