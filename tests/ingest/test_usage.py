"""What turns used, as ``usage`` tells it: how sure a figure is, and each turn once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.machines import lines
from tests.support.rewound import LOG, SESSION, record, turn

if TYPE_CHECKING:
    from tests.support.machines import Machine

BEGUN = record("session.start", 0, sessionId=SESSION)


def receipt(number: int, input_: int, output: int) -> bytes:
    usage = {"model": "m", "inputTokens": input_, "outputTokens": output}
    return record("session.usage_record", number, usage=usage)


def total(number: int, input_: int, output: int) -> bytes:
    metrics = {"m": {"usage": {"inputTokens": input_, "outputTokens": output}}}
    return record("session.shutdown", number, shutdownType="routine", modelMetrics=metrics)


def used(machine: Machine, *records: bytes) -> list[tuple[Any, ...]]:
    machine.write(LOG, lines(BEGUN, *records))
    assert machine.read("copilot").errors == []
    columns = "input_tokens, output_tokens, tokens_kind, cost_usd, cost_kind"
    return machine.store.execute_read_only(f"select {columns} from usage order by turn_index").rows


def test_what_a_receipt_tells_is_exact_and_has_no_cost(machine: Machine) -> None:
    assert used(machine, *turn(1), receipt(1, 100, 7)) == [(100, 7, "exact", None, "unknown")]


def test_what_is_told_for_several_turns_together_is_shared(machine: Machine) -> None:
    told = used(machine, *turn(1), *turn(2), total(9, 100, 7))
    assert told == [(None, None, "unknown", None, "unknown"), (100, 7, "shared", None, "unknown")]


def test_a_turn_whose_tokens_nobody_told_is_unknown(machine: Machine) -> None:
    assert used(machine, *turn(1)) == [(None, None, "unknown", None, "unknown")]


def test_a_total_that_a_resumed_process_tells_again_is_counted_once(machine: Machine) -> None:
    resumed = record("session.resume", 2)
    told = used(machine, *turn(1), total(1, 100, 7), resumed, *turn(2), total(3, 150, 12))
    assert [row[:3] for row in told] == [(100, 7, "exact"), (50, 5, "exact")]


def test_a_turn_that_two_sessions_hold_is_counted_once(machine: Machine) -> None:
    fork = "e61a042d-fb07-4cea-af6f-8aba91101fcc"
    used(machine, *turn(1), receipt(1, 100, 7))
    begun = json.loads(record("session.start", 5, sessionId=fork))
    copied = lines(json.dumps(begun).encode(), *turn(1), receipt(1, 100, 7), *turn(3), receipt(3, 10, 1))
    machine.write(LOG.parent.with_name(fork) / LOG.name, copied)
    assert machine.read("copilot").errors == []
    asked = "select count(*), sum(input_tokens), sum(output_tokens) from usage"
    assert machine.store.execute_read_only(asked).rows == [(2, 110, 8)]


def test_what_a_rewind_left_behind_counts(machine: Machine) -> None:
    used(machine, *turn(1), receipt(1, 100, 7), *turn(2), receipt(2, 50, 5))
    used(machine, *turn(1), receipt(1, 100, 7), *turn(3), receipt(3, 10, 1))
    asked = "select sum(u.output_tokens), sum(u.output_tokens) filter (where t.rewound) from usage u join turns t on "
    asked += "t.session_id = u.session_id and t.uid = u.turn_uid"
    assert machine.store.execute_read_only(asked).rows == [(13, 5)]


PARENT, REVIEW, TURN = (f"019e0000-0000-7000-8000-00000000000{n}" for n in (1, 2, 3))
ROLLOUTS = Path(".codex/sessions/2026/11/21")


def rollout(thread: str, *records: dict[str, Any], **meta: Any) -> bytes:
    begun = {"type": "session_meta", "payload": {"id": thread, **meta}}
    stamped = ({"timestamp": f"2026-11-21T21:00:0{thread[-1]}.000Z", **each} for each in (begun, *records))
    return lines(*(json.dumps(each).encode() for each in stamped))


def told(type_: str, **payload: Any) -> dict[str, Any]:
    return {"type": "event_msg", "payload": {"type": type_, **payload}}


def test_the_tokens_of_a_review_count_though_the_session_that_asked_for_it_holds_its_turn(machine: Machine) -> None:
    begun = [told("task_started", turn_id=TURN), told("user_message", message="review it")]
    spent = told("token_count", info={"total_token_usage": {"input_tokens": 700, "output_tokens": 34}})
    reviewed = {"parent_thread_id": PARENT, "source": {"subagent": "review"}, "thread_source": "subagent"}
    machine.write(ROLLOUTS / f"rollout-2026-11-21T21-00-01-{PARENT}.jsonl", rollout(PARENT, *begun))
    machine.write(ROLLOUTS / f"rollout-2026-11-21T21-00-02-{REVIEW}.jsonl", rollout(REVIEW, *begun, spent, **reviewed))
    assert machine.read("codex").errors == []
    asked = "select sum(input_tokens), sum(output_tokens) from usage"
    assert machine.store.execute_read_only(asked).rows == [(700, 34)]
    asked = f"select relation from sessions where native_id = '{REVIEW}'"
    assert machine.store.execute_read_only(asked).rows == [("subagent",)]
