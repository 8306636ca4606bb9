"""AZUREAL's files of sessions, written by its own rules: what is read of them, and that they stay as they were."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from click.testing import CliRunner

from backstory import agents
from backstory.agents import foreign
from backstory.agents.azureal.log import Databases
from backstory.agents.contract import UnreadableDatabase
from backstory.cli import cli
from backstory.cli.views.event_view import RETOLD
from backstory.export.full_form import FullForms
from backstory.ingest.ingest import ingest
from backstory.ingest.reindex import reindex
from backstory.model import AssistantText, Compacted, Hook, ToolCall, ToolResult, Turn
from tests.support import azs_files
from tests.support.azs_files import CASES, CONVERSATION, AzsFile, answer, complete, conversation, packed, prompt
from tests.support.clock import NOW
from tests.support.machines import Machine
from tests.support.reading import CASES as CASE_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backstory.ingest.report import IngestReport
    from backstory.store import Session


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file of a worktree lies."""
    return tmp_path / "worktree" / ".azureal" / "sessions.azs"


def read(machine: Machine, path: Path, *places: Path) -> IngestReport:
    where = str(path.parent.parent)
    chosen = [agents.load("azureal")]
    return ingest(machine.store, chosen, environ={"PWD": where}, home=machine.home, now=NOW, places=places)


def sessions(machine: Machine) -> list[Session]:
    return sorted(machine.store.sessions(), key=lambda each: each.uid)


def turns(machine: Machine) -> list[Turn]:
    return [turn for session in sessions(machine) for turn in machine.store.turns(session)]


def prompts(machine: Machine) -> list[str]:
    return [turn.prompt for turn in turns(machine)]


def all_prompts(machine: Machine) -> list[str]:
    """The same, also where nothing was ever stored."""
    return prompts(machine) if machine.store.exists else []


def said(machine: Machine, kind: type[Any]) -> list[Any]:
    events = [each.event for session in sessions(machine) for each in machine.store.events(session)]
    return [event for event in events if isinstance(event, kind)]


def reasons(report: IngestReport) -> list[str]:
    return [problem.reason for problem in report.errors]


def folder_content(folder: Path) -> dict[str, tuple[str, int]]:
    """Every file below a folder: its content and its time."""
    return {
        each.name: (hashlib.sha256(each.read_bytes()).hexdigest(), each.stat().st_mtime_ns)
        for each in folder.rglob("*")
        if each.is_file()
    }


# what is read -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_the_log_of_a_case_is_what_is_read_of_its_file(case: str, tmp_path: Path) -> None:
    assert azs_files.log_of(case, tmp_path) == (CASE_FOLDER / "azureal" / case / "log.jsonl").read_bytes()


@pytest.mark.parametrize("schema", [1, 2, 3])
def test_a_file_of_each_schema_says_the_same(machine: Machine, path: Path, schema: int) -> None:
    conversation(path, schema)
    assert read(machine, path).errors == []
    (session,) = sessions(machine)
    assert (session.title, session.branch, session.cwd) == ("Parser", "main", str(path.parent.parent))
    assert session.created == "2026-03-15T12:00:00.000Z"
    assert [(turn.prompt, turn.model, turn.outcome, turn.duration_ms, turn.cost_usd) for turn in turns(machine)] == [
        ("Mend the parser", "claude-opus-4", "completed", 5000, 0.05),
        ("Run the tests", "claude-opus-4", "failed", 7000, 0.02),
    ]
    assert [each.text for each in said(machine, AssistantText)] == ["I'll look at it.", "It is mended.", "One fails."]


def test_what_was_compacted_there_is_not_compacted_again(machine: Machine, path: Path) -> None:
    conversation(path)
    read(machine, path)
    given = [next(iter(each.items())) for each in CONVERSATION if isinstance(each, dict)]
    inputs = [body["input"] for kind, body in given if kind == "ToolCall"]
    contents = [body["content"] for kind, body in given if kind == "ToolResult"]
    assert [each.input for each in said(machine, ToolCall)] == inputs
    assert [each.content for each in said(machine, ToolResult)] == contents
    reindex(machine.store, now=NOW, events_too=True)
    assert [each.content for each in said(machine, ToolResult)] == contents


def test_nothing_of_it_claims_to_be_the_full_form(machine: Machine, path: Path) -> None:
    conversation(path)
    read(machine, path)
    forms = FullForms(machine.store)
    found = [forms.expand(each) for each in machine.store.events(sessions(machine)[0])]
    assert [each.is_compact for each in found if isinstance(each, ToolCall | ToolResult)] == [True] * 10


@pytest.mark.parametrize("options", [[], ["--full"]], ids=["short", "full"])
def test_show_says_that_there_is_no_more_of_calls_and_results(machine: Machine, path: Path, options: list[str]) -> None:
    conversation(path)
    read(machine, path)
    (session,) = sessions(machine)
    machine.store.close()
    done = CliRunner().invoke(cli, ["--store", str(machine.store_path), "show", session.uid, *options])
    assert (done.exit_code, RETOLD in done.output) == (0, True)


def test_a_cost_that_it_made_up_itself_is_not_believed(machine: Machine, path: Path) -> None:
    file = AzsFile(path)
    file.events(file.session(), prompt("Mend it"), azs_files.init("gpt-5.5"), answer("Yes."), complete(0, 1.5))
    read(machine, path)
    (turn,) = turns(machine)
    assert (turn.model, turn.duration_ms, turn.cost_usd) == ("gpt-5.5", None, None)


# again and elsewhere ------------------------------------------------------------------------------------------


def test_the_file_and_its_folder_stay_as_they_were(machine: Machine, path: Path) -> None:
    conversation(path)
    before = folder_content(path.parent)
    read(machine, path)
    read(machine, path)
    assert folder_content(path.parent) == before


def test_a_file_that_is_as_it_was_is_not_read_again(machine: Machine, path: Path) -> None:
    conversation(path)
    read(machine, path)
    assert read(machine, path).total("logs_seen") == 0


def test_a_session_that_goes_on_gets_the_new_turn_alone(machine: Machine, path: Path) -> None:
    file = conversation(path)
    read(machine, path)
    before = turns(machine)
    file.events(1, prompt("And now?"), answer("All is well."), complete())
    read(machine, path)
    assert turns(machine)[:2] == before
    assert prompts(machine) == ["Mend the parser", "Run the tests", "And now?"]
    assert len(machine.store.logs()) == 1


def test_a_summary_covers_what_stands_before_it(machine: Machine, path: Path) -> None:
    file = conversation(path)
    file.compaction(1, 13, "The parser was mended.")
    read(machine, path)
    events = [each.event for each in machine.store.events(sessions(machine)[0])]
    assert [type(each).__name__ for each in events[12:15]] == ["Complete", "Compacted", "UserMessage"]


def test_a_summary_that_comes_later_changes_no_number_and_covers_nothing_behind_it(
    machine: Machine, path: Path
) -> None:
    file = conversation(path)
    read(machine, path)
    before = [(each.seq, each.event) for each in machine.store.events(sessions(machine)[0])]
    file.compaction(1, 13, "The parser was mended.")
    file.events(1, prompt("And now?"))
    read(machine, path)
    after = [(each.seq, each.event) for each in machine.store.events(sessions(machine)[0])]
    assert [each for each in after if each in before] == before
    assert said(machine, Compacted) == []
    assert Hook(name="summary", output="The parser was mended.") in said(machine, Hook)
    assert prompts(machine) == ["Mend the parser", "Run the tests", "And now?"]
    assert machine.store.verify().problems == []


def test_a_copy_of_the_file_holds_the_same_sessions(machine: Machine, path: Path, tmp_path: Path) -> None:
    conversation(path)
    copy = tmp_path / "elsewhere" / ".azureal" / "sessions.azs"
    copy.parent.mkdir(parents=True)
    shutil.copy(path, copy)
    read(machine, path)
    assert read(machine, copy).errors == []
    assert prompts(machine) == ["Mend the parser", "Run the tests"]


def test_copies_that_went_on_apart_keep_the_turns_of_both(machine: Machine, path: Path, tmp_path: Path) -> None:
    file = conversation(path)
    copy = tmp_path / "elsewhere" / ".azureal" / "sessions.azs"
    copy.parent.mkdir(parents=True)
    shutil.copy(path, copy)
    file.events(1, prompt("Here"))
    AzsFile(copy).events(1, prompt("There"))
    read(machine, path)
    read(machine, copy)
    assert sorted(prompts(machine)) == ["Here", "Mend the parser", "Run the tests", "There"]


def test_sessions_of_one_second_with_the_same_prompt_are_several(machine: Machine, path: Path) -> None:
    file = AzsFile(path)
    for _ in range(2):
        file.events(file.session(), prompt("Mend it"))
    read(machine, path)
    assert len(sessions(machine)) == 2


# where it is found --------------------------------------------------------------------------------------------


def linked(path: Path, worktree: Path) -> None:
    """A worktree that is linked to the repository around a file, as git writes it."""
    main = path.parent.parent / ".git"
    known = main / "worktrees" / worktree.name
    known.mkdir(parents=True)
    worktree.mkdir(parents=True, exist_ok=True)
    (main / "config").write_text("[core]\n\tbare = false\n")
    (main / "HEAD").write_text("ref: refs/heads/main\n")
    (known / "gitdir").write_text(f"{worktree / '.git'}\n")
    (known / "commondir").write_text("../..\n")
    (worktree / ".git").write_text(f"gitdir: {known}\n")


@pytest.mark.parametrize("here", ["main", "linked"])
def test_the_files_of_all_worktrees_of_a_repository_are_found(
    machine: Machine, path: Path, tmp_path: Path, here: str
) -> None:
    worktree = tmp_path / "linked" / "feat-a"
    linked(path, worktree)
    (path.parent.parent / ".git" / "worktrees" / "being-made").mkdir()
    conversation(path)
    other = AzsFile(worktree / ".azureal" / "sessions.azs")
    other.events(other.session("feat-a"), prompt("In the other"))
    read(machine, path if here == "main" else other.path)
    assert sorted(prompts(machine)) == ["In the other", "Mend the parser", "Run the tests"]


def test_a_file_is_found_where_a_session_is_known(machine: Machine, path: Path, tmp_path: Path) -> None:
    file = conversation(path)
    read(machine, path)
    file.events(1, prompt("And now?"))
    nowhere = tmp_path / "nowhere" / ".azureal" / "sessions.azs"
    read(machine, nowhere)
    assert prompts(machine)[-1] == "And now?"


def test_a_file_of_any_name_is_read_where_it_is_given(machine: Machine, path: Path, tmp_path: Path) -> None:
    given = tmp_path / "backup.azs"
    conversation(given)
    read(machine, path, given)
    (session,) = sessions(machine)
    assert session.cwd == str(azs_files.WORKTREE), "as the process said that it ran"
    assert prompts(machine) == ["Mend the parser", "Run the tests"]


# odd files ----------------------------------------------------------------------------------------------------


def test_of_a_later_schema_is_read_what_can_be_and_that_is_said_once(machine: Machine, path: Path) -> None:
    file = conversation(path, 4)
    file.run("alter table events add column later text")
    (reason,) = reasons(read(machine, path))
    assert "schema is 4" in reason
    assert prompts(machine) == ["Mend the parser", "Run the tests"]
    assert read(machine, path).errors == []
    file.events(1, prompt("And now?"))
    assert len(read(machine, path).errors) == 1
    assert prompts(machine)[-1] == "And now?"


def as_itself(event: Any) -> bytes:
    return json.dumps(event).encode()


def over_lines(event: Any) -> bytes:
    return json.dumps(event, indent=1).encode()


def in_two_frames(event: Any) -> bytes:
    text = json.dumps(event).encode()
    return b"".join(zstandard.ZstdCompressor().compress(part) for part in (text[:9], text[9:]))


@pytest.mark.parametrize(
    "write", [as_itself, over_lines, in_two_frames, json.dumps], ids=["bytes", "lines", "frames", "text"]
)
def test_an_event_is_read_however_its_cell_is_packed(
    machine: Machine, path: Path, write: Callable[[Any], bytes | str]
) -> None:
    file = conversation(path)
    file.run("update events set data = ? where seq = 12", write(answer("Otherwise.")))
    assert read(machine, path).unknown_records == {}
    assert said(machine, AssistantText)[1].text == "Otherwise."


@pytest.mark.parametrize(
    "cell",
    [
        b"\x28\xb5\x2f\xfd\x00\x58\x19", b"no json", packed({"Novel": {"x": 1}}), packed([1]), packed(7),
        packed({"UserMessage": None}), packed({"UserMessage": {"text": "x"}}),
    ],
    ids=["damaged", "no JSON", "unknown", "a list", "a number", "nothing in it", "without its text"],
)  # fmt: skip
def test_a_cell_that_says_nothing_is_kept_and_counted_and_costs_no_other(
    machine: Machine, path: Path, cell: bytes
) -> None:
    file = conversation(path)
    file.run("update events set data = ? where seq = 12", cell)
    report = read(machine, path)
    assert sum(report.unknown_records.values()) == 1
    assert prompts(machine) == ["Mend the parser", "Run the tests"]
    assert len(said(machine, AssistantText)) == 2


def test_a_few_bytes_that_unpack_to_very_many_are_not_unpacked(
    machine: Machine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = conversation(path)
    file.events(file.session(), {"UserMessage": {"content": "x" * 3_000_000}}, prompt("Behind it"))
    monkeypatch.setattr("backstory.agents.azureal.cells.VALUE_BYTES_MAX", 1_000_000)
    (reason,) = reasons(read(machine, path))
    assert "larger than" in reason
    assert prompts(machine) == ["Mend the parser", "Run the tests"]


def test_what_unpacks_to_too_much_together_is_not_read(
    machine: Machine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = conversation(path)
    file.events(file.session(), *(prompt("x" * 400_000) for _ in range(4)))
    monkeypatch.setattr("backstory.agents.azureal.cells.SESSION_BYTES_MAX", 1_000_000)
    assert len(read(machine, path).errors) == 1
    assert prompts(machine) == ["Mend the parser", "Run the tests"]


@pytest.mark.parametrize(
    "sql",
    [
        "drop table events; create view events as select 1 as id, 1 as session_id, 1 as seq, '' as kind, 'x' as data",
        "drop table events",
        "drop table events; create virtual table events using fts5(session_id, seq, kind, data)",
    ],
    ids=["a view", "no table", "a virtual table"],
)
def test_only_real_tables_are_read(machine: Machine, path: Path, sql: str) -> None:
    file = conversation(path)
    with closing(sqlite3.connect(file.path)) as db:
        db.executescript(sql)
    assert len(read(machine, path).errors) == 1
    assert all_prompts(machine) == []


def test_rows_of_a_session_that_is_gone_are_a_session(machine: Machine, path: Path) -> None:
    file = conversation(path)
    file.run("delete from sessions")
    assert read(machine, path).errors == []
    assert prompts(machine) == ["Mend the parser", "Run the tests"]


def test_a_file_that_somebody_is_writing_is_read_as_it_was_committed(machine: Machine, path: Path) -> None:
    conversation(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("pragma cache_size = 1")
        db.execute("begin exclusive")
        db.execute("delete from events")
        db.executemany(
            "insert into events(session_id, seq, kind, data) values (1, ?, 'UserMessage', ?)",
            [(seq, packed(prompt(f"{seq} " * 400))) for seq in range(1, 500)],
        )
        assert read(machine, path).errors == []
        db.execute("rollback")
    assert prompts(machine) == ["Mend the parser", "Run the tests"]


def test_an_empty_file_says_nothing(machine: Machine, path: Path) -> None:
    AzsFile(path)
    assert read(machine, path).errors == []
    path.write_bytes(b"")
    assert read(machine, path).errors == []
    assert all_prompts(machine) == []


def test_a_file_with_the_first_version_s_journal_mode_is_read(machine: Machine, path: Path) -> None:
    file = conversation(path, 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("pragma journal_mode = wal")
        db.execute("pragma wal_autocheckpoint = 0")
        sql = "insert into events(session_id, seq, kind, data) values (1, 99, 'UserMessage', ?)"
        db.execute(sql, (json.dumps(prompt("In the WAL")),))
        before = folder_content(path.parent)
        read(machine, path)
        after = folder_content(path.parent)
    assert {name: after[name] for name in after if not name.endswith("-shm")} == {
        name: before[name] for name in before if not name.endswith("-shm")
    }
    assert prompts(machine)[-1] == "In the WAL"
    assert file.schema == 1


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    with pytest.raises(UnreadableDatabase):
        list(Databases().sessions_without_logs(tmp_path / ".azureal" / "sessions.azs", copy))
    assert foreign.VALUE_BYTES_MAX > 0
