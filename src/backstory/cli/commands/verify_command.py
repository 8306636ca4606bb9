"""``backstory verify``: check the store for damage."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import json_option, store_option
from backstory.errors import StoreNotFound

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.cli.app import App
    from backstory.store.file.verify import Verified


@click.command("verify")
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Check every byte, every reference and the index. The exit code is 1 if something is wrong."""
    app: App = ctx.obj
    stores = [store for store in app.stores if store.exists]
    if not stores:
        raise StoreNotFound(app.home_store.path)
    checked = Counter[str]()
    problems: list[str] = []
    pruned = 0
    for store in stores:
        with output.progress("Verifying") as progress:
            found = store.verify(progress)
        checked.update(found.checked)
        problems += found.problems
        pruned += found.pruned
        if not as_json:
            _print(found, store.path)
    if as_json:
        output.json({"ok": not problems, "checked": checked, "problems": problems, "pruned_sessions": pruned})
    if problems:
        ctx.exit(1)


def _print(found: Verified, path: Path) -> None:
    for problem in found.problems:
        output.data(problem)
    sessions, events = (output.counted(found.checked[each], each[:-1]) for each in ("sessions", "events"))
    figures = f"{sessions}, {events}, {output.size(found.checked['bytes'])} of logs"
    output.talk(f"{'NOT whole' if found.problems else 'Whole'}: {figures}, in {path}")
    if found.pruned:
        output.talk(f"{output.counted(found.pruned, 'session')} pruned in part, which is no damage.")
