"""Texts that lie beside a log: found by a search and by SQL, once, under the name of their file, and gone with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backstory.ask import ranking
from backstory.exchange import replication
from backstory.ingest.reindex import reindex
from backstory.search.query import find, find_exact, find_pattern
from backstory.store import Filter, open_store
from backstory.store.intake.coverage import IndexRule
from tests.support.clock import NOW
from tests.support.machines import CLAUDE_FOLDER, claude_line, lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.search.query import Excerpt
    from backstory.store import Store
    from tests.support.machines import Machine

SESSION = "514f3844-2975-44e4-a4d0-211fd59e36e9"
FOLDER = f".copilot/session-state/{SESSION}"
CLAUDE_SESSION = "011ed182-7e99-4421-9c41-c873947f9fe6"
RESULTS = CLAUDE_FOLDER / CLAUDE_SESSION / "tool-results"
WHOLE = "".join(f"line {n}\n" for n in range(9_000)) + "the wombat at the end\n"
PREVIEW = "line 0\nline 1\n"
SECTIONS = (
    "<overview>We counted quolls.</overview>\n<history>1. numbats came</history>\n<work_done>bilbies</work_done>\n"
    "<technical_details>potoroos</technical_details>\n<important_files>dunnarts</important_files>\n"
    "<next_steps>bettongs</next_steps>"
)
IN_SECTIONS = {
    "quolls": "checkpoint_overview", "numbats": "checkpoint_history", "bilbies": "checkpoint_work_done",
    "potoroos": "checkpoint_technical", "dunnarts": "checkpoint_files", "bettongs": "checkpoint_next_steps",
}  # fmt: skip


def record(kind: str, at: int, **data: Any) -> bytes:
    said = {"type": kind, "data": data, "id": f"{at:08}-0000", "timestamp": f"2026-11-21T21:00:{at:02}.000Z"}
    return json.dumps(said).encode()


def begun(*more: bytes) -> bytes:
    start = record("session.start", 0, sessionId=SESSION, version=1)
    return lines(start, record("user.message", 1, content="Go"), *more)


@pytest.fixture
def made(machine: Machine) -> Machine:
    """A machine with a session that made a plan, files and a report, and that knows nothing yet."""
    machine.write(f"{FOLDER}/events.jsonl", begun())
    machine.write(f"{FOLDER}/plan.md", b"# The plan\nFeed the echidnas at noon.\n")
    machine.write(f"{FOLDER}/files/deep/notes.txt", "Über Känguru".encode())
    machine.write(f"{FOLDER}/research/report.md", b"A report about cassowaries.")
    return machine


def spilled(machine: Machine, *, with_file: bool = True) -> Machine:
    path = f"/home/dev/.claude/projects/-home-dev-work/{CLAUDE_SESSION}/tool-results/b4n2.txt"
    said = (
        f"<persisted-output>\nOutput too large (60KB). Full output saved to: {path}\n\nPreview (first 2KB):\n{PREVIEW}"
    )
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "seq 9000"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": f"{said}...\n</persisted-output>"}
    same: dict[str, Any] = {"sessionId": CLAUDE_SESSION}
    log = lines(
        claude_line("user", "u1", "Count", **same),
        claude_line("assistant", "u2", **same, message={"role": "assistant", "content": [call]}),
        claude_line("user", "u3", **same, message={"role": "user", "content": [result]}),
    )
    machine.write(CLAUDE_FOLDER / f"{CLAUDE_SESSION}.jsonl", log)
    if with_file:
        machine.write(RESULTS / "b4n2.txt", WHOLE.encode())
    machine.read("claude", "copilot")
    return machine


def hits(store: Store, words: str) -> list[Excerpt]:
    return find(store, words, Filter(), limit=9, hits_per_session=None, near=False).excerpts


def indexed(store: Store, words: str) -> list[tuple[Any, ...]]:
    """The rows of the index that SQL gives for words: type, id, file."""
    sql = "select source_type, source_id, file from search_index where search_index match ? order by rank"
    return store.execute_read_only(sql, parameters=(words,)).rows


def rows_kept(store: Store) -> int:
    """The rows that the index holds, those nobody could find included."""
    return int(store.execute_read_only("select count(*) from main.search_index_docsize").rows[0][0])


@pytest.mark.parametrize(
    ("words", "file"),
    [("echidnas", "plan.md"), ("kanguru", "files/deep/notes.txt"), ("cassowaries", "research/report.md")],
)
def test_what_a_session_made_is_found_under_the_name_of_its_file(made: Machine, words: str, file: str) -> None:
    made.read("copilot")
    (hit,) = hits(made.store, words)
    assert (hit.file, hit.scope, hit.session.native_id) == (file, "file", SESSION)
    assert [hit.snippet[a:b].lower().replace("ä", "a") for a, b in hit.marks] == [words]
    source_id = f"{hit.session.id}:workspace:{made.home / FOLDER / file}"
    assert indexed(made.store, words) == [("workspace_artifact", source_id, file)]


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_word_of_very_many_hits_is_found_where_a_session_has_it_in_files_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, *, is_alone: bool
) -> None:
    machine.write(f"{FOLDER}/events.jsonl", begun())
    for n in range(40):
        machine.write(f"{FOLDER}/files/{n:02}.txt", b"quokkas")
    said = (claude_line("user", f"u{n}", "and so on" if is_alone else "quokkas") for n in range(60))
    machine.write(CLAUDE_FOLDER / "s.jsonl", lines(*said))
    machine.read("claude", "copilot")
    few = find(machine.store, "quokkas", Filter(), limit=9, near=False).excerpts
    monkeypatch.setattr(ranking, "RANKED_HITS_MAX", 2)
    many = find(machine.store, "quokkas", Filter(), limit=9, near=False).excerpts
    assert {each.session.native_id for each in many} == {SESSION} | (set() if is_alone else {"s"})
    assert [each.session.id for each in many] == [each.session.id for each in few]


def test_a_file_is_found_to_the_letter_and_by_a_pattern(made: Machine) -> None:
    made.read("copilot")
    for found in (
        find_exact(made.store, "echidnas at noon.", Filter(), limit=9),
        find_pattern(made.store, r"echid\w+ at", Filter(), limit=9),
        find_pattern(made.store, r"[e]chid", Filter(), limit=9),
    ):
        assert [each.file for each in found.excerpts] == ["plan.md"]


def test_a_file_that_is_no_text_or_holds_nothing_is_kept_and_not_found(machine: Machine) -> None:
    machine.write(f"{FOLDER}/events.jsonl", begun())
    for name, data in (("a.bin", b"echidnas\0"), ("b.txt", b"echidnas\xff"), ("c.txt", b" \n")):
        machine.write(f"{FOLDER}/files/{name}", data)
    machine.read("copilot")
    assert rows_kept(machine.store) == 1
    assert hits(machine.store, "echidnas") == []


def test_notes_about_a_session_are_not_its_texts(machine: Machine) -> None:
    machine.write(f"{FOLDER}/events.jsonl", begun())
    machine.write(f"{FOLDER}/workspace.yaml", f"id: {SESSION}\nmc_task_id: echidnas\n".encode())
    machine.read("copilot")
    assert indexed(machine.store, "echidnas") == []


def test_a_file_that_was_written_anew_is_found_by_its_new_words_alone(made: Machine) -> None:
    made.read("copilot")
    before = rows_kept(made.store)
    made.write(f"{FOLDER}/plan.md", b"Feed the tapirs.")
    made.read("copilot")
    assert (len(hits(made.store, "tapirs")), hits(made.store, "echidnas")) == (1, [])
    assert rows_kept(made.store) == before


def test_a_file_whose_text_became_something_else_is_found_no_more(made: Machine) -> None:
    made.read("copilot")
    made.write(f"{FOLDER}/plan.md", b"\0\0echidnas")
    made.read("copilot")
    assert hits(made.store, "echidnas") == []


def test_a_plan_stands_at_the_record_that_last_wrote_it(made: Machine) -> None:
    path = str(made.home / FOLDER / "plan.md")
    calls = [
        each
        for at, tool in ((2, "create"), (5, "view"))
        for each in (
            record(
                "assistant.message", at, messageId=f"m{at}", content="",
                toolRequests=[{"toolCallId": f"c{at}", "name": tool, "arguments": {"path": path}}],
            ),
            record("tool.execution_start", at + 1, toolCallId=f"c{at}", toolName=tool, arguments={"path": path}),
            record("tool.execution_complete", at + 2, toolCallId=f"c{at}", success=True, result={"content": "ok"}),
        )
    ]  # fmt: skip
    made.write(f"{FOLDER}/events.jsonl", begun(*calls))
    made.read("copilot")
    (hit,) = hits(made.store, "echidnas")
    (touched,) = made.store.execute_read_only(
        "select first_seq from session_files where file_path like '%plan.md'"
    ).rows  # fmt: skip
    assert (hit.stored.seq,) == touched


@pytest.mark.parametrize("where", ["log", "file"])
def test_where_a_repository_is_hosted_is_what_the_agent_says(machine: Machine, where: str) -> None:
    at = {"repository": "team/app", "hostType": "ado"} if where == "log" else {}
    start = record("session.start", 0, sessionId=SESSION, version=1, context=at)
    machine.write(f"{FOLDER}/events.jsonl", lines(start, record("user.message", 1, content="Go")))
    if where == "file":
        machine.write(f"{FOLDER}/workspace.yaml", f"id: {SESSION}\nrepository: team/app\nhost_type: ado\n".encode())
    machine.read("copilot")
    asked = "select repository, host_type from sessions"
    assert machine.store.execute_read_only(asked).rows == [("team/app", "ado")]
    assert reindex(machine.store, now=NOW).failed == []
    assert machine.store.execute_read_only(asked).rows == [("team/app", "ado")]


def test_a_copy_is_hosted_where_the_original_is(made: Machine, other: Store) -> None:
    made.write(f"{FOLDER}/workspace.yaml", f"id: {SESSION}\nhost_type: ado\n".encode())
    made.read("copilot")
    replication.copy_session(other, made.store, made.store.sessions()[0].uid)
    assert other.execute_read_only("select host_type from sessions").rows == [("ado",)]


# sections of checkpoints ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["log", "file", "both"])
def test_each_section_of_a_checkpoint_is_found_once(machine: Machine, where: str) -> None:
    compacted = record("session.compaction_complete", 2, success=True, summaryContent=SECTIONS)
    machine.write(f"{FOLDER}/events.jsonl", begun(*([compacted] if where != "file" else [])))
    if where != "log":
        machine.write(f"{FOLDER}/checkpoints/001-counting.md", SECTIONS.encode())
    machine.read("copilot")
    (session,) = machine.store.sessions()
    for word, kind in IN_SECTIONS.items():
        assert indexed(machine.store, word) == [(kind, f"{session.id}:ckpt:1:{kind}", None)], word
        (hit,) = hits(machine.store, word)
        assert hit.snippet[slice(*hit.marks[0])] == word


def test_a_summary_without_sections_is_an_overview(machine: Machine) -> None:
    compacted = record("session.compaction_complete", 2, success=True, summaryContent="We counted quolls.")
    machine.write(f"{FOLDER}/events.jsonl", begun(compacted))
    machine.read("copilot")
    assert [kind for kind, *_ in indexed(machine.store, "quolls")] == ["checkpoint_overview"]


def test_words_outside_the_sections_are_found_with_the_overview(machine: Machine) -> None:
    told = f"Before it, pademelons.\n{SECTIONS}\n<checkpoint_title>Of kowaris</checkpoint_title>"
    machine.write(
        f"{FOLDER}/events.jsonl", begun(record("session.compaction_complete", 2, success=True, summaryContent=told))
    )
    machine.read("copilot")
    for word in ("pademelons", "kowaris"):
        assert [kind for kind, *_ in indexed(machine.store, word)] == ["checkpoint_overview"]


def test_a_checkpoint_that_is_written_anew_leaves_no_words(machine: Machine) -> None:
    machine.write(f"{FOLDER}/events.jsonl", begun())
    machine.write(f"{FOLDER}/checkpoints/001-counting.md", SECTIONS.encode())
    machine.read("copilot")
    before = rows_kept(machine.store)
    machine.write(f"{FOLDER}/checkpoints/001-counting.md", SECTIONS.replace("numbats", "wallabies").encode())
    machine.read("copilot")
    assert (len(indexed(machine.store, "wallabies")), indexed(machine.store, "numbats")) == (1, [])
    assert rows_kept(machine.store) == before


# results that are too long for the log --------------------------------------------------------------------------------


def test_a_long_result_is_found_at_its_record_as_a_whole_and_once(machine: Machine) -> None:
    store = spilled(machine).store
    (hit,) = hits(store, "wombat")
    assert (hit.scope, hit.file, hit.stored.kind) == ("tool_output", None, "ToolResult")
    assert hit.snippet[slice(*hit.marks[0])] == "wombat"
    (session,) = store.sessions()
    assert indexed(store, "wombat") == [("turn", f"{session.id}:turn:0", None)]
    # Also its beginning, which is in the log and in the file.
    assert len(hits(store, '"line 1"')) == 1


def test_a_result_whose_file_comes_later_is_found_then(machine: Machine) -> None:
    store = spilled(machine, with_file=False).store
    assert hits(store, "wombat") == []
    machine.write(RESULTS / "b4n2.txt", WHOLE.encode())
    machine.read("claude")
    assert [each.stored.kind for each in hits(store, "wombat")] == ["ToolResult"]


def test_a_file_whose_result_comes_later_becomes_that(machine: Machine) -> None:
    machine.write(
        CLAUDE_FOLDER / f"{CLAUDE_SESSION}.jsonl", claude_line("user", "u1", "Count", sessionId=CLAUDE_SESSION)
    )
    machine.write(RESULTS / "b4n2.txt", WHOLE.encode())
    machine.read("claude")
    assert [each.stored.kind for each in hits(machine.store, "wombat")] == ["File"]
    spilled(machine)
    assert [each.stored.kind for each in hits(machine.store, "wombat")] == ["ToolResult"]


def test_a_file_that_is_only_talked_about_is_no_result(machine: Machine) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "tool-results/b4n2.txt"}
    same: dict[str, Any] = {"sessionId": CLAUDE_SESSION}
    log = lines(
        claude_line("user", "u1", "Count", **same),
        claude_line("assistant", "u2", **same, message={"role": "assistant", "content": [call]}),
        claude_line("user", "u3", **same, message={"role": "user", "content": [result]}),
    )
    machine.write(CLAUDE_FOLDER / f"{CLAUDE_SESSION}.jsonl", log)
    machine.write(RESULTS / "b4n2.txt", WHOLE.encode())
    machine.read("claude")
    assert [each.stored.kind for each in hits(machine.store, "wombat")] == ["File"]


# what must not happen -------------------------------------------------------------------------------------------------


def all_of_it(machine: Machine) -> dict[str, list[Any]]:
    return {
        word: [(each.file, each.stored.kind, each.stored.seq) for each in hits(machine.store, word)]
        for word in ("echidnas", "kanguru", "cassowaries", "wombat", "numbats", "quolls", "bettongs")
    }


@pytest.fixture
def whole(made: Machine) -> Machine:
    """Everything of the tests above in one store."""
    made.write(
        f"{FOLDER}/events.jsonl", begun(record("session.compaction_complete", 2, success=True, summaryContent=SECTIONS))
    )
    return spilled(made)


@pytest.mark.parametrize("events_too", [False, True])
def test_what_is_derived_anew_is_found_as_before(whole: Machine, *, events_too: bool) -> None:
    before, rows = all_of_it(whole), rows_kept(whole.store)
    assert all(len(found) == 1 for found in before.values())
    assert reindex(whole.store, now=NOW, events_too=events_too).failed == []
    assert (all_of_it(whole), rows_kept(whole.store)) == (before, rows)
    assert whole.store.verify().problems == []


def test_of_a_session_that_was_removed_no_word_is_left(whole: Machine) -> None:
    whole.store.remove(*whole.store.sessions())
    whole.read("claude", "copilot")
    assert not any(all_of_it(whole).values())
    assert rows_kept(whole.store) == 0


def test_a_session_that_is_not_to_be_indexed_has_no_text_in_the_index(machine: Machine) -> None:
    machine.store.index_rule = lambda: IndexRule(repositories=("someone/else",))
    machine.write(f"{FOLDER}/workspace.yaml", f"id: {SESSION}\nrepository: me/app\n".encode())
    machine.write(f"{FOLDER}/plan.md", b"echidnas")
    machine.write(f"{FOLDER}/checkpoints/001-a.md", SECTIONS.encode())
    machine.write(f"{FOLDER}/events.jsonl", begun())
    spilled(machine)
    assert rows_kept(machine.store) == 0


def test_without_an_index_nothing_is_put_into_it(machine: Machine) -> None:
    machine.store.index_rule = lambda: IndexRule(enabled=False)
    machine.write(f"{FOLDER}/plan.md", b"echidnas")
    machine.write(f"{FOLDER}/events.jsonl", begun())
    spilled(machine)
    assert rows_kept(machine.store) == 0


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "other.db", now=lambda: NOW) as store:
        yield store


@pytest.mark.parametrize("copies", [replication.merge, replication.copy_session])
def test_a_copy_of_a_session_has_its_texts(whole: Machine, other: Store, copies: Any) -> None:
    for session in whole.store.sessions():
        copies(other, whole.store, session.uid)
    found = {word: [each.file for each in hits(other, word)] for word in all_of_it(whole)}
    assert found == {word: [file for file, *_ in rows] for word, rows in all_of_it(whole).items()}
    assert rows_kept(other) == rows_kept(whole.store)
    assert other.verify().problems == []


def test_no_row_of_the_index_is_without_a_source(whole: Machine) -> None:
    (found,) = whole.store.execute_read_only(
        "select count(*), count(source_type), count(source_id), count(distinct source_type) from search_index"
    ).rows
    assert found[0] == found[1] == found[2] > 0
    assert found[3] == 8
