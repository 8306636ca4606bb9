"""``backstory`` without a command: the newest sessions here, what is running, and where help is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.list_remarks import report_elsewhere, report_runs, why_no_sessions
from backstory.cli.session_table import Shown, print_page
from backstory.workspace.sessions import Page, SessionFilter

if TYPE_CHECKING:
    from backstory.cli.app import App

SESSIONS_SHOWN = 5
NEXT_STEPS = ("all: backstory list", "find: backstory search WORDS", "help: backstory help")


def print_overview(app: App) -> None:
    """Print the newest sessions of this project; where it has none why, and what to do."""
    app.bring_up_to_date()
    wanted = SessionFilter()
    page = app.reader.sessions(wanted, Page(limit=SESSIONS_SHOWN))
    report_runs(app.reader)
    report_elsewhere(app)
    if not page.sessions:
        output.talk(why_no_sessions(app, wanted))
        output.talk("Help: backstory help")
        return
    shown = Shown(now=app.workspace.now(), everywhere=False, sort=None, limit=SESSIONS_SHOWN)
    print_page(page, shown, NEXT_STEPS)
