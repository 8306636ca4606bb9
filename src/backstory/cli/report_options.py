"""What reports share on the command line: their filters, their forms, and what is said where there is no history."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from backstory.chronicle.window import nearest_day
from backstory.cli import output
from backstory.cli.filters import filter_options
from backstory.cli.list_remarks import why_no_sessions
from backstory.cli.options import json_option, store_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.cli.app import App
    from backstory.workspace.sessions import SessionFilter

_OPTIONS = (
    click.option("--here", is_flag=True, help="Only this project's sessions."),
    filter_options,
    click.option("--md", "as_markdown", is_flag=True, help="Print Markdown."),
    json_option,
)


def report_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every report: ``here``, ``chosen`` (a SessionFilter), ``as_markdown`` and ``as_json``."""

    @wraps(function)
    def with_form(*args: Any, **how: Any) -> Any:
        if how["as_markdown"] + how["as_json"] + how.get("explain", False) > 1:
            raise click.UsageError("Choose one of --md, --json and --explain.")
        return function(*args, **how)

    for option in reversed((*_OPTIONS, store_option)):
        with_form = option(with_form)
    return with_form


def print_where_there_is(app: App, wanted: SessionFilter) -> None:
    """Print where else there is history, when a report's time holds none."""
    day = nearest_day(app.reader, wanted)
    if day is None:
        output.talk(why_no_sessions(app, wanted))
    else:
        output.talk(
            f"No sessions in this time. The nearest are of {day}: --since {day}. If some are missing, "
            "`backstory chronicle reindex` imports them and rebuilds what is derived."
        )
