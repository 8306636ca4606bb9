"""Expensive models on small work: short sessions without an edit, where a cheaper model was at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.chronicle.patterns.finding import Pattern, Tip, TipEvidence, counted, grouped, price_of
from backstory.derive.pricing import cost_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backstory.workspace.history.habits import Habits, HabitTurn

NAME = "models"
TURNS_MAX, OUTPUT_MAX, SESSIONS_MIN, USED_MIN = 3, 2_000, 3, 2
CHEAPER = 0.7
RULE = (
    f"{SESSIONS_MIN} sessions or more of one agent and model that had at most {TURNS_MAX} turns, wrote at most "
    f"{OUTPUT_MAX:,} tokens and changed no file, while the person used another model of that agent in "
    f"{USED_MIN} sessions or more by which the same tokens cost at most {CHEAPER:.0%}. What it cost: the "
    "difference, by the prices of that day."
)


def find(habits: Habits) -> Iterator[Tip]:
    """A finding for each agent and model."""
    used = _used(habits)
    small = [turns for turns in grouped(habits.turns, key=lambda turn: turn.session) if _is_small(habits, turns)]
    for sessions in grouped(small, key=lambda turns: (turns[0].agent, turns[0].model)):
        first = sessions[0][0]
        best = _cheapest(habits, first, used)
        if best is None:
            continue
        found = [_evidence(habits, turns, best) for turns in sessions]
        found = [each for each in found if each.usd is not None and each.usd > 0]
        if len(found) < SESSIONS_MIN:
            continue
        found.sort(key=lambda each: -(each.usd or 0))
        yield Tip(
            pattern=NAME,
            problem=f"{counted(len(found), 'short session')} without an edit used {first.model}",
            action=f"For questions and small work use {best}, as you did before: {_how(habits, first.agent, best)}",
            evidence=tuple(found),
        )  # fmt: skip


def _how(habits: Habits, agent: str, model: str) -> str:
    guide = habits.guides.get(agent)
    own = "the agent's own switch of models"
    if guide is None or not guide.is_run_here:
        return own
    return f'`backstory run --agent {agent} --model {model} "…"`, or {own}'


def _used(habits: Habits) -> Mapping[tuple[str, str], list[HabitTurn]]:
    """The person's own turns by agent and model, of those that were used in enough sessions."""
    own = [turn for turn in habits.turns if turn.model and turn.is_own]
    found = {
        (turns[0].agent, turns[0].model or ""): turns for turns in grouped(own, lambda turn: (turn.agent, turn.model))
    }
    return {key: turns for key, turns in found.items() if len({turn.session for turn in turns}) >= USED_MIN}


def _is_small(habits: Habits, turns: Sequence[HabitTurn]) -> bool:
    models = {turn.model for turn in turns}
    if len(turns) > TURNS_MAX or len(models) != 1 or None in models:
        return False
    if any(turn.session in habits.edited or turn.context in habits.edited for turn in turns):
        return False
    outputs = [turn.tokens.output for turn in turns]
    return None not in outputs and sum(each or 0 for each in outputs) <= OUTPUT_MAX


def _cheapest(habits: Habits, turn: HabitTurn, used: Mapping[tuple[str, str], list[HabitTurn]]) -> str | None:
    """The cheapest model, of equals the one that was used last."""
    own = _paid(habits, turn, turn.model)
    known = [
        (paid, -max(each.started for each in turns), model)
        for (agent, model), turns in used.items()
        if agent == turn.agent and (paid := _paid(habits, turn, model)) is not None
    ]
    if own is None or not known or min(known)[0] > own * CHEAPER:
        return None
    return min(known)[2]


def _paid(habits: Habits, turn: HabitTurn, model: str | None) -> float | None:
    return cost_of(turn.tokens, price_of(habits, turn, model)).low_usd


def _evidence(habits: Habits, turns: Sequence[HabitTurn], best: str) -> TipEvidence:
    pairs = [(_paid(habits, turn, turn.model), _paid(habits, turn, best)) for turn in turns]
    known = [own - other for own, other in pairs if own is not None and other is not None]
    output = sum(turn.tokens.output or 0 for turn in turns)
    return TipEvidence(
        session=turns[0].session, context=turns[0].context,
        seqs=tuple(turn.seq for turn in turns if turn.context == turns[0].context),
        text=f"{counted(len(turns), 'turn')}, {output:,} tokens written",
        usd=sum(known) if len(known) == len(turns) else None,
    )  # fmt: skip


PATTERN = Pattern(name=NAME, rule=RULE, is_cost=True, find=find)
