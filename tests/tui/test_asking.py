"""The small dialogs of the screen: a question with yes or no, and a field for one line."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
from textual.app import App

from backstory.cli.tui.asking import YesOrNo, ask, ask_line
from backstory.derive import harmless

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from textual.pilot import Pilot

SMALLEST = (60, 15)
CONSEQUENCE = "The agent is stopped first; its output is kept. " * 4
YES = [("y",), ("left", "enter"), ("tab", "enter")]
NO = [("n",), ("escape",), ("enter",), ("tab", "tab", "enter")]
HOSTILE = "Remove \x1b]0;owned\x07 and \u202egnp?"


def shown(app: App[None]) -> str:
    return "\n".join("".join(part.text for part in strip) for strip in app.screen._compositor.render_strips())


@asynccontextmanager
async def asked(open_dialog: Callable[[App[None]], None]) -> AsyncIterator[tuple[App[None], Pilot[None]]]:
    app = App[None]()
    async with app.run_test(size=SMALLEST) as pilot:
        open_dialog(app)
        await pilot.pause()
        yield app, pilot


def test_a_question_is_agreed_to_by_keys_and_nothing_is_done_for_a_no() -> None:
    found = list[tuple[str, ...]]()

    async def test() -> None:
        async with asked(lambda _: None) as (app, pilot):
            for keys in (*YES, *NO):
                ask(app, "Stop it?", partial(found.append, keys))
                await pilot.press(*keys)
                assert not isinstance(app.screen, YesOrNo)

    asyncio.run(test())
    assert found == YES


def test_a_question_is_answered_by_the_mouse() -> None:
    found = list[bool]()

    async def test() -> None:
        async with asked(lambda app: ask(app, "Stop it?", lambda: found.append(True))) as (_, pilot):
            await pilot.click("AnswerLine")

    asyncio.run(test())
    assert found == [True]


def test_a_long_question_and_its_answers_fit_the_smallest_screen() -> None:
    async def test() -> None:
        async with asked(lambda app: ask(app, CONSEQUENCE, bool)) as (app, _):
            assert "y yes" in shown(app)
            assert "> n no" in shown(app)

    asyncio.run(test())


@pytest.mark.parametrize("open_dialog", [
    lambda app: ask(app, HOSTILE, bool), lambda app: ask_line(app, HOSTILE, bool, text=HOSTILE, note=HOSTILE),
])  # fmt: skip
def test_nothing_that_a_terminal_obeys_gets_out_of_a_dialog(open_dialog: Callable[[App[None]], None]) -> None:
    async def test() -> None:
        async with asked(open_dialog) as (app, pilot):
            await pilot.pause()
            assert "owned" in shown(app)
            assert [each for each in shown(app) if each != "\n" and harmless.clean(each) != each] == []

    asyncio.run(test())


def test_a_line_is_given_by_enter_and_left_by_escape() -> None:
    found = list[str]()

    async def test() -> None:
        async with asked(lambda _: None) as (app, pilot):
            for keys in (("c", "enter"), ("escape",), ("backspace", "backspace", "enter")):
                ask_line(app, "Its name?", found.append, text="ab")
                await pilot.press(*keys)
                assert len(app.screen_stack) == 1

    asyncio.run(test())
    assert found == ["abc"]
