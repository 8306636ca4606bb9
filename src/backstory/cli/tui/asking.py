"""Small dialogs: a question with yes or no, and a field for one line. Both show what follows from the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from backstory.cli import output
from backstory.cli.tui import actions
from backstory.cli.tui.actions import LINE, QUESTION
from backstory.cli.tui.bars import Bar
from backstory.cli.tui.strips import strip_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual import events
    from textual.app import App, ComposeResult
    from textual.strip import Strip

FRAME_CSS = """
    %(name)s { align: center middle; }
    %(name)s VerticalScroll { width: 70; max-width: 100%%; height: auto; max-height: 100%%; }
    %(name)s VerticalScroll { border: round $primary; padding: 0 1; }
    %(name)s Horizontal { height: 1; }
"""
FRAME_COLUMNS = 66
"""The columns within a frame, where there is room for all of it."""
ANSWERS = {True: "y yes", False: "n no"}
ANSWER_COLUMNS = 10
"""The fewest columns of an answer."""
GOING_ON = {True: "y Continue", False: "n Cancel"}


def ask(app: App[None], question: str, agreed: Callable[[], object]) -> None:
    """Ask a question over the screen; ``agreed`` is called for a yes, and nothing for a no."""

    def answered(answer: bool | None) -> None:
        if answer:
            agreed()

    app.push_screen(YesOrNo(question), answered)


def ask_to_go_on(app: App[None], question: str, answered: Callable[[bool], object]) -> None:
    """Ask over the screen whether to continue or to cancel."""

    def taken(answer: bool | None) -> None:
        answered(bool(answer))

    app.push_screen(YesOrNo(question, GOING_ON), taken)


def ask_line(app: App[None], asked: str, given: Callable[[str], object], *, text: str = "", note: str = "") -> None:
    """Ask for a line over the screen; ``given`` is called with one that is not empty, and with nothing for Esc.

    ``text``: the field holds it at first. ``note``: a sentence below the field.
    """

    def answered(answer: str | None) -> None:
        if answer:
            given(answer)

    app.push_screen(LineQuestion(asked, text, note), answered)


PASTED_CHARS_MAX = 10_000
"""The most characters that a field of one line takes at once: more can only be pasted by mistake."""


class HarmlessInput(Input):
    """A field of one line. A letter that a terminal would obey becomes its escape."""

    def __init__(self, text: str = "", placeholder: str = "") -> None:
        super().__init__(output.one_liner(text), placeholder=placeholder, compact=True, select_on_focus=False)
        self.cursor_blink = False

    def validate_value(self, value: str) -> str:
        """Return what the field holds of a text."""
        return output.one_liner(value)

    def on_paste(self, event: events.Paste) -> None:
        """Cut what is pasted to what a line may hold; the base takes it after this."""
        event.text = event.text[:PASTED_CHARS_MAX]


class YesOrNo(ModalScreen[bool]):
    """A question that says what a yes does. Enter takes the answer that is marked, at first the no."""

    CSS = FRAME_CSS % {"name": "YesOrNo"}
    BINDINGS: ClassVar = actions.bindings(QUESTION)

    place = QUESTION

    def __init__(self, question: str, answers: Mapping[bool, str] = ANSWERS) -> None:
        super().__init__()
        self._question, self._is_yes = question, False
        self._answers = [AnswerLine(answer, words) for answer, words in answers.items()]

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield _text(self._question)
            with Horizontal():
                yield from self._answers

    def on_mount(self) -> None:
        """Mark the no."""
        self._mark()

    def _mark(self) -> None:
        for each in self._answers:
            each.mark(is_marked=each.answer == self._is_yes)

    def on_answer_line_chosen(self, chosen: AnswerLine.Chosen) -> None:
        """Take the answer that was clicked."""
        self.dismiss(chosen.answer)

    def action_other(self) -> None:
        """Mark the other answer."""
        self._is_yes = not self._is_yes
        self._mark()

    def action_take(self) -> None:
        """Take the answer that is marked."""
        self.dismiss(self._is_yes)

    def action_yes(self) -> None:
        """Answer yes."""
        self.dismiss(True)

    def action_no(self) -> None:
        """Answer no."""
        self.dismiss(False)


class AnswerLine(Widget):
    """One of the two answers, which can be clicked."""

    DEFAULT_CSS = "AnswerLine { height: 1; }"

    class Chosen(Message):
        """The answer that was clicked."""

        def __init__(self, answer: bool) -> None:
            super().__init__()
            self.answer = answer

    def __init__(self, answer: bool, words: str) -> None:
        super().__init__()
        self.answer, self._words, self._is_marked = answer, words, False
        self.styles.width = max(ANSWER_COLUMNS, len(words) + 4)

    def mark(self, *, is_marked: bool) -> None:
        """Mark the answer as the one that Enter takes, or not."""
        self._is_marked = is_marked
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return the line."""
        line = f"{'> ' if self._is_marked else '  '}{self._words}"
        shown = output.style(line, reverse=True) if self._is_marked else line
        return strip_of(shown, self.size.width).apply_style(self.rich_style)

    def on_click(self) -> None:
        """Choose the answer."""
        self.post_message(self.Chosen(self.answer))


class LineQuestion(ModalScreen[str | None]):
    """A field for a line, with what it is for above it. None: the person left it."""

    CSS = FRAME_CSS % {"name": "LineQuestion"}
    BINDINGS: ClassVar = actions.bindings(LINE)

    place = LINE

    def __init__(self, asked: str, text: str = "", note: str = "") -> None:
        super().__init__()
        self._asked, self._note = asked, note
        self._field, self._foot = HarmlessInput(text), Bar()
        self._foot.show(actions.foot(LINE, FRAME_COLUMNS))

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield _text(self._asked)
            yield self._field
            if self._note:
                yield _text(self._note)
            yield self._foot

    def on_mount(self) -> None:
        """Have letters go into the field."""
        self._field.focus()

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        """Take the line."""
        self.dismiss(submitted.value.strip())

    def action_take(self) -> None:
        """Take the line."""
        self.dismiss(self._field.value.strip())

    def action_leave_line(self) -> None:
        """Leave the field; nothing is done."""
        self.dismiss(None)


def _text(text: str) -> Static:
    """A text as a widget, each of its lines harmless."""
    return Static("\n".join(output.for_screen(each, is_coloured=False) for each in text.split("\n")), markup=False)
