"""A JSON export, read line by line into a store of its own. docs/json-format.md says what each line means.

Nothing of it is believed: every line is checked against its type, its bounds and the lines before it. A session with a
wrong line is left out, and reading goes on behind it. Nothing is written anywhere else before the last line was read.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec import Struct

from backstory import ids
from backstory.bounds import LINE_BYTES_MAX
from backstory.errors import REASON_CHARS_MAX, ImportRefused, ImportTooNew, StoreDamaged
from backstory.exchange import json_lines
from backstory.exchange.imported import StagedRows
from backstory.exchange.json_lines import (
    FORMAT,
    PIECE_BYTES,
    BoardLine,
    End,
    EventLine,
    FileHead,
    RemovedLine,
    SessionEnd,
    SessionLine,
    decoder,
    ms_of,
)
from backstory.exchange.portable import item_of
from backstory.ingest.json_session import Ids, StagedSession, Wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.exchange.imported import Staging
    from backstory.store.tables.board_items import ItemCopy

DAMAGED_MAX = 1_000
"""A file with more damaged sessions is refused as a whole."""
_FORMAT_MAX = 1_000_000
_NO_EXPORT = "this is no JSON export of backstory"


class Damaged(Struct, frozen=True, kw_only=True):
    """A session that is left out: its first wrong line, and its uid where that is known."""

    line: int
    session: str | None
    reason: str


class JsonImport:
    """Reads an export. ``name``: what the file is called in messages. ``trusted``: names and removals count.

    ``strict``: the first wrong line refuses the file, where else only the session that it is in is left out.
    """

    def __init__(self, staging: Staging, name: str, *, trusted: bool, strict: bool = False) -> None:
        self._staging, self._name, self._trusted, self._strict = staging, name, trusted, strict
        self._number = 0
        self._decode = decoder().decode
        self._rows = StagedRows()
        self._session: StagedSession | None = None
        self._is_skipping = False
        """True if lines belong to a session that is left out."""
        self._head: FileHead | None = None
        self._known: set[str] = set()
        self._is_over = False
        self._ids = Ids()
        self.uids: list[str] = []
        """The whole sessions, as they came."""
        self.damaged: list[Damaged] = []
        self.removed: list[tuple[str, int]] = []
        """The sessions that were removed where the export was made, and when, ms."""
        self.board_items: list[ItemCopy] = []
        """The items of context boards."""

    @property
    def head(self) -> FileHead:
        """The first line."""
        assert self._head is not None
        return self._head

    def read(self, file: IO[bytes], progress: Callable[[int], None] = lambda read: None) -> None:
        """Read it to its end. Raises ImportRefused and ImportTooNew, and what writing the store of its own raises.

        A file without a whole session is refused where one is damaged. ``progress`` receives how many bytes were read.
        """
        read = said = 0
        for line in self._lines(file):
            self._take_line(line)
            read += len(line)
            if read - said >= PIECE_BYTES:
                said = read
                progress(read)
        if not self._is_over:
            self._number += 1
            self._refuse("the file ends before its line of type 'end': it is not whole")
        if self.damaged and not self.uids:
            self._refuse("no session of it is whole")
        self._staging.settle()

    def _lines(self, file: IO[bytes]) -> Iterator[bytes]:
        """The lines that are not blank; of one that is too long only its beginning."""
        most = LINE_BYTES_MAX
        while line := file.readline(most + 1):
            self._number += 1
            # The rest of a line that is too long is read in pieces and dropped, so that it is never in memory.
            rest = line if len(line) > most else b""
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(PIECE_BYTES)
            if len(line) > most or line.strip():
                yield line

    def _take_line(self, text: bytes) -> None:
        if self._is_over:
            self._refuse("nothing may follow the line of type 'end'")
        line: Any = None
        try:
            if (reason := json_lines.why_too_much(text)) is not None:
                raise Wrong(reason)
            if self._head is None:
                self._take_head(text)
                return
            line = self._decode(text)
            self._take(line)
            if self._rows.is_full:
                self._put()
        except RecursionError:
            self._leave_out("it is nested too deeply", line)
        except (Wrong, msgspec.DecodeError, ValueError, OverflowError) as refused:
            self._leave_out(str(refused), line)

    def _leave_out(self, reason: str, line: Any = None) -> None:
        """Leave out the session that a wrong line is in; ``line``: the value of the line, where it has one.

        Lines up to the end of that session are skipped.
        """
        if self._head is None:
            self._refuse(reason)
        was_skipping, session = self._is_skipping, self._session
        # After these no line of the same session follows.
        self._is_skipping = not isinstance(line, SessionEnd | RemovedLine | BoardLine)
        # One that cannot be parsed, in a session that is left out already, is no further damage.
        if was_skipping and session is None and line is None:
            return
        uid = session.uid if session is not None else line.uid if isinstance(line, SessionLine) else None
        self._drop(session)
        self.damaged.append(Damaged(line=self._number, session=uid, reason=reason[:REASON_CHARS_MAX]))
        if self._strict:
            self._refuse(reason)
        if len(self.damaged) > DAMAGED_MAX:
            self._refuse(f"more than {DAMAGED_MAX:,} sessions up to here are damaged")

    def _drop(self, session: StagedSession | None) -> None:
        """Forget what came of a session, the one that came last."""
        if session is not None:
            self._rows.clear()
            self._staging.drop_session(session.id)
            self.uids.remove(session.uid)
            self._session = None

    def _take_head(self, text: bytes) -> None:
        """Take the first line: a later format may have another one, so its version is looked for first."""
        try:
            found = msgspec.json.decode(text)
            version = found.get("format") if isinstance(found, dict) and found.get("type") == "backstory" else None
            if isinstance(version, int) and not isinstance(version, bool) and FORMAT < version <= _FORMAT_MAX:
                raise ImportTooNew(self._name, version, FORMAT)
            head = self._decode(text) if version == FORMAT else None
            if not isinstance(head, FileHead):
                self._refuse(
                    "this is no JSON export of backstory: its first line is none of type 'backstory', format 1"
                )
            ms_of(head.exported)
        except (msgspec.DecodeError, ValueError) as refused:
            self._refuse(f"{_NO_EXPORT}: {refused}")
        self._head = head

    def _take(self, line: Any) -> None:
        # Nearly all lines are these.
        if line.__class__ is EventLine and self._session is not None and not self._is_skipping:
            self._session.add_event(line)
            return
        if isinstance(line, SessionLine | RemovedLine | BoardLine | End):
            self._is_skipping = False
            if self._session is not None:
                self._leave_out(f"session {self._session.uid} has no line of type 'session_end' before it", line)
                self._is_skipping = False
        if self._is_skipping:
            self._is_skipping = not isinstance(line, SessionEnd)
            return
        session = self._session
        match line:
            case SessionLine():
                self._begin(line)
            case SessionEnd() if session is not None:
                session.end(line)
                self._put()
                self._session = None
            case RemovedLine():
                self.removed.append((line.uid, ms_of(line.at) or 0))
            case BoardLine():
                self.board_items.append(item_of(line))
            case End():
                self._end(line)
            case FileHead() | SessionEnd():
                raise Wrong("a line of this type does not belong here")
            case _ if session is None:
                raise Wrong("it belongs to no session: none has begun")
            case _:
                session.take(line)

    def _end(self, line: End) -> None:
        """End the reading. Raises Wrong where a session is missing and no line says why."""
        found = len(self.uids) + len(self.damaged)
        if line.sessions != found and (self._strict or not self.damaged):
            self._refuse(f"it says {line.sessions} sessions, and the file has {found}")
        if line.sessions > found:
            self._leave_out(f"it says {line.sessions} sessions, and the file has {found}", line)
        self._is_over = True

    def _begin(self, line: SessionLine) -> None:
        identity = ids.session_identity(line.uid)
        if identity in self._known:
            raise Wrong(f"session {line.uid} is in the file already")
        self._known.add(identity)
        self._session = StagedSession(self._rows, line, self._ids, has_bytes=self.head.bytes, trusted=self._trusted)
        self.uids.append(line.uid)

    def _put(self) -> None:
        if self._session is not None:
            self._session.settle()
        try:
            self._staging.put(self._rows)
        except StoreDamaged as refused:
            raise Wrong(f"what comes up to here contradicts itself: {refused.__cause__ or refused}") from refused

    def _refuse(self, reason: str) -> NoReturn:
        """Refuse the file. The first wrong line is named."""
        if self.damaged:
            raise ImportRefused(self._name, self.damaged[0].line, self.damaged[0].reason) from None
        raise ImportRefused(self._name, self._number, reason) from None
