"""``uninstall``: what is listed, what goes, and that files of others are then what they were, byte for byte."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from backstory.projects.git import keep_out_of_git, without_excluded
from backstory.projects.registry import KnownProjects
from backstory.store import open_store
from tests.support.bench import Bench
from tests.support.forked import COMMAND
from tests.support.going import until
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Done, Shell

pytestmark = pytest.mark.slow

IN_USE, UNKNOWN = 75, 64
SETTINGS = '{\n  "theme": "dark"\n}\n'


def things(shell: Shell, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ok(shell, "uninstall", *words, "--json").out)["things"]
    return found


def kinds(shell: Shell, *words: str) -> dict[str, bool]:
    """The kinds that are listed, each with whether it was removed."""
    return {each["kind"]: each["taken_out"] for each in things(shell, *words)}


def ok(shell: Shell, *words: str) -> Done:
    done = shell(*words)
    assert done.code == 0, done.err
    return done


@pytest.fixture
def left(bare: Shell) -> Shell:
    """A machine with one of each kind, in files that others wrote to before."""
    bare.put("claude/tools")
    (bare.home / ".claude.json").write_text(SETTINGS)
    (bare.home / ".bashrc").write_text("alias ll='ls -l'\n")
    subprocess.run(["git", "init", "-q", str(bare.cwd)], check=True)
    (bare.cwd / ".git/info/exclude").write_bytes(b"*.o\r\n*.log")
    before = files(bare)
    ok(bare, "ingest")
    ok(bare, "mcp", "install", "claude")
    ok(bare, "skill", "install", "codex")
    with (bare.home / ".bashrc").open("a") as profile:
        profile.write("source <(backstory completion bash)\n" + ok(bare, "completion", "bash").out)
    home_store = open_store(bare.store)
    with open_store(bare.cwd / ".backstory" / "sessions.bks") as store:
        store.create_session("mine", worktree=bare.cwd)
        KnownProjects(bare.home / "backstory", home_store, lambda: 0).remember(store)
    home_store.close()
    keep_out_of_git(bare.cwd, ".backstory")
    bare.before = before  # type: ignore[attr-defined]
    return bare


def files(shell: Shell) -> dict[str, bytes]:
    return {str(each.relative_to(shell.home)): each.read_bytes() for each in shell.home.rglob("*") if each.is_file()}


def test_a_list_changes_nothing_and_has_all_kinds_with_sizes(left: Shell) -> None:
    before = files(left)
    done = ok(left, "uninstall")
    assert [line.split()[0] for line in done.out.splitlines()[1:]] == [
        "mcp", "skill", "completion", "exclude", "store", "home",
    ]  # fmt: skip
    assert "pipx uninstall backstory" in done.err and "Nothing was changed." in done.err
    assert all(each["bytes"] > 0 and not each["taken_out"] for each in things(left))
    assert files(left) == before


def test_everything_goes_and_files_of_others_are_as_they_were(left: Shell) -> None:
    done = ok(left, "uninstall", "--all", "--yes")
    assert "Taken out: 6 things." in done.err
    assert files(left) == left.before  # type: ignore[attr-defined]
    assert not (left.home / "backstory").exists() and not (left.cwd / ".backstory").exists()
    assert "Nothing of backstory is on this machine" in ok(left, "uninstall").err
    assert not (left.home / "backstory").exists()


@pytest.mark.parametrize("kind", ["mcp", "skill", "completion", "exclude", "store"])
def test_one_kind_goes_alone(left: Shell, kind: str) -> None:
    assert kinds(left, kind, "--yes") == {
        each: each == kind for each in ("mcp", "skill", "completion", "exclude", "store", "home")
    }
    assert kind not in kinds(left)


def test_a_thing_is_named_by_its_path_and_another_word_is_refused(left: Shell) -> None:
    assert kinds(left, str(left.home / ".claude.json"))["mcp"]
    assert (left.home / ".claude.json").read_text() == SETTINGS
    refused = left("uninstall", "stroe")
    assert (refused.code, "Did you mean store?" in refused.err) == (UNKNOWN, True)


def test_where_nothing_is_ours_nothing_is_made_or_changed(bare: Shell) -> None:
    assert things(bare) == things(bare, "--all") == []
    assert not (bare.home / "backstory").exists()


def test_settings_that_a_person_changed_since_keep_their_change(left: Shell) -> None:
    file = left.home / ".claude.json"
    file.write_text(file.read_text().replace("dark", "light"))
    assert kinds(left, "mcp")["mcp"]
    assert file.read_text() == SETTINGS.replace("dark", "light")


def test_a_skill_that_a_person_changed_is_left_with_the_reason(left: Shell) -> None:
    skill = left.home / ".codex/skills/backstory/SKILL.md"
    skill.write_text("mine")
    (thing,) = (each for each in things(left, "skill") if each["kind"] == "skill")
    assert (thing["taken_out"], "SKILL.md" in thing["problem"]) == (False, True)
    assert "Left as it is: " in ok(left, "uninstall", "skill").err
    assert skill.read_text() == "mine"


def test_history_goes_only_after_a_question(left: Shell) -> None:
    refused = left("uninstall", "store")
    assert (refused.code, "--yes" in refused.err) == (UNKNOWN, True)
    with Terminal([*COMMAND, "uninstall", "store"], left.cwd, left.environ) as terminal:
        terminal.until("?")
        terminal.type("n\n")
        assert "Kept." in terminal.end()
    assert (left.cwd / ".backstory/sessions.bks").is_file()


def test_a_home_without_its_notes_says_what_is_still_there(left: Shell) -> None:
    done = ok(left, "uninstall", "home", "--yes")
    assert f"Still there: {left.home}/.claude.json. To take it out: backstory uninstall mcp" in done.err
    assert kinds(left, "mcp") == {"mcp": True, "skill": False, "completion": False, "exclude": False}


def test_a_file_of_somebody_else_in_our_folders_stays(left: Shell) -> None:
    (left.cwd / ".backstory/config.toml").write_text("# mine\n")
    (left.home / "backstory/notes.txt").write_text("mine")
    done = ok(left, "uninstall", "--all", "--yes")
    assert f"Not ours, left in {left.home}/backstory: notes.txt" in done.err
    assert (left.cwd / ".backstory/config.toml").read_text() == "# mine\n"


def test_a_store_in_use_by_a_run_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    script: list[dict[str, Any]] = [
        {"touch": str(tmp_path / "begun")},
        {"wait_for": str(tmp_path / "go")},
        {"result": True},
    ]
    running = bench.start("run", "-n", "-a", "claude", "go", script=script)
    until((tmp_path / "begun").exists)
    for kind in ("store", "home"):
        refused = bench.backstory("uninstall", kind, "--yes")
        assert (refused.returncode, "is alive" in refused.stderr) == (IN_USE, True), refused.stderr
        as_json = bench.backstory("uninstall", "store", "--yes", "--json")
        assert not any(each["taken_out"] for each in json.loads(as_json.stdout)["things"])
        assert json.loads(as_json.stderr.splitlines()[-1])["error"]["code"] == as_json.returncode == IN_USE
        assert "was not removed. Wait for it, or: backstory cancel" in refused.stderr
    (tmp_path / "go").touch()
    assert running.wait(timeout=60) == 0
    assert bench.backstory("uninstall", "store", "home", "--yes").returncode == 0
    assert not bench.home.exists() and not (bench.project / ".backstory").exists()


@pytest.mark.parametrize("before", [b"", b"*.o\n", b"*.o", b"*.o\r\n", b"a\nb"])
def test_the_line_for_git_goes_as_it_came(tmp_path: Path, before: bytes) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    exclude = tmp_path / ".git/info/exclude"
    exclude.write_bytes(before)
    keep_out_of_git(tmp_path, ".backstory")
    written = exclude.read_bytes()
    assert b"/.backstory/" in written.splitlines()
    assert without_excluded(written, ".backstory") == before
    assert without_excluded(written + b"\n*.tmp\n", ".backstory").endswith(b"*.tmp\n")
