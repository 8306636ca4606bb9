"""Runs in sums: a run and the agent's own log of it count once, wherever both are stored."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.own_log import own_log

if TYPE_CHECKING:
    from tests.support.bench import Bench

pytestmark = pytest.mark.slow

GOOD: dict[str, Any] = {"result": {"is_error": False}}
NAMES_NO_MODEL = """#!/bin/sh
cat >/dev/null
echo '{"type":"thread.started","thread_id":"0199a213-81c0-7800-8aa1-bbab2a035a53"}'
echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"answered"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":2100,"cached_input_tokens":0,"output_tokens":90}}'
"""


def printed(bench: Bench, *words: str) -> Any:
    return json.loads(bench.backstory(*words, "--json").stdout)


def test_a_run_and_its_own_log_count_once(bench: Bench) -> None:
    bench.run("first", {"say": "the heron answer 0"}, GOOD)
    before = printed(bench, "stats", "--all")["sums"]
    own_log(bench, "first")
    bench.backstory("ingest")
    after = printed(bench, "stats", "--all")["sums"]
    assert (before["session_count"], before["turn_count"], before["cost_usd"]) == (1, 1, 0.04)
    assert {name: after[name] for name in ("session_count", "turn_count", "cost_usd", "duration_ms")} == {
        name: before[name] for name in ("session_count", "turn_count", "cost_usd", "duration_ms")
    }


def test_a_log_gone_on_with_by_hand_adds_only_what_follows_the_run(bench: Bench) -> None:
    bench.run("first", {"say": "the heron answer 0"}, GOOD)
    own_log(bench, "first", "by hand")
    bench.backstory("ingest")
    listed, total = printed(bench, "list", "--all")["sessions"], printed(bench, "stats", "--all")["sums"]
    assert (total["session_count"], total["turn_count"]) == (2, 2)
    assert total["turn_count"] == sum(each["turn_count"] for each in listed)
    assert total["low_usd"] == math.fsum(each["low_usd"] or 0 for each in listed)
    here = printed(bench, "stats")["sums"]
    assert (here["turn_count"], here["low_usd"]) == (total["turn_count"], total["low_usd"])


def test_a_run_of_an_agent_that_names_no_model_is_not_free(bench: Bench) -> None:
    bench.run("first", {"say": "the heron answer 0"}, GOOD)
    program = bench.bin / "codex"
    program.write_text(NAMES_NO_MODEL)
    program.chmod(0o755)
    bench.backstory("run", "-a", "codex", "second")
    total = printed(bench, "stats")["sums"]
    assert (total["turn_count"], total["tokens"]["input"], total["tokens"]["output"]) == (2, 2110, 95)
    assert (total["cost_kind"], total["cost_usd"], total["low_usd"]) == ("lower bound", None, 0.04)
    (listed,) = printed(bench, "list")["sessions"]
    assert (listed["cost_kind"], listed["low_usd"]) == ("lower bound", 0.04)


def answer(bench: Bench, query: str) -> int:
    return int(printed(bench, "sql", query)["rows"][0][0])


def test_what_ingest_and_reindex_print_is_what_sql_counts_also_where_runs_have_logs(bench: Bench) -> None:
    bench.run("first", {"say": "the heron answer 0"}, GOOD)
    own_log(bench, "first")
    (read,) = {answer(bench, "select count(*) from events")}
    imported = printed(bench, "ingest")
    assert (imported["sessions_new"], imported["sessions_updated"], imported["events_new"]) == (0, 0, 0)
    assert answer(bench, "select count(*) from events") == read
    done = printed(bench, "reindex")
    own = "sessions where relation is not 'subagent'"
    counts = {
        "sessions": own, "turns": f"turns where not is_copy and session_id in (select id from {own})",
        "files": "session_files", "refs": "session_refs", "checkpoints": "checkpoints", "events": "events",
    }  # fmt: skip
    assert {name: done["counts"][name] for name in counts} == {
        name: answer(bench, f"select count(*) from {rows}") for name, rows in counts.items()
    }
    assert (done["counts"]["sessions"], done["counts"]["turns"]) == (1, 1)
    assert "complete: 1 session, 1 turn, " in bench.backstory("reindex").stdout
