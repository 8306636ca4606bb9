"""Codex CLI's logs, as the rest of backstory asks for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backstory.agents import jsonl
from backstory.agents.codex.places import is_log, log_roots
from backstory.lazy import lazy_module, lazy_regex
from backstory.model import LogIdentity, Relation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from backstory.agents.codex import reader, records
    from backstory.agents.contract import LogRoot
else:
    # An ingest with nothing new reads no record.
    reader = lazy_module("backstory.agents.codex.reader")
    records = lazy_module("backstory.agents.codex.records")

_UNIQUE_ID = lazy_regex(r"[a-z]+_[0-9a-f-]{24,}$")


class Logs:
    """See ``contract.LogPart``."""

    is_whole = staticmethod(jsonl.is_whole)

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        return log_roots(environ, home)

    def is_log(self, path: Path) -> bool:
        return is_log(path)

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        return identify(path, head)

    def reader(
        self,
        identity: LogIdentity,
        state: bytes | None,
        earlier: Callable[[], Iterable[bytes]],
    ) -> reader.Reader:
        # No record of these logs points further back than the state remembers.
        return reader.Reader(identity, state)

    def native_id_of(self, line: bytes) -> str | None:
        """Ids that Codex or the model's server drew at random; a short one may come twice in a log."""
        try:
            record = records.records_on(line)[0]
        except jsonl.NotJson:
            return None
        given = record.payload.id if isinstance(record, records.ResponseLine) else None
        return given if given is not None and _UNIQUE_ID.match(given) else None


# identity -------------------------------------------------------------------------------------------------------------
# Finds the owner of a file: the thread, and the one that it was forked or spawned from.


_OURS = lazy_regex(rb'"type"\s*:\s*"(?:session_meta|turn_context|response_item|event_msg|compacted|world_state)"')
_PAYLOAD = lazy_regex(rb'"payload"\s*:')
_META = lazy_regex(rb'"type"\s*:\s*"session_meta"')
_ID = lazy_regex(rb'"id"\s*:\s*"([^"\\]+)"')
_FORKED_FROM = lazy_regex(rb'"forked_from_id"\s*:\s*"([^"\\]+)"')
_REVIEW_OF = lazy_regex(rb'"parent_thread_id"\s*:\s*"([^"\\]+)".*?"source"\s*:\s*\{\s*"subagent"\s*:\s*"')
_SPAWNED_BY = lazy_regex(rb'"thread_spawn"\s*:\s*\{[^{}]*?"parent_thread_id"\s*:\s*"([^"\\]+)"')
_FILE_ID = lazy_regex(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def identify(path: Path, head: bytes) -> LogIdentity | None:
    if early := records.META.match(head):
        return LogIdentity(native_id=early.group(1).decode("utf-8", "replace"))
    if not (_OURS.search(head) and _PAYLOAD.search(head)):
        return None
    meta = _first_meta(head)
    in_name = _FILE_ID.search(jsonl.stem(path))
    native_id = meta.id or (in_name.group() if in_name else jsonl.stem(path))
    if spawned_by := _spawned_by(meta):
        return LogIdentity(native_id=native_id, parent_native_id=spawned_by, relation=Relation.SUBAGENT)
    if meta.forked_from_id:
        return LogIdentity(native_id=native_id, parent_native_id=meta.forked_from_id, relation=Relation.FORK)
    return LogIdentity(native_id=native_id)


def _first_meta(head: bytes) -> records.SessionMeta:
    """Return the content of the first session_meta, and no later one: a fork repeats its parent's after its own."""
    line = next((line for line in jsonl.lines_in(head) if _META.search(line)), b"")
    try:
        record = records.records_on(line)[0]
    except jsonl.NotJson:
        # Its instructions may be longer than the head; what names the thread comes before them.
        spawned_by = _word(_SPAWNED_BY.search(line) or _REVIEW_OF.search(line))
        return records.SessionMeta(
            id=_word(_ID.search(line, max(line.find(b'"payload"'), 0))),
            forked_from_id=_word(_FORKED_FROM.search(line)),
            source=records.Source(records.SubAgent(records.ThreadSpawn(spawned_by))),
        )
    return record.payload if isinstance(record, records.SessionMetaLine) else records.SessionMeta()


def _spawned_by(meta: records.SessionMeta) -> str | None:
    """The thread that spawned this one; a review names it beside its source, which is no more than a word."""
    match meta.source:
        case records.Source(subagent=str()):
            return meta.parent_thread_id
        case records.Source(subagent=records.SubAgent(thread_spawn=records.ThreadSpawn(parent_thread_id=spawned_by))):
            return spawned_by
        case _:
            return None


def _word(found: re.Match[bytes] | None) -> str | None:
    return found.group(1).decode("utf-8", "replace") if found else None
