"""``backstory web``: the pages."""

from __future__ import annotations

import importlib.util
import webbrowser
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.app import App
from backstory.cli.options import store_option
from backstory.errors import PagesNotInstalled

if TYPE_CHECKING:
    from backstory.web.acting import Acting

PACKAGES = ("starlette", "uvicorn", "jinja2", "markdown_it")


@click.command("web")
@click.option("--open", "opens", is_flag=True, help="Open the address in the browser.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="NUMBER", help="Serve on this port.")
@click.option("--read-only", is_flag=True, help="Serve pages on which nothing can be run or stopped.")
@store_option
@click.pass_obj
def command(app: App, opens: bool, port: int | None, read_only: bool) -> None:
    """Read history in the browser: sessions, search, every record; watch what runs, and write prompts.

    The pages are for you alone: they are at 127.0.0.1, open only by the address that this prints, and load nothing
    from elsewhere. A second start prints the address of the first. Ctrl-C ends them.
    """
    if any(importlib.util.find_spec(each) is None for each in PACKAGES):
        raise PagesNotInstalled
    from backstory.web.serving import serve, served_already

    app.check_store()
    # Whoever wants pages that only read does not want those of a first start.
    is_shared = app.store_path is None and port is None and not read_only
    if is_shared and (there := served_already(app.home)) is not None:
        output.talk("The pages are served already, at:")
        _tell(there.address, opens=opens)
        return

    def tell(address: str, taken: int | None) -> None:
        if taken is not None:
            output.talk(f"Port {taken} is taken.")
        output.talk("Ctrl-C ends the pages. They are at:")
        _tell(address, opens=opens)

    acting = None if read_only else acting_of(app)
    serve(app.new_workspace, app.user_home, app.home, port, tell, is_shared=is_shared, acting=acting)


def acting_of(app: App) -> Acting:
    """Return what the pages do in the person's name."""
    from backstory.web.acting import Acting

    store = app.cwd / app.store_path if app.store_path else None
    named = None if store is None else str(store)
    return Acting(lambda folder: App(app.environ, folder, named).new_workspace(), app.environ, store)


def _tell(address: str, *, opens: bool) -> None:
    output.data(address)
    if opens:
        webbrowser.open(address)
