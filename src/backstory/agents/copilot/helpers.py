"""By which call each helper is at work. Its records say so themselves, or only the first of them does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory.model import Hook

if TYPE_CHECKING:
    from backstory.model import Event

HELPERS_MAX = 500
"""The most helpers of a session that are known at once."""


class Helpers(Struct):
    """The calls that began the helpers of a session, by the helpers' ids."""

    calls: dict[str, str] = field(default_factory=dict)

    def named(self, events: list[Event], kind: str, data: dict[str, Any], helper: Any) -> list[Event]:
        """Return the events of a helper's record, with the call by which it is at work if that is known."""
        parent, own = data.get("parentToolCallId"), helper if isinstance(helper, str) else ""
        if kind == "subagent.started" and own and isinstance(call_id := data.get("toolCallId"), str):
            self.calls[own] = call_id
            if len(self.calls) > HELPERS_MAX:
                self.calls.pop(next(iter(self.calls)))
        call_id = parent if isinstance(parent, str) else self.calls.get(own, "")
        return [
            msgspec.structs.replace(each, tool_use_id=call_id) if isinstance(each, Hook) else each for each in events
        ]
