"""``backstory optimize``: a smaller store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.bounds import counted
from backstory.cli import output
from backstory.cli.app import now_ms
from backstory.cli.options import json_option, store_option
from backstory.errors import StoreNotFound
from backstory.ingest.reported import lend
from backstory.store.file import maintenance

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.store.file.maintenance import OptimizeWork

WEEK_MS = 7 * 24 * 3600 * 1000


@click.command("optimize")
@click.option("--all", "everything", is_flag=True, help="Also recompress logs of the last week.")
@json_option
@store_option
@click.pass_obj
def command(app: App, everything: bool, as_json: bool) -> None:
    """Recompress logs that have not changed for a week, and compact the index. Nothing is lost.

    It says on stderr how long that takes and how much room. Ctrl-C stops it at any time; run it again to continue.
    """
    store = app.home_store
    if not store.exists:
        raise StoreNotFound(store.path)
    before = store.path.stat().st_size
    idle_since = now_ms() + 1 if everything else now_ms() - WEEK_MS
    room = maintenance.check_room(store)
    with store:
        store.make_ready()
        _announce(maintenance.optimize_work(store, idle_since), room)
        with output.progress("Sharing bytes") as progress:
            lend(store, idle_since, progress)
        with output.progress("Recompressing") as progress:
            store.optimize(idle_since, progress)
    after = store.path.stat().st_size
    if as_json:
        output.json({"bytes_before": before, "bytes_after": after})
    else:
        output.data(f"{output.size(before)} before, {output.size(after)} now. Store: {store.path}")


def _announce(work: OptimizeWork, room: int) -> None:
    """Print how long the work takes and how much room, if there is any."""
    if work.logs or work.rewritten_bytes:
        output.talk(
            f"{counted(work.logs, 'log')} ({output.size(work.packed_bytes)}) to recompress: about "
            f"{max(round(work.seconds), 1)} s, and up to {output.size(room)} of room meanwhile. "
            "Ctrl-C stops it; run it again to continue."
        )
