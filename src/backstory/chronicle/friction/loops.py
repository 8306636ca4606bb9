"""Loops: a check that failed again and again before it passed, or without ever passing. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from backstory.ask.attempts import CallEnd
from backstory.chronicle.friction.findings import FrictionFinding, Rule, several, tried_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.ask.attempts import Attempt
    from backstory.chronicle.friction.findings import FrictionEvidence
    from backstory.derive.checks import Check
    from backstory.workspace.history.work import SessionAttempts

ROUNDS_MIN = 2
LONG = 3
SESSIONS_MIN = 3
RULE = f"""\
loop: in a session, the same tests, build or linter failed in {LONG} rounds or more without passing in between, or in
{ROUNDS_MIN} rounds or more in {SESSIONS_MIN} sessions. A round ends with an edit: what was to fix it did not.
A script with several checks counts for none of them when it fails: nobody says which one did. It is proposed to read
what the check reports only if in as many of these loops a message came back after the edit that was to mend it."""


class _Loop(NamedTuple):
    """Failures of a check in a row. ``came_back``: a message of one round is there again in the next."""

    seen: FrictionEvidence
    is_long: bool
    came_back: bool


def loops(found: Sequence[SessionAttempts]) -> list[FrictionFinding]:
    """The checks that failed in loops, each once, with its loops; standing is what its messages say."""
    met: dict[tuple[str, str], list[_Loop]] = {}
    for session in found:
        for uid in dict.fromkeys(each.session_uid for each in session.attempts):
            for check, rounds in _failures([each for each in session.attempts if each.session_uid == uid]):
                if len(rounds) < ROUNDS_MIN:
                    continue
                reason = f"failed in {len(rounds)} rounds, from @{rounds[0].seq} on"
                seen = tried_at(session, rounds[-1], check.head, reason)
                loop = _Loop(seen, is_long=len(rounds) >= LONG, came_back=_came_back(rounds))
                met.setdefault((check.kind, check.head), []).append(loop)
    return [_finding(head, each) for (_, head), each in met.items() if _is_habit(each)]


def _finding(head: str, met: Sequence[_Loop]) -> FrictionFinding:
    again = [each for each in met if each.came_back]
    return FrictionFinding(
        rule=Rule.LOOP, about=head, evidence=tuple(each.seen for each in met), commands=(head,),
        evidence_of=(tuple(each.seen for each in again),), is_standing=_is_habit(again),
    )  # fmt: skip


def _is_habit(met: Sequence[_Loop]) -> bool:
    return several(each.seen for each in met) >= SESSIONS_MIN or any(each.is_long for each in met)


def _came_back(rounds: Sequence[Attempt]) -> bool:
    """Return True if the message of a round is there again in the next one: the edit between them did not mend it."""
    return any(one.messages & other.messages for one, other in pairwise(rounds))


def _failures(attempts: Sequence[Attempt]) -> Iterator[tuple[Check, list[Attempt]]]:
    """Each check with its failures in a row, of each round the last."""
    open_failures: dict[str, tuple[Check, list[Attempt]]] = {}
    edited = 0
    edited_at: dict[str, int] = {}
    for each in attempts:
        edited += bool(each.edits)
        heads = {check.head: check for check in each.checks}
        if each.ended == CallEnd.WELL:
            for head in heads.keys() & open_failures.keys():
                yield open_failures.pop(head)
        elif each.ended == CallEnd.FAILED and each.fault is None and len(heads) == 1:
            ((head, check),) = heads.items()
            rounds = open_failures.setdefault(head, (check, []))[1]
            if rounds and edited_at[head] == edited:
                rounds.pop()
            rounds.append(each)
            edited_at[head] = edited
    yield from open_failures.values()
