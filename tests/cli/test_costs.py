"""What ``list``, ``show`` and ``sql`` say of costs: computed from tokens and prices where nobody reported them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

FIRST, SECOND = "3f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f", "4f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f"
USAGE = {"input_tokens": 1_000_000, "output_tokens": 100_000, "cache_read_input_tokens": 0}


def record(session: str, n: int, kind: str, content: Any, **message: Any) -> dict[str, Any]:
    return {
        "type": kind, "sessionId": session, "uuid": f"{session[0]}{n}",
        "parentUuid": f"{session[0]}{n - 1}" if n else None, "cwd": "/p", "version": "2.1.100",
        "timestamp": f"2026-05-01T10:00:{n:02}.000Z",
        "message": {"role": kind, "content": content, **message},
    }  # fmt: skip


def answer(session: str, n: int, *, model: str = "claude-opus-4-5-20251101", is_final: bool = True, text: str = "ok",
           **usage: Any) -> dict[str, Any]:  # fmt: skip
    return record(
        session, n, "assistant", [{"type": "text", "text": text}], id=f"msg_{session[0]}{n}", model=model,
        stop_reason="end_turn" if is_final else None, usage=USAGE | usage,
    )  # fmt: skip


def put(bare: Shell, name: str, *records: dict[str, Any]) -> None:
    path = bare.home / ".claude" / "projects" / "p" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records))


def asked(bare: Shell, *answers: dict[str, Any], session: str = FIRST) -> dict[str, Any]:
    """What ``list --json`` says of a session that holds these answers to one prompt."""
    put(bare, session, record(session, 0, "user", "go"), *answers)
    assert bare("ingest").code == 0
    (listed,) = [each for each in bare("list", "--all", "--json").json()["sessions"] if each["native_id"] == session]
    return dict(listed)


def cost(told: dict[str, Any]) -> tuple[Any, Any, Any]:
    return told["cost_kind"], told["cost_usd"], told["low_usd"]


def test_a_cost_that_nobody_reported_is_computed_and_marked(bare: Shell) -> None:
    assert cost(asked(bare, answer(FIRST, 1))) == ("computed", 7.5, 7.5)
    assert "~$7.50" in bare("list", "--all").out
    _, facts, *_, end = bare("show", FIRST).out.splitlines()
    assert facts.endswith("1 turn · 1.1 M tokens · ~$7.50") and end.endswith("100 k out · ~$7.50")


def test_output_without_a_final_count_makes_a_lower_bound_with_an_estimate_in_json(bare: Shell) -> None:
    listed = asked(bare, answer(FIRST, 1, is_final=False, output_tokens=5, text="x" * 3_000))
    assert cost(listed) == ("lower bound", None, pytest.approx(5.000125))
    assert listed["high_usd"] is None
    (turn,) = bare("show", FIRST, "--json").json()["turns"]
    assert cost(turn) == ("lower bound", None, pytest.approx(5.000125))
    assert turn["high_usd"] == pytest.approx(5.025)
    assert "≥ $5.00" in bare("list", "--all").out


def test_a_model_without_a_price_is_unknown_and_not_nothing(bare: Shell) -> None:
    assert cost(asked(bare, answer(FIRST, 1, model="nobody-knows"))) == ("unknown", None, None)
    (line,) = bare("list", "--all").out.splitlines()
    assert line.split("\t")[-1] == ""


def test_a_persons_own_prices_count(bare: Shell) -> None:
    own = '[[price]]\nmodels = ["nobody-knows"]\nfrom = 2026-01-01\ninput = 2\noutput = 20.0\n'
    (bare.home / "backstory").mkdir()
    (bare.home / "backstory" / "prices.toml").write_text(own)
    assert cost(asked(bare, answer(FIRST, 1, model="nobody-knows"))) == ("computed", 4.0, 4.0)
    (row,) = bare("sql", "--json", "select cost_kind, cost_usd, low_usd, high_usd from usage").json()["rows"]
    assert row == ["computed", 4.0, 4.0, 4.0]


def test_own_prices_that_mean_nothing_are_named(bare: Shell) -> None:
    asked(bare, answer(FIRST, 1))
    (bare.home / "backstory" / "prices.toml").write_text('[[price]]\nmodels = ["m"]\ninput = "much"\n')
    for words in (("list", "--all"), ("show", FIRST), ("sql", "select 1")):
        done = bare(*words)
        assert (done.code, "prices.toml" in done.err) == (78, True)


def test_a_copied_turn_counts_once_in_the_session_it_was_in_first(bare: Shell) -> None:
    asked(bare, answer(FIRST, 1))
    copies = [{**each, "sessionId": SECOND} for each in (record(FIRST, 0, "user", "go"), answer(FIRST, 1))]
    more = [record(SECOND, 2, "user", "and?"), answer(SECOND, 3, input_tokens=0)]
    more[0]["timestamp"] = more[1]["timestamp"] = "2026-05-02T10:00:00.000Z"
    put(bare, SECOND, *copies, *more)
    bare("ingest")
    listed = {each["native_id"]: each["low_usd"] for each in bare("list", "--all", "--json").json()["sessions"]}
    assert sum(listed.values()) == 10.0
    assert bare("sql", "--json", "select sum(cost_usd) from usage").json()["rows"] == [[10.0]]


def test_the_cost_of_a_subagent_is_part_of_its_parents(bare: Shell) -> None:
    put(bare, f"{FIRST}/subagents/agent-a1", {**record(FIRST, 1, "user", "look"), "agentId": "a1", "isSidechain": True},
        {**answer(FIRST, 2), "agentId": "a1", "isSidechain": True})  # fmt: skip
    assert cost(asked(bare, answer(FIRST, 3))) == ("computed", 15.0, 15.0)
    (helper,) = [each for each in bare("list", "--all", "--helpers", "--json").json()["sessions"] if each["parent_uid"]]
    assert cost(helper) == ("computed", 7.5, 7.5)


def test_what_was_reported_holds_the_cost_of_subagents(bare: Shell) -> None:
    put(bare, f"{FIRST}/subagents/agent-a1", {**record(FIRST, 1, "user", "look"), "agentId": "a1", "isSidechain": True},
        {**answer(FIRST, 2), "agentId": "a1", "isSidechain": True})  # fmt: skip
    assert cost(asked(bare, {**answer(FIRST, 3), "costUSD": 9.0})) == ("exact", 9.0, 9.0)
    rows = bare("sql", "--json", "select cost_kind, cost_usd from usage order by 1").json()["rows"]
    assert rows == [["exact", 9.0], ["included", None]]


def test_an_agent_that_is_paid_in_credits_costs_no_dollars(bare: Shell) -> None:
    (bare.home / "backstory").mkdir()
    (bare.home / "backstory" / "prices.toml").write_text('credits = ["claude"]\n')
    assert cost(asked(bare, answer(FIRST, 1))) == ("unknown", None, None)


HOUR: dict[str, Any] = {
    "input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 1_000_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 400_000, "ephemeral_1h_input_tokens": 600_000},
}  # fmt: skip


def test_a_cache_that_is_held_for_an_hour_is_paid_for_as_that(bare: Shell) -> None:
    assert cost(asked(bare, answer(FIRST, 1, **HOUR))) == ("computed", 8.5, 8.5)
    bare("reindex")
    (listed,) = bare("list", "--all", "--json").json()["sessions"]
    assert cost(listed) == ("computed", 8.5, 8.5)
    (turn,) = bare("show", FIRST, "--json").json()["turns"]
    assert (turn["tokens"]["cache_write"], turn["tokens"]["cache_write_1h"]) == (1_000_000, 600_000)
    asked_for = "select cache_write_tokens, cache_write_1h_tokens, largest_input_tokens"
    for view in ("turns", "usage"):
        assert bare("sql", "--json", f"{asked_for} from {view}").json()["rows"] == [[1_000_000, 600_000, 1_000_000]]


def test_where_a_log_does_not_tell_how_long_a_cache_holds_a_cost_is_a_lower_bound(bare: Shell) -> None:
    told = asked(bare, answer(FIRST, 1, **{**HOUR, "cache_creation": {}}))
    assert cost(told) == ("lower bound", None, 6.25)
    (turn,) = bare("show", FIRST, "--json").json()["turns"]
    assert turn["high_usd"] == 10.0


def test_a_request_over_the_border_costs_the_higher_price(bare: Shell) -> None:
    long = answer(FIRST, 1, model="claude-haiku-5-5", input_tokens=200_000, output_tokens=0)
    assert cost(asked(bare, long)) == ("computed", 0.1, 0.1)


def test_requests_below_the_border_cost_the_lower_price_whatever_they_come_to(bare: Shell) -> None:
    answers = [answer(FIRST, n, model="claude-haiku-5-5", input_tokens=100_000, output_tokens=0) for n in (1, 2)]
    assert cost(asked(bare, *answers)) == ("computed", pytest.approx(0.02), pytest.approx(0.02))


def test_a_long_request_among_others_makes_a_lower_bound(bare: Shell) -> None:
    sizes = ((1, 150_000), (2, 50_000))
    answers = [answer(FIRST, n, model="claude-haiku-5-5", input_tokens=size, output_tokens=0) for n, size in sizes]
    assert cost(asked(bare, *answers)) == ("lower bound", None, pytest.approx(0.02))


def test_trees_and_the_view_of_turns_tell_what_was_computed(bare: Shell) -> None:
    asked(bare, answer(FIRST, 1))
    (turn,) = bare("tree", FIRST, "--json").json()["turns"]
    assert cost(turn) == ("computed", 7.5, 7.5)
    columns = "cost_kind, cost_usd, low_usd, cost_source"
    assert bare("sql", "--json", f"select {columns} from turns").json()["rows"] == [["computed", 7.5, 7.5, None]]
    assert bare("sql", "--json", "select cost_usd from sessions").json()["rows"] == [[None]]


def test_a_difference_tells_what_was_computed(bare: Shell) -> None:
    more = [record(FIRST, n, "user", f"and {n}?") | {"parentUuid": "31"} for n in (2, 4)]
    asked(bare, answer(FIRST, 1), more[0], answer(FIRST, 3), more[1], answer(FIRST, 5, input_tokens=0))
    told = bare("diff", "1", "2", "--session", FIRST, "--json").json()
    assert [cost(told[side]) for side in ("left", "right")] == [("computed", 7.5, 7.5), ("computed", 2.5, 2.5)]
    shown = bare("diff", "1", "2", "--session", FIRST).out
    assert "(1 turn, ~$7.50)" in shown and "(1 turn, ~$2.50)" in shown
