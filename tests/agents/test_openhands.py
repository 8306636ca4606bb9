"""OpenHands: one file an event, tokens in a state beside them, and what a command's end says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.agents.openhands.log import Conversations
from backstory.ingest.ingest import ingest
from backstory.ingest.reindex import reindex
from backstory.model import AssistantText, Compacted, Error, Hook, Thinking, ToolCall, ToolResult, UserMessage
from tests.support.clock import NOW
from tests.support.folders import files_below
from tests.support.machines import Machine, lies, restored
from tests.support.promises import keeps, promise
from tests.support.recorded import cases_of, count_of, counted, home_of
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import Event

NAME = "openhands"
FOLDER = Path(".openhands/conversations")
TOOLS = [(NAME, "tools")]
ID = "1f597ae10647496ca615985eaf8b1154"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


def conversation(home: Path) -> Path:
    """The folder of the only conversation."""
    (found,) = (home / FOLDER).iterdir()
    return found


def events_of(machine: Machine) -> list[Event]:
    (session,) = machine.store.sessions()
    return [each.event for each in machine.store.events(session)]


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"timestamp": "2026-11-23T07:00:00.123456", "source": "agent", "kind": kind, **more}


def typed(text: str, source: str = "user") -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return event("MessageEvent", source=source, llm_message={"role": "user", "content": content})


def wrote(machine: Machine, *said: dict[str, Any], state: dict[str, Any] | None = None) -> Path:
    """A conversation of these events."""
    for number, each in enumerate(said):
        own = f"{number:08}-0000-4000-8000-000000000000"
        machine.write(FOLDER / ID / f"events/event-{number:05}-{own}.json", json.dumps({"id": own, **each}).encode())
    if state is not None:
        machine.write(FOLDER / ID / "base_state.json", json.dumps(state).encode())
    return machine.home / FOLDER / ID


# what was done --------------------------------------------------------------------------------------------------------


@promise(1, TOOLS)
def test_a_command_that_ended_with_127_has_failed(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, agent, case)
    machine.read(agent)
    results = [each for each in events_of(machine) if isinstance(each, ToolResult)]
    assert [each.is_error for each in results] == [False, False, False, True]
    assert "127" in results[-1].content


@promise(1, TOOLS)
def test_tokens_that_come_after_their_answers_count_the_same(
    agent: str, case: str, machine: Machine, tmp_path: Path
) -> None:
    home = home_of(tmp_path, agent, case)
    state = conversation(home) / "base_state.json"
    content = state.read_bytes()
    state.unlink()
    machine.read(agent)
    (session,) = machine.store.sessions()
    assert [turn.tokens.output for turn in machine.store.turns(session)] == [None]
    state.write_bytes(content)
    machine.read(agent)
    assert counted(machine.store)["tokens"] == count_of(agent, case)["tokens"]


@promise(1, cases_of(NAME))
def test_events_that_come_one_by_one_say_what_all_at_once_do(
    agent: str, case: str, machine: Machine, tmp_path: Path
) -> None:
    home = home_of(tmp_path / "whole", agent, case)
    whole = conversation(home)
    for name, content in files_below(whole).items():
        machine.write(FOLDER / whole.name / name, content)
        machine.read(agent)
    found = {key: value for key, value in count_of(agent, case).items() if key not in ("recorded", "said")}
    assert counted(machine.store) == found
    reindex(machine.store, now=NOW, events_too=True)
    assert counted(machine.store) == found


def test_tokens_of_an_earlier_turn_are_counted_there(machine: Machine) -> None:
    usage = {"model": "m", "prompt_tokens": 100, "completion_tokens": 7, "cache_read_tokens": 40, "response_id": "r1"}
    answer = event("MessageEvent", llm_response_id="r1", llm_message={"role": "assistant", "content": "Yes."})
    said = [typed("One"), answer, typed("Two")]
    wrote(machine, *said)
    machine.read(NAME)
    wrote(machine, *said, state={"stats": {"token_usages": [usage]}})
    machine.read(NAME)
    (session,) = machine.store.sessions()
    tokens = [(turn.tokens.input, turn.tokens.cache_read, turn.tokens.output) for turn in machine.store.turns(session)]
    assert tokens == [(60, 40, 7), (None, None, None)]


def test_a_time_without_a_zone_is_that_of_the_machine_and_the_uid_is_the_same_everywhere(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = wrote(machine, typed("One"))
    agent = agents.load(NAME)
    head = (folder / "events").glob("*.json").__next__().read_bytes()
    began = set()
    for zone in ("UTC", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        identity = agent.log.identify(folder / "events", head)
        assert identity is not None
        began.add(identity.began)
    assert began == {1_795_417_200_123}


def test_a_conversation_whose_state_is_there_before_its_first_event_begins_with_that_one(machine: Machine) -> None:
    folder = wrote(machine, state={"workspace": {"working_dir": "/w"}})
    (folder / "events").mkdir()
    assert [each.path for each in machine.read(NAME).not_understood] == [str(folder / "events")]
    wrote(machine, typed("One"))
    assert machine.read(NAME).not_understood == []
    (session,) = machine.store.sessions()
    assert (session.created, session.cwd) == ("2026-11-23T07:00:00.123Z", "/w")
    assert [turn.prompt for turn in machine.store.turns(session)] == ["One"]
    assert machine.store.verify().problems == []


# how it ended ---------------------------------------------------------------------------------------------------------


@promise(4, TOOLS)
@pytest.mark.parametrize("last", [2, 4, 9])
def test_a_turn_that_was_broken_off_is_unfinished(
    agent: str, case: str, last: int, machine: Machine, tmp_path: Path
) -> None:
    home = home_of(tmp_path, agent, case)
    for path in (conversation(home) / "events").glob("event-*"):
        if int(path.name.split("-")[1]) > last:
            path.unlink()
    machine.read(agent)
    (session,) = machine.store.sessions()
    assert [turn.outcome for turn in machine.store.turns(session)] == [None]


@keeps(4, NAME)
def test_a_pause_is_a_cancelled_turn_and_an_error_a_failed_one(machine: Machine) -> None:
    failed = event("ConversationErrorEvent", source="environment", code="RateLimit", detail="Too many requests.")
    wrote(machine, typed("One"), event("PauseEvent", source="user"), typed("Two"), failed)
    machine.read(NAME)
    (session,) = machine.store.sessions()
    assert [turn.outcome for turn in machine.store.turns(session)] == ["cancelled", "failed"]
    assert [each.message for each in events_of(machine) if isinstance(each, Error)] == ["paused", "Too many requests."]


@keeps(5, NAME)
def test_what_a_hook_says_in_the_users_place_is_no_prompt(machine: Machine) -> None:
    wrote(machine, typed("One"), typed("The hook says no.", source="environment"))
    machine.read(NAME)
    said = events_of(machine)
    assert [each.content for each in said if isinstance(each, UserMessage)] == ["One"]
    assert [each.output for each in said if isinstance(each, Hook)] == ["The hook says no."]


def test_thoughts_and_the_last_words_of_a_finish_are_shown(machine: Machine) -> None:
    think = event("ActionEvent", tool_call_id="1", action={"kind": "ThinkAction", "thought": "Hm."})
    finish = event("ActionEvent", tool_call_id="2", action={"kind": "FinishAction", "message": "It is done."})
    ended = event("ObservationEvent", tool_call_id="2", observation={"kind": "FinishObservation", "content": []})
    wrote(machine, typed("One"), think, finish, ended)
    machine.read(NAME)
    said = [each for each in events_of(machine) if isinstance(each, Thinking | AssistantText | ToolCall | ToolResult)]
    assert said == [Thinking(text="Hm."), AssistantText(text="It is done.")]
    (session,) = machine.store.sessions()
    assert [turn.outcome for turn in machine.store.turns(session)] == ["completed"]


def test_a_call_that_was_refused_has_failed(machine: Machine) -> None:
    action = {"kind": "TerminalAction", "command": "rm -r x"}
    call = event("ActionEvent", tool_call_id="1", tool_name="terminal", action=action)
    refused = event("UserRejectObservation", source="user", tool_call_id="1", rejection_reason="No.")
    wrote(machine, typed("One"), call, refused)
    machine.read(NAME)
    results = [each for each in events_of(machine) if isinstance(each, ToolResult)]
    assert [(each.content, each.is_error, each.tool) for each in results] == [("No.", True, "SHELL")]


def test_a_condensation_is_shown_with_its_summary(machine: Machine) -> None:
    wrote(machine, typed("One"), event("Condensation", summary="They asked for one."), typed("Two"))
    machine.read(NAME)
    assert [each.summary for each in events_of(machine) if isinstance(each, Compacted)] == ["They asked for one."]


# bytes, places, bad input ---------------------------------------------------------------------------------------------


@promise(10, cases_of(NAME))
def test_every_file_is_given_back_and_none_is_touched(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home = home_of(tmp_path, agent, case)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*")}
    machine.read(agent)
    for each in restored(machine.store, tmp_path / "out"):
        lies(each)
    kept = {name: data for name, data in files_below(home / ".openhands").items() if not name.endswith(".lock")}
    assert files_below(tmp_path / "out" / agent) == kept
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*")} == before


@promise(11, cases_of(NAME))
def test_a_first_ingest_names_the_agent_with_its_sessions(
    agent: str, case: str, machine: Machine, tmp_path: Path
) -> None:
    home_of(tmp_path, agent, case)
    found = machine.read(agent).by_agent[agent]
    assert (found.sessions_new, found.bytes_read > 0) == (count_of(agent, case)["sessions"], True)


@pytest.mark.parametrize("variable", ["OPENHANDS_PERSISTENCE_DIR", "OPENHANDS_CONVERSATIONS_DIR"])
@promise(12, TOOLS)
def test_a_folder_that_was_moved_is_read_there(
    agent: str, case: str, variable: str, machine: Machine, tmp_path: Path
) -> None:
    moved = home_of(tmp_path / "moved", agent, case) / ".openhands"
    environ = {variable: str(moved / "conversations" if "CONVERSATIONS" in variable else moved)}
    ingest(machine.store, [agents.load(agent)], environ=environ, home=machine.home, now=NOW)
    assert len(machine.store.sessions()) == 1


@promise(9, TOOLS)
def test_an_event_that_is_missing_is_named_and_the_others_are_read(
    agent: str, case: str, machine: Machine, tmp_path: Path
) -> None:
    home = home_of(tmp_path, agent, case)
    next((conversation(home) / "events").glob("event-00004-*")).unlink()
    report = machine.read(agent)
    assert [each.reason for each in report.not_understood] == ["event 00004 is missing: kept as far as it can be read"]
    assert counted(machine.store)["tool_calls"] == 3


@keeps(9, NAME)
def test_an_event_that_is_cut_short_is_read_when_it_is_whole(machine: Machine) -> None:
    folder = wrote(machine, typed("One"), typed("Two"))
    second = next((folder / "events").glob("event-00001-*"))
    whole = second.read_bytes()
    second.write_bytes(whole[:50])
    machine.read(NAME)
    second.write_bytes(whole)
    (folder / "events" / "x").touch()
    machine.read(NAME)
    assert [each.content for each in events_of(machine) if isinstance(each, UserMessage)] == ["One", "Two"]


def test_events_are_in_the_order_of_their_numbers() -> None:
    names = [f"events/event-{number:05}-x.json" for number in (1, 0, 2)]
    found = Conversations().order(["base_state.json", "events/notes.json", *names], lambda name: b"")
    assert (found.names, found.missing) == ([names[1], "base_state.json", names[0], names[2]], None)


def test_a_session_is_resumed_by_its_id_and_a_folder_that_is_gone_is_put_back(tmp_path: Path) -> None:
    shell = Shell(home_of(tmp_path, NAME, "tools"))
    shell("ingest")
    (uid,) = [each["uid"] for each in shell("list", "--all", "--json").json()["sessions"]]
    printed = shell("resume", uid, "--cwd", str(shell.cwd), "--print").out
    assert printed.endswith("openhands --resume 1625cfd2c2734c4fa6f8ff01915e0b2e\n")
    before = files_below(shell.home / ".openhands")
    shutil.rmtree(shell.home / ".openhands")
    assert "backstory restore --in-place" in shell("resume", uid, "--cwd", str(shell.cwd), "--print").err
    shell("restore", "--in-place", "--cwd", str(shell.cwd), uid)
    # A lock is kept from no folder.
    assert files_below(shell.home / ".openhands") == {
        name: each for name, each in before.items() if ".lock" not in name
    }
