"""``backstory logout``: this machine leaves a team server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.errors import ServerRefused, ServerUnreachable

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("logout")
@click.pass_obj
def command(app: App) -> None:
    """Log this machine out of the team server. What it sent stays there; `sync forget` takes that out."""
    from backstory.sync import account as accounts
    from backstory.sync.remote import Remote

    own = accounts.account(app.home)
    try:
        with Remote(own.address, own.token) as remote:
            remote.ask("POST", "/v1/logout")
    except ServerRefused as refused:
        if refused.status != 401:
            raise
    except ServerUnreachable as refused:
        output.talk(str(refused))
        output.talk("Its token is good until the server hears of this, or an admin puts you out.")
    accounts.forget(app.home)
    output.talk(f"Logged out of {own.address}.")
