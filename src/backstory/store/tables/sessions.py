"""Sessions in the store: listing, finding the one that is meant, naming, removing. Never commits."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backstory import errors, ids
from backstory.derive import naming
from backstory.derive.naming import repository_name
from backstory.lazy import lazy_module
from backstory.model import Relation
from backstory.store import schema
from backstory.store.intake import claims, coverage
from backstory.store.moves import VALUE_CHARS_MAX
from backstory.store.schema import fetch
from backstory.store.tables import turns
from backstory.store.tables.session_filter import (
    FIRST_PROMPT,
    OUTCOME,
    TITLED,
    ListFilter,
    listed_conditions,
    title_pattern,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from backstory.store.intake import append, derived_tables
    from backstory.store.moves import Move, Moves
    from backstory.store.tables import event_rows, lent, logs
else:
    append = lazy_module("backstory.store.intake.append")
    derived_tables = lazy_module("backstory.store.intake.derived_tables")
    event_rows = lazy_module("backstory.store.tables.event_rows")
    lent = lazy_module("backstory.store.tables.lent")
    logs = lazy_module("backstory.store.tables.logs")

CANDIDATES_SHOWN_MAX = 8
CALLED_CHARS_MAX = 40
UID_SHOWN = 12
NATIVE_LETTERS_LEAST = 4
"""The beginning of an agent's own id has at least so many letters."""
NUMBER_DIGITS_MAX = 18
"""A longer number does not fit a column, so no session has it."""


class Session(Struct, frozen=True, kw_only=True):
    """One session, as listed. Times in ms since 1970 except ``created`` (ISO 8601); sums are over its turns."""

    id: int
    uid: str
    number: int | None
    name: str
    title: str | None
    agents: tuple[str, ...]
    project: str | None
    repository: str | None
    branch: str | None
    cwd: str | None
    worktree: str
    created: str
    last_active: int | None
    turns: int
    events: int
    completed: int | None
    duration_ms: int | None
    cost_usd: float | None
    parent_uid: str | None
    relation: str | None
    native_id: str | None
    first_prompt: str | None
    elsewhere: str | None = None
    """The store from elsewhere that it was taken from, or that it is in."""
    root: str | None = None
    """The root of the worktree that it began in, as this machine had it."""
    outcome: str | None = None
    """The outcome of its last turn; None while that is open."""
    is_own: bool = False
    """True if the store that it was read from owns it: its number means it there."""
    tokens: int | None = None
    """Tokens that its turns read and wrote, caches included, without subagents; None where nothing of it is known."""
    context_chars: int | None = None
    """Characters of its context since the summary in force; None: not known."""
    context_limit: int | None = None
    """From how many on that is summarised, as it was when they were counted."""
    partial_tokens: int = 0
    """The number of these turns of which a count is missing, or was lost: ``tokens`` is then a lower bound."""
    recorded_cwd: str | None = None
    """``cwd`` as it was recorded, if the folder was moved since."""
    shown: naming.ShownProject | None = None
    """Its project on screens, as the names of all projects were noted."""
    pruned: str | None = None
    """The words for what was pruned of it in part, as ``pruned.what`` has them; None: it is whole."""
    saying: str | None = None
    """The text for its title where its first prompt says too little; see ``turns.sayings``."""

    @property
    def shown_number(self) -> str | None:
        """``S3``, or None for a session that is owned by its log."""
        return None if self.number is None else f"S{self.number}"

    @property
    def said_folder(self) -> str:
        """The folder that it began in as its texts name it, also when that was moved since; '' if it is not known."""
        return self.recorded_cwd or self.cwd or ""

    @property
    def shown_name(self) -> str:
        """The name it is shown by: its own, its number, or its title."""
        return self.name or self.shown_number or self.shown_title

    @property
    def shown_title(self) -> str:
        """The title in a line: its name, its agent's title for it, or the first prompt that says enough."""
        return naming.title_of(self.name, self.title, self.saying or self.first_prompt)

    @property
    def pruned_fact(self) -> str:
        """The words for one that was pruned in part, as lists have them; '' where it is whole."""
        return naming.PRUNED if self.pruned else ""

    @property
    def shown_project(self) -> str:
        """The name of its project, which no other project has."""
        return self._shown.name

    @property
    def repository_key(self) -> str:
        """One key for all sessions of its repository, else of its folder; for showing only, never for a scope."""
        return self._shown.key

    @property
    def _shown(self) -> naming.ShownProject:
        return self.shown or naming.ProjectNames().of(self.project, self.repository, self.root, self.cwd)

    def named(self, names: naming.ProjectNames) -> Session:
        """The session with its project as these names have it; its folders are where they lie now."""
        return replace(self, shown=names.of(self.project, self.repository, self.root, self.cwd))

    def moved(self, moves: Moves) -> Session:
        """The session with its folders where they lie now."""
        if not moves:
            return self
        cwd, root, project, worktree = (
            each and moves.here(each, self.created) for each in (self.cwd, self.root, self.project, self.worktree)
        )
        if (cwd, root, project, worktree) == (self.cwd, self.root, self.project, self.worktree):
            return self
        return replace(self, cwd=cwd, root=root, project=project, worktree=worktree or "", recorded_cwd=self.cwd)


class SessionPlace(NamedTuple):
    """The place of a session: what its repository is known by, as it was recorded, and its branch."""

    id: int
    uid: str
    last_active: int | None
    branch: str | None
    created: str
    project: str | None
    repository: str | None
    root: str | None
    cwd: str | None

    def shown(self, names: naming.ProjectNames, moves: Moves) -> naming.ShownProject:
        """Return its project as these names have it, with its folders where they lie now."""
        project, root, cwd = (
            each and moves.here(each, self.created) if moves else each for each in (self.project, self.root, self.cwd)
        )
        return names.of(project, self.repository, root, cwd)


Sort = Literal["cost", "turns", "time", "tokens"]
"""The values that sessions can be sorted by, the greatest first; ``time`` is how long their turns took."""


class Workplace(Struct, frozen=True, kw_only=True):
    """The place where a session is at work: its project's key, the branch, the folder, the root of the worktree.

    ``native_id``: the agent's own id of a session that is begun for a run.
    """

    project: str | None = None
    branch: str | None = None
    cwd: str | None = None
    root: str | None = None
    native_id: str | None = None


PROJECT_NAMES = "project_names"
REPOSITORIES = "repositories"
"""In meta, as JSON: a ``naming.ProjectNames``; what ``tables.repositories`` knows of folders."""
CHOSEN = "here "
"""In meta, before a worktree's path: the uid of the session that commands there go on with."""
_SHOWN_HERE = f"from turns t where session_id = s.id and not {claims.SHOWN_ELSEWHERE}"
_ALL = "from turns where session_id = s.id"
# The quick condition comes first: it is false for most sessions, and the exact one looks at each turn.
_TURNS = f"iif({claims.MAY_BE_SHOWN_ELSEWHERE}, (select count(*) {_SHOWN_HERE}), (select count(*) {_ALL}))"
_DURATION = (
    f"iif({claims.MAY_BE_SHOWN_ELSEWHERE}, "
    f"(select cast(sum(1.0 * duration_ms) as integer) {_SHOWN_HERE}), s.duration_ms)"
)
_TOKENS = f"iif({claims.MAY_BE_SHOWN_ELSEWHERE}, (select {turns.USED} {_SHOWN_HERE}), (select {turns.USED} {_ALL}))"
_PARTIAL = (
    f"iif({claims.MAY_BE_SHOWN_ELSEWHERE}, (select {turns.LACKING} {_SHOWN_HERE}), (select {turns.LACKING} {_ALL}))"
)
_COLUMNS = (
    "s.id, s.uid, s.number, s.name, s.title, "
    "(select group_concat(agent, ' ') from (select agent from turns where session_id = s.id and agent <> 'api' "
    "union select agent from logs where session_id = s.id and kind <> 'api' and agent <> 'api' order by 1)), "
    "s.project, s.repository, s.branch, s.cwd, s.worktree, s.created, s.last_active, "
    f"{_TURNS}, "
    "(select count(*) from events where session_id = s.id), s.completed, "
    f"{_DURATION}, "
    "s.cost_usd, p.uid, s.relation, s.native_id, "
    # What follows a run in the agent's own log of it is what that is about.
    f"coalesce(iif({claims.MAY_BE_SHOWN_ELSEWHERE}, "
    f"(select substr(prompt, 1, 200) {_SHOWN_HERE} and prompt <> '' order by first_seq, id limit 1), null), "
    f"{FIRST_PROMPT}), s.elsewhere, s.root, "
    f"{OUTCOME}, "
    f"s.owner is (select value from meta where key = 'store_id'), {_TOKENS}, "
    f"s.context_chars, s.context_limit, {_PARTIAL}, null, null, "
    "(select what from pruned where session_id = s.id and log_id = 0), null"
)
_COST = "iif(? or k.heading is null or c.id is not null, c.usd, k.most_usd)"
_WITH_COST = (
    "left join list_keys k on k.session_id = s.id "
    "left join (select value ->> 0 as id, value ->> 1 as usd from json_each(?)) c on c.id = s.id"
)
"""See ``CostBounds``, whose values these are."""
_SORTED_BY: dict[str, str] = {
    sort: value.replace(claims.MAY_BE_SHOWN_ELSEWHERE, claims.MAY_BE_SHOWN_ELSEWHERE_OF_ALL)
    for sort, value in (("turns", _TURNS), ("time", _DURATION), ("tokens", _TOKENS), ("cost", _COST))
}
_FROM = "from sessions s left join sessions p on p.id = s.parent_id"
_ORDER = "s.last_active desc, s.uid desc"
"""As the index has it, so that a page reads no more sessions than it shows. Those without a time come last."""
Cursor = tuple[int | None, str]
"""A place in the list of sessions: behind the one with this last_active and uid."""


class Position(NamedTuple):
    """The place of a session in a list: the value that it is sorted by (None: not known), its time, its uid."""

    value: float | None
    last_active: int | None
    uid: str


class CostBounds(NamedTuple):
    """The most that sessions cost where no key says it, as pairs of id and dollars. ``of_all``: no key counts."""

    of_all: bool
    found: str


class Part(Struct, frozen=True, kw_only=True):
    """A part of a list: some sessions behind a position, or ``backwards`` those before it, the nearest first.

    ``at``: None for the beginning, or for the end. ``limit``: below zero for all. By cost ``bounds`` are
    given, and the value of a position is the most that its session costs.
    """

    sort: Sort | None = None
    bounds: CostBounds | None = None
    at: Position | None = None
    backwards: bool = False
    limit: int = -1
    offset: int = 0


def listed(db: apsw.Connection, wanted: ListFilter, part: Part) -> list[tuple[Position, Session]]:
    """Return a part of the list of sessions, each with its position."""
    keyed = [(value, _session(tuple(row))) for value, *row in _rows_of(db, wanted, part, _COLUMNS)]
    found = zip((value for value, _ in keyed), _titled_by_sayings(db, [each for _, each in keyed]), strict=True)
    return [(Position(value, each.last_active, each.uid), each) for value, each in found]


def listed_places(db: apsw.Connection, wanted: ListFilter, part: Part) -> list[tuple[Position, SessionPlace]]:
    """Return the places of the same sessions, which are read much faster."""
    columns = ", ".join(f"s.{each}" for each in SessionPlace._fields)
    found = ((value, SessionPlace(*row)) for value, *row in _rows_of(db, wanted, part, columns))
    return [(Position(value, each.last_active, each.uid), each) for value, each in found]


def _rows_of(db: apsw.Connection, wanted: ListFilter, part: Part, columns: str) -> list[tuple[Any, ...]]:
    """Return the value that each session of a part is sorted by, and some columns."""
    found = _in_part(db, wanted, part, columns)
    is_behind_time = part.at is not None and part.at.last_active is not None and not part.backwards
    if is_behind_time and len(found) != part.limit and _is_range(part):
        # The index has those without a time in another place.
        left = max(part.limit - len(found), -1)
        found += _in_part(db, wanted, replace(part, at=Position(None, None, BEHIND_EVERY_UID), limit=left), columns)
    return found


TITLED_MAX = 1_000
"""If more sessions may have a text in their title, the first of them are soon found in the order of the list."""
BEHIND_EVERY_UID = "["
"""Sorts after every letter of the alphabet of uids."""


def _is_range(part: Part) -> bool:
    """Return True if the index of times has the part in one piece, so that little more than what is shown is read."""
    return part.sort is None and part.limit >= 0 and not part.offset


def _in_part(db: apsw.Connection, wanted: ListFilter, part: Part, columns: str) -> list[tuple[Any, ...]]:
    """Return a part of the list; of a range behind a session with a time, without those that have none."""
    at, is_range = part.at, _is_range(part)
    titled = _titled(db, wanted) if is_range and wanted.title is not None else None
    are_few = titled is not None and len(titled) <= TITLED_MAX
    conditions, values = listed_conditions(replace(wanted, title=None) if are_few else wanted, of_all=not is_range)
    if titled is not None and are_few:
        # To walk the index until a page is full would be to read nearly all of it.
        conditions.append("s.id in (select value from json_each(?))")
        values.append(schema.json_list(titled))
        is_range = False
    way = "asc" if part.backwards else "desc"
    order = f"{'' if is_range else f'value {way}, +'}last_active {way}, uid {way}"
    behind = ["1"]
    if at is not None:
        # Here it keeps SQLite from collecting both sides of an ``or``: it is to walk the index in its order.
        keys = [("+last_active", at.last_active), ("+uid", at.uid)]
        sentence, bound = _beyond([("value", at.value), *keys] if part.sort else keys, part.backwards)
        behind.append(sentence)
        values += bound
        if is_range and at.last_active is not None:
            behind.append(f"last_active {'>=' if part.backwards else '<='} ?")
            values.append(at.last_active)
        elif is_range and not part.backwards:
            behind.append("last_active is null")
    # Counted are sessions on the page only. Of a limit that it knows to be small SQLite sorts all that there are.
    sql = (
        f"with keyed as (select s.id, {_SORTED_BY[part.sort] if part.sort else 'null'} as value, s.last_active, s.uid "
        f"from sessions s {_WITH_COST if part.bounds else ''} where {' and '.join(conditions)}), "
        f"page as materialized (select * from keyed where {' and '.join(behind)} "
        f"order by {order} limit ? + 0 offset ?) "
        f"select page.value, {columns} from page cross join sessions s on s.id = page.id "
        "left join sessions p on p.id = s.parent_id "
        f"order by page.value {way}, s.last_active {way}, s.uid {way}"
    )
    return list(db.execute(sql, (*(part.bounds or ()), *values, part.limit, part.offset)))


def _titled(db: apsw.Connection, wanted: ListFilter) -> Sequence[int]:
    """The sessions that have a text in their title, or more than ``TITLED_MAX``."""
    if wanted.subagents:
        return range(TITLED_MAX + 1)
    pattern = title_pattern(wanted.title or "")
    return [each for (each,) in fetch(db, tuple[int], f"{TITLED} limit ?", (pattern, pattern, TITLED_MAX + 1))]


def _beyond(keys: Sequence[tuple[str, object]], backwards: bool) -> tuple[str, list[object]]:
    """Return the condition of rows behind one with these values, the greatest first and nulls last, or before it."""
    (key, value), *rest = keys
    if value is None:
        sentence, values = (f"{key} is not null" if backwards else "0"), list[object]()
    elif backwards:
        sentence, values = f"{key} > ?", [value]
    else:
        sentence, values = f"({key} < ? or {key} is null)", [value]
    if not rest:
        return sentence, values
    following, more = _beyond(rest, backwards)
    return f"({sentence} or ({key} is ? and {following}))", [*values, value, *more]


def in_order(db: apsw.Connection, wanted: ListFilter) -> list[tuple[int, str, int | None]]:
    """The id, uid and time of every session that is listed, in the order of ``listed``."""
    conditions, values = listed_conditions(wanted, of_all=True)
    order = _ORDER.replace("s.last_active", "+s.last_active")
    sql = f"select s.id, s.uid, s.last_active from sessions s where {' and '.join(conditions)} order by {order}"
    return fetch(db, tuple[int, str, int | None], sql, values)


def several(db: apsw.Connection, session_ids: Sequence[int]) -> list[Session]:
    """The sessions with these ids, as far as they are here."""
    rows = db.execute(
        f"select {_COLUMNS} {_FROM} where s.id in (select value from json_each(?))", (schema.json_list(session_ids),)
    )
    return _titled_by_sayings(db, [_session(row) for row in rows])


def counts(db: apsw.Connection, wanted: ListFilter) -> dict[str | None, int]:
    """Return the number of sessions that ``listed`` returns, by the store that owns them; None: their logs do."""
    conditions, values = listed_conditions(wanted, of_all=True)
    # Without the sign SQLite would look each of them up by the index of owners.
    rows = fetch(
        db,
        tuple[str | None, int],
        f"select s.owner, count(*) from sessions s where {' and '.join(conditions)} group by +s.owner",
        values,
    )
    return dict(rows)


class Placed(NamedTuple):
    """The sessions of a list: of each id, from 1 on, a byte that says which of these owners it has; 0: not listed."""

    owners: tuple[str | None, ...]
    numbers: bytes


OWNERS_MAX = 255


def placed(db: apsw.Connection, wanted: ListFilter) -> Placed | None:
    """Return the sessions that ``listed`` returns; None where more stores own them than a byte can tell apart."""
    conditions, values = listed_conditions(wanted, of_all=True)
    rows = fetch(
        db,
        tuple[str | None, str],
        # SQLite makes the lists, and other threads run meanwhile.
        f"select s.owner, json_group_array(s.id) from sessions s where {' and '.join(conditions)} group by +s.owner",
        values,
    )
    if len(rows) > OWNERS_MAX:
        return None
    numbers = bytearray(int(db.execute("select coalesce(max(id), 0) from sessions").get) + 1)
    for number, (_, ids_of_owner) in enumerate(rows, 1):
        for session_id in msgspec.json.decode(ids_of_owner, type=list[int]):
            numbers[session_id] = number
    return Placed(tuple(owner for owner, _ in rows), bytes(numbers[1:]))


def titled_counts(db: apsw.Connection, title: str, among: Placed) -> dict[str | None, int]:
    """Return the number of these sessions with a text in their title, by owner, as ``counts`` does: no row is read."""
    if not among.owners:
        return {}
    sums = ", ".join(f"sum(substr(?1, session_id, 1) = x'{n:02x}')" for n in range(1, len(among.owners) + 1))
    titled = TITLED.replace("?", "?2")
    row: Any = db.execute(f"select {sums} from ({titled})", (among.numbers, title_pattern(title))).fetchone()
    return {owner: found for owner, found in zip(among.owners, row, strict=True) if found}


def listed_among(db: apsw.Connection, session_ids: Sequence[int]) -> set[int]:
    """Those of these sessions that a list of every project shows."""
    conditions, _ = listed_conditions(ListFilter())
    rows = db.execute(
        f"select s.id from sessions s where s.id in (select value from json_each(?)) and {' and '.join(conditions)}",
        (schema.json_list(session_ids),),
    )
    return {int(str(session_id)) for (session_id,) in rows}


def not_alone(db: apsw.Connection, uids: Sequence[str], letters: int) -> set[str]:
    """Those of these uids whose first letters another session's uid begins with, too."""
    rows = db.execute(
        # '[' sorts after every letter of the alphabet, so this range is the prefix, and the index serves it.
        "select value from json_each(?1) where exists (select 1 from sessions where uid >= substr(value, 1, ?2) "
        "and uid < substr(value, 1, ?2) || '[' and uid <> value)",
        (schema.json_list(uids), letters),
    )
    return {str(uid) for (uid,) in rows}


def present(db: apsw.Connection, uids: Sequence[str]) -> set[str]:
    """Those of these uids that are here."""
    rows = db.execute(
        "select uid from sessions where uid in (select value from json_each(?))", (schema.json_list(uids),)
    )
    return {str(uid) for (uid,) in rows}


def count(db: apsw.Connection) -> int:
    """Return the number of sessions, subagents' included."""
    return int(db.execute("select count(*) from sessions").get)


def get(db: apsw.Connection, session_id: int) -> Session:
    """The session with this id; raises SessionNotFound."""
    for row in db.execute(f"select {_COLUMNS} {_FROM} where s.id = ?", (session_id,)):
        return _titled_by_sayings(db, [_session(row)])[0]
    raise errors.SessionNotFound(str(session_id))


def children(db: apsw.Connection, session_id: int) -> list[Session]:
    """The sessions that come from this one: its subagents', also those of its runs, forks, continuations."""
    parents = [session_id, *claims.logs_of(db, session_id)]
    rows = db.execute(
        f"select {_COLUMNS} {_FROM} where s.parent_id in ({', '.join('?' * len(parents))}) "
        f"and not {claims.HIDDEN} order by s.uid",
        parents,
    )
    return _titled_by_sayings(db, [_session(row) for row in rows])


def find(db: apsw.Connection, wanted: str, *, by_name: bool = True) -> int:
    """The id of the session meant by a number (S3), a name, an agent's own id, or the start of a uid.

    A whole uid is that session's, whatever others are called: names have no index, and anybody can give one.
    """
    whole = _candidates(db, "uid = ?", wanted.upper()) if len(wanted) == ids.UID_LENGTH else []
    # A store from elsewhere is asked without names: people there chose them, and could choose ours.
    ways = (_by_number, _by_name, _by_uid, _by_native_id) if by_name else (_by_number, _by_uid, _by_native_id)
    for candidates in chain([whole], (way(db, wanted) for way in ways)):
        # A run and the agent's own log of it are one session.
        meant = {claims.shown_as(db, session_id) for session_id, _, _ in candidates}
        if len(meant) == 1:
            return meant.pop()
        if candidates:
            raise errors.SessionAmbiguous(wanted, _shown(candidates))
    raise errors.SessionNotFound(wanted)


def next_number(db: apsw.Connection) -> int:
    """The number of the next session of this store; it is not given again."""
    # Counted in ``meta`` and not from the rows: the number of a removed session is in somebody's notes.
    number = int(db.execute("select value from meta where key = 'next_number'").get)
    db.execute("update meta set value = ? where key = 'next_number'", (str(number + 1),))
    return number


def create(db: apsw.Connection, *, uid: str, owner: str, name: str, worktree: str, created_ms: int) -> int:
    """A new session that this store owns, with the next number."""
    number = next_number(db)
    db.execute(
        "insert into sessions(uid, owner, number, name, worktree, created, last_active) "
        "values (?, ?, ?, ?, ?, strftime('%Y-%m-%dT%H:%M:%fZ', ? / 1000.0, 'unixepoch'), ?)",
        (uid, owner, number, name, worktree, created_ms, created_ms),
    )
    return db.last_insert_rowid()


def called(db: apsw.Connection, name: str) -> int | None:
    """The id of the session of this name, one of this store's own before any other; a nameless one is called S1."""
    found: int | None = db.execute(
        "select s.id from sessions s join meta m on m.key = 'store_id' "
        "where s.name = ?1 or (s.name = '' and s.owner = m.value and 'S' || s.number = ?1) "
        # The uid at the end makes the order the same on every machine.
        "order by s.owner is not m.value, coalesce(last_active, 0) desc, uid desc limit 1",
        (name,),
    ).get
    return found


def is_forgotten(db: apsw.Connection, uid: str) -> bool:
    """Return True if a person removed this session."""
    return bool(
        db.execute("select count(*) from forgotten where substr(uid, 11) = ?", (ids.session_identity(uid),)).get
    )


def copy_labels(db: apsw.Connection, session: Session) -> None:
    """Copy the labels of a session's place of work from its owner."""
    session_id = int(db.execute("select coalesce(max(id), 0) from sessions where uid = ?", (session.uid,)).get)
    was_covered = coverage.is_covered(db, session_id)
    db.execute(
        "update sessions set project = ?, branch = ?, cwd = ? where id = ?",
        (session.project, session.branch, session.cwd, session_id),
    )
    coverage.settle(db, session_id, was_covered=was_covered)


def owner(db: apsw.Connection, uid: str) -> str | None:
    """The id of the store that owns a session."""
    found = db.execute("select owner from sessions where uid = ?", (uid,)).get
    return None if found is None else str(found)


def owned_by(db: apsw.Connection, owner: str) -> list[str]:
    """The uids of the sessions of one owner, in the order of their numbers."""
    return [str(uid) for (uid,) in db.execute("select uid from sessions where owner = ? order by number", (owner,))]


def uids(db: apsw.Connection) -> list[str]:
    """The uid of every session."""
    return [str(uid) for (uid,) in db.execute("select uid from sessions order by id")]


def mark_elsewhere(db: apsw.Connection, uids: Sequence[str], elsewhere: str) -> None:
    """Say of sessions which store from elsewhere they came with."""
    db.executemany("update sessions set elsewhere = ? where uid = ?", [(elsewhere, uid) for uid in uids])


def next_seq(db: apsw.Connection, uid: str) -> int:
    """The number that the next record of a session gets, from whichever log; 1 for a session that is not here."""
    found = db.execute(
        # A session from elsewhere gives way to the agent's own log of it, which is numbered from 1.
        f"select next_seq from sessions where substr(uid, 11) = ? and not ({append.UNTRUSTED})",
        (ids.session_identity(uid),),
    ).get
    return 1 if found is None else int(found)


def has(db: apsw.Connection, uid: str) -> bool:
    """Return whether a session is here."""
    return bool(db.execute("select count(*) from sessions where uid = ?", (uid,)).get)


def uncounted(db: apsw.Connection) -> list[str]:
    """The uids of the sessions whose contexts had a known size, and have not any more."""
    query = "select uid from sessions where context_limit is not null and context_chars is null order by id"
    return [str(uid) for (uid,) in db.execute(query).fetchall()]


def note_context(db: apsw.Connection, session_id: int, chars: int, limit: int) -> None:
    """Keep the characters of a session's context, and those from which on it is summarised."""
    db.execute("update sessions set context_chars = ?, context_limit = ? where id = ?", (chars, limit, session_id))


def origins(db: apsw.Connection, uids: Sequence[str]) -> dict[str, str | None]:
    """The store from elsewhere that each of these sessions was taken from, by identity; without unknown sessions.

    None for those that are this store's own, also when they were removed since.
    """
    known = "select substr(uid, 11), {} from {} where substr(uid, 11) in (select value from json_each(?))"
    asked = (schema.json_list([ids.session_identity(uid) for uid in uids]),)
    rows = fetch(db, tuple[str, str | None], known.format("elsewhere", "sessions"), asked)
    removed = fetch(db, tuple[str, str | None], known.format("null", "forgotten"), asked)
    # A session that is here again after a removal is what its row says.
    return dict(removed) | dict(rows)


def go_on_numbering(db: apsw.Connection) -> None:
    """Give no number again that a session of this store has."""
    db.execute(
        # Rows may have come from a copy of this store that went on counting by itself.
        "update meta set value = max(cast(value as integer), (select coalesce(max(number), 0) + 1 from sessions "
        "where owner = (select value from meta where key = 'store_id'))) where key = 'next_number'"
    )


def place(db: apsw.Connection, session_id: int, at: Workplace) -> None:
    """Note where a session is at work; where it began stays."""
    was_covered, running = coverage.is_covered(db, session_id), schema.running_id_column()
    db.execute(
        "update sessions set project = coalesce(?, project), branch = coalesce(?, branch), cwd = coalesce(cwd, ?), "
        f"root = coalesce(root, ?), repository = coalesce(repository, ?), {running} = coalesce(?, {running}) "
        "where id = ?",
        (at.project, at.branch, at.cwd, at.root, repository_name(at.project), at.native_id, session_id),
    )
    coverage.settle(db, session_id, was_covered=was_covered)
    derived_tables.note_branches(db, session_id, [at.branch] if at.branch else [])


def follow(db: apsw.Connection, owner: str, move: Move) -> None:
    """Move the sessions of one owner to the folder that another one was moved to."""
    rows = fetch(
        db,
        tuple[int, str | None, str, str | None, str | None],
        "select id, cwd, worktree, root, project from sessions where owner = ?",
        (owner,),
    )
    for session_id, *recorded in rows:
        now = [each and (move.of(each) or each) for each in recorded]
        if now != recorded:
            was_covered = coverage.is_covered(db, session_id)
            db.execute(
                "update sessions set cwd = ?, worktree = ?, root = ?, project = ? where id = ?", (*now, session_id)
            )
            coverage.settle(db, session_id, was_covered=was_covered)


def choose(db: apsw.Connection, session_id: int, worktree: str) -> None:
    """Let commands in a worktree go on with this session until another is chosen there."""
    db.execute(
        "insert or replace into meta(key, value) select ?, uid from sessions where id = ?",
        (f"{CHOSEN}{worktree}", session_id),
    )


def last_active(db: apsw.Connection, worktree: str, earlier: Sequence[str] = ()) -> Session | None:
    """The session of this store's own that was last chosen or active in a worktree, else of all.

    ``earlier``: the paths that the worktree had before it was moved.
    """
    # A choice is worth more than activity, also one that was made before the folder was moved.
    for path in (worktree, *earlier):
        chosen = db.execute(
            "select id from sessions where number is not null and uid = (select value from meta where key = ?) "
            "and owner = (select value from meta where key = 'store_id')",
            (f"{CHOSEN}{path}",),
        ).get
        if chosen is not None:
            return get(db, int(chosen))
    found = db.execute(
        "select id from sessions where number is not null "
        "and owner = (select value from meta where key = 'store_id') "
        "order by worktree in (select value from json_each(?)) desc, coalesce(last_active, 0) desc, uid desc limit 1",
        (schema.json_list([worktree, *earlier]),),
    ).get
    return None if found is None else get(db, int(found))


def drop_if_empty(db: apsw.Connection, session_id: int) -> None:
    """Remove a session without turns and events."""
    db.execute(
        "delete from sessions where id = ?1 and not exists (select 1 from turns where session_id = ?1) "
        "and not exists (select 1 from events where session_id = ?1)",
        (session_id,),
    )


def rename(db: apsw.Connection, session_id: int, name: str) -> None:
    """Call a session ``name``; '' takes its name away."""
    db.execute("update sessions set name = ? where id = ?", (name, session_id))


def doomed(db: apsw.Connection, session_id: int) -> list[tuple[int, str]]:
    """Return the sessions that go with a removed one, (id, uid): itself, its runs' own logs, its subagents."""
    roots = [session_id, *claims.logs_of(db, session_id)]
    rows = fetch(
        db,
        tuple[int, str],
        f"with recursive doomed(id) as (values {', '.join(['(?)'] * len(roots))} union select s.id from sessions s "
        "join doomed d on s.parent_id = d.id where s.relation = ?) "
        "select s.id, s.uid from sessions s join doomed using (id)",
        (*roots, Relation.SUBAGENT),
    )
    return [(each, uid) for each, uid in rows]


def remove(db: apsw.Connection, session_id: int, at: int) -> list[str]:
    """Remove a session with all that is kept of it, its runs' own logs, and its subagents' sessions; gives the uids.

    A tombstone stays for each, so that reading the log again does not bring it back.
    """
    going = doomed(db, session_id)
    # First, while the runs are here that say which logs of agents are meant.
    claims.forget_logs(db, session_id, at)
    # Subagents first: what goes with its subagents need not keep its bytes for them.
    for each, uid in reversed(going):
        event_rows.delete_of_session(db, each)
        db.execute("insert or replace into forgotten(uid, at) values (?, ?)", (uid, at))
        db.execute(
            "update log_places set reason = ? where log_id in (select id from logs where session_id = ?)",
            (append.FORGOTTEN, each),
        )
        # The rows of its logs go, and with them their stamps: without these ingest would open every file again.
        logs.keep_stamps(db, "session_id = ?", each, reason=append.FORGOTTEN)
        db.execute("delete from meta where substr(key, 1, ?) = ? and value = ?", (len(CHOSEN), CHOSEN, uid))
        db.execute("delete from sessions where id = ?", (each,))
    lent.settle(db)
    # Nothing names a folder in which only these sessions were.
    db.execute(_KEEP_REPOSITORIES, (REPOSITORIES,))
    db.execute("delete from meta where key = ?", (PROJECT_NAMES,))
    return [uid for _, uid in going]


_KEEP_REPOSITORIES = """
update meta set value = (select json_group_object(key, json(value)) from json_each(meta.value)
  where key in (select root from sessions where root is not null))
where key = ? and json_valid(value)
"""


def drop_read(db: apsw.Connection, log_id: int) -> None:
    """Remove the sessions of files that were not understood and are now: of this log, say."""
    db.execute(
        # The log moved to the session that it turned out to be of.
        "delete from sessions where relation = ? and not exists (select 1 from logs where session_id = sessions.id)",
        (Relation.UNREAD,),
    )
    for table, log in (("log_places", "log_id"), ("logs", "id")):
        db.execute(f"update {table} set reason = null where {log} = ? and reason = ?", (log_id, append.NOT_UNDERSTOOD))


def unforget(db: apsw.Connection) -> int:
    """Drop all tombstones, and what was noted of files because of them; gives how many there were."""
    # A file that is as it was noted is not opened; so the notes go, too.
    db.execute("delete from log_places where log_id is null and reason = ?", (append.FORGOTTEN,))
    # A database holds many sessions, and stays known as one: it is read as if it had changed.
    again = "update log_places set mtime_ns = 0 where reason = ? and exists (select 1 from forgotten)"
    db.execute(again, (append.DATABASE,))
    db.execute("delete from forgotten")
    return db.changes()


def _by_number(db: apsw.Connection, wanted: str) -> list[tuple[int, str, str]]:
    if not (wanted[:1] in "Ss" and wanted[1:].isdecimal() and len(wanted) <= 1 + NUMBER_DIGITS_MAX):
        return []
    return _candidates(db, "number = ?", int(wanted[1:]))


def _by_name(db: apsw.Connection, wanted: str) -> list[tuple[int, str, str]]:
    return _candidates(db, "name = ?", wanted) if wanted else []


def _by_uid(db: apsw.Connection, wanted: str) -> list[tuple[int, str, str]]:
    prefix = wanted.upper()
    if not prefix or any(letter not in ids.ALPHABET for letter in prefix):
        return []
    if found := _candidates(db, "uid = ?", prefix):
        return found
    # '[' sorts after every letter of the alphabet, so this range is the prefix, and the index serves it.
    return _candidates(db, "uid >= ?1 and uid < ?1 || '['", prefix)


def _by_native_id(db: apsw.Connection, wanted: str) -> list[tuple[int, str, str]]:
    found = _candidates(db, "native_id = ?", wanted)
    if found or len(wanted) < NATIVE_LETTERS_LEAST:
        return found
    # The sign sorts after every letter of such an id, so this range is the beginning, and the index serves it.
    beginning = "native_id >= ?1 and native_id < ?1 || '\U0010ffff'"
    # A subagent's id begins with its parent's, which is meant if no more of it is given.
    return _candidates(db, f"{beginning} and instr(native_id, '/') = 0", wanted) or _candidates(db, beginning, wanted)


def _shown(candidates: list[tuple[int, str, str]]) -> list[str]:
    """Candidates as a person distinguishes them: so much of their uids as differs, and what they are called."""
    uids = [uid for _, uid, _ in candidates]
    length = next((n for n in range(UID_SHOWN, len(uids[0])) if len({uid[:n] for uid in uids}) == len(uids)), None)
    called = [" ".join(name.split()) for _, _, name in candidates]
    return [
        f"{uid[:length]}{f' ({name})' if name else ''}" for (_, uid, _), name in zip(candidates, called, strict=True)
    ]


def _candidates(db: apsw.Connection, condition: str, value: object) -> list[tuple[int, str, str]]:
    rows = fetch(
        db,
        tuple[int, str, str, str | None, str | None],
        "select id, uid, name, title, (select substr(prompt, 1, 200) from turns where session_id = sessions.id "
        f"and prompt <> '' order by first_seq, id limit 1) from sessions where {condition} order by uid limit ?",
        (value, CANDIDATES_SHOWN_MAX),
    )
    short = {each: prompt for each, _, name, title, prompt in rows if _says_little(name, title, prompt) and prompt}
    said = turns.sayings(db, short)
    return [
        (session_id, uid, naming.title_of(name, title, said.get(session_id) or prompt)[:CALLED_CHARS_MAX])
        for session_id, uid, name, title, prompt in rows
    ]


# titles ---------------------------------------------------------------------------------------------------------------


def _says_little(name: str | None, title: str | None, prompt: str | None) -> bool:
    return not (name or (title or "").strip() or naming.says_enough(prompt or ""))


def _titled_by_sayings(db: apsw.Connection, found: list[Session]) -> list[Session]:
    """The sessions, those whose title would say too little with a text that says more."""
    short = {
        each.id: each.first_prompt
        for each in found
        if each.first_prompt and _says_little(each.name, each.title, each.first_prompt)
    }
    said = turns.sayings(db, short) if short else {}
    return [replace(each, saying=said[each.id]) if each.id in said else each for each in found] if said else found


def _session(row: tuple[object, ...]) -> Session:
    values = dict(zip(Session.__struct_fields__, row, strict=True))
    agents = values["agents"]
    values["agents"] = tuple(agents.split(" ")) if isinstance(agents, str) else ()
    values["is_own"] = bool(values["is_own"])
    return Session(**values)  # type: ignore[arg-type]


def repositories(db: apsw.Connection) -> list[str]:
    """The repositories of sessions, the last active first."""
    rows = db.execute(
        "select repository from sessions where repository <> '' group by 1 "
        "order by max(coalesce(last_active, 0)) desc, 1"
    )
    return [str(name) for (name,) in rows]


def git_branches(db: apsw.Connection) -> list[str]:
    """The git branches that sessions were on, the last active first."""
    rows = db.execute(
        "select named.branch from (select id, branch from sessions union select session_id, branch from "
        "session_branches) named join sessions s on s.id = named.id where named.branch <> '' group by 1 "
        "order by max(coalesce(s.last_active, 0)) desc, 1"
    )
    return [str(name) for (name,) in rows]


def project_names(db: apsw.Connection) -> naming.ProjectNames:
    """The names of projects as they were noted last."""
    query = "select value from meta where key = ? and length(value) <= ?"
    found: object = db.execute(query, (PROJECT_NAMES, VALUE_CHARS_MAX)).get
    try:
        return naming.ProjectNames() if found is None else msgspec.json.decode(str(found), type=naming.ProjectNames)
    except (msgspec.DecodeError, RecursionError):
        return naming.ProjectNames()


def are_projects_noted(db: apsw.Connection) -> bool:
    """Return True if no session came since the names of projects were noted that began in another place.

    A place at which a repository had no commit then is another one, too.
    """
    return not db.execute(_NEW_PLACE, (PROJECT_NAMES, REPOSITORIES)).get


_NEW_PLACE = """
with noted(upto) as (
  select coalesce((select json_extract(value, '$.upto') from meta where key = ?1 and json_valid(value)), -1)
)
select exists (select 1 from noted, sessions new where new.id > upto and (
  new.root not in (
    select each.key from meta m, json_each(iif(json_valid(m.value), m.value, '{}')) each where m.key = ?2
  )
  or not exists (select 1 from sessions old where old.cwd is new.cwd and old.id <= upto and old.project is new.project
    and old.repository is new.repository and old.root is new.root)))
"""


def same_repositories(db: apsw.Connection, root: str) -> tuple[bool, list[str]]:
    """Return the other roots at which the repository of this one was, and True; all, and False, if it is not known."""
    rows = fetch(db, tuple[str, int], _SAME, (REPOSITORIES, root))
    return not any(unknown for _, unknown in rows), [each for each, _ in rows]


_SAME = """
with noted(root, commits) as materialized (
  select each.key, json_extract(each.value, '$.commits')
  from meta m, json_each(iif(json_valid(m.value), m.value, '{}')) each
  where m.key = ?1
)
select root, mine is null from (select root, commits, (select commits from noted where root = ?2) as mine from noted)
where root <> ?2 and commits <> '[]' and (mine is null or mine = commits)
"""


def folders(db: apsw.Connection, moves: Moves) -> list[str]:
    """The folders that sessions began in, and the roots of their worktrees, as recorded and where they lie now."""
    rows = db.execute(
        "select cwd from sessions where cwd is not null union select root from sessions where root is not null "
        "union select worktree from sessions where worktree <> ''"
    )
    found = [str(folder) for (folder,) in rows]
    return list(dict.fromkeys([*found, *(moves.here(each) for each in found)]))
