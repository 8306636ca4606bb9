"""Markdown of a session or a part of it, and a page to print: for others, so all of it is masked."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from backstory.errors import BackstoryError, RecordNotFound
from backstory.export.markdown import document
from backstory.export.shared import SharedEvent, masked_words
from backstory.model import ToolCall, ToolResult
from backstory.web import reading
from backstory.workspace.history.blocks import content_of

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.web.reading import PageEntry
    from backstory.workspace.history.blocks import Content
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.workspace import Workspace

PRINTED_MOST = 10_000
"""The most entries of a session that are printed as one page."""


class MaskedText(NamedTuple):
    """A text for others, and how much was masked in it, as a sentence."""

    text: str
    masked: str


def session_markdown(workspace: Workspace, located: LocatedSession, user_home: Path) -> MaskedText:
    """A session as Markdown, which says at its end how much was masked."""
    redactor = workspace.redactor(str(user_home))
    shared = workspace.reader.shared(located, redactor)
    text = "\n".join(document(shared.session, shared.events, is_masked=True))
    masked = masked_words(redactor.counts)
    return MaskedText(f"{text}\n\n*{masked}*\n", masked)


def part_markdown(
    workspace: Workspace, located: LocatedSession, user_home: Path, seq: int, *, of_turn: bool
) -> MaskedText:
    """A record with the results of its calls, or its turn, as Markdown. Raises RecordNotFound."""
    redactor = workspace.redactor(str(user_home))
    turn = workspace.reader.record(located, seq)[0].outline.turn
    shared = workspace.reader.shared(located, redactor)
    session = replace(shared.session, refs=(), turns=shared.session.turns if of_turn else ())
    events, counts, calls = list[SharedEvent](), Counter[str](), set[str]()
    before = Counter(redactor.counts)
    for each in shared.events:
        # An event is masked when it is read. Masks in the rest of the session are not those of its part.
        now, event = Counter(redactor.counts), each.event
        is_result = isinstance(event, ToolResult) and event.tool_use_id in calls
        if (each.turn == turn) if of_turn else (each.seq == seq or is_result):
            events.append(each)
            counts += now - before
            calls |= {event.tool_use_id} - {""} if isinstance(event, ToolCall) else set()
        before = now
    if not events:
        raise RecordNotFound(seq)
    text = "\n".join(document(session, events, is_part=True)).strip("\n")
    return MaskedText(f"{text}\n", masked_words(counts))


def printed(
    workspace: Workspace, located: LocatedSession, user_home: Path
) -> tuple[Content, list[list[PageEntry]], str]:
    """A session, its entries by blocks, masked and without images, and how much was masked. Raises TooLongToPrint."""
    redactor = workspace.redactor(str(user_home))
    reader = workspace.reader_for_others(redactor)
    content = content_of(reader, located)
    if len(content.order) > PRINTED_MOST:
        raise TooLongToPrint(len(content.order))
    reader.learn(located)
    now = workspace.now()
    blocks = [
        # Nobody can mask an image.
        [replace(each, images=None) for each in reading.items_of(reader, content, n, now)]
        for n in range(len(content.blocks))
    ]
    return content, blocks, masked_words(redactor.counts)


class TooLongToPrint(BackstoryError):
    """More entries than a page to print has."""

    def __init__(self, entries: int) -> None:
        super().__init__(
            f"The session has {entries:,} entries; up to {PRINTED_MOST:,} are printed. Download it instead."
        )
