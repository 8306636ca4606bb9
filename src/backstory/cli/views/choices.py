"""Sessions and hits as the lines that a person picks from: when, which agent, where, and what it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.views.moments import OUTCOMES, RUNNING, origin_mark
from backstory.cli.views.picking import Choice
from backstory.derive.naming import NO_PROMPT

if TYPE_CHECKING:
    from backstory.search.query import Excerpt
    from backstory.workspace.history.sessions import ListedSession

AGENT_COLUMNS, PROJECT_COLUMNS, TEXT_COLUMNS = 8, 20, 400


def session_choice(session: ListedSession) -> Choice:
    """A session as a line, as ``list`` describes it."""
    mark, _ = OUTCOMES.get(RUNNING if session.is_running else session.outcome or "", (" ", ""))
    origin = origin_mark(session.elsewhere, is_conflict=session.is_conflict)
    title = f"{origin}{session.heading or NO_PROMPT}"
    cells = (mark, output.local(session.last_active)[:16].ljust(16), *_where(session.agents, session.project_name))
    return Choice(uid=session.uid, text=output.one_line("  ".join((*cells, title)), TEXT_COLUMNS, keep_blanks=True))


def hit_choice(found: Excerpt) -> Choice:
    """A hit as a line: its session, and the words around the match."""
    session = found.session
    at = found.stored.at if found.stored.at is not None else session.last_active
    title = found.shown.shown_title or session.shown_title or NO_PROMPT
    cells = (output.local(at)[:10].ljust(10), *_where(session.agents, session.shown_project), title)
    text = f"{output.one_line('  '.join(cells), TEXT_COLUMNS // 2, keep_blanks=True)}  » {found.snippet}"
    return Choice(
        uid=session.uid, seq=found.stored.seq, text=output.one_line(text, TEXT_COLUMNS, keep_blanks=True)
    )  # fmt: skip


def _where(agents: tuple[str, ...], project: str) -> tuple[str, str]:
    """An agent and a project, each padded to its column."""
    return _padded(", ".join(agents), AGENT_COLUMNS), _padded(project, PROJECT_COLUMNS)


def _padded(text: str, room: int) -> str:
    shown = output.one_line(text, room)
    return shown + " " * (room - output.columns(shown))
