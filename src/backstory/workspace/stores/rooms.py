"""The room that is taken in a machine's stores: by project, agent, kind and age, each with the prune that frees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.ask import room
from backstory.model import AssistantText, Command, Plan, Thinking, ToolCall, ToolResult, UserMessage
from backstory.workspace.stores.pruning import Pruner, PruneWish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from backstory.ask.room import Share
    from backstory.workspace.place import Place
    from backstory.workspace.stores.pruning import PruneChoice, SeenStore

DAY_MS = 24 * 3600 * 1000
AGES = ((365, "older than 1 year", "1y"), (90, "90 days to 1 year", "90d"), (30, "30 to 90 days", "30d"))
NEWEST = "the last 30 days"
PRUNE = ("backstory", "prune")
OLD_PARTS = (*PRUNE, "--older", "90d", "--keep", "prompts")
"""It frees most of what is older, whatever its kind."""
_KINDS: dict[str, tuple[str, ...]] = {
    "prompts": (UserMessage.kind,), "answers": (AssistantText.kind, Plan.kind), "thoughts": (Thinking.kind,),
    "tool calls": (ToolCall.kind, Command.kind), "tool outputs": (ToolResult.kind,),
}  # fmt: skip
_IMAGES, _SUBAGENTS, _INDEX, _FILES, _REST = "images", "subagents", "search index", "files beside logs", "other records"
_DERIVED, _OWN, _FREE = "lists and what is derived", "the store itself", "free pages"
_FREED_BY: dict[str, tuple[str, ...]] = {
    "prompts": (*PRUNE, "--older", "90d"), "tool outputs": (*PRUNE, "--kind", "tool-outputs"),
    _IMAGES: (*PRUNE, "--kind", "images"), _SUBAGENTS: (*PRUNE, "--kind", "subagents"), _OWN: (),
    _FREE: ("backstory", "optimize"),
}  # fmt: skip


class RoomRow(Struct, kw_only=True):
    """A part of the room. ``command``: the words that free it; empty where nothing does.

    ``frees``: the bytes that the command frees with all that is older, where that is more than the row; else 0.
    """

    name: str
    bytes: int = 0
    sessions: int = 0
    command: tuple[str, ...] = ()
    frees: int = 0


class Rooms(Struct, kw_only=True):
    """The room in the files: each list of rows is all of it, but that only kinds have what is no session's."""

    bytes: int
    stores: list[tuple[str, int]]
    by_project: list[RoomRow]
    by_agent: list[RoomRow]
    by_kind: list[RoomRow]
    by_age: list[RoomRow]


def measure(place: Place, note: Callable[[int, int], None]) -> Rooms:
    """Measure the home store and the projects' stores; where a store was named, that one."""
    pruner = Pruner(place)
    seen, chosen = pruner.look(PruneWish(), note)
    everything = list(chosen.values())
    return Rooms(
        bytes=sum(each.room.used + each.room.free for each in seen),
        stores=[(str(each.store.path), each.room.used + each.room.free) for each in seen],
        by_project=_rows(everything, lambda each: each.project, "--project"),
        by_agent=_rows(everything, lambda each: each.agent, "--agent"),
        by_kind=_by_kind(seen),
        by_age=_by_age(everything, place.now()),
    )


def _rows(chosen: Iterable[PruneChoice], key: Callable[[PruneChoice], str], option: str) -> list[RoomRow]:
    rows: dict[str, RoomRow] = {}
    for each in chosen:
        name = key(each)
        row = rows.setdefault(name, RoomRow(name=name, command=(*PRUNE, option, name) if name else ()))
        row.bytes += each.room
        row.sessions += 1
    return sorted(rows.values(), key=lambda row: (-row.bytes, row.name))


def _by_age(chosen: Iterable[PruneChoice], now: int) -> list[RoomRow]:
    rows = [RoomRow(name=name, command=(*PRUNE, "--older", said)) for _, name, said in AGES]
    rows.append(RoomRow(name=NEWEST))
    for each in chosen:
        days = (now - each.active) / DAY_MS
        row = next((rows[n] for n, (least, _, _) in enumerate(AGES) if days > least), rows[-1])
        row.bytes += each.room
        row.sessions += 1
    older = 0
    for row in rows:
        older += row.bytes
        if not row.sessions:
            row.command = ()
        elif row.command and older > row.bytes:
            row.frees = older
    return rows


def _by_kind(seen: Iterable[SeenStore]) -> list[RoomRow]:
    found: dict[str, float] = {}
    sessions: dict[str, set[str]] = {}
    for each in seen:
        images = each.store.ask(room.images)
        for session_id, share in each.room.shares.items():
            row = each.rows[session_id]
            is_below = row.is_subagent and row.parent_id is not None
            parts = {_SUBAGENTS: float(share.bytes)} if is_below else _parts(share, images.get(session_id, 0))
            for name, size in parts.items():
                found[name] = found.get(name, 0) + size
                if size >= 1:
                    sessions.setdefault(name, set()).add(row.uid)
        found[_OWN] = found.get(_OWN, 0) + each.room.own
        found[_FREE] = found.get(_FREE, 0) + each.room.free
    rows = [
        RoomRow(
            name=name, bytes=round(size), sessions=len(sessions.get(name, ())), command=_FREED_BY.get(name, OLD_PARTS)
        )
        for name, size in found.items()
        if round(size)
    ]
    return sorted(rows, key=lambda row: (-row.bytes, row.name))


def _parts(share: Share, images: float) -> dict[str, float]:
    """The bytes of a session, by their kinds."""
    parts = {name: sum(share.of_kinds(kinds)[:2]) for name, kinds in _KINDS.items()}
    with_images = parts["prompts"] + parts["tool outputs"]
    images = min(images, with_images)
    for name in ("prompts", "tool outputs") if with_images else ():
        parts[name] -= images * parts[name] / with_images
    rest = share.logs + share.events - images - sum(parts.values())
    return parts | {
        _IMAGES: images, _REST: rest, _INDEX: share.index, _FILES: share.sidecars,
        _DERIVED: share.derived + share.other,
    }  # fmt: skip


def as_json(found: Rooms) -> dict[str, Any]:
    """The same as JSON."""

    def rows(of: Iterable[RoomRow], key: str) -> list[dict[str, Any]]:
        return [
            {
                key: row.name or None, "room_bytes": row.bytes, "session_count": row.sessions,
                "command": list(row.command) or None,
            }
            for row in of
        ]  # fmt: skip

    return {
        "room_bytes": found.bytes,
        "stores": [{"path": path, "bytes": size} for path, size in found.stores],
        "by_project": rows(found.by_project, "project_name"),
        "by_agent": rows(found.by_agent, "agent"),
        "by_kind": rows(found.by_kind, "kind"),
        "by_age": rows(found.by_age, "age"),
    }
