"""The application: which screen is shown, and what takes its place for a while."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import SystemCommand
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Static
from textual.worker import WorkerFailed, get_current_worker

from backstory.cli import output
from backstory.cli.picker.picking import Asked, begun
from backstory.cli.tui import actions, looks
from backstory.cli.tui.actions import ANYWHERE, MENU, PANE, SESSIONS, TAKE_LETTERS
from backstory.cli.tui.looks import TooSmall
from backstory.cli.tui.messages import EndSeen, ReportsWanted, Resumed
from backstory.cli.tui.notices import Notices
from backstory.cli.tui.painting import PaintingApp
from backstory.cli.tui.sessions_screen import SessionsScreen
from backstory.cli.tui.slots import SlotBar, Slots, slots_of
from backstory.config import ScreenSettings
from backstory.errors import BackstoryError
from backstory.runs.sent import ourselves
from backstory.sqlite_memory import share_pages
from backstory.workspace.history.sessions import SessionFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from textual.app import ComposeResult
    from textual.await_complete import AwaitComplete
    from textual.driver import Driver
    from textual.timer import Timer

    from backstory.cli.app import App as CommandApp
    from backstory.cli.tui.actions import KeyAction
    from backstory.cli.tui.slots import Slot

SCROLLED = {
    "down": "down", "j": "down", "up": "up", "k": "up", "pagedown": "page_down", "J": "page_down",
    "pageup": "page_up", "K": "page_up", "home": "home", "end": "end",
}  # fmt: skip
"""The keys that scroll the help, and the method of what scrolls."""

HELP_COLUMNS, HELP_EDGES = 70, 7
"""The width of the help, and of its frame with the bar and a column before it."""
STOPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""The signals at which a person leaves."""
PAGES_BYTES = 8 << 20
"""The pages of stores that all threads keep together."""
ARENAS_AT_MOST = -8
"""The number of glibc's option."""
KEPT_THEME = ScreenSettings.theme.key
TIDIED_AFTER_S = 1.0
"""A screen and what it shows hold each other, so Python would find them when many more values were made."""


def run_screen(app: CommandApp, wanted: SessionFilter) -> None:
    """Show the screen until a person leaves it. Raises what went wrong in it, once the terminal is as it was."""
    asked = Asked(app, wanted, None, None)
    screen = Backstory(app, SessionsScreen(begun(asked, wanted, None), asked))
    # What is there by now stays: looks for what is left over need not look at it.
    gc.freeze()
    share_pages(PAGES_BYTES)
    _share_memory()
    screen.run()
    if screen._exception is not None:
        raise screen._exception


def _driver() -> type[Driver] | None:
    if sys.platform == "win32":
        return None
    from backstory.cli.tui.keyboard import KeyboardDriver  # it needs a system with ``termios``

    return KeyboardDriver


def _share_memory() -> None:
    """Have all threads take memory from one place: each would keep what it once needed, where its library does so."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(ARENAS_AT_MOST, 1)


def _tidy() -> None:
    """Find what holds itself, and give what is free back to the system, where its library would keep it."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class Backstory(PaintingApp):
    """The screens of one folder's workspace."""

    TITLE = "backstory"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar = [*actions.bindings(ANYWHERE), Binding("ctrl+p", MENU, priority=True)]
    CSS = """
    Screen { background: $background; }
    ModalScreen, CommandPalette { background: transparent; }
    ToastRack { margin-bottom: 2; }
    Help { align: center middle; }
    Help VerticalScroll { width: 70; max-width: 100%; height: auto; max-height: 100%; }
    Help VerticalScroll { border: round $primary; padding: 0 1; }
    Bar { background: $surface; }
    """

    def __init__(self, app: CommandApp, first: SessionsScreen) -> None:
        super().__init__(driver_class=_driver(), ansi_color=True if looks.is_without_colours() else None)
        self.animation_level = "none"
        self._of, self._first = app, first
        for each in looks.themes():
            self.register_theme(each)
        self.theme = app.config.settings.screen.theme
        self.slots = Slots()
        """The runs at work."""
        self._notices = Notices(self, app.config.settings.screen.notice)
        self._tidying: Timer | None = None
        self._ends_seen = set[str]()
        """Turns whose end was on the screen."""

    async def on_event(self, event: events.Event) -> None:
        """Do what a key means before the next one is looked at: what is typed at once may open a field, and fill it."""
        waiting = getattr(self.screen_stack[-1], "waiting", None) if self._screen_stack else None
        if isinstance(event, events.Key) and waiting is not None and not event.is_forwarded:
            waiting.append(event)
        elif not isinstance(event, events.Key) or event.is_forwarded or not await self._did(event):
            await super().on_event(event)

    async def _did(self, event: events.Key) -> bool:
        """Return True if a key was obeyed. A field takes its own, and does so in their order."""
        if isinstance(self.screen, SessionsScreen) and self.screen.took(event):
            return True
        if self.focused is None or self.focused.check_consume_key("a", "a"):
            return False
        found = self.screen.active_bindings.get(event.key)
        return found is not None and await self.run_action(found.binding.action, found.node)

    def on_mount(self) -> None:
        """Show the sessions. A signal leaves as a key does: the terminal is given back, and what is typed is kept."""
        self._leave_at_signals()
        self.push_screen(self._first)

    def _handle_exception(self, error: Exception) -> None:
        failed = error.error if isinstance(error, WorkerFailed) else error
        super()._handle_exception(failed if isinstance(failed, Exception) else error)

    def _fatal_error(self) -> None:
        # Textual prints what was in the variables, which may be anybody's text; who ran the screen is told instead.
        self._close_messages_no_wait()

    def _leave_at_signals(self) -> None:
        for each in STOPS:
            asyncio.get_running_loop().add_signal_handler(each, self.exit)

    def on_resize(self, event: events.Resize) -> None:
        """Have a sentence over everything while there is no room, also where that shrinks while it is open."""
        if self.is_back and event.size == self.size:
            # The driver says so to who took the terminal back, which is painted whole already.
            self.is_back = False
        else:
            self.painted.forget()
        is_covered = isinstance(self.screen, TooSmall)
        if looks.is_too_small(event.size) and not is_covered:
            self.push_screen(TooSmall())
        elif is_covered and not looks.is_too_small(event.size):
            self.pop_screen()

    def on_unmount(self) -> None:
        """Give the terminal its title back."""
        self._notices.close()

    def pop_screen(self) -> AwaitComplete:
        """Go back to the screen before; the memory of what was shown is taken back when no key comes for a moment."""
        self._tidy_soon()
        return super().pop_screen()

    def _tidy_soon(self) -> None:
        if self._tidying is not None:
            self._tidying.stop()
        self._tidying = self.set_timer(TIDIED_AFTER_S, _tidy)

    def on_sessions_screen_chosen(self, chosen: SessionsScreen.Chosen) -> None:
        """Open a session."""
        self._open(chosen.row.uid, chosen.row.seq)

    def on_begun(self) -> None:
        """Write a prompt for a new session."""
        self._open(None)

    def _open(self, uid: str | None, seq: int | None = None) -> None:
        from backstory.cli.tui.session_screen import SessionScreen  # the first screen is there without it

        if isinstance(self.screen, SessionScreen):
            # A session takes the place of another one, so Esc leads to the list.
            self.pop_screen()
        if uid is not None:
            self.hold()
        self.push_screen(SessionScreen(self._of, uid, seq))
        self._tidy_soon()
        if uid is not None:
            self._first.mark_read(uid)

    # runs -----------------------------------------------------------------------------------------------------------

    def on_history_changed(self) -> None:
        """Look at what runs."""
        self.run_worker(self._look_at_runs, thread=True, group="slots", exclusive=True)

    def _look_at_runs(self) -> None:
        worker = get_current_worker()
        try:
            with self._of.new_workspace() as workspace:
                now = slots_of(workspace.scheduler.runs(), workspace.reader)
        except BackstoryError:
            # It is asked again at the next change, and what is shown stays.
            return
        if not worker.is_cancelled:
            self.call_from_thread(self._take_slots, now)

    def _take_slots(self, now: Sequence[Slot]) -> None:
        """Show what runs, and tell of what ended."""
        before, self.slots = self.slots, self.slots.with_runs(now)
        ended = self.slots.ended_since(before)
        if ended:
            news = (each for each in ended if each.uid != self._uid_on_screen and each.turn not in self._ends_seen)
            self._first.mark_unread(each.uid for each in news)
            self._notices.tell(ended)
        for screen in self.screen_stack:
            self._show_slots(screen)

    def on_end_seen(self, seen: EndSeen) -> None:
        """Mark no session as unread whose end was read, also if it is known only later that the run is over."""
        self._ends_seen |= seen.turns
        if seen.turns and seen.uid in self._first.unread:
            self._first.mark_read(seen.uid)

    def _show_slots(self, screen: Screen[object]) -> None:
        for bar in screen.query(SlotBar):
            bar.show(self.slots)

    @property
    def _uid_on_screen(self) -> str | None:
        uid = getattr(self.screen, "uid", None)
        return uid if isinstance(uid, str) else None

    def action_slot(self, number: int) -> None:
        """Show the session of a run."""
        slot = self.slots.of(number)
        if slot is not None and slot.uid != self._uid_on_screen:
            self._open(slot.uid)

    def on_reports_wanted(self, wanted: ReportsWanted) -> None:
        """Show the reports."""
        from backstory.cli.tui.reports_screen import ReportsScreen  # the first screen is there without it

        self.hold()
        self.push_screen(ReportsScreen(self._of, wanted.here, everywhere=wanted.everywhere))

    def on_resumed(self, resumed: Resumed) -> None:
        """Give the terminal to the agent's own client, and take it back when that ends."""
        named = [f"--store={self._of.store_path}"] if self._of.store_path else []
        for each in STOPS:
            # The loop waits for the client, so nothing here would obey; the terminal is the client's.
            asyncio.get_running_loop().remove_signal_handler(each)
        with self.suspend(), suppress(KeyboardInterrupt, EOFError):
            ended = subprocess.run(
                [*ourselves(), "resume", *named, resumed.uid], env=dict(self._of.environ), check=False
            )
            if ended.returncode:
                # What went wrong was said on the terminal, which the screen covers again.
                output.ask("Enter: back to the screen. ")
                input()
        self._leave_at_signals()
        self.painted.forget()
        self.refresh()

    @property
    def place(self) -> str:
        """The place whose keys count now."""
        return _place_of(self.screen)

    def get_system_commands(self, screen: Screen[object]) -> Iterator[SystemCommand]:
        """Yield what the palette offers: all that keys do here."""
        # The palette is a screen of its own by now: the place is the one that it was opened in.
        for each in actions.of_place(_place_of(screen)):
            if not each.is_called_with_key and each.name != MENU:
                yield SystemCommand(each.help, f"key {each.shown}", self._runs(screen, each))
        for n, slot in enumerate(self.slots.all, 1):
            shown = output.for_screen(f"Go to {slot.label}, {slot.agent}", is_coloured=False)
            yield SystemCommand(shown, f"key {n}", partial(self.action_slot, n))

    def _runs(self, screen: Screen[object], each: KeyAction) -> Callable[[], object]:
        if each.place in TAKE_LETTERS and screen.focused is not None:
            # A field does it, by its key.
            return partial(self.call_later, screen.focused.post_message, events.Key(each.keys.split(",")[0], None))
        done_by = self if each.place == ANYWHERE else getattr(screen, "pane", screen) if each.place == PANE else screen
        return lambda: self.call_later(self.run_action, each.name, done_by)

    def action_command_palette(self) -> None:
        """Show the palette, where there is room."""
        if not isinstance(self.screen, TooSmall):
            super().action_command_palette()

    def action_help(self) -> None:
        """Show the keys of the place."""
        self.push_screen(Help(self.place))

    def action_theme(self) -> None:
        """Show other colours, and keep the choice."""
        from backstory.cli.tui.branching import in_thread  # the first screen is there without it

        self.theme = looks.next_theme(self.theme)
        keep, said = partial(self._of.config.set, KEPT_THEME, self.theme), f"Colours: {self.theme}"
        in_thread(self.screen, "theme", keep, lambda _: self._tell(said), self._tell)

    def _tell(self, said: str) -> None:
        self.notify(output.for_screen(said, is_coloured=False), markup=False)

    def action_leave(self) -> None:
        """Leave the screen."""
        self.exit()


def _place_of(screen: Screen[object]) -> str:
    return str(getattr(screen, "place", SESSIONS))


class Help(ModalScreen[None]):
    """The keys of a place; keys that scroll do so, and any other one takes it away."""

    def __init__(self, about: str) -> None:
        super().__init__()
        self._about, self._lines = about, Static(markup=False)

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield self._lines

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the width."""
        lines = actions.help_lines(self._about, min(event.size.width, HELP_COLUMNS) - HELP_EDGES)
        self._lines.update("\n".join(output.for_screen(each, is_coloured=False) for each in lines))

    def on_click(self) -> None:
        """Go back."""
        self.dismiss()

    def on_key(self, event: events.Key) -> None:
        """Scroll, or go back."""
        event.stop()
        if event.key in SCROLLED:
            getattr(self.query_one(VerticalScroll), f"scroll_{SCROLLED[event.key]}")(animate=False)
        else:
            self.dismiss()
