"""``backstory backup``: the store as one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import json_option, readable, store_option

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@store_option
@click.pass_obj
def command(app: App, file: Path, as_json: bool) -> None:
    """Copy the store to FILE, which must not exist yet; safe while other commands write."""
    written = app.home_store.backup(file.absolute())
    output.talk(f"{file}: {output.size(written)}. Use it with --store, or copy it back.")
    if as_json:
        output.json({"path": readable(str(file.absolute())), "bytes": written})
