"""Reads ``<session>.json``: how a session stands, what it is called, where it ran. Keeps what else lies there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.agents.cline.places import ENDING
from backstory.agents.contract import SidecarContent
from backstory.derive.naming import repository_name
from backstory.model import Outcome

if TYPE_CHECKING:
    from pathlib import PurePath

    from backstory.model import ToolResult

OUTCOMES = {"cancelled": Outcome.CANCELLED, "failed": Outcome.FAILED, "error": Outcome.FAILED}
"""The outcome of a last turn that the log leaves open, by the state of its session."""


class Git(Struct):
    url: Any = None
    branch: Any = None


class Metadata(Struct):
    git: Git | None = None
    title: Any = None


class State(Struct):
    status: Any = None
    cwd: Any = None
    metadata: Metadata | None = None


_decoder = msgspec.json.Decoder(State)


class Sidecars:
    """See ``contract.SidecarPart``."""

    def log_of(self, below: PurePath) -> PurePath | None:
        match below.parts:
            case (session, _):
                return below.with_name(f"{session}{ENDING}")
        return None

    def name_of(self, log: PurePath) -> PurePath:
        return log

    def is_read(self, name: str) -> bool:
        return name.endswith(".json") and "/" not in name

    def read(self, name: str, content: bytes) -> SidecarContent:
        try:
            found = _decoder.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return SidecarContent()
        more = found.metadata or Metadata()
        git = more.git or Git()
        url = _text(git.url)
        return SidecarContent(
            title=_text(more.title), cwd=_text(found.cwd), branch=_text(git.branch),
            repository=repository_name(url) if url else None,
            outcome=OUTCOMES.get(found.status) if isinstance(found.status, str) else None,
        )  # fmt: skip

    def is_searched(self, name: str) -> bool:
        # The state of a session is no text of it.
        return False

    def spilled_to(self, result: ToolResult) -> str | None:
        return None


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None
