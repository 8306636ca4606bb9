"""Corrections: a prompt that contradicts what was done, behind an edit or a call that the person refused. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backstory.ask.attempts import CallEnd
from backstory.chronicle.friction.findings import FrictionFinding, Rule, typed_at
from backstory.chronicle.friction.typed import content_of, is_quotable, likeness, sentences, typed
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.chronicle.friction.findings import FrictionEvidence
    from backstory.workspace.history.work import SessionAttempts

RULE = """\
corrected: a typed prompt of at most 600 characters contradicts: one of its first two sentences begins with "no,",
"nope" or "nah"; or with "don't", "do not", "never", "stop", "let's not", "avoid" or "instead of"; or asks to "revert",
"undo", "roll back" or "put back"; or says "not what I", "that's wrong", "you are not correct". Earlier in the session a
file was edited, or the person refused a call. "Never mind", what a hook says, "this is fine" and an order to change
nothing contradict nothing. Alike: two corrections that share 60 % of their words."""
ALIKE = 0.6
CONTENT_WORDS_MIN = 2
_SENTENCES_READ = 2
_ADDRESS = r"(?:(?:ok(?:ay)?|hmm+|um+|oh|well|actually|wait|but|and|also|so|please|sorry)[,.!]*\s+){0,3}"
_SAYS = {
    "says no": lazy_regex(
        rf"^{_ADDRESS}(?:no|nope|nah)\b(?!\W*(?:ignore|forget|skip)\b)"
        r"(?!\W*(?:i think )?(?:this|that|it)(?: is|['’]s) (?:fine|ok|okay|good|enough|right|correct)\b)"
        r"(?=[,.!:;]|\s+(?:let|revert|undo|don|do|it|that|this|we|you|i)\b)",
        re.IGNORECASE,
    ),
    "forbids": lazy_regex(
        rf"^{_ADDRESS}(?:you (?:should|must) (?:not|never)|don['’]?t|do not|never|stop|let['’]?s not|avoid)"
        r"\s+(?!for\b|here\b|worry\b|you think\b|we (?:need|have|want)\b|mind\b|hook\b)"
        r"(?!(?:change|edit|modify|touch|do|write|implement|fix) (?:anything|any (?:code|files?)|code|files)\b)[a-z_*]",
        re.IGNORECASE,
    ),
    "wants another": lazy_regex(rf"^{_ADDRESS}instead(?: of\b|,)|\buse \S+ instead\b", re.IGNORECASE),
    "takes back": lazy_regex(
        rf"^{_ADDRESS}(?:(?:let['’]?s|can you|could you|you can)\s+)?"
        r"(?:revert|undo|roll(?:\s+\w+)?\s+back|put (?:it|that|this|them) back)\b",
        re.IGNORECASE,
    ),
    "says it is wrong": lazy_regex(
        r"\b(?:not what i (?:want|ask|mean|said)|that['’]?s (?:wrong|not right|incorrect|not correct)"
        r"|(?:you are|you['’]?re) (?:wrong|not correct|mistaken)"
        r"|(?:this|that|it) is (?:wrong|incorrect|not right|not correct))",
        re.IGNORECASE,
    ),
}
_STANDING = lazy_regex(
    rf"^{_ADDRESS}(?:no,? )?(?:don['’]?t|do not|never|always|avoid|you (?:must|should) (?:not|never))\b"
    r"|\buse \S+ instead\b",
    re.IGNORECASE,
)
"""Words of a rule for every time."""
_ABOUT_ONE = lazy_regex(r"\b(?:this|that|these|those|it|yet|now|here|above|step \d+)\b|\?$|\.\.\.$|…$", re.IGNORECASE)
"""Words that point at one change: what they are said of is not known later."""


def corrections(found: Sequence[SessionAttempts]) -> list[FrictionFinding]:
    """Return people's corrections, similar ones as one."""
    groups: list[tuple[frozenset[str], list[tuple[FrictionEvidence, str, bool]]]] = []
    for each in found:
        for evidence, quote, stands in _in_session(each):
            content = content_of(quote)
            group = next((group for known, group in groups if likeness(known, content) >= ALIKE), None)
            if group is None:
                groups.append((content, [(evidence, quote, stands)]))
            else:
                group.append((evidence, quote, stands))
    return [_finding(group) for _, group in groups]


def _finding(group: Sequence[tuple[FrictionEvidence, str, bool]]) -> FrictionFinding:
    quotes = [quote for _, quote, stands in group if stands] or [quote for _, quote, _ in group]
    return FrictionFinding(
        rule=Rule.CORRECTED,
        about=quotes[-1].lower(),
        evidence=tuple(evidence for evidence, _, _ in group),
        quote=quotes[-1],
        is_standing=any(stands for _, _, stands in group),
    )


def _in_session(session: SessionAttempts) -> Iterator[tuple[FrictionEvidence, str, bool]]:
    acted = [
        each.seq
        for each in session.attempts
        if each.session_uid == session.session.uid and (each.edits or each.ended == CallEnd.REFUSED)
    ]
    following = [typed(each.prompt) or "" for each in session.turns[1:]]
    for turn, then in zip(session.turns, [*following, ""], strict=False):
        prompt = typed(turn.prompt)
        # What is typed once more, with more words behind it, was sent too early.
        if not acted or acted[0] > turn.seq or prompt is None or then.startswith(prompt):
            continue
        for sentence in list(sentences(turn.prompt))[:_SENTENCES_READ]:
            reason = contradiction(sentence)
            if reason is not None and len(content_of(sentence)) >= CONTENT_WORDS_MIN:
                yield (
                    typed_at(session, turn, prompt, reason),
                    sentence,
                    is_standing(sentence),
                )
                break


def contradiction(sentence: str) -> str | None:
    """Return the way in which a sentence contradicts what was done; None if it does not.

    >>> contradiction("no, use tabs"), contradiction("Do not stash anything"), contradiction("no problem")
    ('says no', 'forbids', None)
    """
    return next((reason for reason, shape in _SAYS.items() if shape.search(sentence)), None)


def is_standing(sentence: str) -> bool:
    """Return True if a sentence may be said to an agent once and for all.

    >>> is_standing("do not stash anything"), is_standing("don't do that"), is_standing("no, we removed them")
    (True, False, False)
    """
    says_rule = _STANDING.search(sentence) is not None and _ABOUT_ONE.search(sentence) is None
    return says_rule and is_quotable(sentence)
