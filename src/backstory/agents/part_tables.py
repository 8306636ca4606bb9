"""The tables ``session``, ``message`` and ``part``, which several agents share: each session becomes lines of JSON.

Source: recorded databases of two agents, of versions 1.18 and 7.7. A message has a role, and its content stands in its
parts, each a row with an object of JSON. Rows are changed while the agent works: a tool's part goes from ``pending`` to
``completed``, a message gets its tokens when it ends. ``event_sequence`` counts the changes of each session.

A line is ``{"table", "row"}``, one a row, with its columns as they are; the first is the session's and has its time. A
copy of a session has new ids and names no origin. Its messages keep their times, so it is inferred from the beginning
that both share, and ``copied_from`` in its first line says so.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from backstory import bounds
from backstory.agents import jsonl
from backstory.agents.contract import SessionRows, UnreadableDatabase, UnreadRows
from backstory.agents.foreign import TooLarge, left_out

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping
    from pathlib import Path

    from backstory.agents.contract import OpenTables
    from backstory.agents.foreign import Row

SESSION, MESSAGE, PART, SEQUENCE, LATER = "session", "message", "part", "event_sequence", "session_message"
TABLES = frozenset({SESSION, MESSAGE, PART, SEQUENCE, LATER})
NEEDED = {
    SESSION: ("id", "directory", "parent_id"),
    MESSAGE: ("id", "session_id", "time_created", "data"),
    PART: ("id", "message_id", "session_id", "data"),
}
PARENTS_MAX = 100
"""A session with more sessions above it has a parent that leads nowhere."""
BEGUN = 3
"""The least lines of a session that is read: its own, a message, and a part of that."""
_OF_SESSION = "where t.session_id = ? collate binary"
_ORDER = "order by t.time_created, t.id"


class PartDatabases:
    """See ``contract.LiveDatabasePart``, in the places of an agent. Builds of another channel add its name."""

    tables = TABLES

    def __init__(self, name: str, variable: str) -> None:
        self._name, self._variable = name, variable

    def databases(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        data = environ.get("XDG_DATA_HOME")
        folder = (home / ".local" / "share" if not data else home / data) / self._name
        # It is named where it is not there, too: it may come, or say why its folder cannot be looked into.
        found = {folder / f"{self._name}.db"}
        with suppress(OSError):
            found.update(each for each in folder.iterdir() if self._is_one(each.name))
        if (named := environ.get(self._variable)) and named != ":memory:":
            found.add(folder / named)
        return sorted(found)

    def _is_one(self, name: str) -> bool:
        return name == f"{self._name}.db" or (name.startswith(f"{self._name}-") and name.endswith(".db"))

    def marks(self, db: OpenTables) -> dict[str, tuple[int, int]]:
        check(db)
        changes = dict(db.select(SEQUENCE, ("aggregate_id", "seq"))) if "seq" in db.columns(SEQUENCE) else {}
        updated = "time_updated" if "time_updated" in db.columns(SESSION) else "0"
        found = db.select(SESSION, ("id", updated))
        return {
            native_id: (_whole(changes.get(native_id)), _whole(at))
            for native_id, at in found
            if isinstance(native_id, str) and native_id
        }

    def sessions(self, db: OpenTables, wanted: Container[str]) -> Iterator[SessionRows | UnreadRows]:
        check(db)
        above = dict(db.select(SESSION, ("id", "parent_id")))
        first = dict(db.select(MESSAGE, ("session_id", "min(t.time_created)"), "group by t.session_id"))
        parents = {each: parent for each, parent in above.items() if each and isinstance(each, str)}
        copies = copied_from(db, {each: first[each] for each in parents if each in first and not parents[each]}, wanted)
        for native_id in parents:
            if native_id in wanted:
                yield from _session(db, native_id, parents, copies.get(native_id))
        if lost := len({*above, *first} - {*parents}):
            rows = "1 session has" if lost == 1 else f"{lost} sessions have"
            yield UnreadRows(reason=f"{rows} messages, but no row with such an id in {SESSION}", is_final=True)


def check(db: OpenTables) -> None:
    """Raise UnreadableDatabase if a database has not these tables."""
    for table, columns in NEEDED.items():
        if missing := set(columns).difference(db.columns(table)):
            what = f"no column {min(missing)}" if db.columns(table) else "no rows that are known here"
            raise UnreadableDatabase(f"its table {table} has {what}: it is of another version")


def copied_from(db: OpenTables, first: dict[str, Any], wanted: Container[str]) -> dict[str, str]:
    """The origin of each wanted session that is a copy: the older one with the longest equal beginning.

    ``first``: the time of each session's first message.
    """
    alike: dict[Any, list[str]] = {}
    for native_id, at in first.items():
        alike.setdefault(at, []).append(native_id)
    began: dict[str, Any] = {}
    found: dict[str, str] = {}
    for group in alike.values():
        if len(group) == 1 or not any(each in wanted for each in group):
            continue
        began = began or dict(db.select(SESSION, ("id", "time_created")))
        group.sort(key=lambda each: (_whole(began.get(each)), each))
        said = [_beginning(db, each) for each in group]
        for place, native_id in enumerate(group):
            shared = [_shared(said[earlier], said[place]) for earlier in range(place)]
            longest = max(shared, default=0)
            if longest:
                found[native_id] = group[shared.index(longest)]
    return found


def _beginning(db: OpenTables, native_id: str) -> list[tuple[Any, ...]]:
    """The messages of a session by what a copy keeps of them: role, time, and the text of a prompt.

    Of a session that is too large to be read there are none.
    """
    db.begin_session()
    with suppress(TooLarge):
        return _messages(db, native_id)
    return []


def _messages(db: OpenTables, native_id: str) -> list[tuple[Any, ...]]:
    role, text = "json_extract(t.data, '$.role')", "json_extract(t.data, '$.text')"
    is_text = "json_valid(t.data) and json_extract(t.data, '$.type') = 'text'"
    texts: dict[Any, list[Any]] = {}
    for message, said in db.select(PART, ("message_id", text), f"{_OF_SESSION} and {is_text}", (native_id,)):
        texts.setdefault(message, []).append(said)
    rest = f"{_OF_SESSION} and json_valid(t.data) {_ORDER}"
    rows = db.select(MESSAGE, ("id", role, "time_created"), rest, (native_id,))
    return [(said_by, at, tuple(texts.get(message, ()))) for message, said_by, at in rows]


def _shared(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _session(
    db: OpenTables, native_id: str, parents: dict[str, Any], origin: str | None
) -> Iterator[SessionRows | UnreadRows]:
    db.begin_session()
    if _leads_back(native_id, parents):
        yield UnreadRows(native_id=native_id, reason="its parent_id leads back to itself", is_final=True)
        return
    try:
        lines, odd = _lines(db, native_id, origin)
    except TooLarge as refused:
        yield UnreadRows(native_id=native_id, reason=str(refused), is_final=True, is_large=True)
        return
    if len(lines) == 1 and "session_id" in db.columns(LATER) and _is_later(db, native_id):
        yield UnreadRows(native_id=native_id, reason=f"its messages stand in {LATER}, which is of a later version")
        return
    if len(lines) < BEGUN:
        # What it is a copy of, the first words say.
        return
    yield SessionRows(native_id=native_id, content=b"".join(lines))
    if odd:
        rows = "1 of its rows is" if odd == 1 else f"{odd} of its rows are"
        yield UnreadRows(native_id=native_id, reason=f"{rows} no JSON: kept as text", is_final=True)
    if db.left_out:
        yield UnreadRows(native_id=native_id, reason=left_out(db), is_final=True)


def _leads_back(native_id: str, parents: dict[str, Any]) -> bool:
    above = parents.get(native_id)
    for _ in range(PARENTS_MAX):
        if not isinstance(above, str) or not above:
            return False
        if above == native_id:
            return True
        above = parents.get(above)
    return True


def _is_later(db: OpenTables, native_id: str) -> bool:
    return bool(db.select(LATER, ("1",), f"{_OF_SESSION} limit 1", (native_id,)))


def _lines(db: OpenTables, native_id: str, origin: str | None) -> tuple[list[bytes], int]:
    """The lines of a session, and how many of its rows have data that is no JSON."""
    odd = 0
    parts: dict[Any, list[Row]] = {}
    for row in db.rows(PART, f"{_OF_SESSION} order by t.message_id, t.id", (native_id,)):
        parts.setdefault(row["message_id"], []).append(row)
    lines = [_first(row, origin) for row in db.rows(SESSION, "where t.id = ? collate binary limit 1", (native_id,))]
    for message in db.rows(MESSAGE, f"{_OF_SESSION} {_ORDER}", (native_id,)):
        for table, row in ((MESSAGE, message), *((PART, each) for each in parts.pop(message["id"], ()))):
            odd += _decode_data(row)
            lines.append(_line(table, row))
    # Parts of messages that are gone are kept, too.
    for rows in parts.values():
        for row in rows:
            odd += _decode_data(row)
            lines.append(_line(PART, row))
    return lines, odd


def _first(row: Row, origin: str | None) -> bytes:
    at = row.get("time_created")
    timestamp = bounds.iso(at) if isinstance(at, int) else None
    inferred = {} if origin is None else {"copied_from": origin}
    return msgspec.json.encode({"table": SESSION, "timestamp": timestamp, **inferred, "row": row}) + b"\n"


def _line(table: str, row: Row) -> bytes:
    return msgspec.json.encode({"table": table, "row": row}) + b"\n"


def _decode_data(row: Row) -> bool:
    """Have a row's JSON as it stands in the line; returns True if it is none, which is kept as text."""
    data = row.get("data")
    if not isinstance(data, str):
        return True
    raw = data.encode("utf-8", "surrogatepass")
    try:
        msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return not jsonl.is_whole(raw)
    if b"\n" not in raw:
        row["data"] = msgspec.Raw(raw)
    return False


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0
