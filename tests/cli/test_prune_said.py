"""Where it is said that a session was pruned in part, and that what went is elsewhere still."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from backstory.cli.app import App
from backstory.cli.tui.bars import status_line
from tests.support.bench import Bench
from tests.support.going import GOOD
from tests.support.leftovers import leftovers
from tests.support.machines import claude_line, claude_log
from tests.support.mcp_client import Client
from tests.support.pages import served
from tests.support.pruned import LATER, NEW, put
from tests.support.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
WORDS = "pruned in part: all but prompts"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    home = tmp_path_factory.mktemp("said")
    shell = Shell(home)
    here = home / "here"
    here.mkdir()
    put(shell, "old", here, LATER, seed=1)
    put(shell, "whole", here, NEW, seed=2)
    put(shell, "fork", here, LATER, seed=1)
    path = home / claude_log("fork")
    told = {"sessionId": "fork", "timestamp": NEW, "cwd": str(here), "version": "2.0.0"}
    copied = (home / claude_log("old")).read_bytes().replace(b'"sessionId":"old"', b'"sessionId":"fork"')
    path.write_bytes(copied + claude_line("user", "fork-5", "and on", **told) + b"\n")
    assert shell("ingest").code == 0
    return shell


@pytest.fixture
def desk(made: Shell, tmp_path: Path) -> Shell:
    """A machine with a session, a younger fork of it, and one that has nothing to do with them."""
    home = tmp_path / "home"
    shutil.copytree(made.home, home)
    return Shell(home)


def pruned(shell: Shell) -> dict[str, Any]:
    """Prune the old session in part; returns it as it is listed then."""
    done = shell("prune", "--older", "2026-06-01", "--keep", "prompts", "--yes")
    assert done.code == 0, done.err
    (found,) = (each for each in shell("list", "--all", "--json").json()["sessions"] if each["native_id"] == "old")
    return dict(found)


@pytest.mark.parametrize("words", [[], ["--keep", "prompts"]], ids=["whole", "in part"])
def test_who_holds_copies_of_what_went_is_counted(desk: Shell, words: list[str]) -> None:
    prune = ("prune", "--older", "2026-06-01", *words, "--yes")
    done = desk(*prune, "--json").json()
    assert (len(done["uids"]), done["copy_count"]) == (1, 1)


def test_a_json_export_of_what_is_pruned_in_part_says_so_where_it_is_imported(desk: Shell, tmp_path: Path) -> None:
    was = pruned(desk)
    for number, more in enumerate(([], ["--no-bytes"], ["--redact"])):
        assert desk("export", "old", "--format", "json", "-o", f"{tmp_path / 'old.jsonl'}", "--force", *more).code == 0
        (tmp_path / f"other{number}").mkdir()
        other = Shell(tmp_path / f"other{number}")
        for trust in ([], ["--trust"]):
            assert other("import", tmp_path / "old.jsonl", *trust).code == 0
            assert other("list", "--all", "--json").json()["sessions"][0]["pruned"] == was["pruned"] == ["prompts"]
            assert other("verify", "--json").json()["pruned_sessions"] == 1
            assert WORDS in other("show", "old").out
        assert "No session goes" in other("prune", "--agent", "claude", "--keep", "prompts", "--yes").err


def test_what_an_import_pruned_less_adds_goes_as_what_was_here_did(desk: Shell, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Shell(tmp_path / "other")
    desk("export", "old", "--format", "json", "-o", tmp_path / "whole.jsonl")
    assert other("import", "--trust", tmp_path / "whole.jsonl").code == 0
    pruned(other)
    told = {"sessionId": "old", "timestamp": NEW, "cwd": str(desk.home), "version": "2.0.0"}
    with (desk.home / claude_log("old")).open("ab") as log:
        log.write(claude_line("user", "old-9", "one more", **told) + b"\n")
    desk("ingest")
    desk("prune", "--agent", "claude", "--kind", "tool-outputs", "--yes")
    desk("export", "old", "--format", "json", "-o", tmp_path / "less.jsonl")
    assert other("import", "--trust", tmp_path / "less.jsonl").code == 0
    shown = other("show", "old", "--full").out
    assert "one more" in shown and "the prompt of old" in shown and "the answer of old" not in shown
    assert other("list", "--all", "--json").json()["sessions"][0]["pruned"] == ["prompts", "tool-outputs"]


@pytest.mark.parametrize("form", ["md", "html"])
def test_the_head_of_an_export_says_that_a_session_was_pruned_in_part(desk: Shell, tmp_path: Path, form: str) -> None:
    pruned(desk)
    for session, is_said in (("old", True), ("whole", False)):
        assert desk("export", session, "-o", tmp_path / f"{session}.{form}").code == 0
        head = (tmp_path / f"{session}.{form}").read_text().partition("[pruned]")[0]
        assert ("runed in part" in head) is is_said


def test_it_is_said_wherever_the_session_is_named(desk: Shell) -> None:
    uid = pruned(desk)["uid"]
    for words in (["list", "--all"], ["search", "--all", "the prompt of old"]):
        shown = desk(*words).out
        assert shown.count("pruned in part") == 1, shown
    hits = desk("search", "--all", "the prompt of", "--json").json()["hits"]
    assert {each["uid"]: each["pruned"] for each in hits}[uid] == ["prompts"]
    assert {tuple(each["pruned"] or ()) for each in hits} == {("prompts",), ()}
    assert desk("show", "old", "--outline", "--json").json()["session"]["pruned"] == ["prompts"]


def test_a_recap_does_not_take_the_mark_for_an_answer(desk: Shell) -> None:
    assert "Last answer: the answer of whole" in desk("report", "recap", "whole").out
    pruned(desk)
    recap = desk("report", "recap", "old").out
    assert WORDS in recap and "Its last answer was pruned." in recap and "Last answer" not in recap


def test_an_agent_is_told_so_by_a_server_that_was_there_before(desk: Shell) -> None:
    desk("config", "set", "mcp.scope", "all")
    client = Client(desk.cwd, desk.environ)
    try:
        client.begin()
        before = client.call("search_sessions", query="the answer of old")
        assert "the answer of old" in before.text
        uid = pruned(desk)["uid"]
        hit = client.call("search_sessions", query='"the prompt of old"')
        assert "pruned in part" in hit.text and "the answer of old" not in hit.text
        read = client.call("get_session", session=uid)
        assert WORDS in read.text and "[pruned]" in read.text and "the answer of old" not in read.text
    finally:
        assert client.close()[0] == 0


def test_pages_say_so_in_the_list_and_in_the_head(desk: Shell) -> None:
    uid = pruned(desk)["uid"]
    with served(desk.environ, desk.cwd) as visitor:
        visitor.enter()
        assert visitor.get("/sessions").text.count(">[pruned in part]") == 1
        page = visitor.get(f"/s/{uid}").text
        assert "[pruned in part]" in page.partition("</h1>")[0].rpartition("<h1")[2]
        assert "pruned in part" in visitor.get("/search?q=the+prompt+of+old").text


@pytest.mark.parametrize("columns", [60, 200])
def test_the_screen_says_so_above_a_session(desk: Shell, columns: int) -> None:
    uid = pruned(desk)["uid"]
    with App(desk.environ, desk.cwd).new_workspace() as workspace:
        line = status_line(workspace.reader.transcript(workspace.resolve(uid)), "", columns)
    assert "[pruned in part] the p" in line


@pytest.mark.parametrize("words", [[], ["--keep", "prompts"]], ids=["whole", "in part"])
def test_a_merge_brings_nothing_back_that_went_from_the_home_store(tmp_path: Path, words: list[str]) -> None:
    bench = Bench(tmp_path)
    bench.run("Where?", {"say": "a heron by the water"}, GOOD)
    bench.backstory("ingest")
    other = tmp_path / "other.db"
    assert (
        bench.backstory("backup", "--store", str(bench.project / ".backstory" / "sessions.bks"), str(other)).returncode
        == 0
    )
    assert bench.backstory("prune", "--agent", "claude", *words, "--yes").returncode == 0
    shutil.rmtree(bench.project / ".backstory")
    merged = bench.backstory("merge", str(other), "--trust", "--json")
    assert merged.returncode == 0, merged.stderr
    for folder in (bench.home, bench.project):
        assert leftovers(folder, "heron by the water") == set()
    assert ("Where?" in bench.backstory("show", "S1").stdout) is bool(words)


def test_a_push_says_what_it_does_not_send(desk: Shell, tmp_path: Path) -> None:
    push = ("push", tmp_path / "folder", "--plain")
    assert "pruned" not in desk(*push).err
    pruned(desk)
    told = desk(*push)
    assert "1 session was pruned in part and not sent: what was sent before stays as it is there." in told.err
    assert desk(*push, "--json").json()["pruned_sessions"] == 1
    (tmp_path / "other").mkdir()
    other = Shell(tmp_path / "other")
    assert other("pull", "--plain", tmp_path / "folder").code == 0
    assert "the answer of old" in other("show", "old").out


def test_a_fork_that_was_pruned_as_well_holds_no_copies(desk: Shell) -> None:
    done = desk("prune", "--agent", "claude", "--keep", "prompts", "--yes", "--json").json()
    assert (len(done["uids"]), done["copy_count"]) == (3, 0)
