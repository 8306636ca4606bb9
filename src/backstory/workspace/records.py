"""The records of a path through a session, and what each says in a line."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory import model
from backstory.bounds import iso
from backstory.derive.essence import essence, without_terminal_codes
from backstory.export.full_form import FullForms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backstory.conversation.tree import Point, Span
    from backstory.store import StoredEvent, TreeTurn
    from backstory.workspace.located import LocatedSession

WINDOW = 500
"""So many events are read at once; gaps in a path that are shorter are read over."""


class Role(Enum):
    """Who or what a record is of."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    ERROR = "error"
    SYSTEM = "system"


class Record(Struct, frozen=True, kw_only=True):
    """One record of a path: who says it, and what. ``tool`` names the tool that is called."""

    seq: int
    part: int
    kind: str
    at: int | None
    role: Role
    text: str
    tool: str | None = None


class Path(Struct, frozen=True, kw_only=True):
    """The records that lead to a point (None: there are no turns), read as they are asked for, once."""

    point: Point | None
    records: Iterator[Record]


def path_records(located: LocatedSession, spans: Sequence[Span], turns: Iterable[TreeTurn]) -> Iterator[Record]:
    """The records of a path that say something, in the order of their numbers."""
    for stored in _stored(located, spans, turns):
        if (record := record_of(stored)) is not None:
            yield record


def record_of(stored: StoredEvent) -> Record | None:
    """What an event says, and who says it; None for one that is about neither."""
    match event := stored.event:
        case model.UserMessage():
            said = Role.USER, event.content
        case model.AssistantText():
            said = Role.ASSISTANT, event.text
        case model.ToolCall():
            said = Role.TOOL, essence(event).strip()
        case model.ToolResult(is_error=True):
            said = Role.ERROR, f"{event.tool_name}: {without_terminal_codes(event.content)}"
        case model.Error():
            said = Role.ERROR, event.message
        case model.Plan():
            said = Role.ASSISTANT, f"plan: {event.content}"
        case model.Compacted():
            said = Role.SYSTEM, event.summary or "context compacted"
        case _:
            return None
    tool = event.tool_name if isinstance(event, model.ToolCall) else None
    return Record(
        seq=stored.seq, part=stored.part, kind=stored.kind, at=stored.at, role=said[0], text=said[1], tool=tool
    )  # fmt: skip


def as_json(record: Record) -> dict[str, Any]:
    """A record as ``scan --json`` and ``diff --json`` print it."""
    head = {
        "seq": record.seq,
        "part": record.part,
        "role": record.role.value,
        "kind": record.kind,
        "at": iso(record.at),
    }
    return head | ({} if record.tool is None else {"tool": record.tool}) | {"text": record.text}


def _stored(located: LocatedSession, spans: Sequence[Span], turns: Iterable[TreeTurn]) -> Iterator[StoredEvent]:
    store, forms = located.store, FullForms(located.store)
    ids = {turn.uid: turn.id for turn in turns}
    last = {ids[span.uid]: span.last for span in spans}
    first = {ids[span.uid]: span.first for span in spans}
    for start, stop in _joined(spans):
        after = (start - 1, 1 << 30)
        while window := store.events(located.session, after=after, limit=WINDOW):
            for stored in window:
                turn = stored.turn_id or 0
                if stored.seq <= stop and first.get(turn, 1) <= stored.seq <= last.get(turn, 0):
                    yield msgspec.structs.replace(stored, event=forms.with_words(stored))
            after = (window[-1].seq, window[-1].part)
            if after[0] > stop or len(window) < WINDOW:
                break


def _joined(spans: Sequence[Span]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for span in sorted(spans, key=lambda each: each.first):
        if joined and span.first - joined[-1][1] <= WINDOW:
            joined[-1] = (joined[-1][0], max(joined[-1][1], span.last))
        else:
            joined.append((span.first, span.last))
    return joined
