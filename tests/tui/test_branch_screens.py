"""The branches of a session on the screen: where they part, what keys do to them, two of them compared."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from backstory.cli.tui.tree_screen import TreeScreen
from backstory.model import AssistantText, Tool, ToolCall, ToolResult, UserMessage
from backstory.runs.lock import LOCKS, SessionLock
from backstory.store import open_store
from tests.support.piloted import Piloted, piloted, screen
from tests.support.running import GOOD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backstory.store import Session, Store
    from tests.support.bench import Bench

pytestmark = pytest.mark.slow
HOSTILE = "\x1b]0;owned\x07 \u202egnp \x9b31m name"
USUAL = (90, 24)


@pytest.fixture
def forked(bench: Bench) -> Bench:
    """S1: @1 first, @2 one; @3 second, @4 an edit, @5 its result, @6 two; from @2: @7 third, @8 three, the end."""
    store = bench.store
    session = store.create_session(worktree=bench.project)
    say(store, session, "first", "one")
    edit = ToolCall(
        tool_use_id="t", tool_name="Edit", tool=Tool.EDIT, file_path="/p/a.py", input={"file_path": "/p/a.py"}
    )
    result = ToolResult(tool_use_id="t", tool_name="Edit", tool=Tool.EDIT, content="done")
    store.append_events(session, [UserMessage(content="second"), edit, result, AssistantText(text="two")])
    store.checkout(session, store.place(session, 2).point)
    say(store, session, "third", "three")
    store.close()
    bench.note_store()
    return bench


def say(store: Store, session: Session, prompt: str, answer: str) -> None:
    store.append_events(session, [UserMessage(content=prompt), AssistantText(text=answer)])


def leaf(bench: Bench) -> int:
    """The record that the next prompt of S1 follows."""
    with bench.store as store:
        point = store.leaf(1)
    assert point is not None
    return point.seq


def names(bench: Bench) -> list[str]:
    with bench.store as store:
        return [each.name for each in store.branch_names(1)]


@asynccontextmanager
async def tree(bench: Bench, size: tuple[int, int] = USUAL) -> AsyncIterator[Piloted]:
    """The branches of S1, as they are open."""
    async with screen(bench.project, bench.environ([GOOD]), everywhere=False, size=size) as seen:
        await seen.until_seen("1 session", "first")
        await seen.press("enter")
        await seen.opened("three")
        await seen.press("b")
        await seen.until_seen("3 turns · 2 branches", "▸ ")
        yield seen


# what is shown --------------------------------------------------------------------------------------------------------


def test_the_tree_shows_where_branches_part_and_where_the_next_prompt_goes(forked: Bench) -> None:
    async def test() -> None:
        async with tree(forked) as seen:
            await seen.until_seen("▸ └─ > @7    third → three", "  ├─   @3    second → two", "  * @1    first → one")
            assert "branch 2 · from @2 to @8\n1 own turn of 2 · last active" in seen.shown()
            await seen.press("k")
            await seen.until_seen("branch 1 · from the beginning to @6\n2 turns · last active", "▸ ├─   @3")

    piloted(test)


def test_the_tree_and_the_facts_of_a_branch_fit_every_screen(forked: Bench) -> None:
    async def test() -> None:
        async with tree(forked) as seen:
            for columns, rows in ((60, 15), (160, 50)):
                await seen.resize(columns, rows)
                await seen.until_seen("> @7", "├─   @3", "* @1", "branch 2", "last active", "Enter go there")
                assert max(map(len, seen.shown().split("\n"))) <= columns

    piloted(test)


def test_a_name_that_a_terminal_would_obey_is_harmless(forked: Bench) -> None:
    with forked.store as store:
        store.name_branch(1, HOSTILE, store.place(1, 8).point)

    async def test() -> None:
        async with tree(forked) as seen:
            await seen.until_seen("owned", "(2)")
            assert seen.acting().strip() == ""
            await seen.press("n")
            await seen.until_seen("A name for the branch")
            assert seen.acting().strip() == ""

    piloted(test)


# keys -----------------------------------------------------------------------------------------------------------------


def test_enter_goes_to_the_turn_in_the_session(forked: Bench) -> None:
    async def test() -> None:
        async with tree(forked) as seen:
            await seen.press("k", "enter")
            opened = await seen.opened("❯ second")
            assert opened.pane.current == (3, 0)

    piloted(test)


def test_escape_goes_back_to_the_place_in_the_session(forked: Bench) -> None:
    async def test() -> None:
        async with tree(forked) as seen:
            await seen.press("escape")
            opened = await seen.opened("❯ third")
            before = opened.pane.scroll_offset
            opened.pane.go((1, 0))
            await seen.press("b")
            await seen.until_seen("2 branches", "▸")
            await seen.press("k", "escape")
            assert (await seen.opened()).pane.current == (1, 0)
            assert opened.pane.scroll_offset == before

    piloted(test)


def test_a_checkout_sends_the_next_prompt_elsewhere_and_says_the_way_back(forked: Bench) -> None:
    async def test() -> None:
        async with tree(forked, (60, 15)) as seen:
            await seen.press("k", "c")
            await seen.until_seen("The next prompt of S1 follows @6. To go back: backstory\ncheckout @8 -S S1")
            await seen.until_seen("▸ ├─ > @3")

    piloted(test)
    assert leaf(forked) == 6


def test_a_checkout_of_a_session_that_runs_asks_before_it_stops_it(forked: Bench) -> None:
    with forked.store as store:
        lock = SessionLock(forked.home / LOCKS, store.session("S1").uid)
    assert lock.take()

    async def test() -> None:
        async with tree(forked) as seen:
            await seen.press("k", "c")
            await seen.until_seen("An agent is at work on this session. Stop it?", "> n no")
            await seen.press("escape", "c")
            await seen.until_seen("Stop it?")
            assert leaf(forked) == 8
            await seen.press("y")
            lock.release()
            await seen.until_seen("The next prompt of S1 follows @6")

    piloted(test)
    assert leaf(forked) == 6


def test_a_checkout_to_where_the_session_is_changes_nothing(forked: Bench) -> None:
    async def test() -> None:
        async with tree(forked) as seen:
            await seen.press("c")
            await seen.until_seen("The next prompt of S1 follows @8 already.")

    piloted(test)


def test_a_checkout_of_a_session_of_another_place_asks_before_one_continues_it(bench: Bench) -> None:
    with open_store(bench.home / "store.db", shared=True) as store:
        say(store, store.create_session(worktree=bench.root), "from afar", "an answer")

    async def test() -> None:
        async with screen(bench.project, bench.environ([GOOD]), size=USUAL) as seen:
            await seen.until_seen("from afar")
            await seen.press("enter")
            await seen.opened("an answer")
            await seen.press("b")
            await seen.until_seen("1 turn · 1 branch", "▸")
            await seen.press("c")
            await seen.until_seen("This session is not one of this project.", "> n no")
            assert not bench.store.exists
            await seen.press("y")
            await seen.until_seen("S1 1 turn", "S1 continues")
            await seen.press("escape")
            await seen.opened("S1 from afar")

    piloted(test)


def test_a_branch_is_named_by_a_line(forked: Bench) -> None:
    async def test() -> None:
        async with tree(forked) as seen:
            await seen.press("home", "n")
            await seen.until_seen("A name for the branch that ends at @6")
            await seen.type("two")
            await seen.press("enter")
            await seen.until_seen("The branch with @6 is now called 'two'.", "(1) two")
            await seen.press("n")
            await seen.until_seen("A name for the branch")
            await seen.type("12")
            await seen.press("enter")
            await seen.until_seen("12")
            await seen.until_gone("A name for the branch", "is now called")

    piloted(test)
    assert names(forked) == ["two"]


def test_a_fork_of_a_turn_opens_the_field_for_a_prompt_that_follows_it(forked: Bench) -> None:
    async def test() -> None:
        async with tree(forked) as seen:
            await seen.press("k", "f")
            await seen.until_seen("▔ follows @6 · to the agent", "The prompt follows @6, as a branch of its own")

    piloted(test)


def test_the_mouse_chooses_a_turn_and_a_second_click_goes_there(forked: Bench) -> None:
    async def test() -> None:
        async with tree(forked) as seen:
            await seen.click(5, 1)
            await seen.until_seen("▸ * @1")
            await seen.click(5, 2, times=2)
            assert (await seen.opened("❯ second")).pane.current == (3, 0)

    piloted(test)


def test_the_palette_offers_what_keys_do_here(forked: Bench) -> None:
    async def test() -> None:
        async with tree(forked) as seen:
            await seen.press("ctrl+p")
            await seen.until_seen("Search for commands")
            await seen.type("name t")
            await seen.until_seen("key n")
            await seen.press("enter")
            await seen.until_seen("A name for the branch that ends at @8")

    piloted(test)


# the store changes ----------------------------------------------------------------------------------------------------


def test_a_branch_that_was_removed_meanwhile_is_refused_and_gone(forked: Bench) -> None:
    async def test() -> None:
        async with tree(forked) as seen:
            await seen.press("k")
            with forked.store as store:
                store.remove_turns(1, [store.turns(1)[1].uid])
            await seen.press("c")
            await seen.until_seen("@6 is on a branch that was removed", "2 turns · 1 branch")
            await seen.until_gone("second")

    piloted(test)
    assert leaf(forked) == 8


def test_a_session_that_was_removed_meanwhile_is_a_sentence(forked: Bench) -> None:
    async def test() -> None:
        async with tree(forked) as seen:
            with forked.store as store:
                store.remove(store.session("S1"))
            await seen.press("c", "v", "k", "v")
            await seen.until_seen("No session")
            await seen.press("escape", "escape", "escape")
            await seen.until(lambda: not isinstance(seen.app.screen, TreeScreen))

    piloted(test)


# two of them ----------------------------------------------------------------------------------------------------------


def test_two_branches_are_compared_side_by_side_and_escape_goes_back(forked: Bench) -> None:
    async def test() -> None:
        async with tree(forked, (100, 24)) as seen:
            await seen.press("v")
            await seen.until_seen("Choose another turn, then v")
            await seen.press("k", "v")
            await seen.until_seen("fork point: @2 first", "--- @8 branch 2 (1 turn", "--- @6 branch 1 (1 turn", "a.py")
            (line,) = (line for line in seen.shown().split("\n") if "U: third" in line)
            assert "│" in line
            assert "U: second" in line
            await seen.press("escape")
            await seen.until_seen("▸ ├─   @3", "◆ └─ > @7")

    piloted(test)


def test_a_narrow_screen_has_one_branch_below_the_other(forked: Bench) -> None:
    async def test() -> None:
        async with tree(forked, (60, 15)) as seen:
            await seen.press("v", "k", "v")
            await seen.until_seen("fork point: @2 first", "U: third", "U: second", "edit /p/a.py")
            await seen.resize(120, 24)
            await seen.until_seen("│")

    piloted(test)


def test_a_mark_is_taken_away_by_escape_and_by_the_same_key(forked: Bench) -> None:
    async def test() -> None:
        async with tree(forked) as seen:
            for key in ("v", "escape"):
                await seen.press("v")
                await seen.until_seen("◆")
                await seen.press(key)
                await seen.until_gone("◆")
            assert isinstance(seen.app.screen, TreeScreen)

    piloted(test)
