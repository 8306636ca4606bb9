"""Reads a log's reports of its subagents: several builds repeat each record of theirs in a ``progress`` record.

Such a record holds the message, its uuid and its time; the folder, the branch and the session are those of the parent.
Put together again it is the record that the subagent's own log would have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from backstory.agents import jsonl
from backstory.agents.contract import ReportedRecord
from backstory.model import encoded

if TYPE_CHECKING:
    from pathlib import Path

MARK = b'"agent_progress"'
"""In every record that reports a subagent, and hardly anywhere else."""
_ID_CHARS_MAX = 64
_NOTHING = Raw(b"null")


class _Message(Struct, rename="camel"):
    type: str = ""
    uuid: str | None = None
    timestamp: Any = None
    request_id: str | None = None
    # As they are in the line, however large: nothing in them is asked for.
    message: Raw = _NOTHING
    tool_use_result: Raw = _NOTHING


class _Progress(Struct, rename="camel"):
    type: str = ""
    agent_id: str = ""
    message: _Message | None = None


class _Line(Struct, rename="camel"):
    type: str = ""
    session_id: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    data: _Progress = field(default_factory=_Progress)


class _Record(Struct, rename="camel", omit_defaults=True):
    """A record of the subagent's own log. Its time stands first, before what the agent was given."""

    timestamp: Any = None
    type: str = ""
    session_id: str | None = None
    agent_id: str = ""
    is_sidechain: bool = False
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    uuid: str | None = None
    request_id: str | None = None
    message: Raw | UnsetType = UNSET
    tool_use_result: Raw | UnsetType = UNSET


_decoder = msgspec.json.Decoder(_Line)


class Reports:
    """See ``contract.ReportPart``."""

    def reported(self, line: bytes) -> list[ReportedRecord]:
        return reported(line)

    def own_logs(self, path: Path, subagent: str) -> list[Path]:
        inside = path.parent if path.parent.name == "subagents" else path.with_suffix("") / "subagents"
        return [folder / f"agent-{subagent}{ending}" for folder in (inside, path.parent) for ending in jsonl.ENDINGS]


def reported(line: bytes) -> list[ReportedRecord]:
    """See ``contract.ReportPart``."""
    if MARK not in line:
        return []
    try:
        records = jsonl.decode(line, _decoder)
    except jsonl.NotJson:
        return []
    return [
        ReportedRecord(
            each.data.agent_id, _record(each, message), (bytes(message.message), bytes(message.tool_use_result))
        )
        for each in records
        if (message := each.data.message) and _is_report(each)
    ]


def _is_report(record: _Line) -> bool:
    """Return True if a record is a report, of a subagent whose id can be a part of a file's name."""
    name = record.data.agent_id
    is_name = 0 < len(name) <= _ID_CHARS_MAX and name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return record.type == "progress" and record.data.type == "agent_progress" and is_name


def _record(line: _Line, message: _Message) -> bytes:
    return encoded(
        _Record(
            timestamp=message.timestamp,
            type=message.type,
            session_id=line.session_id,
            agent_id=line.data.agent_id,
            is_sidechain=True,
            cwd=line.cwd,
            git_branch=line.git_branch,
            version=line.version,
            uuid=message.uuid,
            request_id=message.request_id,
            message=_said(message.message),
            tool_use_result=_said(message.tool_use_result),
        )
    )


def _said(value: Raw) -> Raw | UnsetType:
    return UNSET if bytes(value) == b"null" else value
