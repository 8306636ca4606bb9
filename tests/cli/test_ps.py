"""``ps`` and ``queue list`` as a person reads them, and as a program does."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

import pytest

from backstory.cli.output import columns
from tests.support.bench import Bench
from tests.support.going import Going
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

pytestmark = pytest.mark.slow

GOOD = {"result": True}


def line_of(kind: str, **part: Any) -> dict[str, str]:
    message = {"id": "m", "role": kind, "content": [part]}
    return {"raw": json.dumps({"type": kind, "message": message}) + "\n"}


def call(command: str) -> dict[str, str]:
    return line_of("assistant", type="tool_use", id="t1", name="Bash", input={"command": command})


def result(content: str) -> dict[str, str]:
    return line_of("user", type="tool_result", tool_use_id="t1", content=content)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def seen(bench: Bench, *words: str, width: int = 100) -> list[str]:
    """What a terminal of so many columns shows."""
    command = [sys.executable, "-m", "backstory", *words]
    with Terminal(command, bench.project, bench.environ([]), width=width) as terminal:
        return terminal.end().splitlines()


def test_a_run_is_shown_with_its_time_its_call_and_its_prompt(bench: Bench) -> None:
    with Going(bench, call("pytest -q"), then=(result("ok"), GOOD)):
        until_at_work(bench)
        assert bench.backstory("followup", "Then tidy up").returncode == 0
        (line,) = seen(bench, "ps")
        assert re.fullmatch(r"S1  claude  running \d+\.\d s  Bash pytest -q  ❯ .*  \(1 waiting\)", line), line
        narrow = seen(bench, "ps", width=40)
        assert len(narrow) == 2
        assert max(map(columns, narrow)) <= 60
        pid = json.loads(bench.backstory("ps", "--json").stdout)["runs"][0]["pid"]
        assert str(pid) not in line
        assert seen(bench, "ps", "-v")[1].strip().startswith(f"pid {pid} · run by ")
        fields = bench.backstory("ps").stdout.rstrip("\n").split("\t")
        assert (fields[0], fields[1], fields[3], fields[5]) == ("S1", "claude", "Bash pytest -q", "(1 waiting)")


def until_at_work(bench: Bench) -> None:
    from tests.support.going import until

    until(lambda: "pytest" in bench.backstory("ps").stdout)


def test_a_run_whose_call_has_its_result_is_at_none(bench: Bench) -> None:
    with Going(bench, call("pytest -q"), result("ok"), {"say": "It is green."}):
        (line,) = seen(bench, "ps")
        assert "Bash" not in line


def test_the_queue_says_times_as_people_do_and_programs_get_them_exactly(bench: Bench) -> None:
    with Going(bench, {"say": "x"}):
        assert bench.backstory("followup", "Then tidy up").returncode == 0
        _, line = seen(bench, "queue", "list")
        assert re.search(r"followup  \w+  +\d+ s ago +Then tidy up$", line), line
        assert re.search(r"\d{4}-\d\d-\d\dT.*Z  Then tidy up$", bench.backstory("queue", "list").stdout.rstrip())
