"""``backstory diff``: where two branches part, and what came of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from backstory.cli import output, path
from backstory.cli.options import json_option, readable, session_option, store_option
from backstory.cli.points import print_default
from backstory.conversation.tree import Point, Span, Tree, diff
from backstory.derive.pricing import UNKNOWN, Cost, total
from backstory.workspace.targets import NUMBER, RECORD

if TYPE_CHECKING:
    from backstory.cli.app import App, Found
    from backstory.store import StoredEvent, TreeTurn

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
    """Compare two branches: where they part, then on each side prompts, answers, files touched, and cost.

    A and B are records (@12), branches (their names or numbers), sessions (S2: where it stands), or records of other
    sessions (S2@12).
    """
    found = _Sessions(app, wanted)
    first, second = found.side(left), found.side(right)
    parted = diff(first.path, second.path)
    first.alone, second.alone = parted.left, parted.right
    if as_json:
        fork = None if parted.fork is None else {"turn": parted.fork.uid, "seq": parted.fork.seq}
        output.json({"fork": fork, "left": first.as_dict(), "right": second.as_dict()})
        return
    if parted.fork is None:
        output.data("fork point: none; these share no turn")
    else:
        prompt = output.one_line(first.tree[parted.fork.uid].prompt, max(output.width() - 24, 20))
        output.data(f"fork point: {output.style(f'@{parted.fork.seq}', bold=True)} {output.style(prompt, dim=True)}")
    if not first.alone and not second.alone:
        output.talk("no differences (same record)")
        return
    for side in (first, second):
        output.data()
        side.show()


class _Side(Struct, kw_only=True):
    """One of the two: its path, and of that what the other does not have."""

    found: Found
    named: str
    point: Point
    tree: Tree[TreeTurn]
    path: list[Span]
    alone: list[Span] = []

    def turns(self) -> list[TreeTurn]:
        """The turns that begin on this side."""
        return [self.tree[span.uid] for span in self.alone if span.first == self.tree[span.uid].first_seq]

    def cost(self) -> Cost:
        """What those cost; one for which no model was asked costs nothing."""
        costs = self.found.store.turn_costs(self.found.session)
        each = ((turn, costs.get(turn.uid, UNKNOWN)) for turn in self.turns())
        return total(cost for turn, cost in each if turn.model is not None or cost.low_usd is not None)

    def records(self) -> list[StoredEvent]:
        """What was said and done on this side."""
        return list(path.records(self.found, self.alone, self.tree))

    def files(self) -> dict[str, str]:
        """The files touched on this side, each with what was done to it."""
        return self.found.store.files_touched(self.found.session, self.alone)

    def as_dict(self) -> dict[str, Any]:
        """This side as printed in JSON."""
        cost = self.cost()
        return {
            "session": self.found.label,
            "uid": self.found.session.uid,
            "seq": self.point.seq,
            "turn": self.point.uid,
            "turns": [turn.uid for turn in self.turns()],
            "records": [row for each in self.records() if (row := path.as_dict(each)) is not None],
            "files": [{"path": name, "action": action} for name, action in self.files().items()],
            "cost_usd": cost.usd,
            "cost_kind": cost.kind,
            "low_usd": cost.low_usd,
        }

    def show(self) -> None:
        """Print this side."""
        name = "" if RECORD.fullmatch(self.named) else f" {output.one_line(self.named, NAME_COLUMNS)}"
        name = f" branch{name}" if NUMBER.fullmatch(self.named) else name
        session, _, seq = self.named.rpartition("@")
        if session and NUMBER.fullmatch(seq):
            name = f" of {output.one_line(session, NAME_COLUMNS)}"
        head = f"@{self.point.seq}{name}"
        if not self.alone:
            output.data(output.style(f"--- {head}: (empty) ---", bold=True))
            return
        count, cost = len(self.turns()), self.cost()
        facts = [f"{count} turn{'s' * (count != 1)}", *([] if cost.low_usd is None else [output.money(cost)])]
        output.data(output.style(f"--- {head} ({', '.join(facts)}) ---", bold=True))
        for line in path.lines(self.records()):
            output.data(line)
        files = list(self.files().items())
        for name, action in files[:FILES_SHOWN_MAX]:
            output.data(f"  {output.style(action, fg='yellow')} {output.one_line(name, max(output.width() - 10, 20))}")
        if len(files) > FILES_SHOWN_MAX:
            output.data(f"  (+{len(files) - FILES_SHOWN_MAX} more files; --json has all)")


class _Sessions:
    """The sessions that the two sides are in: one, mostly."""

    def __init__(self, app: App, wanted: str | None) -> None:
        self._workspace = app.workspace
        self._named = None if wanted is None else app.find(wanted)
        self._is_printed = False

    def side(self, named: str) -> _Side:
        """The side that a word means; raises what ``Workspace.target`` raises."""
        target = self._workspace.target(readable(named), self._named)
        if target.is_default and not self._is_printed:
            print_default(target.located)
            self._is_printed = True
        found, point = target.located, target.point
        tree = Tree(found.store.tree(found.session))
        named = f"{found.label}@{point.seq}" if target.is_session else named
        return _Side(found=found, named=named, point=point, tree=tree, path=tree.path(point))
