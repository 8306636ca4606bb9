"""Opens the screen where it can be: on a terminal that is large enough, with Textual, with sessions to show."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.tui import COLUMNS_LEAST, LINES_LEAST
from backstory.errors import NoScreen, ScreenNotInstalled
from backstory.workspace.history.sessions import SessionFilter

if TYPE_CHECKING:
    from backstory.cli.app import App


def open_screen(app: App, *, everywhere: bool = False) -> None:
    """Show the screen until a person leaves it. Raises NoScreen, ScreenNotInstalled."""
    if not output.can_paint():
        raise NoScreen
    if importlib.util.find_spec("textual") is None:
        raise ScreenNotInstalled
    columns, lines = output.screen_size()
    if columns < COLUMNS_LEAST or lines < LINES_LEAST:
        raise NoScreen(f"{columns} columns and {lines} lines, not {COLUMNS_LEAST} and {LINES_LEAST}")
    app.check_store()
    if not app.reader.count(SessionFilter(everywhere=True)):
        from backstory.cli.picker.picking import has_imported

        if not has_imported(app):
            return
    from backstory.cli.tui.app import run_screen

    run_screen(app, SessionFilter(everywhere=everywhere))
