"""``backstory serve``: the team server."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backstory import bounds
from backstory.cli import output
from backstory.errors import ServerNotInstalled

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.server.serving import ServedTeam

PACKAGES = ("starlette", "uvicorn", "psycopg", "psycopg_pool", "jinja2", "markdown_it", "prometheus_client")
PORT = 7421
DATABASE, DATA, KEPT_MB = "BACKSTORY_DATABASE_URL", "BACKSTORY_SERVER_DATA", "BACKSTORY_SERVER_KEPT_MB"
KEPT_MB_USUAL = 256


@click.command("serve")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Listen at this address of the machine.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, metavar="NUMBER", help="Serve on this port.")
@click.option("--data", type=click.Path(path_type=Path), metavar="FOLDER", help="Keep the server's database here.")
@click.option("--organisation", default="Our team", metavar="NAME", show_default=True,
              help="Name the organisation that the first start makes.")  # fmt: skip
@click.option("--tls-cert", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
              help="Encrypt with this certificate, and --tls-key.")  # fmt: skip
@click.option("--tls-key", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
              help="Give the key of --tls-cert.")  # fmt: skip
@click.option("--behind-proxy", is_flag=True, help="Say that a proxy in front encrypts what comes from other machines.")
@click.option("--metrics", metavar="ADDRESS:PORT", help="Answer Prometheus there, which needs no login.")
@click.option("--log", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True), metavar="FILE",
              help="Write a line of JSON for each request, without content; - for standard error.")  # fmt: skip
@click.option("--backup", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Serve nothing: write all that is there into a new file, also while it is served.")  # fmt: skip
@click.option("--restore", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Serve nothing: bring back what --backup wrote, into an empty folder.")  # fmt: skip
@click.pass_obj
def command(
    app: App, host: str, port: int, data: Path | None, organisation: str, tls_cert: Path | None, tls_key: Path | None,
    behind_proxy: bool, metrics: str | None, log: Path | None, backup: Path | None, restore: Path | None,
) -> None:  # fmt: skip
    """Serve a team: keep what its people send of their history, masked, and answer only them.

    It keeps its tables in a PostgreSQL of its own, or in the one that BACKSTORY_DATABASE_URL names. The first start
    prints a code that makes the first admin: `backstory login ADDRESS --code CODE`. Ctrl-C ends it. The
    port is 7421 unless you give one; 0 is any that is free.
    """
    if any(importlib.util.find_spec(each) is None for each in PACKAGES):
        raise ServerNotInstalled
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key belong together.")
    folder = app.cwd / (data or Path(app.environ.get(DATA) or _default_folder(app)))
    if backup or restore:
        _copy(app, folder, backup, restore)
        return
    from backstory.server.serving import SeenFrom, ServerPlace, serve

    place = ServerPlace(host=host, port=port, certificate=tls_cert, key=tls_key, is_behind_proxy=behind_proxy)
    seen = SeenFrom(figures=None if metrics is None else _address(metrics), log=log)
    kept = app.environ.get(KEPT_MB) or str(KEPT_MB_USUAL)
    if not (kept.isascii() and kept.isdecimal()):
        raise click.UsageError(f"{KEPT_MB} is a number of megabytes, and not {kept[:40]!r}.")
    serve(place, folder, app.environ.get(DATABASE) or None, organisation, _tell, int(kept) << 20, seen)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and int(port) < 65_536):
        raise click.UsageError(f"--metrics takes an address and a port, such as 127.0.0.1:9421, and not {text[:60]!r}.")
    return host.strip("[]"), int(port)


def _copy(app: App, folder: Path, backup: Path | None, restore: Path | None) -> None:
    if backup and restore:
        raise click.UsageError("--backup and --restore exclude each other.")
    if app.environ.get(DATABASE):
        raise click.UsageError(f"{DATABASE} names a PostgreSQL of yours: copy it with its own pg_dump, as its admin.")
    from backstory.server import backups

    done = backups.back_up(folder, app.cwd / backup) if backup else backups.restore(folder, app.cwd / str(restore))
    of = f"{output.counted(done.sessions, 'session')} of {output.counted(done.people, 'member')}"
    output.talk(f"{'Copied' if backup else 'Restored'} {of}; the copy has {bounds.size(done.bytes)}.")
    if restore:
        output.talk("What was erased after the copy was made is there again until the machines of its owners sync.")
        output.talk(
            "People who were put out, and logins that were ended, after the copy was made are in again: end them"
        )
        output.talk("once more, with `backstory team users NAME --remove` and `backstory team logins LOGIN --remove`.")


def _default_folder(app: App) -> Path:
    # PostgreSQL does not run as root, and no other account may enter root's own folder.
    return Path("/var/lib/backstory-server") if os.geteuid() == 0 else app.home.parent / "backstory-server"


def _tell(served: ServedTeam) -> None:
    if served.code is not None:
        output.talk("Nobody is in yet. This makes the first admin, once:")
        output.talk(f"  backstory login {served.address} --code {served.code}")
    if served.figures is not None:
        output.talk(f"Prometheus finds its figures at {served.figures}")
    output.talk("Ctrl-C ends the server. It is at:")
    output.data(served.address)
