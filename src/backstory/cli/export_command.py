"""``backstory export``: sessions in the format of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from backstory.cli import output, sharing
from backstory.cli.options import json_option, sessions_argument, store_option
from backstory.errors import SessionNotFound
from backstory.export import exporting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backstory.cli.app import App


@click.command("export")
@sessions_argument
@click.option("--all", "everything", is_flag=True, help="Every session of every agent.")
@click.option(
    "--format", "form", required=True, type=click.Choice(exporting.formats()), help="The tool whose format to write."
)
@click.option(
    "-o", "--to", "target", required=True, type=click.Path(path_type=Path),
    help="The file to write; for a format with a file per session, the folder of a project.",
)  # fmt: skip
@click.option(
    "--exact", is_flag=True, help="Write what that tool would have written from its own logs, including its errors."
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option("--redact", is_flag=True, help="Mask secrets, and people's names in paths, in all that is written.")
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
    redact: bool,
    as_json: bool,
) -> None:
    """Write the SESSIONs (--all: every session) in the format of another tool, which reads them as its own.

    Sessions of every agent are written, with their original times. With --exact only the tool's own sessions are
    written, as it would have done it. A tool with a file per session can continue them in that folder, with all
    their branches.
    """
    from backstory.cli.app import now_ms

    if bool(sessions) == everything:
        raise click.UsageError("Name sessions, or use --all.")
    chosen, redactor = _chosen(app, sessions), sharing.redactor_of(app) if redact else None
    if exporting.writes_folder(form):
        if exact:
            raise click.UsageError(f"--exact does not apply to {form}: its own sessions are always exported exactly.")
        done = exporting.export_each(form, chosen, target.absolute(), force=force, redactor=redactor)
        sharing.tell_masked(redactor)
        _print(done, as_json=as_json)
        return
    written = exporting.export(
        form, chosen, target.absolute(), exact=exact, force=force, now=now_ms(), redactor=redactor
    )
    sharing.tell_masked(redactor)
    if as_json:
        output.json(msgspec.to_builtins(written))
        return
    _print([written], as_json=False)
    if written.left_out:
        output.talk(f"{written.left_out} sessions have no log written by {form}, so they are not in the file.")


def _chosen(app: App, sessions: tuple[str, ...]) -> list[exporting.Chosen]:
    """The named sessions; all if none was named."""
    if sessions:
        return exporting.these((each.store, each.session) for each in map(app.find, sessions))
    stores = [store for store in app.stores if store.exists]
    if not stores:
        raise SessionNotFound("--all")
    return exporting.everything(stores)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())


def _print(done: Sequence[exporting.Written | exporting.NotWritten], *, as_json: bool) -> None:
    """Print what was written; exits with 1 if a session was not."""
    missing = [each for each in done if isinstance(each, exporting.NotWritten)]
    if as_json:
        output.json(msgspec.to_builtins(done))
    for each in done:
        if isinstance(each, exporting.Written) and not as_json:
            output.data(f"{each.file}  {output.size(each.bytes)}")
            output.talk(f"{_counted(each.rows)}.")
            if each.reduced:
                output.talk(f"This format has no place for {_counted(each.reduced)}.")
    for failed in missing:
        output.talk(f"Session {failed.session} is not in {failed.file}: {failed.reason}")
    if missing:
        raise click.exceptions.Exit(1)
