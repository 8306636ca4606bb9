"""Reads the files beside a log: a subagent's definition, results too long for the log, and workflows."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory.agents.contract import SidecarContent
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from backstory.model import ToolResult

_META_ENDING = ".meta.json"
_PERSISTED_OUTPUT = lazy_regex(r"<persisted-output>\nOutput too large [^\n]*[/\\]tool-results[/\\]([^/\\\n]+)\n")


class _SubagentMeta(Struct):
    """The file beside a subagent's log."""

    description: str = ""


class Sidecars:
    """See ``contract.SidecarPart``."""

    def log_of(self, below: PurePath) -> PurePath | None:
        """Beside a subagent's log lies what it was started as; in ``<session>/`` results too long for the log, and
        workflows with their journals."""
        if below.name.startswith("agent-") and below.name.endswith(_META_ENDING):
            return below.with_name(f"{below.name.removesuffix(_META_ENDING)}.jsonl")
        match below.parts:
            case (project, session, "tool-results", _):
                return PurePath(project, f"{session}.jsonl")
            case (project, session, "workflows", name) if name.endswith(".json"):
                return PurePath(project, f"{session}.jsonl")
            case (project, session, "subagents", "workflows", _, "journal.jsonl"):
                return PurePath(project, f"{session}.jsonl")
        return None

    def name_of(self, log: PurePath) -> PurePath:
        return log

    def is_read(self, name: str) -> bool:
        return name.endswith(_META_ENDING)

    def read(self, name: str, content: bytes) -> SidecarContent:
        try:
            described = msgspec.json.decode(content, type=_SubagentMeta).description if self.is_read(name) else ""
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            described = ""
        return SidecarContent(title=described.strip() or None)

    def is_searched(self, name: str) -> bool:
        return "/tool-results/" in name

    def spilled_to(self, result: ToolResult) -> str | None:
        found = _PERSISTED_OUTPUT.match(result.content)
        return f"/tool-results/{found.group(1)}" if found else None
