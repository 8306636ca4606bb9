"""Rows of a session or a person, erased: history, what is derived of it, and marks of what a person removed.

The audit keeps that it was done; it holds neither names nor content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg import Cursor

OF_SESSION = {
    "frame": "session", "session": "uid", "turn": "session", "turn_text": "session", "derivation": "session",
    "job": "session", "live": "session", "live_run": "session", "steering": "session",
}  # fmt: skip
"""The tables with rows of a session as a machine has it, and their columns of its uid.

What is derived goes behind the session: who derives holds its row, and writes nothing of one that is gone.
"""
OF_MACHINE = (*OF_SESSION, "board")
"""The tables with rows of what a machine sent."""
OF_PERSON = (*OF_MACHINE, "invite", "machine", "removal", "token")
"""The tables with rows of a person, besides the person's own row and the audit."""


def erase_session(rows: Cursor[Any], tenant: int, person: int, uid: str) -> bool:
    """Erase a session of a person, of all machines; False if there was none."""
    of, is_gone = (tenant, person, uid), False
    for table, column in OF_SESSION.items():
        gone = rows.execute(f"delete from {table} where tenant = %s and person = %s and {column} = %s".encode(), of)
        is_gone |= gone.rowcount > 0
    return is_gone


def erase_live(rows: Cursor[Any], place: tuple[int, int, str], turns: Mapping[str, Sequence[bytes]]) -> None:
    """Erase what a machine told of runs while they went on, of which turns came: the lines of each session's."""
    going = rows.execute(_GOING, (*place, [*turns])).fetchall()
    uids = {uid: {msgspec.json.decode(each, type=_Uid).uid for each in turns[uid]} for uid, _ in going}
    came = [(uid, run) for uid, run in going if run in uids[uid]]
    for table in ("live", "live_run") if came else ():
        of = [list(each) for each in zip(*came, strict=True)]
        rows.execute(f"delete from {table} l using {_THESE}".encode(), (*of, *place))


def erase_machine(rows: Cursor[Any], tenant: int, person: int, machine: str) -> int:
    """Erase what a machine of a person sent; return the number of sessions that there were."""
    of, count = (tenant, person, machine), 0
    for table in OF_MACHINE:
        gone = rows.execute(f"delete from {table} where tenant = %s and person = %s and machine = %s".encode(), of)
        count += gone.rowcount if table == "session" else 0
    return count


def erase_history(rows: Cursor[Any], tenant: int, person: int) -> None:
    """Erase all sessions of a person."""
    for table in OF_MACHINE:
        rows.execute(f"delete from {table} where tenant = %s and person = %s".encode(), (tenant, person))


def erase_person(rows: Cursor[Any], tenant: int, person: int) -> int:
    """Erase a person and all that is theirs; return the number of sessions that there were."""
    of, count = (tenant, person), 0
    # Who stores something of theirs has this row: it goes first, so that what is stored meanwhile is erased, too.
    rows.execute("delete from person where tenant = %s and id = %s", of)
    for table in OF_PERSON:
        gone = rows.execute(f"delete from {table} where tenant = %s and person = %s".encode(), of)
        count += gone.rowcount if table == "session" else 0
    return count


class _Uid(Struct):
    uid: str


_GOING = "select session, run from live_run where tenant = %s and person = %s and machine = %s and session = any(%s)"
_THESE = """
unnest(%s::text[], %s::text[]) o(session, run)
where l.tenant = %s and l.person = %s and l.machine = %s and l.session = o.session and l.run = o.run
"""
