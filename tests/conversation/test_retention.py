"""Which facts of the turns that it covers a summary still names."""

from __future__ import annotations

from backstory import model
from backstory.conversation.compaction import (
    DECISIONS,
    FILES,
    MEASURED,
    NUMBERS,
    SHOWN,
    TELLING,
    facts_of,
    is_kept,
    retention,
)
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
    assert kept == {"decisions": (0, 1), "files": (1, 2), "numbers": (1, 2)}


def test_kinds_without_a_fact_are_not_counted() -> None:
    assert retention("anything", facts_of([turn(AssistantText(text="done"))], [])) == ()


def test_a_decision_is_kept_by_most_of_its_words_as_whole_words() -> None:
    decision = "We will store sessions in SQLite instead of Postgres."
    assert is_kept(DECISIONS, "We store sessions in SQLite instead of Postgres now.", decision)
    assert not is_kept(DECISIONS, "Sessions are in SQLite instead of another.", decision)
    assert not is_kept(DECISIONS, "Restores obsessions with SQLiteX instead of Postgresql.", decision)
    assert not is_kept(DECISIONS, "", "so it is")


def test_numbers_and_files_are_whole_ones() -> None:
    assert is_kept(NUMBERS, "It took 12.5 s.", "12.5") and is_kept(NUMBERS, "12 of them", "12")
    assert not is_kept(NUMBERS, "in 2126, v1.12.3, 12,000", "12")
    assert is_kept(FILES, "see src/main.rs.", "/w/src/main.rs")
    assert not is_kept(FILES, "see domain.rs and main.rs.bak", "/w/src/main.rs")
    assert is_kept(FILES, "in b/README.md", "/w/b/README.md") and not is_kept(FILES, "in a/README.md", "/w/b/README.md")


def test_no_heading_and_no_half_sentence_is_a_decision() -> None:
    said = AssistantText(
        text="## Decision: the table\n| Decision | Choice instead of it |\nThis makes sense because of these:\n"
        f"{'Word after word ' * 30} because of it.\nWe must change store.go:67 because it never closes the file."
    )
    assert facts_of([turn(said)], [])["decisions"] == [
        "We must change store.go:67 because it never closes the file.",
    ]


def test_a_kind_of_which_any_summary_names_as_much_is_not_shown() -> None:
    assert {kind for kind, (own, other) in MEASURED.items() if own >= TELLING * other} == SHOWN
    assert "commands" not in {each.kind for each in retention("cargo test", facts_of([turn(ran("cargo test"))], []))}
