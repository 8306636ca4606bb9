"""ah's databases, written by its own rules: what is read of them, and that they stay as they were."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.agents import ah
from backstory.agents.ah.log import Databases
from backstory.agents.contract import UnreadableDatabase
from backstory.conversation.tree import get_ancestry, get_leaves
from backstory.derive.essence import words_of
from backstory.export.full_form import FullForms
from backstory.ingest import databases
from backstory.ingest.ingest import ingest
from backstory.ingest.log_reader import numbered_lines
from backstory.ingest.reindex import reindex
from backstory.ingest.report import IngestReport
from backstory.model import AssistantText, Event, Hook, ToolResult, Turn, UserMessage
from backstory.store.tables import decisions
from tests.support import ah_files
from tests.support.ah_files import CASES, SESSION, AhFile, call, result, ulid
from tests.support.clock import NOW
from tests.support.machines import Machine, lies, restored
from tests.support.reading import CASES as CASE_FOLDER
from tests.support.reading import told

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder that the agent is used in."""
    return tmp_path / "project"


def put(project: Path, case: str) -> AhFile:
    return CASES[case][0](project / ".ah" / ah_files.file_name(case))


def read(machine: Machine, project: Path) -> IngestReport:
    return ingest(machine.store, [agents.load("ah")], environ={"PWD": str(project)}, home=machine.home, now=NOW)


def turns(machine: Machine, native_id: str = SESSION) -> list[Turn]:
    return machine.store.turns(machine.store.session(native_id))


def prompts(machine: Machine, native_id: str = SESSION) -> list[str]:
    return [turn.prompt for turn in turns(machine, native_id)]


def numbers(machine: Machine, native_id: str = SESSION) -> dict[str, int]:
    """The number of each record that has an id."""
    found = {}
    for log in machine.store.logs(machine.store.session(native_id)):
        for line, seq in numbered_lines(machine.store, log):
            if own := ah.AGENT.log.native_id_of(line):
                found[own] = seq
    return found


def said(machine: Machine, kind: type[Any], native_id: str = SESSION) -> list[Any]:
    events = machine.store.events(machine.store.session(native_id))
    return [each.event for each in events if isinstance(each.event, kind) and not is_state(each.event)]


def is_state(event: Event) -> bool:
    return isinstance(event, Hook) and event.is_state


def asked(machine: Machine, sql: str) -> list[Any]:
    return machine.store.execute_read_only(sql, 100).rows


def lies_there(folder: Path) -> dict[str, tuple[str, int]]:
    """Every file below a folder: its content and its time."""
    return {
        each.name: (hashlib.sha256(each.read_bytes()).hexdigest(), each.stat().st_mtime_ns)
        for each in folder.rglob("*")
        if each.is_file()
    }


# what is read -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_the_log_of_a_case_is_what_is_read_of_its_database(case: str, tmp_path: Path) -> None:
    assert ah_files.log_of(case, tmp_path) == (CASE_FOLDER / "ah" / case / "log.jsonl").read_bytes()


def test_a_fork_follows_the_message_it_was_made_at(machine: Machine, project: Path) -> None:
    put(project, "tree")
    read(machine, project)
    hello, lua, python = turns(machine)
    assert [turn.prompt for turn in (hello, lua, python)] == ["Hello", "Tell me about Lua", "Tell me about Python"]
    assert (hello.parent_uid, lua.parent_uid, python.parent_uid) == (None, hello.uid, hello.uid)
    assert (lua.parent_seq, python.parent_seq) == (hello.last_seq, hello.last_seq)


def test_a_fork_inside_a_turn_follows_the_message_it_was_made_at(machine: Machine, project: Path) -> None:
    file = put(project, "tree")
    looked = file.ask("select message_id from content_blocks where tool_id = 'toolu_1' and block_type = 'tool_result'")
    file.user("Look elsewhere", parent=looked[0][0])
    read(machine, project)
    fork = turns(machine)[-1]
    followed = [each for each in machine.store.events(machine.store.session(SESSION)) if each.seq == fork.parent_seq]
    assert [each.kind for each in followed] == ["ToolResult"]


def test_a_prompt_behind_a_failed_one_follows_its_error_and_begins_no_branch(machine: Machine, project: Path) -> None:
    put(project, "busy")
    read(machine, project)
    found = turns(machine)
    assert [turn.parent_seq for turn in found[1:]] == [turn.last_seq for turn in found[:-1]]


def test_of_two_branches_the_current_one_is_gone_on_with(machine: Machine, project: Path) -> None:
    put(project, "checked-out")
    read(machine, project)
    assert prompts(machine)[-1] == "Tell me about Lua"
    (leaf,) = asked(machine, "select user_message from turns where uid = (select leaf_uid from main.sessions)")
    assert leaf == ("Tell me about Lua",)


def test_a_message_that_the_next_one_follows_is_told_where_it_is_no_tip(machine: Machine, project: Path) -> None:
    file = put(project, "checked-out-inside")
    read(machine, project)
    current = file.ask("select value from context where key = 'current_message'")[0][0]
    assert Hook(name="current_message", output=current) in said(machine, Hook)


def test_a_session_goes_on_at_the_message_that_was_checked_out_inside_a_branch(machine: Machine, project: Path) -> None:
    put(project, "checked-out-inside")
    read(machine, project)
    session = machine.store.session(SESSION)
    leaf = machine.store.leaf(session)
    assert leaf is not None
    events = [each for each in machine.store.events(session) if each.kind != "Complete" and each.seq <= leaf.seq]
    told = [each.event for each in events if not is_state(each.event)]
    assert (leaf.uid, told[-1]) == (turns(machine)[0].uid, AssistantText(text="Hi there"))


def test_follow_ups_side_by_side_are_told_one_after_the_other(machine: Machine, project: Path) -> None:
    put(project, "followups")
    read(machine, project)
    begin, paint, dry = turns(machine)
    assert (paint.parent_uid, dry.parent_uid) == (begin.uid, paint.uid)


def test_prompts_side_by_side_that_were_not_queued_stay_branches(machine: Machine, project: Path) -> None:
    file = AhFile(project / ".ah" / f"{SESSION}.db")
    file.user("Begin", parent=None)
    answered = file.answer("Begun.")
    file.user("one way", parent=answered)
    file.user("another way", parent=answered, wait=0)
    read(machine, project)
    begin, one, another = turns(machine)
    assert (one.parent_uid, another.parent_uid) == (begin.uid, begin.uid)


def test_a_call_whose_result_never_came_has_none_and_its_neighbour_has(machine: Machine, project: Path) -> None:
    put(project, "interrupted-between-calls")
    read(machine, project)
    assert asked(machine, "select tool_use_id, output, is_error from tool_calls order by seq, part") == [
        ("toolu_1", "one is done", 0),
        ("toolu_2", None, None),
    ]
    assert prompts(machine) == ["Do both", "Go on"]


def test_an_answer_without_blocks_is_a_record_that_says_nothing(machine: Machine, project: Path) -> None:
    file = AhFile(project / ".ah" / f"{SESSION}.db")
    file.user("Hello", parent=None)
    empty = file.message("assistant", stop_reason="end_turn")
    read(machine, project)
    assert numbers(machine)[f"messages:{empty}"] == 3
    assert said(machine, AssistantText) == []
    assert turns(machine)[0].outcome == "completed"


def test_a_result_has_all_of_its_output(machine: Machine, project: Path) -> None:
    file = AhFile(project / ".ah" / f"{SESSION}.db")
    output = "".join(f"line {n}\n" for n in range(100_000))
    file.user("Print", parent=None)
    file.answer(call("bash", "toolu_1", command="seq"))
    file.message("user", result("toolu_1", output))
    read(machine, project)
    (found,) = [each for each in machine.store.events(machine.store.session(SESSION)) if each.kind == "ToolResult"]
    full = FullForms(machine.store).expand(found)
    assert isinstance(full, ToolResult)
    assert full.content == output


def test_results_of_one_call_on_two_branches_both_have_its_tool(machine: Machine, project: Path) -> None:
    file = AhFile(project / ".ah" / f"{SESSION}.db")
    file.user("Look", parent=None)
    asked_at = file.answer(call("bash", "toolu_1", command="ls"))
    file.message("user", result("toolu_1", "one nest"))
    file.message("user", result("toolu_1", "two nests"), parent=asked_at)
    read(machine, project)
    assert [each.tool_name for each in said(machine, ToolResult)] == ["bash", "bash"]


def test_more_branches_than_are_remembered_lose_only_the_oldest_turns_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ah.log, "TURNS_OPEN_MAX", 2)
    lines = [b'{"table":"session","row":{"id":"s"}}']
    for n in range(3):
        text = b'[{"block_type":"text","content":"prompt %d"}]' % n
        lines.append(b'{"table":"messages","row":{"id":"p%d","role":"user","seq":0},"blocks":%s}' % (n, text))
    for n in range(3):
        row = b'{"id":"a%d","parent_id":"p%d","role":"assistant","seq":1,"model":"m"}' % (n, n)
        lines.append(b'{"table":"messages","row":%s,"blocks":[]}' % row)
    found = told("ah", b"\n".join(lines)).in_order()
    assert [(turn.prompt, turn.last_seq, turn.model) for turn in found] == [
        ("prompt 0", 2, None),
        ("prompt 1", 6, "m"),
        ("prompt 2", 7, "m"),
    ]


def test_prompts_without_ids_in_two_sessions_are_two_turns() -> None:
    prompt = b'{"table":"messages","row":{"role":"user"},"blocks":[{"block_type":"text","content":"Hello"}]}'
    first, second = (told("ah", b'{"table":"session","row":{"id":"%s"}}\n%s' % (own, prompt)) for own in (b"a", b"b"))
    assert first.turns.keys().isdisjoint(second.turns)


def test_what_no_version_wrote_is_unknown_and_counted() -> None:
    lines = [
        b'{"table":"session","row":{"id":"s"}}',
        b'{"table":"messages","row":{"id":"m","role":"user","seq":0},"blocks":[{"block_type":"video"}]}',
        b'{"table":"events","row":{"id":"e","event_type":"applause"}}',
        b'{"table":"content_blocks","row":{"id":"b"}}',
        b'{"table":"verdicts","row":{"id":"v"}}',
    ]
    assert told("ah", b"\n".join(lines)).unknown == {
        "block video": 1,
        "event applause": 1,
        "content_blocks without a message": 1,
        "verdicts": 1,
    }


def test_blocks_whose_message_was_deleted_are_kept(machine: Machine, project: Path) -> None:
    file = put(project, "tree")
    file.ask("delete from messages where seq = 5")
    report = read(machine, project)
    assert report.unknown_records == {"content_blocks without a message": 1}


def test_a_fork_from_before_all_that_is_remembered_is_a_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ah.log, "MESSAGES_KNOWN_MAX", 3)
    lines = (CASE_FOLDER / "ah" / "tree" / "log.jsonl").read_bytes()
    assert [turn.parent_uid is None for turn in told("ah", lines).in_order()] == [True, False, True]


def test_a_session_that_begins_with_an_answer_has_it_before_its_first_turn(machine: Machine, project: Path) -> None:
    file = AhFile(project / ".ah" / f"{SESSION}.db")
    file.answer("I begin", parent=None)
    file.user("And I go on")
    read(machine, project)
    assert [each.text for each in said(machine, AssistantText)] == ["I begin"]
    assert prompts(machine) == ["And I go on"]


def test_branches_have_the_leaves_and_the_ancestry_that_they_have_there(machine: Machine, project: Path) -> None:
    put(project, "tree")
    read(machine, project)
    found = turns(machine)
    assert [[each.prompt for each in get_ancestry(found, leaf.uid)] for leaf in get_leaves(found)] == [
        ["Hello", "Tell me about Python"],
        ["Hello", "Tell me about Lua"],
    ]


def test_a_time_has_the_milliseconds_that_its_id_has(machine: Machine, project: Path) -> None:
    file = AhFile(project / ".ah" / f"{SESSION}.db")
    file.user("Hello", parent=None, id=ulid(7, (ah_files.START + 1) * 1000 + 250))
    file.answer("Hi", id=ulid(8))
    read(machine, project)
    (turn,) = turns(machine)
    assert (turn.started, turn.ended) == ((ah_files.START + 1) * 1000 + 250, (ah_files.START + 2) * 1000)


def test_an_events_details_and_a_blocks_own_columns_are_kept_as_they_are(machine: Machine, project: Path) -> None:
    put(project, "busy")
    read(machine, project)
    (log,) = machine.store.logs()
    records = [json.loads(line) for line, _ in numbered_lines(machine.store, log)]
    details = [each["row"]["details"] for each in records if each["row"].get("event_type") == "retry"]
    assert details == ['{"attempt": 2, "delay_ms": 1000, "status": 529, "error": "overloaded"}']
    results = [block for each in records for block in each.get("blocks", []) if block["block_type"] == "tool_result"]
    assert [block["duration_ms"] for block in results] == [12, 12, 250, 12, 0]


def test_sql_has_the_duration_and_the_details_of_a_result(machine: Machine, project: Path) -> None:
    put(project, "busy")
    read(machine, project)

    def full_form(session_id: int, seq: int, part: int | None) -> Event | None:
        (stored,) = machine.store.events(session_id, after=(seq, (part or 0) - 1), limit=1)
        return FullForms(machine.store).expand(stored)

    def asked(sql: str) -> list[object]:
        rows = machine.store.execute_read_only(sql, full_form=full_form).rows
        return [value for row in rows for value in row]

    blocks = "select {} from content_blocks where block_type = '{}' order by id"
    assert asked(blocks.format("duration_ms", "tool_result")) == [12, 12, 250, 12, 0]
    assert set(asked(blocks.format("duration_ms", "tool_use"))) == {12, 250, 0}
    assert set(asked("select duration_ms from tool_calls")) == {12, 250, 0}
    ended = "select json_extract(details, '$.duration_ms') from events where event_type = 'tool_call_end' order by id"
    assert asked(ended) == [12, 12, 250, 12, 0]
    records = [json.loads(line) for line, _ in numbered_lines(machine.store, machine.store.logs()[0])]
    in_file = [block["details"] for each in records for block in each.get("blocks", []) if "tool_result" in str(block)]
    assert asked(blocks.format("details", "tool_result")) == in_file


def test_sql_has_the_changes_of_state_as_the_file_has_them(machine: Machine, project: Path) -> None:
    file = put(project, "busy")
    read(machine, project)
    in_file = file.ask("select details, created_at from events where event_type = 'state_change' order by rowid")
    assert len(in_file) > 1
    in_sql = "select details, created_at from events where event_type = 'state_change' order by id"
    assert asked(machine, in_sql) == [tuple(each) for each in in_file]


def test_a_change_of_state_is_neither_drawn_nor_found(machine: Machine, project: Path) -> None:
    put(project, "busy")
    read(machine, project)
    states = [each.event for each in machine.store.events(machine.store.session(SESSION)) if is_state(each.event)]
    assert {words_of(each).tone for each in states} == {""}
    assert asked(machine, "select count(*) from search_index where search_index match 'to_state'") == [(0,)]


def test_sql_has_the_keys_that_a_person_gave_a_session(machine: Machine, project: Path) -> None:
    file = put(project, "busy")
    file.know("ticket", "OPS-12")
    file.know("session_name", "Busy bee")
    read(machine, project)
    own = "select key, value from context where key not in ('current_message', 'session_state') order by key"
    assert asked(machine, own) == [("session_name", "Busy bee"), ("ticket", "OPS-12")]
    file.know("ticket", "OPS-13")
    read(machine, project)
    assert asked(machine, "select value from context where key = 'ticket'") == [("OPS-13",)]
    assert reindex(machine.store, now=NOW, events_too=True).failed == []
    assert asked(machine, "select value from context where key = 'ticket'") == [("OPS-13",)]
    machine.store.remove(machine.store.session(SESSION))
    assert asked(machine, "select count(*) from main.session_values") == [(0,)]


def test_a_key_that_is_set_here_too_has_the_value_that_was_set_here(machine: Machine, project: Path) -> None:
    file = put(project, "busy")
    file.know("ticket", "OPS-12")
    read(machine, project)
    uid = machine.store.session(SESSION).uid
    for value, seen in (("A-1", "A-1"), (None, "OPS-12")):
        machine.store.decide(decisions.set_context, uid, "ticket", value, machine.store.now())
        assert asked(machine, "select value from context where key = 'ticket'") == [(seen,)]
        assert asked(machine, "select value from context_values where key = 'ticket'") == [(seen,)]


def test_details_of_a_result_are_in_its_full_form_alone(machine: Machine, project: Path) -> None:
    file = AhFile(project / ".ah" / f"{SESSION}.db")
    file.user("Print", parent=None)
    file.answer(call("bash", "toolu_1", command="ls"))
    file.message("user", result("toolu_1", "a", details='{"exit_code":0}', duration_ms=None))
    read(machine, project)
    (found,) = [each for each in machine.store.events(machine.store.session(SESSION)) if each.kind == "ToolResult"]
    full = FullForms(machine.store).expand(found)
    assert isinstance(full, ToolResult) and isinstance(found.event, ToolResult)
    assert (full.details, full.duration_ms) == ('{"exit_code":0}', None)
    assert found.event.details == ""


@pytest.mark.parametrize("is_fork_current", [False, True])
@pytest.mark.parametrize("is_behind_the_result", [False, True])
def test_a_fork_behind_a_call_leaves_the_branch_current_that_was(
    machine: Machine, project: Path, is_behind_the_result: bool, is_fork_current: bool
) -> None:
    file = AhFile(project / ".ah" / f"{SESSION}.db")
    file.user("Look", parent=None)
    asked = file.answer("Let me.", call("bash", "toolu_1", command="ls"))
    came = file.message("user", result("toolu_1", "a"))
    first = file.answer("It is here.")
    file.user("Another way", parent=came if is_behind_the_result else asked)
    fork = file.answer("It is there.")
    tip = fork if is_fork_current else first
    file.ask("insert or replace into context(key, value) values ('current_message', ?)", tip)
    read(machine, project)
    session = machine.store.session(SESSION)
    texts = [
        event.text
        for turn in machine.store.context_turns(session, 10_000)
        for event in turn.events
        if isinstance(event, AssistantText)
    ]
    assert texts == ["Let me.", "It is there." if is_fork_current else "It is here."]


def test_texts_in_the_queue_are_told_in_the_order_they_came(machine: Machine, project: Path) -> None:
    file = put(project, "tree")
    for number in range(5):
        file.wait_with("followup" if number % 2 else "steer", f"text {number}")
    read(machine, project)
    assert [each.output for each in said(machine, Hook)] == [f"text {number}" for number in range(5)]


# tokens -------------------------------------------------------------------------------------------------------


def test_tokens_are_those_of_the_calls_and_counted_once(machine: Machine, project: Path) -> None:
    put(project, "tree")
    read(machine, project)
    tokens = turns(machine)[1].tokens
    assert (tokens.input, tokens.output, tokens.cache_write, tokens.cache_read) == (5, 29, 4, 220)


def test_without_events_tokens_are_those_of_the_messages(machine: Machine, project: Path) -> None:
    file = put(project, "tree")
    file.run("drop table events")
    read(machine, project)
    tokens = turns(machine)[1].tokens
    assert (tokens.input, tokens.output) == (107 + 122, 29)


def test_a_version_that_did_not_count_tells_no_tokens(machine: Machine, project: Path) -> None:
    put(project, "early")
    read(machine, project)
    (turn,) = turns(machine)
    assert (turn.tokens.input, turn.tokens_source) == (None, None)


# how long the model took --------------------------------------------------------------------------------------


def test_how_long_the_model_took_is_that_of_a_turns_answers_and_counted_once(machine: Machine, project: Path) -> None:
    put(project, "tree")
    read(machine, project)
    # Each answer says it, and the event of its call says it again.
    assert [turn.api_latency_ms for turn in turns(machine)] == [700, 1400, 700]


def test_where_answers_do_not_say_how_long_the_model_took_the_events_of_their_calls_do(
    machine: Machine, project: Path
) -> None:
    file = put(project, "tree")
    file.run("update messages set api_latency_ms = null")
    read(machine, project)
    assert [turn.api_latency_ms for turn in turns(machine)] == [700, 1400, 700]


def test_a_version_that_did_not_measure_tells_no_latency(machine: Machine, project: Path) -> None:
    put(project, "early")
    read(machine, project)
    assert [turn.api_latency_ms for turn in turns(machine)] == [None]


# a database that changes --------------------------------------------------------------------------------------


def test_a_database_that_is_as_it_was_is_not_copied_again(
    machine: Machine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(project, "busy")
    read(machine, project)
    monkeypatch.setattr(databases, "copied", None)
    assert read(machine, project).total("logs_read") == 0


def test_a_session_that_went_on_has_more_records_and_those_before_keep_their_numbers(
    machine: Machine, project: Path
) -> None:
    file = put(project, "tree")
    read(machine, project)
    before = numbers(machine)
    file.begin()
    file.user("And Tcl?")
    file.answer("Also a language")
    file.end()
    read(machine, project)
    after = numbers(machine)
    assert {own: after[own] for own in before} == before
    assert prompts(machine)[-1] == "And Tcl?"
    assert [log.generation for log in machine.store.logs()] == [1]


def test_a_session_is_read_again_and_again_while_it_runs_without_being_kept_twice(
    machine: Machine, project: Path
) -> None:
    file = AhFile(project / ".ah" / f"{SESSION}.db")
    file.begin()
    for n in range(4):
        file.user(f"Question {n}", **({"parent": None} if n == 0 else {}))
        read(machine, project)
        file.answer(f"Answer {n}")
        read(machine, project)
    file.know("session_name", "named late")
    file.wait_with("followup", "and then?")
    read(machine, project)
    file.ask("update queue_messages set consumed_at = 1", path=file.queue_path)
    file.end()
    read(machine, project)
    assert len(machine.store.logs()) == 1
    assert prompts(machine) == [f"Question {n}" for n in range(4)]
    assert machine.store.session(SESSION).title == "named late"


def test_what_was_deleted_there_stays_here(machine: Machine, project: Path) -> None:
    file = put(project, "tree")
    read(machine, project)
    for table, column in (("content_blocks", "message_id"), ("messages", "id")):
        file.ask(f"delete from {table} where {column} in (select id from messages where seq = 2 or seq > 3)")
    read(machine, project)
    assert prompts(machine) == ["Hello", "Tell me about Lua", "Tell me about Python"]


def test_what_is_only_in_the_journal_is_read_and_nothing_there_changes(machine: Machine, project: Path) -> None:
    file = put(project, "tree")
    with closing(sqlite3.connect(file.path, isolation_level=None)) as writer:
        writer.execute("pragma wal_autocheckpoint = 0")
        current = writer.execute("select value from context where key = 'current_message'").fetchone()[0]
        writer.execute(
            "insert into messages(id, parent_id, role, seq, created_at) values (?, ?, 'user', 4, ?)",
            (ulid(500), current, file.at),
        )
        writer.execute(
            "insert into content_blocks(id, message_id, block_type, seq, content) values (?, ?, 'text', 0, ?)",
            (ulid(501), ulid(500), "In the journal"),
        )
        before = lies_there(project)
        read(machine, project)
        assert lies_there(project) == before
    assert prompts(machine)[-1] == "In the journal"


def test_a_text_that_only_the_queue_got_is_read(machine: Machine, project: Path) -> None:
    file = put(project, "tree")
    read(machine, project)
    file.wait_with("steer", "be brief")
    read(machine, project)
    assert Hook(name="queued steer", output="be brief") in said(machine, Hook)


def test_the_rows_are_told_again_from_the_store_alone(machine: Machine, project: Path, tmp_path: Path) -> None:
    file = put(project, "busy")
    read(machine, project)
    before = machine.content()
    file.path.unlink()
    reindex(machine.store, now=NOW)
    assert machine.content() == before


def test_a_kept_log_is_given_back_as_it_was_read(machine: Machine, project: Path, tmp_path: Path) -> None:
    put(project, "tree")
    read(machine, project)
    session = machine.store.session(SESSION)
    (told,) = restored(machine.store, tmp_path / "out", only=session)
    recorded = (CASE_FOLDER / "ah" / "tree" / "log.jsonl").read_bytes()
    assert lies(told).read_bytes() == recorded.replace(b"/home/dev/work", str(project).encode())


# where they lie -----------------------------------------------------------------------------------------------


def test_one_file_may_hold_several_sessions(machine: Machine, project: Path) -> None:
    put(project, "single")
    read(machine, project)
    found = {session.native_id: session.title for session in machine.store.sessions()}
    base = ah_files.START * 1000
    assert found == {ulid(1, base + 1): "alpha", ulid(2, base + 2): None}
    assert prompts(machine, ulid(1, base + 1)) == ["Question 1"]


def test_the_first_version_of_all_lies_in_the_home_folder(machine: Machine, tmp_path: Path) -> None:
    put(machine.home, "first")
    read(machine, tmp_path / "elsewhere")
    assert prompts(machine, ulid(2)) == ["Question 2"]


def test_a_file_without_a_name_of_its_own_is_known_by_its_first_message(machine: Machine, project: Path) -> None:
    file = ah_files.tree(project / ".ah" / "notes.db")
    read(machine, project)
    assert prompts(machine, file.ask("select id from messages where seq = 0")[0][0])[0] == "Hello"


def test_sessions_of_the_repository_are_found_from_a_folder_below(machine: Machine, project: Path) -> None:
    put(project, "tree")
    (project / ".git").mkdir()
    below = project / "src" / "deep"
    below.mkdir(parents=True)
    read(machine, below)
    assert len(prompts(machine)) == 3
    assert machine.store.session(SESSION).cwd == str(project)


def test_a_database_that_was_seen_is_read_again_from_anywhere(machine: Machine, project: Path, tmp_path: Path) -> None:
    file = put(project, "tree")
    read(machine, project)
    file.user("Later")
    put(project, "single")
    read(machine, tmp_path)
    assert prompts(machine)[-1] == "Later"
    assert len(machine.store.sessions()) == 3


def test_a_place_that_is_named_is_read(machine: Machine, project: Path, tmp_path: Path) -> None:
    file = put(project, "tree")
    for place in (project, project / ".ah", file.path):
        found = databases.sessions_without_logs([agents.load("ah")], {}, machine.home, {}, [place])
        assert [each.native_id for each in found if isinstance(each, databases.DatabaseRows)] == [SESSION]


def test_texts_queued_for_a_session_that_never_was_are_kept(machine: Machine, project: Path) -> None:
    path = project / ".ah" / f"{SESSION}.queue.db"
    file = AhFile(path, ah_files.QUEUE, queue=False)
    file.insert("queue_messages", message_type="steer", content="to nobody", created_at=file.at)
    read(machine, project)
    assert said(machine, Hook) == [Hook(name="queued steer", output="to nobody")]


def test_a_queue_beside_its_session_is_no_session(machine: Machine, project: Path) -> None:
    put(project, "tree")
    assert Databases().databases_in(project) == [project / ".ah" / f"{SESSION}.db"]


def test_an_empty_file_is_no_session(machine: Machine, project: Path) -> None:
    (project / ".ah").mkdir(parents=True)
    (project / ".ah" / f"{SESSION}.db").write_bytes(b"")
    report = read(machine, project)
    assert (report.errors, report.by_agent, machine.store.exists) == ([], {}, False)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"no database at all" * 100, "not a database"), (None, "it has no messages")]
)
def test_a_file_that_is_no_such_database_is_told(
    machine: Machine, project: Path, content: bytes | None, reason: str
) -> None:
    path = project / ".ah" / f"{SESSION}.db"
    path.parent.mkdir(parents=True)
    if content is None:
        AhFile(path, "create table recipes(name text);", queue=False)
    else:
        path.write_bytes(content)
    (problem,) = read(machine, project).errors
    assert (problem.path, reason in problem.reason) == (str(path), True)


def test_a_damaged_database_is_refused_and_the_others_are_read(machine: Machine, project: Path) -> None:
    put(project, "single")
    file = put(project, "busy")
    file.run("pragma journal_mode=delete")
    data = bytearray(file.path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    file.path.write_bytes(data)
    report = read(machine, project)
    assert [problem.path for problem in report.errors] == [str(file.path)]
    assert len(machine.store.sessions()) == 2


def test_a_schema_whose_words_are_no_text_is_refused_in_words(machine: Machine, project: Path) -> None:
    file = put(project, "tree")
    file.run("pragma journal_mode=delete")
    file.path.write_bytes(
        file.path.read_bytes().replace(b"CREATE TABLE messages", b"CREATE \xff\xff\xff\xff\xff messages")
    )
    (problem,) = read(machine, project).errors
    assert problem.path == str(file.path)
    assert problem.reason.startswith("malformed database schema")
    assert problem.reason.isprintable()


def test_links_in_a_circle_are_told_and_the_others_are_read(machine: Machine, project: Path) -> None:
    put(project, "tree")
    circle = project / ".ah" / "circle.db"
    circle.symlink_to("circle.db")
    (problem,) = read(machine, project).errors
    assert problem.path == str(circle)
    assert len(prompts(machine)) == 3


def test_what_names_no_session_of_several_is_kept_with_the_first(machine: Machine, project: Path) -> None:
    file = put(project, "single")
    file.ask("update events set conversation_id = null where event_type = 'api_call_end'")
    file.ask("update work_iterations set conversation_id = null")
    file.ask("delete from messages where rowid = 2")
    read(machine, project)
    kept = [line for log in machine.store.logs() for line, _ in numbered_lines(machine.store, log)]
    told = [json.loads(line)["table"] for line in kept]
    for table in ("events", "work_iterations"):
        assert told.count(table) == file.ask(f"select count(*) from {table}")[0][0]
    assert told.count("content_blocks") == 1


def test_work_of_a_version_that_did_not_say_whose_it_is_is_told_once(machine: Machine, project: Path) -> None:
    file = put(project, "single")
    file.run("alter table work_iterations drop column conversation_id")
    read(machine, project)
    kept = b"".join(data for log in machine.store.logs() for data in machine.store.stream_log(log.id))
    assert kept.count(b'"table":"work_iterations"') == 1


def test_a_database_of_any_name_is_read_when_it_is_named(machine: Machine, project: Path) -> None:
    file = ah_files.tree(project / "notes.session")
    found = databases.sessions_without_logs([agents.load("ah")], {}, machine.home, {}, [file.path])
    assert [each.native_id for each in found if isinstance(each, databases.DatabaseRows)] != []


def test_a_database_that_nobody_copied_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(UnreadableDatabase):
        list(Databases().sessions_without_logs(tmp_path / "x.db", tmp_path / "missing" / "x.db"))


def test_words_of_the_user_are_those_that_no_rule_wrote(machine: Machine, project: Path) -> None:
    put(project, "busy")
    read(machine, project)
    assert prompts(machine) == ["Count the files", "Once more", "And more", "Spend all"]
    assert [each.content for each in said(machine, UserMessage)][:2] == ["Count the files", "only python"]
    assert [turn.outcome for turn in turns(machine)] == ["completed", "cancelled", "failed", "failed"]
