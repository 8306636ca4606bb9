"""Rows of one session, as columns and values, for who counts with them elsewhere. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from backstory.ask.costs import Costs, price_table
from backstory.model import PARTIAL
from backstory.store import schema
from backstory.store.schema import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw

TABLES = ("sessions", "turns", "compactions", "session_branches")
PROMPT_CHARS = 200
"""The beginning of a prompt, which is enough for titles."""
_LEFT_OUT = frozenset({"id", "session_id", "prefix_chars", "prefix_sha256"})
_SHORTENED = {
    "prompt": f"substr(prompt, 1, {PROMPT_CHARS})",
    # Its length tells copies of it apart.
    "summary": "replace(hex(zeroblob(length(summary))), '00', ' ')",
}


class SessionTexts(NamedTuple):
    """The checkpoints of a session, as columns and values, and the summaries of its compactions, in their order."""

    checkpoints: tuple[list[str], list[list[Any]]]
    summaries: list[str]


def columns(table: str) -> tuple[str, ...]:
    """The columns of a table that are read: those that every copy of its rows has, without texts of contexts."""
    found = schema.names(table, schema.KEPT, schema.DECIDED) or schema.names(table, schema.DERIVED)
    return tuple(each for each in found if each not in _LEFT_OUT)


def rows_of(db: apsw.Connection, session_id: int) -> dict[str, tuple[list[str], list[list[Any]]]]:
    """Return the columns and the rows of each table, long texts cut."""
    found = dict[str, tuple[list[str], list[list[Any]]]]()
    for table in TABLES:
        names = columns(table)
        shown = ", ".join(_SHORTENED.get(each, each) for each in names)
        found[table] = [*names], _read(db, table, shown, session_id)
    return found


def texts_of(db: apsw.Connection, session_id: int) -> SessionTexts:
    """Return the texts of a session that stand for parts of it."""
    names = columns("checkpoints")
    summaries = [text for (text,) in _read(db, "compactions", "summary", session_id)]
    return SessionTexts(([*names], _read(db, "checkpoints", ", ".join(names), session_id)), summaries)


def _read(db: apsw.Connection, table: str, shown: str, session_id: int) -> list[list[Any]]:
    key = "id" if table == "sessions" else "session_id"
    order = "branch" if table == "session_branches" else "id"
    rows = db.execute(f"select {shown} from {table} where {key} = ? order by {order}", (session_id,))
    return [list(each) for each in rows]


def partial_chars(db: apsw.Connection, session_id: int) -> dict[str, int]:
    """Return how much the model wrote in the turns whose output was not counted to its end, by their uids."""
    partial = "select id, uid from turns where session_id = ? and tokens_source = ?"
    uids = dict(fetch(db, tuple[int, str], partial, (session_id, PARTIAL)))
    chars = Costs(db, price_table()).chars([session_id]) if uids else {}
    return {uid: chars[turn_id] for turn_id, uid in uids.items() if turn_id in chars}


def turns_by_identity(db: apsw.Connection, identities: Iterable[str]) -> list[tuple[str, int, str | None]]:
    """Those of these sessions that are here: id, and uid of each turn; None for a session without one."""
    return fetch(db, tuple[str, int, str | None], _TURNS, (schema.json_list(identities),))


_TURNS = """
select substr(s.uid, 11), s.id, t.uid from sessions s left join turns t on t.session_id = s.id
where substr(s.uid, 11) in (select value from json_each(?))
"""
