"""Prompts that are typed again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.ask.habits import PROMPT_CHARS
from backstory.chronicle.patterns.finding import MINUTE_MS, Pattern, Tip, TipEvidence, day_of, grouped
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.workspace.history.habits import Habits, HabitTurn

NAME = "prompts"
WORDS_MIN, SESSIONS_MIN, DAYS_MIN, OUTPUT_MIN = 4, 3, 2, 50
CHARS_A_MINUTE = 200
PROMPT_SHOWN = 100
_GO_AHEAD = lazy_regex(r"(?:yes|yeah|ok|okay|sure|go|continue|proceed|looks|sounds|do it|thanks)\b")
RULE = (
    f"The same prompt of {WORDS_MIN} words or more, upper and lower case and blanks aside, in {SESSIONS_MIN} "
    f"sessions or more and on {DAYS_MIN} days or more, that led to work: {OUTPUT_MIN} tokens of output or more "
    "at the median. Commands of the agent (/…) and go-aheads do not count. What it cost: the time to type it "
    f"again, at {CHARS_A_MINUTE} characters a minute."
)


def find(habits: Habits) -> Iterator[Tip]:
    """A finding for each prompt."""
    typed = [turn for turn in habits.turns if turn.is_own and _is_asking(turn.prompt)]
    for turns in grouped(typed, key=lambda turn: _normal(turn.prompt)):
        days = {day_of(turn) for turn in turns}
        outputs = sorted(turn.tokens.output for turn in turns if turn.tokens.output is not None) or [OUTPUT_MIN]
        is_enough = len({turn.session for turn in turns}) >= SESSIONS_MIN and len(days) >= DAYS_MIN
        if is_enough and outputs[len(outputs) // 2] >= OUTPUT_MIN:
            yield _finding(habits, turns)


def _finding(habits: Habits, turns: list[HabitTurn]) -> Tip:
    turns.sort(key=lambda turn: -turn.started)
    prompt = " ".join(turns[0].prompt.split())
    ms = len(prompt) * MINUTE_MS // CHARS_A_MINUTE
    shown = prompt if len(prompt) <= PROMPT_SHOWN else f"{prompt[:PROMPT_SHOWN]}…"
    return Tip(
        pattern=NAME,
        problem=f"“{shown}” was typed {len(turns)} times",
        action="Keep it as a command or skill of the agent, or as a file: `backstory run < PROMPT.md`; if it is a "
        f"rule, write it into {habits.instructions({turn.agent for turn in turns})}",
        evidence=tuple(
            TipEvidence(
                session=turn.session, context=turn.context, seqs=(turn.seq,), text=f"typed on {day_of(turn)}", ms=ms
            )
            for turn in turns
        ),
    )  # fmt: skip


def _is_asking(prompt: str) -> bool:
    text = prompt.strip()
    if (
        text.startswith(("/", "<", "[", "!"))
        or len(prompt) >= PROMPT_CHARS
        or len(text.split(None, WORDS_MIN)) < WORDS_MIN
    ):
        return False
    return _GO_AHEAD.match(text.lower()) is None


def _normal(prompt: str) -> str:
    return " ".join(prompt.lower().split()).rstrip(".!?")


PATTERN = Pattern(name=NAME, rule=RULE, is_cost=False, find=find)
