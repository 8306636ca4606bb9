"""Sessions as trajectories for evaluation: the models of the format accept each, and nothing of them is missing."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from atif import Trajectory

from backstory import AssistantText, Thinking, ToolCall, ToolResult, UserMessage, open_store
from backstory.model import Compacted, Error, Event
from tests.support.recorded import CASES, home_of
from tests.support.session_files import TOKEN, machine_with
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture
def empty(tmp_path: Path) -> Shell:
    (tmp_path / "home").mkdir()
    return Shell(tmp_path / "home")


def call(number: int, name: str = "Bash", tool: str = "SHELL", **given: Any) -> ToolCall:
    return ToolCall(tool_use_id=f"c{number}", tool_name=name, tool=tool, input=given)


def came(number: int, content: str, *, is_error: bool = False) -> ToolResult:
    return ToolResult(tool_use_id=f"c{number}", tool_name="Bash", tool="SHELL", content=content, is_error=is_error)


def trajectories(shell: Shell, out: Path, *options: str) -> list[dict[str, Any]]:
    """What an export of everything has, each accepted by the models of the format."""
    done = shell("export", "--all", "--format", "atif", "-o", out, *options)
    assert done.code == 0, done.err
    files = sorted(out.iterdir())
    for file in files:
        Trajectory.model_validate_json(file.read_bytes())
    return [json.loads(file.read_bytes()) for file in files]


def of(shell: Shell, events: Sequence[Event], out: Path, *options: str) -> dict[str, Any]:
    (found,) = trajectories(machine_with(shell, events), out, *options)
    return found


def without_times(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in each.items() if name not in ("timestamp", "metrics")} for each in steps]


def test_a_step_is_what_was_thought_said_and_called_at_once_with_what_came_of_it(empty: Shell, tmp_path: Path) -> None:
    events = [
        UserMessage(content="Fix it"), Thinking(text="Where?"), AssistantText(text="I look."),
        call(1, command="ls"), call(2, command="cat a"), came(2, "no", is_error=True), came(1, "a\nb"),
        AssistantText(text="Done."), Error(message="Overloaded"), Compacted(summary="Short"),
    ]  # fmt: skip
    found = of(empty, events, tmp_path / "out")
    assert without_times(found["steps"]) == [
        {"step_id": 1, "source": "user", "message": "Fix it"},
        {
            "step_id": 2, "source": "agent", "message": "I look.", "reasoning_content": "Where?",
            "tool_calls": [
                {"tool_call_id": "c1", "function_name": "Bash", "arguments": {"command": "ls"}},
                {"tool_call_id": "c2", "function_name": "Bash", "arguments": {"command": "cat a"}},
            ],
            "observation": {"results": [
                {"content": "no", "source_call_id": "c2", "extra": {"is_error": True}},
                {"content": "a\nb", "source_call_id": "c1"},
            ]},
        },
        {"step_id": 3, "source": "agent", "message": "Done."},
        {"step_id": 4, "source": "system", "message": "Overloaded", "extra": {"kind": "error"}},
        {"step_id": 5, "source": "system", "message": "Short", "extra": {"kind": "compaction"}},
    ]  # fmt: skip
    assert found["final_metrics"]["total_steps"] == 5


def test_a_result_that_comes_late_is_put_to_its_call(empty: Shell, tmp_path: Path) -> None:
    events = [UserMessage(content="Go"), call(1, command="sleep"), AssistantText(text="Meanwhile"),
              call(2, command="ls"), came(1, "woken"), came(2, "a")]  # fmt: skip
    steps = of(empty, events, tmp_path / "out")["steps"]
    results = [[each["content"] for each in step["observation"]["results"]] for step in steps if "observation" in step]
    assert results == [["woken"], ["a"]]


def test_results_and_calls_without_ids_and_odd_input_are_kept(empty: Shell, tmp_path: Path) -> None:
    events = [
        UserMessage(content="Go"), ToolCall(tool_name="say", input=["a", 1]), ToolResult(tool_name="say", content="b"),
        ToolResult(tool_use_id="nobody's", content="lost and found"),
    ]  # fmt: skip
    steps = of(empty, events, tmp_path / "out")["steps"]
    (made,) = steps[1]["tool_calls"]
    assert made["arguments"] == {"input": ["a", 1]}
    assert steps[1]["observation"]["results"] == [{"content": "b", "source_call_id": made["tool_call_id"]}]
    assert steps[2]["source"] == "system" and steps[2]["observation"]["results"] == [{"content": "lost and found"}]


def test_a_session_in_which_nothing_was_said_is_a_trajectory(empty: Shell, tmp_path: Path) -> None:
    empty.store.parent.mkdir(parents=True)
    with open_store(empty.store) as store:
        store.create_session()
    (found,) = trajectories(empty, tmp_path / "out")
    assert [each["extra"] for each in found["steps"]] == [{"kind": "nothing was said"}]


def test_a_trajectory_is_masked_only_if_a_person_wants_it(empty: Shell, tmp_path: Path) -> None:
    events = [UserMessage(content=f"Use {TOKEN}"), call(1, command=f"curl -H {TOKEN}"), came(1, TOKEN)]
    assert TOKEN in json.dumps(of(empty, events, tmp_path / "out"))
    (masked,) = trajectories(empty, tmp_path / "masked", "--redact")
    assert TOKEN not in json.dumps(masked) and json.dumps(masked).count("[github-token-") >= 3
    again = empty("export", "--all", "--format", "atif", "-o", tmp_path / "again")
    assert "1 secret in it, not masked: add --redact" in again.err


def test_a_turn_that_was_left_behind_is_in_no_trajectory(empty: Shell, tmp_path: Path) -> None:
    machine_with(empty, [UserMessage(content="Kept"), AssistantText(text="Yes")])
    with open_store(empty.store) as store:
        (session,) = store.sessions()
        store.append_events(session, [UserMessage(content="Taken away")])
        store.remove_turns(session, [store.turns(session)[-1].uid])
    (found,) = trajectories(empty, tmp_path / "out")
    assert "Kept" in json.dumps(found) and "Taken away" not in json.dumps(found)


def test_a_subagent_is_in_its_parents_trajectory_and_named_where_it_was_started(empty: Shell, tmp_path: Path) -> None:
    def record(n: int, kind: str, content: Any, **more: Any) -> str:
        usage = {"input_tokens": 5, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 0, "output_tokens": 7}
        said = {"role": kind, "content": content, "id": f"m{n}", "model": "claude-opus-4-5-20251101",
                "stop_reason": "end_turn", "usage": usage}  # fmt: skip
        return json.dumps({
            "sessionId": "3f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f", "uuid": f"u{n}", "parentUuid": None, "type": kind,
            "cwd": "/w", "version": "2.1.0", "timestamp": f"2026-05-01T10:00:0{n}.000Z", "message": said, **more,
        })  # fmt: skip

    task = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "Look into the parser for me"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "It is fine"}
    helper = {"agentId": "a1b2c3d4", "isSidechain": True}
    folder = empty.home / ".claude" / "projects" / "-w" / "3f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f"
    (folder / "subagents").mkdir(parents=True)
    folder.with_suffix(".jsonl").write_text("\n".join([
        record(1, "user", "Check it"), record(2, "assistant", [task]), record(5, "user", [result]), "",
    ]))  # fmt: skip
    (folder / "subagents" / "agent-a1b2c3d4.jsonl").write_text("\n".join([
        record(3, "user", "Look into the parser for me", **helper),
        record(4, "assistant", [{"type": "text", "text": "It is fine"}], **helper), "",
    ]))  # fmt: skip
    assert empty("ingest").code == 0
    (found,) = trajectories(empty, tmp_path / "out")
    (child,) = found["subagent_trajectories"]
    assert child["session_id"] == found["session_id"] != child["trajectory_id"]
    (step,) = [each for each in found["steps"] if "observation" in each]
    (told,) = step["observation"]["results"]
    assert told["subagent_trajectory_ref"] == [{"trajectory_id": child["trajectory_id"]}]
    assert [each["message"] for each in child["steps"]] == ["Look into the parser for me", "It is fine"]
    assert (found["agent"]["name"], found["agent"]["version"]) == ("claude", "2.1.0")
    metrics = child["steps"][-1]["metrics"]
    assert (metrics["prompt_tokens"], metrics["cached_tokens"], metrics["completion_tokens"]) == (25, 20, 7)
    assert metrics["cost_usd"] == child["final_metrics"]["total_cost_usd"] > 0


@pytest.mark.parametrize("agent", ["claude", "codex", "copilot", "gemini", "pi"])
def test_recorded_sessions_are_whole_in_their_trajectories(empty: Shell, tmp_path: Path, agent: str) -> None:
    for name in ("claude/tools", "claude/resume", "codex/tools", "codex/compact"):
        if name.startswith(agent):
            empty.put(name)
    if agent == "copilot":
        for name in ("tools", "helper", "compact"):
            folder = CASES / agent / name / "session-state"
            shutil.copytree(folder, empty.home / ".copilot" / "session-state", dirs_exist_ok=True)
    if agent in ("gemini", "pi"):
        for name in ("tools", "compact"):
            home_of(tmp_path, agent, name)
    assert empty("ingest").code == 0
    found = trajectories(empty, tmp_path / "out")
    steps = [
        step for each in found for part in (each, *each.get("subagent_trajectories", ())) for step in part["steps"]
    ]
    made = [each for step in steps for each in step.get("tool_calls", ())]
    results = [each for step in steps for each in step.get("observation", {"results": ()})["results"]]
    sql = "select (select count(*) from events where kind = ?) from sessions limit 1"
    counted = {
        kind: empty("sql", "--json", sql.replace("?", f"'{kind}'")).json()["rows"][0][0]
        for kind in ("ToolCall", "ToolResult", "UserMessage")
    }
    prompts = [step for step in steps if step["source"] == "user"]
    assert len(made) > 0
    assert {"ToolCall": len(made), "ToolResult": len(results), "UserMessage": len(prompts)} == counted
    assert all("source_call_id" in each for each in results)
