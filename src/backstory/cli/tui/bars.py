"""Lines around a session: how it is, and what its agent has to do."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from textual.message import Message
from textual.widget import Widget

from backstory.cli import output
from backstory.cli.tui import actions
from backstory.cli.tui.strips import strip_of
from backstory.derive.moments import OUTCOMES, RUNNING
from backstory.derive.naming import NO_PROMPT, short_model
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.history.stats import StatsQuery
from backstory.workspace.runs.running import meter_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.strip import Strip

    from backstory.cli.app import App
    from backstory.derive.given import Task
    from backstory.workspace.history.transcript import Transcript

TITLE_COLUMNS, TITLE_COLUMNS_LEAST = 40, 20
LEFT_OUT = ("today", "agent", "costs")
"""The facts that are left out where there is no room for the title, one after the other; the state never is."""
TASKS_SHOWN = 4


class Bar(Widget):
    """A line of text, or a few."""

    DEFAULT_CSS = "Bar { height: 1; }"

    class Clicked(Message):
        """A click where no key is."""

    def __init__(self) -> None:
        super().__init__()
        self._text = ""

    def show(self, text: str) -> None:
        """Show a text, with the marks of ``output.style``."""
        if text != self._text:
            self._text = text
            self.styles.height = text.count("\n") + 1
            self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Do what the key would that is clicked."""
        keys = actions.clicked(self._text, event.x)
        for key in keys:
            self.app.post_message(key)
        if not keys:
            self.post_message(self.Clicked())

    def render_line(self, y: int) -> Strip:
        """Return a line."""
        line = next(islice(self._text.split("\n"), y, None), "")
        return strip_of(output.cut(line, self.size.width), self.size.width).apply_style(self.rich_style)


class TaskList(Bar):
    """The list of what an agent that works has to do, in a few lines; none where it has no list."""

    DEFAULT_CSS = "TaskList { display: none; }"

    def show_tasks(self, tasks: Sequence[Task]) -> None:
        """Show what there is to do; nothing for none."""
        self.display = bool(tasks)
        self.show("\n".join(task_lines(tasks)))


def task_lines(tasks: Sequence[Task]) -> list[str]:
    """The list of what there is to do in a few lines: the task at hand, those around it, and how many are done."""
    if not tasks:
        return []
    at = next((n for n, each in enumerate(tasks) if each.is_at_hand), None)
    if at is None:
        at = next((n for n, each in enumerate(tasks) if not each.is_done), len(tasks) - 1)
    first = max(min(at - 1, len(tasks) - TASKS_SHOWN), 0)
    shown = tasks[first : first + TASKS_SHOWN]
    done = f"{sum(each.is_done for each in tasks)} of {len(tasks)} done"
    head = output.style(f"to do · {done}", dim=True)
    return [head, *(f"  {_sign(each)} {output.one_liner(each.words)}" for each in shown)]


def _sign(task: Task) -> str:
    return output.style("✓", fg="green") if task.is_done else output.style("▶", fg="cyan") if task.is_at_hand else "○"


def cost_of_today(app: App) -> str:
    """The cost of all sessions since midnight, as far as it is known; '' if nothing is."""
    with app.new_workspace() as workspace:
        midnight = datetime.fromtimestamp(workspace.now() / 1000).replace(hour=0, minute=0, second=0, microsecond=0)
        today = SessionFilter(everywhere=True, since=int(midnight.timestamp() * 1000))
        return workspace.reader.stats(StatsQuery(wanted=today, is_estimated=False)).total.cost.known


def status_line(transcript: Transcript, today: str, columns: int) -> str:
    """A session in a line: its state, number and title, agent, model, context, the costs of its last turn and of all.

    ``today``: the cost of all sessions since midnight.
    """
    session = transcript.session
    mark, colour = OUTCOMES.get(RUNNING if session.is_running else session.outcome or "", ("", ""))
    state = "running" if session.is_running else session.outcome or ""
    model = transcript.turns[-1].turn.model if transcript.turns else None
    named = short_model(model, session.agents) if model else ""
    full, fill_colour = meter_words(session.meter)
    costs = [session.last_cost.known] if session.turns > 1 else []
    costs.append(session.cost.known)
    facts = {
        "agent": output.one_liner(" ".join(filter(None, [", ".join(session.agents), named]))),
        "state": state,
        "context": f"context {output.style(full, fg=fill_colour)}" if full else "",
        "costs": " of ".join(filter(None, costs)),
        "today": f"today {today}" if today else "",
    }
    start = f"{output.style(mark, fg=colour)} " if mark else ""
    for least in ("", *LEFT_OUT):
        facts.pop(least, None)
        behind = "".join(f" · {each}" for each in facts.values() if each)
        room = columns - output.columns_shown(f"{start}{behind}")
        if room >= TITLE_COLUMNS_LEAST:
            break
    number = session.number or (session.label if room >= TITLE_COLUMNS else "")
    title = output.one_line(
        f"{number} {session.pruned_mark}{session.heading or NO_PROMPT}".strip(), max(min(TITLE_COLUMNS, room), 1)
    )
    return f"{start}{output.style(title, bold=True)}{behind}"
