"""``backstory compact`` and compaction around runs: summaries by a scripted agent, as real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from backstory.conversation.context import SUMMARY_HEADER
from backstory.runs import compactor
from backstory.runs.process import birth
from backstory.store.tables import compactions
from tests.support.bench import Bench, MadeOnce
from tests.support.running import until

if TYPE_CHECKING:
    from pathlib import Path

SUMMARY = "The parser was rewritten, because it lost escapes. " * 10
GOOD: list[dict[str, Any]] = [{"say": SUMMARY}, {"result": True}]
LONG: list[dict[str, Any]] = [{"say": "word " * 300}, {"result": True}]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    bench = Bench(tmp_path_factory.mktemp("long"))
    bench.backstory("config", "set", "compaction.chars", "0")
    for n in range(1, 6):
        assert bench.run(f"prompt {n}", *LONG).returncode == 0
    bench.backstory("config", "set", "compaction.chars", "4000")
    return MadeOnce(bench)


@pytest.fixture
def long(made_once: MadeOnce) -> Bench:
    """A session of five exchanges, each of about 1,500 characters, that nothing was summarised of."""
    return made_once.anew()


def context(bench: Bench) -> str:
    return bench.backstory("context").stdout


def is_over(bench: Bench) -> bool:
    return not compactor.under_way(bench.home)


def test_a_summary_takes_the_place_of_the_beginning(long: Bench) -> None:
    done = long.backstory("compact", script=GOOD)
    assert done.returncode == 0, done.stderr
    text = context(long)
    assert text.startswith(f"{SUMMARY_HEADER}\n{SUMMARY.strip()}")
    assert "prompt 4" not in text
    assert "prompt 5" in text


def test_the_agent_is_given_the_history_as_data_and_no_tools(long: Bench) -> None:
    told = long.received.with_suffix(".told")
    told.unlink()
    long.backstory("compact", script=GOOD)
    asked = [json.loads(line) for line in told.read_text().splitlines()]
    assert "prompt 1" in asked[0]
    assert any("prompt 4" in each for each in asked)
    assert not any("prompt 5" in each for each in asked)
    assert all(each.startswith("<backstory-session-context>") for each in asked)
    words = json.loads(long.received.with_suffix(".argv").read_text())
    assert words[words.index("--tools") + 1] == ""
    assert "--no-session-persistence" in words


def test_below_the_limit_nothing_is_summarised_unless_asked_for(long: Bench) -> None:
    long.backstory("config", "set", "compaction.chars", "100000")
    shown = long.backstory("compact", script=GOOD)
    assert "characters of context since the last summary" in shown.stderr
    assert SUMMARY_HEADER not in context(long)
    assert long.backstory("compact", "--now", script=GOOD).returncode == 0
    assert SUMMARY_HEADER in context(long)


def test_a_dry_run_changes_nothing(long: Bench) -> None:
    plan = json.loads(long.backstory("compact", "--dry-run", "--json", script=GOOD).stdout)
    assert plan["is_due"]
    assert (plan["summarized_exchanges"], plan["kept_exchanges"]) == (4, 1)
    assert SUMMARY_HEADER not in context(long)


def test_undone_the_context_is_as_before(long: Bench) -> None:
    before = context(long)
    long.backstory("compact", script=GOOD)
    assert context(long) != before
    assert long.backstory("compact", "--undo").returncode == 0
    assert context(long) == before


def test_the_summary_in_force_is_shown(long: Bench) -> None:
    long.backstory("compact", script=GOOD)
    assert long.backstory("compact", "--show").stdout.strip() == SUMMARY.strip()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ([{"say": "API Error: 500 " + "x" * 500}, {"result": True}], "it is an error of the agent"),
        ([{"say": ""}, {"result": True}], "characters"),
        ([{"say": "x" * 20_000}, {"result": True}], "characters"),
        ([{"say": SUMMARY}, {"result": False}], "No summary"),
        ([{"say": SUMMARY}, {"exit": 3}], "No summary"),
    ],
)
def test_what_is_no_summary_is_asked_for_twice_and_not_stored(
    long: Bench, script: list[dict[str, Any]], why: str
) -> None:
    refused = long.backstory("compact", script=script)
    assert refused.returncode == 69
    assert why in refused.stderr
    assert SUMMARY_HEADER not in context(long)
    assert len(long.received.with_suffix(".told").read_text().splitlines()) == 5 + 2


def test_the_json_of_a_summary_names_its_session_and_its_cost(long: Bench) -> None:
    made = json.loads(long.backstory("compact", "--json", script=GOOD).stdout)
    shown = json.loads(long.backstory("compact", "--show", "--json").stdout)
    cost = ("cost_usd", "cost_kind", "low_usd", "high_usd")
    assert [made[key] for key in cost] == [made["cost_usd"], "exact", made["cost_usd"], made["cost_usd"]]
    assert [shown[key] for key in ("uid", "label", "tokens", *cost)] == [
        made[key] for key in ("uid", "label", "tokens", *cost)
    ]  # fmt: skip
    undone = json.loads(long.backstory("compact", "--undo", "--json").stdout)
    assert (undone["uid"], undone["label"], undone["undone"]) == (made["uid"], made["label"], True)


def test_of_a_summary_in_steps_of_which_one_is_not_counted_nothing_is_summed(long: Bench) -> None:
    uncounted = {"type": "result", "subtype": "success", "is_error": False, "result": "done"}
    steps = {"prompt 1": [{"say": SUMMARY}, {"raw": json.dumps(uncounted)}], "": GOOD}
    done = long.backstory("compact", "--json", script=steps)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert len(long.received.with_suffix(".told").read_text().splitlines()) > 5 + 1
    assert (made["tokens"]["input"], made["tokens"]["output"], made["cost_usd"]) == (None, None, None)


def test_a_run_that_passes_the_limit_has_a_summary_made_without_another_command(long: Bench) -> None:
    ran = long.run("prompt 6", *GOOD)
    assert ran.returncode == 0
    assert "is being summarised in the background" in ran.stderr
    until(lambda: SUMMARY_HEADER in context(long))


def test_a_run_below_the_limit_begins_nothing(long: Bench) -> None:
    long.backstory("config", "set", "compaction.chars", "100000")
    assert "summarised" not in long.run("prompt 6", *GOOD).stderr
    assert not compactor.under_way(long.home)


def test_a_summary_leaves_no_session_and_no_prompt_behind(long: Bench) -> None:
    long.backstory("compact", script=GOOD)
    assert len(json.loads(long.backstory("list", "--json").stdout)["sessions"]) == 1
    assert long.backstory("search", "--exact", "the older part of a coding session").returncode == 1


def test_a_failed_summary_is_reported_by_the_next_run(long: Bench) -> None:
    long.backstory("compact", script=[{"say": ""}, {"result": True}])
    assert "Last time: No summary of S1 was stored" in long.run("prompt 6", *GOOD).stderr
    until(lambda: is_over(long))


def test_a_session_whose_context_would_be_cut_is_summarised_before_the_run(long: Bench) -> None:
    long.backstory("config", "set", "run.context_chars", "5000")
    ran = long.run("prompt 6", *GOOD)
    assert ran.returncode == 0
    assert "is summarised first" in ran.stderr
    assert SUMMARY_HEADER in long.sent()
    assert "earlier turn" not in long.sent()
    assert "shortened" not in long.sent()


def test_without_a_summary_the_run_receives_what_fits(long: Bench) -> None:
    long.backstory("config", "set", "run.context_chars", "5000")
    ran = long.run("prompt 6", {"say": "short"}, {"result": True})
    assert ran.returncode == 0
    assert "The run receives what fits" in ran.stderr
    assert "only prompts, decisions, edits, commands and failures are given" in long.sent()


def test_prompts_run_while_a_summary_is_made(long: Bench, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    making = long.start("compact", script=[{"wait_for": str(gate)}, *GOOD])
    until(lambda: compactor.under_way(long.home))
    assert long.run("prompt 6", {"say": "short"}, {"result": True}).returncode == 0
    refused = long.backstory("compact", "--now", script=GOOD)
    assert refused.returncode == 75
    gate.touch()
    making.communicate(timeout=60)
    assert making.returncode == 0
    assert SUMMARY_HEADER in context(long)
    assert "prompt 6" in context(long)


def kill_a_summary(long: Bench, folder: Path) -> None:
    """Kill it while its agent works: before that the agent's process may be a copy of ours, which has our lock."""
    begun = folder / "begun"
    making = long.start("compact", script=[{"touch": str(begun)}, {"wait_for": str(folder / "never")}])
    until(begun.exists)
    assert compactor.under_way(long.home)
    making.kill()
    making.communicate()


def test_a_killed_summary_leaves_nothing_and_can_be_made_again(long: Bench, tmp_path: Path) -> None:
    kill_a_summary(long, tmp_path)
    assert not compactor.under_way(long.home)
    assert long.backstory("compact", script=GOOD).returncode == 0
    assert SUMMARY_HEADER in context(long)


def test_a_session_of_one_exchange_cannot_be_summarised(bench: Bench) -> None:
    assert bench.backstory("run", "-a", "claude", "-", script=GOOD, given="x" * 500_000).returncode == 0
    refused = bench.backstory("compact", "--now", script=GOOD)
    assert refused.returncode == 64
    assert "only one exchange" in refused.stderr


def test_a_clone_does_not_choose_who_summarises(long: Bench) -> None:
    (long.project / ".backstory" / "config.toml").write_text('[compaction]\nchars = 1\nagent = "codex"\n')
    shown = long.backstory("compact", "--dry-run", "--json")
    assert json.loads(shown.stdout)["limit"] == 4000
    assert "only your own config may set it" in shown.stderr


def test_ps_shows_a_summary_being_made_and_cancel_stops_it(long: Bench, tmp_path: Path) -> None:
    making = long.start("compact", script=[{"wait_for": str(tmp_path / "never")}])
    until(lambda: compactor.under_way(long.home))
    listed = json.loads(long.backstory("ps", "--json").stdout)["runs"]
    assert [(each["number"], each["state"], each["pid"]) for each in listed] == [("S1", "summarising", making.pid)]
    stopped = long.backstory("cancel", "S1")
    assert "no longer being made" in stopped.stderr
    making.communicate(timeout=60)
    assert not compactor.under_way(long.home)
    assert SUMMARY_HEADER not in context(long)


def test_cancel_stops_the_run_rather_than_the_summary(long: Bench, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    making = long.start("compact", script=[{"wait_for": str(gate)}, *GOOD])
    until(lambda: compactor.under_way(long.home))
    running = long.start("run", "prompt 6", script=[{"wait_for": str(tmp_path / "never")}])
    until(lambda: any(each["state"] == "running" for each in json.loads(long.backstory("ps", "--json").stdout)["runs"]))
    long.backstory("cancel", "S1")
    running.communicate(timeout=60)
    assert compactor.under_way(long.home)
    gate.touch()
    making.communicate(timeout=60)
    assert SUMMARY_HEADER in context(long)


def test_a_killed_summary_is_begun_again_by_the_next_run(long: Bench, tmp_path: Path) -> None:
    kill_a_summary(long, tmp_path)
    gate = tmp_path / "gate"
    running = long.start("run", "prompt 6", script={"older part": GOOD, "prompt 6": [{"wait_for": str(gate)}, *GOOD]})
    until(lambda: SUMMARY_HEADER in context(long))
    gate.touch()
    assert "is being summarised in the background" in running.communicate(timeout=60)[1]


def test_a_summary_that_a_person_stopped_is_not_begun_again_before_the_next_turn(long: Bench, tmp_path: Path) -> None:
    making = long.start("compact", script=[{"wait_for": str(tmp_path / "never")}])
    until(lambda: compactor.under_way(long.home))
    long.backstory("cancel", "S1")
    making.communicate(timeout=60)
    (session,) = long.store.sessions()
    assert compactor.trouble(long.home, session.uid) == ""


BARELY_BEGUN = (
    "import signal, sys; from pathlib import Path; from backstory.runs import compactor as it\n"
    "home = Path(sys.argv[1]); lock = it.lock_of(home, 'UID'); assert lock.take(); it.note_begun(home, 'UID')\n"
    "print(flush=True); signal.pause()"
)
"""A process that is to summarise a session, and whose agent is not asked yet: nobody hears a signal."""


def test_a_summary_that_is_stopped_before_its_agent_starts_is_not_begun_again(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", BARELY_BEGUN, tmp_path], stdout=subprocess.PIPE) as making:
        assert making.stdout is not None
        making.stdout.readline()
        assert compactor.trouble(tmp_path, "UID")
        assert compactor.stop(tmp_path, "UID")
    assert compactor.trouble(tmp_path, "UID") == ""


def test_a_summary_that_is_stopped_leaves_no_agent(long: Bench, tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = [{"child": str(child)}, {"wait_for": str(tmp_path / "never")}]
    making = long.start("compact", script=script)
    until(lambda: child.exists() and child.read_text())
    long.backstory("cancel", "S1")
    making.communicate(timeout=60)
    assert not birth(int(child.read_text()))
    assert not list(long.temporary.glob("backstory-answer-*"))


def test_a_second_interrupt_ends_an_agent_that_does_not_listen(long: Bench, tmp_path: Path) -> None:
    child = tmp_path / "child"
    script: list[dict[str, Any]] = [
        {"ignore_interrupt": True},
        {"child": str(child)},
        {"wait_for": str(tmp_path / "never")},
    ]
    making = long.start("compact", script=script)
    until(lambda: child.exists() and child.read_text())
    making.send_signal(signal.SIGINT)
    until(lambda: making.poll() is None and compactor.under_way(long.home))
    time.sleep(0.5)
    making.send_signal(signal.SIGINT)
    making.communicate(timeout=60)
    assert not birth(int(child.read_text()))


def test_the_process_imports_nothing_from_the_projects_folder(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    told, python = bench.root / "told", bench.root / "python"
    python.write_text(f'#!/bin/sh\necho "$@" > {told}.new\nmv {told}.new {told}\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    compactor.start(bench.project / "store.bks", "UID", bench.project, {})
    until(told.exists)
    assert told.read_text().startswith("-P -m backstory compact UID")


def test_a_summary_begun_within_a_run_does_not_belong_to_it(long: Bench, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = {"older part": [{"wait_for": str(gate)}, *GOOD], "": GOOD}
    ran = long.backstory("run", "prompt 6", script=script, environ={"BACKSTORY_RUN": "outer"})
    assert "is being summarised in the background" in ran.stderr
    until(lambda: compactor.under_way(long.home))
    (pid,) = compactor.under_way(long.home).values()
    assert psutil.Process(pid).environ().get("BACKSTORY_RUN") != "outer"
    assert not [each for each in psutil.Process(pid).children() if each.environ().get("BACKSTORY_RUN") == "outer"]
    gate.touch()
    until(lambda: is_over(long))


def test_an_agent_that_is_missing_is_said_and_nothing_is_stored(long: Bench) -> None:
    long.backstory("config", "set", "agents.claude", str(long.root / "nothing"))
    refused = long.backstory("compact", script=GOOD)
    assert refused.returncode == 69
    assert "Traceback" not in refused.stderr
    assert SUMMARY_HEADER not in context(long)


def test_a_session_removed_meanwhile_gets_no_summary_and_nobody_else_does(long: Bench, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    making = long.start("compact", script=[{"wait_for": str(gate)}, *GOOD])
    until(lambda: compactor.under_way(long.home))
    assert long.backstory("rm", "--yes", "S1").returncode == 0
    assert long.backstory("run", "-a", "claude", "--new", "other", script=GOOD).returncode == 0
    gate.touch()
    _, err = making.communicate(timeout=60)
    assert "Traceback" not in err
    with long.store as store:
        assert [store.ask(compactions.of_session, each.id) for each in store.sessions()] == [[]]


def test_a_branch_removed_meanwhile_gets_no_summary(long: Bench, tmp_path: Path) -> None:
    with long.store as store:
        (session,) = store.sessions()
        first = store.turns(session)[0]
    gate = tmp_path / "gate"
    making = long.start("compact", script=[{"wait_for": str(gate)}, *GOOD])
    until(lambda: compactor.under_way(long.home))
    assert long.backstory("branch", "name", "old").returncode == 0
    assert long.backstory("checkout", f"@{first.last_seq}").returncode == 0
    assert long.run("another way", {"say": "short"}, {"result": True}).returncode == 0
    removed = long.backstory("branch", "rm", "--yes", "old")
    assert removed.returncode == 0, removed.stderr
    gate.touch()
    _, err = making.communicate(timeout=60)
    assert "its branch is gone" in err
    assert SUMMARY_HEADER not in context(long)


def test_a_checkout_elsewhere_meanwhile_keeps_the_summary_for_its_branch(long: Bench, tmp_path: Path) -> None:
    with long.store as store:
        (session,) = store.sessions()
        first, *_, last = store.turns(session)
    gate = tmp_path / "gate"
    making = long.start("compact", script=[{"wait_for": str(gate)}, *GOOD])
    until(lambda: compactor.under_way(long.home))
    assert long.backstory("checkout", f"@{first.last_seq}").returncode == 0
    gate.touch()
    making.communicate(timeout=60)
    assert SUMMARY_HEADER not in context(long)
    long.backstory("checkout", f"@{last.last_seq}")
    assert SUMMARY_HEADER in context(long)


def test_a_session_of_a_log_is_continued_only_for_a_summary_that_is_made(bench: Bench) -> None:
    bench.backstory("config", "set", "compaction.chars", "0")
    for n in range(1, 5):
        assert bench.run(f"prompt {n}", *LONG).returncode == 0
    with bench.store as store:
        (session,) = store.sessions()
    (other := bench.root / "other").mkdir()
    for words in (("compact",), ("compact", "--undo"), ("compact", "--show"), ("compact", "--dry-run")):
        looked = bench.backstory(*words, session.uid, cwd=other, script=GOOD)
        assert looked.returncode == 0, looked.stderr
        assert "continues" not in looked.stderr
        assert not (other / ".backstory").exists()
    made = bench.backstory("compact", "--now", session.uid, cwd=other, script=GOOD)
    assert made.returncode == 0, made.stderr
    assert f"continues {session.uid[:12]}" in made.stderr
    assert bench.backstory("context", cwd=other).stdout.startswith(SUMMARY_HEADER)
    assert SUMMARY_HEADER not in context(bench)
