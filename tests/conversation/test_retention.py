"""Which facts of the turns that it covers a summary still names."""

from __future__ import annotations

from backstory import model
from backstory.conversation.compaction import retention
from backstory.conversation.retention import facts_of, is_decision_kept
from backstory.model import AssistantText, Tool, ToolCall, ToolResult, TurnWithEvents


def turn(*events: model.Event, prompt: str = "go on") -> TurnWithEvents:
    return TurnWithEvents(turn=model.Turn(uid="0" * 26, agent="a", prompt=prompt), events=events)


def ran(command: str) -> ToolCall:
    return ToolCall(tool_name="Bash", tool=Tool.SHELL, input={"command": command})


def test_facts_are_found_once_each() -> None:
    call = ran("cd src && cargo test --lib | tail -3")
    text = AssistantText(text="We decided to keep SQLite instead of Postgres. It took 4,711 ms and 3.25 s, in 2 steps.")
    found = facts_of([turn(call, text), turn(call, text)], ["/src/main.rs"])
    assert found == {
        "decisions": ["We decided to keep SQLite instead of Postgres."],
        "files": ["/src/main.rs"],
        "commands": ["cargo test"],
        "numbers": ["4,711", "3.25"],
    }


def test_what_only_looks_and_what_a_tool_prints_is_no_fact() -> None:
    printed = ToolResult(tool_name="Bash", tool=Tool.SHELL, content="We decided 4,711 because of /etc")
    found = facts_of([turn(ran("ls -la; cat x; grep -r y ."), printed)], [])
    assert found == {"decisions": [], "files": [], "commands": [], "numbers": []}


def test_parts_of_dates_times_versions_and_paths_are_no_numbers() -> None:
    found = facts_of([turn(AssistantText(text="On 2026-11-22 at 10:15:30 in v1.20.300 and /tmp/400/500."))], [])
    assert found["numbers"] == []


def test_retention_counts_what_is_named() -> None:
    facts = facts_of(
        [turn(ran("cargo test"), ran("git push"), AssistantText(text="The limit must be 400,000, never 180,000."))],
        ["/src/main.rs", "/src/gone.rs"],
    )
    summary = "`cargo test` passed; main.rs has the limit, which must be 400,000."
    kept = {each.kind: (each.named, each.total) for each in retention(summary, facts)}
    assert kept == {"decisions": (1, 1), "files": (1, 2), "commands": (1, 2), "numbers": (1, 2)}


def test_kinds_without_a_fact_are_not_counted() -> None:
    assert retention("anything", facts_of([turn(AssistantText(text="done"))], [])) == ()


def test_a_decision_is_kept_by_half_of_its_words() -> None:
    decision = "We will store sessions in SQLite instead of Postgres."
    assert is_decision_kept("Sessions are stored in SQLite, not Postgres; we store no more.", decision)
    assert not is_decision_kept("A database was chosen.", decision)
    assert not is_decision_kept("", "so it is")
