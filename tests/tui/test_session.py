"""One session on the screen: where it opens, how entries open, what follows, and what never reaches the terminal."""

from __future__ import annotations

import gc
import shutil
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from textual import events
from textual.app import App

from backstory.cli.picker.picking import Background
from backstory.cli.tui import blocks, painting, session_feed
from backstory.cli.tui.painting import PaintingApp
from backstory.cli.tui.prompt_field import WordsField
from backstory.cli.tui.session_feed import SessionFeed
from backstory.cli.tui.session_pane import SessionPane
from backstory.cli.tui.session_screen import SessionScreen
from backstory.workspace.history.blocks import Content, content_of
from backstory.workspace.reader import Reader
from tests.support.going import DEADLINE_S
from tests.support.machines import CLAUDE_FOLDER, claude_line, lines
from tests.support.piloted import Opens, Piloted, piloted, screen
from tests.support.session_screens import SESSION, SessionMachine

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.workspace.located import LocatedSession

pytestmark = pytest.mark.slow
LARGE = (100, 60)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> SessionMachine:
    return SessionMachine(tmp_path_factory.mktemp("screen"))


@pytest.fixture
def opens(machine: SessionMachine) -> Opens:
    return partial(screen, machine.project, machine.environ)


async def counting(seen: Piloted) -> SessionScreen:
    """Open the session in which everything occurs."""
    await seen.until_seen("8 sessions")
    await seen.press("end")
    await seen.until_seen("> ✓ Count requests")
    await seen.press("enter")
    return await seen.opened("· completed ·")


def test_a_session_opens_at_its_end(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await counting(seen)
            await seen.until_seen("@18      Viel.")

    piloted(test)


def test_answers_are_read_without_the_signs_of_markdown(opens: Opens) -> None:
    async def test() -> None:
        async with opens(size=LARGE) as seen:
            await counting(seen)
            await seen.until_seen("• the old limit of all requests stays", "limit   per minute")
            assert "**" not in seen.shown()

    piloted(test)


def test_a_call_opens_to_its_result_then_to_everything_and_folds_again(opens: Opens) -> None:
    async def test() -> None:
        async with opens(size=LARGE) as seen:
            opened = await counting(seen)
            opened.pane.go((4, 0))
            await seen.opened("Bash pytest -q tests/test_limits.py", "exit 1")
            assert "FAILED test_two_people" not in seen.shown()
            await seen.press("enter")
            await seen.until_seen("FAILED test_two_people")
            await seen.press("enter")
            await seen.until_seen('"command": "pytest -q tests/test_limits.py')
            await seen.press("enter")
            await seen.until_gone("FAILED test_two_people", '"command":')

    piloted(test)


def test_an_edit_shows_the_lines_that_it_changes(opens: Opens) -> None:
    async def test() -> None:
        async with opens(size=LARGE) as seen:
            opened = await counting(seen)
            opened.pane.go((10, 0))
            await seen.opened("- KEY = 'all'", "+     # Each person counts for themselves.")

    piloted(test)


def test_keys_go_from_prompt_to_prompt_and_to_both_ends(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            opened = await counting(seen)
            await seen.press("left_square_bracket")
            await seen.opened("@17    ❯ Wie viel")
            assert opened.pane.current == (17, 0)
            await seen.press("shift+up")
            await seen.opened("@1     ❯ Implement the following plan:")
            await seen.press("right_square_bracket")
            await seen.opened("@17    ❯ Wie viel")
            await seen.press("home")
            await seen.opened("Count requests per person", "── turn 1")
            await seen.press("G")
            await seen.opened("@18      Viel.")

    piloted(test)


@pytest.mark.parametrize("prompt", [17, 1])
def test_from_the_middle_of_a_long_prompt_a_key_goes_to_its_beginning(opens: Opens, prompt: int) -> None:
    async def test() -> None:
        async with opens(size=(60, 15)) as seen:
            pane = (await counting(seen)).pane
            pane.go((prompt, 0))
            await seen.opened(f"@{prompt} ")
            line = pane._line_of((prompt, 0))
            assert line is not None
            pane.scroll_to(y=line + 2, animate=False, immediate=True, force=True)
            await seen.until_gone(f"@{prompt} ")
            await seen.press("left_square_bracket")
            await seen.opened(f"@{prompt}  ")
            assert pane.current == (prompt, 0)

    piloted(test)


def test_arrows_choose_entries_one_by_one(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            opened = await counting(seen)
            await seen.press("up")
            assert opened.pane.current == (18, 0)
            await seen.press("up", "up")
            await seen.until(lambda: opened.pane.current == (16, 0))
            await seen.press("down")
            await seen.until(lambda: opened.pane.current == (17, 0))

    piloted(test)


def test_arrows_that_come_before_the_entries_are_drawn_choose_them_all_the_same(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            pane = (await counting(seen)).pane
            assert pane.content is not None
            # It is read anew, as when a run ends or a summary is stored.
            pane.show(pane.content)
            pane.action_step(-1)
            pane.action_step(-1)
            assert pane.current is None
            await seen.until(lambda: pane.current == (17, 0))

    piloted(test)


def test_the_place_stays_when_the_window_changes(opens: Opens) -> None:
    async def test() -> None:
        async with opens(size=(100, 24)) as seen:
            opened = await counting(seen)
            opened.pane.go((8, 0))
            await seen.opened("The gateway has limits of its own.")
            await seen.resize(64, 20)
            await seen.opened("The gateway has limits of its own.")

    piloted(test)


def test_a_place_is_not_painted_before_it_is_drawn(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(painting, "HELD_S", DEADLINE_S)
    frames, tried, drawn, display = list[bool](), threading.Event(), blocks.drawn, PaintingApp._display

    async def test() -> None:
        async with opens(size=(100, 24)) as seen:
            opened = await counting(seen)
            await seen.press("home", "slash")
            await seen.type("test_two_people")

            def slowly(*given: Any) -> Any:
                assert tried.wait(DEADLINE_S)
                return drawn(*given)

            def tries(app: PaintingApp, *given: Any) -> None:
                display(app, *given)
                if not opened.pane.is_settled:
                    tried.set()

            monkeypatch.setattr(blocks, "drawn", slowly)
            monkeypatch.setattr(PaintingApp, "_display", tries)
            monkeypatch.setattr(App, "_display", lambda *_: frames.append(opened.pane.is_settled))
            seen.keys("enter")
            await seen.opened("hit 1 of 1", "FAILED test_two_people")
            await seen.until(lambda: frames)
            assert all(frames)

    piloted(test)


def test_a_session_that_takes_long_to_read_is_not_painted_before_it_is_drawn(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(painting, "HELD_S", DEADLINE_S)
    frames, may_read, tried = list[bool](), threading.Event(), threading.Event()
    display, drawn = PaintingApp._display, blocks.drawn

    def reads(reader: Reader, located: LocatedSession) -> Content:
        assert may_read.wait(DEADLINE_S)
        return content_of(reader, located)

    def draws(*given: Any) -> Any:
        assert tried.wait(DEADLINE_S)
        return drawn(*given)

    async def test() -> None:
        async with opens() as seen:
            await seen.until_seen("8 sessions")
            await seen.press("end")
            await seen.until_seen("> ✓ Count requests")
            monkeypatch.setattr(session_feed, "content_of", reads)
            monkeypatch.setattr(blocks, "first_look", lambda *_: [])
            monkeypatch.setattr(blocks, "drawn", draws)
            await seen.press("enter")
            await seen.until_seen("reading …")
            seen.app.let_go()
            pane = seen.app.screen.query_one(SessionPane)

            def tries(app: PaintingApp, *given: Any) -> None:
                display(app, *given)
                if pane.content is not None:
                    tried.set()

            monkeypatch.setattr(PaintingApp, "_display", tries)
            monkeypatch.setattr(App, "_display", lambda *_: frames.append(pane.content is None or pane.is_settled))
            may_read.set()
            await seen.opened("Viel.")
            await seen.until(lambda: frames)
            assert all(frames)

    try:
        piloted(test)
    finally:
        may_read.set()


def test_a_session_stays_as_it_is_while_it_is_searched(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    may_find, search = threading.Event(), Reader.search

    def waits(*given: Any) -> Any:
        assert may_find.wait(DEADLINE_S)
        return search(*given)

    monkeypatch.setattr(Reader, "search", waits)

    async def test() -> None:
        async with opens() as seen:
            await counting(seen)
            await seen.press("slash")
            await seen.type("gateway")
            before = above(seen)[:-1]
            await seen.press("enter")
            await seen.until(lambda: seen.app._holding is None)
            await seen.until_seen("searching …")
            assert above(seen)[:-1] == before
            may_find.set()
            await seen.opened("hit 1 of ")
            await seen.until(lambda: not seen.app.screen.query(WordsField))

    try:
        piloted(test)
    finally:
        may_find.set()


def test_another_height_has_nothing_read_again(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with opens() as seen:
            await counting(seen)
            await seen.settled()
            monkeypatch.setattr(blocks, "drawn", None)
            await seen.press("slash")
            await seen.until_seen("Esc leave it", "Viel.")
            await seen.press("escape")
            await seen.until_seen("s sessions", "Viel.")

    piloted(test)


def test_a_search_in_a_session_goes_to_its_hits_and_opens_the_call_of_a_result(opens: Opens) -> None:
    async def test() -> None:
        async with opens(size=LARGE) as seen:
            opened = await counting(seen)
            await seen.press("home", "slash")
            await seen.type("test_two_people")
            await seen.press("enter")
            await seen.opened("hit 1 of 1", "FAILED test_two_people")
            assert opened.pane.current == (4, 0)

    piloted(test)


def test_keys_go_from_hit_to_hit_and_behind_the_last_is_the_first(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            opened = await counting(seen)
            await seen.press("home", "slash")
            await seen.type("limits")
            await seen.press("enter")
            await seen.opened("hit 1 of ")
            first = opened.pane.current
            await seen.press("N")
            await seen.until(lambda: opened.pane.current != first)
            await seen.press("n")
            await seen.opened("hit 1 of ")
            assert opened.pane.current == first

    piloted(test)


def test_a_search_without_a_hit_says_so_and_its_field_can_be_left(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await counting(seen)
            await seen.press("slash")
            await seen.type("pelican")
            await seen.press("enter")
            await seen.until_seen("Nothing found for 'pelican'.")
            await seen.press("slash")
            await seen.until_seen("Esc leave it")
            await seen.press("escape")
            await seen.until_seen("s sessions")
            await seen.press("s")
            await seen.until_seen("8 sessions")

    piloted(test)


def test_words_in_one_burst_with_the_key_of_their_field_go_into_it(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await counting(seen)
            await seen.burst("/strix")
            await seen.until_seen("strix")
            assert seen.app.focused is not None
            assert getattr(seen.app.focused, "value", "") == "strix"

    piloted(test)


def test_words_that_are_pasted_act_on_nothing(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await counting(seen)
            await seen.press("slash")
            await seen.until_seen("Esc leave it")
            seen.app.screen.focused.post_message(events.Paste(HOSTILE))  # type: ignore[union-attr]
            await seen.until_seen("heron \\x1b]0;owned\\x07")
            assert seen.acting() == ""

    piloted(test)


def test_an_entry_is_copied_whole(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            opened = await counting(seen)
            opened.pane.go((17, 0))
            await seen.opened()
            await seen.press("y")
            await seen.until_seen("3,601 characters sent to the terminal's clipboard (OSC 52).")
            assert seen.app.clipboard == "Wie viel " * 400 + "?"

    piloted(test)


def test_looking_at_an_earlier_prompt_loses_nothing_that_was_typed(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await counting(seen)
            await seen.press("p")
            await seen.type("typed")
            await seen.press("ctrl+up")
            await seen.until_seen("▊ Wie viel")
            await seen.press("escape", "p")
            await seen.until_seen("▊ typed")

    piloted(test)


def test_what_a_session_shows_is_let_go_of_when_it_is_closed(opens: Opens) -> None:
    def shown() -> int:
        gc.collect()
        return sum(isinstance(each, Content) for each in gc.get_objects())

    async def test() -> None:
        async with opens() as seen:
            await counting(seen)
            assert shown()
            await seen.press("s")
            await seen.until_seen("8 sessions")
            await seen.until(lambda: not shown())

    piloted(test)


def test_a_list_is_where_it_was_when_a_session_is_closed(opens: Opens) -> None:
    async def test() -> None:
        async with opens() as seen:
            await counting(seen)
            await seen.press("escape")
            await seen.until_seen("> ✓ Count requests", "8 sessions")

    piloted(test)


def test_what_an_agent_writes_appears_as_it_is_written(tmp_path: Path) -> None:
    machine = SessionMachine(tmp_path)
    log = machine.home / CLAUDE_FOLDER / f"{SESSION}.jsonl"

    async def test() -> None:
        async with screen(machine.project, machine.environ) as seen:
            await counting(seen)
            with log.open("ab") as file:
                file.write(lines(said("u90", "A word that is new."), said("u91", "And one more.")))
            await seen.until_seen("A word that is new.")

    piloted(test)


def test_a_turn_that_ends_in_its_log_is_read_anew_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SessionMachine(tmp_path)
    log = machine.home / CLAUDE_FOLDER / f"{SESSION}.jsonl"
    read, times = SessionFeed.run, list[str]()

    def counted(self: SessionFeed, uid: str, goal: tuple[int, int] | None) -> None:
        times.append(uid)
        read(self, uid, goal)

    monkeypatch.setattr(SessionFeed, "run", counted)

    async def test() -> None:
        async with screen(machine.project, machine.environ) as seen:
            opened = await counting(seen)
            prompt = claude_line("user", "u89", "And now?", sessionId=SESSION, timestamp="2001-05-04T09:49:00.000Z")
            with log.open("ab") as file:
                file.write(lines(prompt, said("u90", "The end.", stop_reason="end_turn")))
            await seen.until_seen("── turn 3", "@20      The end.", "✓ 1 min")
            await seen.opened()
            assert opened.pane._tail == []

    piloted(test)
    assert len(times) == 2


def test_who_reads_above_is_not_moved_by_what_comes(tmp_path: Path) -> None:
    machine = SessionMachine(tmp_path)
    log = machine.home / CLAUDE_FOLDER / f"{SESSION}.jsonl"

    async def test() -> None:
        async with screen(machine.project, machine.environ) as seen:
            opened = await counting(seen)
            await seen.press("home")
            await seen.opened("── turn 1")
            before, height = above(seen), opened.pane.virtual_size.height
            with log.open("ab") as file:
                file.write(lines(said("u90", "A word that is new."), said("u91", "And one more.")))
            await seen.until(lambda: opened.pane.virtual_size.height > height)
            assert above(seen) == before

    piloted(test)


def above(seen: Piloted) -> list[str]:
    """The lines on the screen without the bar beside them."""
    return [line[:70] for line in seen.shown().split("\n")]


def said(uid: str, words: str, **more: str) -> bytes:
    text = [{"type": "text", "text": words}]
    message = {"role": "assistant", "content": text, "model": "claude-opus-4-5", **more}
    return claude_line("assistant", uid, sessionId=SESSION, timestamp="2001-05-04T09:50:00.000Z", message=message)


HOSTILE = "heron \x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe \ufeff\x08 end"


def test_nothing_of_a_history_acts_on_the_terminal(tmp_path: Path) -> None:
    machine = SessionMachine(tmp_path)
    path = machine.home / CLAUDE_FOLDER / "hostile.jsonl"
    prompt = claude_line("user", "h1", HOSTILE, sessionId="hostile", cwd=f"/work/{HOSTILE}", gitBranch=HOSTILE)
    answer = {"role": "assistant", "content": [{"type": "text", "text": f"**{HOSTILE}** `{HOSTILE}`"}], "model": "m"}
    path.write_bytes(lines(prompt, claude_line("assistant", "h2", sessionId="hostile", message=answer)))
    assert "1 new session" in machine.shown("ingest")

    async def test() -> None:
        async with screen(machine.project, machine.environ, size=(140, 40)) as seen:
            await seen.press("f")
            await seen.type("heron")
            await seen.until_seen("1 title", "\\x1b]0;owned\\x07")
            assert seen.acting() == ""
            await seen.press("enter", "enter")
            await seen.opened("\\x1b]0;owned\\x07", "\\u202egnp.exe")
            assert seen.acting() == ""

    piloted(test)


def test_a_store_that_cannot_be_read_any_more_is_a_whole_sentence_and_read_again_when_it_is_back(
    tmp_path: Path,
) -> None:
    machine = SessionMachine(tmp_path)
    store = next(tmp_path.rglob("store.db"))
    kept = store.with_name("kept")

    def replace_store(by: Path) -> None:
        for beside in store.parent.glob("store.db-*"):
            beside.unlink()
        by.replace(store)

    async def test() -> None:
        async with screen(machine.project, machine.environ) as seen:
            await seen.until_seen("8 sessions")
            shutil.copy(store, kept)
            other = store.with_name("other")
            other.write_bytes(b"no store" * 4096)
            replace_store(other)
            await seen.press("enter")
            await seen.until_seen("is not a backstory store", "--store")
            assert "reading" not in seen.shown()
            await seen.press("s")
            await seen.until_seen("8 sessions")
            await seen.press("R")
            await seen.until_seen("is not a backstory store", "--store")
            await seen.press("s")
            replace_store(kept)
            await seen.until_seen("8 sessions")
            await seen.press("enter")
            await seen.opened("Fix the failing test")

    piloted(test)


def test_a_session_that_was_removed_meanwhile_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The key comes before the list has looked: it would choose another session else.
    monkeypatch.setattr(Background, "_changes", lambda _: iter(()))
    machine = SessionMachine(tmp_path)

    async def test() -> None:
        async with screen(machine.project, machine.environ) as seen:
            await seen.until_seen("8 sessions")
            await seen.press("end")
            await seen.until_seen("> ✓ Count requests")
            machine.shown("rm", "--yes", SESSION)
            await seen.press("enter")
            await seen.until_seen("No session")

    piloted(test)
