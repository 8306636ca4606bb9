"""The fields of a session: for a prompt, which Enter sends and which is never lost, and for words to look for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.text import Text
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea
from textual.widgets.text_area import Selection

from backstory.cli import output
from backstory.cli.tui.actions import PROMPT_KEYS
from backstory.cli.tui.asking import HarmlessInput
from backstory.derive import harmless
from backstory.workspace.runs.sending import Way

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.geometry import Region
    from textual.timer import Timer

KEPT_AFTER_S = 0.5
"""Typed text is kept after so long without a key."""

FOLDED_FROM = 50_000
"""A longer text is shown as a sign."""
SIGN = "\N{REPLACEMENT CHARACTER}"


class WordsField(HarmlessInput):
    """The field for words to look for."""

    def __init__(self) -> None:
        super().__init__(placeholder='words; "a phrase"; log* for a beginning')


class Folds:
    """Long texts that a field shows as a sign each: at every key it would break and draw all of a long line anew."""

    def __init__(self) -> None:
        self._texts = dict[str, str]()

    def fold(self, text: str) -> str:
        """Return a text as it is shown: itself, or its sign."""
        if len(text) <= FOLDED_FROM:
            return text
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        size, lines = len(text.encode("utf-8", "replace")) / 1e6, output.counted(text.count("\n") + 1, "line")
        sign, number = f"[pasted {size:.1f} MB, {lines}]", 2
        while self._texts.get(sign, text) != text:
            sign, number = f"[pasted {size:.1f} MB, {lines}, {number}]", number + 1
        self._texts[sign] = text
        return sign

    def whole(self, shown: str) -> str:
        """Return what is shown with the texts instead of their signs."""
        if not self._texts:
            return shown
        # At once: a text may hold what looks like the sign of another one.
        return re.sub("|".join(map(re.escape, self._texts)), lambda found: self._texts[found.group()], shown)

    def at(self, line: str, column: int, *, before: bool) -> str:
        """Return the sign before a place of a line, or behind it; '' if none is there."""
        signs = (each for each in self._texts if (line[:column].endswith if before else line[column:].startswith)(each))
        return next(signs, "")


class PromptField(TextArea):
    """A prompt while it is written. ``earlier``: the session's prompts, the last one last."""

    DEFAULT_CSS = """
    PromptField { height: auto; max-height: 10; min-height: 3; border: round $primary; padding: 0 1; }
    """

    class Submitted(Message):
        """A prompt to send."""

        def __init__(self, text: str, way: Way) -> None:
            super().__init__()
            self.text, self.way = text, way

    class Left(Message):
        """The person goes back to the entries; the text stays."""

    class TakenBack(Message):
        """The prompt that waits is wanted back."""

    class Turned(Message):
        """Another agent, permission or model is wanted."""

        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what

    class Typed(Message):
        """A text that is to be kept."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, text: str, earlier: Sequence[str]) -> None:
        self._folds = Folds()
        super().__init__(self._folds.fold(text), soft_wrap=True, show_line_numbers=False, tab_behavior="focus")
        self.cursor_blink = False
        self._prompts, self._earlier, self._at = tuple(earlier), [*earlier, ""], len(earlier)
        self._timer: Timer | None = None
        self.is_being_sent = False
        """True from Enter until the prompt is sent or refused: it takes nothing."""

    def on_mount(self) -> None:
        """Put the cursor behind what was typed before."""
        self.move_cursor(self.document.end)

    def put_before(self, text: str) -> None:
        """Put what was typed before in front of what is typed now."""
        self.insert(self._folds.fold(text), (0, 0))

    @property
    def whole(self) -> str:
        """The text with everything that is shown as a sign."""
        return self._folds.whole(self.text)

    def action_delete_left(self) -> None:
        """Delete what is selected, or before the cursor: a letter, or the sign of a text with that text."""
        self._select_sign(before=True)
        super().action_delete_left()

    def action_delete_right(self) -> None:
        """Delete what is selected, or behind the cursor, likewise."""
        self._select_sign(before=False)
        super().action_delete_right()

    def _select_sign(self, *, before: bool) -> None:
        row, column = self.cursor_location
        sign = self._folds.at(self.document.get_line(row), column, before=before)
        if sign and self.selection.is_empty:
            self.selection = Selection((row, column - len(sign) * before), (row, column + len(sign) * (not before)))

    async def _on_key(self, event: events.Key) -> None:
        takes = not (self.is_being_sent and event.is_printable)
        what = PROMPT_KEYS.get(event.key, "")
        if not what and takes:
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        match what:
            case "leave":
                self.post_message(self.Left())
            case "back":
                self.post_message(self.TakenBack())
            case _ if self.is_being_sent:
                # It is being sent: a second Enter is not a second prompt.
                return
            case "newline":
                self.insert("\n")
            case "earlier" | "later":
                self._recall(-1 if what == "earlier" else 1)
            case "agent" | "permissions" | "model" | "worktree":
                self.post_message(self.Turned(what))
            case _ if self.text.strip():
                self.is_being_sent = True
                self.post_message(self.Submitted(self.whole, Way(what)))

    def get_line(self, line_index: int) -> Text:
        """Return a line as it is painted: a letter that a terminal would obey is one sign, so that places stay."""
        line = self.document.get_line(line_index)
        if harmless.clean(line) != line:
            line = "".join(each if each == "\t" or harmless.clean(each) == each else SIGN for each in line)
        return Text(line, end="", no_wrap=True)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return what is painted: nothing before the field has its styles, which keys may come before."""
        if not self._component_styles:
            return [Strip.blank(crop.width)] * crop.height
        return super().render_lines(crop)

    def on_paste(self, event: events.Paste) -> None:
        """Take no paste while the prompt is being sent; the base takes any other one after this, if long as a sign."""
        event.text = self._folds.fold(event.text)
        if self.is_being_sent:
            event.stop()
            event.prevent_default()

    @property
    def unsent(self) -> str:
        """The text to keep: while an earlier prompt is only looked at, what was typed before that."""
        whole = self.whole
        is_looked_at = self._at < len(self._prompts) and whole == self._prompts[self._at]
        return self._earlier[-1] if is_looked_at else whole

    def _recall(self, by: int) -> None:
        """Show an earlier prompt of the session, or the text that was typed."""
        self._earlier[self._at] = self.whole
        self._at = min(max(self._at + by, 0), len(self._earlier) - 1)
        self.load_text(self._folds.fold(self._earlier[self._at]))
        self.move_cursor(self.document.end)

    def on_text_area_changed(self) -> None:
        """Have the text kept as soon as no key comes for a moment."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(KEPT_AFTER_S, self._keep)

    def _keep(self) -> None:
        self.post_message(self.Typed(self.unsent))
