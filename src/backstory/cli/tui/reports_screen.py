"""The reports: a tab for each, a period, and lines that open the sessions behind them."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.geometry import Size
from textual.message import Message
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import get_current_worker

from backstory.chronicle import tabs
from backstory.chronicle.report import OfGroup, OfSession, OfSessions
from backstory.chronicle.tabs import PERIODS, TABS, TabQuestion
from backstory.cli import output
from backstory.cli.picker.state import PickRow
from backstory.cli.tui import actions, reports
from backstory.cli.tui.actions import REPORTS
from backstory.cli.tui.bars import Bar
from backstory.cli.tui.painting import hold, let_go
from backstory.cli.tui.sessions_screen import SessionsScreen
from backstory.cli.tui.strips import marked, note_lines, strip_of
from backstory.cli.views.report_view import ReportLine
from backstory.errors import BackstoryError
from backstory.workspace.history.sessions import SessionFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events
    from textual.app import ComposeResult

    from backstory.chronicle.report import About, Report
    from backstory.chronicle.tabs import Tell
    from backstory.cli.app import App as CommandApp
    from backstory.cli.picker.picking import Asked
    from backstory.cli.picker.state import State

GUTTER = "  "
CURSOR = "> "
READING = "reading …"
TELLS_S = 0.1
"""The time between two words about how far a report is."""


class _Unwanted(Exception):
    """Nobody waits for the report any more."""


class ReportsScreen(Screen[None]):
    """The reports of a project or of every one. ``here``: the name of the project."""

    place = REPORTS

    CSS = "ReportsScreen { overflow: hidden; }"
    BINDINGS: ClassVar = actions.bindings(REPORTS)

    class _Answer(Message):
        """An answer of a thread: how far a report is, the report, its lines, or why there is none."""

        def __init__(self, asked: TabQuestion) -> None:
            super().__init__()
            self.asked = asked

    class _Told(_Answer):
        """The progress of a report, in words."""

        def __init__(self, asked: TabQuestion, words: str) -> None:
            super().__init__(asked)
            self.words = words

    class _Read(_Answer):
        """A report, and the sessions that it is about."""

        def __init__(self, asked: TabQuestion, wanted: SessionFilter, report: Report) -> None:
            super().__init__(asked)
            self.wanted, self.report = wanted, report

    class _Drawn(_Answer):
        """The lines of a report, for so many columns."""

        def __init__(self, asked: TabQuestion, report: Report, columns: int, lines: list[ReportLine]) -> None:
            super().__init__(asked)
            self.report, self.columns, self.lines = report, columns, lines

    class _Found(_Answer):
        """The list of the sessions behind a row; None without any."""

        def __init__(self, asked: TabQuestion, sessions: tuple[State, Asked] | None) -> None:
            super().__init__(asked)
            self.sessions = sessions

    class _Refused(_Answer):
        """A report that cannot be read, and why."""

        def __init__(self, asked: TabQuestion, why: str) -> None:
            super().__init__(asked)
            self.why = why

    def __init__(self, app: CommandApp, here: str, *, everywhere: bool) -> None:
        super().__init__()
        self._of, self._here = app, here
        self._period: int | None = None
        """The period that a person chose; None: that of each report's command."""
        self.asked = TabQuestion(tab=0, period=TABS[0].period, everywhere=everywhere)
        self._report: Report | None = None
        self._wanted = SessionFilter()
        self._known: dict[TabQuestion, tuple[object, SessionFilter, Report]] = {}
        """Reports that were read, with the state of the stores before."""
        self._told, self._why = "", ""
        self.pane, self._head, self._foot = ReportPane(), _Head(), Bar()

    @property
    def is_settled(self) -> bool:
        """True if the report that was asked for last is on the screen, and nothing is read."""
        return self._report is not None and self.pane.is_drawn and not self._told

    def compose(self) -> ComposeResult:
        yield self._head
        yield self.pane
        yield self._foot

    def on_mount(self) -> None:
        """Begin to read."""
        self.pane.focus()
        self._ask(self.asked)

    def on_resize(self) -> None:
        """Show the keys that there is room for."""
        self._say(self._why)

    def _say(self, why: str) -> None:
        """Show a sentence at the foot; '' for the keys."""
        self._why, columns = why, self.app.size.width
        self._foot.show("\n".join(note_lines(why, columns)) if why else actions.foot(REPORTS, columns))

    # reading --------------------------------------------------------------------------------------------------------

    def _ask(self, asked: TabQuestion) -> None:
        hold(self)
        self.asked, self._report, self._told = asked, None, READING
        self.pane.leave()
        self._head.refresh()
        self._say("")
        # A list that was to be opened is of a report that nobody looks at any more.
        self.workers.cancel_group(self, "sessions")
        self._work("report", asked, partial(self._read, asked))

    def _work(self, group: str, asked: TabQuestion, answer: Callable[[Tell], _Answer]) -> None:
        """Have a thread of its own answer; a new question of a group ends the one before."""
        work = partial(self._answer, asked, answer)
        self.run_worker(work, thread=True, group=group, exclusive=True)

    def _answer(self, asked: TabQuestion, answer: Callable[[Tell], _Answer]) -> None:
        worker, told_s = get_current_worker(), time.monotonic()

        def tell(done: int, total: int | None) -> None:
            nonlocal told_s
            if worker.is_cancelled:
                raise _Unwanted
            if done and time.monotonic() - told_s >= TELLS_S:
                told_s = time.monotonic()
                self.post_message(self._Told(asked, f"reading {done:,}{f' of {total:,}' if total else ''} …"))

        try:
            found = answer(tell)
            tell(0, None)
        except _Unwanted:
            return
        except BackstoryError as refused:
            found = self._Refused(asked, output.one_liner(str(refused)))
        self.post_message(found)

    def _read(self, asked: TabQuestion, tell: Tell) -> _Answer:
        """Read a report, unless nothing changed since it was read."""
        token = self._of.reader.change_token()
        before = self._known.get(asked)
        if before is None or before[0] != token:
            before = self._known[asked] = (token, *tabs.read(self._of.reader, self._of.workspace.now(), asked, tell))
        return self._Read(asked, *before[1:])

    def on_reports_screen__told(self, told: _Told) -> None:
        """Say how far it is; what takes so long is not waited for with another report in sight."""
        if told.asked == self.asked:
            self.pane.clear()
        self._tell(told.asked, told.words)

    def on_reports_screen__refused(self, refused: _Refused) -> None:
        """Say why there is no report."""
        if refused.asked == self.asked:
            self.pane.clear()
            self._tell(refused.asked, "")
            self._say(refused.why)

    def _tell(self, asked: TabQuestion, words: str) -> None:
        if asked == self.asked:
            self._told = words
            self._head.refresh()

    def on_reports_screen__read(self, read: _Read) -> None:
        """Take a report, unless another one was asked for since."""
        if read.asked == self.asked:
            self._report, self._wanted = read.report, read.wanted
            self._tell(read.asked, "")
            self.draw()

    def draw(self) -> None:
        """Have the report drawn for the columns there are."""
        if self._report is not None:
            self._work("lines", self.asked, partial(self._draw, self.asked, self._report, self.pane.columns))

    def _draw(self, asked: TabQuestion, report: Report, columns: int, tell: Tell) -> _Answer:
        return self._Drawn(asked, report, columns, reports.drawn(report, columns, tell))

    def on_reports_screen__drawn(self, drawn: _Drawn) -> None:
        """Show lines, unless they are of another report or another width."""
        if drawn.report is self._report and drawn.columns == self.pane.columns:
            self.pane.show(drawn.lines)
            let_go(self)

    def _find(self, asked: TabQuestion, about: OfSessions | OfGroup, words: str, tell: Tell) -> _Answer:
        return self._Found(asked, reports.sessions_behind(self._of, self._wanted, about, words, tell))

    def on_reports_screen__found(self, found: _Found) -> None:
        """Show the sessions behind a row, unless a person went on since."""
        self._tell(found.asked, "" if found.sessions is not None else "no sessions")
        if found.sessions is not None and found.asked == self.asked and self.is_current:
            self.app.push_screen(SessionsScreen(*found.sessions))

    # what is said ---------------------------------------------------------------------------------------------------

    def head_lines(self) -> list[str]:
        """The tabs, and what the report is about."""
        where = "every project" if self.asked.everywhere else self._here
        about = output.fact_lines((where, PERIODS[self.asked.period].words, self._told), self.size.width)
        return [self._head.tabs(self.asked.tab), output.style(next(about, ""), dim=True)]

    # keys -----------------------------------------------------------------------------------------------------------

    def action_tab(self, number: int) -> None:
        """Show the report of a tab."""
        period = TABS[number].period if self._period is None else self._period
        self._ask(TabQuestion(tab=number, period=period, everywhere=self.asked.everywhere))

    def action_next_tab(self, by: int) -> None:
        """Show the report of the next tab, or of the one before."""
        self.action_tab((self.asked.tab + by) % len(TABS))

    def action_period(self, number: int) -> None:
        """Choose a period, for all reports."""
        self._period = number
        self.action_tab(self.asked.tab)

    def action_longer(self, by: int) -> None:
        """Choose a longer period, or a shorter one."""
        self.action_period(min(max(self.asked.period + by, 0), len(PERIODS) - 1))

    def action_scope(self) -> None:
        """Change between this project and every one."""
        asked = self.asked
        self._ask(TabQuestion(tab=asked.tab, period=asked.period, everywhere=not asked.everywhere))

    def action_step(self, by: int) -> None:
        """Choose the next line that opens something."""
        self._go_on()
        self.pane.step(by)

    def action_page(self, by: int) -> None:
        """Go down a page, or up."""
        self._go_on()
        self.pane.page(by)

    def action_ends(self, by: int) -> None:
        """Go to the beginning, or to the end."""
        self._go_on()
        self.pane.ends(by)

    def _go_on(self) -> None:
        """Have no list open any more for a row that is left."""
        self.workers.cancel_group(self, "sessions")
        if self._report is not None:
            self._tell(self.asked, "")

    def action_open(self) -> None:
        """Open what the chosen line is about."""
        about = self.pane.about
        if isinstance(about, OfSession):
            self.post_message(SessionsScreen.Chosen(PickRow(uid=about.uid, seq=about.seq), ""))
        elif isinstance(about, OfSessions | OfGroup):
            self._tell(self.asked, READING)
            words = reports.words_about(about, self.pane.words, self.asked)
            self._work("sessions", self.asked, partial(self._find, self.asked, about, words))

    def action_close(self) -> None:
        """Go back to the sessions."""
        self.app.pop_screen()


class _Head(Widget):
    """The tabs, and a line about the report."""

    DEFAULT_CSS = "_Head { height: 2; }"

    @property
    def _of(self) -> ReportsScreen:
        assert isinstance(self.screen, ReportsScreen)
        return self.screen

    def tabs(self, chosen: int) -> str:
        """The line of tabs; the one that is shown is in brackets, too."""
        named = (f"[{n} {tab.name}]" if n - 1 == chosen else f" {n} {tab.name} " for n, tab in enumerate(TABS, 1))
        return " ".join(output.style(each, bold=n == chosen, reverse=n == chosen) for n, each in enumerate(named))

    def render_line(self, y: int) -> Strip:
        """Return a line."""
        line = output.cut(self._of.head_lines()[y], self.size.width)
        return strip_of(line, self.size.width).apply_style(self.rich_style)

    def on_click(self, event: events.Click) -> None:
        """Show the report whose tab is clicked."""
        start = 0
        for number, tab in enumerate(TABS):
            end = start + len(f"[{number + 1} {tab.name}]")
            if event.y == 0 and start <= event.x < end:
                self._of.action_tab(number)
            start = end + 1


class ReportPane(ScrollView, can_focus=True, inherit_bindings=False):
    """The lines of a report. Keys go from one that opens something to the next."""

    DEFAULT_CSS = "ReportPane { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; overflow-y: scroll; }"

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[ReportLine] = []
        self._stops: list[int] = []
        """The lines that keys go to: the first of each row that opens something."""
        self._chosen = 0
        self.is_drawn = False

    @property
    def columns(self) -> int:
        """The columns that lines have: without the gutter and what parts them from the bar."""
        return max(self.scrollable_content_region.width - len(GUTTER) - 1, 20)

    @property
    def about(self) -> About | None:
        """The subject of the chosen line, which it opens."""
        return self._lines[self._stops[self._chosen]].about if self._stops else None

    @property
    def words(self) -> str:
        """The chosen row, with all of its lines."""
        about = self.about
        return " ".join(each.text.strip() for each in self._lines if about is not None and each.about is about)

    def leave(self) -> None:
        """Let nobody choose a line any more: another report comes, and takes their place."""
        self._chosen, self._stops, self.is_drawn = 0, [], False
        self.refresh()

    def clear(self) -> None:
        """Show nothing, until there is another report."""
        self._set([])
        self.leave()
        self.scroll_to(y=0, animate=False, immediate=True)

    def show(self, lines: list[ReportLine]) -> None:
        """Show lines: those of another report, or the same for another width."""
        self._set(lines)
        if not self.is_drawn:
            self.scroll_to(y=0, animate=False, immediate=True)
        self.is_drawn = True
        if self._chosen:
            self._seek()

    def _set(self, lines: list[ReportLine]) -> None:
        before = (ReportLine(""), *lines)
        self._lines = lines
        self._stops = [
            n for n, (last, line) in enumerate(zip(before, lines, strict=False))
            if line.about is not None and line.about is not last.about
        ]  # fmt: skip
        self._chosen = min(self._chosen, max(len(self._stops) - 1, 0))
        self.virtual_size = Size(self.scrollable_content_region.width, len(lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return a line of what is in view."""
        columns, at = self.scrollable_content_region.width, self.scroll_offset.y + y
        if at >= len(self._lines):
            return Strip.blank(columns, self.rich_style)
        is_chosen = bool(self._stops) and self._stops[self._chosen] == at
        text = self._lines[at].text
        if is_chosen:
            # In reverse a colour would be a patch.
            text = CURSOR + output.for_screen(text, is_coloured=False)
        line = output.cut(text if is_chosen else f"{GUTTER}{text}", columns)
        strip = strip_of(line, columns).apply_style(self.rich_style)
        return marked(strip, 0, columns) if is_chosen else strip

    def on_resize(self) -> None:
        """Have lines drawn for another width."""
        assert isinstance(self.screen, ReportsScreen)
        self.screen.draw()

    def on_click(self, event: events.Click) -> None:
        """Choose the row that is clicked; another click opens it."""
        at = self.scroll_offset.y + event.y
        if not self.is_drawn or at >= len(self._lines) or self._lines[at].about is None:
            return
        number = bisect_right(self._stops, at) - 1
        if number == self._chosen and event.chain > 1:
            assert isinstance(self.screen, ReportsScreen)
            self.screen.action_open()
        self._chosen = number
        self.refresh()

    def step(self, by: int) -> None:
        """Choose the next row, or the one before; at the ends lines scroll. A wheel may have left the chosen one."""
        number, in_view = self._chosen + by, self._in_view()
        if in_view and self._chosen not in in_view:
            number = in_view[0] if by > 0 else in_view[-1]
        if 0 <= number < len(self._stops):
            self._chosen = number
            self._seek()
        else:
            self.scroll_relative(y=by, animate=False, immediate=True)

    def page(self, by: int) -> None:
        """Scroll by a page, and choose what is then in view."""
        height = max(self.size.height - 1, 1)
        top = min(max(self.scroll_offset.y + by * height, 0), max(len(self._lines) - self.size.height, 0))
        self.scroll_to(y=top, animate=False, immediate=True)
        if in_view := self._in_view():
            self._chosen = in_view[0] if by > 0 else in_view[-1]
        self.refresh()

    def _in_view(self) -> range:
        """The rows whose first lines are in view."""
        top = self.scroll_offset.y
        return range(bisect_left(self._stops, top), bisect_left(self._stops, top + self.size.height))

    def ends(self, by: int) -> None:
        """Choose the first row, or the last."""
        self._chosen = 0 if by < 0 else max(len(self._stops) - 1, 0)
        self.scroll_to(y=0 if by < 0 else len(self._lines), animate=False, immediate=True)
        self.refresh()

    def _seek(self) -> None:
        """Scroll as little as it takes for the chosen row to be seen, with a line around it."""
        at, top, height = self._stops[self._chosen], self.scroll_offset.y, self.size.height
        if self._chosen == 0:
            top = 0
        wanted = min(max(top, at - height + 2), max(at - 1, 0))
        self.scroll_to(y=wanted, animate=False, immediate=True)
        self.refresh()
