"""The records of a log: a line of JSON each, also where one was torn."""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct, field

from backstory.agents import jsonl
from backstory.agents.copilot.values import as_text
from backstory.lazy import lazy_regex

_STARTS_TRIED_MAX = 4
_START = lazy_regex(rb'\{"type": ?"([a-z_]+(?:\.[A-Za-z_]+)*)", ?"data": ?\{')
_TYPES = lazy_regex(
    r"(?:abort|(?:assistant|hook|model|permission|session|skill|subagent|system|tool|user)\.[A-Za-z_.]+)$"
)


class Line(Struct):
    type: Any = ""
    data: Any = None
    id: Any = None
    timestamp: Any = None
    agent_id: Any = field(default=None, name="agentId")
    ephemeral: Any = None
    table: Any = None
    row: Any = None


_decoder = msgspec.json.Decoder(Line)


def records_on(line: bytes) -> tuple[list[Line], bool]:
    """The records on a line, and whether something there is none: all of it, or a torn record before whole ones."""
    try:
        return jsonl.decode(line, _decoder), False
    except jsonl.NotJson:
        pass
    for found in islice(_START.finditer(line, 1), _STARTS_TRIED_MAX):
        try:
            return jsonl.decode(line[found.start() :], _decoder), True
        except jsonl.NotJson:
            continue
    return [], True


def is_ours(line: bytes) -> bool:
    records, is_torn = records_on(line)
    # A record may be longer than what is looked at.
    if is_torn and (found := _START.match(line)) and _TYPES.match(found.group(1).decode("ascii")):
        return True
    return any(_TYPES.match(as_text(each.type)) and each.id and isinstance(each.data, dict) for each in records)


def session_started(line: bytes) -> dict[str, Any] | None:
    """Return the content of the record that a session began, if it is on this line."""
    starts = [each.data for each in records_on(line)[0] if each.type == "session.start"]
    return starts[0] if starts and isinstance(starts[0], dict) else None
