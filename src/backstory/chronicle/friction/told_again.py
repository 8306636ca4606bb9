"""The same explanation typed again: a sentence that says how something is or is to be done. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backstory.chronicle.friction.findings import FrictionFinding, Rule, several, typed_at
from backstory.chronicle.friction.typed import content_of, is_quotable, likeness, sentences, typed
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.chronicle.friction.findings import FrictionEvidence
    from backstory.workspace.history.work import SessionAttempts

CONTENT_WORDS_MIN = 3
SESSIONS_MIN = 2
ALIKE = 0.75
RULE = f"""\
told again: in {SESSIONS_MIN} sessions or more a typed sentence of {CONTENT_WORDS_MIN} meaningful words or more says how
something is or is to be done ("we use …", "always …", "make sure …", "… is in …", "must", "should"), is no question,
and shares {ALIKE:.0%} of its words."""
_EXPLAINS = lazy_regex(
    r"\b(?:always|never|must|should|make sure|ensure|remember|note that|keep in mind|don['’]?t|do not|prefer|only use"
    r"|we (?:use|have|want|need|always|never|don['’]?t|keep|call)|please use|use (?:the|our|\S+ (?:not|instead|for))"
    r"|(?:is|are|lives?) (?:in|at|under|below|called|named)|instead of|british spelling|without)\b",
    re.IGNORECASE,
)


def told_again(found: Sequence[SessionAttempts]) -> list[FrictionFinding]:
    """Return explanations that people typed in several sessions."""
    groups: list[tuple[frozenset[str], list[tuple[FrictionEvidence, str]]]] = []
    for session in found:
        for evidence, sentence in _in_session(session):
            content = content_of(sentence)
            group = next((group for known, group in groups if likeness(known, content) >= ALIKE), None)
            if group is None:
                groups.append((content, [(evidence, sentence)]))
            else:
                group.append((evidence, sentence))
    return [
        FrictionFinding(rule=Rule.TOLD_AGAIN, about=group[-1][1].lower(), quote=group[-1][1],
                evidence=tuple(evidence for evidence, _ in group), is_standing=is_quotable(group[-1][1]))
        for _, group in groups if several(evidence for evidence, _ in group) >= SESSIONS_MIN
    ]  # fmt: skip


def explains(sentence: str) -> bool:
    """Return True if a sentence says how something is or is to be done.

    >>> explains("We use uv in this repository."), explains("Fix the parser.")
    (True, False)
    """
    is_statement = not sentence.endswith("?") and _EXPLAINS.search(sentence) is not None
    return is_statement and len(content_of(sentence)) >= CONTENT_WORDS_MIN


def _in_session(session: SessionAttempts) -> Iterator[tuple[FrictionEvidence, str]]:
    for turn in session.turns:
        if typed(turn.prompt) is None:
            continue
        for sentence in sentences(turn.prompt):
            if explains(sentence):
                yield (
                    typed_at(session, turn, sentence, "explains it again"),
                    sentence,
                )  # fmt: skip
