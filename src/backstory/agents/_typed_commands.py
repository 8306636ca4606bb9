"""Shell commands that a person typed after a ``!``, where a message of its own tells the model of them."""

from __future__ import annotations

import re

from backstory.model import Command

_TOLD = re.compile(r"\s*<user_shell_command>\s*<command>\s*(.*?)\s*</command>\s*(?:<result>(.*?)</result>)?", re.DOTALL)


def typed_command(text: str) -> list[Command]:
    """What was typed, and what it printed, each for itself: only the first is the person's words."""
    told = _TOLD.match(text)
    if told is None:
        return []
    printed = (told.group(2) or "").strip()
    typed = Command(name=f"! {told.group(1)}")
    return [typed, Command(name="", output=printed)] if printed else [typed]
