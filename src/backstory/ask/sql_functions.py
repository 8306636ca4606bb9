"""The functions that read-only SQL has beside SQLite's own, and those of its own that could keep it busy for hours.

``instr``, ``replace`` and ``trim`` of SQLite take time in the product of the lengths they are given, and look at no
clock; the ones here do the same in time that grows with the sum.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory import errors
from backstory.ask.costs import Costs
from backstory.conversation.tree import Point, Tree
from backstory.derive import shell_parse
from backstory.derive.index_text import searchable
from backstory.derive.naming import is_path, main_folder
from backstory.derive.pricing import UNKNOWN
from backstory.model import Event, event_from_json, event_to_json
from backstory.store import codec, schema
from backstory.store.schema import fetch, fetch_one
from backstory.store.tables import branches, sessions, side_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    import apsw

    from backstory.ask.sql_scope import Guard
    from backstory.derive.naming import ProjectNames
    from backstory.derive.pricing import Cost, PriceTable
    from backstory.store.codec import EventCodec
    from backstory.store.moves import Moves

    FullForm = Callable[[int, int, int | None], Event | None]
    """The untruncated form of an event by its session's id, number and part (None: the first there is)."""

TRIMMED_LETTERS_MAX = 1_000
TREES_KEPT_MAX = 256
"""The most sessions whose trees a question keeps: rows of several may come in turn."""


def register(
    db: apsw.Connection,
    full_form: FullForm | None,
    value_bytes_max: int,
    prices: PriceTable,
    guard: Guard | None = None,
) -> None:
    """Make the functions known to a connection, which has the views already; ``guard``: for some sessions only."""

    def replace(text: Any, part: Any, new: Any) -> str | None:
        return _replaced(text, part, new, value_bytes_max)

    add: Callable[..., None] = db.create_scalar_function
    add("instr", _place, 2, deterministic=True)
    add("replace", replace, 3, deterministic=True)
    for name, trimmed in (("trim", str.strip), ("ltrim", str.lstrip), ("rtrim", str.rstrip)):
        add(name, _trimming(trimmed), 2, deterministic=True)
    add("main_folder", _main_folder, 1, deterministic=True)
    add("shown_place", _Places(db).of, 4, deterministic=True)
    if guard is not None:
        add = guard.adding(db)
    _OfEvents(db, full_form).register(add)
    _OfTurns(db).register(add)
    add("turn_cost", _TurnCosts(db, prices).field, 3)


def register_folders(db: apsw.Connection, folders: Moves) -> None:
    """Let ``here(path, created)`` say where a recorded path lies now."""

    def here(*given: Any) -> Any:
        path, created = given
        return folders.here(path, str(created)) if isinstance(path, str) else path

    db.create_scalar_function("here", here, 2, deterministic=True)


def _main_folder(path: Any) -> Any:
    return main_folder(path) if isinstance(path, str) else path


class _Places:
    """The names of places: ``shown_place(project, repository, root, cwd)``, with folders as they lie now."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    @cached_property
    def _names(self) -> ProjectNames:
        return sessions.project_names(self._db)

    def of(self, *given: Any) -> str | None:
        """The repository that reports count a session's work in, else its folder."""
        facts = [each if isinstance(each, str) else None for each in given]
        key, name = self._names.of(facts[0], facts[1], facts[2], facts[3])
        return (key if is_path(key) else name) or None


class _TurnCosts:
    """The cost of a turn: ``turn_cost(session_id, id, 'usd')``, also ``low_usd``, ``high_usd`` and ``kind``."""

    def __init__(self, db: apsw.Connection, prices: PriceTable) -> None:
        self._db = db
        self._prices = prices
        self._last: tuple[int | None, dict[int, Cost]] = (None, {})

    @cached_property
    def _costs(self) -> Costs:
        return Costs(self._db, self._prices, shown_as=self._shown_as)

    def field(self, session_id: Any, turn_id: Any, name: Any) -> Any:
        """One of its values; NULL where it is not known."""
        if not isinstance(session_id, int):
            return None
        if session_id != self._last[0]:
            self._last = (session_id, {each.id: each.cost for each in self._costs.turns(session_id)})
        cost = self._last[1].get(turn_id, UNKNOWN)
        return cost.kind.value if name == "kind" else getattr(cost, name, None) if name in _AMOUNTS else None

    def _shown_as(self, session_ids: Collection[int]) -> dict[int, int]:
        asked = "select id, shown from temp.claimed where id in (select value from json_each(?))"
        rows = fetch(self._db, tuple[int, int], asked, (json.dumps(sorted(session_ids)),))
        return dict(rows)


_AMOUNTS = ("usd", "low_usd", "high_usd")


class _OfEvents:
    """The content of an event. One that is not there is NULL."""

    def __init__(self, db: apsw.Connection, full_form: FullForm | None) -> None:
        self._db = db
        self._full_form = full_form
        self._codecs: dict[int, EventCodec] = {}
        self._last: tuple[bytes | str | None, dict[str, Any]] = (None, {})

    def register(self, add: Callable[..., None]) -> None:
        """Make them known to the connection; with one argument they take ``events.data``, for the views."""
        for name, of_data in (("event_text", self._text), ("event_json", self._json)):
            add(name, of_data, 1)
            for count in (2, 3):
                add(name, self._by_place(of_data), count)
        for count in (2, 3):
            add("event_full", self._full, count)
        add("event_field", self._field, 2)
        add("row_text", self._row_text, 2)
        add("full_field", self._full_field, 5)

    def _by_place(self, of_data: Callable[[Any], str | None]) -> Callable[..., str | None]:
        def of_place(session: Any, seq: Any, part: Any = None) -> str | None:
            found = self._db.execute(
                "select data from main.events where session_id = ? and seq = ? and part = coalesce(?, part) "
                "order by part limit 1",
                (self._session_id(session), seq, part),
            ).get
            return of_data(found)

        return of_place

    def _session_id(self, session: Any) -> int | None:
        if not isinstance(session, str):
            return session if isinstance(session, int) else None
        found: int | None = self._db.execute("select id from main.sessions where uid = ?", (session,)).get
        return found

    def _unpacked(self, data: bytes | str) -> bytes:
        return codec.unpack_event(self._db, self._codecs, data)

    def _json(self, data: Any) -> str | None:
        if not isinstance(data, str | bytes):
            return None
        with _readable():
            return self._unpacked(data).decode()

    def _text(self, data: Any) -> str | None:
        if not isinstance(data, str | bytes):
            return None
        with _readable():
            searched = searchable(event_from_json(self._unpacked(data)))
        return searched[1] if searched else None

    def _row_text(self, session_id: Any, row_id: Any) -> str | None:
        """The words of a row of the index, if it is of this session."""
        if not isinstance(session_id, int) or not isinstance(row_id, int):
            return None
        if row_id >= 0:
            asked = "select data from main.events where id = ? and session_id = ?"
            return self._text(self._db.execute(asked, (row_id, session_id)).get)
        others = f"with k(id) as ({schema.OTHER_ROWS}) select 1 from k where id = ?2"
        return side_texts.text_of(self._db, row_id) if self._db.execute(others, (session_id, row_id)).get else None

    def _field(self, data: Any, name: Any) -> Any:
        """A field of an event; ``command`` of a call is the script in its input."""
        if not isinstance(data, str | bytes):
            return None
        if data != self._last[0]:
            # A row asks for several fields of the same event, one after the other.
            with _readable():
                (fields,) = msgspec.json.decode(self._unpacked(data), type=dict[str, dict[str, Any]]).values()
            self._last = (data, fields)
        return _field_of(self._last[1], name)

    def _full(self, session: Any, seq: Any, part: Any = None) -> str | None:
        if self._full_form is None:
            raise errors.SqlWrong("event_full is known to the command `backstory sql`; here, pass full_form")
        session_id = self._session_id(session)
        if session_id is None or not isinstance(seq, int) or not isinstance(part, int | None):
            return None
        event = self._full_form(session_id, seq, part)
        return None if event is None else event_to_json(event).decode()

    def _full_field(self, session_id: Any, seq: Any, part: Any, data: Any, name: Any) -> Any:
        full = self._full(session_id, seq, part) if self._full_form else None
        return self._field(data if full is None else full, name)


class _Turn(Struct, frozen=True, gc=False):
    """A turn in its session's tree."""

    uid: str
    parent_uid: str | None
    parent_seq: int | None
    first_seq: int
    last_seq: int
    id: int
    removed: int | None


class _Whole:
    """The tree of one session, and what is asked of all of it at once; removed branches are not in it."""

    def __init__(self, db: apsw.Connection, session_id: int) -> None:
        rows: list[Any] = db.execute(_TURNS, (session_id,)).fetchall()
        self._turns = [_Turn(*row) for row in rows]
        self.tree = Tree(turn for turn in self._turns if turn.removed is None)
        self.current = _leaf(db, session_id, self.tree)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each branch by the turn at its tip: the one it had before any other was removed."""
        numbers = Tree(self._turns).numbers()
        return {tip.uid: numbers.get(tip.uid, 0) for tip in self.tree.tips()}

    @cached_property
    def depths(self) -> dict[str, int]:
        return self.tree.depths()


class _OfTurns:
    """The place of a turn in its session's tree."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._wholes: dict[int, _Whole] = {}
        self._last: tuple[int | None, frozenset[str]] = (None, frozenset())

    def register(self, add: Callable[..., None]) -> None:
        """Make them known to the connection."""
        add("is_rewound", self.is_rewound, 2)
        add("branch_number", self.branch_number, 2)
        add("turn_depth", self.turn_depth, 2)
        add("is_current", self.is_current, 3)
        add("message_above", self.message_above, 2)
        add("current_message", self.current_message, 1)

    def is_rewound(self, session_id: Any, uid: Any) -> int | None:
        """1: not on the way to where the session goes on, or no longer in its log; see branches.rewound."""
        if not isinstance(session_id, int):
            return None
        if session_id != self._last[0]:
            # Rows come session by session, and each session's turns are looked at as a whole.
            self._last = (session_id, branches.rewound(self._db, session_id))
        return int(uid in self._last[1])

    def branch_number(self, session_id: Any, uid: Any) -> int | None:
        """The number of the branch that this turn is the tip of."""
        whole = self._whole(session_id)
        return whole.numbers.get(uid) if whole is not None else None

    def turn_depth(self, session_id: Any, uid: Any) -> int | None:
        """Return the number of turns above this one."""
        whole = self._whole(session_id)
        return whole.depths.get(uid) if whole is not None else None

    def is_current(self, session_id: Any, uid: Any, seq: Any) -> int | None:
        """1: the next prompt follows this record of this turn."""
        whole = self._whole(session_id)
        return None if whole is None else int(whole.current == Point(uid, seq))

    def message_above(self, session_id: Any, uid: Any) -> int | None:
        """The message that the first one of this turn follows."""
        whole = self._whole(session_id)
        if whole is None or uid not in whole.tree:
            return None
        turn, above = whole.tree[uid], whole.tree.parent(uid)
        return None if above is None else self._message_at(whole.tree, above, turn.parent_seq)

    def current_message(self, session_id: Any) -> int | None:
        """The message that the next prompt follows."""
        whole = self._whole(session_id)
        if whole is None or whole.current is None:
            return None
        return self._message_at(whole.tree, whole.tree[whole.current.uid], whole.current.seq)

    def _message_at(self, tree: Tree[_Turn], turn: _Turn, seq: int | None) -> int | None:
        """The last message up to a record of this turn, or of those above where it has none."""
        at: _Turn | None = turn
        while at is not None:
            last = seq if seq is not None and at.first_seq <= seq <= at.last_seq else at.last_seq
            found: int | None = self._db.execute(_MESSAGE, (at.id, at.first_seq, last)).get
            if found is not None:
                return found
            seq, at = at.parent_seq, tree.parent(at.uid)
        return None

    def _whole(self, session_id: Any) -> _Whole | None:
        if not isinstance(session_id, int):
            return None
        if session_id not in self._wholes:
            if len(self._wholes) >= TREES_KEPT_MAX:
                del self._wholes[next(iter(self._wholes))]
            self._wholes[session_id] = _Whole(self._db, session_id)
        return self._wholes[session_id]


_TURNS = f"""
select t.uid, t.parent_uid,
  iif(t.parent_seq < p.last_seq and not exists (select 1 from main.events e where e.session_id = t.session_id
    and e.seq > t.parent_seq and e.seq <= p.last_seq and e.kind in {schema.CONTENT}), p.last_seq, t.parent_seq),
  t.first_seq, t.last_seq, t.id, t.removed
from main.turns t left join main.turns p on p.session_id = t.session_id and p.uid = t.parent_uid
where t.session_id = ? order by t.first_seq, t.id
"""
"""A session's turns. What follows the last words of another follows that as a whole."""
_MESSAGE = f"""
select id from main.events where session_id = (select session_id from main.turns where id = ?1) and turn_id = ?1
  and seq between ?2 and ?3 and kind in {schema.MESSAGES}
order by seq desc, part desc limit 1
"""


def _leaf(db: apsw.Connection, session_id: int, tree: Tree[_Turn]) -> Point | None:
    """The record that the next prompt follows, as branches.leaf has it; at the end of a turn its last one."""
    chosen = fetch_one(
        db, tuple[str | None, int | None], "select leaf_uid, leaf_seq from main.sessions where id = ?", (session_id,)
    )
    uid, seq = chosen or (None, None)
    if uid is None or uid not in tree:
        newest = max(tree, key=lambda turn: (turn.first_seq, turn.id), default=None)
        return None if newest is None else Point(newest.uid, newest.last_seq)
    last = tree[uid].last_seq
    span = "session_id = ? and seq > ? and seq <= ?"
    sql = f"select exists (select 1 from main.events where {span} and kind in {schema.CONTENT})"
    if seq is None or seq >= last or not db.execute(sql, (session_id, seq, last)).get:
        seq = last
    return Point(uid, seq)


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (ValueError, msgspec.MsgspecError) as failed:
        raise errors.SqlWrong(f"what is no event was taken for one ({failed}); see `backstory verify`") from failed


def _field_of(fields: dict[str, Any], name: Any) -> Any:
    value = fields.get(name)
    if name == "command":
        given = fields.get("input")
        return shell_parse.script_of(given) if isinstance(given, dict) else None
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value


def _place(text: Any, part: Any) -> int | None:
    if text is None or part is None:
        return None
    if isinstance(text, bytes) and isinstance(part, bytes):
        return text.find(part) + 1
    return _as_text(text).find(_as_text(part)) + 1


def _replaced(text: Any, part: Any, new: Any, bytes_max: int) -> str | None:
    if text is None or part is None or new is None:
        return None
    whole, old, fresh = _as_text(text), _as_text(part), _as_text(new)
    if not old:
        return whole
    if len(whole) + whole.count(old) * (len(fresh) - len(old)) > bytes_max:
        raise errors.SqlWrong(f"replace() would make a value of more than {bytes_max >> 20} MB")
    return whole.replace(old, fresh)


def _trimming(trim: Callable[[str, str], str]) -> Callable[[Any, Any], str | None]:
    def trimmed(text: Any, letters: Any) -> str | None:
        if text is None or letters is None:
            return None
        each = "".join(set(_as_text(letters)))
        if len(each) > TRIMMED_LETTERS_MAX:
            raise errors.SqlWrong(f"trim() takes at most {TRIMMED_LETTERS_MAX} different letters")
        return trim(_as_text(text), each)

    return trimmed


def _as_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
