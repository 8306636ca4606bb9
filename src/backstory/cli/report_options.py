"""What reports share on the command line: their options, their time in words, and what an empty one says."""

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


def window(wanted: SessionFilter) -> str:
    """The time that a report is about, in words: ``from 2026-01-01 to 2026-01-30 18:00``."""
    since, until = wanted.since, wanted.until
    if since is None and until is None:
        return "of all time"
    begin = "" if since is None else f"from {output.local(since)}"
    end = "until now" if until is None else f"to {output.local(until)}"
    return f"{begin} {end}".strip()


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
