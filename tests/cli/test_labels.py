"""Where sessions of several projects are listed, each is called what every command takes for it in any folder."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from click.shell_completion import BashComplete

from backstory.cli import cli
from tests.support.bench import Bench
from tests.support.going import Going

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

GOOD: dict[str, Any] = {"result": True}
FIRST = ("one", "two")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Two projects with a session S1 each, about another thing, and a folder that is neither."""
    bench = Bench(tmp_path)
    other, nowhere = tmp_path / "other", tmp_path / "nowhere"
    for folder in (other, nowhere):
        folder.mkdir()
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    for folder, word in zip((bench.project, other), FIRST, strict=True):
        assert bench.run(f"needle {word}", GOOD, cwd=folder).returncode == 0
    return bench


def everywhere(bench: Bench) -> list[Path]:
    return [bench.project, bench.root / "other", bench.root / "nowhere"]


def shown(bench: Bench, label: str, folder: Path) -> Any:
    done = bench.backstory("show", label, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["session"]


def test_what_list_all_calls_a_session_names_it_in_every_folder(bench: Bench) -> None:
    for folder in everywhere(bench):
        lines = bench.backstory("list", "--all", cwd=folder).stdout.splitlines()
        assert len(lines) == len(FIRST)
        for line in lines:
            uid, _, prompt, *_ = line.split("\t")
            assert [shown(bench, uid, each)["first_prompt"] for each in everywhere(bench)] == [prompt] * 3


def test_what_search_calls_a_session_names_it_in_every_folder(bench: Bench) -> None:
    for folder in everywhere(bench):
        hits = bench.backstory("search", "needle", cwd=folder).stdout.splitlines()[::2]
        assert len(hits) == len(FIRST)
        for line in hits:
            label, _, prompt, *_ = line.split()
            assert [shown(bench, label, each)["first_prompt"] for each in everywhere(bench)] == [f"needle {prompt}"] * 3


def test_what_ps_calls_a_session_that_begins_names_it_in_every_folder(bench: Bench) -> None:
    with Going(bench, {"say": "x"}):
        (line,) = bench.backstory("ps", cwd=bench.root / "nowhere").stdout.splitlines()
        (run,) = json.loads(bench.backstory("ps", "--json").stdout)["runs"]
        found = {shown(bench, line.split()[0], each)["uid"] for each in everywhere(bench)}
    assert found == {run["uid"]}


def test_a_new_session_that_runs_is_listed_in_every_folder(bench: Bench) -> None:
    other = bench.root / "other"
    process = bench.start("run", "-n", "-a", "claude", "Where", script=[{"say": "x"}, {"wait_for": "never"}], cwd=other)
    assert process.stdout is not None
    process.stdout.readline()
    uid = json.loads(bench.backstory("ps", "--json").stdout)["runs"][0]["uid"]
    listed = json.loads(bench.backstory("list", "--all", "--json", cwd=bench.root / "nowhere").stdout)["sessions"]
    assert [each["uid"] for each in listed].count(uid) == 1
    assert shown(bench, uid[:12], bench.root / "nowhere")["uid"] == uid


def test_a_number_means_the_projects_own_session_in_its_list(bench: Bench) -> None:
    for folder, word in zip(everywhere(bench), FIRST, strict=False):
        (line,) = bench.backstory("list", cwd=folder).stdout.splitlines()
        assert line.split("\t")[1] == "S1"
        assert shown(bench, "S1", folder)["first_prompt"] == f"needle {word}"


def test_what_a_shell_completes_names_the_session_that_it_describes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bench.environ([]).items():
        monkeypatch.setenv(name, value)
    for folder in everywhere(bench):
        monkeypatch.chdir(folder)
        items = BashComplete(cli, {}, "backstory", "_BACKSTORY_COMPLETE").get_completions(["show"], "")
        described = {item.value: item.help for item in items}
        assert sorted(map(str, described.values())) == [f"needle {word}" for word in FIRST]
        assert {label: shown(bench, label, folder)["first_prompt"] for label in described} == described
        assert ("S1" in described) is (folder.name != "nowhere")
