"""``backstory tree``: a session's turns, and where its branches part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from backstory.cli import output, path
from backstory.cli.options import json_option, session_argument, store_option
from backstory.cli.points import find
from backstory.conversation.tree import Tree
from backstory.derive.pricing import UNKNOWN
from backstory.workspace.targets import branches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.cli.app import App, Found
    from backstory.conversation.tree import Point
    from backstory.store import TreeTurn
    from backstory.workspace.targets import Branch

TOLD_COLUMNS_LEAST = 16
NAME_COLUMNS = 30
HERE: dict[str, Any] = {"fg": "green", "bold": True}
MARKS = {mark: output.style(mark, fg="green") if mark.strip() else mark for mark in " *>"}
ANSWER_COLUMNS_LEAST = 12
"""With less room than this an answer is not begun."""


@click.command("tree")
@session_argument
@click.option("--removed", is_flag=True, help="Also the turns of branches that were removed.")
@json_option
@store_option
@click.pass_obj
def command(app: App, session: str | None, removed: bool, as_json: bool) -> None:
    """Show the turns of a SESSION as a tree: who follows whom, and where the next prompt goes.

    A line is a turn: > is where the session goes on, * leads there; @12 is the number of its prompt, by which every
    command knows it. A branch's tip has the branch's number and names.
    """
    found = find(app, session)
    whole = _Whole(found, removed=removed)
    if as_json:
        output.json_lines(whole.head(), "turns", whole.rows())
        return
    if not len(whole.tree):
        output.talk(f"{found.label} has no turns.")
    output.pages(path.at_once(whole.lines()))


class _Line(Struct, frozen=True):
    """A turn to be shown: what stands before it, and before those that follow it."""

    turn: TreeTurn
    head: str
    below: str


class _Whole:
    """A session's tree with all that is shown of it."""

    def __init__(self, found: Found, *, removed: bool) -> None:
        self._found = found
        turns = found.store.tree(found.session, removed=removed)
        self.tree = Tree(turns)
        here = found.store.leaf(found.session)
        self._here: Point | None = here if here is not None and here.uid in self.tree else None
        self._above = {turn.uid for turn in self.tree.ancestry(self._here.uid)} if self._here else set[str]()
        there = [turn for turn in turns if turn.removed is None] if removed else turns
        self._tips: dict[str, list[Branch]] = {}
        for branch in branches(found, Tree(there) if removed else self.tree):
            self._tips.setdefault(branch.turn.uid, []).append(branch)

    def head(self) -> dict[str, Any]:
        """The session, and where it goes on."""
        session, here = self._found.session, self._here
        current = None if here is None else {"turn": here.uid, "seq": here.seq}
        return {"session": session.shown_number, "uid": session.uid, "name": session.shown_name, "current": current}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each turn as JSON, each after the one it follows."""
        depths, costs = self.tree.depths(), self._found.store.turn_costs(self._found.session)
        for turn in self.tree.walk():
            tips = self._tips.get(turn.uid, [])
            parent = self.tree.parent(turn.uid)
            yield {
                "uid": turn.uid,
                "seq": turn.first_seq,
                "last_seq": turn.last_seq,
                "parent": None if parent is None else parent.uid,
                "parent_seq": None if parent is None else turn.parent_seq,
                "depth": depths[turn.uid],
                "agent": turn.agent,
                "prompt": turn.prompt,
                "answer": turn.answer,
                "started": output.iso(turn.started),
                "ended": output.iso(turn.ended),
                "outcome": turn.outcome,
                **output.cost_as_json(costs.get(turn.uid, UNKNOWN)),
                "current": self._here is not None and self._here.uid == turn.uid,
                "on_current_branch": turn.uid in self._above,
                "leaf": next((each.number for each in tips if each.number is not None), None),
                "names": [name for each in tips for name in each.names],
                "removed": output.iso(turn.removed),
            }

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
        told = f"{line.head}{MARKS[mark]} {output.style(at, dim=True)} {prompt}"
        if turn.answer and answer >= ANSWER_COLUMNS_LEAST:
            told += output.style(f" → {output.one_line(turn.answer, answer)}", dim=True)
        return told + "".join(f"  {output.style(text, fg=colour)}" for text, colour in notes) if notes else told

    def _notes(self, turn: TreeTurn) -> list[tuple[str, str]]:
        """What is said behind a turn: where it begins inside another, what its branch is called, that it is gone."""
        notes = []
        parent = self.tree.parent(turn.uid)
        if parent is not None and not self._goes_on(turn, parent):
            notes.append((f"from @{turn.parent_seq}", "magenta"))
        for branch in self._tips.get(turn.uid, ()):
            at = f"({branch.number})" if branch.number is not None else f"@{branch.seq}"
            names = ", ".join(output.one_line(name, NAME_COLUMNS) for name in branch.names)
            notes.append((f"{at} {names}".strip(), "cyan"))
        here = self._here
        if here is not None and here.uid == turn.uid and here.seq < turn.last_seq:
            notes.append((f"at @{here.seq}", "green"))
        if turn.removed is not None:
            notes.append(("removed", "red"))
        return notes


def _within(prefix: str, columns: int) -> str:
    """The end of a prefix that has become too long: what is nearest to the line tells most."""
    columns -= columns % 3
    return prefix if len(prefix) <= columns else "⋯  " + prefix[len(prefix) - columns + 3 :]
