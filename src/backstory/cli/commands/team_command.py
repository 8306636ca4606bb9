"""``backstory team``: the people of a team server's organisation, and what they sent.

JSON of ``users``: ``people``, each with ``person``, ``membership`` and ``created``; of ``invite``: ``invitation``; of
``leave``: ``address`` and ``erased_count``, the number of sessions, null where it is not known; of ``repos``:
``repositories``, each with ``repository``, ``session_count``, ``event_count``, ``people_count`` and ``last_active``; of
``export``: ``files``, each with ``path``, ``person``, ``machine``, ``session_count``, ``event_count`` and
``failed_uids``; of ``logins``: ``logins``, each with ``login_id``, ``name``, ``rights``, ``repositories`` (null for
all), ``created``, ``expires``, ``used`` (a day) and ``is_this``; of ``logins --for``: ``login_token``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click
import msgspec

from backstory.cli import output
from backstory.cli.options import json_option
from backstory.cli.trusting import is_agreed
from backstory.errors import LoginRefused, ServerRefused

if TYPE_CHECKING:
    from backstory.cli.app import App

ROLES = ("reader", "member", "admin")
STRANGER = 401
RIGHTS = ("read", "search", "sync", "steer")


@click.group("team")
def command() -> None:
    """See what is in your organisation on the team server; let people in, and out."""


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
@click.option("--remove", is_flag=True, help="Take NAME out; their logins end, and what they sent is erased.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def users(app: App, role: str | None, name: str | None, remove: bool, yes: bool, as_json: bool) -> None:
    """List the people of your organisation, or change NAME of them. The last admin stays."""
    if (name is None) != (role is None and not remove) or (role is not None and remove):
        raise click.UsageError("To change a person give the name, and --as or --remove.")
    if name is not None:
        what = f"Taking {output.one_liner(name)} out, and erasing for good what they sent"
        if remove and not is_agreed(what, f"{what}?", yes=yes):
            return
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


@command.command("repos")
@json_option
@click.pass_obj
def repos(app: App, as_json: bool) -> None:
    """List the repositories of which your organisation has history, the last active first."""
    _, found = _asked(app, "GET", "/v1/repositories")
    if as_json:
        named = {"session_count": "sessions", "event_count": "events", "people_count": "people"}
        output.json({"repositories": [
            {"repository": each["repository"], **{ours: each[theirs] for ours, theirs in named.items()},
             "last_active": each["last_active"]}
            for each in found["repositories"]
        ]})  # fmt: skip
        return
    rows = [
        (each["repository"], f"{each['sessions']:,}", f"{each['events']:,}", f"{each['people']:,}",
         (each["last_active"] or "")[:10])
        for each in found["repositories"]
    ]  # fmt: skip
    if rows:
        heads = ("repository", "sessions", "events", "people", "last active")
        for line in output.table(rows, flexible=0, heads=heads):
            output.data(line)
    else:
        output.talk("Your organisation has no history there yet: backstory sync")


@command.command("logins")
@click.argument("login", required=False)
@click.option("--remove", is_flag=True, help="End LOGIN: a machine that you lost, or a token.")
@click.option("--for", "name", metavar="NAME", help="Make a token for a program, which is shown once.")
@click.option("--may", "rights", type=click.Choice(RIGHTS), multiple=True, help="What the token may (default: sync).")
@click.option("--repo", "repositories", metavar="HOST/OWNER/NAME", multiple=True, help="For this repository alone.")
@click.option("--days", type=click.IntRange(1, 365), default=30, show_default=True, help="Good for so long.")
@json_option
@click.pass_obj
def logins(
    app: App, login: str | None, remove: bool, name: str | None, rights: tuple[str, ...], repositories: tuple[str, ...],
    days: int, as_json: bool,
) -> None:  # fmt: skip
    """List your logins at the team's server, end one, or make a token with fewer rights, such as for a build server.

    There it is typed into `backstory login ADDRESS --token -`.
    """
    if remove != (login is not None) or (remove and name is not None):
        raise click.UsageError("To end a login give its id, and --remove.")
    if (rights or repositories) and name is None:
        raise click.UsageError("--may and --repo belong to --for NAME.")
    if name is not None:
        wanted = {"name": name, "scopes": rights or ["sync"], "repositories": repositories or None, "days": days}
        _make_login(app, wanted, as_json=as_json)
        return
    if login is not None:
        _asked(app, "DELETE", f"/v1/logins/{quote(login, safe='')}")
    _, found = _asked(app, "GET", "/v1/logins")
    if as_json:
        names = {"id": "login_id", "scopes": "rights"}
        output.json({"logins": [{names.get(key, key): each[key] for key in each} for each in found["logins"]]})
        return
    rows = [
        (each["id"], each["name"], ", ".join(each["scopes"]), ", ".join(each["repositories"] or ["all"]),
         each["expires"][:10], "this one" if each["is_this"] else each["used"] or "")
        for each in found["logins"]
    ]  # fmt: skip
    for line in output.table(rows, flexible=3, heads=("login", "of", "may", "repositories", "good until", "used")):
        output.data(line)


def _make_login(app: App, wanted: dict[str, Any], *, as_json: bool) -> None:
    address, made = _asked(app, "POST", "/v1/logins", wanted)
    if as_json:
        output.json({"login_token": made["token"]})
        return
    output.talk(f"Shown this once. Where the program runs: backstory login {address} --token -")
    output.data(made["token"])


@command.command("export")
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
@click.pass_obj
def export(app: App, folder: Path, as_json: bool) -> None:
    """Write all that your organisation sent into FOLDER, for its admins: for each machine a file that `import` reads.

    Secrets are masked in it, as they were sent; the bytes of logs are not there. The audit notes it.
    """
    from backstory.cli import syncing
    from backstory.sync import account as accounts
    from backstory.sync import team_export

    own = accounts.account(app.home)
    with syncing.remote(app, own) as remote, output.progress("Reading what is there") as report:
        files = list(team_export.export(remote, app.cwd / folder, app.workspace.now(), report))
    if as_json:
        output.json({"files": [msgspec.to_builtins(each) for each in files]})
    else:
        for each in files:
            counts = f"{output.counted(each.session_count, 'session')}, {output.counted(each.event_count, 'event')}"
            output.data(f"{each.path}  {counts}")
        if not files:
            output.talk("Nobody sent anything yet.")
    failed = [uid for each in files for uid in each.failed_uids]
    for uid in failed:
        output.talk(f"Session {uid} is not in it: it went meanwhile, or its frames are damaged.")
    if failed:
        raise click.exceptions.Exit(1)


@command.command("leave")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def leave(app: App, yes: bool, as_json: bool) -> None:
    """Leave your organisation: all that you sent is erased there for good. On this machine your history stays."""
    from backstory.sync import account as accounts

    own = accounts.account(app.home)
    what = f"Leaving {output.one_liner(own.organisation)} at {own.address}, and erasing for good what you sent"
    if not is_agreed(what, f"{what}?", yes=yes):
        return
    _asked(app, "GET", "/v1/me")
    try:
        address, found = _asked(app, "DELETE", "/v1/me")
    except LoginRefused as refused:
        if refused.status != STRANGER:
            raise
        # The login was good just now: the first answer was lost, and the second try was a stranger's.
        address, found = own.address, {"erased_count": None}
    accounts.notes_of(app.home, own).unlink(missing_ok=True)
    accounts.forget(app.home)
    if as_json:
        output.json({"address": address, "erased_count": found["erased_count"]})
    else:
        gone = found["erased_count"]
        output.talk("You left. " + ("" if gone is None else f"Erased there: {output.counted(gone, 'session')}."))


def _asked(app: App, method: str, path: str, body: Any = None) -> tuple[str, Any]:
    from backstory.sync import account as accounts
    from backstory.sync.remote import Remote

    own = accounts.account(app.home)
    with Remote(own.address, own.token) as remote:
        try:
            return own.address, remote.ask(method, path, body, repeats=method != "POST")
        except ServerRefused as refused:
            # The person is gone since the first of these requests, whose answer was lost.
            if (method, refused.kind) == ("DELETE", "person_unknown") and remote.requests > 1:
                return own.address, {}
            raise
