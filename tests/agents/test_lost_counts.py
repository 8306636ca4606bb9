"""A count that could not be kept is no zero: whichever it is, no sum that lacks it is said to be whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory import agents
from backstory.agents import bounded
from backstory.derive.pricing import Kind, Price, cost_of
from backstory.model import PARTIAL

if TYPE_CHECKING:
    from backstory.model import Tokens, Turn

PRICE = Price(models=["m"], input=1, output=10, cache_read=1, cache_write=1)
THREAD = "0195b3c4-7b1f-7c3d-9a77-1f2e3d4c5b6a"
CLAUDE = {
    "input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 1, "cache_creation_input_tokens": 2,
}  # fmt: skip
CODEX = {"input_tokens": 9, "cached_input_tokens": 1, "output_tokens": 7, "reasoning_output_tokens": 2}
COPILOT = {
    "inputTokens": 9, "outputTokens": 7, "cacheReadTokens": 1, "cacheWriteTokens": 2, "reasoningTokens": 3,
}  # fmt: skip
FIELDS = [
    *(("claude", each) for each in CLAUDE),
    *(("codex", each) for each in CODEX),
    *(("copilot", each) for each in COPILOT),
    *(("totals", each) for each in COPILOT),
]
NOT_A_COUNT = st.one_of(
    st.integers(max_value=-1), st.integers(min_value=2**63, max_value=10**40), st.text(), st.booleans(),
    st.just(0.5), st.just(1e300), st.just(float("inf")), st.just([]), st.just({"n": 1}),
)  # fmt: skip


def claude(usages: list[Any]) -> list[Any]:
    prompt = {"type": "user", "uuid": "q", "sessionId": "s", "message": {"role": "user", "content": "go"}}
    answers = [
        {
            "type": "assistant", "uuid": f"a{n}", "sessionId": "s",
            "message": {"id": f"m{n}", "model": "m", "content": "ok", "stop_reason": "end_turn", "usage": each},
        }
        for n, each in enumerate(usages)
    ]  # fmt: skip
    return [prompt, *answers]


def codex(usages: list[Any]) -> list[Any]:
    counts = [{"type": "token_count", "info": {"total_token_usage": each, "last_token_usage": each}} for each in usages]
    told = [{"type": "user_message", "message": "go"}, *counts]
    return [
        {"type": "session_meta", "payload": {"id": THREAD, "cwd": "/p"}},
        {"type": "turn_context", "payload": {"turn_id": "t1", "model": "m"}},
        *({"type": "event_msg", "payload": each} for each in told),
    ]


def copilot(usages: list[Any]) -> list[Any]:
    begun = [("session.start", {"sessionId": THREAD}), ("user.message", {"content": "go"})]
    told = [*begun, *(("session.usage_record", {"usage": {"model": "m", **each}}) for each in usages)]
    return [{"type": kind, "id": f"r{n}", "data": data} for n, (kind, data) in enumerate(told)]


def totals(usages: list[Any]) -> list[Any]:
    metrics = {f"m{n}": {"usage": each} for n, each in enumerate(usages)}
    return [*copilot([]), {"type": "session.shutdown", "id": "end", "data": {"modelMetrics": metrics}}]


LOGS = {"claude": claude, "codex": codex, "copilot": copilot, "totals": totals}
WHOLE = {"claude": CLAUDE, "codex": CODEX, "copilot": COPILOT, "totals": COPILOT}
PATHS = {
    "claude": Path("s.jsonl"),
    "codex": Path(f"rollout-2026-11-21T21-00-00-{THREAD}.jsonl"),
    "copilot": Path(THREAD) / "events.jsonl",
}


def read(kind: str, records: list[Any]) -> Turn:
    """The last turn of a log, as it leaves a reader that was stored and read again after each record."""
    agent = agents.load("copilot" if kind == "totals" else kind)
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


def is_whole(turn: Turn) -> bool:
    cost = cost_of(turn.tokens, PRICE, source=turn.tokens_source)
    return turn.tokens_source != PARTIAL or cost.kind in (Kind.EXACT, Kind.COMPUTED)


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


@pytest.mark.parametrize("kind", LOGS)
def test_counts_of_caches_that_an_agent_does_not_write_are_not_lost(kind: str) -> None:
    few = {
        name: count
        for name, count in WHOLE[kind].items()
        if name in ("input_tokens", "output_tokens", "inputTokens", "outputTokens")
    }
    turn = read(kind, LOGS[kind]([few]))
    assert (turn.tokens_source, turn.tokens.output, is_whole(turn)) == ("reported", 7, True)


def test_counts_of_nothing_but_what_was_lost_cost_nobody_knows_what() -> None:
    turn = read("claude", claude([{"input_tokens": 10**23, "output_tokens": float("inf")}]))
    assert (turn.tokens.input, turn.tokens.output, turn.tokens_source) == (None, None, PARTIAL)
    assert cost_of(turn.tokens, PRICE, source=turn.tokens_source).kind is Kind.UNKNOWN


def test_a_request_known_by_its_output_makes_the_input_at_least_what_is_known() -> None:
    answer = {"type": "assistant.message", "id": "a", "data": {"messageId": "m", "content": "ok", "outputTokens": 7}}
    summary = {"type": "session.compaction_complete", "id": "c", "data": {"compactionTokensUsed": COPILOT}}
    for records in ([answer, summary], [summary, answer]):
        turn = read("copilot", [*copilot([]), *records])
        assert (turn.tokens.input, turn.tokens_source, is_whole(turn)) == (6, PARTIAL, False)
