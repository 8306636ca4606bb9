"""``backstory team``: the people of a team server's organisation.

JSON of ``users``: ``people``, each with ``person``, ``membership`` and ``created``; of ``invite``: ``invitation``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from backstory.cli import output
from backstory.cli.options import json_option

if TYPE_CHECKING:
    from backstory.cli.app import App

ROLES = ("reader", "member", "admin")


@click.group("team")
def command() -> None:
    """Let people in to your organisation on the team server, and out."""


@command.command("invite")
@click.option("--as", "role", type=click.Choice(ROLES), default="member", show_default=True, help="Give this role.")
@json_option
@click.pass_obj
def invite(app: App, role: str, as_json: bool) -> None:
    """Print a code by which one person comes in. It is good once, for a week.

    A reader reads, a member also sends history, an admin also lets people in and out.
    """
    address, found = _asked(app, "POST", "/v1/invites", {"role": role})
    if as_json:
        output.json({"invitation": found["code"]})
    else:
        output.talk(f"For one {role}, once, within a week:")
        output.data(f"backstory login {address} --code {found['code']}")


@command.command("users")
@click.argument("name", required=False)
@click.option("--as", "role", type=click.Choice(ROLES), help="Give this role.")
@click.option("--remove", is_flag=True, help="Take NAME out; their logins end at once.")
@json_option
@click.pass_obj
def users(app: App, role: str | None, name: str | None, remove: bool, as_json: bool) -> None:
    """List the people of your organisation, or change NAME of them. The last admin stays."""
    if (name is None) != (role is None and not remove) or (role is not None and remove):
        raise click.UsageError("To change a person give the name, and --as or --remove.")
    if name is not None:
        path = f"/v1/people/{quote(name, safe='')}"
        _asked(app, "DELETE" if remove else "PATCH", path, None if remove else {"role": role})
    _, found = _asked(app, "GET", "/v1/people")
    people = found["people"]
    if as_json:
        renamed = [{"person": each["name"], "membership": each["role"], "created": each["created"]} for each in people]
        output.json({"people": renamed})
        return
    for each in people:
        output.data(f"{each['role']:<7}{output.one_line(each['name'], output.width() - 7)}")


def _asked(app: App, method: str, path: str, body: Any = None) -> tuple[str, Any]:
    from backstory.sync import account as accounts
    from backstory.sync.remote import Remote

    own = accounts.account(app.home)
    with Remote(own.address, own.token) as remote:
        return own.address, remote.ask(method, path, body, repeats=method != "POST")
