"""``report recap``: one session in short, by logs of Claude Code and sessions of our own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backstory.model import AssistantText, ToolCall, ToolResult, UserMessage
from backstory.store import open_store
from backstory.store.tables import compactions
from backstory.store.tables.compactions import NewCompaction
from tests.support.day_of_work import COMMIT, EDIT, FAILING, OTHER, PULL, SESSION, TESTS, Log

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

LONG_COMMIT = (
    "Bash",
    {"command": "git commit -m \"$(cat <<'EOF'\nFix the parser\nEOF\n)\""},
    "[main 1a2b3c4] Fix the parser\n 3 files changed\n create mode 100644 a\n create mode 100644 b",
    False,
)


def recap(bare: Shell, *words: str) -> dict[str, Any]:
    done = bare("chronicle", "recap", "--json", *words, TZ="UTC")
    assert done.code == 0, done.err
    return dict(done.json())


def of(bare: Shell, log: Log) -> dict[str, Any]:
    log.put(bare)
    assert bare("ingest").code == 0
    return recap(bare, SESSION)


def test_each_prompt_has_its_record_and_what_came_of_all_of_them_follows(bare: Shell) -> None:
    log = Log().turn("Fix the parser", EDIT, TESTS, LONG_COMMIT, PULL).turn("thanks", answer="Shall I merge it?")
    found = of(bare, log)
    assert [(each["seq"], each["prompt"]) for each in found["prompts"]] == [(1, "Fix the parser"), (11, "thanks")]
    assert (found["paths"], found["commits"]) == (["src/a.py"], 1)
    kept = [(each["kind"], each["text"], each["seq"]) for each in found["results"]]
    # Of a commit whose message no word of the command says, git does.
    assert kept == [("commit", "1a2b3c4 Fix the parser", 6), ("pull request", PULL[2], 8)]
    assert [(each["kind"], each["ok"]) for each in found["checks"]] == [("test", True)]
    assert (found["status"], found["open"], found["answer"]) == (
        "done",
        "asked: Shall I merge it?",
        "Shall I merge it?",
    )
    assert found["command"] == ["backstory", "resume", found["uid"][:12]]
    # That is the record, as show has it.
    assert "thanks" in bare("show", SESSION, "@11").out


def test_what_stuck_is_said_with_what_failed(bare: Shell) -> None:
    found = of(bare, Log().turn("go", EDIT, FAILING, answer="One fails."))
    assert (found["status"], found["open"]) == ("stuck", "failing: pytest -q")
    printed = bare("chronicle", "recap", SESSION, TZ="UTC").out
    assert "✗ Stuck: the last run of tests failed (@4)" in printed


def test_a_summary_of_the_agent_stands_where_it_was_made(bare: Shell) -> None:
    Log().turn("first").turn("second").put(bare)
    path = bare.home / ".claude" / "projects" / "p" / f"{SESSION}.jsonl"
    first, *rest = path.read_text().splitlines(keepends=True)
    summary = json.loads(first) | {
        "uuid": "s1", "isCompactSummary": True, "message": {"role": "user", "content": "What was done: the parser."}
    }  # fmt: skip
    path.write_text("".join([first, rest[0], json.dumps(summary) + "\n", *rest[1:]]))
    assert bare("ingest").code == 0
    found = recap(bare, SESSION)
    (note,) = found["summaries"]
    assert (note["ours"], note["agent"], note["overview"]) == (False, "claude", "What was done: the parser.")
    lines = bare("chronicle", "recap", SESSION, TZ="UTC").out.splitlines()
    places = [
        next(n for n, line in enumerate(lines) if each in line) for each in (" first", "Checkpoint by", " second")
    ]
    assert places == sorted(places)


def test_a_session_of_our_own_is_summed_up_with_its_summaries_and_goes_on_with_run(bare: Shell) -> None:
    with open_store(bare.cwd / ".backstory" / "sessions.bks") as store:
        session = store.create_session("Ours")
        store.append_events(session, [UserMessage(content="first"), AssistantText(text="One.")])
        store.mark_completed(session, duration_ms=1200, cost_usd=0.25)
        store.decide(compactions.add, session.id, NewCompaction(after_seq=2, summary="So far: one.", agent="claude"))
        call = ToolCall(tool_use_id="c", tool_name="Bash", tool="SHELL", input={"command": "pytest"})
        result = ToolResult(tool_use_id="c", tool_name="Bash", tool="SHELL", content="3 passed")
        store.append_events(session, [UserMessage(content="second"), call, result, AssistantText(text="Two.")])
        store.mark_completed(session, duration_ms=1200, cost_usd=0.25)
    found = recap(bare)
    assert [each["prompt"] for each in found["prompts"]] == ["first", "second"]
    assert [(each["seq"], each["ours"], each["overview"]) for each in found["summaries"]] == [(2, True, "So far: one.")]
    assert found["command"] == ["backstory", "run", "--session", "S1"]
    assert bare(*found["command"][1:], "--help").code == 0


def test_without_a_name_it_is_the_session_last_active_and_says_so(bare: Shell) -> None:
    Log(cwd=str(bare.cwd)).turn("older").put(bare)
    Log(OTHER, cwd=str(bare.cwd)).turn("newer", COMMIT, at="2026-05-04T11").put(bare)
    assert bare("ingest").code == 0
    done = bare("chronicle", "recap", TZ="UTC")
    assert "newer" in done.err
    assert "newer" in done.out
    assert "older" not in done.out


def test_a_session_without_a_prompt_says_that_nothing_was_asked(bare: Shell) -> None:
    with open_store(bare.cwd / ".backstory" / "sessions.bks") as store:
        store.create_session("Empty")
    done = bare("chronicle", "recap")
    assert done.code == 0
    assert "Nothing was asked in this session." in done.out
    found = recap(bare)
    assert (found["prompts"], found["status"], found["answer"]) == ([], None, "")


def test_no_session_is_named_so(bare: Shell) -> None:
    done = bare("chronicle", "recap", "S9")
    assert done.code != 0
    assert "S9" in done.err


def test_secrets_are_masked_in_every_form(bare: Shell) -> None:
    key = "sk-ant-api03-" + "A1b2C3d4E5f6G7h8" * 5 + "-abcdefAA"
    Log().turn(f"Use {key}", COMMIT).put(bare)
    assert bare("ingest").code == 0
    for form in ((), ("--md",), ("--json",)):
        printed = bare("chronicle", "recap", SESSION, *form).out
        assert "Use " in printed
        assert key not in printed


def test_its_sql_returns_its_numbers(bare: Shell) -> None:
    found = of(bare, Log().turn("Fix it", EDIT, COMMIT).turn("thanks"))
    printed = bare("chronicle", "recap", SESSION, "--explain").out
    query = printed.split("-- turns\n")[1].split("-- cost\n")[0]
    (row,) = bare("sql", "--json", query).json()["rows"]
    assert row[:2] == [found["uid"], 2]
