"""What each agent says of how much its model can take. Whole logs and runs are in ``cases`` and ``streams``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from backstory.agents.contract import Exit
from tests.support.reading import CASES, case_told
from tests.support.streaming import ran, recorded


def ended(*used: dict[str, Any], model: str = "opus") -> int | None:
    """What a run of Claude Code came to whose results say so of the models that they used."""
    init = {"type": "system", "subtype": "init", "model": model}
    results = ({"type": "result", "subtype": "success", "is_error": False, "modelUsage": each} for each in used)
    return ran("claude", [json.dumps(each).encode() for each in (init, *results)], Exit(code=0)).ending.context_window


@pytest.mark.parametrize(
    ("agent", "name", "tokens"),
    [("codex", "tools", 258_400), ("copilot", "compact", 128_000), ("ah", "busy", 200_000)],
)
def test_a_log_that_names_it_gives_it_to_its_turns(agent: str, name: str, tokens: int) -> None:
    assert tokens in {turn.context_window for turn in case_told(CASES / agent / name).turns.values()}


def test_claudes_own_log_does_not_name_it() -> None:
    assert {turn.context_window for turn in case_told(CASES / "claude" / "tools").turns.values()} == {None}


def test_claudes_run_names_it_at_its_end() -> None:
    assert recorded("claude", "tools").ending.context_window == 1_000_000


def test_a_run_that_was_killed_did_not_name_it() -> None:
    assert recorded("claude", "sigkill-in-tool", Exit(signal=9)).ending.context_window is None


def test_that_of_a_small_model_beside_the_turns_own_is_not_taken() -> None:
    used = {"haiku": {"contextWindow": 200_000}, "opus": {"contextWindow": 1_000_000}}
    assert ended(used) == 1_000_000
    assert ended(used, model="sonnet") is None


@pytest.mark.parametrize("name", ["opus[1m]", "us.anthropic.opus-v1:0"])
def test_a_model_is_found_by_its_canonical_name_too(name: str) -> None:
    used = {"haiku": {"contextWindow": 200_000}, name: {"contextWindow": 1_000_000, "canonicalModel": "opus"}}
    assert ended(used) == 1_000_000


@pytest.mark.parametrize("used", [None, [], "much", {"opus": 5}, {"opus": {}}, {"opus": {"contextWindow": "much"}}])
def test_what_is_no_number_of_tokens_is_not_known(used: Any) -> None:
    assert ended(used) is None


def test_a_later_result_without_it_does_not_take_it_back() -> None:
    assert ended({"opus": {"contextWindow": 200_000}}, {}) == 200_000
