"""``backstory context set`` and ``unset``: keys that a person gives a value in a session's context."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import (
    find,
    json_option,
    one_session,
    readable,
    session_option,
    sessions_starting,
    store_option,
)
from backstory.cli.trusting import may_act, talk_late, trust_option

if TYPE_CHECKING:
    from backstory.cli.app import App

KEY_COLUMNS = 50


@click.command("set")
@click.argument("key")
@click.argument("value")
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=sessions_starting)
@session_option
@json_option
@trust_option
@store_option
@click.pass_obj
def set_value(app: App, key: str, value: str, session: str | None, wanted: str | None, as_json: bool) -> None:
    """Set KEY to VALUE in the context of SESSION (default: the session last active here).

    No agent is sent it: `backstory sql` has it in the views context and context_values. Keys that agents and backstory
    keep there cannot be set.
    """
    _decide(app, readable(key), readable(value), one_session(session, wanted), as_json=as_json)


@click.command("unset")
@click.argument("key")
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=sessions_starting)
@session_option
@json_option
@trust_option
@store_option
@click.pass_obj
def unset_value(app: App, key: str, session: str | None, wanted: str | None, as_json: bool) -> None:
    """Remove KEY, which was set in the context of SESSION (default: the session last active here)."""
    _decide(app, readable(key), None, one_session(session, wanted), as_json=as_json)


def _decide(app: App, key: str, value: str | None, session: str | None, *, as_json: bool) -> None:
    found = find(app, session)
    may_act(app, found.store)
    late = app.workspace.set_context(found, key, value)
    named = repr(output.one_line(key, KEY_COLUMNS))
    output.talk(f"{named} is {'not set any more' if value is None else 'set'} in the context of {found.label}.")
    if as_json:
        output.json(found.keys | {"key": key, "value": value})
    talk_late("Unset" if value is None else "Set", late)
