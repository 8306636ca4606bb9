"""Files that sessions look for again and again, and that are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.chronicle.patterns.finding import Pattern, Tip, TipEvidence, counted, grouped, share_of_call
from backstory.chronicle.patterns.rereads import below
from backstory.lazy import lazy_regex
from backstory.model import Tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from backstory.workspace.history.habits import HabitCall, Habits

NAME = "missing"
SESSIONS_MIN = 2
ABSENT = lazy_regex(r"(?i)does not exist|no such file|ENOENT|not found")
_PATH = lazy_regex(r"(?<![\w.])/[^\s'\"`<>()]+")
_LOOKING = frozenset({Tool.READ, Tool.GREP, Tool.GLOB})
_MEANT = lazy_regex(r"[Dd]id you mean ([^\s?]+)\?")
RULE = (
    f"In {SESSIONS_MIN} sessions or more of a place, or of several where an error names the same other file, a call "
    "read or searched the same path, and there was nothing; no session ever read or wrote it. About what it cost: the "
    "calls' shares of their turns, one request of all."
)


def find(habits: Habits) -> Iterator[Tip]:
    """A finding for each path."""
    missed = [each for each in habits.calls if _is_missed(habits, each)]
    turns = {turn.uid: turn for turn in habits.turns}
    answers = _answers(habits, missed)
    for calls in grouped(missed, key=lambda call: _about(habits, call, answers)):
        if len({each.session for each in calls}) < SESSIONS_MIN:
            continue
        path, meant = _below(habits, calls[0]), answers.get(_key(habits, calls[0]))
        place = _named(habits, calls)
        where = habits.instructions({each.agent for each in calls})
        yield Tip(
            pattern=NAME,
            is_calls=True,
            problem=f"{path} was looked for {len(calls)} times in {place}, and is not there",
            action=f"Add to {where}: “{path} is {meant}”" if meant else f"Add to {where} where to find what {path} was "
            "thought to hold; if it was named there, correct that",
            evidence=tuple(
                TipEvidence(
                    session=each.session, context=each.context, seqs=(each.seq,), text=f"{each.tool_name} {each.path}",
                    usd=share_of_call(habits, turns.get(each.turn)),
                )
                for each in calls
            ),
        )  # fmt: skip


def _key(habits: Habits, call: HabitCall) -> tuple[str, str]:
    """The place of a call, and its path below it."""
    return habits.place(call.session), _below(habits, call)


def _answers(habits: Habits, missed: Iterable[HabitCall]) -> dict[tuple[str, str], str]:
    """The file that was meant by a path of a place, where an error names one."""
    found: dict[tuple[str, str], str] = {}
    for each in missed:
        if (meant := _MEANT.search(each.output)) is not None:
            found.setdefault(_key(habits, each), meant.group(1))
    return found


def _about(habits: Habits, call: HabitCall, answers: Mapping[tuple[str, str], str]) -> tuple[str, str]:
    """The subject of a tip: a path with the file that was meant, in whatever clone of a repository; else of a place."""
    place, path = _key(habits, call)
    meant = answers.get((place, path))
    return (f"is {meant}", path) if meant else (f"in {place}", path)


def _named(habits: Habits, calls: Sequence[HabitCall]) -> str:
    """The places of calls in words, the first by its name."""
    first, *others = dict.fromkeys(habits.place(each.session) for each in calls)
    return f"{habits.named(first)} and {counted(len(others), 'other place')}" if others else habits.named(first)


def _below(habits: Habits, call: HabitCall) -> str:
    return below(habits, call.session, call.path or "")


def _is_missed(habits: Habits, call: HabitCall) -> bool:
    if not call.is_error or not call.path or call.tool not in _LOOKING or call.path in habits.touched:
        return False
    return any(ABSENT.search(line) and _is_about(line, call.path) for line in call.output.splitlines())


def _is_about(line: str, path: str) -> bool:
    """Return True unless a line names other paths only, which is about something else that is not there."""
    named = [each.rstrip(".,:;") for each in _PATH.findall(line)]
    is_about = (path.endswith(each) or path.startswith(f"{each}/") or each.startswith(path) for each in named)
    return not named or any(is_about)


PATTERN = Pattern(name=NAME, rule=RULE, is_cost=False, find=find)
