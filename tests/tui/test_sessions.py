"""The list of sessions: what is on it, what narrows it, and what opens."""

from __future__ import annotations

import signal
import subprocess
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from backstory.cli.tui.sessions_screen import SessionsScreen, SessionTable
from tests.support.piloted import Opens, Piloted, piloted, screen
from tests.support.session_screens import SessionMachine

if TYPE_CHECKING:
    from textual.strip import Strip

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> SessionMachine:
    return SessionMachine(tmp_path_factory.mktemp("screen"))


@pytest.fixture
def opens(machine: SessionMachine) -> Opens:
    return partial(screen, machine.project, machine.environ)


def test_a_session_has_its_state_title_time_and_cost_in_a_line(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await seen.until_seen("every project · 8 sessions")
            line = next(each for each in seen.shown().split("\n") if "Add a rate limit" in each)
            assert " ".join(line.split()) == "✓ Add a rate limit to the login claude 5 min ~$0.03"

    piloted(test)


def test_a_wide_screen_shows_the_branch_and_the_turns_too(opens: Opens) -> None:
    async def test() -> None:
        async with opens(size=(140, 24)) as seen:
            await seen.until_seen("limits", "acme/shop")

    piloted(test)


def test_each_letter_narrows_the_list_by_title(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await seen.press("f")
            await seen.type("SKY")
            await seen.until_seen("> SKY", "1 title", "Why is the sky blue?")
            await seen.until_gone("Ship it")

    piloted(test)


def test_letters_in_one_burst_with_the_key_of_the_field_go_into_it(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await seen.until_seen("8 sessions")
            await seen.burst("fjqrnsky")
            await seen.until_seen("> jqrnsky")

    piloted(test)


def test_keys_before_and_behind_the_field_of_one_burst_keep_their_order(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await seen.until_seen("8 sessions")
            await seen.burst("fsky\x1bjk?")
            await seen.until_seen("Filter by title")
            await seen.press("escape")
            await seen.until_seen("> sky", "1 title")

    piloted(test)


def test_a_key_has_only_the_lines_drawn_that_it_changes(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, render_line = set[int](), SessionTable.render_line

    def noted(table: SessionTable, y: int) -> Strip:
        drawn.add(y)
        return render_line(table, y)

    monkeypatch.setattr(SessionTable, "render_line", noted)

    async def test() -> None:
        async with opens() as seen:
            await seen.until_seen("8 sessions", "❯")
            await seen.settled()
            drawn.clear()
            await seen.press("f")
            await seen.until_seen("leave the field")
            assert drawn == {0, 23}, "the field and the foot"

    piloted(test)


def test_what_narrows_stays_when_the_field_is_left_and_goes_at_the_next_escape(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await seen.press("f")
            await seen.type("sky")
            await seen.until_seen("1 title")
            await seen.press("escape")
            await seen.until_seen("Enter open", "1 title")
            await seen.press("escape")
            await seen.until_seen("8 sessions", "Ship it")

    piloted(test)


def test_letters_are_letters_in_the_field(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await seen.press("f")
            await seen.type("?qr")
            await seen.until_seen("> ?qr", "Nothing found.")
            await seen.press("ctrl+u")
            await seen.until_seen("8 sessions")

    piloted(test)


def test_a_search_finds_what_was_said_and_opens_at_its_place(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await seen.press("slash")
            await seen.type("gateway own")
            await seen.until_seen("in texts", "Count requests", "The gateway has limits of its own.")
            await seen.press("escape", "enter")
            opened = await seen.opened("The gateway has limits of its own.")
            assert opened.pane.current == (8, 0)

    piloted(test)


def test_tab_changes_between_this_project_and_every_one(opens: Opens) -> None:
    async def test() -> None:
        async with opens(everywhere=False) as seen:
            await seen.until_seen("S2", "Fix the failing test")
            await seen.until_gone("Add a rate limit")
            await seen.press("tab")
            await seen.until_seen("every project", "Add a rate limit")

    piloted(test)


def test_the_keys_of_azureal_move(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await seen.until_seen("> ✓ Fix the failing")
            await seen.press("j", "j")
            await seen.until_seen("> ✓ Why is the sky")
            await seen.press("k")
            await seen.until_seen("> ✓ Add a rate")
            await seen.press("end")
            await seen.until_seen("> ✓ Count requests")
            await seen.press("home")
            await seen.until_seen("> ✓ Fix the failing")

    piloted(test)


def test_a_click_chooses_and_a_second_one_opens(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await seen.until_seen("Why is the sky")
            await seen.click(10, 3)
            await seen.until_seen("> ✓ Why is the sky")
            await seen.click(10, 3, times=2)
            await seen.opened("Why is the sky blue?", "Air.")

    piloted(test)


def test_the_chosen_row_stays_in_sight_on_a_small_screen(opens: Opens) -> None:
    async def test() -> None:
        async with opens(size=(60, 15)) as seen:
            await seen.until_seen("Fix the failing")
            await seen.press("end")
            await seen.until_seen("> ✓ ", "Count requests per person")
            assert max(map(len, seen.shown().split("\n"))) <= 60

    piloted(test)


def test_a_long_sentence_is_read_whole_and_goes_with_the_next_key(opens: Opens) -> None:
    async def test() -> None:
        async with opens(size=(60, 15)) as seen:
            await seen.until_seen("Fix the failing", "Enter open")
            first = seen.app.screen
            assert isinstance(first, SessionsScreen)
            first.become(replace(first.state, note=f"It was {'not ' * 30}read. Try: backstory ingest"))
            await seen.until_seen("It was not not", "Try: backstory ingest", "> ✓ Fix the failing")
            await seen.press("j")
            await seen.until_seen("Enter open")
            await seen.until_gone("Try: backstory ingest", "not not")

    piloted(test)


def test_the_help_names_the_keys_of_the_place(opens: Opens) -> None:
    async def test() -> None:
        async with opens(size=(80, 40)) as seen:
            await seen.press("question_mark")
            await seen.until_seen("Filter by title", "Search everything", "Leave; runs go on")
            await seen.press("x")
            await seen.until_gone("Filter by title:")

    piloted(test)


def test_the_help_is_read_to_its_end_on_a_small_screen(opens: Opens) -> None:
    async def test() -> None:
        async with opens(size=(60, 15)) as seen:
            await seen.until_seen("Fix the failing")
            await seen.press("question_mark")
            await seen.until_seen("Open the session")
            assert "Leave; runs go on" not in seen.shown()
            await seen.press("end")
            await seen.until_seen("Leave; runs go on")

    piloted(test)


def test_the_palette_does_what_keys_do(opens: Opens) -> None:
    async def test() -> None:
        async with opens(size=(80, 40)) as seen:
            await seen.until_seen("Fix the failing")
            await seen.press("ctrl+p")
            await seen.type("Last session")
            await seen.until_seen("key End")
            await seen.press("enter")
            await seen.until_seen("> ✓ Count requests")

    piloted(test)


def test_q_leaves(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await seen.until_seen("Fix the failing")
            await seen.press("q")
            await seen.until(lambda: not seen.app.is_running)

    piloted(test)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_leaves_as_a_key_does(opens: Opens, number: signal.Signals) -> None:
    async def test() -> None:
        async with opens() as seen:
            await seen.until_seen("Fix the failing")
            signal.raise_signal(number)
            await seen.until(lambda: not seen.app.is_running)

    piloted(test)


def test_a_signal_ends_the_screen_at_once_while_the_terminal_is_another_programs(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    during = []

    def client(words: list[str], **how: object) -> subprocess.CompletedProcess[str]:
        during.append(signal.getsignal(signal.SIGHUP))
        return subprocess.CompletedProcess(words, 0)

    async def test() -> None:
        async with opens() as seen:
            await seen.until_seen("Fix the failing")
            monkeypatch.setattr(seen.app, "suspend", nullcontext)
            monkeypatch.setattr("backstory.cli.tui.app.subprocess.run", client)
            await seen.press("r")
            await seen.until(lambda: during)
            assert during == [signal.SIG_DFL]
            signal.raise_signal(signal.SIGHUP)
            await seen.until(lambda: not seen.app.is_running)

    piloted(test)


def _is_in_foot(seen: Piloted, word: str) -> bool:
    return word in seen.shown().split("\n")[-1]


def test_a_click_on_a_word_of_the_foot_does_what_its_key_does(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await seen.until_seen("8 sessions", "❯")
            for word, then in (
                ("f filter", "leave the field"),
                ("Esc leave the field", "f filter"),
                ("Enter open", "p prompt"),
                ("p prompt", "Esc leave it"),
                ("Esc leave it", "p prompt"),
            ):
                foot = seen.shown().split("\n")[-1]
                await seen.click(foot.index(word), 23)
                await seen.until(partial(_is_in_foot, seen, then))

    piloted(test)
