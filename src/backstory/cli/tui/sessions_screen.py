"""The sessions: a list, a field that narrows it or searches everything, and a preview: the picker's state, drawn."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from backstory.cli import output
from backstory.cli.picker import layout, state
from backstory.cli.picker.picking import Background
from backstory.cli.picker.state import PREVIEW_FROM, Key, PickRow, State, StoreChanged
from backstory.cli.tui import actions
from backstory.cli.tui.actions import FIELD, SESSIONS
from backstory.cli.tui.messages import Begun, HistoryChanged, ReportsWanted, Resumed
from backstory.cli.tui.slots import SlotBar
from backstory.cli.tui.strips import marked, note_lines, strip_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from textual.app import ComposeResult
    from textual.timer import Timer

    from backstory.cli.picker.picking import Asked

WHEN_COLUMNS, COST_COLUMNS, TURNS_COLUMNS, NUMBER_COLUMNS = 11, 8, 5, 5
AGENT_COLUMNS, PROJECT_COLUMNS, BRANCH_COLUMNS = 8, 16, 18
WHEN_FROM, AGENT_FROM, COST_FROM, PROJECT_FROM, TURNS_FROM, BRANCH_FROM = 50, 64, 76, 90, 100, 120
"""The columns of a screen from which these have a place."""
GAP = "  "
UNREAD = "◐"
"""The sign of a session whose run ended while nobody looked at it."""
WHEEL_ROWS = 3
TYPED = {
    "left": "left", "right": "right", "home": "ctrl-a", "end": "ctrl-e", "backspace": "backspace", "delete": "delete",
    "down": "down", "up": "up", "pagedown": "pagedown", "pageup": "pageup", "tab": "tab", "ctrl+a": "ctrl-a",
    "ctrl+e": "ctrl-e", "ctrl+u": "ctrl-u", "ctrl+w": "ctrl-w",
}  # fmt: skip
"""The keys of the field, by Textual's names and the picker's."""


class SessionsScreen(Screen[None]):
    """The list of sessions. Posts ``Chosen`` for the one to open."""

    place = SESSIONS

    CSS = "SessionsScreen { overflow: hidden; }"
    BINDINGS: ClassVar = actions.bindings(SESSIONS)

    class Chosen(Message):
        """A session, or a record of it with the words by which it was found."""

        def __init__(self, row: PickRow, words: str) -> None:
            super().__init__()
            self.row, self.words = row, words

    class _Woken(Message):
        """A thread has answers."""

    def __init__(self, first: State, asked: Asked) -> None:
        super().__init__()
        self._asked = asked
        known = [each.question for each in (*first.pages, first.found) if each is not None]
        self._asking = Background(asked, self._wake, known)
        self.state = first
        self.is_typing = False
        """True while letters go into the field."""
        self.unread = frozenset[str]()
        """The sessions whose last run ended while nobody looked at them."""
        self._pressed_s: float | None = None
        self._timer: Timer | None = None
        self._table = SessionTable()

    def compose(self) -> ComposeResult:
        yield SlotBar()
        yield self._table

    def on_mount(self) -> None:
        """Begin to ask, and take the size."""
        self._asking.__enter__()
        self._table.focus()
        self.post_message(HistoryChanged())

    def on_unmount(self) -> None:
        """End the threads."""
        self._asking.__exit__()

    def mark_unread(self, uids: Iterable[str]) -> None:
        """Mark sessions whose run ended while nobody looked at them."""
        self.unread |= frozenset(uids)
        self._table.redraw()

    def mark_read(self, uid: str) -> None:
        """Take the mark away."""
        self.unread -= {uid}
        self._table.redraw()

    def _wake(self) -> None:
        self.post_message(self._Woken())

    def on_sessions_screen__woken(self) -> None:
        """Take what was answered."""
        now, answers = self.state, self._asking.answers()
        for answer in answers:
            now = state.answered(now, answer)
        self.become(now)
        if any(isinstance(each, StoreChanged) for each in answers):
            self.post_message(HistoryChanged())

    def become(self, now: State) -> None:
        """Show another state, and ask for what it lacks."""
        self.state = now
        idle_ms = 0 if self._pressed_s is None else (time.monotonic() - self._pressed_s) * 1000
        self._asking.want([*state.questions(now, idle_ms)])
        if self._timer is not None:
            self._timer.stop()
        if self._pressed_s is not None and idle_ms < state.PREFIX_MS:
            self._timer = self.set_timer((state.PREFIX_MS - idle_ms) / 1000 + 0.001, lambda: self.become(self.state))
        self._table.redraw()

    def took(self, event: events.Key) -> bool:
        """Return True if the field, while it has the keys, took one."""
        if not self.is_typing:
            return False
        if event.key in ("escape", "enter"):
            self.is_typing = False
            self.become(self.state)
        elif event.key in TYPED:
            self._pressed_s = time.monotonic()
            self.action_move(TYPED[event.key])
        elif event.character is not None and event.is_printable:
            self._type(event.character)
        else:
            return False
        return True

    def on_paste(self, event: events.Paste) -> None:
        """Take what is pasted into the field, as one line."""
        if self.is_typing:
            self._type(" ".join(event.text[: 2 * state.TEXT_MAX].split()))

    def _type(self, text: str) -> None:
        self._pressed_s = time.monotonic()
        self.become(state.typed(self.state, text))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While letters go into the field, keys have no other meaning."""
        return not self.is_typing or action not in actions.names(SESSIONS)

    # actions --------------------------------------------------------------------------------------------------------

    def action_move(self, key: str) -> None:
        """Do what a key of the picker does: another row, another scope, another place in the field."""
        self.become(state.pressed(self.state, Key(key)))

    def action_filter(self) -> None:
        """Have letters narrow the list by title."""
        self._begin(replace(self.state, titles_only=True, hits_only=False, found=None))

    def action_search(self) -> None:
        """Have letters search everything that was said."""
        self._begin(replace(self.state, titles_only=False, hits_only=True, found=None))

    def _begin(self, now: State) -> None:
        self.is_typing = True
        self.become(state.pressed(replace(now, cursor=len(now.text)), Key("ctrl-u")))

    def click_on_field(self, column: int) -> None:
        """Have letters go into the field, or change the scope, whose words are behind it."""
        if column >= layout.field_columns(self.state):
            self.action_move("tab")
        elif not self.is_typing and not self.state.text:
            self.action_filter()
        else:
            self.is_typing = True
            self.become(self.state)

    def action_clear(self) -> None:
        """Take the filter away; without one go back from a list of some sessions."""
        if self.state.text:
            self.become(state.pressed(replace(self.state, cursor=len(self.state.text)), Key("ctrl-u")))
        elif self.state.fixed:
            self.app.pop_screen()

    def action_open(self) -> None:
        """Open the session at the place that was found."""
        row = self.state.row
        if row is not None:
            self.post_message(self.Chosen(row, self.state.marked if row.seq is not None else ""))

    def action_begin(self) -> None:
        """Write a prompt for a new session."""
        self.post_message(Begun())

    def action_reports(self) -> None:
        """Show the reports."""
        if self.state.fixed:
            # The report is below it.
            self.app.pop_screen()
        else:
            self.post_message(ReportsWanted(self._asked.place, everywhere=self.state.is_everywhere))

    def action_resume(self) -> None:
        """Resume the session in its own agent."""
        if self.state.row is not None:
            self.post_message(Resumed(self.state.row.uid))


class SessionTable(Widget, can_focus=True):
    """Draws the screen's state: the field, the list, the preview, and the foot."""

    DEFAULT_CSS = "SessionTable { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._drawn: list[tuple[str, int | None]] = []

    def redraw(self) -> None:
        """Have the lines drawn anew that are others now: all of them would be too much for a slow line."""
        screen, before = self._of, self._drawn
        at = layout.cursor(screen.state) if screen.is_typing else None
        self._drawn = [(_line(screen, y), None if y else at) for y in range(self.size.height)]
        same = zip(self._drawn, before, strict=False)
        changed = [y for y, (now, old) in enumerate(same) if now != old] + [*range(len(before), len(self._drawn))]
        if changed:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    @property
    def _of(self) -> SessionsScreen:
        assert isinstance(self.screen, SessionsScreen)
        return self.screen

    def on_resize(self, event: events.Resize) -> None:
        """Take another size."""
        self._of.become(state.resized(self._of.state, event.size.width, event.size.height))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Go down some rows."""
        self._of.become(state.moved(self._of.state, WHEEL_ROWS))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Go up some rows."""
        self._of.become(state.moved(self._of.state, -WHEEL_ROWS))

    def on_click(self, event: events.Click) -> None:
        """Choose the row that is clicked, a second click opens it; or do what a key of the foot does.

        A click on the field has letters go there, one on the words beside it changes the scope.
        """
        screen = self._of
        if event.y == 0:
            screen.click_on_field(event.x)
            return
        for key in actions.clicked(_line(screen, event.y), event.x):
            self.app.post_message(key)
        now, above = screen.state, bool(layout.heading(screen.state))
        at = now.top + event.y - 1 - above
        if 1 + above <= event.y <= now.list_lines and at < len(now.rows):
            if at == now.chosen and event.chain > 1:
                screen.action_open()
            screen.become(state.moved(now, at - now.chosen))

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen."""
        now, columns = self._of.state, self.size.width
        strip = strip_of(_line(self._of, y), columns).apply_style(self.rich_style)
        if y == 0 and self._of.is_typing:
            at = layout.cursor(now)
            return marked(strip, at, at + 1)
        return strip


def _line(screen: SessionsScreen, y: int) -> str:
    """A line of the screen: the field, the list with its heading, a preview, and the foot."""
    now = screen.state
    if y == 0:
        return layout.field_line(now)
    foot = _foot(now, is_typing=screen.is_typing)
    if y >= now.lines - len(foot):
        # Before the first size is known there may be more lines.
        return foot[min(y - now.lines, -1)]
    above = layout.heading(now, "n")
    if y == 1 and above:
        return output.style(output.one_line(above, now.columns), dim=True)
    if y <= now.list_lines or now.lines < PREVIEW_FROM:
        # A heading takes a line of the list, so the chosen row may be one below it.
        top = max(now.top, now.chosen - (now.list_lines - bool(above)) + 1)
        at = top + y - 1 - bool(above)
        if at >= len(now.rows):
            return ""
        row = now.rows[at]
        row = replace(row, mark=UNREAD, colour="cyan") if row.uid in screen.unread else row
        return _row(now, row, is_chosen=at == now.chosen)
    lines = list(layout.preview_lines(now))
    at = y - now.list_lines - 1
    return lines[at] if at < len(lines) else ""


def _row(now: State, row: PickRow, *, is_chosen: bool) -> str:
    """A session in a line: how it ended, its number, its title in what room there is, and facts about it."""
    mark = output.style(row.mark, fg=row.colour) if row.colour and not is_chosen else row.mark
    # Another project's numbers mean nothing here.
    has_number = now.columns >= AGENT_FROM and not now.is_everywhere
    number = f"{layout.in_column(row.number, NUMBER_COLUMNS)}{GAP}" if has_number else ""
    head = f"{'> ' if is_chosen else '  '}{output.padded(mark, 1)} {number}"
    # The words around a hit need the room that facts about its session would take.
    behind = "".join(f"{GAP}{cell}" for cell in _cells(now, row, has_facts=not row.snippet))
    room = max(now.columns - output.columns_shown(head) - output.columns(behind), 8)
    about = layout.about(row, room, is_plain=is_chosen)
    line = f"{head}{output.padded(about, room)}{behind}"
    return output.style(line, reverse=True) if is_chosen else line


def _cells(now: State, row: PickRow, *, has_facts: bool) -> Iterator[str]:
    """The facts behind the title, as many as the screen has room for; without ``has_facts`` where and when it was."""
    if now.columns >= AGENT_FROM:
        yield layout.in_column(row.agent, AGENT_COLUMNS)
    if now.columns >= PROJECT_FROM and now.is_everywhere:
        yield layout.in_column(row.project, PROJECT_COLUMNS)
    if now.columns >= BRANCH_FROM and has_facts:
        yield layout.in_column(row.branch, BRANCH_COLUMNS)
    if now.columns >= TURNS_FROM and has_facts:
        yield f"{row.turns or '':>{TURNS_COLUMNS}}"
    if now.columns >= WHEN_FROM:
        yield layout.in_column(row.when, WHEN_COLUMNS)
    if now.columns >= COST_FROM and has_facts:
        yield f"{row.cost:>{COST_COLUMNS}}"


def _foot(now: State, *, is_typing: bool) -> list[str]:
    """The keys, or a sentence whole, over the end of the preview."""
    if now.note:
        return note_lines(now.note, now.columns)
    return [actions.foot(FIELD if is_typing else SESSIONS, now.columns)]
