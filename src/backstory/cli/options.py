"""Options and arguments that several commands share."""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from backstory.errors import BadTime

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.cli.app import App

_AGO = re.compile(r"^(\d+)\s*(m|min|minutes?|h|hours?|d|days?|w|weeks?)(?:\s+ago)?$", re.IGNORECASE)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _take_store(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.obj.store_path = value


store_option = click.option(
    "--store",
    "--db",
    metavar="PATH",
    expose_value=False,
    callback=_take_store,
    help="Use this store file instead of the machine's own.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _sessions_starting(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    from backstory.cli import output

    app: App = ctx.find_root().obj or _app_for_completion()
    items = []
    for store in app.stores:
        for session in store.sessions(limit=200) if store.exists else ():
            value = session.shown_number or session.uid
            if value.startswith(incomplete.upper()):
                items.append(CompletionItem(value, help=output.one_line(session.shown_name, 60)))
    return items


def _app_for_completion() -> App:
    import os
    from pathlib import Path

    from backstory.cli.app import App

    return App(os.environ, Path.cwd())


def session_argument(**how: Any) -> Callable[[Any], Any]:
    """The argument that names a session: number, name, uid prefix or the agent's own id."""
    return click.argument("session", metavar="SESSION", shell_complete=_sessions_starting, **how)


def sessions_argument() -> Callable[[Any], Any]:
    """Any number of sessions."""
    return click.argument("sessions", metavar="[SESSION]...", nargs=-1, shell_complete=_sessions_starting)


def readable(text: str) -> str:
    """An argument as text: bytes that are none are shown as such."""
    return os.fsencode(text).decode("utf-8", "replace")


def moment(text: str | None, now: datetime) -> int | None:
    """A time as people write it, in ms since 1970; a date or weekday means its beginning, in local time."""
    if text is None:
        return None
    try:
        return _moment(text.strip(), now)
    except (ValueError, OverflowError) as refused:
        raise BadTime(text) from refused


def _moment(text: str, now: datetime) -> int:
    words = text.lower()
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if words in ("today", "yesterday"):
        return _ms(today - timedelta(days=words == "yesterday"))
    if words in _WEEKDAYS:
        return _ms(today - timedelta(days=(today.weekday() - _WEEKDAYS.index(words)) % 7 or 7))
    if ago := _AGO.match(words):
        return _ms(now - timedelta(**{_UNITS[ago.group(2)[0]]: int(ago.group(1))}))
    return _ms(datetime.fromisoformat(text))


def _ms(when: datetime) -> int:
    return round(when.timestamp() * 1000)
