"""`resume` and `restore --in-place`: a log is put back where its agent looks and never over another."""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard

from backstory.agents.claude.resume import project_folder
from backstory.export.placing import FOLDER
from backstory.store import open_store
from tests.support import ah_files
from tests.support.ah_files import CASES as AH_CASES
from tests.support.claude_records import answer, record, user
from tests.support.shell import Shell
from tests.support.terminal import Terminal

ID = "0ddba11a-0000-4000-8000-000000000001"
CHILD = "a1b2c3d4"
CODEX_ID = "0199a213-81c0-7800-8aa1-bbab2a035a53"
CODEX_NAME = f"rollout-2026-11-21T21-00-00-{CODEX_ID}.jsonl"
OLD_S = 40 * 86_400
CLIENT = """#!/bin/sh
echo "client: $0 $*"
echo "in: $(pwd -P) $PWD"
ls "$CONFIG"
"""


def aged(path: Path) -> Path:
    """A file that nobody has written for a long time."""
    then = time.time() - OLD_S
    os.utime(path, (then, then))
    return path


def write(path: Path, *records: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(each + b"\n" for each in records))
    return aged(path)


def conversation(cwd: Path, session: str = ID, words: str = "Where does the heron nest?") -> list[bytes]:
    more = {"sessionId": session, "cwd": str(cwd)}
    return [user(words, f"{session}-u1", **more), answer("In the reeds.", f"{session}-u2", f"{session}-u1", **more)]


class Home(Shell):
    """A machine with one session of Claude Code, which was read; with a subagent and a result that lie beside it."""

    def __init__(self, home: Path) -> None:
        home.mkdir(exist_ok=True)
        super().__init__(home)
        self.bucket = home / ".claude" / "projects" / project_folder(str(self.cwd.resolve()))
        self.log = self.bucket / f"{ID}.jsonl"
        self.subagent = self.bucket / ID / "subagents" / f"agent-{CHILD}.jsonl"
        self.result = self.bucket / ID / "tool-results" / "toolu_1.txt"
        write(self.log, *conversation(self.cwd))
        task = user("Count the otters", "c1", None, sessionId=ID, agentId=CHILD, isSidechain=True, cwd=str(self.cwd))
        write(self.subagent, task, answer("Two.", "c2", "c1", sessionId=ID, agentId=CHILD, isSidechain=True))
        write(self.result, b"a long result")
        meta = self.subagent.with_name(f"agent-{CHILD}.meta.json")
        write(meta, b'{"agentType":"general","description":"otters"}')
        self.read()

    def read(self) -> None:
        done = self("ingest")
        assert done.code == 0, done.err

    def uid(self, native_id: str = ID) -> str:
        with open_store(self.store, shared=True) as store:
            return next(each.uid for each in store.sessions(subagents=True) if each.native_id == native_id)

    def files(self) -> dict[str, bytes]:
        """All files of the agents."""
        found = [each for name in (".claude", ".codex", ".copilot") for each in (self.home / name).rglob("*")]
        return {str(each.relative_to(self.home)): each.read_bytes() for each in found if each.is_file()}

    def sweep(self) -> dict[str, bytes]:
        """Delete all that the agents have, as they do; returns what it was."""
        files = self.files()
        for each in files:
            (self.home / each).unlink()
        for name in (".claude/projects", ".codex/sessions", ".codex/archived_sessions", ".copilot/session-state"):
            for folder in sorted((self.home / name).rglob("*"), reverse=True):
                folder.rmdir()
        return files

    def told(self) -> Any:
        """What a person reads of all sessions."""
        listed = self("list", "--all", "--json").json()["sessions"]
        return [(each["uid"], each["turn_count"], each["event_count"], each["cost_usd"]) for each in listed]

    def generations(self) -> list[int]:
        with open_store(self.store, shared=True) as store:
            return sorted(log.generation for log in store.logs())

    def notes(self) -> list[str]:
        folder = self.home / "backstory" / FOLDER
        return sorted(each.name for each in folder.iterdir() if each.suffix != ".lock") if folder.exists() else []

    def client(self, name: str = "claude", script: str = CLIENT) -> None:
        """Install a client that says how it was started."""
        folder = self.home / "bin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
        self.environ |= {"PATH": f"{folder}:{os.environ['PATH']}", "CONFIG": str(self.bucket)}

    def terminal(self, *words: str) -> Terminal:
        return Terminal([sys.executable, "-m", "backstory", *words], self.cwd, self.environ, width=300)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


# what is put back -----------------------------------------------------------------------------------------------


def test_a_log_is_put_back_with_all_that_lay_beside_it(home: Home) -> None:
    before = home.sweep()
    done = home("restore", "--in-place", home.uid())
    assert (done.code, home.files()) == (0, before)


def test_what_is_put_back_is_of_today_and_its_owners_alone(home: Home) -> None:
    home.sweep()
    home("restore", "--in-place", home.uid())
    for path in (home.log, home.subagent, home.result):
        assert time.time() - path.stat().st_mtime < OLD_S / 2
        assert path.stat().st_mode & 0o777 == 0o600
    assert {each.stat().st_mode & 0o777 for each in (home.bucket, home.subagent.parent)} == {0o700}


def test_ingest_takes_the_log_as_the_one_it_has(home: Home) -> None:
    before = home.told(), home.generations()
    home.sweep()
    home.read()
    home("restore", "--in-place", home.uid())
    home.read()
    assert (home.told(), home.generations()) == before
    assert home("verify").code == 0


def test_turns_that_follow_in_the_client_appear_under_the_session(home: Home) -> None:
    (uid, turns, *_), *_ = home.told()
    home.sweep()
    home("restore", "--in-place", uid)
    with home.log.open("ab") as log:
        log.write(user("And the otter?", "n1", f"{ID}-u2", sessionId=ID, cwd=str(home.cwd)) + b"\n")
        log.write(answer("In the burrow.", "n2", "n1", sessionId=ID) + b"\n")
    home.read()
    assert [each[:2] for each in home.told()] == [(uid, turns + 1)]
    assert home("search", "--json", "burrow").json()["hits"][0]["uid"] == uid


def test_a_file_that_is_there_and_longer_wins(home: Home) -> None:
    with home.log.open("ab") as log:
        log.write(user("More", "n1", f"{ID}-u2", sessionId=ID) + b"\n")
    aged(home.log)
    before = home.files()
    done = home("restore", "--in-place", home.uid())
    assert (done.code, home.files(), home.notes()) == (0, before, [])


@pytest.mark.parametrize("content", [b'{"type":"user"}\n', b"", None], ids=["differs", "empty", "beginning"])
def test_a_file_that_differs_or_is_shorter_is_refused_with_both_paths(home: Home, content: bytes | None) -> None:
    other = home.home / "other"
    other.mkdir()
    at = home.bucket.with_name(project_folder(str(other.resolve()))) / home.log.name
    at.parent.mkdir()
    at.write_bytes(home.log.read_bytes()[:300] if content is None else content)
    aged(at)
    before = home.files()
    done = home("restore", "--in-place", "--cwd", other, "--force", home.uid())
    assert (done.code, home.files(), home.notes()) == (73, before, [])
    assert str(at) in done.err
    assert str(home.log) in done.err


def test_the_log_goes_where_the_client_looks_from_the_folders_real_path(home: Home) -> None:
    real = home.home / "moved é😀 'here"
    real.mkdir()
    (home.home / "way").symlink_to(real)
    home.sweep()
    done = home("restore", "--in-place", "--cwd", home.home / "way", home.uid())
    assert done.code == 0, done.err
    bucket = home.bucket.with_name(project_folder(str(real)))
    names = [f"{ID}.jsonl", f"agent-{CHILD}.jsonl", f"agent-{CHILD}.meta.json", "toolu_1.txt"]
    assert sorted(each.name for each in bucket.rglob("*.*")) == names
    before = home.told()
    home.read()
    assert home.told() == before


def test_a_moved_project_whose_log_is_still_at_its_first_place_has_nothing_twice(home: Home) -> None:
    moved = home.home / "moved"
    home.cwd.rename(moved)
    home.cwd = moved
    done = home("restore", "--in-place", home.uid())
    assert done.code == 66
    assert str(moved.with_name("work")) in done.err
    assert "--cwd DIR" in done.err
    before, generations = home.told(), home.generations()
    assert home("restore", "--in-place", "--cwd", ".", home.uid()).code == 0
    home.read()
    assert (home.told(), home.generations()) == (before, generations)


def test_a_log_that_changed_since_it_was_read_is_read_first(home: Home) -> None:
    moved = home.home / "moved"
    moved.mkdir()
    home.log.write_bytes(home.log.read_bytes() + user("More", "n1", f"{ID}-u2", sessionId=ID) + b"\n")
    aged(home.log)
    before = home.files()
    done = home("restore", "--in-place", "--cwd", moved, home.uid())
    assert (done.code, home.files()) == (75, before)
    assert "backstory ingest" in done.err


def test_of_several_generations_the_last_is_put_back(home: Home) -> None:
    first = home.log.read_bytes()
    write(home.log, *conversation(home.cwd, words="Something else entirely"))
    home.read()
    last = home.log.read_bytes()
    assert first != last
    assert max(home.generations()) == 2
    home.sweep()
    assert home("restore", "--in-place", home.uid()).code == 0
    assert home.log.read_bytes() == last


def test_a_subagents_session_resumes_its_parent(home: Home) -> None:
    before = home.sweep()
    done = home("resume", "--json", home.uid(f"{ID}/{CHILD}")).json()
    assert (done["native_id"], done["is_log_there"]) == (ID, False)
    home("restore", "--in-place", home.uid(f"{ID}/{CHILD}"))
    assert home.files() == before


def codex_log(home: Home, path: Path) -> bytes:
    meta = {"id": CODEX_ID, "timestamp": "2026-11-21T21:00:00Z", "cwd": str(home.cwd), "source": "cli"}
    words = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Where is the badger?"}]}
    records = [{"type": "session_meta", "payload": meta}, {"type": "response_item", "payload": words}]
    records = [{"timestamp": "2026-11-21T21:00:00.000Z", **each} for each in records]
    data = b"".join(json.dumps(each).encode() + b"\n" for each in records)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zstandard.compress(data) if path.suffix == ".zst" else data)
    aged(path)
    home.read()
    return data


CODEX_TABLE = "create table threads (id text primary key, rollout_path text not null, title text not null, {})"


def codex_rows(home: Home, columns: str = "archived integer not null default 0") -> Path:
    path = home.home / ".codex" / "state_5.sqlite"
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(CODEX_TABLE.format(columns))
    return path


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("select id, rollout_path, title from threads").fetchall()


@pytest.mark.parametrize("name", [f"sessions/2026/11/21/{CODEX_NAME}.zst", f"archived_sessions/{CODEX_NAME}"])
def test_codex_gets_its_log_plain_and_a_row_that_leads_to_it(home: Home, name: str) -> None:
    at = home.home / ".codex" / "sessions" / "2026" / "11" / "21" / CODEX_NAME
    data = codex_log(home, home.home / ".codex" / name)
    home.sweep()
    database = codex_rows(home)
    before = database.read_bytes()
    assert home("restore", "--in-place", home.uid(CODEX_ID)).code == 0
    assert at.read_bytes() == data
    assert rows_of(database) == [(CODEX_ID, str(at), "Where is the badger?")]
    aside = home.home / "backstory" / FOLDER / "state_5.sqlite.before"
    assert rows_of(aside) == []
    assert aside.stat().st_mode & 0o777 == 0o600
    assert home("resume", "--undo", home.uid(CODEX_ID)).code == 0
    assert (rows_of(database), at.exists()) == ([], False)
    assert len(database.read_bytes()) == len(before)


def test_a_row_that_must_say_what_nobody_knows_is_not_added(home: Home) -> None:
    codex_log(home, home.home / ".codex" / "sessions" / "2026" / "11" / "21" / CODEX_NAME)
    home.sweep()
    database = codex_rows(home, "future text not null")
    assert home("restore", "--in-place", home.uid(CODEX_ID)).code == 0
    assert rows_of(database) == []


def test_a_database_that_is_locked_puts_nothing_back(home: Home) -> None:
    codex_log(home, home.home / ".codex" / "sessions" / "2026" / "11" / "21" / CODEX_NAME)
    home.sweep()
    database = codex_rows(home)
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("begin exclusive")
        done = home("restore", "--in-place", home.uid(CODEX_ID))
    assert done.code == 75
    assert "database is locked" in done.err
    assert [each for each in home.files() if "rollout" in each] == []
    assert [each for each in home.notes() if each.endswith(".json")] == []


def test_copilots_whole_folder_is_put_back(home: Home) -> None:
    folder = home.home / ".copilot" / "session-state" / ID
    start = {"type": "session.start", "data": {"sessionId": ID, "context": {"cwd": str(home.cwd)}}, "id": "e1"}
    said = {"type": "user.message", "data": {"content": "Where is the marten?"}, "id": "e2", "parentId": "e1"}
    times = {"timestamp": "2026-11-21T21:00:00.000Z"}
    write(folder / "events.jsonl", *(json.dumps(each | times).encode() for each in (start, said)))
    for name in ("workspace.yaml", "plan.md", "checkpoints/index.md", "files/deep/notes.txt"):
        write(folder / name, f"{name}: x".encode())
    home.log.unlink()
    home.read()
    before = {name: data for name, data in home.files().items() if ".copilot" in name}
    home.sweep()
    with open_store(home.store, shared=True) as store:
        uid = next(each.uid for each in store.sessions() if each.agents == ("copilot",))
    assert home("restore", "--in-place", uid).code == 0
    assert home.files() == before


# what is refused ------------------------------------------------------------------------------------------------


def test_a_session_that_a_living_client_names_is_refused_unless_forced(home: Home) -> None:
    home.log.unlink()
    live = home.home / ".claude" / "sessions" / f"{os.getpid()}.json"
    live.parent.mkdir()
    live.write_text(json.dumps({"pid": os.getpid(), "sessionId": ID}))
    done = home("restore", "--in-place", home.uid())
    assert (done.code, home.log.exists()) == (75, False)
    assert f"process {os.getpid()} has it open" in done.err
    assert home("restore", "--in-place", "--force", home.uid()).code == 0


@pytest.mark.parametrize("started", [None, "1"], ids=["dead", "another with its number"])
def test_a_client_that_is_gone_does_not_count(home: Home, started: str | None) -> None:
    with subprocess.Popen(["true"]) as over:
        pass
    pid = over.pid if started is None else os.getpid()
    live = home.home / ".claude" / "sessions" / f"{pid}.json"
    live.parent.mkdir()
    live.write_text(json.dumps({"pid": pid, "sessionId": ID, "procStart": started}))
    assert home("restore", "--in-place", home.uid()).code == 0


def test_a_log_that_a_process_has_open_is_in_use(home: Home) -> None:
    with home.log.open("ab"):
        done = home("restore", "--in-place", home.uid())
    assert done.code == 75
    assert f"process {os.getpid()} has {home.log} open" in done.err


def test_a_log_that_was_just_written_is_in_use_but_not_one_that_was_just_put_back(home: Home) -> None:
    os.utime(home.log)
    done = home("restore", "--in-place", home.uid())
    assert done.code == 75
    assert "was written 0 s ago" in done.err or " s ago" in done.err
    home.sweep()
    assert [home("restore", "--in-place", home.uid()).code for _ in range(2)] == [0, 0]


def test_a_session_of_our_own_runs_has_no_log_to_put_back(home: Home) -> None:
    home.client("codex", '#!/bin/sh\ncat > /dev/null\necho \'{"type":"turn.completed"}\'\n')
    home("run", "-a", "codex", "-n", "hello")
    done = home("restore", "--in-place", "S1")
    assert done.code == 64
    assert "backstory resume S1" in done.err
    assert "backstory run -S S1" in done.err


def test_no_command_is_given_for_a_session_that_nobody_trusted(home: Home, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere.db"
    assert home("backup", copy).code == 0
    (tmp_path / "stranger").mkdir()
    stranger, uid = Shell(tmp_path / "stranger"), home.uid()
    at = "--store", copy
    found = [
        stranger(*at, "list", "--all", "--json").json()["sessions"][0],
        stranger(*at, "show", "--json", uid).json()["session"],
        stranger(*at, "search", "--json", "heron").json()["hits"][0],
    ]  # fmt: skip
    assert [(each["from_elsewhere"], each["native_id"], each["resume_command"]) for each in found] == [
        (True, ID, None)
    ] * 3


def test_a_session_from_an_untrusted_store_is_refused(home: Home, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere.db"
    assert home("backup", copy).code == 0
    uid = home.uid()
    (tmp_path / "stranger").mkdir()
    stranger = Shell(tmp_path / "stranger")
    for words in (["resume"], ["restore", "--in-place"]):
        done = stranger("--store", copy, *words, "--cwd", stranger.cwd, uid)
        assert done.code == 77, done.err
    assert not (stranger.home / ".claude").exists()
    done = stranger("--store", copy, "restore", "--in-place", "--trust", "--cwd", stranger.cwd, uid)
    assert done.code == 0, done.err
    assert [each.name for each in (stranger.home / ".claude").rglob(f"{ID}.jsonl")] == [f"{ID}.jsonl"]


def test_an_id_that_is_no_id_starts_nothing(home: Home) -> None:
    bad = "--dangerously-skip-permissions"
    write(home.bucket / f"{bad}.jsonl", *conversation(home.cwd, bad))
    home.read()
    done = home("resume", home.uid(bad))
    assert done.code == 64
    listed = home("list", "--json").json()["sessions"]
    assert {each["native_id"]: each["resume_command"] for each in listed}[bad] is None


@pytest.mark.parametrize("what", ["link", "dangling", "folder"])
def test_nothing_is_written_through_what_stands_at_the_place(home: Home, what: str) -> None:
    home.sweep()
    target = home.home / "victim"
    if what == "link":
        target.write_text("mine")
    home.log.parent.mkdir(parents=True, exist_ok=True)
    home.log.mkdir() if what == "folder" else home.log.symlink_to(target)
    done = home("restore", "--in-place", home.uid())
    assert done.code == 73
    assert target.exists() == (what == "link")
    assert not target.exists() or target.read_text() == "mine"


@pytest.mark.parametrize("what", [".claude", ".claude/projects", "bucket"])
def test_a_file_in_the_place_of_a_folder_is_named_and_stays(home: Home, what: str) -> None:
    home.sweep()
    at = home.bucket if what == "bucket" else home.home / what
    for each in (home.bucket, home.bucket.parent, home.home / ".claude"):
        if each.exists() and each.is_relative_to(at):
            each.rmdir()
    at.parent.mkdir(parents=True, exist_ok=True)
    at.write_text("mine")
    done = home("restore", "--in-place", home.uid())
    assert (done.code, at.read_text(), home.notes()) == (73, "mine", [])
    assert str(at) in done.err


def test_a_log_of_which_the_store_lost_bytes_is_not_put_back(home: Home) -> None:
    home.sweep()
    with closing(sqlite3.connect(home.store)) as db, db:
        db.execute("update chunks set data = zeroblob(length(data))")
    done = home("restore", "--in-place", home.uid())
    assert done.code == 65
    assert (home.files(), home.notes()) == ({}, [])
    assert not home.log.parent.exists()


@pytest.mark.parametrize("name", [ID, f"{ID}/subagents", f"{ID}/tool-results"])
def test_no_link_beside_the_log_is_followed(home: Home, name: str) -> None:
    away = home.home / "away"
    away.mkdir()
    home.sweep()
    (home.bucket / name).parent.mkdir(parents=True)
    (home.bucket / name).symlink_to(away)
    done = home("restore", "--in-place", home.uid())
    assert (done.code, list(away.iterdir()), home.notes()) == (73, [], [])
    assert not home.log.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_named(home: Home) -> None:
    home.sweep()
    home.bucket.parent.chmod(0o500)
    try:
        done = home("restore", "--in-place", home.uid())
    finally:
        home.bucket.parent.chmod(0o700)
    assert (done.code, str(home.bucket.parent) in done.err) == (73, True)


# undo -----------------------------------------------------------------------------------------------------------


def test_undo_removes_all_that_was_put_back_and_nothing_else(home: Home) -> None:
    home.sweep()
    write(home.bucket / "memory" / "notes.md", b"mine")
    before = home.files()
    home("restore", "--in-place", home.uid())
    done = home("resume", "--undo", home.uid())
    assert (done.code, home.files(), home.notes()) == (0, before, [])
    assert sorted(each.name for each in home.bucket.iterdir()) == ["memory"]
    assert home("resume", "--undo", home.uid()).code == 66


def test_undo_keeps_a_log_to_which_something_was_added(home: Home) -> None:
    home.sweep()
    home("restore", "--in-place", home.uid())
    with home.log.open("ab") as log:
        log.write(record("summary") + b"\n")
    before = home.files()
    done = home("resume", "--undo", home.uid())
    assert (done.code, home.files()) == (73, before)


def test_undo_keeps_a_log_that_another_one_replaced(home: Home) -> None:
    home.sweep()
    home("restore", "--in-place", home.uid())
    data = home.log.read_bytes()
    home.log.with_suffix(".new").write_bytes(data)
    home.log.with_suffix(".new").replace(home.log)
    assert home("resume", "--undo", home.uid()).code == 73
    assert home.log.read_bytes() == data


def test_undo_never_removes_a_log_that_was_there(home: Home) -> None:
    before = home.files()
    home("restore", "--in-place", home.uid())
    assert home("resume", "--undo", home.uid()).code == 66
    assert home.files() == before


# the command ----------------------------------------------------------------------------------------------------


def test_on_a_terminal_it_becomes_the_client_in_the_sessions_folder(home: Home) -> None:
    home.client()
    home.sweep()
    cwd, home.cwd = home.cwd, home.home
    with home.terminal("resume", home.uid(), "--", "--model", "opus", "-p", "two words") as terminal:
        shown = terminal.end()
    assert f"client: {home.home}/bin/claude --resume {ID} --model opus -p two words" in shown
    assert f"in: {cwd.resolve()} {cwd.resolve()}" in shown
    assert f"{ID}.jsonl" in shown
    assert terminal.process.returncode == 0


def test_the_session_is_held_as_long_as_the_client_runs(home: Home) -> None:
    home.client(script="#!/bin/sh\necho started\nsleep 60 &\nread line\n")
    home.sweep()
    with home.terminal("resume", home.uid()) as terminal:
        terminal.until("started")
        done = home("restore", "--in-place", home.uid())
        assert (done.code, home("resume", "--undo", home.uid()).code) == (75, 75)
        terminal.type("\r")
        terminal.end()
        assert home("restore", "--in-place", home.uid()).code == 0


def test_without_a_terminal_it_only_prints(home: Home) -> None:
    home.client()
    before = home.sweep()
    done = home("resume", home.uid(), "--", "-p", "two words")
    assert done.out == f"cd {home.cwd.resolve()} && claude --resume {ID} -p 'two words'\n"
    assert "restore --in-place" in done.err
    assert (home.files(), bool(before)) == ({}, True)


def test_what_puts_a_log_back_is_said_with_the_options_that_it_needs(home: Home, tmp_path: Path) -> None:
    home.sweep()
    moved = tmp_path / "moved here"
    moved.mkdir()
    said = home("resume", "--print", "--cwd", moved, home.uid()).err.rstrip().rpartition(": backstory ")[2]
    assert said == f"restore --in-place --cwd '{moved}' {home.uid()}"
    assert home(*shlex.split(said)).code == 0
    assert home("resume", "--print", "--cwd", moved, home.uid()).err == ""


def test_print_shows_a_command_that_a_shell_takes(home: Home) -> None:
    odd = home.home / "it's a $(folder)"
    odd.mkdir()
    done = home("resume", "--print", "--cwd", odd, home.uid())
    ran = subprocess.run(["sh", "-c", done.out.replace("claude --resume", "pwd #")], capture_output=True, text=True)
    assert ran.stdout == f"{odd}\n"


def test_without_the_client_nothing_is_put_back(home: Home) -> None:
    home.sweep()
    home.environ["PATH"] = str(Path(sys.executable).parent)
    with home.terminal("resume", home.uid()) as terminal:
        assert "no 'claude' on PATH" in terminal.end()
    assert terminal.process.returncode == 69
    assert home.files() == {}


def test_without_words_it_is_the_session_that_show_shows(home: Home) -> None:
    uid = home("show", "--json").json()["session"]["uid"]
    assert home("resume", "--json").json()["uid"] == uid


def test_the_agents_own_id_and_command_are_given(home: Home) -> None:
    expected = (ID, ["claude", "--resume", ID])
    for found in (
        home("list", "--json").json()["sessions"][0], home("show", "--json", home.uid()).json()["session"],
        home("search", "--json", "heron").json()["hits"][0],
    ):  # fmt: skip
        assert (found["native_id"], found["resume_command"]) == expected
    assert f"resume: backstory resume {home.uid()[:12]} · claude {ID}" in home("show", home.uid()).out


@pytest.mark.parametrize("words", ["heron", "otters"])
def test_a_search_on_a_terminal_says_once_how_the_best_hit_is_resumed(home: Home, words: str) -> None:
    # What a subagent's log says is found, and its parent is what a client continues.
    with home.terminal("search", words) as terminal:
        assert terminal.end().count(f"resume: backstory resume {home.uid()[:12]} (claude {ID})") == 1
    assert "resume: backstory" not in home("search", words).out + home("search", words).err


def test_what_no_client_continues_is_not_said_to_be_resumable(home: Home) -> None:
    AH_CASES["first"][0](home.cwd / ".ah" / ah_files.file_name("first"))
    home.environ["PWD"] = str(home.cwd)
    home.read()
    ah, *_ = (each["uid"] for each in home("list", "--all", "--json").json()["sessions"] if each["agents"] == ["ah"])
    assert home("resume", "--print", ah).code != 0
    for uid in (ah, home.uid(f"{ID}/{CHILD}")):
        shown = home("show", uid)
        assert (shown.code, "resume:" in shown.out) == (0, False)


def test_two_at_once_put_one_log_back(home: Home) -> None:
    before = home.sweep()
    words = [sys.executable, "-m", "backstory", "restore", "--in-place", home.uid()]
    both = [subprocess.Popen(words, env=home.environ, cwd=home.cwd, stderr=subprocess.PIPE) for _ in range(4)]
    codes = [(each.communicate()[1], each.returncode)[1] for each in both]
    assert set(codes) <= {0, 75}
    assert 0 in codes
    assert home.files() == before
    assert home("resume", "--undo", home.uid()).code == 0
    assert home.files() == {}
