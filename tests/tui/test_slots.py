"""The runs at work, as a line of tabs above every screen."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from backstory.cli.tui.slots import Slot, Slots, slots_of
from tests.support.bench import Bench
from tests.support.going import DEADLINE_S
from tests.support.piloted import piloted, screen
from tests.support.running import GOOD, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.workspace.reader import Reader
    from backstory.workspace.runs.running import ListedRun


def slot(uid: str, started: int, *, cwd: str = "/app", state: str = "running") -> Slot:
    return Slot(
        uid=uid, turn=f"turn of {uid}", label=uid.upper(), agent="claude", state=state, pid=started, cwd=cwd,
        started=started,
    )  # fmt: skip


A, B, C = slot("a", 1), slot("b", 2), slot("c", 3, cwd="/other")


def test_the_newest_run_is_the_active_slot() -> None:
    assert Slots().with_runs([B, A]).active == "b"
    assert Slots().with_runs([B]).with_runs([B, A]).active == "a"


def test_a_run_that_goes_on_stays_the_active_slot() -> None:
    assert Slots(all=(A, B), active="a").with_runs([A, B]).active == "a"


@pytest.mark.parametrize(
    ("left", "active"),
    [([A, C], "a"), ([C], "c"), ([], None), ([slot("a", 1, state="queued"), C], "c")],
    ids=["the last of its worktree", "the last of all", "none", "one that is only queued is none"],
)
def test_when_the_active_slot_ends_another_one_is_active(left: list[Slot], active: str | None) -> None:
    assert Slots(all=(A, C, B), active="b").with_runs(left).active == active


def test_a_run_that_ended_is_told_once() -> None:
    now = Slots(all=(A, B), active="b").with_runs([A])
    assert [each.uid for each in now.ended_since(Slots(all=(A, B), active="b"))] == ["b"]
    assert now.with_runs([A]).ended_since(now) == []


def test_a_session_that_runs_again_has_a_run_that_ended() -> None:
    again = Slot(uid="a", turn="another", label="A", agent="codex", state="running", pid=4, cwd="/app", started=4)
    before = Slots(all=(A,), active="a")
    assert [each.turn for each in before.with_runs([again]).ended_since(before)] == ["turn of a"]


@pytest.mark.slow
def test_a_run_has_a_tab_until_it_ends_and_then_its_session_is_unread(bench: Bench) -> None:
    assert bench.run("the first prompt", {"say": "the first answer"}, GOOD).returncode == 0
    gate = bench.root / "gate"
    environ = bench.environ([{"wait_for": str(gate)}, {"say": "after the gate"}, GOOD])
    rung = list[bool]()

    async def test() -> None:
        async with screen(bench.project, environ, everywhere=False, size=(90, 30)) as seen:
            seen.app.bell = lambda: rung.append(True)  # type: ignore[method-assign]
            await seen.until_seen("the first prompt")
            await seen.press("enter")
            await seen.opened("the first answer")
            await seen.press("p")
            await seen.type("go on")
            await seen.press("enter")
            await seen.until(lambda: seen.shown().startswith("[1 ● S1 claude "))
            await seen.press("escape")
            await seen.until(lambda: seen.app.place == "sessions")
            await seen.press("1")
            await seen.opened("❯ go on")
            await seen.press("escape")
            assert not rung
            gate.touch()
            await seen.until_seen("◐ S1", "S1: the run has ended")
            assert "[1 ●" not in seen.shown()
            await seen.until_seen("@5       after the gate")
            assert seen.shown().count("@5       after the gate") == 1, "the preview shows the last turn once"
            await seen.press("enter")
            await seen.opened("after the gate")
            await seen.press("escape")
            await seen.until_gone("◐")

    piloted(test)
    assert rung == [True]
    until(lambda: not bench.spools())


@pytest.mark.slow
def test_a_session_that_is_left_when_its_end_was_read_is_not_unread(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench.run("the first prompt", {"say": "the first answer"}, GOOD).returncode == 0
    gate, may_look = bench.root / "gate", threading.Event()
    environ = bench.environ([{"wait_for": str(gate)}, {"say": "after the gate"}, GOOD])

    def late(runs: Sequence[ListedRun], reader: Reader) -> list[Slot]:
        if gate.exists():
            assert may_look.wait(DEADLINE_S)
        return slots_of(runs, reader)

    monkeypatch.setattr("backstory.cli.tui.app.slots_of", late)

    async def test() -> None:
        async with screen(bench.project, environ, everywhere=False, size=(90, 30)) as seen:
            await seen.until_seen("the first prompt")
            await seen.press("enter")
            await seen.opened("the first answer")
            await seen.press("p")
            await seen.type("go on")
            await seen.press("enter")
            await seen.until(lambda: seen.shown().startswith("[1 ● S1 claude "))
            gate.touch()
            await seen.until(lambda: seen.shown().count("✓ 1.2 s") == 2)
            await seen.press("escape")
            await seen.until(lambda: seen.app.place == "sessions")
            may_look.set()
            await seen.until_seen("S1: the run has ended")
            assert "◐" not in seen.shown()

    try:
        piloted(test)
    finally:
        may_look.set()
