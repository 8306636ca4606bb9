"""A session in blocks of entries: a block is read and drawn when it comes into view; before, its height is estimated.

A block begins where somebody says something, so that each call in it has its result.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
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
from backstory.derive.given import questions_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.cli.views.call_view import ShownResult
    from backstory.model import Event, ToolCall
    from backstory.workspace.history.entries import OutlineColumns, SessionEntry
    from backstory.workspace.history.transcript import ListedTurn, ShownSummary, Transcript
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.reader import Reader

ENTRIES_LEAST, ENTRIES_MOST = 30, 300
"""A block ends at the first words behind so many entries, and at the latest behind so many."""
SAID_KINDS = frozenset(each.kind for each in model.kinds_of(model.KindClass.SAID) if each is not model.Thinking)
HIDDEN_KINDS = frozenset({model.Init.kind, model.Complete.kind, model.Unknown.kind})
PROMPT_CHARS_LIKELY = 600
"""The most characters that are shown of a long prompt, as it is folded."""
LOOKED_AT = 5 * ENTRIES_LEAST
"""The number of entries of which a first look draws the last blocks."""
CHARS_OF_LINE = 0.8
"""The part of a line's columns that text fills."""
FOLDED, COMPACT, FULL = 0, 1, 2
"""The forms of an entry: a line for a call, its compact result below it, or everything that is known."""

Key = tuple[int, int]
"""An entry: its record's number and its part."""


class Block(NamedTuple):
    """Entries that are drawn together, by their places in the session's order, and what their height comes from."""

    first: int
    end: int
    lines: int = 0
    """Lines that are there at any width, but for thoughts and words."""
    thoughts: int = 0
    answers: int = 0
    """The characters of answers."""
    prompts: int = 0
    """The characters of prompts, of each as many as are shown."""


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


class DrawnFrom(Struct, frozen=True, kw_only=True):
    """Entries of a session in the order in which they are shown, and what is drawn between them."""

    located: LocatedSession
    folder: str
    """The folder of the session, which paths in it need not repeat."""
    order: OutlineColumns
    blocks: tuple[Block, ...]
    turns: dict[int, ListedTurn]
    """By their numbers."""
    summaries: tuple[ShownSummary, ...] = ()

    def __repr__(self) -> str:
        # Textual describes each worker by what it was given; of all entries that took half a second.
        return f"<{len(self.order)} entries>"


class Content(DrawnFrom, frozen=True, kw_only=True):
    """A session at one moment: its turns, and all of its entries."""

    transcript: Transcript
    aside: int
    """The place from which on entries are that a rewind left behind."""
    prompts: tuple[int, ...]
    """The places in the order at which prompts are."""

    def block_of(self, key: Key) -> int | None:
        """The block that holds an entry; of one that is not shown the block of the next one."""
        # What a rewind left behind comes last, so the next one need not stand behind those before.
        behind = [self._behind(key, 0, self.aside), self._behind(key, self.aside, len(self.order))]
        at = min((each for each in behind if each is not None), key=self.order.key, default=None)
        return None if at is None else bisect_right(self.blocks, at, key=attrgetter("first")) - 1

    def _behind(self, key: Key, first: int, end: int) -> int | None:
        """The place of an entry or the next one among entries in the order of their records; None behind the last."""
        at = bisect_left(self.order.seqs, key[0], first, end)
        while at < end and self.order.key(at) < key:
            at += 1
        return at if at < end else None


def content_of(reader: Reader, located: LocatedSession) -> Content:
    """A session as it is now. Entries of turns that another session shows are left out, as `show` does."""
    transcript = reader.transcript(located)
    for run in transcript.live.values():
        # What it adds is followed, and read again from its beginning.
        run.close()
    shown = {each.number for each in transcript.turns if each.live is None and each.shown_in is None}
    aside = transcript.aside
    main: set[int | None] = {*(shown - aside), None}
    order = reader.columns(located)
    kept = [n for n, turn in enumerate(order.turns) if turn in main]
    behind = [n for n, turn in enumerate(order.turns) if turn in shown and turn in aside] if aside else []
    if len(kept) < len(order):
        order = order.picked([*kept, *behind])
    prompts = tuple(n for n, kind in enumerate(order.kinds) if kind == model.UserMessage.kind)
    return Content(
        located=located, transcript=transcript, order=order, blocks=blocks_of(order), aside=len(kept), prompts=prompts,
        turns={each.number: each for each in transcript.turns}, summaries=transcript.summaries,
        folder=transcript.session.said_folder,
    )  # fmt: skip


def blocks_of(order: OutlineColumns) -> tuple[Block, ...]:
    """Cut a session into blocks."""
    found, first = list[Block](), 0
    for n, kind in enumerate(order.kinds):
        many = n - first
        if many >= ENTRIES_LEAST and (many >= ENTRIES_MOST or (kind in SAID_KINDS and not order.parts[n])):
            found.append(_block(order, first, n))
            first = n
    if first < len(order):
        found.append(_block(order, first, len(order)))
    return tuple(found)


def _block(order: OutlineColumns, first: int, end: int) -> Block:
    lines = thoughts = answers = prompts = 0
    for kind, chars in zip(order.kinds[first:end], order.chars[first:end], strict=True):
        if kind == model.AssistantText.kind:
            lines += 1
            answers += chars
        elif kind == model.UserMessage.kind:
            lines += 4
            prompts += min(chars, PROMPT_CHARS_LIKELY)
        elif kind == model.Thinking.kind:
            thoughts += 1
        elif kind != model.ToolResult.kind and kind not in HIDDEN_KINDS:
            lines += 1
    return Block(first, end, lines, thoughts, answers, prompts)


def likely_height(block: Block, view: SessionView) -> int:
    """Estimate how many lines a block has, without reading it."""
    columns = max((view.columns - len(MARGIN)) * CHARS_OF_LINE, 10)
    lines = block.lines + int((block.answers + block.prompts) / columns)
    return max(lines + block.thoughts * view.thinking, 1)


def first_look(reader: Reader, located: LocatedSession, view: SessionView, lines: int) -> list[ShownLine]:
    """Draw at least so many lines at the end of a session without a look at what is before them.

    ``content_of`` of a session with 100,000 entries takes far longer. Returns [] where only that says what is shown.
    """
    ending = reader.ending(located, LOOKED_AT)
    if ending is None:
        return []
    order, turns = ending
    looked_at = DrawnFrom(
        located=located, folder=located.session.said_folder, order=order, blocks=blocks_of(order),
        turns={each.number: each for each in turns},
    )  # fmt: skip
    found = list[ShownLine]()
    # The first block begins anywhere, so what its first line says of a turn may be wrong.
    for number in range(len(looked_at.blocks) - 1, 0, -1):
        found[:0] = drawn(reader, looked_at, number, view)
        if len(found) >= lines:
            return found
    return []


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
    block = content.blocks[number]
    order, turns, before = content.order, content.turns, block.first - 1
    wanted = [order.key(n) for n in range(block.first, block.end)]
    found = reader.entries(content.located, sorted({seq for seq, _ in wanted}), "words")
    places = {(each.outline.seq, each.outline.part): each for each in found}
    entries = iter([places[key] for key in wanted if key in places])
    last = order.turns[before] if before >= 0 else None
    seq = order.seqs[before] if before >= 0 else 0
    for entry, answered, answer in paired(entries, full=False):
        at = entry.outline
        for summary in content.summaries:
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
    for summary in content.summaries:
        if summary.after_seq >= seq:
            yield from map(ShownLine, summary_lines(summary, full=False))
    if last is not None and last in turns:
        yield from map(ShownLine, _apart(end_line(turns[last])))


def _between(before: ListedTurn | None, turn: ListedTurn, now: int) -> Iterator[str]:
    if before is not None:
        yield from end_line(before)
    yield from ("", turn_line(turn, now, beside=before))


def _drawn(
    reader: Reader, content: DrawnFrom, view: SessionView, entry: SessionEntry, answered: ToolCall | None,
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
