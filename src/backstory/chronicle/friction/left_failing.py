"""Work that was left failing: a person had to say that tests, a build or the linter fail. Pure."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from backstory.chronicle.friction.findings import Evidence, Finding, Rule
from backstory.chronicle.friction.typed import typed
from backstory.derive.checks import CheckKind
from backstory.lazy_regex import lazy_regex
from backstory.store.attempts import Ending

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.workspace.attempts import SessionAttempts

RULE = """\
left failing: a typed prompt of at most 200 characters says that tests, a build, CI or the linter fail, or asks to fix
them, in one clause ("lint and test failures", "fix lint errors", "we fail build"). The command that is proposed is the
check of that kind that most often passed in sessions of this repository."""
PROMPT_CHARS_MAX = 200
_KINDS = {
    CheckKind.TEST: lazy_regex(r"\b(?:unit |integration )?tests?(?!\w|\s+(?:issue|repo|branch|plan|script|file|case))\b|\bci\b",
                               re.IGNORECASE),
    CheckKind.LINT: lazy_regex(r"\blint(?:er|ing|s)?\b|\btype ?check\w*\b", re.IGNORECASE),
    CheckKind.BUILD: lazy_regex(r"\bbuilds?\b|\bcompil\w+\b", re.IGNORECASE),
}  # fmt: skip
_THING = r"(?:lint(?:er|ing|s)?|(?:unit |integration )?tests?(?:[:\w]+)?|builds?|ci|type ?checks?|compil\w+)"
_FAILING = r"(?:fail(?:s|ing|ed|ures?)?|broken|breaks?|broke|errors?|red|issues?)"
_SAYS = lazy_regex(
    rf"\b{_THING}\b[^.?!\n]{{0,25}}?\b{_FAILING}\b|\b(?:fail(?:s|ing|ed)?|failing|broken|we fail|fix(?: the| my| our)?)\s+{_THING}\b",
    re.IGNORECASE,
)
_ASKS = lazy_regex(r"\b(?:should|would|could|what if|when|expect\w*|why|if|add|write|explain|that fails?|how)\b", re.IGNORECASE)
"""Words of prompts about tests that are to be written or understood."""


def left_failing(found: Sequence[SessionAttempts]) -> list[Finding]:
    """The reports of failures, as one finding, with the commands that would have told."""
    evidence, kinds = list[Evidence](), set[CheckKind]()
    for session in found:
        for each, of_kinds in _in_session(session):
            evidence.append(each)
            kinds |= of_kinds
    commands = [command for kind in CheckKind if kind in kinds and (command := _passing(found, kind))]
    if not evidence or not commands:
        return []
    return [
        Finding(rule=Rule.LEFT_FAILING, about=" ".join(commands), evidence=tuple(evidence), commands=tuple(commands))
    ]


def says_failing(prompt: str) -> frozenset[CheckKind]:
    """What a prompt says to be failing.

    >>> sorted(says_failing("lint and test failures :("))
    ['tests', 'the linter']
    >>> says_failing("add a test that fails when the input is empty")
    frozenset()
    """
    if len(prompt) > PROMPT_CHARS_MAX or not (found := _SAYS.search(prompt)) or _ASKS.search(prompt):
        return frozenset()
    clause = prompt[max(0, found.start() - 15) : found.end()]
    return frozenset(kind for kind, shape in _KINDS.items() if shape.search(clause))


def _in_session(session: SessionAttempts) -> Iterator[tuple[Evidence, frozenset[CheckKind]]]:
    before = ""
    for turn in session.turns:
        prompt = typed(turn.prompt)
        if prompt is None or prompt == before:
            continue
        before = prompt
        if kinds := says_failing(prompt):
            reason = f"says that {' and '.join(sorted(kinds))} failed"
            yield (
                Evidence(session_uid=session.session.uid, seq=turn.seq, at=turn.started, words=prompt, reason=reason),
                kinds,
            )


def _passing(found: Sequence[SessionAttempts], kind: CheckKind) -> str | None:
    """The check of a kind that passed in most sessions, as it begins."""
    counts: Counter[str] = Counter()
    for session in found:
        counts.update(
            {
                check.head
                for each in session.attempts
                if each.ended == Ending.WELL
                for check in each.checks
                if check.kind == kind
            }
        )
    return counts.most_common(1)[0][0] if counts else None
