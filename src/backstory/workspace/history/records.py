"""The records of a path through a session, and what each says in a line."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory import model
from backstory.bounds import iso
from backstory.derive.essence import essence, is_path, without_terminal_codes
from backstory.export.full_form import FullForms
from backstory.export.path_events import path_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backstory.conversation.tree import Point, Span
    from backstory.store import StoredEvent, TreeTurn
    from backstory.workspace.located import LocatedSession


class Role(Enum):
    """The speaker of a record."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    ERROR = "error"
    SYSTEM = "system"


class PathRecord(Struct, frozen=True, kw_only=True):
    """One record of a path: who says it, and what. ``tool`` names the tool that is called."""

    seq: int
    part: int
    kind: str
    at: int | None
    role: Role
    text: str
    tool: str | None = None
    is_path: bool = False
    """True if the text is the path of the file that a call is about."""


class Path(Struct, frozen=True, kw_only=True):
    """The records that lead to a point (None: there are no turns), read as they are asked for, once."""

    point: Point | None
    records: Iterator[PathRecord]


def path_records(located: LocatedSession, spans: Sequence[Span], turns: Iterable[TreeTurn]) -> Iterator[PathRecord]:
    """The records of a path that say something, in the order of their numbers."""
    forms = FullForms(located.store)
    for stored in path_events(located.store, located.session, spans, turns):
        told = msgspec.structs.replace(stored, event=forms.with_words(stored))
        if (record := record_of(told)) is not None:
            yield record


def record_of(stored: StoredEvent) -> PathRecord | None:
    """Return the text of an event and its speaker; None if it has neither."""
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
    call = event if isinstance(event, model.ToolCall) else None
    return PathRecord(
        seq=stored.seq, part=stored.part, kind=stored.kind, at=stored.at, role=said[0], text=said[1],
        tool=None if call is None else call.tool_name, is_path=call is not None and is_path(call),
    )  # fmt: skip


def as_json(record: PathRecord) -> dict[str, Any]:
    """A record as ``scan --json`` and ``diff --json`` print it."""
    head = {
        "seq": record.seq,
        "part": record.part,
        "role": record.role.value,
        "kind": record.kind,
        "at": iso(record.at),
    }
    return head | ({} if record.tool is None else {"tool": record.tool}) | {"text": record.text}
