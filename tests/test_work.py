"""Commands do no more work than they did: counts of statements, syncs, bytes, files and modules, never times."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.set_work_limits import set_calls
from tests.support.work import (
    CALL_LIMITS,
    CALL_SLACK,
    LIMITS,
    PYTHON,
    Counts,
    SmallMachine,
    counted,
    counted_calls,
    grown,
)

if TYPE_CHECKING:
    from pathlib import Path

HOW_TO_ALLOW = """
Some work grew by more than a tenth (above). If it was not meant, find out why: the counts of one command are printed by
`python -m tests.support.counted FILE WORDS`, the figures they stand for by `make bench QUICK=1`. If it is worth it, set
new limits with `python -m tests.set_work_limits`, and say in the commit what the work buys."""

HOW_TO_CALL_MORE = """
Reading logs calls our functions more often than it did, by more than 3 % in a folder (above). Calls for each record are
most of what an import costs. If it is worth it: `python -m tests.set_work_limits "what it buys"`, whose words are kept
with the limit."""


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Counts:
    return counted(tmp_path_factory.mktemp("machine"))


@pytest.fixture(scope="module")
def limits() -> Counts:
    found: Counts = json.loads(LIMITS.read_text("utf-8"))
    return found


@pytest.mark.slow
def test_no_command_does_more_work_than_its_limits_allow(counts: Counts, limits: Counts) -> None:
    found = grown(counts, limits)
    assert not found, "\n".join(["", *found, HOW_TO_ALLOW])


@pytest.mark.slow
def test_every_limit_is_of_something_that_is_counted(counts: Counts, limits: Counts) -> None:
    assert {command: set(each) for command, each in limits.items()} == {
        command: set(each) for command, each in counts.items()
    }


@pytest.mark.slow
def test_an_ingest_with_nothing_new_opens_no_log_and_writes_nothing(counts: Counts) -> None:
    again = counts["ingest, nothing new"]
    assert (again["files_opened"], again["transactions"], again["syncs"], again["bytes_written"]) == (0, 0, 0, 0)


@pytest.mark.slow
def test_reading_writes_and_syncs_nothing(counts: Counts) -> None:
    for command in ("list", "search", "show"):
        written = [counts[command][name] for name in ("transactions", "syncs", "bytes_written")]
        assert written == [0, 0, 0], command


@pytest.mark.slow
def test_the_same_work_is_counted_twice_alike(tmp_path: Path) -> None:
    twice = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        machine = SmallMachine(tmp_path / name)
        found = machine.work("ingest")
        # Paths and ids differ, and with them what fits on a page.
        assert found.pop("bytes_written") > 0
        found.pop("sqlite_steps")
        twice.append(found)
    assert twice[0] == twice[1]


def test_a_tenth_more_is_allowed_and_more_is_not() -> None:
    limits = {"ingest": {"statements": 100, "files_opened": 0}}
    assert grown({"ingest": {"statements": 110, "files_opened": 0}}, limits) == []
    assert grown({"ingest": {"statements": 111, "files_opened": 1}}, limits) == [
        "ingest: statements grew from 100 to 111", "ingest: files_opened grew from 0 to 1",
    ]  # fmt: skip


def test_what_has_no_limit_is_told() -> None:
    assert grown({"ingest": {"syncs": 1}}, {"list": {"syncs": 1}}) == ["ingest: syncs has no limit"]


@pytest.mark.slow
def test_reading_logs_calls_functions_no_more_often_than_its_limits_allow(tmp_path: Path) -> None:
    limits = json.loads(CALL_LIMITS.read_text("utf-8"))["limits"]
    if PYTHON not in limits:
        pytest.skip(
            f"NOT JUDGED: no limits for Python {PYTHON}, whose calls are its own. python -m tests.set_work_limits"
        )
    found = grown(counted_calls(tmp_path), limits[PYTHON], CALL_SLACK)
    assert not found, "\n".join(["", *found, HOW_TO_CALL_MORE])


@pytest.mark.slow
def test_calls_are_counted_twice_alike(tmp_path: Path) -> None:
    twice = []
    for name in ("one", "a/folder/further/down"):
        (tmp_path / name).mkdir(parents=True)
        twice.append(SmallMachine(tmp_path / name).calls("ingest"))
    assert twice[0] == twice[1]


def test_a_limit_of_calls_is_raised_with_a_reason_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = tmp_path / "limits.json"
    monkeypatch.setattr("tests.set_work_limits.CALL_LIMITS", limits)
    set_calls({"ingest": {"agents": 100, "store": 10}}, "")
    set_calls({"ingest": {"agents": 90, "store": 10}}, "")
    with pytest.raises(SystemExit, match="ingest: agents grew from 90 to 93"):
        set_calls({"ingest": {"agents": 93, "store": 9}}, "")
    set_calls({"ingest": {"agents": 93, "store": 9}}, "titles")
    kept = json.loads(limits.read_text("utf-8"))
    assert kept["limits"] == {PYTHON: {"ingest": {"agents": 93, "store": 9}}}
    assert [(each["by"], each["why"]) for each in kept["raised"]] == [(["ingest: agents grew from 90 to 93"], "titles")]


def test_a_little_more_sets_no_limit_of_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = tmp_path / "limits.json"
    monkeypatch.setattr("tests.set_work_limits.CALL_LIMITS", limits)
    for count in (100, 102):
        set_calls({"ingest": {"agents": count}}, "")
    assert json.loads(limits.read_text("utf-8"))["limits"] == {PYTHON: {"ingest": {"agents": 100}}}
