"""Vibe's folder of a session: what ``CURRENT`` names, from a generation's manifest to its chunks.

A chunk is a list of entries, named after its content, and with each append it is written anew under another name. A
generation is written when a turn ends; what came since stands in its journal alone. The last two generations stay.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory.agents import jsonl
from backstory.agents.contract import FolderOrder
from backstory.agents.vibe.places import GENERATIONS, HEAD, JOURNAL, MANIFEST, META, SESSION_ID, STATE, UNIFIED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DELTA = b'"type":"projection_delta"}'
"""The end of a line of the journal that adds to the conversation, or changes it."""


class _Current(Struct):
    generation: str


class _Chunks(Struct):
    chunks: list[str] = field(default_factory=list)


class _Segment(Struct):
    path: str = ""


class _Manifest(Struct):
    projection: _Chunks = field(name="projection_state", default_factory=_Chunks)
    context: _Chunks = field(name="checkpoint", default_factory=_Chunks)
    """The context of the model: it alone has the summary after a compaction."""
    journal: _Segment = field(name="recovery_journal_segment", default_factory=_Segment)


class Folders:
    """See ``contract.FolderPart``."""

    head = HEAD
    watched = (META, JOURNAL)

    def folder_of(self, below: PurePath) -> PurePath | None:
        parts = below.parts
        if len(parts) < 2 or parts[0] != UNIFIED or SESSION_ID.fullmatch(parts[1]) is None:
            return None
        return PurePath(*parts[:2])

    def order(self, names: Sequence[str], read: Callable[[str], bytes]) -> FolderOrder:
        there = set(names)
        states = [each for each in names if each.startswith(GENERATIONS) and each.endswith(f"/{STATE}")]
        wanted, journal, missing = _current(read)
        found = dict.fromkeys([META, *states, *wanted, journal])
        absent = next((each for each in (META, *wanted) if each not in there), None)
        if missing is None and absent is not None:
            missing = f"{absent} is missing"
        return FolderOrder(names=[each for each in found if each in there], missing=missing)

    def records(self, name: str, content: bytes) -> Sequence[tuple[int, int]] | None:
        if name.startswith(JOURNAL):
            return _deltas(content)
        if name.startswith("chunks/"):
            return jsonl.elements(content)
        whole = content.rstrip()
        return [(0, len(whole))] if jsonl.is_whole(whole) else None


def _current(read: Callable[[str], bytes]) -> tuple[list[str], str, str | None]:
    """The files with the conversation that the head leads to, the journal behind it, and why they are not known."""
    try:
        generation = f"{GENERATIONS}{msgspec.json.decode(read(HEAD), type=_Current).generation}/"
        manifest = msgspec.json.decode(read(f"{generation}{MANIFEST}"), type=_Manifest)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [], "", f"what {HEAD} names cannot be read"
    chunks = [f"chunks/{each}.json" for each in (*manifest.context.chunks, *manifest.projection.chunks)]
    return [f"{generation}{STATE}", *chunks], manifest.journal.path, None


def _deltas(content: bytes) -> list[tuple[int, int]]:
    """The lines of a journal that say what happened to the conversation; the last line may still grow."""
    places, at = list[tuple[int, int]](), 0
    while (stop := content.find(b"\n", at)) >= 0:
        if content.endswith(DELTA, at, stop):
            places.append((at, stop))
        at = stop + 1
    return places
