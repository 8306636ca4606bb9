"""A small agent whose log is a document that it writes anew at each change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from backstory.agents import documents
from backstory.agents.turn_fold import TurnState
from backstory.model import LogIdentity, Parsed
from tests.agents.example import AGENT, Logs, Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path, PurePath

    from backstory.agents.contract import Agent


class Documents:
    def is_document(self, path: PurePath) -> bool:
        return path.suffix == ".jsonl"

    def pieces(self, document: bytes) -> list[bytes] | None:
        return documents.pieces(document, "records")

    def record_end(self, head: bytes) -> None:
        return None

    def started_ms(self, head: bytes) -> int:
        return 0


class Rewriting(Reader):
    """Says of a record that comes again nothing."""

    def __init__(self, *given: Any, earlier: Callable[[], Iterable[bytes]]) -> None:
        super().__init__(*given)
        self._seen = {self._id_of(line) for line in earlier()}

    def _id_of(self, line: bytes) -> str | None:
        found = documents.record(line)
        return json.loads(found.content)["id"] if found.is_element else None

    def read(self, line: bytes, seq: int) -> Parsed:
        found, id_ = documents.record(line), self._id_of(line)
        if id_ is None or id_ in self._seen:
            return Parsed(None, [], None)
        self._seen.add(id_)
        return super().read(found.content, seq)


class RewrittenLogs(Logs):
    _make: type[Rewriting] = Rewriting

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        return LogIdentity(native_id="s1") if b'"session": "s1"' in head else None

    def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> Rewriting:
        return self._make("example", identity, state, TurnState, earlier=earlier)

    def native_id_of(self, line: bytes) -> str | None:
        found = documents.record(line)
        return str(json.loads(found.content)["id"]) if found.is_element else None


def agent_with(log: Any = None, part: Any = None) -> Agent:
    return msgspec.structs.replace(AGENT, log=log or RewrittenLogs(), documents=part or Documents())
