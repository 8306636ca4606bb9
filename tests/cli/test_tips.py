"""``report tips`` and ``chronicle cost-tips``: what they print of logs with habits, and of logs without."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import work_habits
from tests.support.shell import Shell
from tests.support.work_habits import BEGIN, GOLDEN, MAY, REPORTS, TimedLog, printed, put_habits

pytestmark = pytest.mark.slow

PATTERNS = {"contexts", "caches", "models", "permissions", "waits", "failures", "missing", "rereads", "prompts"}


@pytest.fixture(scope="module")
def habitual(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Only for tests that change nothing."""
    return work_habits.habitual(tmp_path_factory.mktemp("habits"))


def tips(shell: Shell, *words: str, name: str = "tips") -> dict[str, Any]:
    done = shell("chronicle", name, "--json", *(words or MAY), TZ="UTC")
    assert done.code == 0, done.err
    return dict(done.json())


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_reads_as_it_did(habitual: Shell, name: str) -> None:
    assert printed(habitual, name) == (GOLDEN / name).read_text("utf-8")


def test_every_pattern_is_found_once_in_what_the_store_has(habitual: Shell) -> None:
    found = tips(habitual, *MAY, "--full")["tips"]
    assert sorted(each["pattern"] for each in found) == sorted(PATTERNS)


def test_five_tips_are_printed_unless_all_are_asked_for(habitual: Shell) -> None:
    report = tips(habitual)
    assert (len(report["tips"]), report["left_out"]) == (5, len(PATTERNS) - 5)
    assert "4 tips more: --full" in habitual("chronicle", "tips", *MAY, TZ="UTC").out


def test_cost_tips_are_those_about_costs_with_the_same_total_as_the_cost_report(habitual: Shell) -> None:
    report = tips(habitual, *MAY, "--full", name="cost-tips")
    assert {each["pattern"] for each in report["tips"]} == {"contexts", "caches", "models", "rereads"}
    cost = habitual("chronicle", "cost", "--json", *MAY, TZ="UTC").json()["sums"]
    assert report["low_usd"] == pytest.approx(cost["low_usd"])
    assert (report["turn_count"], report["session_count"]) == (cost["turn_count"], cost["session_count"])


def test_every_line_of_evidence_names_a_session_that_commands_take(habitual: Shell) -> None:
    printed = habitual("chronicle", "tips", "--full", *MAY, TZ="UTC").out
    lines = re.findall(r"^ {7}(\S+) @(\d+) ", printed, re.MULTILINE)
    assert len(lines) >= 2 * len(PATTERNS)
    for label, seq in set(lines):
        assert habitual("show", label, f"@{seq}").code == 0, (label, seq)


def test_the_sql_of_a_tip_returns_a_row_for_each_thing_it_counts(habitual: Shell) -> None:
    found = tips(habitual, *MAY, "--full")["tips"]
    explained = habitual("chronicle", "tips", "--explain", "--full", *MAY, TZ="UTC").out
    queries = re.findall(r"^-- tip \d+: (\w+), [^\n]*\n(.*?);\n", explained, re.DOTALL | re.MULTILINE)
    assert [name for name, _ in queries] == [each["pattern"] for each in found]
    for (_, query), tip in zip(queries, found, strict=True):
        rows = habitual("sql", "--json", query).json()["rows"]
        assert len(rows) == tip["count"], tip["pattern"]


def test_the_rules_are_explained_also_where_nothing_was_found(bare: Shell) -> None:
    printed = bare("chronicle", "tips", "--explain").out
    assert set(re.findall(r"^-- (\w+)$", printed, re.MULTILINE)) == PATTERNS
    costs = bare("chronicle", "cost-tips", "--explain").out
    assert set(re.findall(r"^-- (\w+)$", costs, re.MULTILINE)) == {"contexts", "caches", "models", "rereads"}


def test_filters_choose_the_sessions(habitual: Shell) -> None:
    assert tips(habitual, *MAY, "--all", "--agent", "codex")["turn_count"] == 0
    first = tips(habitual, "--since", "2026-05-07", "--until", "2026-05-09", "--all")
    assert {each["pattern"] for each in first["tips"]} <= PATTERNS - {"contexts", "caches", "models"}
    about = tips(habitual, *MAY, "importer", "--all")
    assert {each["pattern"] for each in about["tips"]} == {"contexts", "caches"}


def test_a_fork_repeats_nothing_that_counts(habitual: Shell, tmp_path: Path) -> None:
    """A session that holds another one's turns has its calls once."""
    (tmp_path / "home").mkdir()
    shell = Shell(tmp_path / "home")
    put_habits(shell.home)
    for path in (shell.home / ".claude" / "projects" / "-w-tool").glob("*.jsonl"):
        name = f"ffffffff{path.stem[8:]}"
        copied = path.read_text().replace(f'"sessionId": "{path.stem}"', f'"sessionId": "{name}"')
        path.with_name(f"{name}.jsonl").write_text(copied)
    assert shell("ingest").code == 0
    copy, plain = (tips(each, *MAY, "--all") for each in (shell, habitual))
    assert copy["turn_count"] == plain["turn_count"]
    counts = [{each["pattern"]: each["count"] for each in report["tips"]} for report in (copy, plain)]
    assert counts[0] == counts[1]


def test_no_history_is_said_in_a_sentence(bare: Shell) -> None:
    done = bare("chronicle", "tips")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("Nothing was imported yet")


def test_recorded_logs_without_habits_have_no_tips_and_the_same_costs_as_elsewhere(read_once: Shell) -> None:
    ever = ("--since", "2020-01-01")
    done = read_once("chronicle", "tips", "--full", *ever)
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("No tips yet from ")
    facts = tips(read_once, *ever, name="cost-tips")
    total = read_once("chronicle", "cost", "--json", *ever).json()["sums"]
    assert facts["tips"] == []
    assert (facts["low_usd"], facts["turn_count"]) == (pytest.approx(total["low_usd"]), total["turn_count"])


def test_where_nothing_recurs_a_sentence_says_so(bare: Shell) -> None:
    TimedLog(1).prompt("Fix the parser").answer().put(bare.home)
    assert bare("ingest").code == 0
    done = bare("chronicle", "tips", *MAY, TZ="UTC")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("No tips yet from 1 turn in 1 session: ")
    assert "--since 2020-01-01" in done.err
    assert "--since" not in bare("chronicle", "tips", "--since", "2019-12-31", TZ="UTC").err
    assert bare("chronicle", "tips", "--json", *MAY, TZ="UTC").json()["tips"] == []


def test_a_time_without_history_names_the_nearest_day_that_has_some(habitual: Shell) -> None:
    done = habitual("chronicle", "tips", "--since", "2026-08-01", TZ="UTC")
    assert done.out == ""
    assert f"--since {BEGIN.year}-05-" in done.err


def test_the_earlier_name_of_every_tip_works_and_says_so(habitual: Shell) -> None:
    earlier = habitual("report", "tips", "--all", *MAY, TZ="UTC")
    assert earlier.out == habitual("report", "tips", "--full", *MAY, TZ="UTC").out
    assert "--all is called --full here now" in earlier.err
