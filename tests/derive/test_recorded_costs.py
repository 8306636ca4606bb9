"""Recorded runs of the real client say what they cost: our table and our arithmetic come to the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backstory.ask.costs import price_table
from backstory.derive.pricing import cost_of
from backstory.model import Tokens
from tests.support.every import every
from tests.support.streaming import STREAMS, recorded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAY = "2026-11-22"
CENT = 0.005
NAMES = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cache_read": "cacheReadInputTokens",
    "cache_write": "cacheCreationInputTokens",
}


def results(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text("utf-8").splitlines():
        record = json.loads(line) if line.startswith("{") and '"type":"result"' in line else {}
        if record.get("modelUsage"):
            yield record


RECORDED = [
    (path.stem, list(results(path))[-1]) for path in sorted((STREAMS / "claude").glob("*.jsonl")) if any(results(path))
]


def of_model(used: dict[str, Any]) -> Tokens:
    return Tokens(**{name: used[told] for name, told in NAMES.items()})


def dollars(tokens: Tokens, model: str | None) -> float | None:
    return cost_of(tokens, price_table().price("claude", model, DAY)).low_usd


@every(("name", "result"), RECORDED, ids=[name for name, _ in RECORDED])
def test_what_the_client_says_its_models_used_costs_what_it_says(name: str, result: dict[str, Any]) -> None:
    costs = [dollars(of_model(used), model) for model, used in result["modelUsage"].items()]
    assert costs == [pytest.approx(used["costUSD"]) for used in result["modelUsage"].values()]
    assert sum(each or 0 for each in costs) == pytest.approx(result["total_cost_usd"])


def test_runs_of_one_thread_cost_to_the_cent_what_their_client_says() -> None:
    whole = 0
    for name, result in RECORDED:
        run = recorded("claude", name).ending
        counted = [of_model(used) for used in result["modelUsage"].values()]
        used = Tokens(**{field: getattr(run.tokens, field) for field in NAMES})
        if counted == [used]:  # neither a helper nor a session that it was resumed from is in its total
            whole += 1
            assert dollars(run.tokens, run.model) == pytest.approx(result["total_cost_usd"], abs=CENT)
    assert whole >= 15
