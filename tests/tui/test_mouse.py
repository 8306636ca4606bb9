"""The screen by mouse alone: each action is a click away, on its word or in the menu."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.support.piloted import Opens, Piloted, piloted, screen
from tests.support.session_screens import SessionMachine

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def opens(tmp_path_factory: pytest.TempPathFactory) -> Opens:
    machine = SessionMachine(tmp_path_factory.mktemp("mouse"))
    return partial(screen, machine.project, machine.environ, size=(60, 20))


async def click_on(seen: Piloted, word: str, times: int = 1) -> None:
    """Click on a word, the last place where it is."""
    lines = seen.shown().split("\n")
    row = max(n for n, line in enumerate(lines) if word in line)
    await seen.click(lines[row].rindex(word), row, times)


async def listed(seen: Piloted) -> None:
    await seen.until_seen("8 sessions", "❯")


async def session(seen: Piloted) -> None:
    await listed(seen)
    await seen.press("end", "enter")
    await seen.opened("Viel.")


async def branches(seen: Piloted) -> None:
    await session(seen)
    await seen.press("b")
    await seen.until_seen("2 turns", "▸")


async def reports(seen: Piloted) -> None:
    await listed(seen)
    await seen.press("R")
    await seen.until_seen("[1 Stand-up]")


async def prompt(seen: Piloted) -> None:
    await session(seen)
    await seen.press("p")
    await seen.until_seen("to the agent")


MENUS = [
    (listed, "Reports: stand-up", "[1 Stand-up]"),
    (session, "Its branches: continue", "▸"),
    (branches, "Name the branch", "A name for the branch"),
    (reports, "Costs: by day", "[2 Costs]"),
    (prompt, "Another model", "Model, as the agent names it"),
]


@pytest.mark.parametrize(("begin", "chosen", "then"), MENUS, ids=[each[0].__name__ for each in MENUS])
def test_the_menu_of_a_place_does_what_is_clicked_in_it(
    opens: Opens, begin: Callable[[Piloted], object], chosen: str, then: str
) -> None:
    async def test() -> None:
        async with opens() as seen:
            await begin(seen)  # type: ignore[misc]
            await click_on(seen, "menu")
            await seen.until_seen("Search for commands")
            await seen.type(chosen[:9])
            await seen.until_seen(chosen)
            await click_on(seen, chosen)
            await seen.until_seen(then)

    piloted(test)


def test_a_click_on_the_field_of_the_list_has_letters_go_there(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await listed(seen)
            await seen.click(5, 0)
            await seen.type("rate")
            await seen.until_seen("> rate", "leave the field")
            await click_on(seen, "leave the field")
            await seen.until_seen("filter")
            await seen.click(3, 0)
            await seen.type("s")
            await seen.until_seen("> rates")

    piloted(test)


def test_a_click_on_the_words_about_the_list_changes_its_scope(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await listed(seen)
            await click_on(seen, "every project")
            await seen.until_gone("every project")
            await seen.click(58, 0)
            await seen.until_seen("every project")

    piloted(test)


def test_a_click_takes_the_keys_away(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await listed(seen)
            await click_on(seen, "? keys")
            await seen.until_seen("Next session")
            await click_on(seen, "Next session")
            await seen.until_gone("Next session")

    piloted(test)


@pytest.mark.parametrize(("word", "then"), [("Esc leave it", "go there"), ("Enter take it", "is now called")])
def test_a_click_on_a_word_below_a_field_of_one_line_does_what_its_key_does(opens: Opens, word: str, then: str) -> None:
    async def test() -> None:
        async with opens() as seen:
            await branches(seen)
            await seen.press("n")
            await seen.until_seen("A name for the branch")
            await seen.type("left")
            await click_on(seen, word)
            await seen.until_gone("A name for the branch")
            await seen.until_seen(then)

    piloted(test)


def test_a_click_on_a_sentence_at_the_foot_shows_the_keys_again(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await session(seen)
            await seen.press("t")
            await seen.until_seen("Thinking is shown.")
            await click_on(seen, "Thinking is shown.")
            await seen.until_seen("? keys")

    piloted(test)


def test_a_notice_leaves_the_state_of_the_session_and_the_keys_in_sight(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await session(seen)
            seen.app.notify("S1: the run has ended")
            await seen.until_seen("S1: the run has ended", "· completed ·", "q leave")

    piloted(test)


def test_words_to_look_for_are_taken_by_a_click(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await session(seen)
            await seen.press("slash")
            await seen.until_seen("Enter take it")
            await seen.type("gateway")
            await click_on(seen, "Enter take it")
            await seen.until_seen("hit 1 of")

    piloted(test)
