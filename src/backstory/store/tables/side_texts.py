"""Texts that the search index has beside those of events: of files beside logs, and of the sections of checkpoints.

A file that a session made, such as its plan, is a row of its own. A result that was too long for its log, and lies in a
file, is in the row of its event instead, as a whole. Of a checkpoint each section is a row; the overview of one that is
a record is in that record's row. Functions take the connection, never commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.derive.checkpoints import SECTIONS, SOURCE_TYPES
from backstory.derive.index_text import Scope, index_text, searchable
from backstory.model import Command, Compacted, ToolResult, event_from_json
from backstory.store import codec, schema
from backstory.store.intake import coverage
from backstory.store.schema import FILE_ROWS, SECTION_ROWS, fetch, fetch_one
from backstory.store.tables.event_rows import delete_sections, insert_index_rows
from backstory.store.tables.events import StoredEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import apsw

    from backstory.model import Event

ARTIFACT = "workspace_artifact"
"""The type of a file's row, as another program's index has it."""
FILE_KIND = "File"
"""The kind that a file has among events that were found."""


class SideText(Struct, frozen=True, kw_only=True):
    """A sidecar whose text is to be found, by its name. ``event_id``: the result that it is the whole of."""

    name: str
    event_id: int | None = None


class _Row(Struct, frozen=True):
    """A text to be indexed."""

    sidecar_id: int
    session_id: int
    event_id: int | None


_ROWS = "select t.sidecar_id, t.session_id, t.event_id from side_texts t"


def put(db: apsw.Connection, log_id: int, texts: Iterable[SideText]) -> None:
    """Have the texts of sidecars of a log found from now on, in place of what was found of them before."""
    for each in texts:
        db.execute(
            "insert into side_texts(sidecar_id, session_id, event_id) "
            "select c.id, coalesce(e.session_id, l.session_id), e.id from sidecars c join logs l on l.id = c.log_id "
            "left join events e on e.id = ? where c.log_id = ? and c.name = ? "
            "on conflict do update set session_id = excluded.session_id, event_id = excluded.event_id",
            (each.event_id, log_id, each.name),
        )
    names = schema.json_list([each.name for each in texts])
    named = "c.log_id = ? and c.name in (select value from json_each(?))"
    _index(db, fetch(db, _Row, f"{_ROWS} join sidecars c on c.id = t.sidecar_id where {named}", (log_id, names)))


def index(db: apsw.Connection, session_id: int) -> None:
    """Put all texts of a session into the index: those of its files, and those of its checkpoints."""
    _index(db, fetch(db, _Row, f"{_ROWS} where t.session_id = ?", (session_id,)))
    index_sections(db, session_id)


def copy(db: apsw.Connection, source: str, old: int, new: int) -> None:
    """Have those texts of a session found that are found in another store, attached as ``source``, and index all.

    The files and the events of both are here.
    """
    db.execute(_COPIED.replace("SOURCE", source), {"old": old})
    index(db, new)


_COPIED = """
insert or ignore into side_texts(sidecar_id, session_id, event_id)
select c.id, s.id, (
  select e.id from SOURCE.events o join SOURCE.turns t on t.id = o.turn_id
  join turns n on n.session_id = s.id and n.uid = t.uid
  join events e on e.session_id = s.id and e.seq = o.seq + n.first_seq - t.first_seq and e.part = o.part
  where o.id = x.event_id)
from SOURCE.side_texts x join SOURCE.sessions xs on xs.id = x.session_id join sessions s on s.uid = xs.uid
join SOURCE.sidecars y on y.id = x.sidecar_id join SOURCE.logs m on m.id = y.log_id
join SOURCE.sessions ms on ms.id = m.session_id join sessions h on h.uid = ms.uid
join logs l on l.session_id = h.id join sidecars c on c.log_id = l.id and c.name = y.name and c.sha256 = y.sha256
where x.session_id = :old or m.session_id = :old
"""


def _index(db: apsw.Connection, rows: Sequence[_Row]) -> None:
    for row in rows:
        db.execute("delete from search_index where rowid = ?", (FILE_ROWS - row.sidecar_id,))
        text = _text(db, row.sidecar_id) if coverage.is_indexed(db, row.session_id) else ""
        if not text.strip():
            continue
        if row.event_id is None:
            place = FILE_ROWS - row.sidecar_id, index_text(text, Scope.FILE), row.session_id
            insert_index_rows(db, [(*place, ARTIFACT, None, Scope.FILE.value)])
        else:
            _index_result(db, row.event_id, text)


def _index_result(db: apsw.Connection, event_id: int, text: str) -> None:
    """Put a whole result into the row of its event, of which the log has the beginning."""
    found = fetch(
        db, tuple[int, int, bytes | str], "select session_id, seq, data from events where id = ?", (event_id,)
    )
    for session_id, seq, data in found:
        event = event_from_json(codec.unpack_event(db, {}, data))
        whole = searchable(msgspec.structs.replace(event, content=text)) if isinstance(event, ToolResult) else None
        if whole is not None:
            db.execute("delete from search_index where rowid = ?", (event_id,))
            insert_index_rows(db, [(event_id, index_text(whole[1], whole[0]), session_id, None, seq, whole[0])])


def _text(db: apsw.Connection, sidecar_id: int) -> str:
    """A sidecar's text; "" of one that has none."""
    found = fetch(db, tuple[int, bytes, bytes], "select size, sha256, data from sidecars where id = ?", (sidecar_id,))
    for size, digest, frame in found:
        try:
            data = codec.unpack_chunk(frame, size, digest, codec.dictionaries_of(db))
            return "" if b"\0" in data else data.decode().removeprefix("\ufeff")
        except (codec.CodecError, UnicodeDecodeError):
            # Of one that is damaged verify says so, and it keeps no copy of its session from being made.
            return ""
    return ""


# checkpoints ----------------------------------------------------------------------------------------------------------


def index_sections(db: apsw.Connection, session_id: int) -> None:
    """Put the sections of a session's checkpoints into the index, in place of those that are there."""
    delete_sections(db, "session_id = ?", (session_id,))
    if not coverage.is_indexed(db, session_id):
        return
    rows: list[Any] = db.execute(
        f"select id, seq, {', '.join(SECTIONS)} from checkpoints where session_id = ?", (session_id,)
    ).fetchall()
    scope = Scope.SYSTEM.value
    insert_index_rows(
        db,
        [
            (_section_row(number, n), index_text(text, scope), session_id, SOURCE_TYPES[n], None, scope)
            for number, seq, *texts in rows
            for n, text in enumerate(texts)
            if text and (n or seq is None)
        ],
    )


def _section_row(checkpoint_id: int, n: int) -> int:
    return SECTION_ROWS - checkpoint_id * schema.SECTIONS_MAX - n


# what a search finds ------------------------------------------------------------------------------------------------


_LAST = (
    "coalesce((select max(e.seq) from events e join turns t on t.id = e.turn_id and t.removed is null "
    "where e.session_id = {}), 1)"
)
"""The last record of a session: what no record says is as it was in the end."""
_FILE = (
    "select t.session_id, coalesce((select max(x.seq) from session_files f join file_touches x on x.file_id = f.id "
    "where f.session_id = t.session_id and x.action <> 'read' "
    "and f.file_path = rtrim(l.path, replace(l.path, '/', '')) || c.name), "
    f"{_LAST.format('t.session_id')}), c.mtime_ns / 1000000 from side_texts t join sidecars c on c.id = t.sidecar_id "
    "join logs l on l.id = c.log_id where t.sidecar_id = ? and t.event_id is null"
)

_SECTION = (
    f"select c.session_id, coalesce(c.seq, {_LAST.format('c.session_id')}), c.created_at "
    "from checkpoints c where c.id = ?"
)


def text_of(db: apsw.Connection, row_id: int) -> str | None:
    """The text of a row of the index below those of events; None for one that is gone."""
    if SECTION_ROWS < row_id < FILE_ROWS:
        return _text(db, FILE_ROWS - row_id)
    number, n = divmod(SECTION_ROWS - row_id, schema.SECTIONS_MAX)
    sql, key = f"select {SECTIONS[n]} from main.checkpoints where id = ?", number
    if row_id > FILE_ROWS:
        sql, key = "select summary from main.compactions where id = ?", -row_id
    text: str | None = db.execute(sql, (key,)).get
    return text


def as_event(db: apsw.Connection, row_id: int) -> StoredEvent | None:
    """A file, or a section of a checkpoint, as the event that a search finds; None for one that is gone.

    It stands at the record that last wrote it, else at the session's last.
    """
    is_file = row_id > SECTION_ROWS
    key = FILE_ROWS - row_id if is_file else (SECTION_ROWS - row_id) // schema.SECTIONS_MAX
    found = fetch_one(db, tuple[int, int, int | None], _FILE if is_file else _SECTION, (key,))
    text = text_of(db, row_id) if found is not None else None
    if found is None or text is None:
        return None
    session_id, seq, at = found
    event: Event = Command(name="", output=text) if is_file else Compacted(summary=text)
    turn: int | None = db.execute(
        "select id from turns where session_id = ? and ? between first_seq and last_seq "
        "order by first_seq desc limit 1",
        (session_id, seq),
    ).get
    return StoredEvent(
        id=row_id, seq=seq, part=0, turn_id=turn, at=at, kind=FILE_KIND if is_file else event.kind, char_len=len(text),
        log_id=None, position=None, length=None, event=event,
    )  # fmt: skip


def name(db: apsw.Connection, row_id: int) -> str | None:
    """The name of the file that a row of the index is of, from its log's folder; None if it is of none."""
    if not SECTION_ROWS < row_id < FILE_ROWS:
        return None
    asked = (
        "select c.name from side_texts t join sidecars c on c.id = t.sidecar_id where c.id = ? and t.event_id is null"
    )
    found: str | None = db.execute(asked, (FILE_ROWS - row_id,)).get
    return found


def unlinked(db: apsw.Connection, log_id: int) -> list[str]:
    """The names of a log's sidecars that are found as files, or as results whose events are there no more."""
    asked = (
        "select c.name from side_texts t join sidecars c on c.id = t.sidecar_id where c.log_id = ? "
        "and not exists (select 1 from events where id = t.event_id)"
    )
    return [name for (name,) in fetch(db, tuple[str], asked, (log_id,))]


def mentions(db: apsw.Connection, log_id: int, words: str) -> list[int]:
    """The results of calls whose indexed text has these words: in the session of a log, or in one of its subagents."""
    phrase = words.replace('"', " ")
    return [
        event_id
        for (event_id,) in fetch(
            db,
            tuple[int],
            "select c.id from search_index f join search_index_content c on c.id = f.rowid "
            "where search_index match ?1 and c.c4 = ?2 and c.c1 in (select s.id from logs l join sessions s "
            "on l.session_id in (s.id, s.parent_id) where l.id = ?3)",
            (f'"{phrase}"', Scope.TOOL_OUTPUT.value, log_id),
        )
    ]
