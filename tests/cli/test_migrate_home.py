"""``migrate-home`` as people meet it: what it prints, a kill in the middle, and what the old place says then."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.bench import Bench
from tests.support.going import Going, until

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

KILLED = """
import sys
from tests.support import homes
from backstory import cli
homes._arm({step}, one_disk=False)
sys.argv = ["backstory", "migrate-home", {old!r}, {new!r}]
cli.main()
"""
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def filled(bare: Shell) -> Shell:
    bare.put("claude/tools", "codex/resume")
    assert bare("ingest").code == 0
    return bare


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def old(shell: Shell) -> Path:
    return shell.home / "backstory"


def new(shell: Shell) -> Path:
    return shell.home / "new"


def listed(shell: Shell, home: Path) -> str:
    done = shell("list", "--all", BACKSTORY_HOME=str(home))
    assert done.code == 0, done.err
    return done.out


@pytest.mark.parametrize("step", [12, 24, 36])
def test_killed_halfway_then_again_then_verify_and_list(filled: Shell, step: int) -> None:
    before = listed(filled, old(filled))
    code = KILLED.format(step=step, old=str(old(filled)), new=str(new(filled)))
    killed = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=filled.environ, capture_output=True, check=False, timeout=120
    )
    assert killed.returncode == -9, killed

    again = filled("migrate-home", old(filled), new(filled))

    assert again.code == 0, again.err
    assert filled("verify", BACKSTORY_HOME=str(new(filled))).code == 0
    assert listed(filled, new(filled)) == before
    assert [each.name for each in old(filled).iterdir()] == ["moved-to"]


def test_it_ends_with_what_to_set(filled: Shell) -> None:
    done = filled("migrate-home", old(filled), new(filled))

    assert done.out == f"export BACKSTORY_HOME={new(filled)}\n"
    assert f"Set BACKSTORY_HOME={new(filled)}" in done.err


def test_every_command_in_the_old_place_says_where_the_home_is_and_begins_nothing(filled: Shell) -> None:
    filled("migrate-home", old(filled), new(filled))

    for words in (["list"], ["search", "x"], ["ingest"], ["run", "x"], ["config", "list"], ["ps"], ["sql", "select 1"],
                  ["verify"], ["--steer", "x"], [], ["import", "-"], ["stats"], ["backup", "x"]):  # fmt: skip
        done = filled(*words)
        assert done.code == 78, words
        assert f"was moved to {new(filled)}: set BACKSTORY_HOME={new(filled)}" in done.err, words
        assert done.out == ""
    assert [each.name for each in old(filled).iterdir()] == ["moved-to"]
    assert filled("--version").code == filled("help", "list").code == 0


def test_a_link_in_the_old_place_needs_nothing_to_be_set(filled: Shell) -> None:
    before = listed(filled, old(filled))

    done = filled("migrate-home", "--symlink", old(filled), new(filled))

    assert done.out == ""
    assert "nothing has to be set" in done.err
    assert listed(filled, old(filled)) == before
    assert filled("ingest").code == 0
    assert new(filled).joinpath("store.db").exists()


@pytest.mark.parametrize(
    ("program", "line"), [("/usr/bin/fish", "set -Ux BACKSTORY_HOME {}"), ("/bin/tcsh", "setenv BACKSTORY_HOME {}")]
)
def test_the_line_is_for_the_persons_shell(filled: Shell, program: str, line: str) -> None:
    to = filled.home / "a b"
    done = filled("migrate-home", old(filled), to, SHELL=program)

    assert done.out == line.format(shlex.quote(str(to))) + "\n"


def test_a_shell_takes_the_line(filled: Shell) -> None:
    to = filled.home / "it's new"
    line = filled("migrate-home", old(filled), to).out

    said = subprocess.run(["sh", "-c", f'{line}\nprintf %s "$BACKSTORY_HOME"'], capture_output=True, check=True)

    assert said.stdout.decode() == str(to)


def test_to_the_platforms_folder_the_variable_is_unset(filled: Shell) -> None:
    default = filled.home / ".local" / "share" / "backstory"

    done = filled("migrate-home", old(filled), default, XDG_DATA_HOME=str(default.parent))

    assert done.out == "unset BACKSTORY_HOME\n"
    assert "BACKSTORY_HOME has to be unset" in done.err


def test_json_has_what_was_moved_and_what_stays(filled: Shell) -> None:
    (old(filled) / "mine.txt").write_text("x")
    new(filled).mkdir()
    (new(filled) / "folders.seen").write_text("other")

    told = filled("migrate-home", "--json", old(filled), new(filled)).json()

    assert told == {
        "from": str(old(filled)), "to": str(new(filled)), "moved_paths": ["store.db"],
        "skipped_paths": ["folders.seen"], "left_paths": ["mine.txt"], "symlink": False, "served": [],
        "set": f"export BACKSTORY_HOME={new(filled)}",
        "bytes": (new(filled) / "store.db").stat().st_size,
    }  # fmt: skip


def test_the_agents_whose_server_names_the_old_home_are_named_and_then_brought_up_to_date(filled: Shell) -> None:
    settings = Path(filled.environ["HOME"]) / ".claude.json"
    assert filled("mcp", "install", "claude").code == 0

    done = filled("migrate-home", old(filled), new(filled))
    assert f"The old folder is still set for claude ({settings}). Update each: backstory mcp install AGENT" in done.err

    assert filled("mcp", "install", "claude", BACKSTORY_HOME=str(new(filled))).code == 0
    assert str(new(filled)) in settings.read_text()
    assert filled("mcp", "uninstall", "claude", BACKSTORY_HOME=str(new(filled))).code == 0
    assert not settings.exists()


def test_with_a_link_servers_go_on_and_nothing_is_said_of_them(filled: Shell) -> None:
    assert filled("mcp", "install", "claude").code == 0

    done = filled("migrate-home", "--symlink", old(filled), new(filled))

    assert done.code == 0, done.err
    assert "MCP" not in done.err
    assert filled("mcp", "install", "claude").err.startswith("Nothing to do")


def test_where_there_is_another_store_the_command_it_names_makes_one_of_both(filled: Shell) -> None:
    before = filled("list", "--all", "--json").json()["sessions"]
    filled("ingest", "-a", "codex", BACKSTORY_HOME=str(new(filled)))

    refused = filled("migrate-home", old(filled), new(filled))
    assert refused.code == 73
    command = refused.err.strip().splitlines()[-1].strip()
    done = subprocess.run(
        ["sh", "-c", command], env=filled.environ | {"PATH": f"{Path(sys.executable).parent}:{filled.environ['PATH']}"},
        cwd=filled.cwd, capture_output=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done
    after = filled("list", "--all", "--json", BACKSTORY_HOME=str(new(filled))).json()["sessions"]
    assert sorted(each["uid"] for each in after) == sorted(each["uid"] for each in before)


def test_a_watch_is_named(filled: Shell) -> None:
    watch = subprocess.Popen(
        [sys.executable, "-m", "backstory", "ingest", "--watch"], cwd=filled.cwd, env=filled.environ, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    lines = watch.stderr
    assert lines is not None
    until(lambda: "Following" in lines.readline())

    refused = filled("migrate-home", old(filled), new(filled))

    assert refused.code == 75
    assert "`backstory ingest --watch` follows logs" in refused.err
    assert listed(filled, old(filled))
    watch.kill()
    watch.wait()
    assert filled("migrate-home", old(filled), new(filled)).code == 0


def test_a_run_is_named_and_one_that_is_over_is_stored_from_the_new_place(bench: Bench, tmp_path: Path) -> None:
    to = tmp_path / "elsewhere"
    with Going(bench, {"say": "so far"}) as going:
        refused = bench.backstory("migrate-home", str(bench.home), str(to))
        assert refused.returncode == 75
        assert "A run of session" in refused.stderr
        going.kill_backstory()
        going.end_agent()

    assert bench.backstory("migrate-home", str(bench.home), str(to)).returncode == 0
    there = {"BACKSTORY_HOME": str(to)}
    assert bench.backstory("ingest", environ=there).returncode == 0
    shown = bench.backstory("show", "S1", environ=there)
    assert "so far" in shown.stdout
    assert list((to / "spool").iterdir()) == []


def test_a_file_in_the_place_of_the_home_is_named_and_stays(bare: Shell) -> None:
    file = bare.home / "a-file"
    file.write_text("mine")
    for words in (["list"], ["search", "x"], ["ingest"], ["run", "x"], ["verify"], ["config", "list"]):
        done = bare(*words, BACKSTORY_HOME=str(file))
        assert (done.code, f"The home {file} is not a folder. Set BACKSTORY_HOME" in done.err) == (78, True), words
    assert file.read_text() == "mine"
