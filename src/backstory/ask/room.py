"""The room that sessions take in a store's file: the file's own pages, shared out by what each session has in them.

The shares of all sessions, and what is nobody's, add up to the file without its free pages. Reads only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import apsw
from msgspec import Struct, field

from backstory.model import Relation, ToolResult, UserMessage
from backstory.store import codec
from backstory.store.intake import claims
from backstory.store.schema import fetch, sql_list

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from backstory.store.codec import EventCodec

STEPS = 5
"""The progress of ``measure`` is told in so many steps."""


class RoomSession(NamedTuple):
    """A session, as far as a choice needs it. ``active``: ms; when it began, where it has no event with a time.

    ``bytes``: of its logs, as the agents wrote them.
    """

    id: int
    uid: str
    name: str
    number: int | None
    title: str | None
    owner: str | None
    agent: str | None
    project: str | None
    repository: str | None
    root: str | None
    cwd: str | None
    worktree: str
    created: str
    active: int
    parent_id: int | None
    is_subagent: bool
    is_imported: bool
    bytes: int


def fitting(db: apsw.Connection, conditions: Sequence[str], values: Sequence[object]) -> frozenset[int]:
    """The ids of the sessions ``s`` that these conditions let through."""
    query = f"select s.id from sessions s where {' and '.join(conditions) or '1'}"
    return frozenset(each for (each,) in fetch(db, tuple[int], query, tuple(values)))


def sessions(db: apsw.Connection) -> list[RoomSession]:
    """Every session of a store, also those that lists do not show."""
    return fetch(db, RoomSession, _SESSIONS, (Relation.SUBAGENT,))


_SESSIONS = """
select s.id, s.uid, s.name, s.number, s.title, s.owner, coalesce(
  (select agent from turns where session_id = s.id order by first_seq desc limit 1),
  (select agent from logs where session_id = s.id order by id limit 1)), s.project, s.repository, s.root, s.cwd,
  s.worktree, s.created, coalesce(s.last_active, cast(strftime('%s', s.created) as integer) * 1000, 0), s.parent_id,
  s.relation is ?, s.imported is not null,
  (select coalesce(sum(read_to), 0) from logs where session_id = s.id)
from sessions s order by s.id
"""


def families(db: apsw.Connection, rows: Sequence[RoomSession], *, of_subagents: bool = False) -> dict[int, list[int]]:
    """The ids of the sessions that a removal is asked for, each with those that go with it, itself first.

    ``of_subagents``: the topmost subagents whose parent is here, and not the sessions that they worked for.
    """
    below: dict[int, list[int]] = {}
    for each in rows:
        if each.is_subagent and each.parent_id is not None:
            below.setdefault(each.parent_id, []).append(each.id)
    with_runs = {each.id: claims.logs_of(db, each.id) for each in rows if each.owner is not None}
    logs = {log for ids in with_runs.values() for log in ids}
    is_below = {each for ids in below.values() for each in ids}
    if of_subagents:
        first = [each.id for each in rows if each.id in is_below and each.parent_id not in is_below]
    else:
        first = [each.id for each in rows if each.id not in is_below and each.id not in logs]
    found: dict[int, list[int]] = {}
    for top in first:
        family, waiting = dict[int, None](), [top, *with_runs.get(top, ())]
        while waiting:
            each = waiting.pop(0)
            if each not in family:
                family[each] = None
                waiting += below.get(each, ())
        found[top] = [*family]
    return found


class KindWeight(NamedTuple):
    """The weight of one kind of events in a session: bytes of their records, of themselves, and of their words."""

    logs: float
    events: float
    words: float


class Share(Struct):
    """The bytes of the file that a session takes, by the tables that they are in."""

    logs: float = 0
    events: float = 0
    index: float = 0
    sidecars: float = 0
    derived: float = 0
    other: float = 0
    kinds: dict[str, KindWeight] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """All of it."""
        return round(self.logs + self.events + self.index + self.sidecars + self.derived + self.other)

    def of_kinds(self, kinds: Collection[str]) -> KindWeight:
        """The bytes of logs, of events and of the index that events of some kinds take, about."""
        sums = [sum(each) for each in zip(*self.kinds.values(), strict=True)] or [0.0] * 3
        mine = [sum(each) for each in zip(*(self.kinds[kind] for kind in self.kinds if kind in kinds), strict=True)]
        parts = [part / whole if whole else 0.0 for part, whole in zip(mine or [0.0] * 3, sums, strict=True)]
        return KindWeight(self.logs * parts[0], self.events * parts[1], self.index * parts[2])


class FileRoom(Struct, frozen=True, kw_only=True):
    """The room in a file. ``own``: what stays without any session; ``free``: bytes of pages that hold nothing."""

    used: int
    free: int
    own: int
    shares: Mapping[int, Share]


_GROUPS = {
    "logs": ("chunks", "sqlite_autoindex_chunks_1", "idx_chunks_lender", "lent", "numbers", "record_ids"),
    # Of the index, too, each event has rows that stay as long as it does, whatever its words.
    "events": ("events", "sqlite_autoindex_events_1", "search_index_content", "search_index_docsize"),
    "sidecars": ("sidecars", "sqlite_autoindex_sidecars_1", "side_texts", "idx_side_texts_session"),
    "other": ("sessions", "turns", "logs", "branches", "compactions", "log_places"),
}
_INDEX, _OWN = (
    "search_index",
    ("dictionaries", "meta", "forgotten", "context_items", "sqlite_schema", "sqlite_sequence"),
)
_OTHER_INDEXES = ("idx_sessions", "idx_turns", "idx_logs", "idx_log_places", "idx_compactions")
_GROUP_OF = {table: group for group, tables in _GROUPS.items() for table in tables}
_WEIGHTS: dict[str, str] = {
    "logs": "select l.session_id, total(length(c.data)) + 64 * count(*) from chunks c "
    "join logs l on l.id = c.log_id group by 1",
    "events": "select session_id, total(length(data)) + 40 * count(*), total(char_len) + 8 * count(*), 40 * count(*), "
    "kind, total(length) from events group by 1, 5",
    "sidecars": "select l.session_id, total(length(c.data)) + 64 * count(*) from sidecars c "
    "join logs l on l.id = c.log_id group by 1",
    "other": "select t.session_id, 300 * count(*) + total(length(t.prompt)), 100 * count(*) + total(length(x.answer)) "
    "from turns t left join turn_texts x on x.turn_id = t.id group by 1",
}  # fmt: skip
_SESSION_WEIGHT = 1000
"""The bytes that the rows of any session take beside those of its turns, about."""


def measure(db: apsw.Connection, note: Callable[[int, int], None] = lambda done, total: None) -> FileRoom:
    """Share the file out. ``note``: told how far it is."""
    page: int = db.execute("pragma page_size").get or 0
    pages, free = (int(db.execute(f"pragma {name}").get or 0) for name in ("page_count", "freelist_count"))
    note(0, STEPS)
    weights, kinds = _weights(db, note)
    room, own = _tables(db, page)
    shares: dict[int, Share] = {}
    for group, by_session in weights.items():
        total = sum(by_session.values())
        for session_id, weight in by_session.items():
            share = shares.setdefault(session_id, Share(kinds=kinds.get(session_id, {})))
            setattr(share, group, room.get(group, 0) * weight / total if total else 0)
    note(STEPS, STEPS)
    used = (pages - free) * page
    # What no session has a part of, such as a table that only rows without a session are in, is the store's own.
    own = max(used - sum(each.bytes for each in shares.values()), own)
    return FileRoom(used=used, free=free * page, own=own, shares=shares)


def images(db: apsw.Connection) -> dict[int, float]:
    """The bytes of images in the logs of each session, as they are packed, about."""
    found: dict[int, float] = {}
    codecs: dict[int, EventCodec] = {}
    # What an event says of an image is short, and its record is long.
    for session_id, spare, data in fetch(db, tuple[int, int, bytes | str], _LONG_RECORDS):
        if IMAGE in codec.unpack_event(db, codecs, data):
            found[session_id] = found.get(session_id, 0) + spare * PACKED_IMAGE
    return found


IMAGE = b"[image]"
PACKED_IMAGE = 0.76
"""The bytes that one of an image takes when it is packed, written with 64 letters as it is in a log."""
_LONG_RECORDS = (
    "select session_id, length - 2 * char_len, data from events "
    f"where kind in {sql_list([UserMessage, ToolResult])} and length > 4000 and length > 3 * char_len"
)
_Weights = dict[str, dict[int, float]]
_KindWeights = dict[int, dict[str, KindWeight]]


def _weights(db: apsw.Connection, note: Callable[[int, int], None]) -> tuple[_Weights, _KindWeights]:
    """Return the weight of each session in each group of tables; of its events, by their kinds."""
    known = {int(str(each)) for (each,) in db.execute("select id from sessions")}
    found: _Weights = {name: {} for name in ("logs", "events", "index", "sidecars", "derived", "other")}
    found["other"] = dict.fromkeys(known, float(_SESSION_WEIGHT))
    kinds: _KindWeights = {}
    for step, (group, query) in enumerate(_WEIGHTS.items(), 1):
        groups = ("events", "index", "derived") if group == "events" else (group, "derived")
        for row in db.execute(query):
            key = int(str(row[0]))
            if key not in known:
                continue
            weights = [float(str(each)) for each in row[1:4]]
            for name, weight in zip(groups, weights, strict=False):
                found[name][key] = found[name].get(key, 0) + weight
            if group == "events":
                kinds.setdefault(key, {})[str(row[4])] = KindWeight(float(str(row[5])), *weights[:2])
        note(step, STEPS)
    return found, kinds


def _tables(db: apsw.Connection, page: int) -> tuple[dict[str, int], int]:
    """The bytes of each group of tables that go with their rows, and those that stay."""
    room, own = dict[str, int](), 0
    for name, size in _sizes(db):
        if name in _OWN:
            own += size
            continue
        group = _GROUP_OF.get(name) or ("index" if name.startswith(_INDEX) else None)
        group = group or ("other" if name.startswith(_OTHER_INDEXES) else "derived")
        # A table without rows still has a page.
        room[group] = room.get(group, 0) + size - page
        own += page
    return room, own


_STATISTICS = "select name, pgsize from dbstat where aggregate = 1"


def _sizes(db: apsw.Connection) -> list[tuple[str, int]]:
    """The bytes of every table and index; about what the large ones hold, where SQLite has no statistics of them."""
    try:
        return fetch(db, tuple[str, int], _STATISTICS)
    except apsw.SQLError:
        page: int = db.execute("pragma page_size").get or 0
        large = (("chunks", "data"), ("events", "data"), ("sidecars", "data"), ("search_index_data", "block"))
        held = {table: db.execute(f"select total(length({column})) from {table}").get for table, column in large}
        return [(table, page + int(str(size or 0).partition(".")[0])) for table, size in held.items()]
