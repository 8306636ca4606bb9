"""One record on the screen: its kind, the marked search words, and the records before and after it.

And a session in a small window, which has room for its beginning and its last turn.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory import model
from backstory.cli import output
from backstory.cli.output import GUTTER, MARGIN, UNLIMITED, flowing_facts, page_columns, parts, room_beside
from backstory.cli.views.call_view import call_words
from backstory.cli.views.event_view import event_lines
from backstory.derive.essence import essence, every_value, without_terminal_codes, words_of
from backstory.derive.moments import stretch
from backstory.search.snippet import places_of, readable_text
from backstory.store.tables import turns as stored_turns
from backstory.workspace.history.transcript import shown_summaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backstory.model import Event, ToolCall
    from backstory.workspace.history.entries import SessionEntry
    from backstory.workspace.history.transcript import ShownSummary
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.reader import Reader

ABOUT_COLUMNS = 60
LINES_SHOWN = 24
"""The most lines shown of a long text: around the first match, else from its beginning."""
LINE_CHARS_SHOWN = 600
"""The most characters shown of a long line, likewise."""
NEIGHBOUR_LINES = 3
"""The most lines shown of a record before or after."""
CUT_AFTER_CHARS = 1_000_000
"""Only the beginning of a longer text is shown."""
WINDOW = 500
"""Most events before a record, and after it, that are looked at to show its surroundings."""
PART_MAX = 1 << 30
NEIGHBOURS = 2
"""Records before and after the one that is asked for."""
RECORDS_BEFORE = 100
"""The number of records back in which a record's call and its neighbours are looked for."""
PREVIEW_EVENTS = 40
"""Number of events that a preview has of the first turn, and of the last."""


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
    return text_lines(text_of(event), searched, full=full)


def kept_lines(data: bytes, searched: str, *, full: bool) -> Iterator[str]:
    """A record as its agent wrote it: JSON with a line for each key, anything else as it is."""
    text = data.decode("utf-8", "replace")
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = msgspec.json.format(msgspec.json.encode(msgspec.json.decode(data)), indent=2).decode()
    return text_lines(text, searched, full=full)


def text_lines(text: str, searched: str, *, full: bool) -> Iterator[str]:
    """A text with matches marked: the part around the first match, or with ``full`` all of it."""
    text = text.strip("\n")
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


# a record among its neighbours, and a session in a small window -------------------------------------------------------


def preview_lines(reader: Reader, found: LocatedSession) -> Iterator[str]:
    """Yield the beginning of a session, and its last turn, as far as they fit a small window."""
    ends = found.store.ask(stored_turns.ends, found.session.id)
    if ends is None:
        return
    folder, shown = found.session.said_folder, -1
    for turn in dict.fromkeys(ends):
        yield ""
        # The last turn of a short session is shown with the first one already.
        for each in reader.events(found, (max(turn, shown + 1), -1), limit=PREVIEW_EVENTS):
            shown = each.outline.seq
            if isinstance(each.event, model.UserMessage | model.AssistantText | model.ToolCall | model.Error):
                yield from neighbour_lines(event_lines(each.outline.seq, each.event, full=False, folder=folder))


def record_lines(
    reader: Reader, found: LocatedSession, record: Sequence[SessionEntry], words: str, *, now: int, full: bool
) -> Iterator[str]:
    """Yield a record, read again from its bytes, among those that stand before and after it; ``words`` are marked."""
    session, at = found.session, record[0].outline
    earlier = (max(at.seq - RECORDS_BEFORE, 0) - 1, PART_MAX)
    before = list(takewhile(lambda each: each.outline.seq < at.seq, reader.events(found, earlier, limit=WINDOW)))
    after = reader.events(found, (at.seq, PART_MAX), limit=WINDOW)
    calls = {each.event.tool_use_id: each.event for each in before if isinstance(each.event, model.ToolCall)}
    results = (each.event.tool_use_id for each in record if isinstance(each.event, model.ToolResult))
    call = next((calls[each] for each in results if each in calls), None)
    head = RecordHead(
        title=session.shown_title, uid=session.uid, seq=at.seq, turn=at.turn, at=at.at, folder=session.said_folder
    )
    yield from head_lines(head, [each.event for each in record], call, now)
    yield from _neighbours(reader, found, reversed(before), calls, last=True)
    for each in record:
        yield output.style(f"@{at.seq}", bold=True)
        yield from body_lines(each.event, words, full=full)
    for summary in summaries_at(found, at.seq):
        from backstory.cli.views.summary_view import summary_lines  # most records have none

        yield from summary_lines(summary, full=full)
    yield from _neighbours(reader, found, after, calls, last=False)


def summaries_at(found: LocatedSession, seq: int) -> list[ShownSummary]:
    """The summaries that end with a record: a search that found one leads there."""
    if not found.store.ask(stored_turns.has_summary, found.session.id):
        return []
    turns = found.store.turns(found.session)
    return [each for each in shown_summaries(found, turns) if each.after_seq == seq]


def _neighbours(
    reader: Reader, found: LocatedSession, near: Iterable[SessionEntry], calls: dict[str, ToolCall], *, last: bool
) -> Iterator[str]:
    """The nearest records that have something to show, given from the nearest on.

    ``calls``: by their ids, to name those of results. ``last``: they stand before the record.
    """
    shown: dict[int, list[str]] = {}
    for each in near:
        seq = each.outline.seq
        event = _with_words(reader, found, each)
        call = calls.get(event.tool_use_id) if isinstance(event, model.ToolResult) else None
        drawn = event_lines(seq, event, full=False, answered=call, folder=found.session.said_folder)
        lines = list(neighbour_lines(drawn))
        if lines:
            shown.setdefault(seq, [])[: 0 if last else len(shown[seq])] = lines
        if len(shown) > NEIGHBOURS:
            break
    nearest = list(shown)[:NEIGHBOURS]
    for seq in reversed(nearest) if last else nearest:
        yield from shown[seq]


def _with_words(reader: Reader, found: LocatedSession, entry: SessionEntry) -> Event:
    """An event so that its line says what it is about: of a call the compact form may not."""
    is_bare = isinstance(entry.event, model.ToolCall) and not essence(entry.event)
    return reader.full(found, entry.outline) if is_bare else entry.event
