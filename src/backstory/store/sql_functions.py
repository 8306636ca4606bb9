"""The functions that read-only SQL has beside SQLite's own, and those of its own that could keep it busy for hours.

``instr``, ``replace`` and ``trim`` of SQLite take time in the product of the lengths they are given, and look at no
clock; the ones here do the same in time that grows with the sum.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from backstory import errors, shell
from backstory.extract import searchable
from backstory.model import Event, event_from_json, event_to_json
from backstory.store import retelling, turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import apsw

    from backstory.store.codec import EventCodec

    FullForm = Callable[[int, int, int | None], Event | None]
    """The untruncated form of an event by its session's id, number and part (None: the first there is)."""

TRIMMED_LETTERS_MAX = 1_000


def register(db: apsw.Connection, full_form: FullForm | None, value_bytes_max: int) -> None:
    """Make the functions known to a connection."""

    def replace(text: Any, part: Any, new: Any) -> str | None:
        return _replaced(text, part, new, value_bytes_max)

    add: Callable[..., None] = db.create_scalar_function
    add("instr", _place, 2, deterministic=True)
    add("replace", replace, 3, deterministic=True)
    for name, trimmed in (("trim", str.strip), ("ltrim", str.lstrip), ("rtrim", str.rstrip)):
        add(name, _trimming(trimmed), 2, deterministic=True)
    _OfEvents(db, full_form).register()
    add("is_rewound", _OfTurns(db).is_rewound, 2)


class _OfEvents:
    """What an event says. One that is not there is NULL."""

    def __init__(self, db: apsw.Connection, full_form: FullForm | None) -> None:
        self._db = db
        self._full_form = full_form
        self._codecs: dict[int, EventCodec] = {}
        self._last: tuple[bytes | str | None, dict[str, Any]] = (None, {})

    def register(self) -> None:
        """Make them known to the connection; with one argument they take ``events.data``, for the views."""
        add: Callable[..., None] = self._db.create_scalar_function
        for name, of_data in (("event_text", self._text), ("event_json", self._json)):
            add(name, of_data, 1)
            for count in (2, 3):
                add(name, self._by_place(of_data), count)
        for count in (2, 3):
            add("event_full", self._full, count)
        add("event_field", self._field, 2)
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
        return turns.unpack_event(self._db, self._codecs, data)

    def _json(self, data: Any) -> str | None:
        if not isinstance(data, str | bytes):
            return None
        with _readable():
            return self._unpacked(data).decode()

    def _text(self, data: Any) -> str | None:
        if not isinstance(data, str | bytes):
            return None
        with _readable():
            told = searchable(event_from_json(self._unpacked(data)))
        return told[1] if told else None

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


class _OfTurns:
    """Where a turn stands in its session's tree."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._last: tuple[int | None, frozenset[str]] = (None, frozenset())

    def is_rewound(self, session_id: Any, uid: Any) -> int | None:
        """1: not on the way to where the session goes on, or no longer in its log; see retelling.rewound."""
        if not isinstance(session_id, int):
            return None
        if session_id != self._last[0]:
            # Rows come session by session, and each session's turns are looked at as a whole.
            self._last = (session_id, retelling.rewound(self._db, session_id))
        return int(uid in self._last[1])


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
        return shell.script_of(given) if isinstance(given, dict) else None
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
