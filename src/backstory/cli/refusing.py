"""Calls that an agent's permissions refused, and the option that allows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.call_view import call_words
from backstory.model import Permissions, Tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.model import ToolCall

CALLS_NAMED_MAX = 4
CALL_COLUMNS = 40
_OF_EDITS = frozenset({Tool.EDIT, Tool.WRITE})
_ALLOWED = {Permissions.EDIT: "allow edits", Permissions.ALL: "allow everything"}


def refusal_lines(refused: Sequence[ToolCall], permissions: Permissions) -> Iterator[str]:
    """What was refused, and how to allow it; nothing where nothing was."""
    if not refused:
        return
    named = [output.one_line(f"{each.tool_name} {call_words(each, CALL_COLUMNS)}", CALL_COLUMNS) for each in refused]
    left = [f"{len(named) - CALLS_NAMED_MAX} more"] if len(named) > CALLS_NAMED_MAX else []
    count = "1 call was" if len(refused) == 1 else f"{len(refused)} calls were"
    yield f"{count} refused: {', '.join([*named[:CALLS_NAMED_MAX], *left])}"
    if permissions == Permissions.ALL:
        return
    are_edits = [call.tool in _OF_EDITS for call in refused]
    wanted = Permissions.EDIT if any(are_edits) and permissions != Permissions.EDIT else Permissions.ALL
    more = "" if wanted == Permissions.ALL or all(are_edits) else "   (everything: all)"
    yield f'  {_ALLOWED[wanted]}: backstory run --permissions {wanted} "…"{more}'
    yield f"  always: backstory config set run.permissions {wanted}"
