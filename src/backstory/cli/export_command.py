"""``backstory export``: sessions as a store of another tool's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from backstory import exporting
from backstory.cli import output
from backstory.cli.options import json_option, sessions_argument, store_option
from backstory.errors import SessionNotFound

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("export")
@sessions_argument()
@click.option("--all", "everything", is_flag=True, help="Every session, of every agent.")
@click.option("--format", "form", required=True, type=click.Choice(exporting.formats()), help="Whose store to write.")
@click.option("--to", "target", required=True, type=click.Path(path_type=Path), help="The file to write.")
@click.option(
    "--exact", is_flag=True, help="Write what that tool would have written itself from its own logs, errors included."
)
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
@json_option
@store_option
@click.pass_obj
def command(
    app: App,
    sessions: tuple[str, ...],
    everything: bool,
    form: str,
    target: Path,
    exact: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write the SESSIONs, or with --all every one, into a file that another tool reads as its own store.

    What it holds is what is known here: of every agent, with the times of what happened. With --exact it is what the
    tool would have written itself, so only of its own sessions.
    """
    from backstory.cli.app import now_ms

    if bool(sessions) == everything:
        raise click.UsageError("Name sessions, or say --all.")
    if everything:
        stores = [store for store in app.stores if store.exists]
        if not stores:
            raise SessionNotFound("--all")
        chosen = exporting.everything(stores)
    else:
        chosen = exporting.these((each.store, each.session) for each in map(app.find, sessions))
    written = exporting.export(form, chosen, target.absolute(), exact=exact, force=force, now=now_ms())
    if as_json:
        output.json(msgspec.to_builtins(written))
        return
    output.data(f"{written.file}  {output.size(written.bytes)}")
    output.talk(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in written.rows.items()) + ".")
    if written.left_out:
        output.talk(f"{written.left_out} sessions have no log of {form}'s own, so they are not in it.")
