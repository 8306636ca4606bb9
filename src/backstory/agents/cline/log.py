"""Cline's logs: ``sessions/<session>/<session>.messages.json`` in its folder of data, ~/.cline/data.

Source: recordings of 3.0.65. A log is a document that is written anew with each message. It begins with the session's
id and the version of the client; ``messages`` is its list, and the model's instructions stand behind it. A message has
an id, a time, what it holds, and of an answer the model and its tokens, of which the cached ones are input, too. What a
person typed stands in ``<user_input>``. A subagent's log lies beside its caller's, as ``agent_<time>_<letters>``.

The extension of editors keeps its tasks elsewhere, in another form; those are not read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backstory.agents.cline.places import ENDING, SESSIONS
from backstory.agents.contract import LogRoot
from backstory.lazy import lazy_module, lazy_regex
from backstory.model import LogIdentity, Relation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import PurePath

    from backstory.agents import documents
    from backstory.agents.cline import reader
else:
    # An ingest with nothing new reads no record.
    documents = lazy_module("backstory.agents.documents")
    reader = lazy_module("backstory.agents.cline.reader")

_SESSION = lazy_regex(rb'"sessionId"\s*:\s*"([^"\\]{1,200})"')
_BESIDE = lazy_regex(rb'"(?:messages|origin|updated_at)"\s*:')
_TIME = lazy_regex(rb"(?:.*_)?(\d{13})_[^_]*\Z")


class Logs:
    """See ``contract.LogPart``."""

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        data = Path(environ.get("CLINE_DATA_DIR") or Path(environ.get("CLINE_DIR") or home / ".cline") / "data")
        sessions = environ.get("CLINE_SESSION_DATA_DIR")
        folder = Path(sessions) if sessions else data / SESSIONS
        return [LogRoot(folder=folder, root=folder.parent)]

    def is_log(self, path: Path) -> bool:
        return path.name.endswith(ENDING)

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        found = _SESSION.search(head)
        if found is None or not _BESIDE.search(head):
            return None
        native_id = found[1].decode("utf-8", "replace")
        parent, _, own = native_id.partition("__")
        if parent and own:
            return LogIdentity(native_id=native_id, parent_native_id=parent, relation=Relation.SUBAGENT)
        return LogIdentity(native_id=native_id)

    def reader(
        self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]
    ) -> reader.Reader:
        return reader.Reader(identity, state, earlier)

    def is_whole(self, line: bytes) -> bool:
        # Each line of what is kept has its end.
        return False

    def native_id_of(self, line: bytes) -> str | None:
        return reader.id_of(line)


class Documents:
    """See ``contract.DocumentPart``."""

    def is_document(self, path: PurePath) -> bool:
        return path.name.endswith(ENDING)

    def pieces(self, document: bytes) -> list[bytes] | None:
        return documents.pieces(document, "messages")

    def record_end(self, head: bytes) -> None:
        return None

    def started_ms(self, head: bytes) -> int:
        found = _SESSION.search(head)
        began = _TIME.match(found[1]) if found is not None else None
        return int(began[1]) if began is not None else 0
