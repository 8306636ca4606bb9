"""How full a context is, and what turns and sessions took: in run, list and show, by a scripted agent."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory.conversation.context import event_chars
from backstory.model import AssistantText
from backstory.store.tables import compactions
from backstory.workspace.runs.running import LiveMeter, Meter, threshold
from tests.support.bench import Bench
from tests.support.going import delta
from tests.support.running import until
from tests.support.streaming import recorded
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

SUMMARY = "The parser was rewritten, because it lost escapes. " * 10
GOOD: list[dict[str, Any]] = [{"say": SUMMARY}, {"result": True}]
LONG: list[dict[str, Any]] = [{"say": "word " * 300}, {"result": True}]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.backstory("config", "set", "compaction.chars", "15000")
    return made


def listed(bench: Bench, *words: str) -> dict[str, Any]:
    (found,) = json.loads(bench.backstory("list", "--json", *words).stdout)["sessions"]
    return dict(found)


def counted(bench: Bench) -> tuple[int | None, int | None]:
    found = listed(bench)
    return found["context_used"], found["context_limit"]


def rendered(bench: Bench) -> int:
    """What the next context is, counted from its text: between its blocks stands a line end, and one ends it."""
    return len(json.loads(bench.backstory("context", "--json").stdout)["context"]) + 2


def test_a_turn_that_is_stored_is_counted(bench: Bench) -> None:
    bench.run("prompt 1", *LONG)
    assert counted(bench) == (rendered(bench), 15_000)
    bench.run("prompt 2", *LONG)
    assert counted(bench) == (rendered(bench), 15_000)
    assert listed(bench)["context_percent"] == 20


def test_the_machines_list_has_it_too(bench: Bench) -> None:
    bench.run("prompt 1", *LONG)
    assert listed(bench, "--all")["context_used"] == rendered(bench)


def test_it_is_counted_anew_after_a_summary_and_after_that_is_taken_back(bench: Bench) -> None:
    for n in range(1, 6):
        bench.run(f"prompt {n}", *LONG)
    before = counted(bench)
    assert bench.backstory("compact", "--now", script=GOOD).returncode == 0
    after, _ = counted(bench)
    assert before[0] is not None
    assert after is not None
    assert after < before[0]
    bench.backstory("compact", "--undo")
    assert counted(bench) == before


def test_it_is_counted_anew_where_the_session_is_continued_elsewhere(bench: Bench) -> None:
    bench.run("prompt 1", *LONG)
    first = counted(bench)
    bench.run("prompt 2", *LONG)
    second = counted(bench)
    with bench.store as store:
        (session,) = store.sessions()
        start, last = (turn.first_seq for turn in store.turns(session))
    assert bench.backstory("checkout", f"@{last - 1}").returncode == 0
    assert counted(bench) == first
    assert bench.backstory("checkout", f"@{last + 1}").returncode == 0
    assert second[0] is not None
    assert counted(bench)[0] != first[0]
    bench.backstory("branch", "rm", f"@{last}", "--yes")
    assert counted(bench) == first
    bench.backstory("branch", "restore")
    assert start < last


def test_another_programs_summary_makes_it_unknown_rather_than_wrong(bench: Bench) -> None:
    bench.run("prompt 1", *LONG)
    bench.run("prompt 2", *LONG)
    with closing(apsw.Connection(str(bench.project / ".backstory" / "sessions.bks"))) as db:
        db.execute("insert into compactions(session_id, after_seq, summary) values (1, 2, 'a summary')")
    assert counted(bench)[0] is None
    bench.run("prompt 3", *LONG)
    assert counted(bench)[0] is not None


@pytest.mark.parametrize("words", [("ingest",), ("run", "-a", "claude", "-n", "prompt of another session")])
def test_a_run_whose_runner_was_killed_is_counted_when_it_is_stored(
    bench: Bench, tmp_path: Path, words: tuple[str, ...]
) -> None:
    bench.run("prompt 1", *LONG)
    gate, begun = tmp_path / "gate", tmp_path / "begun"
    script = [*LONG[:1], {"touch": str(begun)}, {"wait_for": str(gate)}, *LONG[1:]]
    process = bench.start("run", "prompt 2", script=script)
    until(begun.exists)
    process.kill()
    process.communicate(timeout=60)
    gate.touch()
    until(lambda: [each["state"] for each in json.loads(bench.backstory("ps", "--json").stdout)["runs"]] == ["waiting"])
    bench.backstory(*words, script=LONG)
    first = json.loads(bench.backstory("list", "--json").stdout)["sessions"][-1]
    assert first["turn_count"] == 2
    context = json.loads(bench.backstory("context", "S1", "--json").stdout)["context"]
    assert first["context_used"] == len(context) + 2


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_a_reindex_counts_anew_where_it_reads_records_again(bench: Bench, options: tuple[str, ...]) -> None:
    def known() -> Any:
        with closing(apsw.Connection(str(bench.home / "store.db"))) as db:
            return db.execute("select context_chars from sessions").get

    bench.run("prompt 1", *LONG)
    right = known()
    with closing(apsw.Connection(str(bench.home / "store.db"))) as db:
        db.execute("update sessions set context_chars = 9999")
    assert bench.backstory("reindex", *options).returncode == 0
    assert right == rendered(bench)
    assert known() == (right if options else 9_999)


def test_of_what_is_not_known_nothing_is_said(bench: Bench) -> None:
    bench.run("prompt 1", *LONG)
    with closing(apsw.Connection(str(bench.project / ".backstory" / "sessions.bks"))) as db:
        db.execute("update sessions set context_chars = null")
    assert listed(bench)["context_percent"] is None
    assert "CONTEXT" not in bench.backstory("list").stdout
    assert "%" not in bench.backstory("list").stdout


def test_a_run_says_how_full_it_is_from_a_tenth_on(bench: Bench) -> None:
    bench.backstory("config", "set", "compaction.chars", "16000")
    assert "context" not in bench.run("prompt 1", *LONG).stderr
    bench.backstory("config", "set", "compaction.chars", "5000")
    assert "context 61 %" in bench.run("prompt 2", *LONG).stderr


def test_json_has_what_the_turn_and_the_whole_session_took(bench: Bench) -> None:
    bench.run("prompt 1", *LONG)
    lines = bench.run("prompt 2", *LONG, options=("--json",)).stdout.splitlines()
    done = json.loads(lines[-1])
    assert (done["context_used"], done["context_limit"]) == counted(bench)
    found = listed(bench)
    assert done["session_duration_ms"] == found["duration_ms"]
    assert done["duration_ms"] == found["last_duration_ms"]
    assert done["cost_usd"] == found["last_cost_usd"]
    assert done["session_cost_usd"] == found["cost_usd"]
    assert found["cost_usd"] == pytest.approx(2 * found["last_cost_usd"])


def test_what_a_summary_took_is_counted_as_compaction_and_not_as_a_turn(bench: Bench) -> None:
    bench.backstory("config", "set", "compaction.chars", "100000")
    for n in range(1, 6):
        bench.run(f"prompt {n}", *LONG)
    before = listed(bench)["cost_usd"]
    done = json.loads(bench.backstory("compact", "--now", "--json", script=GOOD).stdout)
    assert listed(bench)["cost_usd"] == before
    with bench.store as store:
        (found,) = store.ask(compactions.of_session, store.sessions()[0].id)
    assert (found.cost_usd, found.duration_ms) == (done["cost_usd"], done["duration_ms"])
    assert found.cost_usd == pytest.approx(before / 5)
    assert found.duration_ms is not None
    shown = json.loads(bench.backstory("search", "lost escapes", "--json").stdout)["hits"]
    assert [each["kind"] for each in shown] == ["Compacted"]


def test_a_turn_stopped_for_a_summary_has_no_badge(bench: Bench) -> None:
    bench.run("prompt 1", *LONG)
    with closing(apsw.Connection(str(bench.project / ".backstory" / "sessions.bks"))) as db:
        db.execute("update turns set outcome = 'cancelled', stop_reason = 'compaction'")
        db.execute("update sessions set completed = 0")
    assert "■" not in bench.backstory("list").stdout
    shown = bench.backstory("show").stdout
    assert "■" not in shown
    assert "cancelled" not in shown
    assert "stopped for a summary" in shown


def test_on_a_terminal_it_moves_while_the_answer_streams_and_is_taken_away_at_the_end(
    bench: Bench, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    script: list[dict[str, Any]] = [
        {"say": "word " * 300}, {"say": "word " * 300}, {"wait_for": str(gate)}, {"result": True},
    ]  # fmt: skip
    words = [sys.executable, "-m", "backstory", "run", "-a", "claude", "prompt 1"]
    with Terminal(words, bench.project, bench.environ(script)) as terminal:
        streaming = terminal.until("context 20 %")
        gate.touch()
        shown = terminal.end()
    assert "context 10 %" in streaming
    assert shown.index("context 20 %") < shown.rindex("\x1b[2K") < shown.rindex("context 20 %")
    assert "\x1b[2K" not in bench.run("prompt 2", *LONG).stderr


def test_it_moves_within_an_answer_and_counts_that_once() -> None:
    run = recorded("claude", "long-answer")
    live = LiveMeter(Meter(used=0, limit=15_000), "Where?", lambda _: 15_000)
    meters = [live.add([event for _, event in each.events], each.delta) for each in run.streamed]
    moved = [each.percent for each in meters if each is not None]
    (answer,) = run.all(AssistantText)
    assert moved[:5] == [1, 3, 4, 6, 8]
    assert moved == sorted(set(moved))
    assert live.meter.used == len("Where?") + event_chars(answer)


def test_on_a_terminal_it_is_below_the_line_that_is_being_written(bench: Bench, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    text = "word " * 300
    script: list[dict[str, Any]] = [delta(text[:1_495]), {"wait_for": str(gate)}, {"say": text}, {"result": True}]
    words = [sys.executable, "-m", "backstory", "run", "-a", "claude", "prompt 1"]
    with Terminal(words, bench.project, bench.environ(script), width=80) as terminal:
        streaming = terminal.until("context 10 %")
        gate.touch()
        shown = terminal.end()
    assert "word \x1bD\x1b[A\x1b7\x1b[B\rcontext 10 %" in streaming
    assert "context 10 %\x1b8\x1b[J word" in shown


def test_a_live_run_is_shown_with_how_full_it_is(bench: Bench, tmp_path: Path) -> None:
    bench.run("prompt 1", *LONG)
    bench.run("prompt 2", *LONG)
    gate = tmp_path / "gate"
    running = bench.start("run", "prompt 3", script=[{"say": "word " * 300}, {"wait_for": str(gate)}, {"result": True}])
    until(lambda: "context 30 %" in bench.backstory("show").stdout)
    gate.touch()
    running.communicate(timeout=60)
    shown = bench.backstory("show").stdout
    assert "still running" not in shown
    assert "context 30 %" in shown.splitlines()[1]


def test_a_session_that_was_nearly_empty_is_counted_while_a_long_turn_runs(bench: Bench, tmp_path: Path) -> None:
    bench.backstory("config", "set", "compaction.chars", "50000")
    bench.run("prompt 1", *LONG)
    assert counted(bench) == (None, None)
    gate = tmp_path / "gate"
    steps: list[dict[str, Any]] = [{"say": "word " * 1_200}, {"wait_for": str(gate)}, {"result": True}]
    running = bench.start("run", "prompt 2", script=steps)
    until(lambda: "context 15 %" in bench.backstory("show").stdout)
    gate.touch()
    _, err = running.communicate(timeout=60)
    assert "context 15 %" in err


def test_a_known_context_window_lowers_the_threshold_and_never_raises_it() -> None:
    assert threshold(400_000, 100_000) == 250_000
    assert threshold(400_000, 1_000_000) == 400_000
    assert threshold(0, 100_000) == 0
