"""Calls of tools and their results, as lines for a terminal: what was done, what came of it, and what it changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backstory.cli import output
from backstory.cli.output import GUTTER, MARGIN, TEXT_COLUMNS_LEAST, UNLIMITED, flowing, page_columns, room_beside
from backstory.derive.essence import (
    call_facts,
    call_words_in,
    changed_lines,
    is_path,
    is_said_by_facts,
    path_in,
    result_body,
    result_facts,
    without_terminal_codes,
)
from backstory.model import ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.workspace.history.entries import ShownResult

RESULT_LINES = 6
CHANGED_LINES = 6
"""Most lines of an edit shown without ``--full``."""
SHOWN_CHARS_MAX = 20_000
"""Only the beginning of a longer text is shown without ``--full``."""
NAME_COLUMNS = 30
FACTS_AT = 0.55
"""Results of calls are in a column of their own, this far to the right, if the calls leave room for it."""
COLOURS = {"+": "green", "-": "red"}


def call_lines(
    at: str, call: ToolCall, *, full: bool, answer: ShownResult | None = None, folder: str = "", folded: bool = False
) -> Iterator[str]:
    """A call, what came of it, and the lines that it changed.

    ``at``: the gutter before its first line. ``folder``: where the session was, which paths in it need not repeat.
    ``folded``: without what came of it, but for the facts on its line.
    """
    result = None if answer is None else answer.result
    facts = [] if full else [call_facts(call), _came_of(answer)]
    is_error = result is not None and result.is_error
    named = call_words_in(call, "" if full else folder)
    yield _named(at, "●", call, named, ", ".join(each for each in facts if each), is_error=is_error)
    yield from _changed_lines(call, full=full, folder="" if full else folder)
    if full:
        for line in msgspec.json.format(msgspec.json.encode(call.input), indent=2).decode().split("\n"):
            yield from (f"{MARGIN}{part}" for part in flowing(line))
    if answer is not None and result is not None and not folded and not is_said_by_facts(result):
        yield from _body_lines(number(answer.seq), result, result_body(result), full=full)


def result_lines(
    at: str, result: ToolResult, answered: ToolCall | None, *, full: bool, folder: str = "", folded: bool = False
) -> Iterator[str]:
    """A result that stands for itself, below the name of the call that it answers if that is known.

    ``folded``: only that name, where there is one.
    """
    facts = "" if full else result_facts(result)
    if answered is not None:
        named = call_words_in(answered, "" if full else folder)
        yield _named(at, "↳", answered, named, facts, is_error=result.is_error)
        at = GUTTER[1:]
    if folded and answered is not None:
        return
    if full or not is_said_by_facts(result):
        content = result_body(result) if answered is not None and not full else result.content
        yield from _body_lines(at, result, content, full=full)
    elif answered is None and facts:
        yield f"{at}   {output.style(facts, dim=True)}"


def number(seq: int | None) -> str:
    """The gutter before the first line of an event: its record's number, if it has one yet."""
    return GUTTER[1:] if seq is None else output.style(f"@{seq:<5}", dim=True)


def call_words(call: ToolCall, room: int, folder: str = "") -> str:
    """Return the subject of a call in at most ``room`` columns; for a path its end, of one in this folder what is below
    that.
    """
    return _fitting(call, call_words_in(call, folder), room)


def begun(text: str, *, full: bool) -> tuple[str, list[str]]:
    """A text, or of a long one the beginning, and a line that says how much is left."""
    if full or len(text) <= SHOWN_CHARS_MAX:
        return text, []
    left = f"{MARGIN}(+{len(text) - SHOWN_CHARS_MAX:,} more characters; --full shows them)"
    return text[:SHOWN_CHARS_MAX], [output.style(left, dim=True)]


def _came_of(answer: ShownResult | None) -> str:
    if answer is None:
        return ""
    found = result_facts(answer.result)
    return ", ".join(each for each in (found, answer.lasted) if each) if found else ""


def _named(at: str, sign: str, call: ToolCall, words: str, facts: str, *, is_error: bool) -> str:
    """A call in a line: its tool, what it is about, and what came of it in a column of its own."""
    name = output.one_line(call.tool_name, NAME_COLUMNS)
    start = len(MARGIN) + output.columns(name) + 1
    columns = page_columns()
    # On a narrow terminal what came of a call stands below it.
    is_beside = bool(facts) and columns - start - output.columns(facts) - 2 >= TEXT_COLUMNS_LEAST
    behind = output.columns(facts) + 2 if is_beside else 0
    words = _fitting(call, words.removesuffix(f" ({facts})"), room_beside(start + behind))
    line = f"{at} {output.style(sign, dim=True)} {name} {words}".rstrip()
    if not facts:
        return line
    column = 0 if columns == UNLIMITED else int(columns * FACTS_AT)
    gap = " " * max(column - start - output.columns(words), 2) if is_beside else f"\n{MARGIN}"
    return line + gap + output.style(facts, **({"fg": "red"} if is_error else {"dim": True}))


def _fitting(call: ToolCall, words: str, room: int) -> str:
    words = words[:SHOWN_CHARS_MAX]
    return output.end_of_line(words, room) if is_path(call) else output.one_line(words, room)


def _changed_lines(call: ToolCall, *, full: bool, folder: str) -> Iterator[str]:
    changed = list(changed_lines(call))
    shown = changed if full else changed[:CHANGED_LINES]
    room = room_beside(len(MARGIN) + 2)
    for sign, line in shown:
        text = line if full else output.one_line(line, room, keep_blanks=True)
        # What has no sign is the name of the file whose lines come next.
        yield f"{MARGIN}{output.style(f'{sign} {text}', fg=COLOURS[sign]) if sign else path_in(text, folder)}"
    if left := sum(bool(sign) for sign, _ in changed[len(shown) :]):
        yield output.style(f"{MARGIN}(+{left} more changed; --full shows them)", dim=True)


def _body_lines(at: str, result: ToolResult, content: str, *, full: bool) -> Iterator[str]:
    content = without_terminal_codes(content)
    # A single line needs no indentation, as a count has it.
    content = (content if full or "\n" in content.strip("\n") else content.strip()) or "(nothing)"
    lines = [line.removesuffix("\r") for line in content.split("\n")]
    shown = lines if full else lines[:RESULT_LINES]
    text, left = begun("\n".join(shown), full=full)
    how: dict[str, Any] = {"fg": "red"} if result.is_error else {"dim": True}
    first, *rest = flowing(text)
    yield f"{at}   {output.style(first, **how)}".rstrip()
    yield from (f"{MARGIN}{output.style(line, **how)}" for line in rest)
    yield from left
    if len(shown) < len(lines):
        yield output.style(f"{MARGIN}(+{len(lines) - len(shown)} more)", dim=True)
