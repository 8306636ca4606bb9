"""``backstory optimize``: a smaller store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.app import now_ms
from backstory.cli.options import json_option, store_option
from backstory.errors import StoreNotFound

if TYPE_CHECKING:
    from backstory.cli.app import App

WEEK_MS = 7 * 24 * 3600 * 1000


@click.command("optimize")
@click.option("--all", "everything", is_flag=True, help="Also recompress logs of the last week.")
@json_option
@store_option
@click.pass_obj
def command(app: App, everything: bool, as_json: bool) -> None:
    """Recompress logs that have not changed for a week, and compact the index. Nothing is lost."""
    store = app.home_store
    if not store.exists:
        raise StoreNotFound(store.path)
    before = store.path.stat().st_size
    with store, output.progress("Recompressing") as progress:
        store.optimize(now_ms() + 1 if everything else now_ms() - WEEK_MS, progress)
    after = store.path.stat().st_size
    if as_json:
        output.json({"bytes_before": before, "bytes_after": after})
    else:
        output.data(f"{output.size(before)} before, {output.size(after)} now. Store: {store.path}")
