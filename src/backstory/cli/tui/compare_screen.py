"""Two branches as ``backstory diff`` compares them: side by side, or one below the other where there is no room."""

from __future__ import annotations

from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar

from textual.geometry import Size
from textual.screen import Screen
from textual.scroll_view import ScrollView

from backstory.cli import output
from backstory.cli.tui import actions
from backstory.cli.tui.actions import COMPARED
from backstory.cli.tui.bars import Bar
from backstory.cli.tui.branching import in_thread
from backstory.cli.tui.painting import let_go
from backstory.cli.tui.strips import strip_of
from backstory.cli.views.tree_view import fork_line, side_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.strip import Strip

    from backstory.cli.app import App as CommandApp
    from backstory.workspace.history.trees import Comparison

BESIDE_FROM = 100
"""The columns of a screen from which the two are beside each other."""
BETWEEN = " │ "
SCROLLBAR_COLUMNS = 1


def compared(app: CommandApp, uid: str, words: Sequence[str]) -> Comparison:
    """Compare two records or branches of a session. Raises what ``backstory diff`` does."""
    workspace = app.workspace
    located = workspace.resolve(uid)
    left, right = (workspace.target(each, located) for each in words)
    return workspace.reader.diff(left, right)


def compared_lines(comparison: Comparison, words: Sequence[str], columns: int) -> list[str]:
    """The comparison as lines for a screen of so many columns, the last of which the scroll bar has."""
    is_wide, columns = columns >= BESIDE_FROM, columns - SCROLLBAR_COLUMNS
    sides = list(zip((comparison.left, comparison.right), words, strict=True))
    with output.window_of(columns):
        lines = [fork_line(comparison), ""]
        if not is_wide:
            left, right = ([*side_lines(side, each)] for side, each in sides)
            return [*lines, *left, "", *right]
    room = (columns - len(BETWEEN)) // 2
    with output.window_of(room):
        left, right = ([output.cut(line, room) for line in side_lines(side, each)] for side, each in sides)
    return [*lines, *(f"{output.padded(a, room)}{BETWEEN}{b}" for a, b in zip_longest(left, right, fillvalue=""))]


class CompareScreen(Screen[None]):
    """Two branches of a session. ``left``, ``right``: as a command names them, such as @12, or a branch's number."""

    CSS = "CompareScreen { overflow: hidden; }"
    BINDINGS: ClassVar = actions.bindings(COMPARED)

    place = COMPARED

    def __init__(self, app: CommandApp, uid: str, left: str, right: str) -> None:
        super().__init__()
        self._of, self._uid, self._words = app, uid, (left, right)
        self._comparison: Comparison | None = None
        self._lines, self._foot = ComparedLines(), Bar()

    def compose(self) -> ComposeResult:
        yield self._lines
        yield self._foot

    def on_mount(self) -> None:
        """Have keys count."""
        self._lines.focus()

    def on_resize(self) -> None:
        """Draw for the width."""
        self._say("reading …")
        in_thread(self, "compared", partial(self._read, self.app.size.width), self._show, self._say)

    def _read(self, columns: int) -> list[str]:
        if self._comparison is None:
            self._comparison = compared(self._of, self._uid, self._words)
        return compared_lines(self._comparison, self._words, columns)

    def _show(self, lines: list[str]) -> None:
        self._lines.show(lines)
        self._say("")
        let_go(self)

    def _say(self, note: str) -> None:
        columns = self.app.size.width
        shown = output.style(output.one_line(note, columns), bold=True) if note else ""
        self._foot.show(shown or actions.foot(COMPARED, columns))

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self._lines.scroll_relative(y=lines, animate=False, immediate=True)

    def action_page(self, by: int) -> None:
        """Scroll by a page; a line stays in sight."""
        self.action_scroll(by * max(self._lines.size.height - 1, 1))

    def action_ends(self, by: int) -> None:
        """Go to the beginning, or to the end."""
        self.action_scroll(by * self._lines.virtual_size.height)

    def action_close(self) -> None:
        """Go back to the branches."""
        self.dismiss()


class ComparedLines(ScrollView, can_focus=True, inherit_bindings=False):
    """Lines that scroll, of which only those in view are painted."""

    DEFAULT_CSS = "ComparedLines { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; overflow-y: scroll; }"

    def __init__(self) -> None:
        super().__init__()
        self._shown: list[str] = []

    def show(self, lines: list[str]) -> None:
        """Show other lines."""
        self._shown = lines
        self.virtual_size = Size(self.size.width, len(lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen."""
        at = self.scroll_offset.y + y
        line = self._shown[at] if at < len(self._shown) else ""
        return strip_of(output.cut(line, self.size.width), self.size.width).apply_style(self.rich_style)
