"""A small map of a session: how much was said and done along it, and where prompts and failures are."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from math import ceil, sqrt
from typing import TYPE_CHECKING, NamedTuple

from backstory.model import AssistantText, Error, ToolCall, UserMessage

if TYPE_CHECKING:
    from backstory.workspace.history.blocks import Content

ENTRIES_LEAST, PARTS_MOST = 12, 60
"""A session with fewer entries is seen without a map; of a longer one each part has several."""
WIDTH, TOP, BAR, FOOT = 240.0, 9.0, 28.0, 8.0
"""The width of the map; the room for failures above the bars, that of the bars, and that for prompts below them."""
FAILED = ("failed", "crashed")


class MapPart(NamedTuple):
    """Entries in a row. ``seq``: the first record; ``said`` and ``done``: the heights of the two parts of a bar."""

    seq: int
    x: float
    said: float
    done: float
    has_prompt: bool
    has_failed: bool
    words: str


class SessionMap(NamedTuple):
    """The parts, and the width of each."""

    parts: list[MapPart]
    width: float


def map_of(content: Content) -> SessionMap | None:
    """Draw the map of a session; None of a short one."""
    order = content.order
    if len(order) < ENTRIES_LEAST:
        return None
    size = ceil(len(order) / PARTS_MOST)
    starts = range(0, len(order), size)
    kinds = [Counter(order.kinds[start : start + size]) for start in starts]
    chars = [sum(order.chars[start : start + size]) for start in starts]
    failed = Counter(
        bisect_left(order.seqs, each.turn.first_seq, 0, content.aside) // size
        for each in content.transcript.turns
        if each.turn.outcome in FAILED
    )
    width, most = WIDTH / len(starts), max(chars) or 1
    parts = []
    for n, start in enumerate(starts):
        prompts, answers, calls = (kinds[n][each.kind] for each in (UserMessage, AssistantText, ToolCall))
        fails = failed[n] + kinds[n][Error.kind]
        height = max(BAR * sqrt(chars[n] / most), 1)
        said = height * (prompts + answers) / max(prompts + answers + calls, 1)
        facts = {"prompts": prompts, "answers": answers, "calls": calls, "failures": fails}
        words = ", ".join(f"{name} {count:,}" for name, count in facts.items() if count)
        parts.append(
            MapPart(
                seq=order.seqs[start], x=round(n * width, 2), said=round(said, 1), done=round(height - said, 1),
                has_prompt=bool(prompts), has_failed=bool(fails), words=f"@{order.seqs[start]}: {words or 'other'}",
            )
        )  # fmt: skip
    return SessionMap(parts, round(width, 2))
