"""``backstory tree``: a session's turns, and where its branches part."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from backstory.cli import output
from backstory.cli.lazy_family import ActingFamily
from backstory.cli.options import find, json_option, session_argument, store_option
from backstory.cli.views import path
from backstory.cli.views.path import legend, print_branches, print_records
from backstory.workspace.history import trees

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.cli.app import App
    from backstory.store import TreeTurn
    from backstory.workspace.history.trees import SessionTree

COMMANDS = {
    "branches": "branches_command",
    "scan": "scan_command",
    "name": "branch_command:name_branch",
    "unname": "branch_command:unname_branch",
    "rm": "branch_command:rm",
    "restore": "branch_command:restore",
    "prune": "branch_command:prune",
}
"""The module of each, imported when it is asked for."""
LEGEND = "> here   * on the way"
TOLD_COLUMNS_LEAST = 16
NAME_COLUMNS = 30
HERE: dict[str, Any] = {"fg": "green", "bold": True}
MARKS = {mark: output.style(mark, fg="green") if mark.strip() else mark for mark in " *>"}
ANSWER_COLUMNS_LEAST = 12
"""With less room than this an answer is not begun."""


@click.group(
    "tree",
    cls=ActingFamily,
    modules=COMMANDS,
    invoke_without_command=True,
    subcommand_metavar="| COMMAND ...",
)
@session_argument
@click.option("--removed", is_flag=True, help="Also turns of removed branches.")
@click.option(
    "--records", "has_records", is_flag=True, help="List the records of the current branch, as `tree scan` does."
)
@click.option("--list", "has_branches", is_flag=True, help="List the branches, as `tree branches` does.")
@json_option
@store_option
@click.pass_obj
def command(app: App, session: str | None, removed: bool, has_records: bool, has_branches: bool, as_json: bool) -> None:
    """Show the turns of SESSION as a tree, and where the next prompt goes.

    Each line is a turn: > is the current one, * leads to it; @12 is the record number of its prompt, which every
    command accepts. A branch's tip has the branch's number and names. A first word that is a command is that command:
    a session of this name is shown by `backstory tree -- NAME`.
    """
    if sum((removed, has_records, has_branches)) > 1:
        raise click.UsageError("Give one of --records, --list and --removed.")
    found = find(app, session)
    if has_records or has_branches:
        (print_records if has_records else print_branches)(app, found, as_json=as_json)
        return
    tree = app.reader.tree(found, removed=removed, costs=as_json)
    if as_json:
        output.json_lines(trees.head_as_json(tree), "turns", trees.turns_as_json(tree))
        return
    if not len(tree.tree):
        output.talk(f"{found.label} has no turns.")
    output.pages(chain(path.at_once(_Drawing(tree).lines()), legend(LEGEND) if len(tree.tree) else ()))


class _Line(Struct, frozen=True):
    """A turn to be shown: what stands before it, and before those that follow it."""

    turn: TreeTurn
    head: str
    below: str


class _Drawing:
    """A tree as lines."""

    def __init__(self, tree: SessionTree) -> None:
        self.tree, self._here, self._above, self._tips = tree.tree, tree.current, tree.on_path, tree.tips

    def lines(self) -> Iterator[str]:
        """Each turn as a line; only where branches part it is indented."""
        columns = output.width()
        waiting = [_Line(root, "", "") for root in reversed(self.tree.children(None))]
        while waiting:
            line = waiting.pop()
            yield self._line(line, columns)
            children = self.tree.children(line.turn.uid)
            if len(children) == 1 and self._goes_on(children[0], line.turn):
                waiting.append(_Line(children[0], line.below, line.below))
                continue
            below = _within(line.below, columns // 2)
            for child in reversed(children):
                is_last = child is children[-1]
                head, rest = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
                waiting.append(_Line(child, below + head, below + rest))

    @staticmethod
    def _goes_on(child: TreeTurn, parent: TreeTurn) -> bool:
        return child.parent_seq is None or child.parent_seq >= parent.last_seq

    def _line(self, line: _Line, columns: int) -> str:
        turn = line.turn
        is_here = self._here is not None and self._here.uid == turn.uid
        mark = ">" if is_here else "*" if turn.uid in self._above else " "
        notes = self._notes(turn)
        at = f"@{turn.first_seq:<4}"
        used = len(line.head) + 2 + len(at) + 1
        if notes:
            used += sum(output.columns(text) + 2 for text, _ in notes)
        room = max(columns - used, TOLD_COLUMNS_LEAST)
        prompt = output.one_line(turn.prompt, room)
        # What is cut leaves no room behind it.
        answer = 0 if prompt.endswith("…") else room - output.columns(prompt) - 3
        if is_here or turn.removed is not None:
            prompt = output.style(prompt, **(HERE if is_here else {"dim": True}))
        drawn = f"{line.head}{MARKS[mark]} {output.style(at, dim=True)} {prompt}"
        if turn.answer and answer >= ANSWER_COLUMNS_LEAST:
            drawn += output.style(f" → {output.one_line(turn.answer, answer)}", dim=True)
        return drawn + "".join(f"  {output.style(text, fg=colour)}" for text, colour in notes) if notes else drawn

    def _notes(self, turn: TreeTurn) -> list[tuple[str, str | None]]:
        """Return notes behind a turn: its beginning inside another, its branch's name, its removal."""
        notes: list[tuple[str, str | None]] = []
        parent = self.tree.parent(turn.uid)
        if parent is not None and not self._goes_on(turn, parent):
            notes.append((f"from @{turn.parent_seq}", None))
        for branch in self._tips.get(turn.uid, ()):
            at = f"({branch.number})" if branch.number is not None else f"@{branch.seq}"
            names = ", ".join(output.one_line(name, NAME_COLUMNS) for name in branch.names)
            notes.append((f"{at} {names}".strip(), None))
        here = self._here
        if here is not None and here.uid == turn.uid and here.seq < turn.last_seq:
            notes.append((f"at @{here.seq}", "green"))
        if turn.removed is not None:
            notes.append(("removed", "red"))
        return notes


def _within(prefix: str, columns: int) -> str:
    """The end of a prefix that has become too long: what is nearest to the line matters most."""
    columns -= columns % 3
    return prefix if len(prefix) <= columns else "⋯  " + prefix[len(prefix) - columns + 3 :]
