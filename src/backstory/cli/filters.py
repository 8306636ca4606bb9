"""The options that say which sessions are meant, for every command that lists or searches them."""

from __future__ import annotations

import os
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from backstory.cli.options import AGENT, GIT_BRANCH, REPOSITORY, moment, readable, since_option, until_option
from backstory.store.session_filter import SessionFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.cli.app import App

_OPTIONS = (
    click.option("--agent", "-a", type=AGENT, help="Only sessions of this agent."),
    click.option("--repo", type=REPOSITORY, help="Only sessions in this repository: owner/name, or name."),
    click.option(
        "--branch", type=GIT_BRANCH, help="Only sessions that were on this git branch; * stands for anything."
    ),
    click.option(
        "--path", metavar="PATH", help="Only sessions that touched this file or folder, or a path that ends so."
    ),
    click.option("--ref", metavar="REF", help="Only sessions that name this: 12, 1a2b3c4, ABC-12, a URL."),
    since_option,
    until_option,
)


def filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say which sessions are meant: the command receives them as ``chosen``, a SessionFilter."""

    @wraps(function)
    def with_filter(*args: Any, **how: Any) -> Any:
        typed = {name: how.pop(name) for name in ("agent", "repo", "branch", "path", "ref", "since", "until")}
        return function(*args, chosen=_filter(click.get_current_context().obj, **typed), **how)

    for option in reversed(_OPTIONS):
        with_filter = option(with_filter)
    return with_filter


def _filter(
    app: App,
    *,
    agent: str | None,
    repo: str | None,
    branch: str | None,
    path: str | None,
    ref: str | None,
    since: str | None,
    until: str | None,
) -> SessionFilter:
    # Without a zone of its own it is the system's, whose summer time it then knows.
    now = datetime.now()
    return SessionFilter(
        agent=agent,
        repository=_readable(repo),
        branch=_readable(branch),
        path=_path(app, path),
        ref=_readable(ref),
        since=moment(since, now),
        until=moment(until, now, end=True),
    )


def _readable(text: str | None) -> str | None:
    return None if text is None else readable(text)


def _path(app: App, path: str | None) -> str | None:
    """A path as sessions name it. One that is no more than a name is the end of it, wherever that lies."""
    if path is None:
        return None
    if path.startswith("~/"):
        path = str(app.user_home / path[2:])
    elif path in (".", "..") or path.startswith(("./", "../")):
        path = os.path.normpath(app.cwd / path)
    return readable(path)
