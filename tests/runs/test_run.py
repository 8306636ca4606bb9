"""Runs, as a person starts them: recorded whole however they end, carried on with the session as context."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory.conversation.context import CLOSE, OPEN
from backstory.export.full_form import FullForms
from backstory.runs.spool import Spool
from backstory.runs.stopping import INTERRUPTS_MAX, Stopping
from backstory.store import open_store
from tests.support.running import DEADLINE_S, GOOD, is_alive, start_and_leave, the_agents_own_log, until, until_over

if TYPE_CHECKING:
    from tests.support.bench import Bench

pytestmark = pytest.mark.slow


SPENT = json.dumps(
    {
        "type": "result", "subtype": "success", "is_error": False, "duration_ms": 1200, "num_turns": 1, "result": "",
        "session_id": "s", "terminal_reason": "completed",
        "usage": {"input_tokens": 1_000_000, "output_tokens": 100_000},
    }
) + "\n"  # fmt: skip
ASKED = json.dumps(
    {"type": "assistant", "message": {"id": "m", "model": "claude-opus-5-5", "content": "Reeds."}}
) + "\n"  # fmt: skip


def test_a_run_whose_agent_tells_no_cost_ends_with_the_computed_one(bench: Bench) -> None:
    done = bench.run("Where?", {"raw": ASKED}, {"raw": SPENT})
    assert done.stderr.startswith("✓ S1 turn 1 · 1.2 s · ~$6.00\n")
    done = bench.run("Where?", {"raw": ASKED}, {"raw": SPENT}, options=("--json",))
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["cost_kind"], told["cost_usd"], told["low_usd"]) == ("computed", 6.0, 6.0)
    assert {turn.cost_usd for each in bench.store.sessions() for turn in bench.store.turns(each)} == {None}


def test_a_run_is_stored_as_the_turn_of_a_new_session(bench: Bench) -> None:
    done = bench.run("Where does the heron nest?", {"say": "In the reeds."}, GOOD)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "In the reeds.\n"
    assert done.stderr.startswith("✓ S1 turn 1 · 1.2 s · $0.04\n")
    (session,) = bench.store.sessions()
    (turn,) = bench.store.turns(session)
    assert (turn.prompt, turn.outcome, turn.cost_usd, turn.agent) == (
        "Where does the heron nest?", "completed", 0.04, "claude",
    )  # fmt: skip
    kinds = [stored.kind for stored in bench.store.events(session)]
    assert kinds == ["UserMessage", "AssistantText", "Complete"]
    assert bench.store.verify().problems == []
    assert bench.spools() == []


def test_every_byte_that_was_streamed_is_kept(bench: Bench) -> None:
    bench.run(
        "go", {"say": "one"}, {"raw": "a notice\n"}, {"stderr": "a warning"}, {"raw": '{"type":"stre'}, {"exit": 0}
    )
    store = bench.store
    logs = {log.kind: b"".join(store.stream_log(log.id)) for log in store.logs()}
    assert logs["stream"].endswith(b'a notice\n{"type":"stre')
    assert logs["stderr"] == b"a warning\n"


def test_the_second_run_is_told_the_first_and_the_prompt_is_kept_as_typed(bench: Bench) -> None:
    bench.run("Where does the heron nest?", {"say": "In the reeds."}, GOOD)
    bench.run("Say it again.", {"say": "In the reeds, again."}, GOOD)
    sent = bench.sent()
    assert sent.startswith(OPEN)
    assert "Where does the heron nest?" in sent
    assert "In the reeds." in sent
    assert sent.endswith(f"{CLOSE}\n\nSay it again.")
    (session,) = bench.store.sessions()
    assert [turn.prompt for turn in bench.store.turns(session)] == ["Where does the heron nest?", "Say it again."]


def test_a_context_holds_nothing_twice_over_many_turns(bench: Bench) -> None:
    for n in range(4):
        bench.run(f"prompt number {n}", {"say": f"answer number {n}"}, GOOD)
    assert [bench.sent().count(f"prompt number {n}") for n in range(4)] == [1, 1, 1, 1]
    assert [bench.sent().count(f"answer number {n}") for n in range(3)] == [1, 1, 1]


def test_the_prompt_is_not_in_the_arguments_and_nothing_is_resumed(bench: Bench) -> None:
    bench.run("a secret prompt", GOOD)
    bench.run("another", GOOD)
    words = bench.argv()
    assert not {"--resume", "-r", "--continue", "-c", "--fork-session"} & set(words)
    assert not any("another" in word for word in words)


def test_an_agent_that_fails_makes_a_failed_turn_and_exit_code_1(bench: Bench) -> None:
    done = bench.run("go", {"say": "half"}, {"stderr": "no network"}, {"exit": 3})
    assert done.returncode == 1
    (turn,) = bench.store.turns(1)
    assert turn.outcome == "failed"
    assert any("no network" in str(stored.event) for stored in bench.store.events(1) if stored.kind == "Error")
    assert "✗" in done.stderr


def test_an_agent_killed_by_a_signal_crashed(bench: Bench) -> None:
    bench.run("go", {"say": "half an ans"}, {"signal": 9})
    (turn,) = bench.store.turns(1)
    assert turn.outcome == "crashed"
    assert [s.kind for s in bench.store.events(1)][:2] == ["UserMessage", "AssistantText"]


def test_an_interrupt_cancels_the_run_and_all_that_it_started(bench: Bench) -> None:
    child = bench.root / "child"
    process = bench.start(
        "run", "-a", "claude", "go", script=[{"child": str(child)}, {"say": "working"}, {"wait_for": "never"}]
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "working\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130, err
    (turn,) = bench.store.turns(1)
    assert turn.outcome == "cancelled"
    until(lambda: not is_alive(int(child.read_text())))


def test_an_agent_that_does_not_listen_is_ended(bench: Bench) -> None:
    process = bench.start(
        "run", "-a", "claude", "go", script=[{"ignore_interrupt": True}, {"say": "deaf"}, {"wait_for": "never"}]
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    until(lambda: process.poll() is not None)
    process.communicate()
    assert bench.store.turns(1)[0].outcome == "cancelled"


def test_killing_backstory_does_not_hurt_the_answer_and_the_next_command_has_it(bench: Bench) -> None:
    go = bench.root / "go"
    process = bench.start(
        "run", "-a", "claude", "go", script=[{"say": "first"}, {"wait_for": str(go)}, {"say": "last word"}, GOOD]
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "first\n"
    process.kill()
    process.communicate()
    assert [json.loads(bench.backstory("ps", "--json").stdout)["runs"][0]["state"]] == ["running"]
    go.touch()
    until(lambda: json.loads(bench.backstory("ps", "--json").stdout)["runs"][0]["state"] == "waiting")
    bench.run("and now?", GOOD)
    turns = bench.store.turns(1)
    assert [(turn.prompt, turn.outcome) for turn in turns] == [("go", "completed"), ("and now?", "completed")]
    assert "last word" in bench.sent()
    assert bench.spools() == []


def test_a_killed_run_is_stored_exactly_once(bench: Bench) -> None:
    process = bench.start("run", "-a", "claude", "go", script=[{"say": "one"}, {"wait_for": "never"}])
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate()
    bench.backstory("cancel", "S1")
    bench.backstory("run", "-a", "claude", "again", script=[GOOD])
    bench.backstory("run", "-a", "claude", "again", script=[GOOD])
    assert [turn.prompt for turn in bench.store.turns(1)] == ["go", "again", "again"]
    assert bench.store.turns(1)[0].outcome == "cancelled"


def test_a_busy_session_is_refused_with_its_holder(bench: Bench) -> None:
    process = bench.start("run", "-a", "claude", "go", script=[{"say": "one"}, {"wait_for": "never"}])
    assert process.stdout is not None
    process.stdout.readline()
    refused = bench.run("me too", GOOD, options=("--fail",))
    assert refused.returncode == 75
    assert f"process {process.pid}" in refused.stderr
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)


def test_cancel_stops_a_run_from_elsewhere(bench: Bench) -> None:
    process = bench.start("run", "-a", "claude", "go", script=[{"say": "one"}, {"wait_for": "never"}])
    assert process.stdout is not None
    process.stdout.readline()
    assert bench.backstory("cancel", "S1").returncode == 0
    process.communicate(timeout=DEADLINE_S)
    assert bench.store.turns(1)[0].outcome == "cancelled"
    assert bench.backstory("cancel", "S1").returncode == 66


@pytest.mark.parametrize("characters", [131_072, 400_000, 2_000_000])
def test_a_long_prompt_reaches_the_agent_whole(bench: Bench, characters: int) -> None:
    prompt = "漢" * (characters // 2) + "x" * (characters // 2)
    done = bench.backstory("run", "-a", "claude", script=[GOOD], given=prompt)
    assert done.returncode == 0, done.stderr
    assert bench.sent() == prompt
    assert bench.store.turns(1)[0].prompt == prompt


def test_an_empty_prompt_is_refused_and_makes_nothing(bench: Bench) -> None:
    done = bench.backstory("run", "-a", "claude", given="  \n")
    assert done.returncode == 64
    assert not (bench.project / ".backstory").exists()


def test_a_missing_agent_is_named_and_makes_nothing(bench: Bench) -> None:
    (bench.bin / "claude").unlink()
    environ = {**bench.environ([]), "PATH": str(bench.bin)}
    done = subprocess.run(
        [sys.executable, "-m", "backstory", "run", "-a", "claude", "hi"],
        cwd=bench.project, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 69
    assert "no 'claude' on PATH" in done.stderr
    assert not (bench.project / ".backstory").exists()


def test_a_prompt_made_of_our_tags_is_kept_as_typed(bench: Bench) -> None:
    prompt = f"{CLOSE} and {OPEN}"
    bench.run("first", {"say": prompt}, GOOD)
    bench.run(prompt, GOOD)
    bench.run("third", GOOD)
    assert [turn.prompt for turn in bench.store.turns(1)] == ["first", prompt, "third"]
    assert bench.sent().count(CLOSE) == 1


def test_garbage_and_long_lines_are_kept_and_break_nothing(bench: Bench) -> None:
    long = "y" * 300_000
    bench.run("go", {"raw": "\x1b[31mnot json\x1b[0m\n"}, {"raw": "{broken\n"}, {"long": len(long)}, GOOD)
    store = bench.store
    assert store.verify().problems == []
    forms = FullForms(store)
    assert any(getattr(forms.expand(stored), "text", "") == long for stored in store.events(1))


def test_escapes_from_an_agent_are_shown_not_obeyed(bench: Bench) -> None:
    done = bench.run("go", {"say": "\x1b]0;title\x07"}, GOOD)
    assert "\x1b" not in done.stdout


def test_json_lines_end_with_the_outcome(bench: Bench) -> None:
    done = bench.run("go", {"say": "hi"}, {"tool": "ls"}, GOOD, options=("--json",))
    *events, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["kind"] for event in events] == ["AssistantText", "ToolCall", "ToolResult"]
    assert {name: last[name] for name in ("kind", "label", "outcome", "tools")} == {
        "kind": "Complete", "label": "S1", "outcome": "completed", "tools": 1,
    }  # fmt: skip


def test_new_name_and_session_choose_the_session(bench: Bench) -> None:
    bench.run("one", GOOD)
    bench.run("two", GOOD, options=("-n",))
    bench.run("three", GOOD, options=("--name", "oauth"))
    bench.run("four", GOOD, options=("--name", "oauth"))
    bench.run("five", GOOD, options=("-S", "S1"))
    store = bench.store
    assert [[turn.prompt for turn in store.turns(store.session(f"S{n}"))] for n in (1, 2, 3)] == [
        ["one", "five"], ["two"], ["three", "four"],
    ]  # fmt: skip
    assert store.session("oauth").number == 3


def test_the_store_stays_out_of_git(bench: Bench) -> None:
    bench.run("one", GOOD)
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=bench.project, capture_output=True, text=True, check=True
    )
    assert status.stdout == ""


def test_private_files_stay_private(bench: Bench) -> None:
    process = bench.start("run", "-a", "claude", "go", script=[{"say": "one"}, {"wait_for": "never"}])
    assert process.stdout is not None
    process.stdout.readline()
    (spool,) = bench.spools()
    assert {oct(path.stat().st_mode & 0o777) for path in spool.iterdir()} == {"0o600"}
    assert oct(spool.stat().st_mode & 0o777) == "0o700"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)


def test_reading_a_pipe_that_closes_does_not_stop_the_run(bench: Bench) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "backstory", "run", "-a", "claude", "go"], cwd=bench.project,
        env=bench.environ([{"say": "one"}, {"say": "two"}, GOOD]), stdout=write, stderr=subprocess.PIPE, text=True,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(write)
    bench.run("next", GOOD)
    assert [turn.outcome for turn in bench.store.turns(1)] == ["completed", "completed"], done.stderr


def test_what_was_run_is_found_and_shown(bench: Bench) -> None:
    bench.run("Where does the heron nest?", {"say": "In the reeds."}, GOOD)
    shown = bench.backstory("show", "S1")
    assert "❯ Where does the heron nest?" in shown.stdout
    assert "In the reeds." in shown.stdout
    listed = json.loads(bench.backstory("list", "--json").stdout)["sessions"]
    assert [(each["number"], each["completed"], each["agents"]) for each in listed] == [("S1", True, ["claude"])]
    context = bench.backstory("context", "S1", "--explain")
    assert "## User\nWhere does the heron nest?" in context.stdout
    assert "1 turn, 0 older ones left out" in context.stderr


def listed(bench: Bench) -> list[str]:
    return [
        each["number"] or each["uid"]
        for each in json.loads(bench.backstory("list", "--all", "--json").stdout)["sessions"]
    ]


@pytest.mark.parametrize("is_read_first", [True, False])
def test_the_agents_own_log_of_a_run_makes_no_second_session(bench: Bench, is_read_first: bool) -> None:
    bench.run("first", {"say": "the heron answer"}, GOOD)
    bench.run("second", {"say": "the heron answer"}, GOOD)
    the_agents_own_log(bench, [bench.sent()])
    if is_read_first:
        bench.backstory("ingest")
        bench.run("third", {"say": "no bird"}, GOOD)
    bench.backstory("ingest")
    assert listed(bench) == ["S1"]
    hits = json.loads(bench.backstory("search", "heron", "--json").stdout)["hits"]
    assert [hit["number"] for hit in hits] == ["S1"]


def test_the_log_of_a_run_is_kept_all_the_same(bench: Bench) -> None:
    bench.run("first", {"say": "the heron answer"}, GOOD)
    the_agents_own_log(bench, ["first"])
    bench.backstory("ingest")
    done = bench.backstory("restore", "--all", "--to", str(bench.root / "out"))
    assert done.returncode == 0, done.stderr
    (log,) = (bench.root / ".claude").rglob("*.jsonl")
    (written,) = (bench.root / "out" / "claude" / "projects").rglob("*.jsonl")
    assert written.read_bytes() == log.read_bytes()


def test_a_run_that_was_carried_on_by_hand_is_a_session_of_its_own_from_there(bench: Bench) -> None:
    bench.run("first", {"say": "the heron answer"}, GOOD)
    the_agents_own_log(bench, ["first", "by hand"])
    bench.backstory("ingest")
    assert len(listed(bench)) == 2


def test_the_machines_store_has_every_run(bench: Bench) -> None:
    bench.run("first", {"say": "the heron answer"}, GOOD)
    bench.run("second", {"say": "another"}, GOOD)
    with open_store(bench.home / "store.db", shared=True) as home:
        (session,) = home.sessions()
        assert (session.shown_number, [turn.prompt for turn in home.turns(session)]) == ("S1", ["first", "second"])
        assert [s.seq for s in home.events(session)] == [s.seq for s in bench.store.events(1)]
        assert home.verify().problems == []


def test_a_machines_store_that_is_busy_gets_the_run_later(bench: Bench) -> None:
    bench.run("first", GOOD)
    with closing(apsw.Connection(str(bench.home / "store.db"))) as holder:
        holder.execute("begin immediate")
        assert bench.run("second", GOOD).returncode == 0
        holder.execute("rollback")
    bench.run("third", GOOD)
    with open_store(bench.home / "store.db", shared=True) as home:
        assert [turn.prompt for turn in home.turns(home.sessions()[0])] == ["first", "second", "third"]
    assert bench.spools() == []


@pytest.fixture
def a_read_session(bench: Bench) -> str:
    """A session that some agent left on this machine, read into its store; gives its uid."""
    folder = bench.root / ".claude" / "projects" / "elsewhere"
    folder.mkdir(parents=True)
    source = Path(__file__).parents[1] / "agents" / "cases" / "claude" / "tools"
    (log,) = source.rglob("*.jsonl")
    (folder / "011ed182-7e99-4421-9c41-c873947f9fe6.jsonl").write_bytes(log.read_bytes())
    bench.backstory("ingest")
    (uid,) = listed(bench)
    return uid


def test_a_session_read_from_a_log_is_carried_on_as_a_continuation(bench: Bench, a_read_session: str) -> None:
    done = bench.run("Go on", {"say": "Going on."}, GOOD, options=("-S", a_read_session[:10]))
    assert done.returncode == 0, done.stderr
    assert "Do the work." in bench.sent()
    assert "notes.txt now says beta" in bench.sent()
    store = bench.store
    (session,) = store.sessions()
    assert (session.shown_number, session.relation) == ("S1", "continuation")
    assert [turn.prompt for turn in store.turns(session)] == ["Do the work.", "Go on"]
    assert store.verify().problems == []


def test_a_continuation_keeps_the_bytes_and_full_forms_of_what_it_copied(bench: Bench, a_read_session: str) -> None:
    bench.run("Go on", GOOD, options=("-S", a_read_session))
    with open_store(bench.home / "store.db", shared=True) as home:
        original = home.session(a_read_session)
        theirs = [FullForms(home).expand(stored) for stored in home.events(original)]
        (log,) = home.logs(original)
        data = b"".join(home.stream_log(log.id))
    store = bench.store
    copies = [log for log in store.logs() if log.kind == "copy file"]
    assert [b"".join(store.stream_log(log.id)) for log in copies] == [data]
    ours = [FullForms(store).expand(stored) for stored in store.events(1, limit=len(theirs))]
    assert ours == theirs


def test_going_on_twice_from_a_session_is_one_continuation(bench: Bench, a_read_session: str) -> None:
    bench.run("Go on", GOOD, options=("-S", a_read_session))
    bench.run("And on", GOOD, options=("-S", a_read_session))
    assert [turn.prompt for turn in bench.store.turns(1)] == ["Do the work.", "Go on", "And on"]


def test_the_original_of_a_continuation_stays_as_it_was(bench: Bench, a_read_session: str) -> None:
    bench.run("Go on", GOOD, options=("-S", a_read_session))
    bench.backstory("ingest")
    with open_store(bench.home / "store.db", shared=True) as home:
        assert len(home.turns(home.session(a_read_session))) == 1
        assert [turn.prompt for turn in home.turns(home.session("S1"))] == ["Do the work.", "Go on"]
        assert home.verify().problems == []
    assert sorted(listed(bench)) == sorted([a_read_session, "S1"])


def test_what_was_copied_is_found_once(bench: Bench, a_read_session: str) -> None:
    bench.run("Go on", GOOD, options=("-S", a_read_session))
    hits = json.loads(bench.backstory("search", "notes.txt", "--json").stdout)["hits"]
    assert [hit["uid"] for hit in hits if not hit["copy"]] == [a_read_session]
    assert [hit["copy"] for hit in hits] == [False, True]


def test_killed_at_random_moments_a_run_always_ends_up_stored_once(bench: Bench) -> None:
    noise = random.Random(11)
    for n in range(25):
        process = bench.start(
            "run", "-a", "claude", "--fail", f"prompt {n}", script=[{"say": "a"}, {"tool": "ls"}, {"say": "b"}, GOOD]
        )
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=noise.uniform(0.0, 0.5))
        process.kill()
        process.communicate()
    until(lambda: all(row["state"] == "waiting" for row in json.loads(bench.backstory("ps", "--json").stdout)["runs"]))
    bench.run("the last", GOOD)
    store = bench.store
    prompts = [turn.prompt for session in store.sessions() for turn in store.turns(session)]
    assert len(prompts) == len(set(prompts))
    assert prompts[-1] == "the last"
    assert all(turn.outcome for session in store.sessions() for turn in store.turns(session))
    assert store.verify().problems == []
    # A kill while a folder is made leaves one without a run: no agent was started, and it goes once it is old.
    left = bench.spools()
    assert [each for each in map(Spool, left) if each.run is not None or each.was_started] == []
    for folder in left:
        os.utime(folder, (0, 0))
    assert bench.backstory("ingest").returncode == 0
    assert bench.spools() == []


def test_a_deleted_project_store_comes_back_with_the_next_run(bench: Bench) -> None:
    bench.run("one", {"say": "the first answer"}, GOOD)
    bench.run("two", GOOD, options=("-n",))
    before = [(each.uid, each.number, each.turns) for each in bench.store.sessions()]
    store_id = bench.store.id
    shutil.rmtree(bench.project / ".backstory")
    done = bench.run("three", GOOD, options=("-S", "S1"))
    assert "2 sessions were brought back" in done.stderr
    assert "the first answer" in bench.sent()
    store = bench.store
    assert store.id == store_id
    after = {each.uid: (each.number, each.turns) for each in store.sessions()}
    assert after == {uid: (number, turns + (number == 1)) for uid, number, turns in before}
    bench.run("four", GOOD, options=("-n",))
    assert store.session("S3").number == 3
    assert store.verify().problems == []


@pytest.mark.parametrize("turns_before", [0, 1])
def test_a_project_that_is_cleaned_while_an_agent_works_loses_nothing(bench: Bench, turns_before: int) -> None:
    for n in range(turns_before):
        bench.run(f"before {n}", GOOD)
    go = bench.root / "go"
    process = bench.start("run", "-a", "claude", "go", script=[{"say": "one"}, {"wait_for": str(go)}, GOOD])
    assert process.stdout is not None
    process.stdout.readline()
    shutil.rmtree(bench.project / ".backstory")
    go.touch()
    process.communicate(timeout=DEADLINE_S)
    (session,) = bench.store.sessions()
    assert bench.store.turns(session)[-1].prompt == "go"
    assert session.turns == turns_before + 1


def test_a_run_that_waits_for_a_project_that_is_gone_is_kept(bench: Bench) -> None:
    start_and_leave(bench, "go", GOOD)
    until_over(bench)
    shutil.rmtree(bench.home / "projects")
    shutil.rmtree(bench.project / ".backstory")
    bench.backstory("run", "-a", "claude", "--store", str(bench.root / "other.bks"), "elsewhere", script=[GOOD])
    assert len(bench.spools()) == 1


def test_what_an_unreadable_run_said_is_never_thrown_away(bench: Bench) -> None:
    start_and_leave(bench, "go", GOOD)
    until_over(bench)
    (spool,) = bench.spools()
    (spool / "run.json").write_text("{torn")
    os.utime(spool, (1, 1))
    bench.run("next", GOOD)
    assert (spool / "stdout").exists()


def test_a_session_that_was_run_is_removed_everywhere(bench: Bench) -> None:
    bench.run("the heron secret", GOOD)
    bench.backstory("rm", "--yes", "S1")
    assert listed(bench) == []
    assert json.loads(bench.backstory("search", "heron", "--json").stdout)["hits"] == []
    shutil.rmtree(bench.project / ".backstory")
    bench.run("next", GOOD)
    prompts = [turn.prompt for session in bench.store.sessions() for turn in bench.store.turns(session)]
    assert prompts == ["next"]


def test_a_name_comes_back_with_its_project(bench: Bench) -> None:
    bench.run("one", GOOD)
    bench.backstory("rename", "S1", "mine")
    bench.run("two", GOOD)
    shutil.rmtree(bench.project / ".backstory")
    bench.run("three", GOOD, options=("-S", "S1"))
    assert bench.store.session("S1").name == "mine"


def test_one_run_that_cannot_be_stored_does_not_stop_the_others(bench: Bench) -> None:
    start_and_leave(bench, "go", GOOD)
    until_over(bench)
    (spool,) = bench.spools()
    run = json.loads((spool / "run.json").read_text())
    (spool / "run.json").write_text(json.dumps({**run, "agent": "nobody", "session_uid": "0" * 26}))
    done = bench.run("next", GOOD)
    assert done.returncode == 0
    assert "could not be stored" in done.stderr
    assert str(spool) in done.stderr


def test_no_run_begins_beside_an_agent_that_outlived_its_backstory(bench: Bench) -> None:
    start_and_leave(bench, "go", {"wait_for": "never"})
    refused = bench.run("second", GOOD, options=("--fail",))
    assert refused.returncode == 75
    assert "backstory cancel S1" in refused.stderr
    bench.backstory("cancel", "S1")
    assert bench.run("second", GOOD).returncode == 0
    assert [turn.prompt for turn in bench.store.turns(1)] == ["go", "second"]


def test_a_child_that_goes_on_writing_does_not_make_a_run_endless(bench: Bench) -> None:
    noise = "import os, time\nwhile True: os.write(1, b'y' * 1000 + b'\\n'); time.sleep(0.001)"
    script: list[dict[str, Any]] = [{"spawn": noise}, {"say": "done"}, GOOD]
    assert bench.backstory("run", "-a", "claude", "go", script=script).returncode == 0
    assert bench.store.turns(1)[0].outcome == "completed"


def test_impatience_is_still_a_cancellation(bench: Bench) -> None:
    process = bench.start(
        "run", "-a", "claude", "go", script=[{"ignore_interrupt": True}, {"say": "deaf"}, {"wait_for": "never"}]
    )
    assert process.stdout is not None
    process.stdout.readline()
    while process.poll() is None:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        time.sleep(0.004)
    process.communicate()
    bench.run("next", GOOD)
    assert [turn.outcome for turn in bench.store.turns(1)] == ["cancelled", "completed"]


class Interrupted(Spool):
    """A spool that notes what is done to its agent; while that is asked to stop, more interrupts come."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def cancel(self, why: str = "") -> None:
        self.done.append(f"cancel{why}")
        for _ in range(INTERRUPTS_MAX):
            signal.raise_signal(signal.SIGINT)

    def kill(self) -> None:
        self.done.append("kill")


def test_impatience_ends_us_only_after_the_agent_was_killed() -> None:
    spool = Interrupted()
    with Stopping(spool, 0):
        signal.raise_signal(signal.SIGINT)
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert spool.done == ["cancel", "kill"]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_prompt_that_is_not_text_is_refused_and_makes_nothing(bench: Bench) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "backstory", "run", "-a", "claude", b"\xff\xfe"], cwd=bench.project,
        env=bench.environ([GOOD]), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 65
    assert b"not UTF-8" in done.stderr
    assert bench.spools() == []
    assert not (bench.project / ".backstory").exists()


def test_list_says_that_a_run_goes_on_or_waits(bench: Bench) -> None:
    go = bench.root / "go"
    start_and_leave(bench, "go", {"wait_for": str(go)}, GOOD)
    assert "1 running" in bench.backstory("list").stderr
    go.touch()
    until_over(bench)
    assert "1 finished run is not stored yet" in bench.backstory("list").stderr
