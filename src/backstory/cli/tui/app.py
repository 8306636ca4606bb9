"""The application: which screen is shown, and what takes its place for a while."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, SystemCommand
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from backstory.cli import output
from backstory.cli.picker.picking import Asked, begun, ourselves
from backstory.cli.tui import actions
from backstory.cli.tui.actions import ANYWHERE, PANE, SESSIONS
from backstory.cli.tui.messages import ReportsWanted, Resumed
from backstory.cli.tui.sessions_screen import SessionsScreen
from backstory.workspace.history.sessions import SessionFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual import events
    from textual.app import ComposeResult

    from backstory.cli.app import App as CommandApp

SCROLLED = {
    "down": "down", "j": "down", "up": "up", "k": "up", "pagedown": "page_down", "J": "page_down",
    "pageup": "page_up", "K": "page_up", "home": "home", "end": "end",
}  # fmt: skip
"""The keys that scroll the help, and the method of what scrolls."""


def run_screen(app: CommandApp, wanted: SessionFilter) -> None:
    """Show the screen until a person leaves it."""
    asked = Asked(app, wanted, None, None)
    Backstory(app, SessionsScreen(begun(asked, wanted, None), asked)).run()


class Backstory(App[None]):
    """The screens of one folder's workspace."""

    TITLE = "backstory"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar = actions.bindings(ANYWHERE)
    CSS = """
    Screen { background: $background; }
    Help { align: center middle; }
    Help VerticalScroll { width: 70; max-width: 100%; height: auto; max-height: 100%; }
    Help VerticalScroll { border: round $primary; padding: 0 1; }
    Bar { background: $surface; }
    """

    def __init__(self, app: CommandApp, first: SessionsScreen) -> None:
        super().__init__()
        self.animation_level = "none"
        self._of, self._first = app, first

    def on_mount(self) -> None:
        """Show the sessions. A signal leaves as a key does: the terminal is given back, and what is typed is kept."""
        for each in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(each, self.exit)
        self.push_screen(self._first)

    def on_sessions_screen_chosen(self, chosen: SessionsScreen.Chosen) -> None:
        """Open a session."""
        from backstory.cli.tui.session_screen import SessionScreen  # the first screen is there without it

        self.push_screen(SessionScreen(self._of, chosen.row.uid, chosen.row.seq))

    def on_begun(self) -> None:
        """Write a prompt for a new session."""
        from backstory.cli.tui.session_screen import SessionScreen  # the first screen is there without it

        self.push_screen(SessionScreen(self._of, None))

    def on_reports_wanted(self, wanted: ReportsWanted) -> None:
        """Show the reports."""
        from backstory.cli.tui.reports_screen import ReportsScreen  # the first screen is there without it

        self.push_screen(ReportsScreen(self._of, wanted.here, everywhere=wanted.everywhere))

    def on_resumed(self, resumed: Resumed) -> None:
        """Give the terminal to the agent's own client, and take it back when that ends."""
        named = [f"--store={self._of.store_path}"] if self._of.store_path else []
        with self.suspend(), suppress(KeyboardInterrupt, EOFError):
            ended = subprocess.run(
                [*ourselves(), "resume", *named, resumed.uid], env=dict(self._of.environ), check=False
            )
            if ended.returncode:
                # What went wrong was said on the terminal, which the screen covers again.
                output.ask("Enter: back to the screen. ")
                input()
        self.refresh()

    @property
    def place(self) -> str:
        """The place whose keys count now."""
        return str(getattr(self.screen, "place", SESSIONS))

    def get_system_commands(self, screen: Screen[object]) -> Iterator[SystemCommand]:
        """Yield what the palette offers: all that keys do here."""
        for each in actions.of_place(self.place):
            yield SystemCommand(each.help, f"key {each.shown}", self._runs(screen, each.place, each.name))

    def _runs(self, screen: Screen[object], place: str, name: str) -> Callable[[], object]:
        done_by = self if place == ANYWHERE else getattr(screen, "pane", screen) if place == PANE else screen
        return lambda: self.call_later(self.run_action, name, done_by)

    def action_help(self) -> None:
        """Show the keys of the place."""
        self.push_screen(Help(actions.help_lines(self.place)))

    def action_leave(self) -> None:
        """Leave the screen."""
        self.exit()


class Help(ModalScreen[None]):
    """The keys of a place; keys that scroll do so, and any other one takes it away."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield Static("\n".join(output.for_screen(each, is_coloured=False) for each in self._lines), markup=False)

    def on_key(self, event: events.Key) -> None:
        """Scroll, or go back."""
        event.stop()
        if event.key in SCROLLED:
            getattr(self.query_one(VerticalScroll), f"scroll_{SCROLLED[event.key]}")(animate=False)
        else:
            self.dismiss()
