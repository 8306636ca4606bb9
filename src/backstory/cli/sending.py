"""Shared by `steer` and `followup`: the session, and what may be started if it is not running."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.cli.options import SESSION_NAME, find, session_option, store_option
from backstory.cli.prompt_input import input_options
from backstory.cli.trusting import may_act, trust_option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backstory.cli.app import App
    from backstory.workspace.runs.scheduler import IfIdle, Options, QueuedKind


def session_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add options for the session that a message is for; unlike a run's, it must be there."""

    @wraps(function)
    def with_start(*args: Any, or_run: bool, no_run: bool, **rest: Any) -> Any:
        if or_run and no_run:
            raise click.UsageError("--or-run and --no-run cannot be used together.")
        from backstory.workspace.runs.scheduler import IfIdle

        if_idle = IfIdle.RUN if or_run else IfIdle.NOTHING if no_run else IfIdle.ASK
        return function(*args, if_idle=if_idle, **rest)

    with_options: Callable[..., Any] = with_start
    for option in (
        click.option("--name", type=SESSION_NAME, help="Use the session NAME."),
        session_option,
        click.option("--or-run", is_flag=True, help="If the session is not running: run it now, as a prompt."),
        click.option("--no-run", is_flag=True, help="Only queue it: if the session is not running, start nothing."),
        click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines."),
        input_options,
        trust_option,
        store_option,
    ):
        with_options = option(with_options)
    return with_options


def send(
    app: App,
    messages: Sequence[tuple[QueuedKind, str]],
    wanted: str | None,
    options: Options,
    if_idle: IfIdle,
    *,
    as_json: bool = False,
) -> int:
    """Send messages and follow-ups to a session, and print what comes of it; returns the exit code."""
    from backstory.cli.views.printing import print_events, printer_for
    from backstory.runs.runner import check_text

    for _, text in messages:
        check_text(text)
    may_act(app)
    scheduler = app.workspace.scheduler
    for problem in scheduler.recover():
        output.talk(problem)
    located = find(app, wanted, running_first=True)
    events = scheduler.send(located, messages, options, if_idle, _is_to_run)
    return print_events(events, printer_for(as_json=as_json))


def _is_to_run(session: str) -> bool:
    """Return True if a person at the terminal agrees to run what is for a session that is not running."""
    return output.confirm(f"{session} is not running. Run it as a prompt now?")
