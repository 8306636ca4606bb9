"""Codex CLI's logs, as the rest of backstory asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.agents import jsonl
from backstory.agents.codex.identity import identify
from backstory.agents.codex.places import is_log, log_roots
from backstory.agents.codex.reader import Reader
from backstory.agents.codex.records import ResponseLine, records_on
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from backstory.agents.contract import LogRoot
    from backstory.model import LogIdentity


_UNIQUE_ID = lazy_regex(r"[a-z]+_[0-9a-f-]{24,}$")


class Logs:
    """See ``contract.LogPart``."""

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
    ) -> Reader:
        # No record of these logs points further back than the state remembers.
        return Reader(identity, state)

    def is_whole(self, line: bytes) -> bool:
        return jsonl.is_whole(line)

    def native_id_of(self, line: bytes) -> str | None:
        """Ids that Codex or the model's server drew at random; a short one may come twice in a log."""
        try:
            record = records_on(line)[0]
        except jsonl.NotJson:
            return None
        given = record.payload.id if isinstance(record, ResponseLine) else None
        return given if given is not None and _UNIQUE_ID.match(given) else None
