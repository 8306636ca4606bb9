"""Files that one context reads again. Never commits."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.model import Tool, ToolCall, event_from_json
from backstory.store import turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

    from backstory.model import Event
    from backstory.store.codec import EventCodec
    from backstory.store.habits import Known

REQUEST_MS = 2_000
"""Calls that came sooner after another are of the same request."""
READS_MIN = 3
"""A file that was read less often in one session is not looked at."""


class RepeatedRead(Struct, frozen=True, kw_only=True):
    """A call that read of a file what the same context had read of it before, with no change by a call in between.

    ``last_seq`` and ``last_at``: of the call before it; ``same_seq``: of one that returned as many characters, which is
    the same part; ``turn``: the uid of its turn.
    """

    session: str
    context: str
    turn: str
    path: str
    seq: int
    last_seq: int
    same_seq: int | None
    at: int
    last_at: int


def repeated(db: apsw.Connection, known: Known) -> Iterator[RepeatedRead]:
    """The calls that read of a file that the same context had read, perhaps another part.

    The compact form of a call does not say which part it asked for; parts of the same length are the same.
    """
    codecs: dict[int, EventCodec] = {}
    rows = db.execute(_TOUCHES, (known.sessions(),))
    for (session_id, path), touches in groupby(rows, key=lambda row: row[:2]):
        parts, last_seq, last_at = dict[int, int](), 0, 0
        for _, _, seq, action, turn_id, at, data, chars in touches:
            if action != "read":
                parts.clear()
                last_seq = 0
                continue
            if chars is None or at is None or not _is_reader(event_from_json(turns.unpack_event(db, codecs, data))):
                continue
            # Calls of one request come at once.
            if last_seq and at - last_at >= REQUEST_MS and turn_id in known.turns:
                yield RepeatedRead(
                    session=known.listed[session_id], context=known.contexts[session_id], turn=known.turns[turn_id].uid,
                    path=path, seq=seq, last_seq=last_seq, same_seq=parts.get(chars), at=at, last_at=last_at,
                )  # fmt: skip
            parts[chars], last_seq, last_at = seq, seq, at


def _is_reader(call: Event) -> bool:
    """Whether it is a tool that reads files; a shell's commands read them in passing."""
    return isinstance(call, ToolCall) and call.tool == Tool.READ


_IDS = "(select value from json_each(?))"
_TOUCHES = f"""
with often(id, session_id, file_path) as (
  select f.id, f.session_id, f.file_path from session_files f join file_touches t on t.file_id = f.id
  where f.session_id in {_IDS} group by f.id having sum(t.action = 'read') >= {READS_MIN}
)
select o.session_id, o.file_path, t.seq, t.action, e.turn_id, e.at, e.data, r.char_len
from often o cross join file_touches t on t.file_id = o.id
  cross join events e on e.session_id = o.session_id and e.seq = t.seq and e.part = t.part
  left join call_results c on c.call_id = e.id and c.is_error = 0 left join events r on r.id = c.result_id
order by o.session_id, o.file_path, t.seq, t.part
"""
