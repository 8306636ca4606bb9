"""Options and arguments that several commands share."""

from __future__ import annotations

import os
from functools import wraps
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
    help="Use this store file instead of the home store.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class Named(click.types.StringParamType):
    """A text that names something. Shells complete it with the function ``completed`` of ``completing``."""

    def __init__(self, name: str, completed: str) -> None:
        self.name, self._completed = name, completed

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from backstory.cli import completing

        found: list[Any] = getattr(completing, self._completed)(ctx, incomplete)
        return found


AGENT = Named("name", "agents")
RUNNING_AGENT = Named("name", "running_agents")
SERVED_AGENT = Named("agent", "served_agents")
SKILLED_AGENT = Named("agent", "skilled_agents")
REPOSITORY = Named("name", "repositories")
GIT_BRANCH = Named("name", "git_branches")
TOOL = Named("name", "tools")
BOARD_ITEM = Named("name", "board_items")
SESSION = Named("session", "sessions")
SESSION_NAME = Named("name", "session_names")
SETTING = Named("key", "settings")


def sessions_starting(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Return the sessions whose number or uid starts like this, for shell completion."""
    return SESSION.shell_complete(ctx, param, incomplete)


def session_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``-S``: names the session where the argument is something else."""
    option = click.option(
        "--session", "-S", "wanted", metavar="SESSION", shell_complete=sessions_starting,
        help="The session: S3, a name, the start of a uid.",
    )  # fmt: skip
    return option(function)


def session_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """SESSION or ``-S SESSION``, which are the same: a number, name, uid prefix or the agent's own id, or None."""

    @wraps(function)
    def with_one(*args: Any, session: str | None, wanted: str | None, **rest: Any) -> Any:
        return function(*args, session=one_session(session, wanted), **rest)

    argument = click.argument("session", metavar="[SESSION]", required=False, shell_complete=sessions_starting)
    return argument(session_option(with_one))


def one_session(session: str | None, wanted: str | None) -> str | None:
    """Return the session named as an argument or with -S. Raises UsageError if the two differ."""
    if session is not None and wanted is not None and session != wanted:
        raise click.UsageError(
            f"SESSION is {readable(session)!r}, and -S names {readable(wanted)!r}: name one session."
        )
    return wanted if session is None else session


def sessions_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Any number of SESSIONs, or of ``-S SESSION``."""

    @wraps(function)
    def with_all(*args: Any, sessions: tuple[str, ...], wanted: tuple[str, ...], **rest: Any) -> Any:
        if sessions and wanted and set(sessions) != set(wanted):
            raise click.UsageError("Name the sessions either as arguments or with -S.")
        return function(*args, sessions=sessions or wanted, **rest)

    option = click.option(
        "--session", "-S", "wanted", metavar="SESSION", multiple=True, shell_complete=sessions_starting,
        help="The same as the argument SESSION.",
    )  # fmt: skip
    argument = click.argument("sessions", metavar="[SESSION]...", nargs=-1, shell_complete=sessions_starting)
    return argument(option(with_all))


def pick_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``-i``, and ``--print`` for what inserts the command elsewhere."""
    for option in (
        click.option("--print", "prints", is_flag=True, help="With -i: print the command instead of running it."),
        click.option("--interactive", "-i", "picks", is_flag=True, help="Pick one, then show, resume or continue it."),
    ):
        function = option(function)
    return function


def readable(text: str) -> str:
    """An argument as text; invalid bytes become replacement characters."""
    return os.fsencode(text).decode("utf-8", "replace")


since_option = click.option(
    "--since", metavar="TIME", help="Only from this time on: 2026-11-01, yesterday, monday, 'last week', '3 days', 2h."
)
until_option = click.option("--until", metavar="TIME", help="Only up to this time; a day, week or month to its end.")


def moment(text: str | None, now: datetime, *, end: bool = False) -> int | None:
    """Parse a time as people write it to ms since 1970: its beginning, or its ``end``. Raises BadTime.

    ``now`` without a zone is in the system's zone.
    """
    if text is None:
        return None
    from backstory import times

    return (times.until if end else times.since)(text, now)
