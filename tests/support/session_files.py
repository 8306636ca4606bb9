"""A machine with a session that is exported as a file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backstory import AssistantText, Thinking, ToolCall, ToolResult, UserMessage, open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.model import Event
    from tests.support.shell import Shell

SEALED = re.compile(r'<script type="application/octet-stream" class="sealed">([^<]*)</script>')
"""The pieces of a file that opens with a password."""
TOKEN = "ghp_x7Qm2Lp9Rk4Tz8Vb3Nc6Wd1Yf5Hg0Js2AaEe"
LINES = [f"line {n} of the output" for n in range(40)]
THOUGHT = "A long thought. " * 40
EVENTS: list[Event] = [
    UserMessage(content="Look at **price.py**"),
    Thinking(text=THOUGHT),
    ToolCall(tool_name="Bash", tool_use_id="1", tool="SHELL", input={"command": "cat price.py", "timeout": 12_345}),
    ToolResult(tool_use_id="1", tool_name="Bash", tool="SHELL", content="\n".join(LINES)),
    AssistantText(text=f"It is **there**. See `price.py` and {TOKEN}.\n\n|a|b|\n|-|-:|\n|1|2|"),
    UserMessage(content="Thanks"),
]


def machine_with(shell: Shell, events: Sequence[Event]) -> Shell:
    """A machine with a session of these events."""
    shell.store.parent.mkdir(parents=True)
    with open_store(shell.store) as store:
        session = store.create_session()
        store.rename(session, f"The price with {TOKEN}")
        store.append_events(session, [*events])
    return shell
