"""Reads outputs that are too long for the log: ``tool-outputs/session-<id>/<tool>__<call>.txt`` beside ``chats``."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from backstory.agents.contract import SidecarContent
from backstory.agents.gemini.places import CHATS

if TYPE_CHECKING:
    from backstory.model import ToolResult

_OUTPUTS = "tool-outputs"
_ID_CHARS = 8
"""The characters of a session's id in the name of its log."""
_TOO_LARGE, _IN_FILE = "Output too large. ", " For full output see: "


class Sidecars:
    """See ``contract.SidecarPart``."""

    def log_of(self, below: PurePath) -> PurePath | None:
        match below.parts:
            case (project, folder, session, _) if folder == _OUTPUTS and session.startswith("session-"):
                return PurePath(project, CHATS, session.removeprefix("session-")[:_ID_CHARS])
        return None

    def name_of(self, log: PurePath) -> PurePath:
        # A log's name has the minute in which it was begun.
        first, _, session = log.stem.rpartition("-")
        return log.with_name(session) if first.startswith("session-") and len(session) == _ID_CHARS else log

    def is_read(self, name: str) -> bool:
        return False

    def read(self, name: str, content: bytes) -> SidecarContent:
        return SidecarContent()

    def is_searched(self, name: str) -> bool:
        return True

    def spilled_to(self, result: ToolResult) -> str | None:
        said, _, path = result.content.partition("\n")[0].partition(_IN_FILE)
        _, outputs, name = path.replace("\\", "/").rpartition(f"/{_OUTPUTS}/")
        return f"{outputs}{name}" if said.startswith(_TOO_LARGE) and name.count("/") == 1 else None
