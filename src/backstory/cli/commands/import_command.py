"""``backstory import``: sessions out of a JSON export."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import json_option, store_option
from backstory.cli.trusting import may_act
from backstory.errors import FileUnreadable, in_words
from backstory.workspace.stores.json_importing import as_json as imported_as_json
from backstory.workspace.stores.json_importing import import_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.cli.app import App
    from backstory.workspace.stores.json_importing import Imported

STDIN = Path("-")
SHOWN_MAX = 10
"""The most sessions that are named for each reason."""
CAME = {
    "new": ("new session", "new sessions"),
    "updated": ("session updated", "sessions updated"),
    "same": ("session was here already", "sessions were here already"),
}
NOT_TOUCHED = {
    "less": "the file has less of it than an earlier import",
    "differs": "each of the two has something that the other one lacks",
    "own": "it is here from its own log, or from its project",
    "removed": "it was removed here (backstory ingest --forgotten lifts that)",
    "trusted": "an earlier import of it was trusted (--trust adds what is new)",
    "shared": "it repeats a turn that is known here from another place (--trust imports it all the same)",
}
"""Reasons that a session stayed as it is, or was left out."""
READ_BYTES = 1024 * 1024


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--trust", is_flag=True,
    help="Also take over names, checkouts, removals and board items, and treat its logs as this machine's own.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Refuse a FILE with a damaged session. Else the others are imported.")
@json_option
@store_option
@click.pass_obj
def command(app: App, file: Path, trust: bool, strict: bool, as_json: bool) -> None:
    """Import the sessions of FILE, a JSON export, into the home store; - reads stdin.

    FILE is checked from beginning to end before anything is written. A damaged session is left out and named by its
    line; the exit code is 1 then. A session that is here from its own log, or from its project, is not touched; an
    earlier import is replaced only by a longer copy.
    """
    may_act(app, app.home_store)
    with _opened(file) as (opened, size):
        path = file if file == STDIN else file.absolute()
        done = import_json(app.workspace, opened, path, size, trusted=trust, strict=strict, progress=output.progress)
    if as_json:
        output.json(imported_as_json(done))
    else:
        _tell(done)
    if done.failed or done.damaged or done.came["differs"]:
        raise click.exceptions.Exit(1)


@contextmanager
def _opened(file: Path) -> Iterator[tuple[IO[bytes], int]]:
    """The file and its size, which is 0 for stdin. Raises FileUnreadable."""
    try:
        if file == STDIN:
            yield sys.stdin.buffer, 0
            return
        with file.open("rb", READ_BYTES) as opened:
            yield opened, os.fstat(opened.fileno()).st_size
    except OSError as refused:
        raise FileUnreadable(file, in_words(refused)) from refused


def _tell(done: Imported) -> None:
    parts = [output.counted(len(done.came[name]), *words) for name, words in CAME.items() if done.came[name]]
    output.data(f"{', '.join(parts) or 'No session imported'}.")
    for name, why in NOT_TOUCHED.items():
        uids = done.came[name]
        if uids:
            shown = ", ".join(uids[:SHOWN_MAX]) + (f" and {len(uids) - SHOWN_MAX} more" if uids[SHOWN_MAX:] else "")
            output.talk(f"Not touched, because {why}: {shown}")
    if done.removed:
        output.talk(f"{output.counted(done.removed, 'session')} removed, as where the file was made.")
    if done.board_items:
        output.talk(f"{output.counted(done.board_items, 'board item')} imported.")
    if not done.bytes:
        masked = " and their secrets masked" if done.redacted else ""
        output.talk(f"The file was made without the bytes of its logs{masked}: restore has none of them.")
    for wrong in done.damaged[:SHOWN_MAX]:
        session = "a session" if wrong.session is None else f"session {wrong.session}"
        output.talk(output.one_liner(f"Not imported: {session}: line {wrong.line}: {wrong.reason}"))
    if done.damaged[SHOWN_MAX:]:
        output.talk(f"Not imported: {len(done.damaged) - SHOWN_MAX} more (--json names them).")
    for each in done.failed:
        output.talk(output.one_liner(f"Not imported: session {each.session}: {each.reason}"))
