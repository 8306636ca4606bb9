"""Work that was left failing: a person had to say that tests, a build or the linter fail. Pure."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from backstory.ask.attempts import CallEnd
from backstory.chronicle.friction.findings import FrictionEvidence, FrictionFinding, Rule, typed_at
from backstory.chronicle.friction.typed import typed
from backstory.derive.checks import CheckKind
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backstory.derive.checks import Check
    from backstory.workspace.history.work import SessionAttempts

PROMPT_CHARS_MAX = 200
RULE = f"""\
left failing: a typed prompt of at most {PROMPT_CHARS_MAX} characters says that tests, a build, CI or the linter fail,
or asks to fix them, in one clause ("lint and test failures", "fix lint errors", "we fail build"). The command that is
proposed is the check of that kind that failed next in most of these sessions, else the one that passed in most."""
_KINDS = {
    CheckKind.TEST: lazy_regex(
        r"\b(?:unit |integration )?tests?(?!\w|\s+(?:repo|branch|plan|script|file|case))\b|\bci\b", re.IGNORECASE
    ),
    CheckKind.LINT: lazy_regex(r"\blint(?:er|ing|s)?\b|\btype ?check\w*\b", re.IGNORECASE),
    CheckKind.BUILD: lazy_regex(r"\bbuilds?\b|\bcompil\w+\b", re.IGNORECASE),
}
_THING = r"(?:lint(?:er|ing|s)?|(?:unit |integration )?tests?(?:[:\w]+)?|builds?|ci|type ?checks?|compil\w+)"
_FAILING = r"(?:fail(?:s|ing|ed|ures?)?|broken|breaks?|broke|errors?|red|issues?)"
_SAYS = lazy_regex(
    rf"\b{_THING}\b[^.?!\n]{{0,25}}?\b{_FAILING}\b"
    rf"|\b(?:fail(?:s|ing|ed)?|failing|broken|we fail|fix(?: the| our)?)\s+{_THING}\b",
    re.IGNORECASE,
)
_ASKS = lazy_regex(
    r"\b(?:should|would|could|what if|when|expect\w*|why|if|add|write|explain|that fails?|how|my|pass(?:es|ed)?"
    r"|no (?:errors|failures|issues))\b",
    re.IGNORECASE,
)
"""Words of prompts about tests that are to be written or understood, or about what the person changed."""


def left_failing(found: Sequence[SessionAttempts]) -> list[FrictionFinding]:
    """The reports of failures, as one finding, with the commands that would have told."""
    reports, votes = list[tuple[FrictionEvidence, frozenset[CheckKind]]](), dict[CheckKind, Counter[str]]()
    for session in found:
        for each, kinds in _in_session(session):
            reports.append((each, kinds))
            for kind in kinds:
                votes.setdefault(kind, Counter()).update(_failed_next(session, each.seq, kind))
    passed = _passed(found)
    named = Counter(kind for _, kinds in reports for kind in kinds)
    # What was said once may have meant another check: "the build fails" where its tests did.
    often = [kind for kind in CheckKind if named[kind] > 1] or [kind for kind in CheckKind if named[kind]]
    commands: dict[str, set[CheckKind]] = {}
    for kind in often:
        if best := votes.get(kind) or _heads(passed[kind]):
            commands.setdefault(_whole(best.most_common(1)[0][0], passed), set()).add(kind)
    if not commands:
        return []
    return [
        FrictionFinding(
            rule=Rule.LEFT_FAILING, about=" ".join(commands), commands=tuple(commands),
            evidence=tuple(each for each, _ in reports),
            evidence_of=tuple(
                tuple(each for each, named in reports if named & kinds) for kinds in commands.values()
            ),
        )
    ]  # fmt: skip


def says_failing(prompt: str) -> frozenset[CheckKind]:
    """Return the kinds of checks that a prompt reports as failing.

    >>> sorted(map(str, says_failing("lint and test failures :(")))
    ['tests', 'the linter']
    >>> says_failing("add a test that fails when the input is empty")
    frozenset()
    """
    if len(prompt) > PROMPT_CHARS_MAX or not (found := _SAYS.search(prompt)) or _ASKS.search(prompt):
        return frozenset()
    clause = prompt[max(0, found.start() - 15) : found.end()]
    return frozenset(kind for kind, shape in _KINDS.items() if shape.search(clause))


def _in_session(session: SessionAttempts) -> Iterator[tuple[FrictionEvidence, frozenset[CheckKind]]]:
    before = ""
    for turn in session.turns:
        prompt = typed(turn.prompt)
        if prompt is None or prompt == before:
            continue
        before = prompt
        if kinds := says_failing(prompt):
            yield typed_at(session, turn, prompt, f"says that {' and '.join(sorted(kinds))} failed"), kinds


def _failed_next(session: SessionAttempts, seq: int, kind: CheckKind) -> Iterator[str]:
    """Yield the beginning of the next failed check of a kind after a record of a session, if any."""
    uid = session.session.uid
    for each in session.attempts:
        if each.session_uid == uid and each.seq > seq and each.ended == CallEnd.FAILED and len(each.checks) == 1:
            (check,) = each.checks
            if check.kind == kind:
                yield check.head
                return


def _passed(found: Sequence[SessionAttempts]) -> Mapping[CheckKind, Counter[tuple[str, str]]]:
    """In how many sessions each check passed, by its kind: how it begins, and its words."""
    counts = {kind: Counter[tuple[str, str]]() for kind in CheckKind}
    for session in found:
        passed: set[Check] = {check for each in session.attempts if each.ended == CallEnd.WELL for check in each.checks}
        for check in passed:
            counts[check.kind][check.head, check.text] += 1
    return counts


def _heads(passed: Counter[tuple[str, str]]) -> Counter[str]:
    heads: Counter[str] = Counter()
    for (head, _), count in passed.items():
        heads[head] += count
    return heads


def _whole(head: str, passed: Mapping[CheckKind, Counter[tuple[str, str]]]) -> str:
    """A command with the words that it passed with in most sessions, if that is more than one; else how it begins."""
    texts = Counter({text: count for each in passed.values() for (begin, text), count in each.items() if begin == head})
    text, count = texts.most_common(1)[0] if texts else ("", 0)
    return text if count > 1 else head
