"""Gemini CLI's logs: ``tmp/<project>/chats/session-<minute>-<first 8 of the id>.jsonl`` below ~/.gemini.

Source: logs of June 2026 and recordings of 0.61.0. The first line is a header with the session's id; records follow,
each with an id, and between them ``$set`` and ``$rewindTo``. A record that comes again with the same id replaces the
earlier one. A client that continues a session goes on in its old file, and begins another one of the same session
that holds a header and the environment, and often nothing more; within the same minute both are one file, so that a
header stands in its middle. So a session is one of several files, and each is read by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backstory.agents import jsonl
from backstory.agents.contract import LogRoot
from backstory.agents.gemini.places import CHATS, OLD_ENDING, TMP
from backstory.ids import HEAD_BYTES
from backstory.lazy import lazy_module, lazy_regex
from backstory.model import LogIdentity, Relation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from backstory.agents.gemini import reader
else:
    # An ingest with nothing new reads no record.
    reader = lazy_module("backstory.agents.gemini.reader")

_HEADER = lazy_regex(
    rb'(?:^[^\n"]*|\n[ \t]*)\{[ \t]*"sessionId"[ \t]*:[ \t]*"([^"\\\n]+)"[ \t]*,[ \t]*"(?:projectHash|startTime|kind)"'
)
"""A header: the first line, or a later one where that is torn."""
_SAID = lazy_regex(rb'(?:^|\n)\s*\{\s*"id"\s*:|[{,]\s*"type"\s*:\s*"gemini"')
"""A record, or an answer in a list of them: what a file with the environment alone does not have."""


class Logs:
    """See ``contract.LogPart``."""

    is_whole = staticmethod(jsonl.is_whole)

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        root = Path(environ.get("GEMINI_CLI_HOME") or home) / ".gemini"
        return [LogRoot(folder=root / TMP, root=root)]

    def is_log(self, path: Path) -> bool:
        # Those of subagents lie a folder deeper, which is named like the session that called them.
        if path.name.endswith(jsonl.ENDINGS):
            return CHATS in (path.parent.name, path.parent.parent.name)
        return path.parent.name == CHATS and path.name.startswith("session-") and path.name.endswith(OLD_ENDING)

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        found = _HEADER.search(head)
        if found is None:
            return None
        native_id = found.group(1).decode("utf-8", "replace")
        # One with its caller's own id is another file of that session.
        if path.parent.parent.name == CHATS and path.parent.name != native_id:
            return LogIdentity(native_id=native_id, parent_native_id=path.parent.name, relation=Relation.SUBAGENT)
        is_aside = len(head) < HEAD_BYTES and _SAID.search(head) is None
        return LogIdentity(native_id=native_id, relation=Relation.ASIDE if is_aside else None)

    def reader(
        self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]
    ) -> reader.Reader:
        return reader.Reader(identity, state, earlier)

    def native_id_of(self, line: bytes) -> str | None:
        # A record that is replaced comes again with its id, and is another record of the log all the same.
        return None
