"""``backstory login``: this machine and a team server.

JSON: ``address``, ``organisation``, ``person`` and ``membership``; with ``--approve``: ``machine``, its name.
"""

from __future__ import annotations

import getpass
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.cli.options import json_option
from backstory.errors import Cancelled, NotLoggedIn
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.sync.remote import Remote

ASKS_EVERY_S = 2.0
SECRET = lazy_regex(r"[\x21-\x7e]+")


@click.command("login")
@click.argument("address", required=False)
@click.option("--code", metavar="CODE", help="Come in by an invitation (-: it is asked for, or read from stdin).")
@click.option("--token", metavar="-", help="Come in by a token, which is asked for, or read from stdin.")
@click.option("--person", metavar="NAME", help="Be called this there (else as this account).")
@click.option("--approve", metavar="CODE", help="Let in the machine or the browser that shows this code.")
@click.option("--steer", is_flag=True, help="With --approve: let that browser steer your runs, too.")
@json_option
@click.pass_obj
def command(
    app: App, address: str | None, code: str | None, token: str | None, person: str | None, approve: str | None,
    steer: bool, as_json: bool,
) -> None:  # fmt: skip
    """Log this machine in to a team server, at the address that your team gives you.

    With an invitation you come in at once. On a further machine of yours leave it out: that one shows a code, which
    `backstory login --approve CODE` confirms on a machine that is logged in; so does the server's page in a browser.
    Logging in sends no history.
    """
    from backstory.sync import account as accounts
    from backstory.sync.remote import Remote

    if approve is not None:
        _approve(app, approve, steers=steer, as_json=as_json)
        return
    if steer:
        raise click.UsageError("--steer belongs to --approve.")
    if token not in (None, "-") or (token is not None and code is not None):
        raise click.UsageError("A token is never typed on the command line: --token -, and no --code.")
    if address is None:
        try:
            address = accounts.account(app.home).address
        except NotLoggedIn:
            raise click.UsageError("Give the address of the server, such as https://backstory.example.com") from None
    where, machine = accounts.address_of(address), socket.gethostname()
    secret = "" if token is None else _asked_secret("Token")
    with Remote(where, secret or None) as remote:
        if token is not None:
            found = remote.ask("GET", "/v1/me") | {"token": secret}
        elif code is not None:
            code = _asked_secret("Code") if code == "-" else code
            wanted = {"code": code, "name": person or getpass.getuser(), "machine": machine}
            found = remote.ask("POST", "/v1/join", wanted | {"secret": accounts.secret_to_join(app.home, code)})
        else:
            found = _waited(remote, machine, accounts.new_secret())
    _keep(app, where, found, as_json=as_json)


def _keep(app: App, where: str, found: Any, *, as_json: bool) -> None:
    """Keep a login, and tell of it."""
    from backstory.sync import account as accounts
    from backstory.sync import removed
    from backstory.sync.notes import SyncNotes

    login = accounts.Account(
        address=where, token=found["token"], organisation=found["organisation"], name=found["name"], role=found["role"]
    )
    accounts.keep(app.home, login)
    if (noted := accounts.notes_of(app.home, login)).exists():
        removed.keep_forgotten(SyncNotes.read(noted))
    if as_json:
        printed = {"organisation": login.organisation, "person": login.name, "membership": login.role}
        output.json({"address": where, **printed})
    else:
        output.talk(f"Logged in to {login.organisation} at {where} as {login.name} ({login.role}).")
        output.talk("Nothing was sent. What would be: backstory sync --dry-run")


def _approve(app: App, code: str, *, steers: bool, as_json: bool) -> None:
    """Let in the machine or the browser that shows a code."""
    from backstory.sync import account as accounts
    from backstory.sync.remote import Remote

    own = accounts.account(app.home)
    with Remote(own.address, own.token) as remote:
        # A server of before knows no more than the code.
        meant = {"code": code} | ({"steer": True} if steers else {})
        found = remote.ask("POST", "/v1/login/approve", meant, repeats=False)
    machine, rights = found["machine"], found.get("scopes", [])
    if as_json:
        output.json({"machine": machine, "rights": rights})
        return
    # The name is the one that it gives itself: what it may is what counts.
    may = (
        f"It may {' and '.join(rights)}, and nothing else."
        if found.get("is_browser")
        else "It may do all that you may."
    )
    output.talk(f"Let in as you: {machine or 'a machine without a name'}. {may}")
    output.talk("If that is not what you meant, end it: backstory team logins")


def _asked_secret(what: str) -> str:
    """The code of an invitation or a token, which nobody sees beside the command."""
    typed = (output.asked(what, hide_input=True) if output.can_ask() else sys.stdin.readline()).strip()
    if not typed:
        raise Cancelled
    if not SECRET.fullmatch(typed):
        raise click.UsageError(f"{what}: what was typed is none. It has letters, digits and signs, and no spaces.")
    return typed


def _waited(remote: Remote, machine: str, secret: str) -> Any:
    """Wait until a person lets this machine in."""
    waiting = remote.ask("POST", "/v1/login", {"machine": machine}, repeats=False)
    output.talk("Type this on a machine of yours that is logged in:")
    output.talk(f"  backstory login --approve {waiting['code']}")
    ends = time.monotonic() + int(waiting["expires_in"])
    while time.monotonic() < ends:
        time.sleep(ASKS_EVERY_S)
        found = remote.ask("POST", "/v1/login/token", {"login": waiting["login"], "secret": secret})
        if "token" in found:
            return found
    raise Cancelled
