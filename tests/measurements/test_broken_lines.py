"""The script that breaks lines: its lines are of today and of all rooms, and it tells a test that notices from none."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests import broken_lines
from tests.broken_lines import ROOT, SOURCE, Broken, breakable, choose, ends_as, kept, passed

if TYPE_CHECKING:
    from pathlib import Path

CODE = """
def most(values):
    if len(values) < 3:
        return None
    values.sort()
    return values[1]
"""


TESTS = """\
import subprocess
import sys

from backstory.middle import most


def test_most() -> None:
    assert most([1, 2, 3]) == 2


def test_elsewhere() -> None:
    code = "from backstory.middle import most; print(most([1, 2, 3]))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, env={}) == "2\\n"


def test_nothing() -> None:
    pass
"""


def test_conditions_calls_values_and_numbers_are_broken_each_in_one_line() -> None:
    becomes = {each.line.strip(): each.becomes.strip() for each in breakable(CODE, "a.py")}
    assert becomes == {
        "if len(values) < 3:": "if len(values) <= 3:",
        "values.sort()": "pass",
        "return values[1]": "return values[2]",
    }


def test_the_same_lines_are_chosen_every_time_and_one_of_each_room_at_least(tmp_path: Path) -> None:
    for room, size in (("large", 9), ("small", 1)):
        (tmp_path / SOURCE / room).mkdir(parents=True)
        code = "".join(CODE.replace("most", f"most_{n}").replace("3", f"{n}") for n in range(size))
        (tmp_path / SOURCE / room / "code.py").write_text(code, "utf-8")
    chosen = choose(tmp_path, 4)
    assert chosen == choose(tmp_path, 4)
    assert sorted(each.path.split("/")[2] for each in chosen) == ["large", "large", "large", "small"]


def test_the_lines_that_were_kept_are_of_every_room_and_differ() -> None:
    rooms = {each.name for each in (ROOT / SOURCE).iterdir() if each.is_dir() and any(each.glob("*.py"))}
    assert len(set(kept())) == broken_lines.COUNT
    assert {each.path.split("/")[2] for each in kept()} >= rooms
    assert all(each.line != each.becomes for each in kept())


@pytest.mark.slow
def test_a_line_that_a_test_notices_is_caught_and_the_tree_is_whole_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    module = root / SOURCE / "middle.py"
    module.parent.mkdir(parents=True)
    (module.parent / "__init__.py").touch()
    module.write_text(CODE, "utf-8")
    (root / "tests").mkdir()
    shutil.copy(ROOT / "pyproject.toml", root / "pyproject.toml")
    (root / "tests" / "test_middle.py").write_text(TESTS, "utf-8")
    path = str(SOURCE / "middle.py")
    broken = [
        Broken(path, "    return values[1]", "    return values[2]"),
        Broken(path, "    values.sort()", "    pass"),
        Broken(path, "    gone()", "    pass"),
    ]
    monkeypatch.setattr(broken_lines, "kept", lambda: broken)

    found = passed(root, tmp_path)
    ends = [ends_as(root, each, found.get(number), 60) for number, each in enumerate(broken)]

    tests = {f"tests/test_middle.py::test_{name}" for name in ("most", "elsewhere")}
    assert {number: set(names) for number, names in found.items()} == {0: tests, 1: tests}
    assert ends == ["caught", "missed", "gone"]
    assert module.read_text("utf-8") == CODE
