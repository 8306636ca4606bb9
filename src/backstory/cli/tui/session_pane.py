"""The entries of a session as a window that scrolls: only what is in view is read, in a thread, and drawn."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct
from msgspec.structs import replace
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.worker import get_current_worker

from backstory.cli.tui import actions, blocks
from backstory.cli.tui.actions import PANE
from backstory.cli.tui.blocks import FOLDED, FULL, SessionView, ShownLine
from backstory.cli.tui.painting import hold, let_go
from backstory.cli.tui.strips import marked, strip_of
from backstory.errors import BackstoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backstory.workspace.history.blocks import Content, Key
    from backstory.workspace.reader import Reader

BLOCKS_KEPT = 40
"""The most blocks whose lines are kept; what is behind the view is read again."""
GUTTER_COLUMNS = 6
HEAD = 0
"""The section above all blocks: the head of the session. Block n is section n + 1, and what comes is the last."""


class _Aside(Struct, frozen=True, kw_only=True):
    """Lines that are of no entry. ``behind``: the entry that they follow; None for those behind the last one."""

    at: int
    """Their place among the lines behind the last entry."""
    lines: list[ShownLine]
    behind: Key | None = None


class SessionPane(ScrollView, can_focus=True, inherit_bindings=False):
    """A session's entries. ``current``: the entry that keys act on."""

    DEFAULT_CSS = "SessionPane { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; overflow-y: scroll; }"

    BINDINGS: ClassVar = actions.bindings(PANE)

    def __init__(self, reader: Reader, home: str, now: Callable[[], int]) -> None:
        super().__init__()
        self._reader, self._home, self._now = reader, home, now
        self._content: Content | None = None
        self._view = SessionView(columns=80, now=now())
        self._drawn: OrderedDict[int, list[ShownLine]] = OrderedDict()
        self._stale = set[int]()
        """Sections whose lines are of an earlier view: they are shown until they are drawn anew."""
        self._first: Sequence[ShownLine] = ()
        """The lines at the end of the session, shown until those of its blocks are drawn."""
        self._tail: list[ShownLine] = []
        self._asides: list[_Aside] = []
        self._heights: list[int] = []
        self._tops: list[int] = [0]
        self._sticks = True
        """True while the end is in view: what comes is followed."""
        self._goal: Key | None = None
        """The entry that has to be seen as soon as it is drawn."""
        self.is_sought = False
        """True while the entry to go to is being looked for: what is drawn meanwhile is not painted for itself."""
        self._steps = 0
        """Steps that keys asked for before the entries to choose from were drawn; below 0: back."""
        self.current: Key | None = None

    # what is shown --------------------------------------------------------------------------------------------------

    @property
    def content(self) -> Content | None:
        """The session that is shown; None before it was read."""
        return self._content

    @property
    def is_settled(self) -> bool:
        """True if all that is in view is drawn."""
        is_measured = self._content is not None and bool(self._heights)
        return is_measured and not self._missing() and self._goal is None and not self.is_sought

    def look(self, lines: Sequence[ShownLine]) -> None:
        """Show lines at the end until the session is read."""
        if self._content is None:
            self._first = lines
            self.refresh()
            let_go(self)

    def view_of(self, columns: int) -> SessionView:
        """The way a session is looked at first, in so many columns."""
        return replace(self._view, columns=columns - self.scrollbar_size_vertical - 1, now=self._now())

    def on_unmount(self) -> None:
        """Let go of the session: what it takes is given back at once, however long the screen itself is kept."""
        self._content, self._first, self._tail, self._asides = None, (), [], []
        self._drawn.clear()

    def show(self, content: Content, goal: Key | None = None) -> None:
        """Show a session, at its end or at an entry, which is painted when what is in view is drawn."""
        is_again = self._content is not None and self._content.located.session.uid == content.located.session.uid
        if content.aside:
            # What was in the tail is among the entries now.
            last = content.order.key(content.aside - 1)
            self._asides = [replace(each, behind=each.behind or last) for each in self._asides]
        self._content, self._tail, self._heights = content, [], []
        self._drawn.clear()
        if not is_again:
            self.current, self._sticks = goal, goal is None
        self._goal = goal
        if not self._sticks:
            self._first = ()
        hold(self)
        self._measure()
        self._want()
        if self.is_settled:
            let_go(self)

    def grow(self, content: Content, settled: int, lines: Sequence[ShownLine]) -> None:
        """Show lines behind the last entry and ``settled`` such lines, unless the session was read anew since."""
        if content is not self._content:
            return
        self._tail[settled:] = lines
        self._fit_end()

    def add(self, lines: Sequence[str]) -> None:
        """Show lines that are of no entry behind what there is now; they stay there."""
        content, behind = self._content, None
        if content is not None and content.aside and not self._tail:
            behind = content.order.key(content.aside - 1)
            self._stale.add((content.block_of(behind) or 0) + 1)
        self._asides.append(_Aside(at=len(self._tail), lines=[ShownLine(each) for each in lines], behind=behind))
        self._sticks = True
        self._fit_end()
        self._want()

    def _fit_end(self) -> None:
        if self._heights:
            self._keeping_place(lambda: self._set_height(len(self._heights) - 1, len(self._end())))

    def _end(self) -> list[ShownLine]:
        """The lines behind the last entry."""
        lines = list(self._tail)
        for each in reversed([each for each in self._asides if each.behind is None]):
            lines[each.at : each.at] = each.lines
        return lines

    def _with_asides(self, section: int, lines: list[ShownLine]) -> list[ShownLine]:
        """The lines of a section, with what was added behind its entries."""
        content = self._content
        for each in self._asides:
            if content is not None and each.behind is not None and content.block_of(each.behind) == section - 1:
                before = [n for n, line in enumerate(lines) if line.key is not None and line.key <= each.behind]
                at = before[-1] + 1 if before else len(lines)
                while at < len(lines) and lines[at].key is None and lines[at].text.strip():
                    # The end of a turn is of no entry.
                    at += 1
                lines = [*lines[:at], *each.lines, *lines[at:]]
        return lines

    def _measure(self) -> None:
        """Estimate every height, and keep the place."""
        content = self._content
        if content is None or not self.size.width:
            return
        # A column is left between the text and the bar.
        self._view = replace(self._view, columns=self._columns - 1, now=self._now())
        head = blocks.top_lines(content, self._home, self._view)
        self._drawn.clear()
        self._stale.clear()
        self._drawn[HEAD] = head
        self._heights = [len(head)]
        self._heights += (blocks.likely_height(each, self._view) for each in content.blocks)
        self._heights.append(len(self._end()))
        self._keeping_place(_nothing)

    @property
    def _columns(self) -> int:
        return max(self.scrollable_content_region.width, 20)

    def _set_height(self, section: int, height: int) -> None:
        self._heights[section] = height

    def _keeping_place(self, change: Callable[[], None]) -> None:
        """Change heights so that the line on top stays there, or the end where that is followed."""
        section, offset = self._place(self.scroll_offset.y)
        change()
        self._tops = [0, *accumulate(self._heights)]
        self.virtual_size = Size(self._columns, self._tops[-1])
        if self._goal is not None and (at := self._line_of(self._goal)) is not None:
            goal, self._goal = self._goal, None
            self._scroll(at - self.size.height // blocks.ABOVE_GOAL)
            self._arrive(goal, at)
        elif self._goal is None:
            end = self._tops[-1] - self.size.height
            self._scroll(end if self._sticks else self._tops[min(section, len(self._heights) - 1)] + offset)
        self.refresh()

    def _arrive(self, goal: Key, line: int) -> None:
        """Choose the entry at a line; a call opens to the result that was meant."""
        section, offset = self._place(line)
        found = (self._lines_of(section) or [])[offset : offset + 1]
        if not found or found[0].key is None:
            return
        self.current = found[0].key
        if found[0].result == goal[0] and self._view.forms.get(self.current, FOLDED) == FOLDED:
            self.toggle()

    def _scroll(self, line: int) -> None:
        self.scroll_to(
            y=max(min(line, self._tops[-1] - self.size.height), 0), animate=False, immediate=True, force=True
        )

    def _place(self, line: int) -> tuple[int, int]:
        """The section that a line is of, and its place there."""
        section = max(bisect_right(self._tops, line) - 1, 0)
        return section, line - self._tops[section]

    # reading --------------------------------------------------------------------------------------------------------

    def _lines_of(self, section: int) -> list[ShownLine] | None:
        if section == len(self._heights) - 1:
            return self._end()
        return self._drawn.get(section)

    def _in_view(self) -> range:
        first, _ = self._place(self.scroll_offset.y)
        last, _ = self._place(self.scroll_offset.y + self.size.height)
        return range(first, min(last + 1, len(self._heights)))

    def _missing(self) -> list[int]:
        wanted = list(self._in_view())
        if self._content is not None and self._goal is not None:
            block = self._content.block_of(self._goal)
            if block is None:
                self._goal = None
            else:
                wanted = [block + 1]
        return [each for each in wanted if each in self._stale or self._lines_of(each) is None]

    def _want(self) -> None:
        """Read what is in view and not drawn, the last of it first where the end is followed."""
        content, missing = self._content, self._missing()
        if content is not None and missing:
            order = missing[::-1] if self._sticks else missing
            work = partial(self._read, order, self._view)
            self.run_worker(work, thread=True, group="blocks", exclusive=True, exit_on_error=False)

    def _read(self, sections: Sequence[int], view: SessionView) -> None:
        """Draw sections, in a thread of its own."""
        # Not an argument: a closed screen may be kept for long by its last work, and what it showed is large.
        worker, content = get_current_worker(), self._content
        for section in sections:
            if worker.is_cancelled or content is None:
                return
            try:
                lines = blocks.drawn(self._reader, content, section - 1, view)
            except BackstoryError as refused:
                lines = [ShownLine(f"       ! {refused}")]
            self.app.call_from_thread(self._take, content, view, section, lines)

    def _take(self, content: Content, view: SessionView, section: int, lines: list[ShownLine]) -> None:
        """Take drawn lines, unless they are of a session or a form that nobody looks at any more."""
        if content is not self._content or view != self._view:
            return
        lines = self._drawn[section] = self._with_asides(section, lines)
        self._stale.discard(section)
        self._drawn.move_to_end(section)
        in_view = {HEAD, *self._in_view()}
        for each in [each for each in self._drawn if each not in in_view][:-BLOCKS_KEPT]:
            del self._drawn[each]
        if self._first and not self._missing():
            self._first = ()
        self._keeping_place(lambda: self._set_height(section, len(lines)))
        self._want()
        if self._steps and not self._missing():
            steps, self._steps = self._steps, 0
            for _ in range(abs(steps)):
                self.action_step(1 if steps > 0 else -1)
        if self.is_settled:
            let_go(self)

    # drawing --------------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Return a line of what is in view."""
        columns, at = self._columns, self.scroll_offset.y + y
        if self._first:
            at = len(self._first) - self.size.height + y
            return strip_of(self._first[at].text if at >= 0 else "", columns).apply_style(self.rich_style)
        if self._content is None or at >= self._tops[-1]:
            return Strip.blank(columns, self.rich_style)
        section, offset = self._place(at)
        lines = self._lines_of(section)
        if lines is None or offset >= len(lines):
            return strip_of(blocks.blank(columns), columns).apply_style(self.rich_style)
        line = lines[offset]
        strip = strip_of(line.text, columns).apply_style(self.rich_style)
        if line.key is None or line.key != self.current:
            return strip
        return marked(strip, 0, GUTTER_COLUMNS)

    def on_resize(self, event: events.Resize) -> None:
        """Draw for another width; where only the height is another one, what is drawn stays."""
        if self._heights and self._view.columns == self._columns - 1:
            self._keeping_place(_nothing)
        else:
            self._measure()
        self._want()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Read what comes into view; a person who goes up follows no more."""
        super().watch_scroll_y(old_value, new_value)
        self._sticks = round(new_value) >= self._tops[-1] - self.size.height
        if not self._sticks:
            self._first = ()
        self._want()

    def on_click(self, event: events.Click) -> None:
        """Choose the entry that is clicked; another click opens it."""
        lines = self._lines_of((place := self._place(self.scroll_offset.y + event.y))[0]) or []
        key = lines[place[1]].key if place[1] < len(lines) else None
        if key is not None and key == self.current:
            self.toggle()
        elif key is not None:
            self.current = key
            self.refresh()

    # keys -----------------------------------------------------------------------------------------------------------

    def go(self, key: Key) -> None:
        """Go to an entry, which is painted once with what is around it."""
        self.current, self._goal, self._sticks = key, key, False
        hold(self)
        self._keeping_place(_nothing)
        self._want()
        if self.is_settled:
            let_go(self)

    def action_scroll(self, way: str, lines: int) -> None:
        """Scroll by lines."""
        self.scroll_relative(y=lines if way == "down" else -lines, animate=False, immediate=True)

    def action_page(self, way: str) -> None:
        """Scroll by pages; a line stays in sight."""
        self.action_scroll(way, max(self.size.height - 1, 1))

    def action_ends(self, end: str) -> None:
        """Go to the beginning ("start"), or to the end ("end") and follow what comes."""
        self._goal, self._sticks, self._steps = None, end == "end", 0
        self._scroll(self._tops[-1] if self._sticks else 0)
        self._want()

    def action_step(self, by: int) -> None:
        """Choose the next entry that is drawn, or the one before."""
        key = self._next_key(by)
        if key is None and self._missing():
            self._steps += by
            return
        if key is None:
            self.scroll_relative(y=by, animate=False, immediate=True)
            return
        self.current = key
        line = self._line_of(key)
        if line is not None and not 0 <= line - self.scroll_offset.y < self.size.height - 1:
            self._scroll(line - (self.size.height - 2 if by > 0 else 1))
        self.refresh()

    def _next_key(self, by: int) -> Key | None:
        start = None if self.current is None else self._line_of(self.current)
        height = self.size.height
        if start is None or not -height <= start - self.scroll_offset.y <= 2 * height:
            start = min(self.scroll_offset.y + (0 if by > 0 else height - 1), self._tops[-1] - 1)
        at = start
        while 0 <= at < self._tops[-1]:
            section, offset = self._place(at)
            lines = self._lines_of(section)
            if lines is None:
                return None
            key = lines[offset].key if offset < len(lines) else None
            if key is not None and key != self.current:
                return key
            at += by
        return None

    def _line_of(self, key: Key) -> int | None:
        """The first line of an entry, or of the call that it is the result of, if it is drawn; else the next one's."""
        block = None if self._content is None else self._content.block_of(key)
        lines = None if block is None else self._drawn.get(block + 1)
        if block is None or lines is None:
            return None
        for n, line in enumerate(lines):
            if line.key == key or line.result == key[0]:
                return self._tops[block + 1] + n
        later = (n for n, line in enumerate(lines) if line.key is not None and line.key >= key)
        return self._tops[block + 1] + next(later, len(lines) - 1)

    def action_prompt(self, by: int) -> None:
        """Go to the next prompt, or to the one before; from the middle of one to its beginning."""
        content = self._content
        if content is None or not content.prompts:
            return
        here, is_within = self._here()
        keys = [content.order.key(n) for n in content.prompts]
        # At the end of a session all of its prompts are before.
        later = [key for key in keys if here is not None and key > here]
        earlier = [key for key in keys if here is None or key < here or (is_within and key == here)]
        if by > 0 and not later:
            self.action_ends("end")
        elif by > 0 or earlier:
            self.go(later[0] if by > 0 else earlier[-1])

    def _here(self) -> tuple[Key | None, bool]:
        """The current entry where it is in view, else the one on top, and if that begins above; None at the end."""
        at = None if self.current is None else self._line_of(self.current)
        if self._goal is not None or (at is not None and 0 <= at - self.scroll_offset.y < self.size.height):
            return self.current, False
        if self._sticks:
            return None, False
        section, offset = self._place(self.scroll_offset.y)
        lines = self._lines_of(section) or []
        on_top = next((line.key for line in lines[offset:] if line.key is not None), None)
        return on_top, offset > 0 and on_top in {line.key for line in lines[:offset]}

    def toggle(self) -> None:
        """Open the current entry to its compact form, then to everything, then fold it again."""
        if self.current is None:
            return
        form = self._view.forms.get(self.current, FOLDED)
        forms = self._view.forms | {self.current: FOLDED if form == FULL else form + 1}
        self._redraw(replace(self._view, forms=forms), self.current)

    def toggle_thinking(self) -> bool:
        """Show what the model thought, or hide it; returns True if it is shown now."""
        self._redraw(replace(self._view, thinking=not self._view.thinking), None)
        return self._view.thinking

    def _redraw(self, view: SessionView, key: Key | None) -> None:
        """Draw anew what a change of the view changes: the block of an entry, or everything."""
        self._view = view
        block = None if key is None or self._content is None else self._content.block_of(key)
        self._stale |= {each for each in self._drawn if each != HEAD and (block is None or each == block + 1)}
        self._sticks = False
        self._want()
        self.refresh()

    def text_of_current(self) -> str:
        """The whole text of the current entry, read from what is kept; '' without one."""
        if self.current is None or self._content is None:
            return ""
        seq, part = self.current
        record = self._reader.record(self._content.located, seq)
        return next((blocks.plain_text(each.event) for each in record if each.outline.part == part), "")


def _nothing() -> None:
    """Change no height."""
