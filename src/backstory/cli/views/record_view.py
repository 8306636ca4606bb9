"""One record on the screen: its kind, the marked search words, and the records before and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory import model
from backstory.cli import output
from backstory.cli.output import GUTTER, MARGIN, UNLIMITED, flowing_facts, page_columns, parts, room_beside
from backstory.cli.views.call_view import call_words
from backstory.cli.views.moments import stretch
from backstory.derive.essence import every_value, without_terminal_codes, words_of
from backstory.search.snippet import places_of, readable_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import Event

ABOUT_COLUMNS = 60
LINES_SHOWN = 24
"""The most lines shown of a long text: around the first match, else from its beginning."""
LINE_CHARS_SHOWN = 600
"""The most characters shown of a long line, likewise."""
NEIGHBOUR_LINES = 3
"""The most lines shown of a record before or after."""
CUT_AFTER_CHARS = 1_000_000
"""Only the beginning of a longer text is shown."""


class RecordHead(Struct, frozen=True, kw_only=True):
    """The position of a record."""

    title: str
    uid: str
    seq: int
    turn: int | None
    at: int | None
    folder: str = ""
    """The folder of the session, which paths in it need not repeat."""


def head_lines(head: RecordHead, events: list[Event], call: model.ToolCall | None, now: int) -> Iterator[str]:
    """The record's session, turn and kind; for a tool's result also its call."""
    yield output.style(output.one_line(head.title or head.uid, page_columns()), bold=True)
    turn = "" if head.turn is None else f"turn {head.turn}"
    what = ", ".join(dict.fromkeys(what_it_is(event, call, head.folder) for event in events))
    at = "" if head.at is None else stretch(head.at, head.at, now)
    facts = [output.one_liner(fact) for fact in (f"{head.uid[:12]} @{head.seq}", turn, what, at) if fact]
    yield from (output.style(line, dim=True) for line in flowing_facts(facts))
    yield ""


def what_it_is(event: Event, call: model.ToolCall | None, folder: str) -> str:
    """The kind of an event, in one or two words."""
    words = words_of(event)
    if words.tone == "result":
        about = "" if call is None else call_words(call, ABOUT_COLUMNS, folder)
        return f"result of {words.head or 'a tool'}{f' ({about})' if about else ''}"
    if words.tone == "call":
        return f"call of {words.head}"
    return words.tone if words.tone in ("prompt", "answer") else str(event.kind).lower()


def text_of(event: Event) -> str:
    """The whole text of an event."""
    if isinstance(event, model.ToolCall):
        return f"{event.tool_name}\n{msgspec.json.format(msgspec.json.encode(event.input), indent=2).decode()}"
    words = words_of(event)
    return every_value(event) if words.tone in ("command", "hook") else words.body


def body_lines(event: Event, searched: str, *, full: bool) -> Iterator[str]:
    """An event's text with matches marked: the part around the first match, or with ``full`` all of it."""
    text = text_of(event).strip("\n")
    if not full:
        text = readable_text(without_terminal_codes(text[:CUT_AFTER_CHARS]))
    text = output.clean(text if page_columns() == UNLIMITED else text.expandtabs(4))
    marks, best = places_of(text, searched) if searched else ([], 0)
    lines, first = _lines_with_marks(text, marks), 0
    if not full and len(lines) > LINES_SHOWN:
        marked = text.count("\n", 0, best)
        first = min(max(marked - LINES_SHOWN // 2, 0), len(lines) - LINES_SHOWN)
    last = len(lines) if full else min(first + LINES_SHOWN, len(lines))
    if first:
        yield output.style(f"{MARGIN}(+{first} lines above)", dim=True)
    for line, places in lines[first:last]:
        yield from _drawn(line, places, full=full)
    if last < len(lines):
        yield output.style(f"{MARGIN}(+{len(lines) - last} lines; --full shows all)", dim=True)


def _lines_with_marks(text: str, marks: list[tuple[int, int]]) -> list[tuple[str, list[tuple[int, int]]]]:
    """Each line with the positions of the matches in it."""
    lines, start, n = [], 0, 0
    for line in text.split("\n"):
        end, places = start + len(line), []
        while n < len(marks) and marks[n][0] < end:
            if marks[n][0] >= start:
                places.append((marks[n][0] - start, min(marks[n][1], end) - start))
            n += 1
        lines.append((line, places))
        start = end + 1
    return lines


def _drawn(line: str, places: list[tuple[int, int]], *, full: bool) -> Iterator[str]:
    """A line, or of a long one the part around its first match, broken where the page ends."""
    start, end = 0, len(line)
    if not full and end > LINE_CHARS_SHOWN:
        centre = places[0][0] if places else 0
        start = min(max(centre - LINE_CHARS_SHOWN // 2, 0), end - LINE_CHARS_SHOWN)
        end = start + LINE_CHARS_SHOWN
    before, after = "…" if start else "", "…" if end < len(line) else ""
    moved = len(before) - start
    marks = [(first + moved, last + moved) for first, last in places if first >= start and last <= end]
    text = f"{before}{line[start:end]}{after}"
    for indent, first, last in parts(text, room_beside(len(MARGIN))):
        inside = [(max(a, first), min(b, last)) for a, b in marks if a < last and b > first]
        # The mark shows matching lines also without colour.
        yield f"{GUTTER}{'>' if inside else ' '} {' ' * indent}{_marked(text, first, last, inside)}"


def _marked(text: str, first: int, last: int, marks: list[tuple[int, int]]) -> str:
    pieces, at = [], first
    for start, end in marks:
        if start >= at:
            pieces += [text[at:start], output.style(text[start:end], bold=True, fg="green")]
            at = end
    return "".join([*pieces, text[at:last]])


def neighbour_lines(lines: Iterator[str]) -> Iterator[str]:
    """The beginning of a record before or after the shown one."""
    kept = [line for _, line in zip(range(NEIGHBOUR_LINES + 1), lines, strict=False)]
    yield from kept[:NEIGHBOUR_LINES]
    if len(kept) > NEIGHBOUR_LINES:
        yield output.style(f"{MARGIN}…", dim=True)
