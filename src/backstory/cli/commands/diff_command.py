"""``backstory diff``: two branches side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import json_option, print_default, readable, session_option, store_option
from backstory.cli.views import path
from backstory.cli.views.call_view import path_in
from backstory.workspace.history import trees
from backstory.workspace.history.targets import NUMBER, RECORD

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.workspace.history.targets import Target
    from backstory.workspace.history.trees import ComparedBranch

NAME_COLUMNS = 30
FILES_SHOWN_MAX = 40


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
    if comparison.fork is None:
        output.data("fork point: none; these share no turn")
    else:
        prompt = output.one_line(comparison.fork_prompt, max(output.width() - 24, 20))
        output.data(
            f"fork point: {output.style(f'@{comparison.fork.seq}', bold=True)} {output.style(prompt, dim=True)}"
        )
    if comparison.left.is_empty and comparison.right.is_empty:
        output.talk("no differences (same record)")
        return
    for side, words in ((comparison.left, left), (comparison.right, right)):
        output.data()
        _print_side(side, words)


def _print_side(side: ComparedBranch, words: str) -> None:
    head = _head(side.target, readable(words))
    if side.is_empty:
        output.data(output.style(f"--- {head}: (empty) ---", bold=True))
        return
    facts = filter(None, (output.counted(len(side.turns), "turn"), side.cost.known))
    output.data(output.style(f"--- {head} ({', '.join(facts)}) ---", bold=True))
    folder = side.target.located.session.said_folder
    for line in path.lines(side.records, folder):
        output.data(line)
    files = list(side.files.items())
    room = max(output.width() - 10, 20)
    for name, action in files[:FILES_SHOWN_MAX]:
        output.data(f"  {output.style(action, fg='magenta')} {output.one_line(path_in(name, folder), room)}")
    if len(files) > FILES_SHOWN_MAX:
        output.data(f"  (+{len(files) - FILES_SHOWN_MAX} more files; --json has all)")


def _head(target: Target, words: str) -> str:
    """Return the end of a side, and the name by which it was asked for."""
    at = f"@{target.point.seq}"
    session, _, seq = words.rpartition("@")
    if target.is_session:
        return f"{at} of {output.one_line(target.located.label, NAME_COLUMNS)}"
    if session and NUMBER.fullmatch(seq):
        return f"{at} of {output.one_line(session, NAME_COLUMNS)}"
    if NUMBER.fullmatch(words):
        return f"{at} branch {output.one_line(words, NAME_COLUMNS)}"
    return at if RECORD.fullmatch(words) else f"{at} {output.one_line(words, NAME_COLUMNS)}"
