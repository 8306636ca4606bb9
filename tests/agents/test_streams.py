"""What is read from the output of runs. See ``rewrite_streams`` for changing an expectation."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from backstory.agents.contract import CUT_OFF, Exit
from backstory.model import (
    AssistantText,
    Command,
    Compacted,
    Complete,
    Error,
    Event,
    Hook,
    Init,
    Outcome,
    Permissions,
    Plan,
    Retry,
    Thinking,
    Tokens,
    Tool,
    ToolCall,
    ToolResult,
    Unknown,
)
from tests.support.every import every
from tests.support.reading import CASES, case_told
from tests.support.streaming import STREAMS, expectations, ran, recorded, runnable, runs, stream_reviewed

AGENTS = ("claude", "codex")
ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
CANCELLED = Exit(code=0, was_cancelled=True)
TOO_LONG = "Error: turn/start: turn/start failed: Input exceeds the maximum length of 1048576 characters."
RESUMING = {"--resume", "-r", "--continue", "-c", "--fork-session", "--from-pr", "resume", "fork", "--last"}

every_agent = pytest.mark.parametrize("agent", AGENTS)
RUNS = [path for agent in AGENTS for path in runs(agent)]


def run_name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


of_every_run = every("path", RUNS, ids=run_name)


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def of_claude(*blocks: dict[str, Any], role: str = "assistant", **fields: Any) -> bytes:
    message = {"id": "m1", "role": role, "model": "opus", "content": list(blocks)}
    return line(**{"type": role, "message": message, "session_id": ID} | fields)


def item(kind: str, when: str = "completed", **fields: Any) -> bytes:
    return line(type=f"item.{when}", item={"id": "item_0", "type": kind} | fields)


def piece(**event: Any) -> bytes:
    return line(type="stream_event", event=event, session_id=ID)


# recorded runs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RUNS, ids=run_name)
def test_a_recorded_run_says_what_a_person_saw_in_it(path: Path) -> None:
    agent = path.parent.name
    expected = expectations(agent)[1][path.stem]
    reviewed = stream_reviewed(agent, path, expected["exit"])
    assert json.loads(json.dumps({"exit": expected["exit"], **reviewed})) == expected


@of_every_run
def test_no_record_of_a_recorded_run_is_unknown(path: Path) -> None:
    run = recorded(path.parent.name, path.stem)
    assert (run.unknown, run.all(Unknown)) == ({}, [])


@of_every_run
def test_a_line_read_alone_has_each_of_its_events_at_the_same_part(path: Path) -> None:
    agent = path.parent.name
    run = recorded(agent, path.stem)
    for printed, streamed in zip(run.lines, run.streamed, strict=True):
        alone = dict(runnable(agent).stream_reader().read(printed).events)
        for part, event in streamed.events:
            assert alone[part].kind == event.kind


@of_every_run
def test_a_result_carries_the_name_and_path_of_its_call(path: Path) -> None:
    run = recorded(path.parent.name, path.stem)
    calls = {call.tool_use_id: call for call in run.all(ToolCall)}
    for result in run.all(ToolResult):
        call = calls[result.tool_use_id]
        assert (result.tool_name, result.tool, result.file_path) == (call.tool_name, call.tool, call.file_path)


@every_agent
def test_every_recorded_run_has_an_expectation_and_every_expectation_a_run(agent: str) -> None:
    assert sorted(expectations(agent)[1]) == [path.stem for path in runs(agent)]


@of_every_run
def test_a_run_cut_off_anywhere_is_not_a_success(path: Path) -> None:
    lines = path.read_bytes().splitlines()
    for cut in range(len(lines)):
        ending = ran(path.parent.name, lines[:cut], Exit(signal=9)).ending
        assert ending.outcome in (Outcome.CRASHED, Outcome.FAILED, Outcome.CANCELLED)


# a run and its log --------------------------------------------------------------------------------------------

IN_A_REPOSITORY = ("changed-files", "compact-by-hand", "max-turns", "plan-refused", "steered", "unknown-command")
CLAUDE_PAIRS = ("background", "denied", "error-midway", "sigint-in-answer", "tool-errors", "tools", *IN_A_REPOSITORY)
CODEX_PAIRS = ("error-midway", "mcp", "resume-after-sigint", "tools", "workspace-write")


def texts(events: list[Any]) -> list[str]:
    return [event.text for event in events]


@every("name", CLAUDE_PAIRS)
def test_claudes_run_and_its_log_agree(name: str) -> None:
    run, log = recorded("claude", name), case_told(CASES / "claude" / name)
    assert texts(run.all(AssistantText)) == texts(log.all(AssistantText))
    assert texts(run.all(Thinking)) == texts(log.all(Thinking))
    assert run.all(ToolCall) == log.all(ToolCall)
    marks = [(each.tool_use_id, each.tool_name, each.file_path, each.is_error) for each in run.all(ToolResult)]
    assert marks == [(each.tool_use_id, each.tool_name, each.file_path, each.is_error) for each in log.all(ToolResult)]
    assert [each.changes for each in run.all(ToolResult)] == [each.changes for each in log.all(ToolResult)]
    assert run.all(Plan) == log.all(Plan)


def test_the_client_says_which_files_a_command_changed() -> None:
    results = recorded("claude", "changed-files").all(ToolResult)
    changes = [(Path(path).name, how) for each in results for path, how in each.changes.items()]
    assert changes == [
        ("made.txt", "create"), ("old.txt", "edit"), ("gone.txt", "delete"), ("named.txt", "delete"),
        ("renamed.txt", "create"), ("fresh.txt", "create"),
    ]  # fmt: skip


@every("name", ["error-midway", "tool-errors", "tools", *IN_A_REPOSITORY])
def test_claudes_run_and_its_log_agree_on_tokens_and_cost(name: str) -> None:
    run, log = recorded("claude", name), case_told(CASES / "claude" / name)
    (turn,) = log.in_order()
    # Requests that were not streamed are in a sum of the run, and by themselves only in the log.
    told = msgspec.structs.replace(run.ending.tokens, largest_input=turn.tokens.largest_input)
    assert (told, run.ending.model) == (turn.tokens, turn.model)
    assert run.ending.cost_usd == pytest.approx(turn.cost_usd)


@pytest.mark.parametrize("name", IN_A_REPOSITORY)
def test_claudes_run_and_its_log_agree_on_how_it_ended(name: str) -> None:
    path = STREAMS / "claude" / f"{name}.jsonl"
    ended = stream_reviewed("claude", path, expectations("claude")[1][name]["exit"])
    (turn,) = case_told(CASES / "claude" / name).in_order()
    assert (ended["outcome"], ended["stop_reason"]) == (turn.outcome, turn.stop_reason)


@pytest.mark.parametrize("name", CODEX_PAIRS)
def test_codexs_run_and_its_log_agree_on_answers(name: str) -> None:
    run, log = recorded("codex", name), case_told(CASES / "codex" / name)
    said = texts(run.all(AssistantText))
    assert said == texts(log.all(AssistantText))[-len(said) :]


@pytest.mark.parametrize("name", ["error-midway", "tools", "workspace-write"])
def test_codexs_run_and_its_log_agree_on_tool_calls(name: str) -> None:
    run, log = recorded("codex", name), case_told(CASES / "codex" / name)
    assert [call.tool for call in run.all(ToolCall)] == [call.tool for call in log.all(ToolCall)]
    ran_here = [call.input["command"] for call in run.all(ToolCall) if call.tool == Tool.SHELL]
    logged = [call.input["cmd"] for call in log.all(ToolCall) if call.tool == Tool.SHELL]
    assert sorted(ran_here) == sorted(logged)


def test_codexs_run_and_its_log_agree_on_tokens() -> None:
    (turn,) = case_told(CASES / "codex" / "tools").in_order()
    # A run tells only the sum of its requests.
    assert recorded("codex", "tools").ending.tokens == msgspec.structs.replace(turn.tokens, largest_input=None)


# command lines ------------------------------------------------------------------------------------------------


@every_agent
@pytest.mark.parametrize("permissions", list(Permissions))
@pytest.mark.parametrize("model", [None, "m"])
def test_a_command_line_never_resumes_and_takes_its_prompt_from_stdin(
    agent: str, permissions: Permissions, model: str | None
) -> None:
    words = runnable(agent).command(f"/opt/{agent}", model=model, permissions=permissions, native_id=ID)
    assert words[0] == f"/opt/{agent}"
    assert RESUMING.isdisjoint(words)
    # Every word is an option, an option's value, the subcommand, or stdin: there is no place for a prompt.
    values = [after for before, after in pairwise(words) if before.startswith("-")]
    loose = [word for word in words[1:] if not word.startswith("-") and word not in values]
    assert loose == ([] if agent == "claude" else ["exec"])
    assert ("m" in words) == (model is not None)


def test_claudes_command_line() -> None:
    words = runnable("claude").command("claude", model="opus", permissions=Permissions.EDIT, native_id=ID)
    assert " ".join(words) == (
        "claude -p --verbose --output-format stream-json --include-partial-messages"
        f" --session-id {ID} --model opus --permission-mode acceptEdits"
    )


def test_codexs_command_line() -> None:
    words = runnable("codex").command("codex", model="gpt", permissions=Permissions.ASK, native_id=None)
    assert " ".join(words) == "codex exec --json --skip-git-repo-check -m gpt --sandbox read-only -"


@every_agent
def test_a_command_line_belongs_to_its_caller(agent: str) -> None:
    for permissions in Permissions:
        runner = runnable(agent)
        first = runner.command(agent, model=None, permissions=permissions, native_id=None)
        first.append("more")
        assert "more" not in runner.command(agent, model=None, permissions=permissions, native_id=None)


def test_only_claude_is_given_its_id() -> None:
    runners = [runnable("claude"), runnable("codex")]
    given, none = [runner.native_id(bytes(range(16))) for runner in runners]
    assert (none, UUID(given).version) == (None, 4)
    assert runnable("claude").native_id(bytes(range(16))) == given


USED = Tokens(input=3600, output=245, cache_read=20600, cache_write=2000, largest_input=5480)
"""How long the cache holds is not told: the periods beside what was written are both 0."""


# traps of Claude's ----------------------------------------------------------------------------------------------


def test_the_usage_repeated_with_each_block_is_not_summed() -> None:
    # Three blocks of one message say 3000 tokens of input each.
    run = recorded("claude", "tools-partial")
    assert run.ending.tokens == USED


def test_tokens_of_a_killed_run_are_those_of_its_pieces() -> None:
    lines = (STREAMS / "claude" / "tools-partial.jsonl").read_bytes().splitlines()[:-1]
    killed = ran("claude", lines, Exit(signal=9)).ending
    assert killed.tokens == USED
    assert (killed.stop_reason, killed.tokens_source, killed.cost_usd) == ("end_turn", "reported", None)


def test_tokens_of_a_run_killed_in_an_answer_are_at_least_those_of_its_pieces() -> None:
    start = piece(type="message_start", message={"id": "m1", "usage": {"input_tokens": 100, "output_tokens": 1}})
    killed = ran("claude", [start], Exit(signal=9)).ending
    assert (killed.tokens, killed.tokens_source) == (Tokens(input=100, output=1, largest_input=100), "partial")


def test_a_total_from_before_the_last_answer_is_not_what_a_run_cost() -> None:
    result = line(type="result", is_error=False, usage={"input_tokens": 9, "output_tokens": 2}, total_cost_usd=0.25)
    start = piece(type="message_start", message={"id": "m1", "usage": {"input_tokens": 100, "output_tokens": 1}})
    bad = line(type="result", is_error=False, usage={"input_tokens": 9, "output_tokens": 2}, total_cost_usd=-1)
    costs = [ran("claude", lines).ending for lines in ([start, result], [result, start], [result, bad])]
    assert [(each.cost_usd, each.cost_source) for each in costs] == [(0.25, "reported"), (None, None), (None, None)]


def test_a_result_without_its_input_makes_a_run_at_least_its_output() -> None:
    result = line(type="result", is_error=False, usage={"output_tokens": 21})
    ending = ran("claude", [result]).ending
    assert (ending.tokens.input, ending.tokens.output, ending.tokens_source) == (None, 21, "partial")


def test_a_request_that_was_not_streamed_is_counted_by_the_result() -> None:
    start = piece(type="message_start", message={"id": "m1", "usage": {"input_tokens": 100, "output_tokens": 1}})
    result = line(type="result", is_error=False, usage={"input_tokens": 200, "output_tokens": 21})
    assert ran("claude", [start, result]).ending.tokens == Tokens(input=200, output=21)


def test_an_answer_cut_off_before_its_end_was_paid_for_all_the_same() -> None:
    start = piece(type="message_start", message={"id": "m1", "usage": {"input_tokens": 700, "output_tokens": 1}})
    usage = {"input_tokens": 0, "output_tokens": 0}
    result = line(type="result", is_error=True, terminal_reason="aborted_streaming", usage=usage, total_cost_usd=0.1)
    assert ran("claude", [start, result], CANCELLED).ending.tokens == Tokens(input=700, output=1, largest_input=700)
    assert ran("claude", [result], CANCELLED).ending.tokens == Tokens()


def test_the_cost_is_a_running_total_but_the_usage_of_each_result_is_its_own() -> None:
    run = recorded("claude", "background")
    costs = [complete.cost_usd for complete in run.all(Complete)]
    assert run.ending.cost_usd == costs[-1] == 0.007200000000000001
    assert run.ending.tokens == Tokens(input=1200, output=60, cache_read=6000, cache_write=0, cache_write_1h=0)


def test_a_run_of_several_inits_and_results_begins_once_and_ends_with_its_process() -> None:
    run = recorded("claude", "background")
    assert sum(b'"subtype":"init"' in printed for printed in run.lines) == 2
    assert (len(run.all(Init)), len(run.all(Complete))) == (1, 2)
    first_result = next(place for place, said in enumerate(run.streamed) if any(_completes(said.events)))
    assert ran("claude", run.lines[: first_result + 1], Exit(signal=9)).ending.outcome == Outcome.CRASHED


def _completes(events: list[tuple[int, Event]]) -> list[Event]:
    return [event for _, event in events if isinstance(event, Complete)]


@pytest.mark.parametrize("name", ["error-429-forever", "error-500-forever", "error-400", "error-401", "cut-forever"])
def test_a_result_called_success_may_be_an_error(name: str) -> None:
    run = recorded("claude", name, Exit(code=1))
    assert b'"subtype":"success"' in run.lines[-1]
    assert [complete.success for complete in run.all(Complete)] == [False]
    assert (run.ending.outcome, run.ending.error) == (Outcome.FAILED, None)
    (error,) = run.all(Error)
    assert error.message and error.code


def test_exit_code_0_after_sigint_is_no_success() -> None:
    silent = recorded("claude", "sigint-waiting").lines[:1]
    assert ran("claude", silent, CANCELLED).ending.outcome == Outcome.CANCELLED
    assert ran("claude", silent, Exit(code=0)).ending.outcome == Outcome.CRASHED
    # Stopped by someone else: the run says so itself.
    assert recorded("claude", "sigint-in-answer").ending.outcome == Outcome.CANCELLED
    assert recorded("claude", "sigint-waiting").ending.outcome == Outcome.CANCELLED


def test_a_run_that_fails_without_a_word_on_stdout_says_why_on_stderr() -> None:
    refused = b"--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons\n"
    run = ran("claude", [], Exit(code=1), (refused, b"\n"))
    assert run.told_on_stderr == []
    assert (run.ending.outcome, run.ending.error) == (Outcome.FAILED, refused.decode().strip())
    assert (run.ending.tokens, run.ending.tokens_source, run.ending.cost_usd) == (Tokens(), None, None)


def test_only_the_last_lines_of_a_long_stderr_are_held() -> None:
    error = ran("claude", [], Exit(code=1), tuple(b"line %d" % number for number in range(1000))).ending.error
    assert error is not None
    assert (len(error.splitlines()), error.splitlines()[-1]) == (20, "line 999")


def test_a_success_with_warnings_on_stderr_has_no_error() -> None:
    ending = recorded("claude", "hello", stderr=(b"warning",)).ending
    assert (ending.outcome, ending.error) == (Outcome.COMPLETED, None)


@pytest.mark.parametrize("code", [1, 143])
def test_a_result_does_not_excuse_the_exit_code(code: int) -> None:
    outcome = recorded("claude", "hello", Exit(code=code)).ending.outcome
    assert outcome == (Outcome.FAILED if code == 1 else Outcome.CRASHED)


def test_a_limit_is_told_by_the_result_alone() -> None:
    ending = recorded("claude", "max-budget", Exit(code=1)).ending
    assert (ending.outcome, ending.error) == (Outcome.FAILED, "Reached maximum budget ($0.03)")


def test_a_helpers_words_are_not_the_runs() -> None:
    run = recorded("claude", "subagent-forwarded")
    assert "Counting." not in texts(run.all(AssistantText))
    assert [call.tool for call in run.all(ToolCall)] == [Tool.TASK]
    theirs = [line(type="stream_event", parent_tool_use_id="t1", event=event) for event in _answer("hidden")]
    assert [each.delta for each in ran("claude", theirs).streamed] == [""] * len(theirs)
    assert ran("claude", theirs).ending.tokens == Tokens()


def _answer(text: str) -> list[dict[str, Any]]:
    return [
        {"type": "message_start", "message": {"id": "m9", "usage": {"input_tokens": 5, "output_tokens": 1}}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    ]


def test_pieces_show_the_answer_and_take_no_number() -> None:
    run = recorded("claude", "tools-partial")
    shown = "".join(each.delta for each in run.streamed)
    assert shown == "".join(texts(run.all(AssistantText)))
    for printed, said in zip(run.lines, run.streamed, strict=True):
        assert said.takes_number == (json.loads(printed)["type"] != "stream_event")


def test_the_id_of_a_run_is_its_sessions() -> None:
    assert recorded("claude", "tools").native_id == "011ed182-7e99-4421-9c41-c873947f9fe6"
    assert recorded("codex", "tools").native_id == "01a1fff7-1dc5-7662-beea-6598872449f4"


def test_a_failed_request_of_an_older_claude_is_an_error_too() -> None:
    message = {"model": "<synthetic>", "content": [{"type": "text", "text": "API Error: 529"}]}
    run = ran("claude", [line(type="assistant", message=message, error="server_error")], Exit(code=1))
    assert run.events == [Error(message="API Error: 529", code="server_error")]


def test_claudes_nudges_are_kept_and_its_notes_are_shown_as_such() -> None:
    words = {"type": "text", "text": "Continue."}
    assert ran("claude", [of_claude(words, role="user", isSynthetic=True)]).events == []
    assert ran("claude", [of_claude(words, role="user")]).events == [Hook(name="context", output="Continue.")]


def test_a_compaction_is_told_once_with_the_summary_that_its_log_holds() -> None:
    logged = case_told(CASES / "claude" / "compact-by-hand").all(Compacted)
    assert recorded("claude", "compact-by-hand").all(Compacted) == logged
    assert "Summary:\nWe looked once." in logged[0].summary
    (of_itself,) = recorded("claude", "compact").all(Compacted)
    assert "Summary:\nWe did six steps." in of_itself.summary


def test_what_a_command_of_the_clients_own_printed_is_told_as_its_log_tells_it() -> None:
    logged = [each for each in case_told(CASES / "claude" / "compact-by-hand").all(Command) if each.output]
    assert recorded("claude", "compact-by-hand").all(Command) == logged
    assert [each.output.partition(" ")[0] for each in logged] == ["Compacted", "Estimated"]


def compacted(*then: bytes) -> list[Event]:
    return ran("claude", [line(type="system", subtype="compact_boundary"), *then]).events


def test_a_compaction_whose_summary_is_not_printed_is_told_with_what_follows_it() -> None:
    interrupted = {"type": "text", "text": "[Request interrupted by user]"}
    for then in (
        of_claude({"type": "text", "text": "After."}),
        of_claude(interrupted, role="user"),
        line(type="result", subtype="success"),
    ):
        assert compacted(then) == [*ran("claude", [then]).events, Compacted()]
    assert compacted(of_claude({"type": "text", "text": "…"}, parent_tool_use_id="t1")) == []


def test_a_summary_belongs_to_its_compaction_whatever_the_client_notes_between_them() -> None:
    summary = line(type="user", isSynthetic=True, message={"role": "user", "content": "We looked."})
    assert compacted(line(type="system", subtype="status"), summary) == [Compacted(summary="We looked.")]


def test_a_nudge_behind_a_summary_is_none() -> None:
    summary = line(type="user", isSynthetic=True, message={"role": "user", "content": "We looked."})
    assert compacted(summary, summary) == [Compacted(summary="We looked.")]


def test_a_retry_says_why() -> None:
    assert recorded("claude", "error-429-then-ok").all(Retry) == [
        Retry(attempt=1, attempts_max=2, message="rate limit (429)"),
        Retry(attempt=2, attempts_max=2, message="rate limit (429)"),
    ]


# traps of Codex's -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cut-then-ok", "error-429-then-ok"])
def test_a_record_called_error_is_not_fatal(name: str) -> None:
    run = recorded("codex", name)
    assert (run.ending.outcome, run.ending.error, run.all(Error)) == (Outcome.COMPLETED, None, [])
    assert [retry.attempt for retry in run.all(Retry)] == list(range(1, len(run.all(Retry)) + 1))


def test_a_failure_that_is_told_twice_is_shown_once() -> None:
    run = recorded("codex", "stream-error-quota", Exit(code=1))
    assert run.all(Error) == [Error(message="Quota exceeded. Check your plan and billing details.")]
    cut = ran("codex", run.lines[:-1], Exit(code=1))
    assert (cut.events, cut.ending.error) == ([Init()], "Quota exceeded. Check your plan and billing details.")


def test_patches_that_fail_are_told_on_stderr_alone() -> None:
    failed = (
        b"2026-11-22T00:31:54.274139Z ERROR codex_core::tools::router: error=apply_patch verification failed:"
        b" invalid patch: The first line of the patch must be '*** Begin Patch'"
    )
    refused = b"2026-11-22T00:31:54.304874Z ERROR codex_core::tools::router: error=unsupported call: no_such_tool"
    run = recorded("codex", "tool-errors", stderr=(b"Reading prompt from stdin...", failed, refused))
    assert run.told_on_stderr == [
        Error(
            message="apply_patch verification failed: invalid patch: The first line of the patch must be"
            " '*** Begin Patch'",
            code="stderr",
        ),
        Error(message="unsupported call: no_such_tool", code="stderr"),
    ]
    assert (run.ending.outcome, run.ending.error) == (Outcome.COMPLETED, None)


@pytest.mark.parametrize(
    "printed",
    [
        b"\x1b[2m2026-11-21T21:05:10Z\x1b[0m \x1b[31mERROR\x1b[0m \x1b[2mcodex_core::x\x1b[0m\x1b[2m:\x1b[0m why: this",
        b"2026-11-21T21:05:10Z ERROR turn{id=1 model=m}: codex_core::x: why: this",
        b"2026-11-21T21:05:10Z ERROR why: this",
    ],
)
def test_an_error_on_stderr_is_told_without_what_stands_before_it(printed: bytes) -> None:
    (error,) = ran("codex", [], stderr=(printed,)).told_on_stderr
    assert isinstance(error, Error)
    assert error.message.endswith("this")
    assert "codex_core" not in error.message


def test_a_prompt_that_is_too_long_is_refused_on_stderr_alone() -> None:
    started = recorded("codex", "hello").lines[:1]
    ending = ran("codex", started, Exit(code=1), (TOO_LONG.encode(),)).ending
    assert (ending.outcome, ending.error) == (Outcome.FAILED, TOO_LONG)


def test_codex_interrupted_says_nothing_more() -> None:
    lines = recorded("codex", "sigint-in-tool").lines
    assert ran("codex", lines, Exit(code=1, was_cancelled=True)).ending.outcome == Outcome.CANCELLED
    assert ran("codex", lines, Exit(code=1)).ending.outcome == Outcome.FAILED
    assert ran("codex", lines, Exit(code=0)).ending.outcome == Outcome.CRASHED


def test_a_completed_turn_does_not_excuse_the_exit_code() -> None:
    assert recorded("codex", "hello", Exit(code=1)).ending.outcome == Outcome.FAILED
    assert recorded("codex", "hello", Exit(signal=11)).ending.outcome == Outcome.CRASHED


def test_cached_tokens_are_not_counted_as_input_too() -> None:
    tokens = recorded("codex", "hello").ending.tokens
    assert tokens == Tokens(input=700, output=34, cache_read=500, cache_write=0, reasoning=0)


def test_a_command_stands_without_the_shell_around_it() -> None:
    def command(text: str) -> Any:
        (call,) = ran("codex", [item("command_execution", "started", command=text)]).events
        assert isinstance(call, ToolCall)
        return call.input["command"]

    assert command("/bin/bash -lc 'echo '\"'\"'one'\"'\"' two'") == "echo 'one' two"
    assert command("/bin/bash -lc pwd") == "pwd"
    assert command("bash -lc 'never closed") == "bash -lc 'never closed"
    assert command("python -c 'print(1)'") == "python -c 'print(1)'"


def test_a_call_whose_start_was_not_seen_is_told_with_its_result() -> None:
    fields: dict[str, Any] = {"command": "ls", "aggregated_output": "a\n", "exit_code": 0, "status": "completed"}
    whole = item("command_execution", **fields)
    alone, after = ran("codex", [whole]), ran("codex", [item("command_execution", "started", command="ls"), whole])
    assert [event.kind for event in alone.events] == ["ToolCall", "ToolResult"]
    assert alone.events == after.events
    assert [part for part, _ in after.streamed[1].events] == [1]


@pytest.mark.parametrize(
    ("fields", "is_error"),
    [
        ({"exit_code": 0, "status": "completed"}, False),
        ({"exit_code": 3, "status": "failed"}, True),
        ({"exit_code": None, "status": "declined"}, True),
    ],
)
def test_a_command_failed_if_it_says_so(fields: dict[str, Any], is_error: bool) -> None:
    (result,) = ran("codex", [item("command_execution", command="ls", **fields)]).all(ToolResult)
    assert result.is_error == is_error


def test_a_patch_is_one_call_with_all_its_files() -> None:
    changes = [{"path": "a.md", "kind": "add"}, {"path": "b.md", "kind": "update"}]
    call, result = ran("codex", [item("file_change", changes=changes, status="completed")]).events
    assert isinstance(call, ToolCall) and isinstance(result, ToolResult)
    assert (call.tool_name, call.tool, call.file_path, call.input) == (
        "apply_patch", Tool.EDIT, "a.md", {"changes": changes},
    )  # fmt: skip
    assert result.content == "add a.md\nupdate b.md"


def test_a_call_to_another_server_names_it() -> None:
    run = recorded("codex", "mcp")
    assert [(call.tool_name, call.input) for call in run.all(ToolCall)] == [
        ("stub.add", {"a": 2, "b": 3}),
        ("stub.fail", {}),
    ]
    assert [(result.content, result.is_error) for result in run.all(ToolResult)] == [
        ("5", False),
        ("it failed, as it always does", True),
    ]


def test_a_web_search_is_a_search() -> None:
    call, _ = ran("codex", [item("web_search", query="q", action={"type": "search"})]).events
    assert isinstance(call, ToolCall)
    assert (call.tool, call.tool_name, call.input["query"]) == (Tool.SEARCH, "web_search", "q")


def test_a_warning_is_not_an_error() -> None:
    run = recorded("codex", "unknown-model")
    assert [hook.name for hook in run.all(Hook)] == ["warning"]
    assert (run.ending.outcome, run.all(Error)) == (Outcome.COMPLETED, [])


def test_an_update_takes_no_number_and_a_list_of_things_to_do_is_kept() -> None:
    things = [{"text": "one", "completed": False}]
    run = ran("codex", [item("todo_list", when, items=things) for when in ("started", "updated", "completed")])
    assert [each.takes_number for each in run.streamed] == [True, False, True]
    assert (run.events, run.unknown) == ([], {})


# odd lines ------------------------------------------------------------------------------------------------------


@every_agent
def test_a_notice_between_the_records_is_shown(agent: str) -> None:
    run = ran(agent, ["Update available ✨".encode(), b"", b"  "])
    assert (run.events, run.unknown) == ([Hook(name="stdout", output="Update available ✨")], {})


@every_agent
def test_a_record_cut_short_is_counted_and_not_shown_as_words(agent: str) -> None:
    run = ran(agent, [b'{"type":"assis'], Exit(signal=9))
    assert (run.events, run.unknown) == ([Unknown(type="not JSON")], {"not JSON": 1})


@every_agent
def test_a_record_of_a_type_to_come_is_counted(agent: str) -> None:
    run = ran(agent, [line(type="hologram", item={"type": "x"}, message="words")])
    assert (run.events, run.unknown) == ([Unknown(type="hologram")], {"hologram": 1})


@every_agent
def test_a_run_that_says_nothing_at_all_is_judged_by_its_exit(agent: str) -> None:
    endings = {
        Outcome.CRASHED: [Exit(code=0), Exit(signal=9)],
        Outcome.CANCELLED: [CANCELLED, Exit(signal=2, was_cancelled=True), Exit(code=1, was_cancelled=True)],
        Outcome.FAILED: [Exit(code=1)],
    }
    for outcome, exits in endings.items():
        for each in exits:
            ending = ran(agent, [], each).ending
            assert ending.outcome == outcome, msgspec.json.encode(each)
            assert (ending.error is None) == (outcome == Outcome.CANCELLED)


UNSEEN = Exit(code=0, was_seen=False)
OVERLOADED = {
    "claude": [line(type="assistant", isApiErrorMessage=True, is_api_error_message=True, message={"content": []})],
    "codex": [line(type="error", message="stream disconnected")],
}


@every_agent
def test_a_run_whose_end_nobody_saw_says_that_and_no_exit_code(agent: str) -> None:
    ending = ran(agent, [], UNSEEN).ending
    assert (ending.outcome, ending.error) == (Outcome.CRASHED, CUT_OFF)


@every_agent
def test_words_on_stderr_are_no_reason_why_a_run_ended_that_nobody_saw(agent: str) -> None:
    ending = ran(agent, [], UNSEEN, (b"a warning",)).ending
    assert (ending.outcome, ending.error) == (Outcome.CRASHED, f"{CUT_OFF}\na warning")


@every_agent
def test_an_error_that_was_shown_does_not_stand_for_an_end_that_nobody_saw(agent: str) -> None:
    ending = ran(agent, OVERLOADED[agent], UNSEEN, (b"2026-09-21T10:00:00Z ERROR core: error=denied",)).ending
    assert ending.error is not None
    assert ending.error.startswith(CUT_OFF)


@every_agent
def test_an_end_that_the_agent_told_needs_nobody_who_saw_it(agent: str) -> None:
    run = recorded(agent, "hello", UNSEEN)
    assert (run.ending.outcome, run.ending.error) == (Outcome.COMPLETED, None)


# calls that were refused ----------------------------------------------------------------------------------------


def test_calls_that_permissions_refused_are_told_at_the_end() -> None:
    for name in ("denied", "denied-dontask"):
        first, second = recorded("claude", name).ending.refused
        assert (first.tool_name, first.tool, first.file_path) == ("Write", "WRITE", first.input["file_path"])
        assert (second.tool, second.input) == ("SHELL", {"command": "touch /etc/should-not-exist-stub"})
    assert recorded("claude", "tool-errors").ending.refused == []


def test_a_refusal_that_several_results_list_is_one() -> None:
    denied = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "ls"}}
    again = denied | {"tool_use_id": "t2"}
    results = [line(type="result", permission_denials=each) for each in ([denied], [denied, again], None, "none", [7])]
    assert [each.tool_use_id for each in ran("claude", results).ending.refused] == ["t1", "t2"]


ROUTER = b"2026-11-22T17:16:29.512664Z ERROR codex_core::tools::router: error="


def test_calls_that_codex_refused_are_told_by_its_stderr() -> None:
    told = [
        b"patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings",
        b"approval policy is Never; reject command \xe2\x80\x94 you cannot ask for escalated permissions",
        b"exec_command failed: CreateProcess { message: \"Rejected(\\\"`/bin/bash -lc 'rm -rf /'` rejected: rm -f style"
        b' commands are not permitted\\")" }',
        b"apply_patch verification failed: invalid patch",
        b"unsupported call: no_such_tool",
    ]
    refused = ran("codex", [], stderr=tuple(ROUTER + each for each in told)).ending.refused
    assert [(each.tool_name, each.tool, each.input) for each in refused] == [
        ("apply_patch", "EDIT", {}), ("shell", "SHELL", {}), ("shell", "SHELL", {"command": "rm -rf /"})
    ]  # fmt: skip


def test_a_call_that_was_declined_is_refused_and_one_that_failed_is_not() -> None:
    items = [
        {"id": f"item_{n}", "type": "command_execution", "command": "ls", "status": status}
        for n, status in enumerate(("declined", "failed", "completed"))
    ]
    run = ran("codex", [line(type="item.completed", item=each) for each in items])
    assert [each.tool_use_id for each in run.ending.refused] == ["item_0"]
