"""Vibe: a session's folder as it grows, from its journal to a new generation, and what its states say of turns."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.agents.conformance import folder_faults
from backstory.agents.vibe.resume import Resuming
from backstory.ingest.ingest import ingest
from backstory.model import (
    AssistantText,
    Compacted,
    Error,
    Hook,
    LogIdentity,
    Outcome,
    Relation,
    ToolCall,
    ToolResult,
)  # fmt: skip
from tests.support.clock import NOW
from tests.support.folders import files_below
from tests.support.machines import Machine, looked_up, prompts, restored
from tests.support.promises import keeps, promise
from tests.support.reading import Told, told
from tests.support.recorded import cases_of, count_of, counted, home_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import Turn

NAME = "vibe"
UNIFIED = Path(".vibe/logs/session/unified")
ID = "3dc0d394-ea6a-87ca-3625-1f5c09a11e73"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


def folder_in(home: Path) -> Path:
    """The folder of the only session of a home."""
    (head,) = (home / UNIFIED).glob("*/CURRENT")
    return head.parent


def expected(case: str) -> dict[str, Any]:
    return {key: value for key, value in count_of(NAME, case).items() if key not in ("recorded", "said")}


def turns(machine: Machine) -> list[Turn]:
    (session,) = machine.store.sessions()
    return machine.store.turns(session)


def as_it_was(folder: Path, generation: str, later: Path, journal_lines: int | None = None) -> None:
    """Take from a folder what came after a generation, which is then the newest; ``later`` is given all of it.

    ``journal_lines``: of the generation's journal only so many lines were written.
    """
    shutil.copytree(folder, later)
    manifest = json.loads((folder / f"generations/{generation}/manifest.json").read_text())
    current = json.loads((folder / "CURRENT").read_text()) | {"generation": generation}
    (folder / "CURRENT").write_text(json.dumps(current))
    for each in (folder / "generations").iterdir():
        if each.name > generation:
            shutil.rmtree(each)
    parts = ("checkpoint", "projection_state", "runtime_state")
    kept = {f"{name}.json" for part in parts for name in manifest[part]["chunks"]}
    for each in (folder / "chunks").iterdir():
        if each.name not in kept:
            each.unlink()
    segment = folder / manifest["recovery_journal_segment"]["path"]
    for each in (folder / "journal").iterdir():
        if each.name > segment.name:
            each.unlink()
    if journal_lines is not None:
        segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[:journal_lines]))


def become(folder: Path, later: Path) -> None:
    """Give a folder what it was later."""
    shutil.rmtree(folder)
    shutil.copytree(later, folder, copy_function=shutil.copy)


# a folder as it grows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [0, 2, 3, 9, 16, 40, 59, 64])
@promise(3, [(NAME, "tools"), (NAME, "acp")])
def test_a_turn_is_told_once_from_its_journal_and_its_chunks(
    agent: str, case: str, written: int, machine: Machine, tmp_path: Path
) -> None:
    folder = folder_in(home_of(tmp_path, agent, case))
    as_it_was(folder, "0000000000000001", tmp_path / "later", written)
    machine.read(agent)
    before = [(turn.uid, turn.outcome) for turn in turns(machine)]
    become(folder, tmp_path / "later")
    report = machine.read(agent)
    assert (report.errors, report.unknown_records) == ([], {})
    assert counted(machine.store) == expected(case)
    (turn,) = turns(machine)
    # Until its end stood there it was not over.
    assert [uid for uid, _ in before] == ([turn.uid] if written > 2 else [])
    ends = {"tools": 59, "acp": 64}[case]
    assert {outcome for _, outcome in before} <= ({None} if written < ends else {Outcome.COMPLETED})
    assert turn.outcome == Outcome.COMPLETED


@pytest.mark.parametrize("generation", ["0000000000000008"])
@promise(3, [(NAME, "cancel"), (NAME, "compact")])
def test_a_session_that_goes_on_has_its_turns_as_they_were(
    agent: str, case: str, generation: str, machine: Machine, tmp_path: Path
) -> None:
    folder = folder_in(home_of(tmp_path, agent, case))
    as_it_was(folder, generation, tmp_path / "later", 0)
    machine.read(agent)
    (before,) = turns(machine)
    become(folder, tmp_path / "later")
    machine.read(agent)
    assert turns(machine)[0] == before
    assert counted(machine.store) == expected(case)


@promise(3, [(NAME, "tools")])
def test_a_journal_that_grows_is_noticed(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    folder = folder_in(home_of(tmp_path, agent, case))
    as_it_was(folder, "0000000000000001", tmp_path / "later", 3)
    machine.read(agent)
    assert [turn.outcome for turn in turns(machine)] == [None]
    shutil.copy(tmp_path / "later/journal/0000000000000001.jsonl", folder / "journal")
    assert machine.read(agent).total("logs_read") == 1
    assert counted(machine.store) == expected(case)


@promise(1, [(NAME, "compact")])
def test_each_turn_has_its_own_tokens(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, agent, case)
    machine.read(agent)
    spent = [(turn.tokens.input, turn.tokens.output, turn.tokens.largest_input) for turn in turns(machine)]
    assert spent == [(127_000, 24, 127_000), (2_600, 36, 1_300)]


# turns ----------------------------------------------------------------------------------------------------------------


@promise(4, [(NAME, "cancel")])
def test_an_answer_that_was_interrupted_is_cancelled(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, agent, case)
    machine.read(agent)
    assert [turn.outcome for turn in turns(machine)] == [Outcome.CANCELLED, Outcome.COMPLETED]
    (session,) = machine.store.sessions()
    said = [each.event for each in machine.store.events(session)]
    (broken,) = [each for each in said if isinstance(each, Error)]
    assert broken.code == "interrupted"
    assert any(isinstance(each, AssistantText) and each.text.startswith("Counting slowly") for each in said)


@promise(5, cases_of(NAME))
def test_every_prompt_is_one_that_a_person_gave(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, agent, case)
    machine.read(agent)
    asked = ("What does gross()", "Fix gross()", "Count to four", "Never mind", "And which test")
    assert all(prompt.startswith(asked) for prompt in prompts(machine.store))


@promise(6, [(NAME, "compact")])
def test_a_compaction_has_its_summary(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, agent, case)
    machine.read(agent)
    (session,) = machine.store.sessions()
    (found,) = [each.event for each in machine.store.events(session) if isinstance(each.event, Compacted)]
    assert found.summary == "GrossTest.test_gross in test_price.py: it wants gross(100) to be 119.0."
    assert [turn.prompt[:18] for turn in turns(machine)] == ["What does gross() ", "And which test wou"]
    assert machine.store.search("price.py return today").hits


def data_of(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in records)


def entry(number: int, kind: str, **more: Any) -> dict[str, Any]:
    at = 1_795_416_431_000 + number
    said = {"type": kind, "id": f"e{number}", "sessionId": ID, "turnId": "t1", "createdAt": at, "updatedAt": at}
    return said | {"generationStatus": "completed"} | more


def typed(number: int, text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return entry(number, "message", role="user", content=content, source="turn_start", **more)


def state(status: str, sent: int, output: int) -> dict[str, Any]:
    usage = {"inputTokens": sent, "cachedInputTokens": 0, "outputTokens": output}
    snapshot = {"latestTurn": {"id": "t1", "status": status}, "session": {"tokenUsage": usage, "contextUsage": usage}}
    return {"projection_state_version": 1, "session_id": ID, "snapshot": snapshot}


def read(*records: dict[str, Any], cuts: tuple[int, ...] = ()) -> Told:
    return told(NAME, data_of(*records), UNIFIED / ID / "CURRENT", cuts)


@keeps(5, NAME)
def test_what_the_agent_says_in_a_persons_place_is_no_prompt() -> None:
    said = read(typed(1, "Go"), typed(2, "Remember the rules.") | {"source": "harness"})
    assert (said.prompts(), len(said.all(Hook))) == (["Go"], 1)


def test_words_that_are_typed_while_a_turn_goes_on_begin_none() -> None:
    said = read(typed(1, "Go"), typed(2, "And quickly.") | {"source": "steer"})
    assert ([turn.prompt for turn in said.in_order()], said.prompts()) == (["Go"], ["Go", "And quickly."])


@keeps(4, NAME)
@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("in_progress", None),
        ("completed", Outcome.COMPLETED),
        ("interrupted", Outcome.CANCELLED),
        ("failed", Outcome.FAILED),
    ],
)
def test_a_turn_without_an_answer_is_as_the_state_says(status: str, outcome: str | None) -> None:
    (turn,) = read(state(status, 10, 0), typed(1, "Go")).in_order()
    assert turn.outcome == outcome


@pytest.mark.parametrize("cuts", [(), (1,), (1, 2, 3)])
def test_tokens_of_a_state_that_is_seen_again_count_once(cuts: tuple[int, ...]) -> None:
    records = (state("completed", 10, 3), typed(1, "Go"), state("completed", 30, 5), state("completed", 10, 3))
    (turn,) = read(*records, state("completed", 30, 5), cuts=cuts).in_order()
    assert (turn.tokens.input, turn.tokens.output) == (30, 5)


def effect(number: int, status: str, code: int = 0) -> dict[str, Any]:
    output = {"type": "success", "structured_content": {"returncode": code, "stdout": "", "stderr": "no such file\n"}}
    called = {"kind": "tool", "toolName": "file_system.bash", "input": {"command": "cat x"}}
    return entry(number, "effect", detail=called, state={"status": status, "output": output})


@keeps(1, NAME)
def test_a_command_failed_if_its_exit_code_says_so() -> None:
    (result,) = read(typed(1, "Go"), effect(2, "completed", 127)).all(ToolResult)
    assert (result.is_error, result.content, result.details) == (True, "no such file\n", '{"returncode":127}')


@keeps(3, NAME)
def test_a_call_that_comes_again_with_its_result_is_told_once() -> None:
    said = read(typed(1, "Go"), effect(2, "running"), effect(2, "completed"), effect(2, "completed"))
    assert (len(said.all(ToolCall)), len(said.all(ToolResult))) == (1, 1)


def test_an_unknown_entry_is_counted() -> None:
    said = read(typed(1, "Go"), entry(2, "hologram"))
    assert said.unknown == {"entry/hologram": 1}


def test_an_entry_of_long_ago_that_comes_again_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backstory.agents.vibe.reader.SEEN_MAX", 3)
    records = [typed(1, "Go"), effect(2, "completed"), *(effect(number, "completed") for number in range(3, 9))]
    assert len(read(*records, effect(2, "completed") | {"title": "again"}, cuts=(5, 8)).all(ToolCall)) == 7


# whose it is ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parent", "root", "identity"),
    [
        (None, ID, LogIdentity(native_id=ID)),
        ("p", ID, LogIdentity(native_id=ID, parent_native_id="p", relation=Relation.FORK)),
        ("p", "p", LogIdentity(native_id=ID, parent_native_id="p", relation=Relation.SUBAGENT)),
    ],
)  # fmt: skip
def test_a_session_names_the_one_that_it_helps_or_copies(parent: str | None, root: str, identity: LogIdentity) -> None:
    head = data_of({"session_id": ID, "parent_session_id": parent}, {"snapshot": {"session": {"rootSessionId": root}}})
    assert agents.load(NAME).log.identify(UNIFIED / ID / "CURRENT", head) == identity


# bad input ------------------------------------------------------------------------------------------------------------


def damaged(folder: Path, how: str) -> None:
    state = json.loads((folder / "CURRENT").read_text())
    manifest = json.loads((folder / f"generations/{state['generation']}/manifest.json").read_text())
    chunk = folder / f"chunks/{manifest['projection_state']['chunks'][0]}.json"
    match how:
        case "missing":
            chunk.unlink()
        case "cut":
            chunk.write_bytes(chunk.read_bytes()[:900])
        case "no manifest":
            (folder / f"generations/{state['generation']}/manifest.json").unlink()
        case "no head":
            (folder / "CURRENT").write_bytes(b"{")
        case "no facts":
            (folder / "meta.json").unlink()


@pytest.mark.parametrize("how", ["missing", "cut", "no manifest", "no head", "no facts"])
@promise(9, [(NAME, "tools")])
def test_a_damaged_session_says_so_and_the_others_are_whole(
    agent: str, case: str, how: str, machine: Machine, tmp_path: Path
) -> None:
    home = home_of(tmp_path, agent, case)
    folder = folder_in(home)
    home_of(tmp_path, agent, "hello")
    damaged(folder, how)
    report = machine.read(agent)
    assert [each.path for each in report.not_understood] == [str(folder / "CURRENT")]
    assert "What does gross() in price.py return today?" in prompts(machine.store)
    out = tmp_path / "out"
    assert [each.error for each in restored(machine.store, out)] == [None, None]
    assert files_below(out / NAME / "logs/session/unified" / folder.name) == files_below(folder)


# bytes, folders, first ingest -----------------------------------------------------------------------------------------


@promise(10, cases_of(NAME))
def test_every_file_is_given_back_and_none_is_touched(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    home = home_of(tmp_path, agent, case)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*")}
    machine.read(agent)
    (done,) = restored(machine.store, tmp_path / "out")
    assert [done.error, *(each.error for each in done.companions)] == [None] * (1 + len(done.companions))
    folder = folder_in(home)
    assert Path(done.written or "") == tmp_path / "out" / NAME / "logs/session/unified" / folder.name
    assert files_below(Path(done.written or "")) == files_below(folder)
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*")} == before


@promise(10, [(NAME, "tools")])
def test_bytes_that_the_agent_dropped_are_kept(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    folder = folder_in(home_of(tmp_path, agent, case))
    machine.read(agent)
    shutil.rmtree(folder / "generations/0000000000000001")
    (folder / "CURRENT").write_text((folder / "CURRENT").read_text() + "\n")
    machine.read(agent)
    (log,) = machine.store.logs()
    assert b"generations/0000000000000001/checkpoint.json" in b"".join(machine.store.stream_log(log.id))
    restored(machine.store, tmp_path / "out")
    assert files_below(tmp_path / "out" / NAME / "logs/session/unified" / folder.name) == files_below(folder)


@promise(11, [(NAME, "tools"), (NAME, "cancel")])
def test_a_first_ingest_names_the_agent_with_its_bytes(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    folder = folder_in(home_of(tmp_path, agent, case))
    found = machine.read(agent).by_agent[agent]
    # Whole versions of a file share what is alike in them.
    assert found.sessions_new == 1
    assert found.bytes_read > sum(len(each) for each in files_below(folder).values()) / 2


@promise(12, [(NAME, "hello")])
def test_a_folder_that_was_moved_is_read_there(agent: str, case: str, machine: Machine, tmp_path: Path) -> None:
    moved = home_of(tmp_path / "moved", agent, case) / ".vibe"
    ingest(machine.store, [agents.load(agent)], environ={"VIBE_HOME": str(moved)}, home=machine.home, now=NOW)
    assert len(machine.store.sessions()) == 1


@keeps(12, NAME)
def test_a_session_of_version_2_is_named_and_kept(machine: Machine) -> None:
    old = machine.write(".vibe/logs/session/session_20260101_1a2b/messages.jsonl", b'{"role":"user","content":"Hi"}\n')
    report = machine.read(NAME)
    assert [each.path for each in report.not_understood] == [str(old)]


@keeps(9, NAME)
def test_a_recorded_folder_keeps_the_contract(tmp_path: Path) -> None:
    assert folder_faults(agents.load(NAME), folder_in(home_of(tmp_path, NAME, "compact"))) == []


# facts ----------------------------------------------------------------------------------------------------------------


def test_a_session_has_its_title_folder_and_model(machine: Machine, tmp_path: Path) -> None:
    home_of(tmp_path, NAME, "acp")
    machine.read(NAME)
    found = looked_up(machine.store.path, "select s.title, s.cwd, t.model from sessions s, turns t")
    assert found == [("Fix the VAT in gross", "/home/dev/shop", "stub-model")]


def test_a_session_is_resumed_by_its_id() -> None:
    resuming = Resuming()
    assert resuming.command("vibe", ID) == ["vibe", "--resume", ID]
    assert resuming.log_names(PurePath(f"logs/session/unified/{ID}/"), "/w") == [
        PurePath(f"logs/session/unified/{ID}/CURRENT")
    ]


def test_a_folder_that_is_gone_is_put_back_before_the_client_continues(tmp_path: Path) -> None:
    home = home_of(tmp_path, NAME, "tools")
    folder = folder_in(home)
    files = files_below(folder)
    project = tmp_path / "shop"
    project.mkdir()
    run(home, "ingest")
    shutil.rmtree(folder)
    (session,) = json.loads(run(home, "list", "--all", "--json"))["sessions"]
    run(home, "restore", "--in-place", "--cwd", str(project), session["uid"])
    assert files_below(folder) == files


def run(home: Path, *words: str) -> str:
    environ = {"HOME": str(home), "BACKSTORY_HOME": str(home / "b"), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-m", "backstory", *words], cwd=home, env=environ, capture_output=True, text=True, timeout=120,
        check=True,
    )  # fmt: skip
    return done.stdout
