"""``backstory restore``: logs and what lay beside them, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from backstory.cli import output
from backstory.cli.options import json_option, sessions_argument, store_option
from backstory.errors import SessionNotFound
from backstory.restore import restore

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("restore")
@sessions_argument()
@click.option("--all", "everything", is_flag=True, help="Every log in the store.")
@click.option("--to", "target", required=True, type=click.Path(path_type=Path), help="The folder to write them in.")
@click.option("--force", is_flag=True, help="Overwrite files that differ.")
@json_option
@store_option
@click.pass_obj
def command(app: App, sessions: tuple[str, ...], everything: bool, target: Path, force: bool, as_json: bool) -> None:
    """Give logs back, byte for byte: those of the SESSIONs, or with --all every one.

    They are laid out below the folder as they lay below their agent's own, with the small files that lay beside them.
    """
    if bool(sessions) == everything:
        raise click.UsageError("Name sessions, or say --all.")
    if everything:
        stores = [store for store in app.stores if store.exists]
        if not stores:
            raise SessionNotFound("--all")
        wanted = [(store, store.session(log.session_id), log) for store in stores for log in store.logs()]
    else:
        found = [app.find(each) for each in sessions]
        wanted = [(each.store, each.session, log) for each in found for log in each.store.logs(each.session)]
    written = []
    with output.progress("Restoring logs") as progress:
        for n, (store, session, log) in enumerate(wanted):
            progress(n, len(wanted))
            written.append(restore(store, session, log, target.absolute(), force=force))
    if as_json:
        output.json([msgspec.to_builtins(each) for each in written])
        return
    for each in written:
        output.data(f"{each.written}  {output.size(each.bytes)}")
        for companion in each.companions:
            output.data(f"{companion.written}  {output.size(companion.bytes)}")
    beside = [companion for each in written for companion in each.companions]
    bytes_written = sum(each.bytes for each in written) + sum(each.bytes for each in beside)
    files = f" and {len(beside)} files beside them" if beside else ""
    output.talk(f"{len(written)} logs{files}, {output.size(bytes_written)}.")
