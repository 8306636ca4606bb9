"""``backstory export``: sessions as a store of another tool's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from backstory.cli import output
from backstory.cli.options import json_option, sessions_argument, store_option
from backstory.errors import SessionNotFound
from backstory.export import exporting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.cli.app import App


@click.command("export")
@sessions_argument
@click.option("--all", "everything", is_flag=True, help="Every session, of every agent.")
@click.option("--format", "form", required=True, type=click.Choice(exporting.formats()), help="Whose store to write.")
@click.option(
    "-o", "--to", "target", required=True, type=click.Path(path_type=Path),
    help="The file to write; where that tool has a file for each session, the folder of a project.",
)  # fmt: skip
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
    tool would have written itself, so only of its own sessions. A tool that has a file for each session goes on with
    them in the folder, with all their branches.
    """
    from backstory.cli.app import now_ms

    if bool(sessions) == everything:
        raise click.UsageError("Name sessions, or say --all.")
    chosen = _chosen(app, sessions)
    if exporting.writes_folder(form):
        if exact:
            raise click.UsageError(f"--exact is not for {form}: what it wrote itself is always as it was.")
        _tell(exporting.export_each(form, chosen, target.absolute(), force=force), as_json=as_json)
        return
    written = exporting.export(form, chosen, target.absolute(), exact=exact, force=force, now=now_ms())
    if as_json:
        output.json(msgspec.to_builtins(written))
        return
    _tell([written], as_json=False)
    if written.left_out:
        output.talk(f"{written.left_out} sessions have no log of {form}'s own, so they are not in it.")


def _chosen(app: App, sessions: tuple[str, ...]) -> list[exporting.Chosen]:
    """The sessions that were named; all, where none was."""
    if sessions:
        return exporting.these((each.store, each.session) for each in map(app.find, sessions))
    stores = [store for store in app.stores if store.exists]
    if not stores:
        raise SessionNotFound("--all")
    return exporting.everything(stores)


def _tell(done: Sequence[exporting.Written | exporting.NotWritten], *, as_json: bool) -> None:
    """Print what was written; ends the command with 1 where something was not."""
    missing = [each for each in done if isinstance(each, exporting.NotWritten)]
    if as_json:
        output.json(msgspec.to_builtins(done))
    for each in done:
        if isinstance(each, exporting.Written) and not as_json:
            output.data(f"{each.file}  {output.size(each.bytes)}")
            output.talk(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in each.rows.items()) + ".")
    for failed in missing:
        output.talk(f"Session {failed.session} is not in {failed.file}: {failed.reason}")
    if missing:
        raise click.exceptions.Exit(1)
