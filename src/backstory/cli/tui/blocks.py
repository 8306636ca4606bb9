"""A session as lines: a block of entries is drawn when it comes into view; before, its height is estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from backstory import model
from backstory.cli import output
from backstory.cli.output import GUTTER, MARGIN
from backstory.cli.tui.markdown import markdown_lines
from backstory.cli.views.call_view import number as gutter
from backstory.cli.views.event_view import elsewhere_lines, end_line, event_lines, head_lines, turn_line
from backstory.cli.views.summary_view import summary_lines
from backstory.derive.essence import essence, words_of
from backstory.derive.given import questions_of
from backstory.workspace.history.blocks import (
    ENTRIES_LEAST,
    DrawnFrom,
    ShownEntry,
    TurnBegun,
    TurnEnded,
    block_items,
    blocks_of,
)
from backstory.workspace.history.transcript import ShownSummary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.model import Event, ToolCall
    from backstory.workspace.history.blocks import Block, Content, Key
    from backstory.workspace.history.transcript import ListedTurn
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.reader import Reader

LOOKED_AT = 5 * ENTRIES_LEAST
"""The number of entries of which a first look draws blocks."""
ABOVE_GOAL = 3
"""An entry to go to is below a third of what is in view."""
CHARS_OF_LINE = 0.8
"""The part of a line's columns that text fills."""
FOLDED, COMPACT, FULL = 0, 1, 2
"""The forms of an entry: a line for a call, its compact result below it, or everything that is known."""


class SessionView(Struct, frozen=True, kw_only=True):
    """The way a session is looked at. ``forms``: of entries that are not as they are at first."""

    columns: int
    now: int
    """The time now, in ms since 1970: times of today are shown without the day."""
    thinking: bool = False
    forms: dict[Key, int] = {}


class ShownLine(NamedTuple):
    """A line with the marks of ``output.style``, and the entry that it is of."""

    text: str
    key: Key | None = None
    result: int | None = None
    """The record of the result that is drawn with a call."""


def likely_height(block: Block, view: SessionView) -> int:
    """Estimate how many lines a block has, without reading it."""
    columns = max((view.columns - len(MARGIN)) * CHARS_OF_LINE, 10)
    lines = block.lines + int((block.answers + block.prompts) / columns)
    return max(lines + block.thoughts * view.thinking, 1)


def first_look(
    reader: Reader, located: LocatedSession, view: SessionView, lines: int, goal: Key | None = None
) -> list[ShownLine]:
    """Draw so many lines at the end of a session, or around an entry, without a look at all that is before them.

    ``content_of`` of a session with 100,000 entries takes far longer. Returns [] where only that says what is shown.
    """
    part = reader.part(located, LOOKED_AT, None if goal is None else goal[0])
    if part is None:
        return []
    order, turns = part
    looked_at = DrawnFrom(
        located=located, folder=located.session.said_folder, order=order, blocks=blocks_of(order),
        turns={each.number: each for each in turns},
    )  # fmt: skip
    found = list[ShownLine]()
    # The first block begins anywhere, so what its first line says of a turn may be wrong.
    for number in range(len(looked_at.blocks) - 1, 0, -1):
        found[:0] = _drawn_to(goal, reader, looked_at, number, view)
        at = len(found) - lines
        if goal is not None:
            place = next((n for n, line in enumerate(found) if _is_of(line, goal)), -1)
            at = min(at, place - lines // ABOVE_GOAL)
        if at >= 0:
            return found[at : at + lines]
    return []


def _drawn_to(goal: Key | None, reader: Reader, content: DrawnFrom, number: int, view: SessionView) -> list[ShownLine]:
    """Draw a block; a call in it opens to the result that is the goal."""
    lines = drawn(reader, content, number, view)
    calls = {line.key for line in lines if goal is not None and line.key != goal and _is_of(line, goal)}
    opened = {key: COMPACT for key in calls if key is not None}
    return drawn(reader, content, number, replace(view, forms=opened)) if opened else lines


def _is_of(line: ShownLine, goal: Key) -> bool:
    """True for a line of an entry, or of the call that it is the result of."""
    return line.key == goal or line.result == goal[0]


def top_lines(content: Content, home: str, view: SessionView) -> list[ShownLine]:
    """The head of the session, above its first entry. ``home``: the person's home folder, for shorter paths."""
    with output.window_of(view.columns):
        head = [*head_lines(content.transcript, home, view.now), *elsewhere_lines(content.transcript)]
    return [ShownLine(line) for line in _apart(head)]


def drawn(reader: Reader, content: DrawnFrom, number: int, view: SessionView) -> list[ShownLine]:
    """Read and draw a block."""
    with output.window_of(view.columns):
        return list(_lines(reader, content, number, view))


def _lines(reader: Reader, content: DrawnFrom, number: int, view: SessionView) -> Iterator[ShownLine]:
    for each in block_items(reader, content, number):
        match each:
            case TurnBegun(before=before, turn=turn):
                yield from map(ShownLine, _apart(_between(before, turn, view.now)))
            case TurnEnded(turn=turn):
                yield from map(ShownLine, _apart(end_line(turn)))
            case ShownSummary():
                yield from map(ShownLine, summary_lines(each, full=False))
            case ShownEntry(event=model.Unknown()):
                pass
            case ShownEntry() if view.thinking or not isinstance(each.event, model.Thinking):
                result = None if each.answer is None else each.answer.seq
                lines = _apart(_drawn(reader, content, view, each))
                yield from (ShownLine(line, each.key, result) for line in lines)


def _between(before: ListedTurn | None, turn: ListedTurn, now: int) -> Iterator[str]:
    if before is not None:
        yield from end_line(before)
    yield from ("", turn_line(turn, now, beside=before))


def _drawn(reader: Reader, content: DrawnFrom, view: SessionView, shown: ShownEntry) -> Iterator[str]:
    """An entry in the form in which it is looked at."""
    entry, answered, answer = shown.entry, shown.answered, shown.answer
    at = entry.outline
    form = view.forms.get((at.seq, at.part), FOLDED)
    if form == FULL:
        whole = reader.full(content.located, at)
        yield from _said(at.seq, whole) or event_lines(at.seq, whole, full=True)
        if answer is not None and answer.seq is not None:
            results = reader.record(content.located, answer.seq)
            of_call = [each.event for each in results if _answers(each.event, answer.result)]
            for each in of_call[:1] or [answer.result]:
                yield from event_lines(answer.seq, each, full=True)
        return
    yield from _said(at.seq, entry.event) or event_lines(
        at.seq, entry.event, full=False, answered=answered, answer=answer, folder=content.folder, folded=form == FOLDED
    )
    if isinstance(entry.event, model.ToolCall):
        yield from question_lines(entry.event)


def _answers(event: Event, result: model.ToolResult) -> bool:
    return isinstance(event, model.ToolResult) and event.tool_use_id == result.tool_use_id


def _said(seq: int, event: Event) -> list[str]:
    """Words that are written in Markdown: an answer, or a plan in its box; [] for anything else."""
    room = output.room_beside(len(MARGIN))
    match event:
        case model.AssistantText(text=text):
            first, *rest = list(markdown_lines(text, room)) or [""]
            return [f"{gutter(seq)}   {first}", *(f"{MARGIN}{line}" for line in rest)]
        case model.Plan(content=text):
            top, *rest = _boxed(f"Plan: {words_of(event).head}".removesuffix(": "), markdown_lines(text, room - 2))
            return [f"{gutter(seq)}   {top}", *(f"{MARGIN}{line}" for line in rest)]
    return []


def question_lines(call: ToolCall) -> Iterator[str]:
    """The questions that a call asks a person, each in a box with the answers that are offered."""
    room = output.room_beside(len(MARGIN)) - 2
    for each in questions_of(call):
        offered = [f"- {' – '.join(filter(None, option))}" for option in each.options]
        inside = markdown_lines("\n".join([each.words, *offered]), room)
        yield from (f"{MARGIN}{line}" for line in _boxed("Question", inside))


def _boxed(head: str, lines: Iterable[str]) -> Iterator[str]:
    room = output.room_beside(len(MARGIN))
    head = output.one_line(head, room - 6)
    yield f"╭─ {output.style(head, bold=True)} {'─' * max(room - output.columns(head) - 4, 0)}"
    yield from (f"│ {line}" for line in lines)
    yield f"╰{'─' * (room - 1)}"


def _apart(lines: Iterable[str]) -> Iterator[str]:
    """Each line for itself: a drawn one may hold several."""
    for line in lines:
        yield from line.split("\n")


def blank(columns: int) -> str:
    """The line of what is not drawn yet."""
    return output.style(f"{GUTTER}  ·"[:columns], dim=True)


def plain_text(event: Event) -> str:
    """The text of an event for other programs: what was said, a call's input, a result's output."""
    if isinstance(event, model.ToolCall):
        return essence(event)
    return words_of(event).body
