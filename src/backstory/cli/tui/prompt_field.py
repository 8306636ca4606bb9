"""The fields of a session: for a prompt, which Enter sends and which is never lost, and for words to look for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from backstory.cli.tui.actions import PROMPT_KEYS
from backstory.cli.tui.asking import HarmlessInput
from backstory.cli.tui.sent import Way
from backstory.derive import harmless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.geometry import Region
    from textual.timer import Timer

KEPT_AFTER_S = 0.5
"""Typed text is kept after so long without a key."""

SIGN = "\N{REPLACEMENT CHARACTER}"


class WordsField(HarmlessInput):
    """The field for words to look for."""

    def __init__(self) -> None:
        super().__init__(placeholder='words; "a phrase"; log* for a beginning')


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

    class Turned(Message):
        """Another agent, or another permission, is wanted."""

        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what

    class Typed(Message):
        """A text that is to be kept."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, text: str, earlier: Sequence[str]) -> None:
        super().__init__(text, soft_wrap=True, show_line_numbers=False, tab_behavior="focus")
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
        self.insert(text, (0, 0))

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
            case _ if self.is_being_sent:
                # It is being sent: a second Enter is not a second prompt.
                return
            case "newline":
                self.insert("\n")
            case "earlier" | "later":
                self._recall(-1 if what == "earlier" else 1)
            case "agent" | "permissions":
                self.post_message(self.Turned(what))
            case _ if self.text.strip():
                self.is_being_sent = True
                self.post_message(self.Submitted(self.text, Way(what)))

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
        """Take no paste while the prompt is being sent; any other one is the base's, which is called after this."""
        if self.is_being_sent:
            event.stop()
            event.prevent_default()

    @property
    def unsent(self) -> str:
        """The text to keep: while an earlier prompt is only looked at, what was typed before that."""
        is_looked_at = self._at < len(self._prompts) and self.text == self._prompts[self._at]
        return self._earlier[-1] if is_looked_at else self.text

    def _recall(self, by: int) -> None:
        """Show an earlier prompt of the session, or the text that was typed."""
        self._earlier[self._at] = self.text
        self._at = min(max(self._at + by, 0), len(self._earlier) - 1)
        self.load_text(self._earlier[self._at])
        self.move_cursor(self.document.end)

    def on_text_area_changed(self) -> None:
        """Have the text kept as soon as no key comes for a moment."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(KEPT_AFTER_S, self._keep)

    def _keep(self) -> None:
        self.post_message(self.Typed(self.unsent))
