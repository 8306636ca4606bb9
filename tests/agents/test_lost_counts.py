"""A count that could not be kept is no zero: whichever it is, no sum that lacks it is said to be whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory import agents, bounds
from backstory.agents import bounded
from backstory.agents.contract import Ending, Exit
from backstory.derive.pricing import CostKind, Price, cost_of
from backstory.model import PARTIAL
from tests.support.every import every
from tests.support.lost_counts import (
    AGENTS,
    COPILOT,
    FIELDS,
    LOGS,
    NEEDED,
    PATHS,
    THREAD,
    WHOLE,
    claude,
    copilot,
    totals,
)

if TYPE_CHECKING:
    from backstory.model import Tokens, Turn

PRICE = Price(models=["m"], input=1, output=10, cache_read=1, cache_write=1)
RUNS = [each for each in FIELDS if each[0] in ("claude", "codex")]
NOT_A_COUNT = st.one_of(
    st.integers(max_value=-1), st.integers(min_value=2**63, max_value=10**40), st.text(), st.booleans(),
    st.just(0.5), st.just(1e300), st.just(float("inf")), st.just([]), st.just({"n": 1}),
)  # fmt: skip


def read(kind: str, records: list[Any]) -> Turn:
    """The last turn of a log, as it leaves a reader that was stored and read again after each record."""
    agent = agents.load(AGENTS.get(kind, kind))
    identity = agent.log.identify(PATHS[agent.name], json.dumps(records[0]).encode())
    assert identity is not None
    state, turn, lines = None, None, [json.dumps(each).encode() for each in records]
    for seq, line in enumerate(lines):
        reader = bounded.log_reader(agent, identity, state, lambda done=seq: lines[:done])  # type: ignore[misc]
        reader.read(line, seq)
        turn = next(iter(reader.touched()), turn)
        state = reader.state()
    assert turn is not None
    return turn


def is_whole(turn: Turn | Ending) -> bool:
    cost = cost_of(turn.tokens, PRICE, source=turn.tokens_source)
    return turn.tokens_source != PARTIAL or cost.kind in (CostKind.EXACT, CostKind.COMPUTED)


def counted(tokens: Tokens) -> tuple[int | None, ...]:
    return tokens.input, tokens.output, tokens.cache_read, tokens.cache_write, tokens.reasoning


@pytest.mark.parametrize(("kind", "name"), FIELDS)
@given(bad=NOT_A_COUNT, others=st.integers(0, 2), place=st.integers(0, 2))
def test_no_sum_that_lacks_a_count_is_said_to_be_whole(kind: str, name: str, bad: Any, others: int, place: int) -> None:
    # Codex writes totals that grow, the others each request for itself.
    steps = range(1, others + 2)
    usages: list[dict[str, Any]] = [
        {each: count * (n if kind == "codex" else 1) for each, count in WHOLE[kind].items()} for n in steps
    ]
    usages[min(place, others)][name] = bad
    turn = read(kind, LOGS[kind](usages))
    assert turn.tokens_source == PARTIAL
    assert None in counted(turn.tokens)
    assert not is_whole(turn)


@pytest.mark.parametrize("kind", LOGS)
def test_a_sum_of_all_its_counts_is_whole(kind: str) -> None:
    turn = read(kind, LOGS[kind]([WHOLE[kind]]))
    assert (turn.tokens_source, turn.tokens.output, is_whole(turn)) == ("reported", 7, True)


@every(("kind", "name"), [each for each in FIELDS if each[1].lower() in NEEDED])
@every("others", [0, 1])
def test_no_sum_of_which_a_request_lacks_its_input_or_output_is_said_to_be_whole(
    kind: str, name: str, others: int
) -> None:
    usages = [{each: count * (n if kind == "codex" else 1) for each, count in WHOLE[kind].items()} for n in (1, 2)]
    usages = usages[: others + 1]
    del usages[-1][name]
    turn = read(kind, LOGS[kind](usages))
    assert turn.tokens_source == PARTIAL
    assert not is_whole(turn)


@every("kind", LOGS)
@every("left", [{}, {"reasoningTokens": 3, "cache_read_input_tokens": 1, "cached_input_tokens": 1}])
def test_a_request_with_neither_input_nor_output_makes_what_is_known_a_part_and_alone_nothing(
    kind: str, left: dict[str, int]
) -> None:
    alone, beside = (read(kind, LOGS[kind](usages)) for usages in ([left], [WHOLE[kind], left]))
    assert (alone.tokens.input, alone.tokens.output) == (None, None)
    assert cost_of(alone.tokens, PRICE, source=alone.tokens_source).kind not in (CostKind.EXACT, CostKind.COMPUTED)
    assert (beside.tokens_source, is_whole(beside)) == (PARTIAL, False)


@pytest.mark.parametrize("usage", [None, "five", 5, []])
def test_a_model_of_a_total_of_which_nothing_is_said_makes_it_a_part(usage: Any) -> None:
    turn = read("copilot", totals([COPILOT, usage]))
    assert (turn.tokens_source, is_whole(turn)) == (PARTIAL, False)


@pytest.mark.parametrize("kind", LOGS)
def test_counts_of_caches_that_an_agent_does_not_write_are_not_lost(kind: str) -> None:
    few = {
        name: count
        for name, count in WHOLE[kind].items()
        if name in ("input_tokens", "output_tokens", "inputTokens", "outputTokens")
    }
    turn = read(kind, LOGS[kind]([few]))
    assert (turn.tokens_source, turn.tokens.output, is_whole(turn)) == ("reported", 7, True)


def run(kind: str, records: list[Any]) -> Ending:
    """How a run ended that printed these records."""
    reader = bounded.stream_reader(agents.load(kind))
    for each in records:
        reader.read(json.dumps(each).encode())
    return reader.ended(Exit(code=0))


def printed(kind: str, usages: list[Any]) -> list[Any]:
    """The records of a run: Claude's results have what was used since the last one, Codex counts once."""
    if kind == "codex":
        return [{"type": "thread.started", "thread_id": THREAD}, {"type": "turn.completed", "usage": usages[-1]}]
    return [{"type": "result", "is_error": False, "result": "ok", "usage": each} for each in usages]


@pytest.mark.parametrize(("kind", "name"), RUNS)
@given(bad=NOT_A_COUNT, others=st.integers(0, 2))
def test_no_sum_of_a_run_that_lacks_a_count_is_said_to_be_whole(kind: str, name: str, bad: Any, others: int) -> None:
    usages: list[dict[str, Any]] = [dict(WHOLE[kind]) for _ in range(others + 1)]
    usages[-1][name] = bad
    ending = run(kind, printed(kind, usages))
    assert (ending.tokens_source, is_whole(ending)) == (PARTIAL, False)


@every(("kind", "name"), [each for each in RUNS if each[1] in NEEDED])
@every("others", [0, 1])
def test_no_sum_of_a_run_without_input_or_output_is_said_to_be_whole(kind: str, name: str, others: int) -> None:
    usages = [dict(WHOLE[kind]) for _ in range(others + 1)]
    del usages[-1][name]
    ending = run(kind, printed(kind, usages))
    assert (ending.tokens_source, is_whole(ending)) == (PARTIAL, False)


@pytest.mark.parametrize("kind", ["claude", "codex"])
@pytest.mark.parametrize("others", [[], [WHOLE["claude"]]])
def test_of_a_run_that_says_neither_input_nor_output_nothing_is_known_to_be_all(kind: str, others: list[Any]) -> None:
    ending = run(kind, printed(kind, [*others, {}]))
    assert cost_of(ending.tokens, PRICE, source=ending.tokens_source).kind not in (CostKind.EXACT, CostKind.COMPUTED)


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_a_sum_of_all_counts_of_a_run_is_whole(kind: str) -> None:
    ending = run(kind, printed(kind, [WHOLE[kind]]))
    assert (ending.tokens_source, ending.tokens.output, is_whole(ending)) == ("reported", 7, True)


def event(seq: int, kind: str, **body: Any) -> dict[str, Any]:
    return {"table": "events", "row": {"seq": seq, "kind": kind, "char_len": 0}, "event": {kind: body}}


@given(bad=NOT_A_COUNT)
def test_a_cost_that_cannot_be_kept_is_none(bad: Any) -> None:
    kept = bounds.amount(bad)
    result = {"type": "result", "is_error": False, "result": "ok", "total_cost_usd": bad}
    assert run("claude", [result]).cost_usd == kept
    begun = [{"table": "session", "row": {"id": "s"}}, event(1, "UserMessage", content="go")]
    done = event(3, "Complete", success=True, duration_ms=1, cost_usd=bad)
    turn = read("azureal", [*begun, event(2, "Init", cwd="/p", model="claude-opus-4"), done])
    assert (turn.cost_usd, turn.cost_source) == (kept or None, "reported" if kept else None)


def test_counts_of_nothing_but_what_was_lost_cost_nobody_knows_what() -> None:
    turn = read("claude", claude([{"input_tokens": 10**23, "output_tokens": float("inf")}]))
    assert (turn.tokens.input, turn.tokens.output, turn.tokens_source) == (None, None, PARTIAL)
    assert cost_of(turn.tokens, PRICE, source=turn.tokens_source).kind is CostKind.UNKNOWN


def test_a_request_known_by_its_output_makes_the_input_at_least_what_is_known() -> None:
    answer = {"type": "assistant.message", "id": "a", "data": {"messageId": "m", "content": "ok", "outputTokens": 7}}
    summary = {"type": "session.compaction_complete", "id": "c", "data": {"compactionTokensUsed": COPILOT}}
    for records in ([answer, summary], [summary, answer]):
        turn = read("copilot", [*copilot([]), *records])
        assert (turn.tokens.input, turn.tokens_source, is_whole(turn)) == (6, PARTIAL, False)
