"""Vibe's sessions: ``logs/session/unified/<id>`` below ~/.vibe, a folder each.

Source: recordings of 3.0.3. Records are the facts about the session (``meta.json``), its state with the tokens of the
whole session, messages of the model's context, entries of the conversation, and changes of both from the journal. An
entry has an id, and one that changes comes again whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backstory import ids
from backstory.agents import jsonl
from backstory.agents.contract import LogRoot
from backstory.agents.vibe.places import HEAD, OLD_LOG, SESSION_ID, SESSIONS, UNIFIED
from backstory.lazy import lazy_module, lazy_regex
from backstory.model import LogIdentity, Relation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from backstory.agents.vibe import reader
else:
    # An ingest with nothing new reads no record.
    reader = lazy_module("backstory.agents.vibe.reader")

_OWN = lazy_regex(rb'"(?:session_id|sessionId)"\s*:\s*"|"recovery_journal_record_version"\s*:')
_PARENT = lazy_regex(rb'"(?:parent_session_id|parentSessionId)"\s*:\s*"([^"\\]+)"')
_STARTED = lazy_regex(rb'"start_time"\s*:\s*"([^"\\]+)"')
_CREATED = lazy_regex(rb'"createdAt"\s*:\s*(\d{12,14})\b')
_ROOT = lazy_regex(rb'"rootSessionId"\s*:\s*"([^"\\]+)"')


class Logs:
    """See ``contract.LogPart``."""

    is_whole = staticmethod(jsonl.is_whole)

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        root = Path(environ.get("VIBE_HOME") or home / ".vibe")
        return [LogRoot(folder=root / SESSIONS, root=root)]

    def is_log(self, path: Path) -> bool:
        above = path.parent.parent.name
        return (path.name, above) in ((HEAD, UNIFIED), (OLD_LOG, SESSIONS.name))

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        native_id = path.parent.name if path.name == HEAD else path.name
        if SESSION_ID.fullmatch(native_id) is None or _OWN.search(head) is None:
            return None
        began = _began(head)
        parent, root = _PARENT.search(head), _ROOT.search(head)
        if parent is None:
            return LogIdentity(native_id=native_id, began=began)
        # A helper is in the tree of the session that it helps, and a copy begins another one.
        is_helper = root is not None and root[1].decode("utf-8", "replace") != native_id
        return LogIdentity(
            native_id=native_id, parent_native_id=parent[1].decode("utf-8", "replace"), began=began,
            relation=Relation.SUBAGENT if is_helper else Relation.FORK,
        )  # fmt: skip

    def reader(
        self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]
    ) -> reader.Reader:
        return reader.Reader(identity, state, earlier)

    def native_id_of(self, line: bytes) -> str | None:
        # An entry that changes comes again with its id, and is another record of the log all the same.
        return None


def _began(head: bytes) -> int | None:
    """Return the begin of a session, ms since 1970; None where neither its facts nor an entry say it."""
    if (found := _STARTED.search(head)) is not None:
        return ids.parse_time_ms(found[1].decode("utf-8", "replace"))
    return int(made[1]) if (made := _CREATED.search(head)) is not None else None
