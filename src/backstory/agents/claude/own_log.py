"""Reads the times of records that ``claude -p`` prints from the log of the run. They share their uuids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.agents import jsonl, numbers
from backstory.model import RunFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class _Stamp(Struct):
    uuid: str | None = None
    timestamp: Any = None


_decoder = msgspec.json.Decoder(_Stamp)


class OwnLogs:
    """See ``contract.OwnLogPart``."""

    def run_facts(self, stream: Iterable[tuple[int, bytes]], log: Iterable[bytes]) -> RunFacts:
        stamps = (stamp for line in log for stamp in _stamps_on(line))
        logged = {stamp.uuid: numbers.time_ms(stamp.timestamp) for stamp in stamps if stamp.uuid}
        times: dict[int, int] = {}
        for offset, line in stream:
            for stamp in _stamps_on(line):
                at = logged.get(stamp.uuid or "")
                if at is not None:
                    times[offset] = at
        return RunFacts(times=times)


def _stamps_on(line: bytes) -> Iterator[_Stamp]:
    try:
        yield from jsonl.decode(line, _decoder)
    except jsonl.NotJson:
        return
