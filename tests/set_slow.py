"""Writes which tests ``make quick`` leaves out because they take long: ``python -m tests.set_slow``.

It runs all that are not marked as slow, and notes what processor time each takes with the processes that it started. A
test of several cases is judged by their mean. Run it where little else runs: a busy machine makes all of them slower.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

TABLE = Path(__file__).with_name("slow.json")
SLOW_S = 0.035
"""A test that takes more is slow: of those that take less, thousands fit into a minute."""
NOTES = "BACKSTORY_NOTES_OF_TIME"
"""The variable that names the folder for what a run of tests notes; empty where nothing is noted."""


@cache
def slow() -> dict[str, frozenset[str]]:
    """The names of the slow tests by file; none while their time is measured."""
    if os.environ.get(NOTES):
        return {}
    return {file: frozenset(names) for file, names in json.loads(TABLE.read_text("utf-8")).items()}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Function) -> Generator[None, object, object]:
    """Note the processor time of a test with its fixtures."""
    before = sum(os.times()[:4])
    done = yield
    note = [item.nodeid.split("::")[0], item.originalname, sum(os.times()[:4]) - before]
    with Path(os.environ[NOTES], str(os.getpid())).open("a", encoding="utf-8") as file:
        file.write(json.dumps(note) + "\n")
    return done


def measured(folder: Path) -> dict[str, list[str]]:
    """The slow tests of what was noted in a folder."""
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for notes in folder.iterdir():
        for line in notes.read_text("utf-8").splitlines():
            file, name, took_s = json.loads(line)
            if name.startswith("test_"):  # A state machine's is called runTest, and no function of the file is.
                times[file, name].append(took_s)
    found: dict[str, list[str]] = defaultdict(list)
    for (file, name), each in sorted(times.items()):
        if sum(each) / len(each) > SLOW_S:
            found[file].append(name)
    return found


def main() -> None:
    """Run the tests, write the table, say how many it names."""
    words = ["-m", "pytest", "-n", "2", "--dist", "worksteal", "-m", "not slow", "-p", "tests.set_slow"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, *words], env={**os.environ, NOTES: folder}, check=False)
        if done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            sys.exit(done.returncode)
        # A test that failed took its time, too; its failure was printed.
        found = measured(Path(folder))
    TABLE.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    sys.stdout.write(f"{sum(map(len, found.values()))} slow tests in {TABLE.name}\n")


if __name__ == "__main__":
    main()
