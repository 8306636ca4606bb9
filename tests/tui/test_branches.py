"""Branches on the screen: a prompt that follows an entry."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pytest

from backstory.cli.tui.sent import TypedText
from backstory.model import AssistantText, Complete, UserMessage
from backstory.workspace.runs.sending import RunChoice, Way, words_for
from tests.support.piloted import Piloted, piloted, screen
from tests.support.running import GOOD, until_stored

if TYPE_CHECKING:
    from backstory.cli.tui.session_screen import SessionScreen
    from backstory.store import Session
    from tests.support.bench import Bench

pytestmark = pytest.mark.slow


def opened(bench: Bench, *script: dict[str, Any]) -> AbstractAsyncContextManager[Piloted]:
    return screen(bench.project, bench.environ([*script, GOOD]), everywhere=False, size=(90, 30))


def only_session(bench: Bench) -> Session:
    with bench.store as store:
        (session,) = store.sessions()
    return session


@pytest.fixture
def asked(bench: Bench) -> Bench:
    """A project with a session of two turns."""
    with bench.store as store:
        session = store.create_session(worktree=bench.project)
        for number in ("first", "second"):
            said = [UserMessage(content=f"the {number} prompt"), AssistantText(text=f"the {number} answer")]
            store.append_events(session, [*said, Complete(success=True)])
    bench.note_store()
    return bench


async def session(seen: Piloted) -> SessionScreen:
    await seen.until_seen("S1", "the first prompt")
    await seen.press("enter")
    return await seen.opened("the second answer")


def first_answer(bench: Bench) -> int:
    """The record at which the first turn ends, behind its answer."""
    with bench.store as store:
        return store.turns(only_session(bench))[0].last_seq


# a prompt that follows an entry ---------------------------------------------------------------------------------------


def test_a_prompt_follows_the_entry_that_was_chosen(asked: Bench) -> None:
    seq = first_answer(asked)

    async def test() -> None:
        async with opened(asked, {"say": "another answer"}) as seen:
            (await session(seen)).pane.go((seq - 1, 0))
            await seen.press("f")
            await seen.until_seen(
                f"follows @{seq} · to the agent", f"The prompt follows @{seq}, as a branch of its own"
            )
            await seen.type("another way")
            await seen.press("enter")
            await seen.until_seen("another answer", "── turn 3", f"A branch from @{seq}. Back: backstory checkout @6")

    piloted(test)
    until_stored(asked)
    with asked.store as store:
        first, _, third = store.turns(only_session(asked))
    assert (third.prompt, third.parent_uid, third.parent_seq) == ("another way", first.uid, seq)


def test_keys_of_one_burst_with_a_fork_go_into_its_field(asked: Bench) -> None:
    seq = first_answer(asked)

    async def test() -> None:
        async with opened(asked) as seen:
            (await session(seen)).pane.go((seq - 1, 0))
            await seen.burst("fsq quick")
            await seen.until_seen(f"follows @{seq}", "sq quick")

    piloted(test)


def test_a_fork_that_is_left_changes_nothing_and_keeps_the_text(asked: Bench) -> None:
    seq = first_answer(asked)

    async def test() -> None:
        async with opened(asked) as seen:
            (await session(seen)).pane.go((seq - 1, 0))
            await seen.press("f")
            await seen.until_seen(f"follows @{seq}")
            await seen.type("half")
            await seen.press("escape")
            await seen.until_gone(f"follows @{seq}")
            await seen.press("p")
            await seen.until_seen("half", "▔ to the agent of the last turn")

    piloted(test)
    until_stored(asked)
    with asked.store as store:
        assert len(store.turns(only_session(asked))) == 2
    assert TypedText(asked.home, only_session(asked).uid).read() == "half"


def test_the_end_of_a_session_is_no_fork(asked: Bench) -> None:
    async def test() -> None:
        async with opened(asked) as seen:
            opened_one = await session(seen)
            await seen.press("f")
            await seen.until_seen("Choose an entry")
            with asked.store as store:
                last = store.turns(only_session(asked))[1].last_seq
            opened_one.pane.go((last - 1, 0))
            await seen.press("f")
            await seen.until_seen(f"The session goes on at @{last} anyway", "▔ to the agent of the last turn")

    piloted(test)


@pytest.mark.parametrize("way", [Way.QUEUE, Way.STEER])
def test_a_fork_of_a_session_that_runs_waits_for_the_end_of_the_run(way: Way) -> None:
    words = words_for("U", way, RunChoice(), is_running=True, after=12)
    assert words == ["run", "-S", "U", "--at", "@12"]
