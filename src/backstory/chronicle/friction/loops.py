"""Loops: a check that failed again and again before it passed, or without ever passing. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.chronicle.friction.findings import Evidence, Finding, Rule
from backstory.store.attempts import Ending

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.derive.checks import Check
    from backstory.store.attempts import Attempt
    from backstory.workspace.attempts import SessionAttempts

FAILURES_MIN = 2
LONG = 3
RULE = f"""\
loop: in a session, the same tests, build or linter failed {LONG} times or more without passing in between, or
{FAILURES_MIN} times or more in several sessions: what was to mend it did not. A script with several checks counts for none of them when it fails: nobody says which one did."""


def loops(found: Sequence[SessionAttempts]) -> list[Finding]:
    """The checks that failed in loops, each once, with its loops."""
    evidence: dict[tuple[str, str], list[Evidence]] = {}
    long = set[str]()
    for session in found:
        for uid in dict.fromkeys(each.session_uid for each in session.attempts):
            for check, failed in _failures([each for each in session.attempts if each.session_uid == uid]):
                if len(failed) >= FAILURES_MIN:
                    last = failed[-1]
                    long |= {check.head} if len(failed) >= LONG else set()
                    evidence.setdefault((check.kind, check.head), []).append(
                        Evidence(
                            session_uid=uid, seq=last.seq, at=last.at, words=check.head,
                            reason=f"failed {len(failed)} times in a row, from @{failed[0].seq} on",
                        )
                    )  # fmt: skip
    return [
        Finding(rule=Rule.LOOP, about=head, evidence=tuple(each), commands=(head,))
        for (_, head), each in evidence.items()
        if len({e.session_uid for e in each}) > 1 or head in long
    ]


def _failures(attempts: Sequence[Attempt]) -> Iterator[tuple[Check, list[Attempt]]]:
    """Each check with its failures that stand in a row."""
    open_failures: dict[str, tuple[Check, list[Attempt]]] = {}
    for each in attempts:
        heads = {check.head: check for check in each.checks}
        if each.ended == Ending.WELL:
            for head in heads.keys() & open_failures.keys():
                yield open_failures.pop(head)
        elif each.ended == Ending.FAILED and each.fault is None and len(heads) == 1:
            ((head, check),) = heads.items()
            open_failures.setdefault(head, (check, []))[1].append(each)
    yield from open_failures.values()
