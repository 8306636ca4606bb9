"""A turn that outgrows its context is stopped between two steps, summarised and continued, as real processes."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from backstory.conversation.context import AUTO_CONTINUE, SUMMARY_HEADER
from backstory.model import Hook, Outcome
from backstory.runs import compactor
from backstory.store.tables import compactions
from tests.support.bench import Bench, MadeOnce
from tests.support.running import until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

SUMMARY = "The parser was rewritten, because it lost escapes. " * 10
TASK = "older part of a coding session"
GOOD: list[dict[str, Any]] = [{"say": SUMMARY}, {"result": True}]
LONG: list[dict[str, Any]] = [{"say": "word " * 300}, {"result": True}]
DONE: list[dict[str, Any]] = [{"say": "All done."}, {"result": True}]


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    bench = Bench(tmp_path_factory.mktemp("long"))
    bench.backstory("config", "set", "compaction.chars", "6000")
    for n in range(1, 4):
        assert bench.run(f"prompt {n}", *LONG).returncode == 0
    return MadeOnce(bench)


@pytest.fixture
def bench(made_once: MadeOnce) -> Bench:
    """A session of three exchanges, each of about 1,500 characters, below a limit of 6,000."""
    return made_once.anew()


def growing(never: Path, *behind: dict[str, Any]) -> list[dict[str, Any]]:
    """A turn that passes the limit, ends a tool's work, and then would never end."""
    return [{"say": "much " * 400}, {"tool": "make"}, *behind, {"wait_for": str(never)}]


def scripts(never: Path, summary: list[dict[str, Any]] | None = None) -> dict[str, list[dict[str, Any]]]:
    return {TASK: summary or GOOD, AUTO_CONTINUE: DONE, "prompt 4": growing(never), "": DONE}


def run(bench: Bench, never: Path, *words: str, **how: Any) -> Any:
    return bench.backstory("run", "-a", "claude", *words, "prompt 4", script=scripts(never, **how))


def test_the_turn_is_stopped_summarised_and_continued_in_the_same_session(bench: Bench, tmp_path: Path) -> None:
    done = run(bench, tmp_path / "never")
    assert done.returncode == 0, done.stderr
    assert "All done." in done.stdout
    with bench.store as store:
        (session,) = store.sessions()
        *_, stopped, continued = store.turns(session)
        assert (stopped.outcome, stopped.stop_reason) == (Outcome.CANCELLED, "compaction")
        assert (continued.prompt, continued.outcome) == ("", Outcome.COMPLETED)
        assert continued.parent_uid == stopped.uid
        assert len(store.turns(session)) == 5


def test_the_continued_turn_receives_the_summary_and_the_partial_turn(bench: Bench, tmp_path: Path) -> None:
    run(bench, tmp_path / "never")
    sent = bench.sent()
    assert SUMMARY_HEADER in sent
    assert "prompt 4" in sent
    assert "## Tool: Bash" in sent
    assert "prompt 1" not in sent
    assert "before it was done" not in sent


def test_json_has_each_step(bench: Bench, tmp_path: Path) -> None:
    done = run(bench, tmp_path / "never", "--json")
    kinds = [json.loads(line)["kind"] for line in done.stdout.splitlines()]
    ours = [kind for kind in kinds if kind in ("Compacting", "Compacted", "Continued", "Complete")]
    assert list(dict.fromkeys(ours)) == ["Compacting", "Compacted", "Continued", "Complete"]
    assert json.loads(done.stdout.splitlines()[-1])["outcome"] == "completed"


def test_what_the_agent_was_sent_to_continue_is_no_persons_prompt(bench: Bench, tmp_path: Path) -> None:
    run(bench, tmp_path / "never")
    with bench.store as store:
        (session,) = store.sessions()
        hooks = [each.event.name for each in store.events(session) if isinstance(each.event, Hook)]
        assert hooks == [AUTO_CONTINUE]
        last = store.turns(session)[-1]
    assert last.prompt == ""
    assert "interrupted to shorten" not in bench.backstory("context").stdout


def test_a_turn_is_not_stopped_while_a_call_is_open(bench: Bench, tmp_path: Path) -> None:
    opened = {"type": "tool_use", "id": "open", "name": "Bash", "input": {"command": "sleep"}}
    message = {"id": "m9", "type": "message", "role": "assistant", "model": "scripted", "content": [opened]}
    calling = {"raw": json.dumps({"type": "assistant", "message": message, "session_id": "none"}) + "\n"}
    steps = [{"say": "much " * 400}, calling, {"tool": "make"}, *DONE]
    done = bench.backstory("run", "-a", "claude", "prompt 4", script={TASK: GOOD, "prompt 4": steps})
    assert done.returncode == 0
    with bench.store as store:
        (session,) = store.sessions()
        assert [turn.outcome for turn in store.turns(session)] == [Outcome.COMPLETED] * 4


def test_a_turn_is_not_stopped_in_the_middle_of_an_answer(bench: Bench) -> None:
    done = bench.backstory("run", "-a", "claude", "prompt 4", script={TASK: GOOD, "prompt 4": [*LONG[:1] * 5, *DONE]})
    assert done.returncode == 0
    assert "is being summarised in the background" in done.stderr
    with bench.store as store:
        (session,) = store.sessions()
        assert [turn.outcome for turn in store.turns(session)] == [Outcome.COMPLETED] * 4


def test_a_turn_is_stopped_once(bench: Bench, tmp_path: Path) -> None:
    behind = [{"say": "more " * 2_000}, {"tool": "make"}, {"tool": "make"}, *DONE]
    script = {TASK: GOOD, AUTO_CONTINUE: behind, "prompt 4": growing(tmp_path / "never")}
    done = bench.backstory("run", "-a", "claude", "prompt 4", script=script)
    assert done.returncode == 0
    with bench.store as store:
        (session,) = store.sessions()
        reasons = [turn.stop_reason for turn in store.turns(session)]
    assert reasons.count("compaction") == 1


def test_everything_in_one_turn_is_not_stopped_and_that_is_said(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.backstory("config", "set", "compaction.chars", "1000")
    done = bench.run("prompt", {"say": "much " * 400}, {"tool": "make"}, *DONE)
    assert done.returncode == 0
    assert "is not stopped for a summary" in done.stderr
    with bench.store as store:
        (session,) = store.sessions()
        assert [turn.outcome for turn in store.turns(session)] == [Outcome.COMPLETED]


def test_a_failed_summary_continues_the_turn_all_the_same(bench: Bench, tmp_path: Path) -> None:
    done = run(bench, tmp_path / "never", summary=[{"say": ""}, {"result": True}])
    assert done.returncode == 0
    assert "No summary of S1 was stored" in done.stderr
    assert "All done." in done.stdout


def test_ctrl_c_during_the_summary_stops_both(bench: Bench, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    waiting: list[dict[str, Any]] = [{"touch": str(begun)}, {"wait_for": str(tmp_path / "never")}]
    process = bench.start("run", "-a", "claude", "prompt 4", script=scripts(tmp_path / "never", waiting))
    until(begun.exists)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    with bench.store as store:
        (session,) = store.sessions()
        assert [turn.stop_reason for turn in store.turns(session)][-1] == "compaction"
        assert store.ask(compactions.in_force, session.id) is None


def test_a_prompt_that_is_queued_meanwhile_goes_first(bench: Bench, tmp_path: Path) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    waiting: list[dict[str, Any]] = [{"touch": str(begun)}, {"wait_for": str(gate)}, *GOOD]
    script = {"prompt 5": DONE, **scripts(tmp_path / "never", waiting)}
    script = {TASK: script.pop(TASK), **script}
    process = bench.start("run", "-a", "claude", "prompt 4", script=script)
    until(begun.exists)
    assert bench.backstory("followup", "prompt 5", script=DONE).returncode == 0
    gate.touch()
    process.communicate(timeout=60)
    with bench.store as store:
        (session,) = store.sessions()
        assert [turn.prompt for turn in store.turns(session)][3:] == ["prompt 4", "prompt 5"]
        assert store.ask(compactions.in_force, session.id) is not None


def test_an_agent_that_does_not_listen_is_killed_and_continued(bench: Bench, tmp_path: Path) -> None:
    deaf: list[dict[str, Any]] = [{"ignore_interrupt": True}, *growing(tmp_path / "never")]
    script = {TASK: GOOD, AUTO_CONTINUE: DONE, "prompt 4": deaf}
    done = bench.backstory("run", "-a", "claude", "prompt 4", script=script)
    assert done.returncode == 0, done.stderr
    assert "All done." in done.stdout


def test_a_followup_of_the_turn_waits_until_the_turn_is_continued(bench: Bench, tmp_path: Path) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    steps: list[dict[str, Any]] = [{"touch": str(begun)}, {"wait_for": str(gate)}, *growing(tmp_path / "never")]
    script = {TASK: GOOD, AUTO_CONTINUE: DONE, "prompt 5": DONE, "prompt 4": steps}
    process = bench.start("run", "-a", "claude", "prompt 4", script=script)
    until(begun.exists)
    assert bench.backstory("followup", "prompt 5", script=DONE).returncode == 0
    gate.touch()
    process.communicate(timeout=60)
    assert process.returncode == 0
    with bench.store as store:
        (session,) = store.sessions()
        assert [turn.prompt for turn in store.turns(session)][3:] == ["prompt 4", "", "prompt 5"]


def test_ctrl_c_during_the_summary_also_leaves_what_is_queued(bench: Bench, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    waiting: list[dict[str, Any]] = [{"touch": str(begun)}, {"wait_for": str(tmp_path / "never")}]
    process = bench.start("run", "-a", "claude", "prompt 4", script=scripts(tmp_path / "never", waiting))
    until(begun.exists)
    assert bench.backstory("followup", "prompt 5", script=DONE).returncode == 0
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    with bench.store as store:
        (session,) = store.sessions()
        assert [turn.prompt for turn in store.turns(session)][3:] == ["prompt 4"]


def test_a_turn_that_a_checkout_left_behind_is_continued_where_it_stopped(bench: Bench, tmp_path: Path) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    waiting: list[dict[str, Any]] = [{"touch": str(begun)}, {"wait_for": str(gate)}, *GOOD]
    process = bench.start("run", "-a", "claude", "prompt 4", script=scripts(tmp_path / "never", waiting))
    until(begun.exists)
    with bench.store as store:
        (session,) = store.sessions()
        first = store.turns(session)[0]
    bench.backstory("checkout", f"@{first.last_seq}")
    gate.touch()
    process.communicate(timeout=60)
    with bench.store as store:
        *_, stopped, continued = sorted(store.tree(session), key=lambda turn: turn.first_seq)
    assert continued.parent_uid == stopped.uid


def test_a_turn_is_not_stopped_while_its_summary_is_being_made(bench: Bench, tmp_path: Path) -> None:
    begun, gate, over = tmp_path / "begun", tmp_path / "gate", tmp_path / "over"
    script: dict[str, list[dict[str, Any]]] = {
        TASK: [{"wait_for": str(gate)}, *GOOD],
        "prompt 4": [
            {"touch": str(begun)}, {"say": "much " * 400}, {"tool": "make"}, {"wait_for": str(over)},
            {"tool": "make"}, *DONE,
        ],
    }  # fmt: skip
    making = bench.start("compact", "--now", script=script)
    until(lambda: compactor.under_way(bench.home))
    process = bench.start("run", "-a", "claude", "prompt 4", script=script)
    until(begun.exists)
    gate.touch()
    making.communicate(timeout=60)
    over.touch()
    process.communicate(timeout=60)
    with bench.store as store:
        (session,) = store.sessions()
        assert store.ask(compactions.in_force, session.id) is not None
        assert [turn.outcome for turn in store.turns(session)] == [Outcome.COMPLETED] * 4


def test_killed_between_the_stop_and_the_summary_the_partial_turn_is_stored(bench: Bench, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    waiting: list[dict[str, Any]] = [{"touch": str(begun)}, {"wait_for": str(tmp_path / "never")}]
    process = bench.start("run", "-a", "claude", "prompt 4", script=scripts(tmp_path / "never", waiting))
    until(begun.exists)
    process.kill()
    process.communicate(timeout=60)
    script = {TASK: GOOD, "": DONE}
    assert bench.backstory("run", "-a", "claude", "prompt 5", script=script).returncode == 0
    until(lambda: SUMMARY_HEADER in bench.backstory("context").stdout)
    with bench.store as store:
        (session,) = store.sessions()
        assert [turn.stop_reason == "compaction" for turn in store.turns(session)] == [False] * 3 + [True, False]


def killed(bench: Bench, script: dict[str, list[dict[str, Any]]], begun: Callable[[], object]) -> None:
    """A run whose backstory is killed once ``begun`` says so."""
    process = bench.start("run", "-a", "claude", "prompt 4", script=script)
    until(begun)
    process.kill()
    process.communicate(timeout=60)


def killed_while_summarised(bench: Bench, root: Path) -> None:
    begun = root / "begun"
    waiting: list[dict[str, Any]] = [{"touch": str(begun)}, {"wait_for": str(root / "never")}]
    killed(bench, scripts(root / "never", waiting), begun.exists)


def is_over(bench: Bench) -> bool:
    """Whether nothing runs any more, nor waits to be continued."""
    left = [file for file in (bench.home / "compactions").iterdir() if file.name.endswith(".continue")]
    return not left and json.loads(bench.backstory("ps", "--json").stdout)["runs"] == []


def continues_sent(bench: Bench) -> int:
    return sum(f"<{AUTO_CONTINUE}>" in each for each in bench.received.with_suffix(".told").read_text().splitlines())


def holds_each_once(bench: Bench) -> None:
    """The stopped turn, one that continues it, one summary, and nothing that is left to do."""
    with bench.store as store:
        session = store.session("S1")
        *_, stopped, continued = turns = store.turns(session)
        assert len(turns) == 5
        assert (stopped.prompt, stopped.stop_reason) == ("prompt 4", "compaction")
        assert (continued.prompt, continued.parent_uid, continued.outcome) == ("", stopped.uid, Outcome.COMPLETED)
        assert len(store.ask(compactions.of_session, session.id)) == 1
    assert list((bench.home / "compactions").iterdir()) == []
    assert continues_sent(bench) == 1


TAKEN_UP = "S1 was stopped for a summary when its run was killed: it is continued in the background."


@pytest.mark.parametrize("words", [("rename", "S1", "called so"), ("run", "-a", "claude", "-n", "another session")])
def test_killed_while_it_is_summarised_the_next_command_has_it_summarised_and_continued(
    bench: Bench, tmp_path: Path, words: tuple[str, ...]
) -> None:
    killed_while_summarised(bench, tmp_path)
    assert TAKEN_UP in bench.backstory(*words, script=scripts(tmp_path / "never")).stderr
    until(lambda: is_over(bench))
    holds_each_once(bench)
    assert TAKEN_UP not in bench.backstory("rename", "S1", "again").stderr
    assert is_over(bench)
    holds_each_once(bench)


def test_killed_before_the_partial_turn_was_stored_it_is_stored_and_continued(bench: Bench, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = scripts(tmp_path / "never")
    deaf: list[dict[str, Any]] = [
        {"ignore_interrupt": True},
        {"say": "much " * 400},
        {"tool": "make"},
        {"wait_for": str(gate)},
    ]
    killed(
        bench,
        script | {"prompt 4": deaf},
        lambda: any((folder / "cancelled").exists() for folder in bench.spools()),
    )
    gate.touch()
    until(lambda: [each["state"] for each in json.loads(bench.backstory("ps", "--json").stdout)["runs"]] == ["waiting"])
    assert TAKEN_UP in bench.backstory("rename", "S1", "called so", script=script).stderr
    until(lambda: is_over(bench))
    holds_each_once(bench)


def test_killed_behind_the_summary_it_is_continued_without_another_one(bench: Bench, tmp_path: Path) -> None:
    killed_while_summarised(bench, tmp_path)
    assert TAKEN_UP in bench.backstory("compact", "--now", script=scripts(tmp_path / "never")).stderr
    until(lambda: is_over(bench))
    holds_each_once(bench)


def test_killed_while_it_is_continued_it_is_stored_and_not_continued_again(bench: Bench, tmp_path: Path) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    slow: list[dict[str, Any]] = [{"touch": str(begun)}, {"wait_for": str(gate)}, *DONE]
    killed(bench, scripts(tmp_path / "never") | {AUTO_CONTINUE: slow}, begun.exists)
    assert TAKEN_UP not in bench.backstory("rename", "S1", "called so", script=scripts(tmp_path / "never")).stderr
    gate.touch()
    until(lambda: [each["state"] for each in json.loads(bench.backstory("ps", "--json").stdout)["runs"]] == ["waiting"])
    assert TAKEN_UP not in bench.backstory("rename", "S1", "again", script=scripts(tmp_path / "never")).stderr
    bench.backstory("ingest")
    holds_each_once(bench)


def test_two_commands_at_once_have_it_continued_once(bench: Bench, tmp_path: Path) -> None:
    killed_while_summarised(bench, tmp_path)
    script = scripts(tmp_path / "never")
    commands = [bench.start("rename", "S1", f"name {n}", script=script) for n in range(3)]
    for each in commands:
        each.communicate(timeout=60)
    until(lambda: is_over(bench))
    holds_each_once(bench)


def test_a_prompt_of_a_person_goes_before_what_a_killed_run_left(bench: Bench, tmp_path: Path) -> None:
    killed_while_summarised(bench, tmp_path)
    done = bench.backstory("run", "-a", "claude", "prompt 5", script={"prompt 5": DONE, **scripts(tmp_path / "never")})
    assert TAKEN_UP not in done.stderr
    until(lambda: is_over(bench))
    with bench.store as store:
        assert [turn.prompt for turn in store.turns(store.session("S1"))][3:] == ["prompt 4", "prompt 5"]
    assert continues_sent(bench) == 0


def test_what_a_person_cancels_is_not_continued(bench: Bench, tmp_path: Path) -> None:
    killed_while_summarised(bench, tmp_path)
    bench.backstory("cancel", "S1")
    assert TAKEN_UP not in bench.backstory("rename", "S1", "called so", script=scripts(tmp_path / "never")).stderr
    assert continues_sent(bench) == 0


def test_a_checkout_elsewhere_leaves_it_stopped(bench: Bench, tmp_path: Path) -> None:
    killed_while_summarised(bench, tmp_path)
    assert TAKEN_UP not in bench.backstory("checkout", "@2", script=scripts(tmp_path / "never")).stderr
    assert is_over(bench)
    assert continues_sent(bench) == 0


def summarising(bench: Bench, root: Path) -> tuple[subprocess.Popen[str], Path]:
    """A run that stopped its turn, and whose summary waits for the file that is returned."""
    begun, gate = root / "begun", root / "gate"
    waiting: list[dict[str, Any]] = [{"touch": str(begun)}, {"wait_for": str(gate)}, *GOOD]
    process = bench.start("run", "-a", "claude", "prompt 4", script=scripts(root / "never", waiting))
    until(begun.exists)
    return process, gate


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_terminal_that_is_closed_during_the_summary_leaves_it_continued_in_the_background(
    bench: Bench, tmp_path: Path, number: signal.Signals
) -> None:
    process, gate = summarising(bench, tmp_path)
    process.send_signal(number)
    gate.touch()
    process.communicate(timeout=60)
    until(lambda: is_over(bench))
    holds_each_once(bench)


def test_cancelled_during_the_summary_it_is_not_continued(bench: Bench, tmp_path: Path) -> None:
    process, gate = summarising(bench, tmp_path)
    assert bench.backstory("cancel", "S1").returncode == 0
    gate.touch()
    process.communicate(timeout=60)
    assert is_over(bench)
    assert continues_sent(bench) == 0
