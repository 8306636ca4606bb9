"""`export --format AGENT` and `resume --agent`: a log is written where a client looks, over nothing, or not at all."""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard

from backstory.agents.claude.resume import project_folder
from backstory.agents.codex import threads
from backstory.config import Config
from backstory.errors import CannotHandOver, IndexFailed, WrittenLogWrong
from backstory.export import native_log
from backstory.export.placing import FOLDER
from backstory.workspace.clients.native_export import NativeExports, NativePlan
from backstory.workspace.workspace import Workspace
from tests.support import codex_records as codex
from tests.support.bench import Bench
from tests.support.claude_records import answer, user
from tests.support.going import Going
from tests.support.machines import lines
from tests.support.shell import Shell
from tests.support.terminal import Terminal

ID = "0ddba11a-0000-4000-8000-000000000001"
CLIENT = '#!/bin/sh\ntest "$1" = --version && echo "client {version}" && exit\necho "client: $*"\npwd -P\n'
THREADS = (
    "create table threads(id text primary key, rollout_path text not null, created_at integer not null, "
    "updated_at integer not null, source text not null, model_provider text not null, cwd text not null, "
    "title text not null, sandbox_policy text not null, approval_mode text not null, tokens_used integer not null "
    "default 0, archived integer not null default 0{more})"
)


class Home(Shell):
    """A machine with one session of Claude Code, which was read, and both clients."""

    def __init__(self, home: Path) -> None:
        home.mkdir(exist_ok=True)
        super().__init__(home)
        self.client("claude", "2.1.330")
        self.client("codex", "0.169.0")
        log = home / ".claude" / "projects" / project_folder(str(self.cwd.resolve())) / f"{ID}.jsonl"
        log.parent.mkdir(parents=True)
        more = {"sessionId": ID, "cwd": str(self.cwd)}
        asked = user("Where does the heron nest?", "p1", **more), answer("In the reeds.", "p2", "p1", **more)
        log.write_bytes(
            lines(*asked, user("And the otter?", "p3", "p2", **more), answer("Burrow.", "p4", "p3", **more))
        )
        self.log = log
        assert self("ingest").code == 0

    def client(self, name: str, version: str) -> None:
        folder = self.home / "bin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(CLIENT.format(version=version))
        (folder / name).chmod(0o755)
        self.environ |= {"PATH": f"{folder}:{os.environ['PATH']}"}

    def threads(self, more: str = "") -> Path:
        """A database of Codex's."""
        database = self.home / ".codex" / "state_5.sqlite"
        database.parent.mkdir(exist_ok=True)
        with closing(sqlite3.connect(database)) as db, db:
            db.execute(THREADS.format(more=more))
        return database

    def rows(self) -> list[Any]:
        with closing(sqlite3.connect(self.home / ".codex" / "state_5.sqlite")) as db:
            return db.execute("select id, rollout_path, model_provider, cwd, title from threads").fetchall()

    def export(self, *words: str | Path, form: str = "codex") -> dict[str, Any]:
        done = self("export", "-S", self.uid, "--format", form, "--json", *words)
        assert done.code == 0, done.err
        found: dict[str, Any] = done.json()
        return found

    @property
    def uid(self) -> str:
        return str(self("list", "--all", "--json").json()["sessions"][0]["uid"])

    def files(self) -> dict[str, bytes]:
        """All files of the agents, and notes of ours."""
        places = [self.home / name for name in (".claude", ".codex", f"backstory/{FOLDER}")]
        found = [each for place in places for each in place.rglob("*") if each.suffix != ".lock"]
        return {str(each.relative_to(self.home)): each.read_bytes() for each in found if each.is_file()}

    def exports(self) -> tuple[NativeExports, NativePlan]:
        """The same in this process, planned."""
        home = self.home / "backstory"
        workspace = Workspace(lambda: Config(home / "config.toml"), home, self.cwd, environ=self.environ)
        made = NativeExports(workspace, self.home)
        return made, made.plan(workspace.resolve(self.uid), "codex")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


# what is written ------------------------------------------------------------------------------------------------


def test_nothing_is_written_without_being_asked_for(home: Home) -> None:
    before = home.files()
    said = home.export()
    assert (said["written"], home.files()) == (False, before)
    assert said["command"] == ["codex", "resume", said["native_id"]]
    assert said["report"]["kept"] == len(said["report"]["records"]) == 4


@pytest.mark.parametrize("form", ["claude", "codex"])
def test_a_log_is_written_for_its_owner_alone_where_its_client_looks(home: Home, form: str) -> None:
    said = home.export("--write", form=form)
    path = Path(said["log"])
    assert said["written"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert said["native_id"] in path.name
    assert path.is_relative_to(home.home / f".{form}")
    assert b"In the reeds." in path.read_bytes()
    assert path.read_bytes().endswith(b"\n")


def test_the_folder_is_a_real_path_so_that_the_client_finds_the_log(home: Home) -> None:
    (home.home / "link").symlink_to(home.cwd)
    said = home.export("--cwd", home.home / "link", "--write", form="claude")
    assert Path(said["log"]).parent.name == project_folder(str(home.cwd.resolve()))
    assert json.loads(Path(said["log"]).read_bytes().split(b"\n")[0])["cwd"] == str(home.cwd.resolve())


def test_a_log_up_to_a_record_is_another_log(home: Home) -> None:
    part, whole = home.export("--at", "@2", "--write"), home.export("--write")
    assert part["native_id"] != whole["native_id"]
    assert b"otter" not in Path(part["log"]).read_bytes()
    assert [each["fate"] for each in part["report"]["records"]] == ["kept", "kept", "left_out", "left_out"]


def test_a_row_leads_the_client_to_the_log_and_a_copy_of_the_database_is_kept(home: Home) -> None:
    home.threads()
    (home.home / ".codex" / "config.toml").write_text('model_provider = "mine"\n')
    said = home.export("--write")
    assert home.rows() == [(said["native_id"], said["log"], "mine", str(home.cwd), "Where does the heron nest?")]
    copy = home.home / "backstory" / FOLDER / "state_5.sqlite.before"
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("select count(*) from threads").fetchone() == (0,)


def test_what_was_written_is_read_like_any_log(home: Home) -> None:
    said = home.export("--write")
    home("ingest")
    listed = home("list", "--all", "--json").json()["sessions"]
    assert said["native_id"] in {each["native_id"] for each in listed} or len(listed) == 1


def test_secrets_are_masked_on_the_way_out(home: Home) -> None:
    secret = "ghp_" + "a1B2" * 9
    with home.log.open("ab") as log:
        log.write(lines(user(f"Use {secret}", "p5", "p4", sessionId=ID, cwd=str(home.cwd))))
    home("ingest")
    plain = home.export("--write")
    said = home.export("--redact", "--write")
    assert said["native_id"] != plain["native_id"], "the plain log would be handed over for the masked one"
    assert sum(said["masked"].values()) > 0
    assert secret.encode() not in Path(said["log"]).read_bytes()


def test_a_persons_words_say_what_becomes_of_the_records(home: Home) -> None:
    done = home("export", "-S", home.uid, "--format", "codex")
    assert done.code == 0
    assert done.out.splitlines()[0] == "4 kept · 0 converted · 0 as text · 0 left out"
    assert done.out.splitlines()[-1].startswith(f"cd {home.cwd} && codex resume ")
    assert "Nothing was written" in done.err


# over nothing, or not at all ------------------------------------------------------------------------------------


def test_a_log_that_was_written_before_stays_as_the_client_left_it(home: Home) -> None:
    path = Path(home.export("--write")["log"])
    with path.open("ab") as log:
        log.write(codex.answer("More.") + b"\n")
    data = path.read_bytes()
    assert home.export("--write")["written"]
    assert path.read_bytes() == data


def test_a_log_that_the_client_compressed_since_is_not_written_again(home: Home) -> None:
    """What was added to it is in the compressed one, which a plain one would hide."""
    path = Path(home.export("--write")["log"])
    packed = path.with_name(f"{path.name}.zst")
    packed.write_bytes(zstandard.compress(path.read_bytes() + codex.answer("More.") + b"\n"))
    path.unlink()
    for note in (True, False):
        said = home.export("--write")
        assert (said["written"], said["log"], path.exists()) == (True, str(packed), False), note
        for each in (home.home / "backstory" / FOLDER).glob("*.json"):
            each.unlink()


def test_a_row_that_leads_elsewhere_by_now_is_led_back(home: Home) -> None:
    database = home.threads()
    said = home.export("--write")
    before = home.rows()
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("update threads set rollout_path = '/gone', archived = 1")
    assert home.export("--write")["log"] == said["log"]
    assert home.rows() == before


def test_another_file_in_its_place_is_not_touched(home: Home) -> None:
    path = Path(home.export()["log"])
    path.parent.mkdir(parents=True)
    path.write_text("mine\n")
    done = home("export", "-S", home.uid, "--format", "codex", "--write")
    assert done.code == 73
    assert path.read_text() == "mine\n"


def test_a_log_that_reads_back_wrong_is_taken_away(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    exports, plan = home.exports()
    before = home.files()
    lines_of = native_log.NativeLog.lines
    monkeypatch.setattr(
        native_log.NativeLog, "lines", lambda log: (each.replace(b"reeds", b"trees") for each in lines_of(log))
    )
    with pytest.raises(WrittenLogWrong, match="number 1 of its answers differs"):
        exports.write(plan)
    assert home.files() == before


def test_a_log_whose_row_cannot_be_written_is_taken_away(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.threads()
    exports, plan = home.exports()
    before = home.files()

    def refuse(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(threads, "_write", refuse)
    with pytest.raises(IndexFailed):
        exports.write(plan)
    after = home.files()
    after.pop(f"backstory/{FOLDER}/state_5.sqlite.before", None)
    assert after == before


def test_a_table_with_a_column_that_nobody_knows_is_refused(home: Home) -> None:
    home.threads(more=", moon_phase text not null")
    before = home.files()
    done = home("export", "-S", home.uid, "--format", "codex", "--write")
    assert done.code == CannotHandOver.exit_code
    assert "moon_phase" in done.err
    assert home.files() == before


@pytest.mark.parametrize("version", ["0.168.9", "0.9.200", "none"])
def test_a_client_that_is_too_old_is_given_nothing(home: Home, version: str) -> None:
    home.client("codex", version)
    before = home.files()
    done = home("export", "-S", home.uid, "--format", "codex", "--write")
    assert done.code == 69
    assert "0.169.0" in done.err
    assert home.files() == before


def test_without_the_client_nothing_is_written(home: Home) -> None:
    (home.home / "bin" / "codex").unlink()
    done = home("export", "-S", home.uid, "--format", "codex", "--write", PATH=str(home.home / "bin"))
    assert done.code == 69
    assert not (home.home / ".codex").exists()


def test_a_session_from_an_untrusted_store_is_not_written(home: Home, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere.db"
    assert home("backup", copy).code == 0
    (tmp_path / "stranger").mkdir()
    stranger = Shell(tmp_path / "stranger")
    done = stranger("--store", copy, "export", "-S", home.uid, "--format", "codex", "--cwd", stranger.cwd, "--write")
    assert done.code == 77, done.err
    assert not (stranger.home / ".codex").exists()


@pytest.mark.parametrize(
    "words", [["-o", "x"], ["--all"], ["--exact"], ["--force"]], ids=["a file", "all", "exact", "force"]
)
def test_what_does_not_go_with_a_log_for_a_client_is_refused(home: Home, words: list[str]) -> None:
    assert home("export", home.uid, "--format", "codex", *words).code == 2


@pytest.mark.parametrize("at", [[], ["--at", "@2"]])
def test_the_command_that_is_named_removes_what_was_written(home: Home, at: list[str]) -> None:
    wrote = home("export", home.uid, "--format", "codex", "--write", *at)
    _, _, undo = wrote.err.partition("To remove it: backstory ")
    log = Path(wrote.err.partition("Written: ")[2].partition(". To remove")[0])
    assert log.exists()
    assert home(*shlex.split(undo)).code == 0
    assert not log.exists()


@pytest.mark.parametrize("words", [["--at", "@1"], ["--cwd", "."], ["--write"], ["--undo"], []])
def test_what_goes_with_a_log_for_a_client_alone_is_refused_elsewhere(home: Home, words: list[str]) -> None:
    target = ["-o", "x"] if words else []
    assert home("export", home.uid, "--format", "copilot", *target, *words).code == 2


# taken back -----------------------------------------------------------------------------------------------------


def test_what_was_written_is_taken_back_with_its_folders_and_its_row(home: Home) -> None:
    home.threads()
    before = home.files()
    said = home.export("--write")
    assert home.export("--undo")["removed_paths"] == [said["log"]]
    after = home.files()
    after.pop(f"backstory/{FOLDER}/state_5.sqlite.before")
    assert set(after) == set(before)
    assert home.rows() == []
    assert not (home.home / ".codex" / "sessions").exists()


def test_what_somebody_added_to_stays(home: Home) -> None:
    path = Path(home.export("--write")["log"])
    with path.open("ab") as log:
        log.write(codex.answer("More.") + b"\n")
    done = home("export", "-S", home.uid, "--format", "codex", "--undo")
    assert done.code == 73
    assert path.exists()


def test_what_another_command_put_back_is_not_taken_away_with_it(home: Home) -> None:
    home.log.unlink()
    assert home("restore", "--in-place", home.uid).code == 0
    home.export("--write")
    home.export("--undo")
    assert home.log.exists()
    assert home("export", "-S", home.uid, "--format", "codex", "--undo").code == 66
    assert home("resume", "--undo", home.uid).code == 0
    assert not home.log.exists()


# resume ---------------------------------------------------------------------------------------------------------


def test_resume_prints_the_other_agents_command_and_how_its_log_is_written(home: Home) -> None:
    before = home.files()
    done = home("resume", home.uid, "--agent", "codex", "--at", "@2")
    assert done.code == 0
    assert done.out.startswith(f"cd {home.cwd} && codex resume ")
    assert f"backstory export -S {home.uid} --format codex --at @2" in done.err
    assert home.files() == before


def test_resume_on_a_terminal_writes_the_log_and_becomes_the_client(home: Home) -> None:
    words = [sys.executable, "-m", "backstory", "resume", home.uid, "--agent", "codex"]
    native_id = home.export()["native_id"]
    with Terminal(words, home.cwd, home.environ, width=300) as terminal:
        shown = terminal.until(f"client: resume {native_id}")
    assert shown.count("Written: ") == 1
    assert home.export()["written"]


def test_resume_in_the_sessions_own_agent_writes_no_log(home: Home) -> None:
    said = home("resume", home.uid, "--agent", "claude", "--json").json()
    assert (said["native_id"], said["log"]) == (ID, str(home.log))


def test_a_session_that_an_agent_runs_in_is_not_handed_over(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    going = Going(bench, {"text": "Looking."})
    for words in (("export", "S1", "--format", "claude"), ("resume", "S1")):
        done = bench.backstory(*words)
        assert done.returncode == 75
        assert "backstory cancel S1" in done.stderr
    going.end_agent()
    assert going.process.wait() == 0
    assert bench.backstory("export", "S1", "--format", "claude").returncode == 0
