"""``backstory restore``: logs and their sidecars, byte for byte.

``--json`` prints a list, each a log with:

- ``session``: the uid of its session, and ``original``: where it was last seen;
- ``written``: its path now, its ``bytes`` and ``sha256``; or ``error``: why it was not written (the others are null);
- ``companions``: its sidecars, each with its ``name`` there, and ``written``, ``bytes``, ``sha256``, ``error``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from backstory.cli import output
from backstory.cli.options import json_option, sessions_argument, store_option
from backstory.errors import RestoreIncomplete, SessionNotFound
from backstory.export.restore import Restored, Restoring, Written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.cli.app import App


@click.command("restore")
@sessions_argument
@click.option("--all", "everything", is_flag=True, help="Every log in the store.")
@click.option("--to", "target", required=True, type=click.Path(path_type=Path), help="The folder to write them in.")
@click.option("--force", is_flag=True, help="Overwrite files that differ.")
@json_option
@store_option
@click.pass_obj
def command(app: App, sessions: tuple[str, ...], everything: bool, target: Path, force: bool, as_json: bool) -> None:
    """Write the original logs of the SESSIONs (--all: of every session) to a folder, byte for byte.

    Their layout is that of the agent's own folder, sidecar files included. If two have the same name, the older
    one gets a number. Files that cannot be restored are listed, and the exit code is 73.
    """
    if bool(sessions) == everything:
        raise click.UsageError("Name sessions, or use --all.")
    found = [app.find(each) for each in sessions]
    stores = {each.store.path: each.store for each in found}
    if everything:
        stores = {store.path: store for store in app.stores if store.exists}
        if not stores:
            raise SessionNotFound("--all")
    restoring = Restoring(stores.values(), target.absolute(), force=force)
    chosen = {(each.store.path, each.session.id) for each in found}
    wanted = [each for each in restoring.logs if everything or (each[0].path, each[1].session_id) in chosen]
    done = list(restoring.lost)
    with output.progress("Restoring logs") as progress:
        for n, restored in enumerate(restoring.each(wanted)):
            progress(n, len(wanted))
            done.append(restored)
    if as_json:
        output.json([msgspec.to_builtins(each) for each in done])
    else:
        _print(done)
    failures = _failures(done)
    for failure in failures:
        output.talk(output.one_liner(f"Not restored: {failure}"))
    if failures:
        raise RestoreIncomplete(len(failures), sum(1 + len(each.companions) for each in done))


def _print(done: Sequence[Restored]) -> None:
    files: list[Restored | Written] = []
    for each in done:
        files += (each, *each.companions)
    whole = [one for one in files if one.error is None]
    for one in whole:
        output.data(output.one_liner(f"{one.written}  {output.size(one.bytes or 0)}"))
    logs = sum(each.error is None for each in done)
    beside = f" and {output.counted(len(whole) - logs, 'sidecar')}" if len(whole) > logs else ""
    output.talk(f"{output.counted(logs, 'log')}{beside}, {output.size(sum(one.bytes or 0 for one in whole))}.")


def _failures(done: Sequence[Restored]) -> list[str]:
    """A line for each file that could not be restored: its session, its original path, and why."""
    lines = []
    for each in done:
        named = f"{each.session[:12]} {each.original}"
        lines += [f"{named}: {each.error}"] if each.error is not None else []
        lines += [f"{named}: {one.name}: {one.error}" for one in each.companions if one.error is not None]
    return lines
