"""A search of what a team's server has, asked by the login of this home."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from msgspec import Struct

from backstory.ids import parse_time_ms
from backstory.sync.remote import understood

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backstory.sync.remote import Remote

LIMIT_MAX = 100
"""The most sessions that the server gives at once."""


class HitThere(Struct, frozen=True, kw_only=True):
    """A hit as the server says it: the newest of its session, which has so many (``session_hits``)."""

    uid: str
    label: str
    person: str
    machine: str
    seq: int
    scope: str
    snippet: str
    marks: list[tuple[int, int]]
    at: str | None = None
    title: str | None = None
    agents: list[str] = []
    project: str | None = None
    repository: str | None = None
    near: bool = False
    session_hits: int = 0

    @property
    def at_ms(self) -> int | None:
        """The time at which its turn began, in ms."""
        return parse_time_ms(self.at)


class TotalsThere(Struct, frozen=True, kw_only=True):
    """The sessions of the answer that have the words as typed, and in another way, and all their hits."""

    session_count: int
    near_sessions: int
    hit_count: int
    at_least: bool


class FoundThere(Struct, frozen=True, kw_only=True):
    """An answer. ``searched``: what is; ``waiting_sessions``: how many are not yet indexed as they are now."""

    hits: list[HitThere]
    totals: TotalsThere
    truncated: bool
    searched: str
    waiting_sessions: int


def search(remote: Remote, wanted: Mapping[str, object]) -> tuple[FoundThere, Any]:
    """Ask; return the answer, and what the server said as it is. Fields that are None are not asked for.

    Raises ServerUnreachable, ServerRefused.
    """
    asked = urlencode({name: value for name, value in wanted.items() if value is not None})
    said = remote.ask("GET", f"/v1/search?{asked}")
    return understood(remote, said, FoundThere), said
