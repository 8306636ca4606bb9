"""``backstory serve``: the team server."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.errors import ServerNotInstalled

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.server.serving import ServedTeam

PACKAGES = ("starlette", "uvicorn", "psycopg", "psycopg_pool", "jinja2", "markdown_it")
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
@click.pass_obj
def command(
    app: App, host: str, port: int, data: Path | None, organisation: str, tls_cert: Path | None, tls_key: Path | None,
    behind_proxy: bool,
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
    from backstory.server.serving import ServerPlace, serve

    place = ServerPlace(host=host, port=port, certificate=tls_cert, key=tls_key, is_behind_proxy=behind_proxy)
    folder = data or Path(app.environ.get(DATA) or _default_folder(app))
    kept = app.environ.get(KEPT_MB) or str(KEPT_MB_USUAL)
    if not (kept.isascii() and kept.isdecimal()):
        raise click.UsageError(f"{KEPT_MB} is a number of megabytes, and not {kept[:40]!r}.")
    serve(place, app.cwd / folder, app.environ.get(DATABASE) or None, organisation, _tell, int(kept) << 20)


def _default_folder(app: App) -> Path:
    # PostgreSQL does not run as root, and no other account may enter root's own folder.
    return Path("/var/lib/backstory-server") if os.geteuid() == 0 else app.home.parent / "backstory-server"


def _tell(served: ServedTeam) -> None:
    if served.code is not None:
        output.talk("Nobody is in yet. This makes the first admin, once:")
        output.talk(f"  backstory login {served.address} --code {served.code}")
    output.talk("Ctrl-C ends the server. It is at:")
    output.data(served.address)
