"""What a model can take, where its agent says so, lowers the limit from which a context is summarised."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from backstory.conversation.context import AUTO_CONTINUE
from tests.support.bench import Bench
from tests.support.running import until
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

SUMMARY = "The parser was rewritten, because it lost escapes. " * 10
TASK = "older part of a coding session"
GOOD: list[dict[str, Any]] = [{"say": SUMMARY}, {"result": True}]
WINDOW = 10_000
"""In tokens: 25,000 characters."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def run(bench: Bench, prompt: str, chars: int, window: int | None = WINDOW, *options: str) -> str:
    script: dict[str, list[dict[str, Any]]] = {
        TASK: GOOD,
        "": [{"say": "word " * (chars // 5)}, {"result": True, "window": window}],
    }
    done = bench.backstory("run", "-a", "claude", *options, prompt, script=script)
    assert done.returncode == 0, done.stderr
    return done.stderr


def limit(bench: Bench) -> int:
    return int(json.loads(bench.backstory("compact", "--dry-run", "--json").stdout)["limit"])


def test_it_lowers_the_limit_to_two_and_a_half_characters_a_token(bench: Bench) -> None:
    run(bench, "prompt 1", 3_000)
    assert limit(bench) == 25_000
    (listed,) = json.loads(bench.backstory("list", "--json").stdout)["sessions"]
    assert (listed["context_limit"], listed["context_percent"]) == (25_000, 12)


def test_it_never_raises_the_limit(bench: Bench) -> None:
    bench.backstory("config", "set", "compaction.chars", "20000")
    run(bench, "prompt 1", 3_000)
    assert limit(bench) == 20_000


def test_where_nothing_is_to_be_summarised_it_changes_nothing(bench: Bench) -> None:
    bench.backstory("config", "set", "compaction.chars", "0")
    said = [run(bench, f"prompt {n}", 12_000) for n in (1, 2, 3)]
    assert not any("summar" in each for each in said)


@pytest.mark.parametrize("window", [None, 1, 7_999])
def test_what_no_model_is_content_with_is_not_believed(bench: Bench, window: int | None) -> None:
    run(bench, "prompt 1", 3_000, window)
    assert limit(bench) == 400_000


def test_a_later_turn_that_does_not_say_it_does_not_take_it_back(bench: Bench) -> None:
    run(bench, "prompt 1", 3_000)
    run(bench, "prompt 2", 100, None)
    assert limit(bench) == 25_000


def test_a_session_that_passes_it_is_summarised_by_itself(bench: Bench) -> None:
    said = [run(bench, f"prompt {n}", 12_000) for n in (1, 2, 3)]
    assert "is being summarised in the background" not in said[0]
    assert "has passed 25,000 characters: its beginning is being summarised in the background" in said[2]
    until(lambda: SUMMARY.strip() in bench.backstory("compact", "--show").stdout)
    told = [json.loads(line) for line in bench.received.with_suffix(".told").read_text().splitlines()]
    assert all(len(each) <= 25_000 for each in told if TASK in each)


def test_a_turn_that_passes_it_is_stopped_and_continued(bench: Bench, tmp_path: Path) -> None:
    for n in (1, 2, 3):
        run(bench, f"prompt {n}", 6_000)
    growing: list[dict[str, Any]] = [{"say": "much " * 2_000}, {"tool": "make"}, {"wait_for": str(tmp_path / "never")}]
    script: dict[str, list[dict[str, Any]]] = {
        TASK: GOOD,
        AUTO_CONTINUE: [{"say": "All done."}, {"result": True}],
        "prompt 4": growing,
    }
    done = bench.backstory("run", "-a", "claude", "--json", "prompt 4", script=script)
    assert done.returncode == 0, done.stderr
    assert "Continued" in [json.loads(line)["kind"] for line in done.stdout.splitlines()]


def test_the_meter_of_a_running_turn_counts_with_the_model_that_answers(bench: Bench, tmp_path: Path) -> None:
    bench.backstory("config", "set", "compaction.chars_for", "claude=100000,claude/scripted=10000")
    gate = tmp_path / "gate"
    init = json.dumps({"type": "system", "subtype": "init", "model": "scripted"}) + "\n"
    steps: list[dict[str, Any]] = [{"raw": init}, {"say": "word " * 1_000}, {"wait_for": str(gate)}, {"result": True}]
    words = [sys.executable, "-m", "backstory", "run", "-a", "claude", "prompt 1"]
    with Terminal(words, bench.project, bench.environ(steps)) as terminal:
        terminal.until("context 50 %")
        shown = bench.backstory("show").stdout
        gate.touch()
        terminal.end()
    assert "context 50 %" in shown
