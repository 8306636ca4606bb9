"""The queue and the lock, as people meet them: nothing is lost or done twice, whoever is killed, and whenever."""

from __future__ import annotations

import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory import agents
from backstory.cli.app import now_ms
from backstory.errors import CannotWrite
from backstory.model import LogIdentity, UserMessage
from backstory.runs.lock import SessionLease, SessionLock
from backstory.runs.process import MARKER
from backstory.runs.queued import enqueue, new_prompts
from backstory.runs.spool import Spool
from backstory.runs.steering import LISTENERS, StdinPipe, Steering, accepts_messages, note_accepting
from backstory.store import open_store
from backstory.store.tables.queue import Options, Queue, QueuedKind, QueueOwner
from backstory.workspace.runs.unsent import command_for
from tests.support.bench import Bench, MadeOnce
from tests.support.counts import IS_LONG
from tests.support.forked import COPIED
from tests.support.going import stop_without_locks
from tests.support.read_only import read_only, without_power
from tests.support.running import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.agents.contract import StreamReader

GOOD: dict[str, Any] = {"result": True}
NEVER: dict[str, Any] = {"wait_for": "never"}
DEADLINE_S = 120
BUSY = 75


def prompts(bench: Bench) -> list[str]:
    return [turn.prompt for turn in bench.store.turns(1)]


def told(bench: Bench) -> list[str]:
    """The prompts that agents were started with, without what came before them."""
    lines = bench.received.with_suffix(".told").read_text().splitlines()
    return [json.loads(line).rpartition("\n\n")[2] for line in lines]


def heard(bench: Bench) -> list[str]:
    """The words that agents took up while they worked."""
    file = bench.received.with_suffix(".heard")
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def waits(bench: Bench) -> list[tuple[str, str]]:
    listed = json.loads(bench.backstory("queue", "list", "--json").stdout)["prompts"]
    return [(each["kind"], each["text"]) for each in listed]


def queue_file(bench: Bench) -> Path:
    return bench.project / ".backstory" / "sessions.bks.queue.db"


class Busy:
    """A session with a run that goes on until ``end``."""

    def __init__(self, bench: Bench, *script: dict[str, Any], after: tuple[dict[str, Any], ...] = (GOOD,)) -> None:
        self._bench, self._go = bench, bench.root / "go"
        steps: list[dict[str, Any]] = [
            {"listens": True},
            {"say": "at work"},
            *script,
            {"wait_for": str(self._go)},
            *after,
        ]
        self.process = bench.start("run", "-a", "claude", "first", script=steps)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "at work\n"

    def end(self) -> tuple[str, str]:
        """Let it go on to its end; gives what it printed."""
        self._go.touch()
        return self.process.communicate(timeout=DEADLINE_S)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    bench = Bench(tmp_path_factory.mktemp("begun"))
    assert bench.run("first", GOOD).returncode == 0
    return MadeOnce(bench)


@pytest.fixture
def begun(made_once: MadeOnce) -> Bench:
    """A session with one run, which is over."""
    return made_once.anew()


@pytest.fixture
def busy(bench: Bench) -> Busy:
    return Busy(bench)


# follow-ups -----------------------------------------------------------------------------------------------------------


def test_a_second_run_is_queued_and_run_by_the_first(bench: Bench, busy: Busy) -> None:
    queued = bench.run("second", options=("--permissions", "all"))
    assert queued.returncode == 0
    assert "Follow-up queued for S1 (running)." in queued.stderr
    assert waits(bench) == [("followup", "second")]
    out, err = busy.end()
    assert busy.process.returncode == 0
    assert "❯ second" in err
    assert out.count("at work") == 1
    assert prompts(bench) == ["first", "second"]
    assert "--dangerously-skip-permissions" in bench.argv()
    assert not queue_file(bench).exists()


def test_followups_run_in_order_each_after_the_one_before(bench: Bench, busy: Busy) -> None:
    for n in range(3):
        bench.backstory("followup", f"then {n}")
    busy.end()
    turns = bench.store.turns(1)
    assert [turn.prompt for turn in turns] == ["first", "then 0", "then 1", "then 2"]
    assert [turn.parent_uid for turn in turns[1:]] == [turn.uid for turn in turns[:-1]]


def test_a_followup_goes_to_the_agent_model_and_folder_it_asks_for(bench: Bench, busy: Busy) -> None:
    elsewhere = bench.project / "elsewhere"
    elsewhere.mkdir()
    bench.backstory("followup", "-a", "claude", "-m", "small", "--cwd", "elsewhere", "there")
    (row,) = json.loads(bench.backstory("queue", "list", "--json").stdout)["prompts"]
    assert row["options"] == {"agent": "claude", "model": "small", "cwd": str(elsewhere)}
    busy.end()
    assert "small" in bench.argv()
    assert bench.store.turns(1)[-1].model == "scripted" or bench.store.turns(1)[-1].model == "small"


def test_a_followup_of_a_session_that_does_not_run_is_run_at_once_when_asked(begun: Bench) -> None:
    done = begun.backstory("followup", "--or-run", "second", script=[{"say": "done"}, GOOD])
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert prompts(begun) == ["first", "second"]


def test_a_followup_may_be_left_without_running_anything(begun: Bench) -> None:
    done = begun.backstory("followup", "--no-run", "second")
    assert done.returncode == 0
    assert "backstory queue run S1" in done.stderr
    assert prompts(begun) == ["first"]
    begun.backstory("queue", "run", script=[GOOD])
    assert prompts(begun) == ["first", "second"]


def test_a_followup_is_run_though_the_session_was_held_when_it_came_by_one_who_runs_nothing(begun: Bench) -> None:
    lock = SessionLock(begun.home / "locks", begun.store.session("S1").uid)
    assert lock.take()
    process = begun.start("followup", "--or-run", "second", script=[GOOD])
    until(queue_file(begun).exists)
    lock.release()
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, err
    assert prompts(begun) == ["first", "second"]


FOLLOWUPS = range(5 if IS_LONG else 2)
"""By each of ten processes."""


@pytest.mark.timeout(900)
def test_followups_from_ten_processes_are_all_run_once_and_in_order(bench: Bench, busy: Busy) -> None:
    left = {n: [*FOLLOWUPS] for n in range(10)}
    goes_on = {n: bench.start("followup", "--or-run", f"{n}-{each.pop(0)}", script=[GOOD]) for n, each in left.items()}
    busy.end()

    def all_are_over() -> bool:
        # Each of the ten says its next one when the one before has ended.
        for n in [n for n, process in goes_on.items() if process.poll() is not None]:
            ended = goes_on.pop(n)
            _, err = ended.communicate()
            assert ended.returncode == 0, err
            if left[n]:
                goes_on[n] = bench.start("followup", "--or-run", f"{n}-{left[n].pop(0)}", script=[GOOD])
        return not goes_on

    until(all_are_over)
    turns = bench.store.turns(1)
    assert sorted(turn.prompt for turn in turns[1:]) == sorted(f"{n}-{m}" for n in range(10) for m in FOLLOWUPS)
    for n in range(10):
        assert [turn.prompt for turn in turns if turn.prompt.startswith(f"{n}-")] == [f"{n}-{m}" for m in FOLLOWUPS]
    assert [turn.parent_uid for turn in turns[1:]] == [turn.uid for turn in turns[:-1]]
    assert sorted(told(bench)) == sorted(turn.prompt for turn in turns)
    assert not queue_file(bench).exists()


def test_what_waits_is_not_run_after_a_run_that_failed(bench: Bench) -> None:
    busy = Busy(bench, after=({"exit": 3},))
    bench.backstory("followup", "second")
    _, err = busy.end()
    assert busy.process.returncode == 1
    assert "1 queued prompt left for S1" in err
    assert waits(bench) == [("followup", "second")]


def test_a_new_prompt_goes_before_what_waits_behind_a_run_that_failed(bench: Bench) -> None:
    busy = Busy(bench, after=({"exit": 3},))
    bench.backstory("followup", "third")
    busy.end()
    bench.run("second", GOOD)
    assert prompts(bench) == ["first", "second", "third"]


def test_a_new_prompt_goes_behind_what_was_left_by_a_runner_that_died(bench: Bench, busy: Busy) -> None:
    bench.backstory("followup", "second")
    busy.process.kill()
    busy.end()
    until(lambda: "running" not in bench.backstory("ps", "--json").stdout)
    done = bench.run("third", {"say": "of the third"}, GOOD)
    assert done.returncode == 0
    assert prompts(bench) == ["first", "second", "third"]


def test_a_followup_that_cannot_be_started_waits_and_is_told(bench: Bench, busy: Busy) -> None:
    gone = bench.project / "gone"
    gone.mkdir()
    bench.backstory("followup", "--cwd", "gone", "second")
    gone.rmdir()
    _, err = busy.end()
    assert busy.process.returncode == 0
    assert "gone" in err
    assert waits(bench) == [("followup", "second")]


def test_a_prompt_that_waits_keeps_the_record_it_is_to_follow(bench: Bench) -> None:
    bench.run("zero", {"say": "a"}, GOOD)
    bench.run("one", {"say": "b"}, GOOD)
    zero = bench.store.turns(1)[0]
    busy = Busy(bench)
    bench.backstory("run", "-a", "claude", f"@{zero.last_seq}", "another way")
    busy.end()
    assert bench.store.turns(1)[-1].prompt == "another way"
    assert bench.store.turns(1)[-1].parent_uid == zero.uid


def test_a_followup_that_cannot_be_started_is_named_to_those_who_come_behind_it(begun: Bench) -> None:
    gone = begun.project / "gone"
    gone.mkdir()
    begun.backstory("followup", "--no-run", "--cwd", "gone", "there")
    (row,) = json.loads(begun.backstory("queue", "list", "--json").stdout)["prompts"]
    gone.rmdir()
    for options in [(), ("--wait",)]:
        refused = begun.run("second", GOOD, options=options)
        assert refused.returncode == 1
        assert f'could not be run: "there". The folder {gone} cannot be used' in refused.stderr
        assert f"backstory queue drop {row['id'][-8:]}" in refused.stderr
    begun.backstory("queue", "drop", row["id"])
    assert begun.backstory("queue", "run", script=[GOOD]).returncode == 0
    assert prompts(begun) == ["first", "second", "second"]


@pytest.mark.parametrize("state", ["busy", "idle"])
def test_a_followup_for_an_agent_that_is_not_there_is_refused_and_leaves_nothing(bench: Bench, state: str) -> None:
    if state == "busy":
        busy = Busy(bench)
    else:
        bench.run("first", GOOD)
    refused = bench.backstory("followup", "-a", "nobody", "second")
    assert "nobody" in refused.stderr
    assert refused.returncode != 0
    assert waits(bench) == []
    if state == "busy":
        busy.end()


def test_a_followup_that_fails_to_start_at_once_is_not_left_for_later(begun: Bench) -> None:
    (begun.bin / "claude").chmod(0o644)
    refused = begun.backstory("followup", "--or-run", "second", environ={"PATH": str(begun.bin)})
    assert refused.returncode != 0
    assert waits(begun) == []


# what a busy session does ---------------------------------------------------------------------------------------------


def test_one_who_waits_is_told_the_answer_whoever_ran_it(bench: Bench, busy: Busy) -> None:
    waiting = bench.start("run", "-a", "claude", "--wait", "second", script=[{"say": "hello"}, GOOD])
    until(lambda: waits(bench) == [("followup", "second")])
    busy.end()
    _, err = waiting.communicate(timeout=DEADLINE_S)
    assert waiting.returncode == 0, err
    assert prompts(bench) == ["first", "second"]


def test_one_who_waits_and_loses_patience_takes_it_back(bench: Bench, busy: Busy) -> None:
    waiting = bench.start("run", "-a", "claude", "--wait", "second")
    until(lambda: waits(bench) == [("followup", "second")])
    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=DEADLINE_S)
    assert waiting.returncode == 130
    assert waits(bench) == []
    busy.end()
    assert prompts(bench) == ["first"]


def test_one_who_waits_for_what_another_process_ran_is_told_its_end_as_json(bench: Bench, busy: Busy) -> None:
    waiting = bench.start("run", "-a", "claude", "--wait", "--json", "second")
    until(lambda: waits(bench) == [("followup", "second")])
    stop_without_locks(bench, waiting)
    busy.end()
    waiting.send_signal(signal.SIGCONT)
    out, _ = waiting.communicate(timeout=DEADLINE_S)
    events = [json.loads(line) for line in out.splitlines()]
    assert [each["kind"] for each in events] == ["Init", "AssistantText", "Complete"]
    told = events[-1]
    assert (told["outcome"], told["success"], told["tools"], told["cost_usd"]) == ("completed", True, 0, 0.04)
    assert told["turn_uid"] == bench.store.turns(1)[-1].uid


@pytest.mark.parametrize("queued", [[], ["between"]], ids=["nothing waits", "something waits"])
def test_one_who_waits_outlasts_an_agent_whose_backstory_was_killed(bench: Bench, queued: list[str]) -> None:
    busy = Busy(bench)
    busy.process.kill()
    for text in queued:
        bench.backstory("followup", text)
    waiting = bench.start("run", "-a", "claude", "--wait", "second", script=[{"say": "hello"}, GOOD])
    until(lambda: ("followup", "second") in waits(bench))
    busy.end()
    out, err = waiting.communicate(timeout=DEADLINE_S)
    assert (waiting.returncode, out.splitlines()[-1:]) == (0, ["hello"]), err
    assert prompts(bench) == ["first", *queued, "second"]


def test_an_agents_own_command_does_not_wait_for_the_agent_to_end(bench: Bench, busy: Busy) -> None:
    (spool,) = bench.spools()
    done = bench.run("second", options=("--wait",), environ={"BACKSTORY_RUN": spool.name})
    assert done.returncode == 0
    assert "queued for S1 (running)" in done.stderr
    assert waits(bench) == [("followup", "second")]
    busy.end()
    assert prompts(bench) == ["first", "second"]


def test_one_who_waits_for_a_prompt_that_was_dropped_is_told_so(bench: Bench, busy: Busy) -> None:
    waiting = bench.start("run", "-a", "claude", "--wait", "second")
    until(lambda: waits(bench) == [("followup", "second")])
    stop_without_locks(bench, waiting)
    bench.backstory("queue", "clear")
    busy.end()
    waiting.send_signal(signal.SIGCONT)
    _, err = waiting.communicate(timeout=DEADLINE_S)
    assert waiting.returncode == 1
    assert "It was taken out of the queue" in err


@pytest.mark.parametrize("words", [("run", "-a", "claude", "--wait", "second"), ("followup", "second")])
def test_one_who_breaks_off_as_soon_as_a_prompt_is_queued_takes_it_back(
    bench: Bench, busy: Busy, words: tuple[str, ...]
) -> None:
    waiting = staged(bench, "backstory.store.tables.queue:Queue.add", "queued", "never", *words, script=[])
    until((bench.root / "queued").exists)
    assert waits(bench) == [("followup", "second")]
    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=DEADLINE_S)
    assert waiting.returncode == 130
    assert waits(bench) == []


STAGED = f"""{COPIED}
import importlib, sys, time
from pathlib import Path
place, reached, wanted, *words = sys.argv[1:]
module, _, names = place.partition(":")
owner, *names = importlib.import_module(module), *names.split(".")
for name in names[:-1]:
    owner = getattr(owner, name)
real = getattr(owner, names[-1])
def staged(*given, **named):
    result = real(*given, **named)
    Path(reached).touch()
    while wanted and not Path(wanted).exists():
        time.sleep(0.005)
    return result
setattr(owner, names[-1], staticmethod(staged) if hasattr(real, "__self__") else staged)
for each in [each for each in sys.modules.values() if vars(each).get(names[-1]) is real]:
    setattr(each, names[-1], staged)
sys.argv = ["backstory", *words]
from backstory.cli import main
main()
"""
"""``backstory`` that notes when it has come to a place, and goes on when a file is there."""


def staged(
    bench: Bench, place: str, reached: str, wanted: str, *words: str, script: list[dict[str, Any]]
) -> subprocess.Popen[str]:
    files = [str(bench.root / name) if name else "" for name in (reached, wanted)]
    return subprocess.Popen(
        [sys.executable, "-c", STAGED, place, *files, *words], cwd=bench.project, env=bench.environ(script), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


@pytest.mark.parametrize("words", [("run", "-a", "claude", "--cancel-first", "second"), ("cancel", "S1")])
def test_a_run_that_is_only_about_to_begin_is_stopped(bench: Bench, words: tuple[str, ...]) -> None:
    bench.run("zero", GOOD)
    place = "backstory.runs.runner:context_prefix"
    first = staged(bench, place, "begins", "looked", "run", "-a", "claude", "first", script=[{"say": "x"}, NEVER])
    until((bench.root / "begins").exists)
    second = staged(bench, "backstory.runs.stopping:running", "looked", "", *words, script=[GOOD])
    _, err = second.communicate(timeout=DEADLINE_S)
    first.communicate(timeout=DEADLINE_S)
    assert (first.returncode, second.returncode) == (130, 0), err
    assert [(turn.prompt, turn.outcome) for turn in bench.store.turns(1)][1:] == [
        ("first", "cancelled"), ("second", "completed"),
    ][: len(words) - 1]  # fmt: skip


def test_cancel_first_stops_what_runs_and_runs_the_new_prompt_next(bench: Bench, busy: Busy) -> None:
    bench.backstory("followup", "third")
    done = bench.run("second", {"say": "instead"}, GOOD, options=("--cancel-first",))
    assert done.returncode == 0, done.stderr
    busy.process.communicate(timeout=DEADLINE_S)
    assert [(turn.prompt, turn.outcome) for turn in bench.store.turns(1)] == [
        ("first", "cancelled"), ("second", "completed"), ("third", "completed"),
    ]  # fmt: skip


def test_cancel_leaves_what_waits_and_says_so(bench: Bench, busy: Busy) -> None:
    bench.backstory("followup", "second")
    done = bench.backstory("cancel", "S1")
    assert "1 queued prompt left for S1" in done.stderr
    busy.process.communicate(timeout=DEADLINE_S)
    assert waits(bench) == [("followup", "second")]


def test_cancel_with_clear_drops_what_waits(bench: Bench, busy: Busy) -> None:
    bench.backstory("followup", "second")
    assert "1 queued prompt dropped" in bench.backstory("cancel", "--clear", "S1").stderr
    busy.process.communicate(timeout=DEADLINE_S)
    assert (waits(bench), prompts(bench)) == ([], ["first"])


# steers ---------------------------------------------------------------------------------------------------------------


def test_words_for_a_running_agent_are_taken_up_and_stand_in_its_turn(bench: Bench) -> None:
    busy = Busy(bench, {"hear": 1}, {"say": "heard"})
    bench.backstory("steer", "look left")
    until(lambda: heard(bench) == ["look left"])
    out, _ = busy.end()
    assert "❯ look left\n" in out
    (turn,) = bench.store.turns(1)
    assert (turn.prompt, turn.outcome) == ("first", "completed")
    said = [(stored.kind, getattr(stored.event, "content", "")) for stored in bench.store.events(1)]
    assert said.index(("UserMessage", "look left")) == 3
    assert not queue_file(bench).exists()
    assert bench.store.verify().problems == []


def test_words_are_told_again_to_the_next_agent_and_by_a_reindex(bench: Bench) -> None:
    busy = Busy(bench, {"hear": 1})
    bench.backstory("steer", "look left")
    until(lambda: heard(bench) == ["look left"])
    busy.end()
    before = [stored.event for stored in bench.store.events(1)]
    bench.backstory("reindex", "--force", "--store", str(bench.store.path))
    assert [stored.event for stored in bench.store.events(1)] == before
    bench.run("second", GOOD)
    assert bench.sent().count("look left") == 1


def test_events_that_a_program_adds_stand_apart_from_the_words_an_agent_was_told(bench: Bench) -> None:
    busy = Busy(bench, {"hear": 1})
    bench.backstory("steer", "look left")
    until(lambda: heard(bench) == ["look left"])
    busy.end()
    store = bench.store
    store.append_events(store.session("S1"), [UserMessage(content="by a program")])
    store.close()
    before = [stored.event for stored in bench.store.events(1)]
    assert bench.store.verify().problems == []
    bench.backstory("reindex", "--force", "--store", str(bench.store.path))
    assert [stored.event for stored in bench.store.events(1)] == before
    assert prompts(bench) == ["first", "by a program"]


def test_what_an_agent_does_not_take_up_becomes_a_followup(bench: Bench, busy: Busy) -> None:
    bench.backstory("steer", "look left")
    until(lambda: any((each / "stdin.jsonl").exists() for each in bench.spools()))
    busy.end()
    assert heard(bench) == []
    assert prompts(bench) == ["first", "look left"]


def test_words_that_become_a_followup_are_run_as_the_run_that_they_were_for(bench: Bench) -> None:
    elsewhere = bench.project / "elsewhere"
    elsewhere.mkdir()
    go = bench.root / "go"
    words = ("run", "-a", "claude", "-m", "big", "--cwd", str(elsewhere), "first")
    process = bench.start(*words, script=[{"say": "at work"}, {"wait_for": str(go)}, GOOD])
    assert process.stdout is not None
    process.stdout.readline()
    bench.backstory("steer", "look left")
    (row,) = json.loads(bench.backstory("queue", "list", "--json").stdout)["prompts"]
    asked = {name: row["options"][name] for name in ("agent", "model", "cwd")}
    assert asked == {"agent": "claude", "model": "big", "cwd": str(elsewhere)}
    go.touch()
    process.communicate(timeout=DEADLINE_S)
    assert prompts(bench) == ["first", "look left"]
    assert "big" in bench.argv()


def test_words_for_a_session_of_a_project_that_is_gone_go_on_from_it_here(begun: Bench) -> None:
    uid = begun.store.session("S1").uid
    shutil.rmtree(begun.project)
    begun.project.mkdir()
    other = begun.root / "other"
    other.mkdir()
    done = begun.backstory("followup", "--or-run", "-S", uid, "second", script=[GOOD], cwd=other)
    assert done.returncode == 0, done.stderr
    assert "continues " in done.stderr
    assert [turn.prompt for turn in open_store(other / ".backstory" / "sessions.bks").turns(1)] == ["first", "second"]


def test_an_agent_that_does_not_tell_what_it_takes_up_is_told_nothing_while_it_works(bench: Bench) -> None:
    process = bench.start(
        "run", "-a", "claude", "first", script=[{"say": "at work"}, {"wait_for": str(bench.root / "go")}, GOOD]
    )
    assert process.stdout is not None
    process.stdout.readline()
    bench.backstory("steer", "look left")
    (bench.root / "go").touch()
    process.communicate(timeout=DEADLINE_S)
    assert prompts(bench) == ["first", "look left"]


@pytest.mark.parametrize("agent", ["alone", "deaf"])
def test_who_leaves_words_for_an_agent_that_will_not_hear_them_is_told_so(bench: Bench, agent: str) -> None:
    busy = Busy(bench)
    if agent == "alone":
        busy.process.kill()
    else:
        stop_without_locks(bench, busy.process)
        for spool in bench.spools():
            run = json.loads((spool / "run.json").read_text())
            (spool / "run.json").write_text(json.dumps({**run, "agent": "codex"}))
    done = bench.backstory("steer", "look left")
    assert "Follow-up queued" in done.stderr
    assert "not running" not in done.stderr
    busy.process.send_signal(signal.SIGCONT)
    busy.end()
    until_nothing_runs(bench)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look of one who steers is taken for the last that an agent may be quiet at."""
    monkeypatch.setattr("backstory.runs.steering.LOOK_S", 0.0)
    monkeypatch.setattr("backstory.runs.steering.QUIET_S", 0.0)


@pytest.mark.usefixtures("hasty")
def test_an_agent_that_answers_only_at_the_end_of_its_stdin_is_given_it(bench: Bench) -> None:
    steering, feed, _ = steering_of(bench)
    steering.look()
    with os.fdopen(os.dup(feed.reading), "rb") as agent:
        assert feed.is_open
        prompt = agent.readline()
        steering.look()
        assert (prompt[-1:], agent.read()) == (b"\n", b"")


@pytest.mark.usefixtures("hasty")
def test_an_agent_that_works_before_it_says_anything_keeps_its_stdin(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    signs = iter(range(1_000))
    monkeypatch.setattr(Spool, "signs_of_work", lambda _: next(signs))
    monkeypatch.setattr("backstory.runs.steering.QUIET_S", 1e-9)
    steering, feed, _ = steering_of(bench)
    os.read(feed.reading, 1_000)
    for _ in range(100):
        steering.look()
    assert feed.is_open
    monkeypatch.setattr("backstory.runs.steering.LISTENS_S", 0.0)
    steering.look()
    assert not feed.is_open


@pytest.mark.usefixtures("hasty")
def test_a_program_that_has_listened_before_is_given_more_time(bench: Bench) -> None:
    steering, feed, _ = steering_of(bench, is_known=True)
    os.read(feed.reading, 1_000)
    for _ in range(10):
        steering.look()
    assert feed.is_open


INIT = {"type": "system", "subtype": "init"}
LISTENING = {**INIT, "capabilities": ["msg_lifecycle_v1"]}


@pytest.mark.parametrize("said", [INIT, {"type": "assistant"}, {"type": "result"}], ids=["init", "answer", "end"])
def test_an_agent_that_begins_without_saying_that_it_listens_is_told_the_end_at_once(
    bench: Bench, said: dict[str, Any]
) -> None:
    steering, feed, reader = steering_of(bench)
    reader.read(json.dumps(said).encode())
    steering.look()
    assert not feed.is_open


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("first", [[], [{"type": "system", "subtype": "hook_started"}]], ids=["init", "a hook"])
def test_an_agent_that_listens_keeps_its_stdin_however_long_it_says_nothing(
    bench: Bench, first: list[dict[str, Any]]
) -> None:
    steering, feed, reader = steering_of(bench)
    for said in [*first, LISTENING, {"type": "assistant"}]:
        reader.read(json.dumps(said).encode())
        steering.look()
    os.read(feed.reading, 1_000)
    steering.look()
    steering.look()
    assert feed.is_open


def test_a_run_takes_note_of_a_program_that_listens(begun: Bench) -> None:
    assert not accepts_messages(begun.home, str(begun.bin / "claude"))
    begun.run("second", {"listens": True}, GOOD)
    assert accepts_messages(begun.home, str(begun.bin / "claude"))


def test_a_program_that_was_replaced_is_not_known(tmp_path: Path) -> None:
    program, other = tmp_path / "program", tmp_path / "other"
    for each in (program, other):
        each.write_text("#!/bin/sh\n")
        note_accepting(tmp_path, str(each))
    program.write_text("#!/bin/sh\n# another\n")
    assert [accepts_messages(tmp_path, str(each)) for each in (program, other)] == [False, True]


@pytest.mark.parametrize("content", [b"", b"[]", b"garbage"])
def test_a_list_of_programs_that_is_damaged_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LISTENERS).write_bytes(content)
    assert not accepts_messages(tmp_path, sys.executable)
    note_accepting(tmp_path, sys.executable)
    assert accepts_messages(tmp_path, sys.executable)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not tell")
@pytest.mark.parametrize(("code", "works"), [("while True: pass", True), ("input()", False)])
def test_a_process_that_works_is_told_from_one_that_waits(tmp_path: Path, code: str, works: bool) -> None:
    spool = Spool(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", f"print(flush=True)\n{code}"], text=True, env={MARKER: tmp_path.name},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    if not works:
        until(lambda: spool.signs_of_work() == spool.signs_of_work())
    looks = [str(spool.signs_of_work()) for _ in range(5)]
    assert len(set(looks)) == (5 if works else 1)


def steering_of(bench: Bench, *, is_known: bool = False) -> tuple[Steering, StdinPipe, StreamReader]:
    """What tells an agent words that has its prompt in its stdin, and has not said anything yet."""
    bench.run("first", GOOD)
    agent = agents.load("claude")
    assert agent.steer is not None and agent.run is not None
    reader = agent.run.stream_reader()
    assert reader.steering is not None
    feed = StdinPipe.holding(agent.steer.encode_message("a prompt"))
    assert feed is not None
    hold = SessionLease(bench.home, bench.store, bench.store.session("S1").uid, now_ms)
    spool = Spool(bench.root)
    return Steering(hold, spool, feed, agent.steer, reader.steering, now_ms, is_known=is_known), feed, reader


def test_a_message_for_a_session_that_does_not_run_is_a_prompt_when_asked(begun: Bench) -> None:
    done = begun.backstory("steer", "--or-run", "second", script=[GOOD])
    assert "S1 is not running" in done.stderr
    assert prompts(begun) == ["first", "second"]


@pytest.mark.parametrize("words", [["steer", "x"], ["steer", "-S", "S7", "x"], ["followup", "--name", "none", "x"]])
def test_words_for_a_session_that_is_not_there_are_refused_and_leave_nothing(bench: Bench, words: list[str]) -> None:
    refused = bench.backstory(*words)
    assert refused.returncode == 66
    assert not (bench.project / ".backstory").exists()


def test_words_of_nothing_are_refused(begun: Bench) -> None:
    assert begun.backstory("steer", "  ").returncode == 64
    assert begun.backstory("--followup", "").returncode == 64


def test_both_can_be_said_as_options(bench: Bench, busy: Busy) -> None:
    done = bench.backstory("--followup", "then this", "--steer", "look left", "--followup", "then that")
    assert done.returncode == 0, done.stderr
    assert waits(bench) == [("steer", "look left"), ("followup", "then this"), ("followup", "then that")]


def test_words_are_heard_in_the_order_they_were_said(bench: Bench) -> None:
    busy = Busy(bench, {"hear": 20})
    for n in range(20):
        bench.backstory("steer", f"word {n} " + "🐦" * (n * 30))
    until(lambda: len(heard(bench)) == 20)
    busy.end()
    said = [stored.event.content for stored in bench.store.events(1) if isinstance(stored.event, UserMessage)]
    assert said == ["first", *(f"word {n} " + "🐦" * (n * 30) for n in range(20))]


def test_words_too_long_for_a_pipe_wait_for_the_next_run(bench: Bench) -> None:
    busy = Busy(bench)
    given = "w" * 2_000_000
    assert bench.backstory("steer", given=given).returncode == 0
    busy.end()
    assert prompts(bench) == ["first", given]


def log_of(*records: dict[str, Any]) -> list[str]:
    """The prompts of the turns that an agent's own log with these records has."""
    reader = agents.load("claude").log.reader(LogIdentity(native_id="s"), None, tuple)
    prompts: list[str] = []
    for seq, record in enumerate(records, 1):
        reader.read(json.dumps({"sessionId": "s", **record}).encode(), seq)
        prompts += [turn.prompt for turn in reader.touched() if turn.prompt not in prompts]
    return prompts


def typed(text: str, given: str) -> dict[str, Any]:
    return {"type": "user", "uuid": given, "message": {"role": "user", "content": [{"type": "text", "text": text}]}}


def absorbed(text: str, source: str) -> dict[str, Any]:
    given = {"type": "queued_command", "prompt": [{"type": "text", "text": text}], "source_uuid": source}
    return {"type": "attachment", "uuid": "22222222-2222-4222-8222-222222222222", "attachment": given}


def word(uid: str) -> str:
    steer = agents.load("claude").steer
    assert steer is not None
    return steer.message_id(uid)


FIRST = typed("first", "11111111-1111-4111-8111-111111111111")


@pytest.mark.parametrize("record", [typed("look left", word("A")), absorbed("look left", word("A"))])
def test_words_of_ours_are_no_turn_in_the_agents_own_log(record: dict[str, Any]) -> None:
    assert log_of(FIRST, record) == ["first"]


@pytest.mark.parametrize("source", ["33333333-3333-4333-8333-333333333333", ""])
def test_words_that_a_person_typed_while_the_agent_worked_are_a_turn_in_its_log(source: str) -> None:
    assert log_of(FIRST, absorbed("look left", source)) == ["first", "look left"]


def test_the_id_of_words_is_a_uuid_of_version_8_and_always_the_same() -> None:
    ids = {word(f"01M80W1V4JKWG88XNKXCPHYT{n:02}") for n in range(100)}
    assert len(ids) == 100
    assert {(uuid.UUID(each).version, uuid.UUID(each).variant) for each in ids} == {(8, uuid.RFC_4122)}
    assert word("A") == word("A")


# what waits -----------------------------------------------------------------------------------------------------------


def test_what_waits_is_listed_dropped_and_cleared(bench: Bench, busy: Busy) -> None:
    for n in range(3):
        bench.backstory("followup", f"then {n}")
    listed = json.loads(bench.backstory("queue", "list", "--json").stdout)["prompts"]
    assert [(each["label"], each["text"]) for each in listed] == [("S1", f"then {n}") for n in range(3)]
    dropped = bench.backstory("queue", "drop", "--json", listed[1]["id"][-8:].lower())
    assert [each["text"] for each in json.loads(dropped.stdout)["prompts"]] == ["then 1"]
    assert waits(bench) == [("followup", "then 0"), ("followup", "then 2")]
    assert [each["text"] for each in json.loads(bench.backstory("queue", "clear", "--json").stdout)["prompts"]] == [
        "then 0", "then 2",
    ]  # fmt: skip
    assert waits(bench) == []


def test_what_does_not_wait_cannot_be_dropped(bench: Bench, busy: Busy) -> None:
    bench.backstory("followup", "second")
    assert bench.backstory("queue", "drop", "ZZZZ").returncode == 66
    assert bench.backstory("queue", "drop", "").returncode == 66
    assert waits(bench) == [("followup", "second")]


def test_a_followup_that_is_run_waits_no_more(begun: Bench) -> None:
    script: list[dict[str, Any]] = [{"listens": True}, {"say": "at work"}, {"wait_for": str(begun.root / "go")}, GOOD]
    process = begun.start("followup", "--or-run", "second", script=script)
    assert process.stdout is not None
    process.stdout.readline()
    assert waits(begun) == []
    (row,) = json.loads(begun.backstory("ps", "--json").stdout)["runs"]
    assert (row["state"], row["prompt"], row["queued_count"]) == ("running", "second", 0)
    assert "number" not in begun.backstory("followup", "third").stderr
    assert "number 2 in the queue" in begun.backstory("followup", "fourth").stderr
    assert "Dropped" in begun.backstory("queue", "clear").stderr
    (begun.root / "go").touch()
    process.communicate(timeout=DEADLINE_S)
    assert prompts(begun) == ["first", "second"]


def test_what_waits_for_a_session_that_is_removed_goes_with_it(begun: Bench) -> None:
    begun.backstory("followup", "--no-run", "second")
    done = begun.backstory("rm", "--yes", "S1")
    assert "Deleted its queued prompt: second" in done.stderr
    assert not queue_file(begun).exists()


def test_nothing_more_is_run_in_a_session_that_is_removed_while_it_runs(bench: Bench, busy: Busy) -> None:
    bench.backstory("followup", "second")
    uid = bench.store.sessions()[0].uid
    bench.backstory("rm", "--yes", "S1")
    # Left by one who found the session just before it was removed.
    enqueue(bench.store, new_prompts(uid, [(QueuedKind.FOLLOWUP, "third", Options())], now_ms()))
    busy.end()
    assert told(bench) == ["first"]
    assert (bench.spools(), queue_file(bench).exists()) == ([], False)


def test_ps_tells_who_runs_a_session_and_how_much_waits(bench: Bench, busy: Busy) -> None:
    bench.backstory("followup", "second")
    (row,) = json.loads(bench.backstory("ps", "--json").stdout)["runs"]
    assert (row["state"], row["queued_count"]) == ("running", 1)
    assert (row["owner"]["pid"], row["owner"]["host"]) == (busy.process.pid, os.uname().nodename)
    assert "(1 waiting)" in bench.backstory("ps").stdout
    assert str(row["pid"]) in bench.backstory("ps", "-v").stdout


def test_ps_tells_what_waits_for_a_session_that_does_not_run(begun: Bench) -> None:
    begun.backstory("followup", "--no-run", "second")
    (row,) = json.loads(begun.backstory("ps", "--json").stdout)["runs"]
    assert (row["state"], row["queued_count"], row["owner"]) == ("queued", 1, None)


# killed at every step -------------------------------------------------------------------------------------------------

FAULTY = f"""{COPIED}
import importlib, os, sys
place, when, *words = sys.argv[1:]
module, _, names = place.partition(":")
owner, *names = importlib.import_module(module), *names.split(".")
for name in names[:-1]:
    owner = getattr(owner, name)
real = getattr(owner, names[-1])
def faulty(*given, **named):
    if when == "before":
        os.kill(os.getpid(), 9)
    result = real(*given, **named)
    os.kill(os.getpid(), 9)
    return result
setattr(owner, names[-1], staticmethod(faulty) if hasattr(real, "__self__") else faulty)
for each in [each for each in sys.modules.values() if vars(each).get(names[-1]) is real]:
    setattr(each, names[-1], faulty)
sys.argv = ["backstory", *words]
from backstory.cli import main
main()
"""

STEPS = [
    ("backstory.runs.runner:Runner.next_prompt", "before"),
    ("backstory.runs.runner:Runner.next_prompt", "after"),
    ("backstory.runs.runner:Spool.begin", "before"),
    ("backstory.runs.runner:Spool.begin", "after"),
    ("backstory.runs.spool:Spool.open_output", "after"),
    ("backstory.runs.spool:Spool.note_process", "before"),
    ("backstory.runs.spool:Spool.note_process", "after"),
    ("backstory.runs.spool:Spool.note_exit", "before"),
    ("backstory.store:Store.append", "before"),
    ("backstory.store:Store.append", "after"),
    ("backstory.store.tables.queue:Queue.remove", "before"),
    ("backstory.store.tables.queue:Queue.remove", "after"),
    ("backstory.exchange.replication:replicate_session", "before"),
    ("backstory.runs.spool:Spool.remove", "before"),
    ("backstory.runs.spool:Spool.remove", "after"),
    ("backstory.runs.lock:SessionLease.release", "before"),
    ("backstory.runs.lock:SessionLease.release", "after"),
]


def killed(bench: Bench, step: tuple[str, str], *words: str, script: list[dict[str, Any]]) -> subprocess.Popen[str]:
    """``backstory`` that kills itself at a step."""
    return subprocess.Popen(
        [sys.executable, "-c", FAULTY, *step, *words], cwd=bench.project, env=bench.environ(script), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def until_nothing_runs(bench: Bench) -> None:
    until(lambda: "running" not in bench.backstory("ps", "--json").stdout)


@pytest.mark.parametrize("step", STEPS, ids=[f"{when} {place.partition(':')[2]}" for place, when in STEPS])
def test_a_followup_whose_runner_is_killed_is_run_once(begun: Bench, step: tuple[str, str]) -> None:
    process = killed(begun, step, "followup", "--or-run", "second", script=[{"say": "hi"}, GOOD])
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == -signal.SIGKILL
    until_nothing_runs(begun)
    done = begun.run("third", GOOD)
    assert done.returncode == 0, done.stderr
    assert prompts(begun) == told(begun) == ["first", "second", "third"]
    assert [turn.outcome for turn in begun.store.turns(1)] == ["completed"] * 3
    assert (begun.spools(), queue_file(begun).exists()) == ([], False)
    assert begun.store.verify().problems == []


STEER_STEPS = [
    ("backstory.runs.spool:Spool.note_word", "before"),
    ("backstory.runs.spool:Spool.note_word", "after"),
    ("backstory.runs.steering:StdinPipe.give", "after"),
    ("backstory.runs.spool:Spool.note_exit", "before"),
    ("backstory.store:Store.append", "before"),
    ("backstory.store:Store.append", "after"),
    ("backstory.store.tables.queue:Queue.remove", "before"),
    ("backstory.store.tables.queue:Queue.remove", "after"),
    ("backstory.store.tables.queue:Queue.make_followups", "after"),
    ("backstory.runs.spool:Spool.remove", "before"),
    ("backstory.runs.lock:SessionLease.release", "before"),
]


@pytest.mark.parametrize("step", STEER_STEPS, ids=[f"{when} {place.partition(':')[2]}" for place, when in STEER_STEPS])
def test_words_whose_runner_is_killed_are_told_once(bench: Bench, step: tuple[str, str]) -> None:
    script: list[dict[str, Any]] = [{"listens": True}, {"say": "at work"}, {"hear": 1}, {"say": "done"}, GOOD]
    process = killed(bench, step, "run", "-a", "claude", "first", script=script)
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    bench.backstory("steer", "look left")
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == -signal.SIGKILL
    until_nothing_runs(bench)
    assert bench.run("last", GOOD).returncode == 0
    assert [*heard(bench), *told(bench)].count("look left") == 1
    said = [stored.event.content for stored in bench.store.events(1) if isinstance(stored.event, UserMessage)]
    assert said == ["first", "look left", "last"]
    assert (bench.spools(), queue_file(bench).exists()) == ([], False)
    assert bench.store.verify().problems == []


# the lock -------------------------------------------------------------------------------------------------------------

RACER = """
import os, sys
from pathlib import Path
from backstory.runs.lock import SessionLock
locks, marker, taken = Path(sys.argv[1]), sys.argv[2], 0
while taken < 500:
    lock = SessionLock(locks, "S")
    if lock.take():
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        os.unlink(marker)
        lock.release()
        taken += 1
"""


def test_two_that_race_for_a_lock_never_both_have_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RACER, str(tmp_path / "locks"), str(tmp_path / "marker")]
    racers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ended = [(racer.communicate(timeout=DEADLINE_S)[1], racer.returncode) for racer in racers]
    assert ended == [("", 0), ("", 0)]


def test_looking_whether_a_lock_is_held_never_keeps_anyone_from_taking_it(tmp_path: Path) -> None:
    looking = (
        "import sys; from pathlib import Path; from backstory.runs.lock import SessionLock\n"
        "while not Path(sys.argv[2]).exists(): SessionLock(Path(sys.argv[1]), 'S').is_held"
    )
    lock = SessionLock(tmp_path / "locks", "S")
    assert lock.take()
    lock.release()
    looker = subprocess.Popen([sys.executable, "-c", looking, str(tmp_path / "locks"), str(tmp_path / "stop")])
    try:
        for _ in range(2_000):
            assert lock.take()
            lock.release()
    finally:
        (tmp_path / "stop").touch()
        looker.wait(DEADLINE_S)


def beat_at(bench: Bench, at: int) -> None:
    """Have the owner's row say that it was last heard of then."""
    db = apsw.Connection(str(queue_file(bench)))
    db.execute("update owners set heartbeat = ?", (at,))
    db.close()


@pytest.mark.parametrize("hours", [-1, 1], ids=["silent", "from the future"])
def test_an_owner_that_is_stopped_for_long_keeps_its_session(bench: Bench, busy: Busy, hours: int) -> None:
    stop_without_locks(bench, busy.process)
    try:
        beat_at(bench, now_ms() + hours * 3_600_000)
        assert bench.run("second", GOOD, options=("--fail",)).returncode == BUSY
    finally:
        busy.process.send_signal(signal.SIGCONT)
    busy.end()
    assert prompts(bench) == ["first"]


def leave_owner(bench: Bench, host: str, heartbeat: int) -> None:
    uid = bench.store.session("S1").uid
    with Queue(bench.store.path) as queue:
        queue.own(QueueOwner(session_uid=uid, pid=os.getpid(), host=host, started=heartbeat, heartbeat=heartbeat))


def test_the_row_of_another_host_that_was_heard_of_lately_refuses(begun: Bench) -> None:
    leave_owner(begun, "elsewhere", now_ms())
    refused = begun.run("second", GOOD)
    assert refused.returncode == BUSY
    assert "on elsewhere" in refused.stderr
    assert prompts(begun) == ["first"]


def test_words_for_a_session_that_another_host_runs_wait_and_name_it(begun: Bench) -> None:
    leave_owner(begun, "elsewhere", now_ms())
    done = begun.backstory("followup", "second")
    assert done.returncode == 0
    assert f"(running: process {os.getpid()} on elsewhere)" in done.stderr
    assert waits(begun) == [("followup", "second")]


@pytest.mark.parametrize("ago_ms", [31_000, -3_600_000], ids=["silent", "from the future"])
def test_the_row_of_another_host_that_went_silent_does_not_refuse(begun: Bench, ago_ms: int) -> None:
    leave_owner(begun, "elsewhere", now_ms() - ago_ms)
    assert begun.run("second", GOOD).returncode == 0
    assert not queue_file(begun).exists()


def test_a_row_that_a_dead_process_left_is_nobodys_though_its_id_was_given_again(begun: Bench) -> None:
    leave_owner(begun, os.uname().nodename, now_ms())
    assert json.loads(begun.backstory("ps", "--json").stdout)["runs"] == []
    assert begun.run("second", GOOD).returncode == 0
    assert not queue_file(begun).exists()


def test_an_owner_is_heard_of_while_it_runs_and_gone_afterwards(begun: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    session, clock = begun.store.session("S1"), iter(range(1_000, 10_000_000, 1_000))
    monkeypatch.setattr("backstory.runs.lock.HEARTBEAT_S", 0.01)
    hold = SessionLease(begun.home, begun.store, session.uid, lambda: next(clock))
    assert hold.take()
    hold.show_owner()
    with Queue(begun.store.path) as queue:
        first = queue.owner(session.uid)
        assert first is not None
        until(lambda: (now := queue.owner(session.uid)) is not None and now.heartbeat > first.heartbeat)
    hold.release()
    assert not queue_file(begun).exists()


def test_a_project_that_is_removed_while_it_is_worked_in_is_not_made_again_by_a_heartbeat(
    begun: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats: list[int] = []

    def beat() -> int:
        beats.append(now_ms())
        return beats[-1]

    monkeypatch.setattr("backstory.runs.lock.HEARTBEAT_S", 0.01)
    hold = SessionLease(begun.home, begun.store, begun.store.session("S1").uid, beat)
    assert hold.take()
    hold.show_owner()
    begun.project.rename(begun.root / "elsewhere")
    before = len(beats)
    until(lambda: len(beats) > before + 3)
    hold.release()
    assert not begun.project.exists()


# a queue that another process has locked ------------------------------------------------------------------------------

HURRIED = f"""{COPIED}
import sys
from backstory.store.file import waiting
waiting.TOLD_S, waiting.PATIENCE_S = 0.0, float(sys.argv[1])
sys.argv = ["backstory", *sys.argv[2:]]
from backstory.cli import main
main()
"""
"""``backstory`` that waits for a locked queue no longer than it is told, and says at once for whom."""


def hurried(bench: Bench, seconds: float, *words: str, given: Path | None = None) -> subprocess.Popen[str]:
    with (given or Path(os.devnull)).open() as stdin:
        return subprocess.Popen(
            [sys.executable, "-c", HURRIED, str(seconds), *words], cwd=bench.project, env=bench.environ([]), text=True,
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip


@contextmanager
def locked(bench: Bench) -> Iterator[None]:
    """This process has the queue in the middle of a transaction."""
    db = apsw.Connection(str(queue_file(bench)))
    db.execute("begin exclusive; update texts set queued = queued")
    yield
    db.close()


def repeated(bench: Bench, err: str) -> None:
    """Do what the last line says, but run nothing."""
    told = err.splitlines()[-1].strip()
    assert told.startswith("backstory ")
    command = told.replace("backstory", f"{shlex.quote(sys.executable)} -m backstory", 1)
    command = command.replace(" -S", " --no-run -S", 1)
    subprocess.run(["sh", "-c", command], cwd=bench.project, env=bench.environ([]), check=True)


@pytest.fixture
def queued(bench: Bench) -> Bench:
    """A session for which something waits."""
    bench.run("first", GOOD)
    bench.backstory("followup", "--no-run", "second")
    return bench


def test_who_cannot_queue_a_text_is_told_whose_fault_it_is_and_how_to_repeat_it(queued: Bench) -> None:
    with locked(queued):
        process = hurried(queued, 0.2, "followup", "--no-run", "-m", "big", "-S", "S1", "--", "-- it's third")
        _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == BUSY
    assert f"queue.db is locked by process {os.getpid()} (" in err.splitlines()[0]
    assert f"was locked for 0 s by process {os.getpid()}" in err
    assert "Your text is not lost" in err
    repeated(queued, err)
    assert waits(queued) == [("followup", "second"), ("followup", "-- it's third")]
    assert json.loads(queued.backstory("queue", "list", "--json").stdout)["prompts"][-1]["options"]["model"] == "big"


def test_a_long_text_that_cannot_be_queued_is_kept_in_a_file(queued: Bench) -> None:
    text = "läs\n" * 1_000
    given = queued.root / "given"
    given.write_text(text)
    with locked(queued):
        process = hurried(queued, 0.1, "steer", "--no-run", "-S", "S1", given=given)
        _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == BUSY
    (kept,) = (queued.home / "unsent").iterdir()
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == (text, 0o600)
    repeated(queued, err)
    assert waits(queued)[1:] == [("steer", text)]


def test_a_prompt_that_cannot_be_queued_is_repeated_with_all_it_asked_for(tmp_path: Path) -> None:
    asked = Options(agent="a", model="b", permissions="all", cwd="/some where", after=("T", 12))
    (text,) = new_prompts("S", [(QueuedKind.FOLLOWUP, "go", asked)], now_ms())
    assert command_for(text, "S1", tmp_path, "x.bks") == (
        "backstory run --at @12 -S S1 --agent a --model b --permissions all --cwd '/some where' --store x.bks -- go"
    )


def test_a_text_is_queued_as_soon_as_the_queue_is_free(queued: Bench) -> None:
    with locked(queued):
        process = hurried(queued, DEADLINE_S, "followup", "--no-run", "-S", "S1", "third")
        assert process.stderr is not None
        assert "is locked by process" in process.stderr.readline()
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert [text for _, text in waits(queued)] == ["second", "third"]


def test_ctrl_c_ends_the_wait_for_a_locked_queue_and_leaves_nothing_in_it(queued: Bench) -> None:
    with locked(queued):
        process = hurried(queued, 1_000, "followup", "--no-run", "-S", "S1", "third")
        assert process.stderr is not None
        assert "is locked by process" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert waits(queued) == [("followup", "second")]


@pytest.mark.parametrize("where", ["waiting.holder_of", "queue.Queue._be_durable", "queue.unstopped"])
def test_ctrl_c_beside_the_wait_is_not_kept_waiting_either(queued: Bench, where: str) -> None:
    interrupted = f"""
import sys
from backstory.store.file import waiting
from backstory.store.tables import queue
meant, entered = {where}, []
def interrupt(*_, **__):
    {where} = meant
    if {where == "queue.unstopped"}:
        entered.append(meant())
        entered[0].__enter__()
    raise KeyboardInterrupt
waiting.TOLD_S, waiting.PATIENCE_S, {where} = 0.0, 1_000.0, interrupt
sys.argv = ["backstory", "followup", "--no-run", "-S", "S1", "third"]
from backstory.cli import main
from backstory.workspace.runs import session_runs
session_runs.TAKE_BACK_S = 0.0
main()
"""
    with locked(queued):
        done = subprocess.run(
            [sys.executable, "-c", interrupted], cwd=queued.project, env=queued.environ([]), timeout=DEADLINE_S,
            check=False, capture_output=True,
        )  # fmt: skip
    assert done.returncode == 130
    assert waits(queued) == [("followup", "second")]


def test_a_locked_queue_does_not_keep_words_from_an_agent_for_good(bench: Bench) -> None:
    steering, feed, reader = steering_of(bench)
    reader.read(json.dumps(LISTENING).encode())
    os.read(feed.reading, 1_000)
    uid = bench.store.session("S1").uid
    enqueue(bench.store, new_prompts(uid, [(QueuedKind.STEER, "look left", Options())], now_ms()))
    with locked(bench):
        steering.look()
        assert feed.is_open
    until(lambda: steering.look() == [] and not feed.is_read)
    assert b"look left" in os.read(feed.reading, 1_000)


# queues that cannot be used -------------------------------------------------------------------------------------------


def test_a_queue_of_garbage_keeps_nobody_from_running(begun: Bench) -> None:
    queue_file(begun).write_bytes(b"garbage" * 1_000)
    done = begun.run("second", GOOD)
    assert done.returncode == 0
    assert str(queue_file(begun)) in done.stderr
    assert prompts(begun) == ["first", "second"]
    assert queue_file(begun).read_bytes() == b"garbage" * 1_000


@pytest.mark.parametrize("words", [["followup", "x"], ["steer", "x"], ["queue", "list"], ["queue", "clear"]])
def test_a_queue_of_garbage_is_said_so(begun: Bench, words: list[str]) -> None:
    queue_file(begun).write_bytes(b"garbage" * 1_000)
    refused = begun.backstory(*words)
    assert refused.returncode == 65
    assert "Move it aside" in refused.stderr


def test_a_queue_that_may_not_be_written_is_said_so(begun: Bench) -> None:
    with read_only(begun.project / ".backstory"):
        refused = begun.backstory("followup", "--no-run", "second", limit=without_power)
    assert refused.returncode == 77
    assert "queue.db cannot be written" in refused.stderr
    assert prompts(begun) == ["first"]


# the pipe -------------------------------------------------------------------------------------------------------------


def test_a_prompt_is_in_the_pipe_before_the_agent_begins(tmp_path: Path) -> None:
    prompt = b"p" * 900_000
    feed = StdinPipe.holding(prompt)
    assert feed is not None
    assert not feed.has_room(b"more")
    with os.fdopen(os.dup(feed.reading), "rb") as reading:
        feed.close()
        assert reading.read() == prompt


def test_a_prompt_that_no_pipe_holds_has_none(tmp_path: Path) -> None:
    assert StdinPipe.holding(b"p" * 5_000_000) is None


def test_a_word_that_was_cut_off_was_never_handed_over(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.note_word(b'{"uid":"a"}')
    with spool.messages.open("ab") as file:
        file.write(b'{"uid":"b"')
    assert [word.uid for word in spool.words()] == ["a"]


def test_a_word_for_which_the_disk_has_no_room_leaves_no_half_line(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.note_word(b'{"uid":"a"}')
    with limited(spool.messages.stat().st_size + 5), pytest.raises(CannotWrite):
        spool.note_word(b'{"uid":"b"}')
    spool.note_word(b'{"uid":"c"}')
    assert [word.uid for word in spool.words()] == ["a", "c"]


@contextmanager
def limited(file_bytes: int) -> Iterator[None]:
    """No file may grow beyond a size: what goes over is not written, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


# what comes too late --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["followup", "steer"])
def test_what_comes_while_a_run_ends_is_taken_back_and_not_run(begun: Bench, word: str) -> None:
    lock = SessionLock(begun.home / "locks", begun.store.session("S1").uid)
    assert lock.take()
    process = begun.start(word, "second", script=[GOOD])
    until(queue_file(begun).exists)
    lock.release()
    _, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, "S1 is not running" in err) == (75, True)
    assert (waits(begun), prompts(begun)) == ([], ["first"])


def test_a_message_is_for_the_one_that_runs_not_for_the_one_last_active(bench: Bench, busy: Busy) -> None:
    bench.store.create_session("later", worktree=bench.project)
    assert "queued for S1" in bench.backstory("followup", "second").stderr
    busy.end()
    assert prompts(bench) == ["first", "second"]


def test_cancel_without_a_session_stops_the_one_that_runs(bench: Bench, busy: Busy) -> None:
    bench.store.create_session("later", worktree=bench.project)
    done = bench.backstory("cancel")
    assert (done.returncode, "S1 is stopped" in done.stderr) == (0, True)
    assert busy.process.wait(DEADLINE_S) != 0
    idle = bench.backstory("cancel")
    assert (idle.returncode, "is not running" in idle.stderr) == (66, True)


def test_cancel_without_a_session_stops_none_of_several(bench: Bench, busy: Busy) -> None:
    other = bench.start(
        "run", "-a", "claude", "-n", "other", script=[{"say": "too"}, {"wait_for": str(bench.root / "go")}]
    )
    assert other.stdout is not None
    other.stdout.readline()
    refused = bench.backstory("cancel")
    assert refused.returncode == 64
    assert "S1 (first), S2 (other)" in refused.stderr
    assert busy.process.poll() is None
    busy.end()
    other.communicate(timeout=DEADLINE_S)


def test_a_new_session_that_runs_is_called_the_same_everywhere(bench: Bench, busy: Busy) -> None:
    (row,) = json.loads(bench.backstory("ps", "--json").stdout)["runs"]
    assert row["number"] == "S1"
    assert bench.backstory("ps").stdout.startswith("S1\t")
    assert bench.backstory("list").stdout.split("\t")[1:4] == ["S1", "first", "claude"]
    shown = bench.backstory("show").stdout
    assert shown.splitlines()[0] == "S1 first"
    assert "1 turn" in shown.splitlines()[1]
    assert "0 turns" not in shown
    busy.end()


def test_ps_of_a_session_lists_that_one_alone(bench: Bench, busy: Busy) -> None:
    bench.store.create_session("later", worktree=bench.project)
    (of_all,) = json.loads(bench.backstory("ps", "--json").stdout)["runs"]
    (of_one,) = json.loads(bench.backstory("ps", "S1", "--json").stdout)["runs"]
    assert of_one["turn_uid"] == of_all["turn_uid"]
    assert (bench.backstory("ps", "-S", "later").stdout, bench.backstory("ps", "S9").returncode) == ("", 66)
    busy.end()
