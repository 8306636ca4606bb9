"""Loops: a check that failed again and again before it passed, or without ever passing. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.ask.attempts import Ending
from backstory.chronicle.friction.findings import Finding, Rule, several, tried_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.ask.attempts import Attempt
    from backstory.chronicle.friction.findings import Evidence
    from backstory.derive.checks import Check
    from backstory.workspace.history.attempts import SessionAttempts

ROUNDS_MIN = 2
LONG = 3
SESSIONS_MIN = 3
RULE = f"""\
loop: in a session, the same tests, build or linter failed in {LONG} rounds or more without passing in between, or in
{ROUNDS_MIN} rounds or more in {SESSIONS_MIN} sessions. A round ends with an edit: what was to fix it did not.
A script with several checks counts for none of them when it fails: nobody says which one did."""


def loops(found: Sequence[SessionAttempts]) -> list[Finding]:
    """The checks that failed in loops, each once, with its loops."""
    evidence: dict[tuple[str, str], list[Evidence]] = {}
    long = set[tuple[str, str]]()
    for session in found:
        for uid in dict.fromkeys(each.session_uid for each in session.attempts):
            for check, rounds in _failures([each for each in session.attempts if each.session_uid == uid]):
                if len(rounds) < ROUNDS_MIN:
                    continue
                key, last = (check.kind, check.head), rounds[-1]
                long |= {key} if len(rounds) >= LONG else set()
                evidence.setdefault(key, []).append(
                    tried_at(session, last, check.head, f"failed in {len(rounds)} rounds, from @{rounds[0].seq} on")
                )  # fmt: skip
    return [
        Finding(rule=Rule.LOOP, about=key[1], evidence=tuple(each), commands=(key[1],))
        for key, each in evidence.items()
        if several(each) >= SESSIONS_MIN or key in long
    ]


def _failures(attempts: Sequence[Attempt]) -> Iterator[tuple[Check, list[Attempt]]]:
    """Each check with its failures in a row, of each round the last."""
    open_failures: dict[str, tuple[Check, list[Attempt]]] = {}
    edited = 0
    edited_at: dict[str, int] = {}
    for each in attempts:
        edited += bool(each.edits)
        heads = {check.head: check for check in each.checks}
        if each.ended == Ending.WELL:
            for head in heads.keys() & open_failures.keys():
                yield open_failures.pop(head)
        elif each.ended == Ending.FAILED and each.fault is None and len(heads) == 1:
            ((head, check),) = heads.items()
            rounds = open_failures.setdefault(head, (check, []))[1]
            if rounds and edited_at[head] == edited:
                rounds.pop()
            rounds.append(each)
            edited_at[head] = edited
    yield from open_failures.values()
