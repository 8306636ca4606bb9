"""The screen for tests: without a terminal, by a pilot that types, at a time that stands still."""

from __future__ import annotations

import asyncio
import time
import unicodedata
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from textual import events
from textual.css.stylesheet import Stylesheet
from textual.keys import REPLACED_KEYS, _character_to_key, _get_unicode_name_from_key

from backstory.cli.app import App as CommandApp
from backstory.cli.picker.picking import Asked, begun
from backstory.cli.tui.app import Backstory
from backstory.cli.tui.session_screen import SessionScreen
from backstory.cli.tui.sessions_screen import SessionsScreen
from backstory.derive import harmless
from backstory.workspace import opening
from backstory.workspace.history.sessions import SessionFilter
from tests.support.clock import NOW
from tests.support.going import DEADLINE_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from textual.css.model import RuleSet
    from textual.pilot import Pilot
    from textual.strip import Strip

    from backstory.workspace.workspace import Workspace

USUAL_SIZE = (80, 24)
NAMED = {"/": "slash", " ": "space", "?": "question_mark", "\x1b": "escape"}
"""Textual's names of some keys."""
_opened: list[AtNow] = []
_parsed: dict[tuple[Any, ...], list[RuleSet]] = {}
_parse = Stylesheet._parse_rules


def _parse_once(sheet: Stylesheet, *of: Any, **more: Any) -> list[RuleSet]:
    """The rules of a sheet, which every screen with the same colours has."""
    key = (frozenset(sheet._variables.items()), of, frozenset(more.items()))
    if key not in _parsed:
        _parsed[key] = _parse(sheet, *of, **more)
    return _parsed[key]


Stylesheet._parse_rules = _parse_once  # type: ignore[method-assign,assignment]


Opens: TypeAlias = "Callable[..., AbstractAsyncContextManager[Piloted]]"
"""Opens the screen of some machine."""


class AtNow(CommandApp):
    """A command's run whose clock stands still."""

    def new_workspace(self) -> Workspace:
        return opening.open_workspace(self.cwd, self.environ, store=self.store_path, now=lambda: NOW)


class Piloted:
    """The screen while it is open."""

    def __init__(self, app: Backstory, pilot: Pilot[None]) -> None:
        self.app, self._pilot = app, pilot

    async def press(self, *keys: str) -> None:
        for key in keys:
            self.app.post_message(_key(key))
            # A key goes from the screen to what has the focus, and what that says goes back.
            for _ in range(3):
                await self._pilot.pause(0)
            if any(each.is_running and each.group != "session" for each in self.app.workers):
                await self._pilot.pause()

    async def type(self, text: str) -> None:
        await self.press(*("space" if letter == " " else letter for letter in text))

    def keys(self, *names: str) -> None:
        """Press keys that come at once."""
        for name in names:
            self.app.post_message(events.Key(name, None))

    async def burst(self, text: str) -> None:
        """Type letters that come at once, as from a slow line."""
        for letter in text:
            self.app.post_message(events.Key(NAMED.get(letter, letter), letter))
        await self._pilot.pause()

    async def paste(self, text: str) -> None:
        self.app.post_message(events.Paste(text))
        await self._pilot.pause()

    async def click(self, column: int, line: int, times: int = 1) -> None:
        await self._pilot.click(offset=(column, line), times=times)

    def strips(self) -> list[Strip]:
        """The lines of the screen that is on top."""
        return self.app.screen._compositor.render_strips()

    def shown(self) -> str:
        """The text that is on the screen."""
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in self.strips())

    async def settled(self) -> None:
        """Wait until nothing is read or has to be drawn any more; a session is followed as long as it is open."""
        await self.until(lambda: not any(each.is_running and each.group != "session" for each in self.app.workers))
        await self._pilot.pause()

    def acting(self) -> str:
        """The characters on the screen that a terminal would obey."""
        return "".join(letter for letter in self.shown() if harmless.clean(letter) != letter)

    async def resize(self, columns: int, rows: int) -> None:
        await self._pilot.resize_terminal(columns, rows)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so; a test that waits too long fails here, with what is on the screen."""
        end = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < end, f"it did not come about:\n{self.shown()}"
            await self._pilot.pause(0.01)

    async def until_seen(self, *texts: str) -> None:
        await self.until(lambda: all(text in self.shown() for text in texts))

    async def until_gone(self, *texts: str) -> None:
        await self.until(lambda: not any(text in self.shown() for text in texts))

    async def opened(self, *texts: str) -> SessionScreen:
        """Wait until a session is open, all of what is in view is drawn, and these texts are seen."""
        await self.until(lambda: isinstance(self.app.screen, SessionScreen) and self.app.screen.pane.is_settled)
        await self.until_seen(*texts)
        screen = self.app.screen
        assert isinstance(screen, SessionScreen)
        return screen


def _key(name: str) -> events.Key:
    """The event of a key, by its name or its letter."""
    if len(name) == 1:
        return events.Key(name if name.isalnum() else _character_to_key(name), name)
    with suppress(KeyError):
        return events.Key(name, unicodedata.lookup(_get_unicode_name_from_key(REPLACED_KEYS.get(name, name))))
    return events.Key(name, None)


@asynccontextmanager
async def screen(
    cwd: Path, environ: Mapping[str, str], *, everywhere: bool = True, size: tuple[int, int] = USUAL_SIZE
) -> AsyncIterator[Piloted]:
    """Open the screen in a folder."""
    command = AtNow(environ, cwd)
    wanted = SessionFilter(everywhere=everywhere)
    asked = Asked(command, wanted, None, None)
    app = Backstory(command, SessionsScreen(begun(asked, wanted, None), asked))
    async with app.run_test(size=size, notifications=True) as pilot:
        _opened.append(command)
        yield Piloted(app, pilot)


def piloted(test: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run what a pilot does; its threads have ended when the stores are closed."""
    try:
        asyncio.run(test())
    finally:
        while _opened:
            _opened.pop().close()
