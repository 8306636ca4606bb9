"""Options and arguments that several commands share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime


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


class Named(click.types.StringParamType):
    """A text that names something. A shell completes it as the function ``completed`` of ``completing`` does."""

    def __init__(self, name: str, completed: str) -> None:
        self.name, self._completed = name, completed

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from backstory.cli import completing

        found: list[Any] = getattr(completing, self._completed)(ctx, incomplete)
        return found


AGENT = Named("name", "agents")
REPOSITORY = Named("name", "repositories")
GIT_BRANCH = Named("name", "git_branches")
TOOL = Named("name", "tools")
SESSION = Named("session", "sessions")
SESSION_NAME = Named("name", "session_names")
SETTING = Named("key", "settings")


def sessions_starting(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """The sessions whose number or uid begins so, for a shell to complete."""
    return SESSION.shell_complete(ctx, param, incomplete)


def session_argument(**how: Any) -> Callable[[Any], Any]:
    """The argument that names a session: number, name, uid prefix or the agent's own id."""
    metavar = "SESSION" if how.get("required", True) else "[SESSION]"
    return click.argument("session", metavar=metavar, shell_complete=sessions_starting, **how)


def sessions_argument(*, required: bool = False) -> Callable[[Any], Any]:
    """Any number of sessions, or one at least."""
    metavar = "SESSION..." if required else "[SESSION]..."
    return click.argument("sessions", metavar=metavar, nargs=-1, required=required, shell_complete=sessions_starting)


def readable(text: str) -> str:
    """An argument as text: bytes that are none are shown as such."""
    return os.fsencode(text).decode("utf-8", "replace")


since_option = click.option(
    "--since", metavar="TIME", help="Only from then on: 2026-11-01, yesterday, monday, 'last week', '3 days', 2h."
)
until_option = click.option("--until", metavar="TIME", help="Only up to then; of a day, a week or a month to its end.")


def moment(text: str | None, now: datetime, *, end: bool = False) -> int | None:
    """A time as people write it, in ms since 1970: where it begins, or its ``end``. Raises BadTime.

    ``now`` without a zone is a time of the system's own.
    """
    if text is None:
        return None
    from backstory import times

    return (times.until if end else times.since)(text, now)
