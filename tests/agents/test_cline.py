"""Cline: documents that are written anew, messages that come again, what no person typed, and how a session stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.agents import logs_of_others
from backstory.agents.cline.resume import Resuming
from backstory.agents.contract import InUse
from backstory.derive.essence import exit_code
from backstory.export.full_form import FullForms
from backstory.ingest.ingest import ingest
from backstory.ingest.reindex import reindex
from backstory.model import (
    AssistantText,
    Compacted,
    Hook,
    Relation,
    ToolCall,
    ToolResult,
    UserMessage,
)  # fmt: skip
from tests.support.clock import NOW
from tests.support.machines import Machine, differences, lies, restored
from tests.support.promises import keeps, promise
from tests.support.reading import Told, told
from tests.support.recorded import cases_of, count_of, home_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import Event

NAME = "cline"
SESSIONS = Path(".cline/data/sessions")
SESSION = "1795416800190_nr9ah"
LOG = SESSIONS / SESSION / f"{SESSION}.messages.json"
STATE = LOG.with_name(f"{SESSION}.json")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


def logs_in(home: Path) -> list[Path]:
    return sorted((home / SESSIONS).rglob("*.messages.json"))


def message(key: str, role: str, *content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": key, "role": role, "content": list(content), "ts": 1_795_416_802_376 + sum(key.encode()), **more}


def typed(key: str, text: str) -> dict[str, Any]:
    return message(key, "user", said(f'<user_input mode="act">{text}</user_input>'))


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def answer(key: str, *content: dict[str, Any], output: int = 5) -> dict[str, Any]:
    metrics = {"inputTokens": 100, "outputTokens": output, "cacheReadTokens": 60, "cacheWriteTokens": 10}
    return message(key, "assistant", *content, modelInfo={"id": "m"}, metrics=metrics)


def called(name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"of-{name}", "name": name, "input": given}


def returned(name: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": f"of-{name}", "name": name, "content": content}


def document(*messages: dict[str, Any], at: int = 0, session: str = SESSION) -> bytes:
    head = {"version": 1, "updated_at": f"2026-11-23T06:53:{at:02}.436Z", "agent": "lead", "sessionId": session}
    whole = {**head, "origin": {"version": "3.0.65"}, "messages": list(messages), "system_prompt": "You are."}
    return json.dumps(whole, indent=2).encode() + b"\n"


def read(*messages: dict[str, Any]) -> Told:
    return told(NAME, document(*messages), LOG)


def seen(machine: Machine, *versions: bytes) -> None:
    for data in versions:
        machine.write(LOG, data)
        assert machine.read(NAME).errors == []


def events(machine: Machine) -> list[Event]:
    return [each.event for each in machine.store.events(machine.store.sessions()[0])]


def words(machine: Machine) -> list[str]:
    return [each.text for each in events(machine) if isinstance(each, AssistantText)]


# a document that is written anew --------------------------------------------------------------------------------------

FIRST = (typed("u1", "One"), answer("a1", said("First.")))
SECOND = (typed("u2", "Two"), answer("a2", said("Second.")))


def test_a_document_that_grew_says_what_it_says_at_once(machine: Machine) -> None:
    seen(machine, document(FIRST[0]), document(*FIRST, at=1), document(*FIRST, SECOND[0], at=2))
    uids = [turn.uid for turn in machine.store.turns(machine.store.sessions()[0])]
    seen(machine, document(*FIRST, *SECOND, at=3))
    turns = machine.store.turns(machine.store.sessions()[0])
    assert [turn.uid for turn in turns] == uids
    assert [(turn.prompt, turn.outcome) for turn in turns] == [("One", "completed"), ("Two", "completed")]
    assert [(each.tokens.input, each.tokens.cache_read, each.tokens.output) for each in turns] == [(30, 60, 5)] * 2
    assert words(machine) == ["First.", "Second."]


def test_a_message_that_is_dropped_or_written_anew_stays(machine: Machine) -> None:
    rewritten = answer("a1", said("[old words were removed]"))
    seen(machine, document(*FIRST, *SECOND), document(FIRST[0], rewritten, *SECOND, at=1), document(*SECOND, at=2))
    assert words(machine) == ["First.", "Second."]
    assert [turn.tokens.output for turn in machine.store.turns(machine.store.sessions()[0])] == [5, 5]
    (log,) = machine.store.logs()
    kept = b"".join(machine.store.stream_log(log.id))
    assert b"[old words were removed]" in kept and b"First." in kept


def test_a_message_that_grew_says_what_is_new_in_it(machine: Machine) -> None:
    begun = answer("a1", said("First."), output=2)
    seen(machine, document(FIRST[0], begun), document(FIRST[0], answer("a1", said("First."), said("More.")), at=1))
    (turn,) = machine.store.turns(machine.store.sessions()[0])
    assert (words(machine), turn.tokens.output, turn.tokens.cache_read) == (["First.", "More."], 5, 60)


def test_the_newest_file_is_given_back(machine: Machine, tmp_path: Path) -> None:
    seen(machine, document(*FIRST), document(*FIRST, *SECOND, at=1), document(*SECOND, at=2))
    (given,) = restored(machine.store, tmp_path / "out")
    assert Path(lies(given)).read_bytes() == document(*SECOND, at=2)
    assert machine.store.verify().problems == []


def test_what_is_kept_says_the_same_again(machine: Machine) -> None:
    seen(machine, document(*FIRST), document(*FIRST, *SECOND, at=1), document(*SECOND, at=2))
    before = machine.content()
    assert reindex(machine.store, now=NOW, events_too=True).failed == []
    assert differences(machine.content(), before) == []


def test_an_append_stores_what_is_new(machine: Machine) -> None:
    long = [typed(f"u{n}", f"{n} " * 2_000) for n in range(20)]
    seen(machine, document(*long))
    (log,) = machine.store.logs()
    before = log.read_to
    for count in range(30):
        long.append(answer(f"a{count}", said("Word. " * 10)))
        seen(machine, document(*long, at=count))
    (log,) = machine.store.logs()
    new = sum(len(json.dumps(each, indent=2)) for each in long[20:])
    # A version more is what stands before the messages, and a line of ours.
    assert log.read_to - before < 2 * new + 30 * 500 < before


def test_a_document_in_two_places_is_one_session(machine: Machine) -> None:
    seen(machine, document(*FIRST, *SECOND))
    machine.write(SESSIONS / "copy" / LOG.name, document(*FIRST, *SECOND))
    machine.write(SESSIONS / "older" / LOG.name, document(*FIRST, at=9))
    assert machine.read(NAME).errors == []
    (session,) = machine.store.sessions()
    assert (len(machine.store.turns(session)), words(machine)) == (2, ["First.", "Second."])
    assert machine.read(NAME).total("logs_read") == 0


@pytest.mark.parametrize("share", range(1, 12))
def test_a_document_that_was_half_written_is_whole_the_next_time(machine: Machine, tmp_path: Path, share: int) -> None:
    data = document(*FIRST, *SECOND)
    seen(machine, data[: len(data) * share // 12], data)
    assert words(machine) == ["First.", "Second."]
    given = [Path(lies(each)).read_bytes() for each in restored(machine.store, tmp_path / "out")]
    assert data in given


# promises -------------------------------------------------------------------------------------------------------------


@promise(4, [(NAME, "cancel"), (NAME, "cancel-tool")])
def test_a_cancelled_turn_is_cancelled(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, agent, case)
    machine.read(agent)
    (session,) = machine.store.sessions()
    assert [turn.outcome for turn in machine.store.turns(session)] == ["cancelled"]
    assert (session.outcome, session.completed) == ("cancelled", 0)


@keeps(4, NAME)
@pytest.mark.parametrize(
    ("status", "outcome"), [("running", None), ("completed", None), ("failed", "failed"), (3, None)]
)
def test_a_turn_without_an_answer_ends_as_its_session_did(machine: Machine, status: Any, outcome: str | None) -> None:
    machine.write(STATE, json.dumps({"session_id": SESSION, "status": status}).encode())
    seen(machine, document(typed("u1", "One")))
    assert [turn.outcome for turn in machine.store.turns(machine.store.sessions()[0])] == [outcome]


@keeps(4, NAME)
def test_a_turn_with_an_answer_stays_completed_when_the_session_is_cancelled(machine: Machine) -> None:
    machine.write(STATE, b'{"status":"cancelled"}')
    seen(machine, document(*FIRST))
    assert machine.store.sessions()[0].outcome == "completed"


@keeps(5, NAME)
def test_what_the_client_says_is_no_prompt() -> None:
    found = read(
        typed("u1", "One"),
        answer("a1", called("run_commands", commands=["ls"])),
        message(
            "r1", "user", returned("run_commands", [{"query": "ls", "result": "a.py", "success": True}]), said("Go on.")
        ),
        message("c1", "user", said("Context summary:\n\n## Goal\nOne")),
        message("c2", "user", said("You did not call a tool.")),
        message("u2", "user", said('<user_input mode="plan"><mode_notice>Now plan.</mode_notice>\nTwo</user_input>')),
    )
    assert found.prompts() == ["One", "Two"]
    assert [each.output for each in found.all(Hook)] == ["Go on.", "You did not call a tool."]
    assert [each.summary for each in found.all(Compacted)] == ["Context summary:\n\n## Goal\nOne"]


@keeps(5, NAME)
def test_words_without_a_mark_are_typed_where_none_has_one() -> None:
    assert read(message("u1", "user", said("One")), message("u2", "user", said("Two"))).prompts() == ["One", "Two"]


@keeps(5, NAME)
def test_files_behind_a_prompt_are_not_typed() -> None:
    text = '<user_input mode="act">See @a.py</user_input>\n<file_content path="a.py">secret</file_content>'
    assert read(message("u1", "user", said(text))).prompts() == ["See @a.py"]


@promise(7, [(NAME, "subagent")])
def test_a_subagent_is_a_child_and_counts_once(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, agent, case)
    machine.read(agent)
    (session,) = machine.store.sessions()
    (child,) = machine.store.children(session)
    assert (child.relation, child.first_prompt) == (Relation.SUBAGENT, "HELPER: Which file holds the test?")
    (own,), (helpers,) = machine.store.turns(session), machine.store.turns(child)
    assert (own.tokens.input, own.tokens.output, helpers.tokens.input, helpers.tokens.output) == (3_200, 52, 1_500, 29)
    assert [each.content for each in events(machine) if isinstance(each, ToolResult)] == ["test_price.py holds it."]


@promise(9, [(NAME, "tools")])
def test_a_damaged_message_affects_no_other(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    (log,) = logs_in(home_of(tmp_path, agent, case))
    data = log.read_bytes().replace(b'"text": "Run the tests."', b'"text": Run the tests.')
    log.write_bytes(data)
    machine.write(LOG.with_name("other.messages.json"), document(*FIRST, session="1795416800191_other"))
    report = machine.read(agent)
    assert (report.unknown_records, report.errors) == ({"not JSON": 1}, [])
    assert sorted(len(machine.store.turns(each)) for each in machine.store.sessions()) == [1, 1]
    assert data in [Path(lies(each)).read_bytes() for each in restored(machine.store, tmp_path / "out")]


@keeps(9, NAME)
@pytest.mark.parametrize("odd", [None, 1, "text", [], {}, {"role": "user", "content": 5}, {"role": "wizard"}])
def test_odd_messages_are_read_for_what_they_are(odd: Any) -> None:
    found = read(*FIRST, odd, *SECOND)
    assert (found.prompts(), [turn.tokens.output for turn in found.in_order()]) == (["One", "Two"], [5, 5])


@promise(10, cases_of(NAME))
def test_every_file_is_given_back_and_none_is_touched(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home = home_of(tmp_path, agent, case)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*")}
    machine.read(agent)
    out = tmp_path / "out"
    for each in restored(machine.store, out):
        lies(each)
    given = {path.relative_to(out / agent): path.read_bytes() for path in out.rglob("*.json")}
    lay = (home / SESSIONS).rglob("*.json")
    assert given == {path.relative_to(home / ".cline" / "data"): path.read_bytes() for path in lay}
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*")} == before


@promise(11, [(NAME, "tools"), (NAME, "cancel")])
def test_a_first_ingest_names_the_agent_with_its_sessions(
    agent: str, case: str, machine: Machine, tmp_path: Path
) -> None:
    home_of(tmp_path, agent, case)
    found = machine.read(agent).by_agent[agent]
    assert (found.sessions_new, found.bytes_read > 0) == (count_of(agent, case)["sessions"], True)


@pytest.mark.parametrize(
    ("variable", "below"),
    [("CLINE_DIR", ".cline"), ("CLINE_DATA_DIR", ".cline/data"), ("CLINE_SESSION_DATA_DIR", ".cline/data/sessions")],
)
@promise(12, [(NAME, "hello")])
def test_a_folder_that_was_moved_is_read_there(
    agent: str, case: str, variable: str, below: str, machine: Machine, tmp_path: Path
) -> None:
    moved = home_of(tmp_path / "moved", agent, case) / below
    ingest(machine.store, [agents.load(agent)], environ={variable: str(moved)}, home=machine.home, now=NOW)
    assert len(machine.store.sessions()) == 1


@keeps(12, NAME)
def test_tasks_of_the_editors_extension_are_named(tmp_path: Path) -> None:
    tasks = tmp_path / ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks"
    for name in ("1", "2"):
        (tasks / name).mkdir(parents=True)
        (tasks / name / "api_conversation_history.json").write_text("[]")
    assert logs_of_others(tmp_path) == {"cline (editor extension)": 2}


# facts ----------------------------------------------------------------------------------------------------------------


def test_the_state_of_a_session_gives_its_facts(machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, NAME, "tools")
    machine.read(NAME)
    (session,) = machine.store.sessions()
    assert (session.cwd, session.branch, session.created[:19]) == ("/home/dev/shop", "main", "2026-11-23T06:53:20")
    assert session.title is not None and session.title.startswith("Fix gross() so that it adds the VAT")


def test_a_failed_command_has_its_exit_code(machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, NAME, "tools")
    machine.read(NAME)
    stored, full = machine.store.events(machine.store.sessions()[0]), FullForms(machine.store)
    results = [each for each in events(machine) if isinstance(each, ToolResult)]
    assert [each.is_error for each in results] == [False, False, False, True]
    (whole, *_) = (full.expand(each) for each in reversed(stored) if isinstance(each.event, ToolResult))
    assert isinstance(whole, ToolResult) and exit_code(whole.content, is_error=True) == 127
    files = [each.file_path for each in events(machine) if isinstance(each, ToolCall)]
    assert files == ["/home/dev/shop/price.py", "/home/dev/shop/price.py", None, None]


@pytest.mark.parametrize(
    ("content", "words", "failed"),
    [
        ("plain", "plain", False),
        ('{"query":"x","result":"done","success":true}', "done", False),
        ('{"result":"","error":"No such file","success":false}', "No such file", True),
        ('[{"result":"a","success":true},{"result":"b","error":"b","success":false}]', "a\nb", True),
        ([{"type": "text", "text": "seen"}, {"type": "image", "source": {}}], "seen\n[image]", False),
        ({"text": "half", "finishReason": "error"}, "half", True),
        ('{"of":"another"}', '{"of":"another"}', False),
        ("{broken", "{broken", False),
        (None, "", False),
    ],
)
def test_a_result_is_what_the_tool_said(content: Any, words: str, failed: bool) -> None:
    found = read(typed("u1", "One"), answer("a1", called("x")), message("r1", "user", returned("x", content)))
    (result,) = found.all(ToolResult)
    assert (result.content, result.is_error, result.tool_name) == (words, failed, "x")


def test_an_image_alone_is_a_prompt() -> None:
    found = read(message("u1", "user", {"type": "image", "source": {}}))
    assert [each.content for each in found.all(UserMessage)] == ["[image]"]


def test_a_process_that_has_the_session_is_named(tmp_path: Path) -> None:
    state = tmp_path / "sessions" / SESSION / f"{SESSION}.json"
    state.parent.mkdir(parents=True)
    assert Resuming().in_use(tmp_path, SESSION) == []
    state.write_text('{"pid":37,"status":"running"}')
    assert Resuming().in_use(tmp_path, SESSION) == [InUse(pid=37)]
    state.write_text('{"pid":37,"ended_at":"2026-11-23T06:53:30.525Z"}')
    assert Resuming().in_use(tmp_path, SESSION) == []
