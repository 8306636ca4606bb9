"""The places of Aider's histories, and the sessions in one: each is read as a log of its own bytes."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from backstory.agents.aider import runs
from backstory.agents.aider.runs import FILE, RecordBegin
from backstory.agents.contract import SessionRows, UnreadRows
from backstory.lazy import lazy_module, lazy_regex
from backstory.model import LogIdentity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from backstory.agents.aider import reader
    from backstory.agents.contract import LogRoot
else:
    # An ingest with nothing new reads no record.
    reader = lazy_module("backstory.agents.aider.reader")

VARIABLE = "AIDER_CHAT_HISTORY_FILE"
NO_PROMPT = "nothing was asked in it yet"
_ID = lazy_regex(r"#((?:\d{8}T\d{6}-)?[0-9a-f]{12}(?:-\d+)?)\Z")


class Histories:
    """See ``contract.DatabasePart``: a history is a file to which each session is appended."""

    def databases(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        named = environ.get(VARIABLE)
        return [home / FILE, *([Path(environ.get("PWD", ""), named)] if named else [])]

    def databases_in(self, place: Path) -> list[Path]:
        history = place if place.name == FILE else place / FILE
        try:
            return [history] if history.is_file() else []
        except (OSError, ValueError):
            return []

    def beside(self, database: Path) -> list[Path]:
        return []

    def sessions_without_logs(self, database: Path, copy: Path) -> Iterator[SessionRows | UnreadRows]:
        data = copy.read_bytes()
        each = None
        for each in runs.sessions_in(data):
            yield SessionRows(native_id=each.native_id, content=data[each.begin : each.end])
        if each is None:
            yield UnreadRows(reason=NO_PROMPT, is_final=True)


class Logs:
    """See ``contract.LogPart``."""

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        # A history lies in each repository.
        return []

    def is_log(self, path: Path) -> bool:
        return _ID.search(path.name) is not None

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        if runs.STARTED not in head and runs.PROMPT not in head:
            return None
        named, found = _ID.search(path.name), next(runs.sessions_in(head), None)
        if named is None and (found is None or not found.started_ms):
            return None
        native_id = named[1] if named is not None else found.native_id if found is not None else ""
        # Under another name it may lie anywhere.
        cwd = str(path.parent) if path.name.partition("#")[0] == FILE and path.is_absolute() else None
        return LogIdentity(native_id=native_id, cwd=cwd)

    def reader(
        self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]
    ) -> reader.Reader:
        return reader.Reader(identity, state)

    def is_whole(self, line: bytes) -> bool:
        return line.endswith(b"\n")

    def native_id_of(self, line: bytes) -> str | None:
        return None


class Documents:
    """See ``contract.DocumentPart``: an answer is many lines."""

    def is_document(self, path: PurePath) -> bool:
        return True

    def pieces(self, document: bytes) -> None:
        return None

    def record_end(self, head: bytes) -> RecordBegin:
        return RecordBegin()

    def started_ms(self, head: bytes) -> int:
        found = next(runs.sessions_in(head), None)
        return found.started_ms if found is not None else 0
