"""The records of a path through a session, each in a line."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from backstory.cli import output
from backstory.cli.views.call_view import path_in
from backstory.workspace.history.records import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.workspace.history.records import Record

TOLD_COLUMNS_LEAST = 20
NAME_COLUMNS = 30
LINES_AT_ONCE = 200
SIGNS = {Role.TOOL: ("→", None), Role.ERROR: ("!", "red"), Role.SYSTEM: ("≡", None)}
"""The sign and colour of a record that is neither a prompt nor an answer."""
LETTERS = {Role.USER: "U", Role.ASSISTANT: "A"}


def at_once(texts: Iterable[str]) -> Iterator[str]:
    """Lines, many in one text, so that printing them costs little."""
    texts = iter(texts)
    while some := list(islice(texts, LINES_AT_ONCE)):
        yield "\n".join(some)


def lines(records: Iterable[Record], folder: str, *, marked: bool = False) -> Iterator[str]:
    """Records of a session in this folder as lines; ``marked``: the last one has a > before it."""
    last: Record | None = None
    for each in records:
        if each.text.strip() or each.tool:
            if last is not None:
                yield _line(last, folder, mark=" ")
            last = each
    if last is not None:
        yield _line(last, folder, mark=">" if marked else " ")


def _line(record: Record, folder: str, *, mark: str) -> str:
    at = f"@{record.seq:<4}"
    start = f"{output.style(mark, fg='green') if mark.strip() else mark} {output.style(at, dim=True)} "
    room = max(output.width() - 3 - len(at), TOLD_COLUMNS_LEAST)
    text = _text(record, folder)
    if record.role in SIGNS:
        sign, colour = SIGNS[record.role]
        return f"{start}   {output.style(sign, fg=colour)} {output.one_line(text, room - 5)}"
    how: dict[str, Any] = {"bold": True} if record.role is Role.USER else {}
    shown = f"{LETTERS[record.role]}: {output.one_line(text, room - 3)}"
    return f"{start}{output.style(shown, **how)}"


def said(record: Record, folder: str) -> str:
    """A record behind the letter or sign that says whose it is: ``U: go on``, ``→ Bash ls``."""
    start = SIGNS[record.role][0] if record.role in SIGNS else f"{LETTERS[record.role]}:"
    return f"{start} {_text(record, folder)}"


def _text(record: Record, folder: str) -> str:
    tool = "" if record.tool is None else output.one_line(record.tool, NAME_COLUMNS)
    return f"{tool} {path_in(record.text, folder) if record.is_path else record.text}".strip()
