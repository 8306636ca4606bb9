"""A session in blocks of entries, which a face reads and draws when they come into view.

A block begins where somebody says something, so that each call in it has its result.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct

from backstory import model
from backstory.workspace.history.entries import paired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import Event, ToolCall
    from backstory.workspace.history.entries import OutlineColumns, SessionEntry, ShownResult
    from backstory.workspace.history.transcript import ListedTurn, ShownSummary, Transcript
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.reader import Reader

ENTRIES_LEAST, ENTRIES_MOST = 30, 300
"""A block ends at the first words behind so many entries, and at the latest behind so many."""
BLOCKS_LIKELY = 2_000
"""The blocks of a session that would have more are twice as large, and so on: each takes room before it is read."""
SAID_KINDS = frozenset(each.kind for each in model.kinds_of(model.KindClass.SAID) if each is not model.Thinking)
HIDDEN_KINDS = frozenset({model.Init.kind, model.Complete.kind, model.Unknown.kind})
PROMPT_CHARS_LIKELY = 600
"""The most characters that are shown of a long prompt, as it is folded."""

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
    found, first, times = list[Block](), 0, 1
    while len(order) > times * ENTRIES_LEAST * BLOCKS_LIKELY:
        times *= 2
    least, most = times * ENTRIES_LEAST, times * ENTRIES_MOST
    for n, kind in enumerate(order.kinds):
        many = n - first
        if many >= least and (many >= most or (kind in SAID_KINDS and not order.parts[n])):
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


class TurnBegun(NamedTuple):
    """The place above a turn, and the turn before it in the session."""

    before: ListedTurn | None
    turn: ListedTurn


class TurnEnded(NamedTuple):
    """The place below the last turn."""

    turn: ListedTurn


class ShownEntry(NamedTuple):
    """An entry, the call that it answers if that does not stand above it, and the result that is drawn with it."""

    entry: SessionEntry
    answered: ToolCall | None
    answer: ShownResult | None

    @property
    def event(self) -> Event:
        """The event of the entry."""
        return self.entry.event

    @property
    def key(self) -> Key:
        """The place of the entry."""
        return self.entry.outline.seq, self.entry.outline.part


BlockItem: TypeAlias = "TurnBegun | TurnEnded | ShownSummary | ShownEntry"


def block_items(reader: Reader, content: DrawnFrom, number: int) -> Iterator[BlockItem]:
    """Read a block: its entries in the order in which they are shown, and what stands between them."""
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
        yield from (each for each in content.summaries if seq <= each.after_seq < at.seq)
        if at.turn is not None and at.turn != last:
            yield TurnBegun(turns.get(last or 0), turns[at.turn])
            last = at.turn
        seq = at.seq
        yield ShownEntry(entry, answered, answer)
    if block.end == len(order):
        yield from (each for each in content.summaries if each.after_seq >= seq)
        if last is not None and last in turns:
            yield TurnEnded(turns[last])
