"""A path in the session's folder is shown from there on; JSON has all of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.bench import Bench
from tests.support.going import Going

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = pytest.mark.slow
GOOD = {"result": True}


def line_of(kind: str, **part: Any) -> dict[str, str]:
    return {"raw": json.dumps({"type": kind, "message": {"id": "m", "role": kind, "content": [part]}}) + "\n"}


def call(name: str, path: Path) -> dict[str, str]:
    return line_of("assistant", type="tool_use", id=name, name=name, input={"file_path": str(path)})


def result(name: str, content: str) -> dict[str, str]:
    return line_of("user", type="tool_result", tool_use_id=name, content=content)


class Told:
    """A session whose agent read a file of its project and was not allowed to edit another one."""

    def __init__(self, root: Path) -> None:
        self.bench = Bench(root)
        self.path = self.bench.project / "src" / "calc.py"
        self.aside = root / "elsewhere" / "notes.py"
        denied = {"tool_name": "Edit", "tool_use_id": "Edit", "tool_input": {"file_path": str(self.path)}}
        end = {"type": "result", "subtype": "success", "is_error": False, "permission_denials": [denied]}
        self.run = self.bench.run(
            "go", call("Read", self.path), result("Read", "1\n2\n"), call("Write", self.aside),
            {"raw": json.dumps(end) + "\n"},
        )  # fmt: skip

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.bench.backstory(*words)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return Told(tmp_path_factory.mktemp("paths"))


def test_a_run_shows_it_so(told: Told) -> None:
    assert "● Read src/calc.py" in told.run.stdout
    assert "paths0/elsewhere/notes.py" in told.run.stdout


def test_so_does_its_list_of_refused_calls(told: Told) -> None:
    assert "1 call was refused: Edit src/calc.py" in told.run.stderr


@pytest.mark.parametrize("words", [("scan",), ("tree", "--records"), ("diff", "@1", "@3"), ("show",), ("show", "@2")])
def test_so_do_the_screens_of_a_session(told: Told, words: tuple[str, ...]) -> None:
    shown = told(*words).stdout
    assert "src/calc.py" in shown
    if words != ("show", "@2"):
        # It has the whole input of its call.
        assert str(told.path) not in shown


def test_so_does_the_head_of_a_result(told: Told) -> None:
    assert "result of Read (src/calc.py)" in told("show", "@3").stdout


@pytest.mark.parametrize("words", [("scan",), ("diff", "@1", "@3"), ("show",)])
def test_json_has_all_of_it(told: Told, words: tuple[str, ...]) -> None:
    assert str(told.path) in told(*words, "--json").stdout


def test_so_does_the_list_of_what_runs(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with Going(bench, call("Read", bench.project / "src" / "calc.py")):
        assert "Read src/calc.py" in bench.backstory("ps").stdout
