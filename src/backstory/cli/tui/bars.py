"""Lines of text, and the line that says how a session is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widget import Widget

from backstory.cli import output
from backstory.cli.tui.strips import strip_of
from backstory.cli.views.moments import OUTCOMES, RUNNING, meter_words
from backstory.derive.naming import NO_PROMPT

if TYPE_CHECKING:
    from textual.strip import Strip

    from backstory.workspace.history.sessions import ListedSession

TITLE_COLUMNS = 40


class Bar(Widget):
    """A line of text."""

    DEFAULT_CSS = "Bar { height: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._text = ""

    def show(self, text: str) -> None:
        """Show a text, with the marks of ``output.style``."""
        if text != self._text:
            self._text = text
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return the line."""
        return strip_of(output.cut(self._text, self.size.width), self.size.width).apply_style(self.rich_style)


def status_line(session: ListedSession) -> str:
    """A session in a line: its state, number and title, agent, model, context and cost."""
    mark, colour = OUTCOMES.get(RUNNING if session.is_running else session.outcome or "", ("", ""))
    state = "running" if session.is_running else session.outcome or ""
    named = f"{session.number or session.label} {session.heading or NO_PROMPT}"
    facts = [", ".join(session.agents), state, output.counted(session.turns, "turn"), session.cost.known]
    full, fill_colour = meter_words(session.meter)
    context = output.style(f" · context {full}", fg=fill_colour) if full else ""
    start = f"{output.style(mark, fg=colour)} " if mark else ""
    title = output.style(output.one_line(named, TITLE_COLUMNS), bold=True)
    return f"{start}{title} · {' · '.join(each for each in facts if each)}{context}"
