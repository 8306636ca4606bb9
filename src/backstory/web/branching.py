"""The turns of a session as a tree that a page draws: the lines of `backstory tree`."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from backstory.web.markup import plain
from backstory.workspace.history.trees import goes_on, tree_rows

if TYPE_CHECKING:
    from backstory.store import TreeTurn
    from backstory.workspace.history.trees import SessionTree

ROWS_MOST = 2_000
INDENT_COLUMNS = 60
WORDS_CHARS = 160


class TurnRow(NamedTuple):
    """A turn: the signs before it, its mark (``>`` here, ``*`` on the way there), its words and notes."""

    head: str
    mark: str
    seq: int
    prompt: str
    answer: str
    notes: list[str]


def rows_of(whole: SessionTree) -> tuple[list[TurnRow], bool]:
    """The turns in the order of their lines, and True if there are more."""
    found = list(islice(tree_rows(whole.tree, INDENT_COLUMNS), ROWS_MOST + 1))
    return [_row(whole, each.head, each.turn) for each in found[:ROWS_MOST]], len(found) > ROWS_MOST


def _row(whole: SessionTree, head: str, turn: TreeTurn) -> TurnRow:
    here, parent = whole.current, whole.tree.parent(turn.uid)
    is_here = here is not None and here.uid == turn.uid
    notes = [] if parent is None or goes_on(turn, parent) else [f"from @{turn.parent_seq}"]
    for branch in whole.tips.get(turn.uid, ()):
        number = f"({branch.number})" if branch.number is not None else f"@{branch.seq}"
        notes.append(plain(" ".join([number, ", ".join(branch.names)]).strip()))
    return TurnRow(
        head=head, mark=">" if is_here else "*" if turn.uid in whole.on_path else " ", seq=turn.first_seq,
        prompt=_begun(turn.prompt), answer=_begun(turn.answer or ""), notes=notes,
    )  # fmt: skip


def _begun(text: str) -> str:
    line = plain(" ".join(text[: 4 * WORDS_CHARS].split()))
    return line if len(line) <= WORDS_CHARS else f"{line[:WORDS_CHARS]}…"
