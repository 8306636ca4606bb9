"""What rules return: friction that was found, and where it stands in history."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable


class Rule(StrEnum):
    """What kind of friction it is."""

    CORRECTED = "corrected"
    LEFT_FAILING = "left failing"
    LOOP = "loop"
    MISTAKE = "mistake"
    MISSING_PATH = "missing path"
    TOLD_AGAIN = "told again"


class Evidence(Struct, frozen=True, kw_only=True):
    """A record where friction shows. ``words``: what the person typed, or the command or path that was tried."""

    session_uid: str
    seq: int
    at: int | None
    words: str
    reason: str
    """Which part of the rule it meets, in a clause."""


class Finding(Struct, frozen=True, kw_only=True):
    """Friction of one kind about one thing. ``about`` names the thing: two findings about the same are one.

    ``commands``: what is proposed to be run, or named as what fails; ``quote``: what the person typed.
    """

    rule: Rule
    about: str
    evidence: tuple[Evidence, ...]
    commands: tuple[str, ...] = ()
    instead: str = ""
    quote: str = ""
    is_standing: bool = True
    """Whether it may be said to an agent once and for all; else it was about one change."""

    @property
    def sessions(self) -> int:
        """In how many sessions it was seen."""
        return len({each.session_uid for each in self.evidence})

    @property
    def is_repeated(self) -> bool:
        """Whether it was seen more than once, in several sessions or turns."""
        return len({(each.session_uid, each.seq) for each in self.evidence}) > 1


def in_order(found: Iterable[Finding]) -> list[Finding]:
    """Findings with those first that most sessions have, then those that were seen most often, then the latest."""
    return sorted(
        found,
        key=lambda each: (each.sessions, len(each.evidence), max((e.at or 0 for e in each.evidence), default=0)),
        reverse=True,
    )
