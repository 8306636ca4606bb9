"""A long session on the screen: its end is there before the rest is read, and it is the same end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from backstory.cli.tui import blocks, session_feed
from backstory.cli.tui.blocks import SessionView
from backstory.cli.tui.session_screen import SessionScreen
from backstory.conversation.tree import Point
from backstory.model import AssistantText, Complete, ToolCall, ToolResult, UserMessage
from backstory.workspace.history.blocks import content_of
from backstory.workspace.located import LocatedSession
from backstory.workspace.reader import Reader
from tests.support.clock import NOW, Clock
from tests.support.piloted import piloted, screen
from tests.support.two_stores import Place

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.workspace.history.blocks import Content, Key

pytestmark = pytest.mark.slow
TURNS = 60
VIEW = SessionView(columns=80, now=NOW)


class Long:
    """A machine with a session of many turns."""

    def __init__(self, root: Path) -> None:
        self.place = Place(root, Clock())
        store = self.place.home_store
        self.session = store.create_session("long")
        for number in range(TURNS):
            store.append_events(
                self.session,
                [
                    UserMessage(content=f"Question {number}"),
                    ToolCall(tool_name="Bash", input={"command": f"echo {number}"}, tool_use_id=f"call_{number}"),
                    ToolResult(tool_name="Bash", content=f"{number}\n", tool_use_id=f"call_{number}"),
                    AssistantText(text=f"- answer **{number}**\n- and more"),
                    Complete(success=True),
                ],
            )
        self.reader = Reader(self.place)

    @property
    def located(self) -> LocatedSession:
        return LocatedSession(self.place.home_store, self.place.home_store.session(self.session.uid))


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Long:
    return Long(tmp_path_factory.mktemp("long"))


def test_columns_say_what_the_outline_says(long: Long) -> None:
    outline, columns = long.reader.outline(long.located), long.reader.columns(long.located)
    assert [(each.seq, each.part) for each in outline] == [columns.key(n) for n in range(len(columns))]
    assert [each.kind for each in outline] == columns.kinds
    assert [each.turn for each in outline] == columns.turns
    assert [each.chars for each in outline] == [*columns.chars]


def test_the_end_is_the_same_at_the_first_look(long: Long) -> None:
    content = content_of(long.reader, long.located)
    whole = [line for n in range(len(content.blocks)) for line in blocks.drawn(long.reader, content, n, VIEW)]
    looked_at = blocks.first_look(long.reader, long.located, VIEW, 50)
    assert len(looked_at) == 50
    assert looked_at == whole[-50:]


@pytest.mark.parametrize("part", [1, 3], ids=["a prompt", "a result"])
def test_what_is_around_an_entry_is_the_same_at_the_first_look(long: Long, part: int) -> None:
    content = content_of(long.reader, long.located)
    goal = content.order.key(5 * (TURNS // 2) + part - 1)
    forms = {(goal[0] - 1, 0): blocks.COMPACT} if part == 3 else {}
    view = SessionView(columns=80, now=NOW, forms=forms)
    whole = [line for n in range(len(content.blocks)) for line in blocks.drawn(long.reader, content, n, view)]
    at = next(n for n, line in enumerate(whole) if line.key == goal or line.result == goal[0])
    assert blocks.first_look(long.reader, long.located, VIEW, 30, goal) == whole[at - 10 : at + 20]


def test_a_look_at_an_entry_reads_few_others(long: Long, monkeypatch: pytest.MonkeyPatch) -> None:
    read, columns = list[int](), Reader.part

    def noted(*given: Any) -> Any:
        found = columns(*given)
        assert found is not None
        read.append(len(found[0]))
        return found

    monkeypatch.setattr(Reader, "part", noted)
    goal = content_of(long.reader, long.located).order.key(5 * (TURNS // 2))
    assert blocks.first_look(long.reader, long.located, VIEW, 30, goal) != []
    assert read == [blocks.LOOKED_AT]


def test_what_a_branch_left_behind_needs_a_look_at_all(long: Long) -> None:
    store = long.place.home_store
    turns = store.turns(long.session)
    store.checkout(long.session, Point(turns[-2].uid, turns[-2].last_seq))
    assert blocks.first_look(long.reader, long.located, VIEW, 50) == []
    store.checkout(long.session, Point(turns[-1].uid, turns[-1].last_seq))
    assert blocks.first_look(long.reader, long.located, VIEW, 50) != []


def test_what_a_worker_is_given_is_described_at_once(long: Long) -> None:
    assert repr(content_of(long.reader, long.located)) == f"<{5 * TURNS} entries>"


@pytest.mark.parametrize("words", ["", "7"], ids=["the end", "a hit"])
def test_the_end_is_shown_while_the_rest_is_read(long: Long, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    may_read = threading.Event()

    def waits(reader: Reader, located: LocatedSession) -> Content:
        may_read.wait()
        return content_of(reader, located)

    monkeypatch.setattr(session_feed, "content_of", waits)
    environ = {"HOME": str(long.place.home), "BACKSTORY_HOME": str(long.place.home), "PATH": ""}

    async def test() -> None:
        async with screen(long.place.home, environ) as seen:
            try:
                await seen.until_seen("1 session")
                if words:
                    await seen.press("slash")
                    await seen.type(f'"question {words}"')
                    await seen.until_seen(" 1 in texts")
                    await seen.settled()
                    await seen.press("enter")
                await seen.press("enter")
                # A list of hits has the words, too.
                sought = f"❯ Question {words}" if words else f"answer {TURNS - 1}"
                await seen.until_seen("reading what is before", sought)
                before = [each[:70].rstrip() for each in seen.shown().splitlines()[:15]]
            finally:
                may_read.set()
            await seen.opened("S1 long · completed")
            # The bar beside the entries is there only when all of them are counted.
            assert [each[:70].rstrip() for each in seen.shown().splitlines()[:15]] == before

    piloted(test)


def test_what_is_shown_first_is_as_high_as_what_is_there_for_it(long: Long, monkeypatch: pytest.MonkeyPatch) -> None:
    heights, look, look_at, early = list[int](), blocks.first_look, SessionScreen.look_at, [0, 0]

    def asked_early(shown_by: SessionScreen) -> tuple[SessionView, int]:
        view, lines = look_at(shown_by)
        return view, early.pop() if early else lines

    def noted(reader: Reader, located: LocatedSession, view: SessionView, lines: int, goal: Key | None) -> Any:
        heights.append(lines)
        return look(reader, located, view, lines, goal)

    monkeypatch.setattr(blocks, "first_look", noted)
    monkeypatch.setattr(SessionScreen, "look_at", asked_early)
    environ = {"HOME": str(long.place.home), "BACKSTORY_HOME": str(long.place.home), "PATH": ""}

    async def test() -> None:
        async with screen(long.place.home, environ) as seen:
            await seen.until_seen("1 session")
            await seen.press("enter")
            opened = await seen.opened("S1 long · completed")
            assert heights == [opened.pane.size.height]

    piloted(test)
