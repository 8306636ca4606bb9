"""A JSON export, read line by line into a store of its own. docs/json-format.md says what each line means.

Nothing of it is believed: every line is checked against its type, its bounds and the lines before it, and the first
that is wrong ends the reading. Nothing is written anywhere else before the last line was read.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, NoReturn

import msgspec

from backstory import ids
from backstory.errors import ImportRefused, ImportTooNew, StoreDamaged
from backstory.ingest.json_log import Wrong
from backstory.ingest.json_session import Ids, StagedSession
from backstory.store.json_lines import (
    FORMAT,
    LINE_BYTES_MAX,
    BoardLine,
    End,
    Head,
    RemovedLine,
    SessionEnd,
    SessionLine,
    decoder,
    ms_of,
)
from backstory.store.portable import item_of
from backstory.store.staging import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.store.board_items import ItemCopy
    from backstory.store.staging import Staging

STRUCTURES_MAX = 2_000_000
"""So many lists and objects may begin in a line: each takes much more memory than text."""
_FORMAT_MAX = 1_000_000
_NO_EXPORT = "this is no JSON export of backstory"


class JsonImport:
    """Reads an export. ``name``: what the file is called in messages. ``trusted``: names and removals count."""

    def __init__(self, staging: Staging, name: str, *, trusted: bool) -> None:
        self._staging, self._name, self._trusted = staging, name, trusted
        self._number = 0
        self._decode = decoder().decode
        self._rows = Rows()
        self._session: StagedSession | None = None
        self._head: Head | None = None
        self._known: set[str] = set()
        self._is_over = False
        self._ids = Ids()
        self.uids: list[str] = []
        """The sessions, as they came."""
        self.removed: list[tuple[str, int]] = []
        """The sessions that were removed where the export was made, and when, ms."""
        self.board_items: list[ItemCopy] = []
        """The items of context boards."""

    @property
    def head(self) -> Head:
        """The first line."""
        assert self._head is not None
        return self._head

    def read(self, file: IO[bytes], progress: Callable[[int], None] = lambda read: None) -> None:
        """Read it to its end. Raises ImportRefused and ImportTooNew, and what writing the store of its own raises.

        ``progress`` receives how many bytes were read.
        """
        read = 0
        for line in self._lines(file):
            self._take_line(line)
            read += len(line)
            if self._rows.is_full:
                self._put()
                progress(read)
        if not self._is_over:
            self._number += 1
            self._refuse("the file ends before its line of type 'end': it is not whole")
        self._put()

    def _lines(self, file: IO[bytes]) -> Iterator[bytes]:
        while line := file.readline(LINE_BYTES_MAX + 1):
            self._number += 1
            if len(line) > LINE_BYTES_MAX:
                self._refuse(f"it is longer than {LINE_BYTES_MAX // 1_048_576} MB")
            if line.strip():
                yield line

    def _take_line(self, text: bytes) -> None:
        if self._is_over:
            self._refuse("nothing may follow the line of type 'end'")
        if self._head is None:
            self._take_head(text)
            return
        if text.count(b"{") + text.count(b"[") > STRUCTURES_MAX:
            self._refuse(f"more than {STRUCTURES_MAX:,} lists and objects begin in it")
        try:
            self._take(self._decode(text))
        except RecursionError:
            self._refuse("it is nested too deeply")
        except (Wrong, msgspec.DecodeError, ValueError, OverflowError) as refused:
            self._refuse(str(refused))

    def _take_head(self, text: bytes) -> None:
        """Take the first line: a later format may have another one, so its version is looked for first."""
        try:
            found = msgspec.json.decode(text[:LINE_BYTES_MAX])
            version = found.get("format") if isinstance(found, dict) and found.get("type") == "backstory" else None
            if isinstance(version, int) and not isinstance(version, bool) and FORMAT < version <= _FORMAT_MAX:
                raise ImportTooNew(self._name, version, FORMAT)
            head = self._decode(text) if version == FORMAT else None
            if not isinstance(head, Head):
                self._refuse(
                    "this is no JSON export of backstory: its first line is none of type 'backstory', format 1"
                )
            ms_of(head.exported)
        except RecursionError:
            self._refuse("it is nested too deeply")
        except (msgspec.DecodeError, ValueError) as refused:
            self._refuse(f"{_NO_EXPORT}: {refused}")
        self._head = head

    def _take(self, line: Any) -> None:
        session = self._session
        match line:
            case SessionLine():
                self._begin(line)
            case SessionEnd() if session is not None:
                session.end(line)
                self._session = None
            case RemovedLine() if session is None:
                self.removed.append((line.uid, ms_of(line.at) or 0))
            case BoardLine() if session is None:
                self.board_items.append(item_of(line))
            case End() if session is None:
                if line.sessions != len(self.uids):
                    raise Wrong(f"it says {line.sessions} sessions, and the file has {len(self.uids)}")
                self._is_over = True
            case Head() | SessionEnd():
                raise Wrong("a line of this type does not belong here")
            case _ if session is None:
                raise Wrong("it belongs to no session: none has begun")
            case RemovedLine() | BoardLine() | End():
                raise Wrong("the session before it has not ended")
            case _:
                session.take(line)

    def _begin(self, line: SessionLine) -> None:
        if self._session is not None:
            raise Wrong("the session before it has not ended")
        identity = ids.session_identity(line.uid)
        if identity in self._known:
            raise Wrong(f"session {line.uid} is in the file already")
        self._known.add(identity)
        self.uids.append(line.uid)
        self._session = StagedSession(self._rows, line, self._ids, has_bytes=self.head.bytes, trusted=self._trusted)

    def _put(self) -> None:
        try:
            self._staging.put(self._rows)
        except StoreDamaged as refused:
            self._refuse(f"what stands up to here contradicts itself: {refused.__cause__ or refused}")

    def _refuse(self, reason: str) -> NoReturn:
        raise ImportRefused(self._name, self._number, reason) from None
