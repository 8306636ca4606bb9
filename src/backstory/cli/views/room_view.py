"""The room in the store as a person reads it: four tables, each row with the command that frees it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from backstory.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.workspace.stores.rooms import RoomRow, Rooms

NAME_CHARS = 32


def room_lines(found: Rooms) -> Iterator[str]:
    """Yield the lines of the tables."""
    for path, size in found.stores:
        yield output.one_liner(f"{output.size(size)}  {path}")
    tables = (
        ("KIND", found.by_kind), ("PROJECT", found.by_project), ("AGENT", found.by_agent),
        ("LAST ACTIVE", found.by_age),
    )  # fmt: skip
    for head, rows in tables:
        yield ""
        yield from _table(head, rows, found.bytes)


def _table(head: str, rows: Sequence[RoomRow], whole: int) -> Iterator[str]:
    shown = [
        (
            row.name or "–", output.size(row.bytes), f"{100 * row.bytes / max(whole, 1):.0f} %",
            f"{row.sessions:,}" if row.sessions else "", _freed_by(row),
        )
        for row in rows
    ]  # fmt: skip
    # The name may be cut, the command not: it is to be copied.
    yield from output.table(shown, flexible=0, heads=(head, "ROOM", "PART", "SESSIONS", "FREED BY"))


def _freed_by(row: RoomRow) -> str:
    """The command of a row, with what it frees beside the row."""
    command = output.one_liner(shlex.join(row.command)) or "–"
    return f"{command} # frees {output.size(row.frees)} in all" if row.frees else command
