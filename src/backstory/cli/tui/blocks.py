"""A session in blocks of entries: a block is read and drawn when it comes into view; before, its height is estimated.

A block begins where somebody says something, so that each call in it has its result.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from backstory import model
from backstory.cli import output
from backstory.cli.output import GUTTER, MARGIN
from backstory.cli.tui.markdown import markdown_lines
from backstory.cli.views.call_view import number as gutter
from backstory.cli.views.event_view import elsewhere_lines, end_line, event_lines, head_lines, paired, turn_line
from backstory.cli.views.summary_view import summary_lines
from backstory.derive.essence import essence, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backstory.cli.views.call_view import ShownResult
    from backstory.model import Event, ToolCall
    from backstory.workspace.history.entries import OutlineEntry, SessionEntry
    from backstory.workspace.history.transcript import ListedTurn, Transcript
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.reader import Reader

ENTRIES_LEAST, ENTRIES_MOST = 30, 300
"""A block ends at the first words behind so many entries, and at the latest behind so many."""
SAID_KINDS = frozenset(each.kind for each in model.kinds_of(model.KindClass.SAID) if each is not model.Thinking)
HIDDEN_KINDS = frozenset({model.Init.kind, model.Complete.kind, model.Unknown.kind})
PROMPT_LINES_LIKELY = 6
"""The most lines of a long prompt, as it is folded."""
CHARS_OF_LINE = 0.8
"""The part of a line's columns that text fills."""
FOLDED, COMPACT, FULL = 0, 1, 2
"""The forms of an entry: a line for a call, its compact result below it, or everything that is known."""

Key = tuple[int, int]
"""An entry: its record's number and its part."""


class Block(NamedTuple):
    """Entries that are drawn together, by their places in the session's order."""

    first: int
    end: int


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


class Content(Struct, frozen=True, kw_only=True):
    """A session at one moment: its turns, and its entries in the order in which they are shown."""

    located: LocatedSession
    transcript: Transcript
    order: tuple[OutlineEntry, ...]
    blocks: tuple[Block, ...]
    places: dict[Key, int]
    """The place of each entry in the order."""
    prompts: tuple[int, ...]
    """The places in the order at which prompts are."""

    @property
    def folder(self) -> str:
        """The folder of the session, which paths in it need not repeat."""
        return self.transcript.session.said_folder

    def block_of(self, key: Key) -> int | None:
        """The block that holds an entry; of one that is not shown the block of the next one."""
        at = self.places.get(key)
        if at is None:
            # What a rewind left behind comes last, so the next one need not stand behind those before.
            after = min((each for each in self.places if each >= key), default=None)
            at = None if after is None else self.places[after]
        return None if at is None else bisect_right(self.blocks, at, key=attrgetter("first")) - 1


def content_of(reader: Reader, located: LocatedSession) -> Content:
    """A session as it is now. Entries of turns that another session shows are left out, as `show` does."""
    transcript = reader.transcript(located)
    for run in transcript.live.values():
        # What it adds is followed, and read again from its beginning.
        run.close()
    shown = {each.number for each in transcript.turns if each.live is None and each.shown_in is None}
    aside = transcript.aside
    main: set[int | None] = {*(shown - aside), None}
    outline = reader.outline(located)
    order = tuple(each for each in outline if each.turn in main)
    order += tuple(each for each in outline if each.turn in shown and each.turn in aside) if aside else ()
    prompts = tuple(n for n, each in enumerate(order) if each.kind == model.UserMessage.kind)
    places = {(each.seq, each.part): n for n, each in enumerate(order)}
    return Content(
        located=located, transcript=transcript, order=order, blocks=blocks_of(order), places=places, prompts=prompts
    )


def blocks_of(order: Sequence[OutlineEntry]) -> tuple[Block, ...]:
    """Cut a session into blocks."""
    found, first = list[Block](), 0
    for n, each in enumerate(order):
        many = n - first
        if (many >= ENTRIES_LEAST and each.kind in SAID_KINDS and not each.part) or many >= ENTRIES_MOST:
            found.append(Block(first, n))
            first = n
    if first < len(order):
        found.append(Block(first, len(order)))
    return tuple(found)


def likely_height(content: Content, block: Block, view: SessionView) -> int:
    """Estimate how many lines a block has, without reading it."""
    columns = max((view.columns - len(MARGIN)) * CHARS_OF_LINE, 10)
    lines = 0
    for each in content.order[block.first : block.end]:
        if each.kind in HIDDEN_KINDS or (each.kind == model.Thinking.kind and not view.thinking):
            continue
        if each.kind == model.AssistantText.kind:
            lines += 1 + int(each.chars / columns)
        elif each.kind == model.UserMessage.kind:
            lines += 3 + min(1 + int(each.chars / columns), PROMPT_LINES_LIKELY)
        elif each.kind != model.ToolResult.kind:
            lines += 1
    return max(lines, 1)


def top_lines(content: Content, home: str, view: SessionView) -> list[ShownLine]:
    """The head of the session, above its first entry. ``home``: the person's home folder, for shorter paths."""
    with output.window_of(view.columns):
        head = [*head_lines(content.transcript, home, view.now), *elsewhere_lines(content.transcript)]
    return [ShownLine(line) for line in _apart(head)]


def drawn(reader: Reader, content: Content, number: int, view: SessionView) -> list[ShownLine]:
    """Read and draw a block."""
    with output.window_of(view.columns):
        return list(_lines(reader, content, number, view))


def _lines(reader: Reader, content: Content, number: int, view: SessionView) -> Iterator[ShownLine]:
    block = content.blocks[number]
    wanted = content.order[block.first : block.end]
    before = content.order[block.first - 1] if block.first else None
    keys = {(each.seq, each.part) for each in wanted}
    found = reader.entries(content.located, sorted({seq for seq, _ in keys}), "words")
    places = {(each.outline.seq, each.outline.part): each for each in found}
    entries = iter([places[key] for key in ((each.seq, each.part) for each in wanted) if key in places])
    turns = {each.number: each for each in content.transcript.turns}
    last = None if before is None else before.turn
    seq = 0 if before is None else before.seq
    for entry, answered, answer in paired(entries, full=False):
        at = entry.outline
        for summary in content.transcript.summaries:
            if seq <= summary.after_seq < at.seq:
                yield from map(ShownLine, summary_lines(summary, full=False))
        if at.turn is not None and at.turn != last:
            yield from map(ShownLine, _apart(_between(turns.get(last or 0), turns[at.turn], view.now)))
            last = at.turn
        seq = at.seq
        if not isinstance(entry.event, model.Unknown) and (
            view.thinking or not isinstance(entry.event, model.Thinking)
        ):
            key = (at.seq, at.part)
            result = None if answer is None else answer.seq
            drawn_lines = _apart(_drawn(reader, content, view, entry, answered, answer))
            yield from (ShownLine(line, key, result) for line in drawn_lines)
    if block.end < len(content.order):
        return
    for summary in content.transcript.summaries:
        if summary.after_seq >= seq:
            yield from map(ShownLine, summary_lines(summary, full=False))
    if last is not None and last in turns:
        yield from map(ShownLine, _apart(end_line(turns[last])))


def _between(before: ListedTurn | None, turn: ListedTurn, now: int) -> Iterator[str]:
    if before is not None:
        yield from end_line(before)
    yield from ("", turn_line(turn, now, beside=before))


def _drawn(
    reader: Reader, content: Content, view: SessionView, entry: SessionEntry, answered: ToolCall | None,
    answer: ShownResult | None,
) -> Iterator[str]:  # fmt: skip
    """An entry in the form in which it is looked at."""
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
            head = output.one_line(f"Plan: {words_of(event).head}".removesuffix(": "), room - 6)
            top = f"╭─ {output.style(head, bold=True)} {'─' * max(room - output.columns(head) - 4, 0)}"
            inside = (f"{MARGIN}│ {line}" for line in markdown_lines(text, room - 2))
            return [f"{gutter(seq)}   {top}", *inside, f"{MARGIN}╰{'─' * (room - 1)}"]
    return []


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
