"""Calls that fail again and again in the same way."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from backstory.chronicle.patterns.finding import Pattern, Tip, TipEvidence, grouped, share_of_call
from backstory.chronicle.patterns.missing import ABSENT
from backstory.model import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.workspace.history.habits import HabitCall, Habits

NAME = "failures"
TIMES_MIN, SESSIONS_MIN = 5, 3
MOST_NAMED = 3
_CHECKING = frozenset(
    {"test", "tests", "build", "check", "verify", "vet", "tox", "nox", "pytest", "jest", "vitest", "tsc"}
)
_MERGING = frozenset({"merge", "rebase", "cherry-pick", "pull", "stash"})
_LOOKING = frozenset({"api", "grep", "ls", "cat", "find", "diff", "test", "which", "head", "rg", "curl", "jq"})
RULE = (
    "Calls of the same tool failed with the same error, paths and numbers aside, or the same command failed: "
    f"{TIMES_MIN} times or more, in {SESSIONS_MIN} sessions or more of a place. What is there to fail does not "
    "count: runs of tests and builds, merges, and what looks for something (grep, ls, gh api, curl, …); nor "
    "do calls that a person refused, or that only failed with another one. About what it cost: the calls' "
    "shares of their turns, one request of all."
)


def find(habits: Habits) -> Iterator[Tip]:
    """A finding for each place, tool and error."""
    failed = [each for each in habits.calls if each.is_error and each.error and _is_told_apart(each)]
    turns = {turn.uid: turn for turn in habits.turns}
    for calls in grouped(failed, key=lambda call: (habits.place(call.session), call.agent, label(call), _error(call))):
        if len(calls) < TIMES_MIN or len({each.session for each in calls}) < SESSIONS_MIN:
            continue
        place, error = habits.named(habits.place(calls[0].session)), _error(calls[0])
        yield Tip(
            pattern=NAME,
            is_calls=True,
            problem=f"{label(calls[0])} failed {len(calls)} times in {place}" + (f": “{error}”" if error else ""),
            action=_action(habits, calls),
            evidence=tuple(
                TipEvidence(
                    session=each.session, context=each.context, seqs=(each.seq,), text=_detail(each),
                    usd=share_of_call(habits, turns.get(each.turn)),
                )
                for each in calls
            ),
        )  # fmt: skip


def label(call: HabitCall) -> str:
    """A call as people name it: its command, or its tool."""
    return f"`{' '.join(call.words)}`" if call.words else call.tool_name


def _error(call: HabitCall) -> str:
    return "" if call.words else call.error


def _is_told_apart(call: HabitCall) -> bool:
    """Return True if it is known what ran, and that is not there to fail."""
    words = {part for word in call.words for part in word.split(":")}
    return (bool(words) or call.tool != Tool.SHELL) and words.isdisjoint(_CHECKING | _MERGING | _LOOKING)


def _detail(call: HabitCall) -> str:
    return call.path or f"“{call.error}”"


def _action(habits: Habits, calls: list[HabitCall]) -> str:
    where = habits.instructions([calls[0].agent])
    if ABSENT.search(calls[0].output):
        return f"Add to {where} a line for each folder, with what it holds: these paths were guessed"
    if not calls[0].words:
        return f"Add to {where}: “So that {calls[0].tool_name} does not fail with “{calls[0].error}”: WHAT TO DO FIRST”"
    common = [f"“{error}”" for error, _ in Counter(each.error for each in calls).most_common(MOST_NAMED)]
    return f"Add to {where} what {label(calls[0])} complains about most: {', '.join(common)}"


PATTERN = Pattern(name=NAME, rule=RULE, is_cost=False, find=find)
