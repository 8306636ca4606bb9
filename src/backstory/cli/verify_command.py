"""``backstory verify``: check the store for damage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import json_option, store_option
from backstory.errors import StoreNotFound

if TYPE_CHECKING:
    from backstory.cli.app import App


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
    checked: dict[str, int] = {}
    problems: list[str] = []
    for store in stores:
        with output.progress("Verifying") as progress:
            found = store.verify(progress)
        for name, count in found.checked.items():
            checked[name] = checked.get(name, 0) + count
        problems += found.problems
    if as_json:
        output.json({"ok": not problems, "checked": checked, "problems": problems})
    else:
        for problem in problems:
            output.data(problem)
        figures = f"{checked['sessions']} sessions, {checked['events']} events, {output.size(checked['bytes'])} of logs"
        output.talk(f"{'Whole' if not problems else 'NOT whole'}: {figures}, in {stores[-1].path}")
    if problems:
        ctx.exit(1)
