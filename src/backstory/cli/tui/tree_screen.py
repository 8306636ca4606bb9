"""The branches of a session: its turns as ``backstory tree`` draws them, and what keys do to the one that is chosen."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from msgspec import Struct
from textual import events
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from backstory.cli import output
from backstory.cli.tui import actions, branching
from backstory.cli.tui.actions import TREE
from backstory.cli.tui.asking import ask, ask_line
from backstory.cli.tui.bars import Bar
from backstory.cli.tui.branching import ToAgree, in_thread
from backstory.cli.tui.painting import hold, let_go
from backstory.cli.tui.strips import strip_of
from backstory.cli.views.tree_view import LEGEND, TreeDrawing
from backstory.workspace.history.trees import tree_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult

    from backstory.cli.app import App as CommandApp
    from backstory.cli.tui.branching import CheckedOut
    from backstory.store import TreeTurn
    from backstory.workspace.history.trees import SessionTree, TreeRow

T = TypeVar("T")
GUTTER_COLUMNS = 2
WHEEL_ROWS = 3
FACTS_LINES = 2
NAME_COLUMNS = 40
CHOSEN, MARKED = "▸", "◆"
"""The signs before the turn that keys act on, and before the one to compare with."""


class TreePlace(Struct, frozen=True, kw_only=True):
    """The place where the person goes from the branches. ``uid``: of the session, another where one continues it."""

    uid: str
    seq: int | None = None
    fork: int | None = None
    """The record that a prompt is to follow."""


class ShownTree(Struct, frozen=True, kw_only=True):
    """The tree of a session as it was read, and its turns in the order of their lines."""

    tree: SessionTree
    drawing: TreeDrawing
    rows: tuple[TreeRow, ...]
    tips: tuple[int, ...]
    """The lines of the turns at which branches end."""
    heading: str

    def place(self, uid: str | None) -> int | None:
        """Return the line of a turn; None where it is not there."""
        return next((n for n, row in enumerate(self.rows) if row.turn.uid == uid), None)

    def words_of(self, turn: TreeTurn) -> str:
        """Return what a command calls a turn: the number of the branch that ends with it, else its last record."""
        numbers = (each.number for each in self.tree.tips.get(turn.uid, ()) if each.number is not None)
        return next(map(str, numbers), f"@{turn.last_seq}")


def read_tree(app: CommandApp, uid: str, columns: int) -> ShownTree:
    """Read the tree of a session. Raises SessionNotFound."""
    located = app.workspace.resolve(uid)
    tree = app.reader.tree(located, removed=False, costs=False)
    drawing = TreeDrawing(tree)
    rows, ends = tuple(tree_rows(tree.tree, columns)), {turn.uid for turn in tree.tree.tips()}
    tips = tuple(n for n, row in enumerate(rows) if row.turn.uid in ends)
    title = output.one_line(located.session.shown_title, columns)
    counts = f"{output.counted(len(tree.tree), 'turn')} · {len(tips)} branch{'es' * (len(tips) != 1)}"
    return ShownTree(
        tree=tree, drawing=drawing, rows=rows, tips=tips,
        heading=f"{output.ident(located.label)} {counts} · {output.style(LEGEND, dim=True)} · {title}",
    )  # fmt: skip


def branch_facts(tree: SessionTree, turn: TreeTurn) -> list[str]:
    """The branch of a turn in lines: its number, its begin and end, its names; its length and last activity."""
    tip = tree.tree.tip(turn.uid)
    own, branches = tree.tree.branch(tip.uid), tree.tips.get(tip.uid, ())
    number = next((each.number for each in branches if each.number is not None), None)
    names = ", ".join(output.one_line(name, NAME_COLUMNS) for each in branches for name in each.names)
    parent = tree.tree.parent(own[0].uid)
    start = "from the beginning" if parent is None else f"from @{own[0].parent_seq or parent.last_seq}"
    whole = len(tree.tree.ancestry(tip.uid))
    is_whole = len(own) == whole
    length = output.counted(len(own), "turn") if is_whole else f"{output.counted(len(own), 'own turn')} of {whole}"
    named = filter(None, (f"branch {number or ''}".strip(), f"{start} to @{tip.last_seq}", names))
    return [" · ".join(named), f"{length} · last active {output.local(tip.ended or tip.started)} · {tip.agent}"]


class TreeScreen(Screen["TreePlace | None"]):
    """The branches of a session. Ends with the place where the person goes; None for back to where they were."""

    CSS = "TreeScreen { overflow: hidden; }"
    BINDINGS: ClassVar = actions.bindings(TREE)

    place = TREE

    def __init__(self, app: CommandApp, uid: str) -> None:
        super().__init__()
        self._of, self._uid = app, uid
        self.shown: ShownTree | None = None
        self.chosen = 0
        self.mark: str | None = None
        """The uid of the turn to compare with."""
        self._note, self._is_changed, self._is_changing = "", False, False
        self._table = TreeTable()
        self._facts, self._foot = [Bar() for _ in range(FACTS_LINES)], Bar()

    def compose(self) -> ComposeResult:
        yield self._table
        yield from self._facts
        yield self._foot

    def on_mount(self) -> None:
        """Have keys count."""
        self._table.focus()
        self.say("reading …")

    def on_resize(self) -> None:
        """Draw for the width."""
        self._read()

    def on_screen_resume(self) -> None:
        """Read what may have changed meanwhile."""
        if self.shown is not None:
            self._read()

    def _read(self) -> None:
        read = partial(read_tree, self._of, self._uid, self.app.size.width - GUTTER_COLUMNS)
        in_thread(self, "tree", read, self._take, self.say)

    def _take(self, shown: ShownTree) -> None:
        """Show a tree; the turn that is chosen stays it, or the one that is in its line now."""
        before, self.shown = self.shown, shown
        if before is None:
            current = shown.tree.current
            self.chosen = shown.place(current.uid if current else None) or 0
        else:
            kept = shown.place(before.rows[self.chosen].turn.uid) if before.rows else 0
            self.chosen = min(self.chosen if kept is None else kept, max(len(shown.rows) - 1, 0))
        if shown.place(self.mark) is None:
            self.mark = None
        self._note = "" if self._note == "reading …" else self._note
        self._choose(self.chosen)
        let_go(self)

    def say(self, note: str) -> None:
        """Show a sentence at the foot, a long one also in place of the branch; '' for the keys."""
        self._note, columns = note, self.app.size.width
        said = output.wrapped(output.one_liner(note), columns) if note else []
        facts = [""] * FACTS_LINES
        if self.shown is not None and self.turn is not None:
            facts = branch_facts(self.shown.tree, self.turn)
        lines = [*facts, actions.foot(TREE, columns)] if not said else facts[: max(len(facts) + 1 - len(said), 0)]
        lines += [output.style(each, bold=True) for each in said[: FACTS_LINES + 1]]
        for bar, line in zip((*self._facts, self._foot), lines, strict=True):
            bar.show(line)

    @property
    def turn(self) -> TreeTurn | None:
        """The turn that keys act on."""
        return self.shown.rows[self.chosen].turn if self.shown is not None and self.shown.rows else None

    def _choose(self, at: int) -> None:
        rows = () if self.shown is None else self.shown.rows
        self.chosen = min(max(at, 0), max(len(rows) - 1, 0))
        self.say(self._note)
        self._table.refresh()

    def on_bar_clicked(self) -> None:
        """Show the keys again in place of a sentence."""
        if self._note:
            self.say("")

    # actions --------------------------------------------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        """Choose another turn."""
        self._note = ""
        self._choose(self.chosen + by)

    def action_page(self, by: int) -> None:
        """Go on by a page; a line stays in sight."""
        self.action_move(by * max(self._table.room - 1, 1))

    def action_ends(self, end: str) -> None:
        """Choose the first turn, or the last."""
        self.action_move(-self.chosen if end == "start" else len(self.shown.rows) if self.shown is not None else 0)

    def action_tip(self, by: int) -> None:
        """Choose the end of the next branch, or of the one before."""
        if self.shown is not None:
            other = [n for n in self.shown.tips if (n > self.chosen if by > 0 else n < self.chosen)]
            if other:
                self.action_move((other[0] if by > 0 else other[-1]) - self.chosen)

    def action_open(self) -> None:
        """Go to the turn in the session."""
        if self.turn is not None:
            self.dismiss(TreePlace(uid=self._uid, seq=self.turn.first_seq))

    def action_fork(self) -> None:
        """Write a prompt that follows the turn."""
        if self.turn is not None:
            self.dismiss(TreePlace(uid=self._uid, seq=self.turn.first_seq, fork=self.turn.last_seq))

    def action_close(self) -> None:
        """Take the mark away; without one go back to the session."""
        if self.mark is not None:
            self.mark = None
            self.say("")
            self._table.refresh()
        else:
            self.dismiss(TreePlace(uid=self._uid) if self._is_changed else None)

    def action_checkout(self) -> None:
        """Have the next prompt follow the turn."""
        if self.turn is not None:
            self._check_out(self.turn.last_seq, frozenset())

    def _check_out(self, seq: int, agreed: frozenset[str]) -> None:
        def done(to: CheckedOut | ToAgree) -> None:
            if isinstance(to, ToAgree):
                self.say("")
                ask(self.app, to.question, partial(self._check_out, seq, agreed | {to.what}))
            else:
                self._uid = to.uid
                self._changed(to.said)

        self._change(partial(branching.check_out, self._of, self._uid, seq, agreed), done)

    def _change(self, work: Callable[[], T], done: Callable[[T], object]) -> None:
        """Change something in a thread, one thing at a time; a key that comes meanwhile does nothing."""

        def end(answer: Callable[[Any], object], value: object) -> None:
            self._is_changing = False
            answer(value)

        if not self._is_changing:
            self._is_changing = self._is_changed = True
            self.say("…")
            in_thread(self, "change", work, partial(end, done), partial(end, self._changed))

    def _changed(self, said: str) -> None:
        """Say what was done, or refused, and read the tree anew."""
        self.say(said)
        self._read()

    def action_compare(self) -> None:
        """Mark the turn; where another one is marked, compare what leads to the two."""
        if self.shown is None or self.turn is None:
            return
        at = self.shown.place(self.mark)
        if at is None or at == self.chosen:
            self.mark = None if at == self.chosen else self.turn.uid
            said = f"{MARKED} Choose another turn, then v compares what leads to the two. Esc takes the mark away."
            self.say("" if self.mark is None else said)
            self._table.refresh()
            return
        from backstory.cli.tui.compare_screen import CompareScreen  # mostly nothing is compared

        words = [self.shown.words_of(each) for each in (self.shown.rows[at].turn, self.turn)]
        hold(self)
        self.app.push_screen(CompareScreen(self._of, self._uid, *words))

    def action_name(self) -> None:
        """Name the branch of the turn."""
        if self.shown is not None and self.turn is not None:
            tip = self.shown.tree.tree.tip(self.turn.uid)
            about = f"A name for the branch that ends at @{tip.last_seq}. It stays while the branch grows."
            ask_line(
                self.app, about, partial(self._give_name, tip.last_seq), note=output.one_line(tip.prompt, NAME_COLUMNS)
            )

    def _give_name(self, seq: int, words: str) -> None:
        self._change(partial(branching.name, self._of, self._uid, seq, words), self._changed)


class TreeTable(Widget, can_focus=True):
    """Draws the turns of a tree, of which only those in view are drawn."""

    DEFAULT_CSS = "TreeTable { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._top = 0

    @property
    def _of(self) -> TreeScreen:
        assert isinstance(self.screen, TreeScreen)
        return self.screen

    @property
    def room(self) -> int:
        """The number of turns that are in view."""
        return max(self.size.height - 1, 1)

    def top(self) -> int:
        """Return the first turn in view: the chosen one is in view."""
        chosen = self._of.chosen
        self._top = min(max(self._top, chosen - self.room + 1), chosen)
        return self._top

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Go down some turns."""
        self._of.action_move(WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Go up some turns."""
        self._of.action_move(-WHEEL_ROWS)

    def on_click(self, event: events.Click) -> None:
        """Choose the turn that is clicked; a second click goes there."""
        screen, at = self._of, self.top() + event.y - 1
        if screen.shown is None or event.y < 1 or at >= len(screen.shown.rows):
            return
        is_again = at == screen.chosen and event.chain > 1
        screen.action_move(at - screen.chosen)
        if is_again:
            screen.action_open()

    def render_line(self, y: int) -> Strip:
        """Return a line: the heading, or a turn."""
        shown, columns = self._of.shown, self.size.width
        at = self.top() + y - 1
        if shown is None or at >= len(shown.rows):
            text = "" if shown is None or shown.rows or y != 1 else f"{GUTTER_COLUMNS * ' '}It has no turns."
            return strip_of(text, columns).apply_style(self.rich_style)
        if y == 0:
            return strip_of(output.cut(shown.heading, columns), columns).apply_style(self.rich_style)
        row = shown.rows[at]
        is_chosen = at == self._of.chosen
        sign = MARKED if row.turn.uid == self._of.mark else CHOSEN if is_chosen else " "
        line = f"{sign} {shown.drawing.line(row, columns - GUTTER_COLUMNS)}"
        if is_chosen:
            line = output.style(output.padded(output.for_screen(line, is_coloured=False), columns), reverse=True)
        return strip_of(output.cut(line, columns), columns).apply_style(self.rich_style)
