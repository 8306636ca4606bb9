"""The base of all tools: the fields of a Struct are a tool's arguments, checked, with their limits."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import Struct

from backstory import times
from backstory.bounds import iso

if TYPE_CHECKING:
    from backstory.workspace.agent_history import AgentHistory

SESSION = "A session as results cite it: the start of its uid, S3, or its name."
SINCE = "Only what happened since then: an ISO date, 'yesterday', '3 days', 'last week'."


class Tool(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The family of tools. ``about``: what a model is told of one; ``writes``: whether it changes anything."""

    name: ClassVar[str] = ""
    about: ClassVar[str] = ""
    writes: ClassVar[bool] = False

    def answer(self, history: AgentHistory, remarks: list[str]) -> str:
        """Return the tool's answer; ``remarks``: those that follow it anyway. Raises BackstoryError."""
        raise NotImplementedError


def schema(tool: type[Tool]) -> dict[str, Any]:
    """The arguments of a tool as JSON Schema."""
    found = msgspec.json.schema(tool)["$defs"][tool.__name__]
    return {key: value for key, value in found.items() if key not in ("title", "description")}


def moment(text: str) -> int | None:
    """The first moment that a text means, in ms since 1970; None for ''. Raises BadTime."""
    return times.since(text, datetime.now()) if text.strip() else None


def minute(at: int | None) -> str:
    """A time as a reader needs it: UTC, to the minute; '' where it is not known."""
    return (iso(at) or "")[:16].replace("T", " ")


def without_asking(history: AgentHistory, remarks: list[str]) -> None:
    """Say that the session that asks is not among the results, where it is known."""
    if history.asking is not None:
        label = history.labels([history.asking.uid])[history.asking.uid]
        remarks.append(f"The session that asks ({label}) and its subagents are left out.")
