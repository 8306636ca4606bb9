"""``backstory restore``: logs and what lay beside them, byte for byte.

``--json`` prints a list, each a log with:

- ``session``: the uid of its session, and ``original``: where it was last seen;
- ``written``: where it lies now, its ``bytes`` and ``sha256``; or ``error``: why it does not, the others null then;
- ``companions``: the files beside it, each with its ``name`` there, and ``written``, ``bytes``, ``sha256``, ``error``.
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
    """Give logs back, byte for byte: those of the SESSIONs, or with --all every one.

    They are laid out below the folder as they lay below their agent's own, with the small files that lay beside them.
    Where two have one name, the older gets a number. What cannot be given back is listed, and the exit code is 73.
    """
    if bool(sessions) == everything:
        raise click.UsageError("Name sessions, or say --all.")
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
        for n, told in enumerate(restoring.each(wanted)):
            progress(n, len(wanted))
            done.append(told)
    if as_json:
        output.json([msgspec.to_builtins(each) for each in done])
    else:
        _print(done)
    failures = _failures(done)
    for failure in failures:
        output.talk(output.one_liner(f"Not given back: {failure}"))
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
    beside = f" and {len(whole) - logs} files beside them" if len(whole) > logs else ""
    output.talk(f"{logs} logs{beside}, {output.size(sum(one.bytes or 0 for one in whole))}.")


def _failures(done: Sequence[Restored]) -> list[str]:
    """What could not be given back: whose, where it lay, and why."""
    lines = []
    for each in done:
        named = f"{each.session[:12]} {each.original}"
        lines += [f"{named}: {each.error}"] if each.error is not None else []
        lines += [f"{named}: {one.name}: {one.error}" for one in each.companions if one.error is not None]
    return lines
