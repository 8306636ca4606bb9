"""The findings of rules: friction, and where it is in history."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backstory.ask.attempts import Attempt
    from backstory.ask.work import WorkTurn
    from backstory.workspace.history.work import SessionAttempts


class Rule(StrEnum):
    """The kind of friction."""

    CORRECTED = "corrected"
    LEFT_FAILING = "left failing"
    LOOP = "loop"
    MISTAKE = "mistake"
    MISSING_PATH = "missing path"
    TOLD_AGAIN = "told again"


class FrictionEvidence(Struct, frozen=True, kw_only=True):
    """A record where friction shows. ``words``: what the person typed, or the command or path that was tried.

    ``session_uid``: the session that holds the record; ``listed_uid``: that one, or the one it is a subagent of.
    """

    session_uid: str
    listed_uid: str
    seq: int
    at: int | None
    words: str
    reason: str
    """The part of the rule that it meets, in a clause."""


def typed_at(session: SessionAttempts, turn: WorkTurn, words: str, reason: str) -> FrictionEvidence:
    """Return evidence of words that a person typed in a prompt."""
    uid = session.session.uid
    return FrictionEvidence(session_uid=uid, listed_uid=uid, seq=turn.seq, at=turn.started, words=words, reason=reason)


def tried_at(session: SessionAttempts, attempt: Attempt, words: str, reason: str) -> FrictionEvidence:
    """Return evidence of an agent's attempt in a call."""
    return FrictionEvidence(
        session_uid=attempt.session_uid, listed_uid=session.session.uid, seq=attempt.seq, at=attempt.at, words=words,
        reason=reason,
    )  # fmt: skip


class FrictionFinding(Struct, frozen=True, kw_only=True):
    """Friction of one kind about one thing. ``about`` names the thing: two findings about the same are one.

    ``commands``: what is proposed to be run, or named as what fails; ``quote``: what the person typed. ``evidence_of``:
    the records about each of the commands, where not all are about all of them.
    """

    rule: Rule
    about: str
    evidence: tuple[FrictionEvidence, ...]
    commands: tuple[str, ...] = ()
    evidence_of: tuple[tuple[FrictionEvidence, ...], ...] = ()
    instead: str = ""
    quote: str = ""
    is_standing: bool = True
    """True if it may be said to an agent once and for all; else it was about one change."""

    @property
    def sessions(self) -> int:
        """In how many sessions it was seen."""
        return several(self.evidence)

    @property
    def is_repeated(self) -> bool:
        """True if it was seen more than once, in several sessions or turns."""
        return len({(each.session_uid, each.seq) for each in self.evidence}) > 1


def in_order(found: Iterable[FrictionFinding]) -> list[FrictionFinding]:
    """Findings with those first that most sessions have, then those that were seen most often, then the latest."""
    return sorted(
        found,
        key=lambda each: (each.sessions, len(each.evidence), max((e.at or 0 for e in each.evidence), default=0)),
        reverse=True,
    )


def several(evidence: Iterable[FrictionEvidence]) -> int:
    """In how many listed sessions something was seen."""
    return len({each.listed_uid for each in evidence})
