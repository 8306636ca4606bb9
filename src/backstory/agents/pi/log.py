"""pi's logs: ``sessions/--<cwd with hyphens>--/<time>_<session>.jsonl`` below PI_CODING_AGENT_DIR (else ~/.pi/agent).

Source: recorded logs of 0.73.1 and, of its successor's package, 0.87.1; logs of others from April 2026 on. The first
line is a ``session`` with the session's id, its folder and, in a fork, ``parentSession``: the path of the log that it
comes from. Each other line is an entry with an ``id`` of 8 hex digits, unique in its session only, and ``parentId``:
entries form a tree, and the next one follows the last line. A fork repeats its parent's entries with their ids and
times, so a turn is known by both of its prompt. A log is first written with the first answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backstory.agents import jsonl
from backstory.agents.contract import LogRoot
from backstory.agents.pi.places import SESSIONS
from backstory.lazy import lazy_module, lazy_regex
from backstory.model import LogIdentity, Relation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from backstory.agents.pi import reader
else:
    # An ingest with nothing new reads no record.
    reader = lazy_module("backstory.agents.pi.reader")

_HEADER = lazy_regex(rb'\s*\{\s*"type"\s*:\s*"session"\s*,')
_ENTRY = lazy_regex(rb'"type"\s*:\s*"(?:message|model_change|thinking_level_change|compaction|branch_summary)"')
_ID = lazy_regex(rb'"id"\s*:\s*"([^"\\]+)"')
_PARENT = lazy_regex(rb'"parentSession"\s*:\s*"((?:[^"\\]|\\.)+)"')


class Logs:
    """See ``contract.LogPart``."""

    is_whole = staticmethod(jsonl.is_whole)

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        root = Path(environ.get("PI_CODING_AGENT_DIR") or home / ".pi" / "agent")
        return [LogRoot(folder=root / SESSIONS, root=root)]

    def is_log(self, path: Path) -> bool:
        return path.name.endswith(jsonl.ENDINGS)

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        first = next(jsonl.lines_in(head), b"")
        if not _HEADER.match(first):
            # Its first line may be torn; the rest still says whose it is.
            return LogIdentity(native_id=_session_in(jsonl.stem(path))) if _is_entry(head) else None
        own, parent = _ID.search(first), _PARENT.search(first)
        native_id = own[1].decode("utf-8", "replace") if own else _session_in(jsonl.stem(path))
        if parent is None:
            return LogIdentity(native_id=native_id)
        name = parent[1].decode("utf-8", "replace").replace("\\\\", "/").rpartition("/")[2]
        origin = _session_in(jsonl.stem(Path(name)))
        if origin == native_id:
            return LogIdentity(native_id=native_id)
        return LogIdentity(native_id=native_id, parent_native_id=origin, relation=Relation.FORK)

    def reader(
        self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]
    ) -> reader.Reader:
        return reader.Reader(identity, state, earlier)

    def native_id_of(self, line: bytes) -> str | None:
        return reader.id_of(line)


def _is_entry(head: bytes) -> bool:
    return any(_ENTRY.search(line) and b'"parentId"' in line for line in jsonl.lines_in(head))


def _session_in(stem: str) -> str:
    """The session that a log's name ends with."""
    return stem.rpartition("_")[2]
