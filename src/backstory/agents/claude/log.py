"""Claude Code's logs: ``projects/<encoded cwd>/<session>.jsonl`` below CLAUDE_CONFIG_DIR (else ~/.claude).

Source: recorded logs of 2.0 to 2.1.330. A line is a record with a ``type``; those of a conversation carry
``uuid`` and ``parentUuid``. An assistant message is several records (one content block each) with one
``message.id`` and a growing ``usage``. A subagent's log lies in ``<session>/subagents/agent-<id>.jsonl``
(older builds: beside the session) and carries the parent's session id. Resumed and forked copies repeat
records with the same uuid, so a turn, known by the uuid of its prompt, is the same turn in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.agents import jsonl
from backstory.agents.claude.places import is_log, log_roots
from backstory.agents.claude.records import record_decoder
from backstory.lazy import lazy_regex
from backstory.model import LogIdentity, Relation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from backstory.agents.claude.reader import Reader
    from backstory.agents.contract import LogRoot

_KEY_OF_A_RECORD = lazy_regex(rb'"(?:sessionId|leafUuid|parentUuid|messageId)"\s*:')
_SESSION_ID = lazy_regex(rb'"sessionId"\s*:\s*"([^"]+)"')


class Logs:
    """See ``contract.LogPart``."""

    is_whole = staticmethod(jsonl.is_whole)

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        return log_roots(environ, home)

    def is_log(self, path: Path) -> bool:
        return is_log(path)

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        if not _KEY_OF_A_RECORD.search(head):
            return None
        # A subagent that only its parent's log reports has the parent's path with ``#`` and its own id behind it.
        name, _, subagent = path.name.partition("#")
        stem = jsonl.stem(path.with_name(name))
        if subagent and not stem.startswith("agent-"):
            return LogIdentity(native_id=f"{stem}/{subagent}", parent_native_id=stem, relation=Relation.SUBAGENT)
        if not stem.startswith("agent-"):
            return LogIdentity(native_id=stem)
        parent = next((folder.parent.name for folder in path.parents if folder.name == "subagents"), None)
        if parent is None:
            found = _SESSION_ID.search(head)
            parent = found.group(1).decode("utf-8", "replace") if found else None
        if parent is None:
            # A first record that is torn may still say it.
            return LogIdentity(native_id=stem) if b"\n" in head else None
        native_id = f"{parent}/{subagent or stem.removeprefix('agent-')}"
        return LogIdentity(native_id=native_id, parent_native_id=parent, relation=Relation.SUBAGENT)

    def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> Reader:
        from backstory.agents.claude.reader import Reader  # a run needs none

        return Reader(identity, state, earlier)

    def native_id_of(self, line: bytes) -> str | None:
        record = jsonl.first(line, record_decoder)
        return record.uuid if record is not None else None
