"""``backstory diff``: two branches side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import json_option, print_default, readable, session_option, store_option
from backstory.cli.views.tree_view import fork_line, side_lines
from backstory.workspace.history import trees

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("diff")
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@session_option
@json_option
@store_option
@click.pass_obj
def command(app: App, left: str, right: str, wanted: str | None, as_json: bool) -> None:
    """Compare two branches: where they part, then for each its prompts, answers, files and cost.

    A and B are records (@12), branches (names or numbers), sessions (S2: its current record), or records of other
    sessions (S2@12).
    """
    named = None if wanted is None else app.workspace.resolve(wanted)
    targets = [app.workspace.target(readable(each), named) for each in (left, right)]
    if default := next((each for each in targets if each.is_default), None):
        print_default(default.located)
    comparison = app.reader.diff(*targets)
    if as_json:
        output.json(trees.comparison_as_json(comparison))
        return
    output.data(fork_line(comparison))
    if comparison.left.is_empty and comparison.right.is_empty:
        output.talk("no differences (same record)")
        return
    for side, words in ((comparison.left, left), (comparison.right, right)):
        output.data()
        for line in side_lines(side, readable(words)):
            output.data(line)
