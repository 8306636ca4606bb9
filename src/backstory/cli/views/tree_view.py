"""A session's turns as a tree, a line each, indented where branches part; and two of its branches compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backstory.cli import output
from backstory.cli.views import path
from backstory.derive.essence import path_in
from backstory.workspace.history.targets import NUMBER, RECORD
from backstory.workspace.history.trees import goes_on, tree_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.store import TreeTurn
    from backstory.workspace.history.targets import Target
    from backstory.workspace.history.trees import ComparedBranch, Comparison, SessionTree, TreeRow

LEGEND = "> here   * on the way"
TOLD_COLUMNS_LEAST = 16
NAME_COLUMNS = 30
HERE: dict[str, Any] = {"fg": "green", "bold": True}
MARKS = {mark: output.style(mark, fg="green") if mark.strip() else mark for mark in " *>"}
ANSWER_COLUMNS_LEAST = 12
"""With less room than this an answer is not begun."""
FILES_SHOWN_MAX = 40


class TreeDrawing:
    """A tree as lines."""

    def __init__(self, tree: SessionTree) -> None:
        self.tree, self._here, self._above, self._tips = tree.tree, tree.current, tree.on_path, tree.tips

    def lines(self) -> Iterator[str]:
        """Each turn as a line."""
        columns = output.width()
        return (self.line(row, columns) for row in tree_rows(self.tree, columns))

    def line(self, row: TreeRow, columns: int) -> str:
        """Return a turn as a line: its mark, its prompt, the beginning of its answer, and notes."""
        turn = row.turn
        is_here = self._here is not None and self._here.uid == turn.uid
        mark = ">" if is_here else "*" if turn.uid in self._above else " "
        notes = self._notes(turn)
        at = f"@{turn.first_seq:<4}"
        used = len(row.head) + 2 + len(at) + 1
        if notes:
            used += sum(output.columns(text) + 2 for text, _ in notes)
        room = max(columns - used, TOLD_COLUMNS_LEAST)
        prompt = output.one_line(turn.prompt, room)
        # What is cut leaves no room behind it.
        answer = 0 if prompt.endswith("…") else room - output.columns(prompt) - 3
        if is_here or turn.removed is not None:
            prompt = output.style(prompt, **(HERE if is_here else {"dim": True}))
        drawn = f"{row.head}{MARKS[mark]} {output.style(at, dim=True)} {prompt}"
        if turn.answer and answer >= ANSWER_COLUMNS_LEAST:
            drawn += output.style(f" → {output.one_line(turn.answer, answer)}", dim=True)
        return drawn + "".join(f"  {output.style(text, fg=colour)}" for text, colour in notes) if notes else drawn

    def _notes(self, turn: TreeTurn) -> list[tuple[str, str | None]]:
        """Return notes behind a turn: its beginning inside another, its branch's name, its removal."""
        notes: list[tuple[str, str | None]] = []
        parent = self.tree.parent(turn.uid)
        if parent is not None and not goes_on(turn, parent):
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


# two branches ---------------------------------------------------------------------------------------------------------


def fork_line(comparison: Comparison) -> str:
    """Return the last record that two branches share, as a line."""
    if comparison.fork is None:
        return "fork point: none; these share no turn"
    prompt = output.one_line(comparison.fork_prompt, max(output.whole_columns() - 24, 20))
    return f"fork point: {output.style(f'@{comparison.fork.seq}', bold=True)} {output.style(prompt, dim=True)}"


def side_lines(side: ComparedBranch, words: str) -> Iterator[str]:
    """One of two branches as lines: its records from the fork on, and its files. ``words``: its name as asked for."""
    head = _head(side.target, words)
    if side.is_empty:
        yield output.style(f"--- {head}: (empty) ---", bold=True)
        return
    facts = filter(None, (output.counted(len(side.turns), "turn"), side.cost.known))
    yield output.style(f"--- {head} ({', '.join(facts)}) ---", bold=True)
    folder = side.target.located.session.said_folder
    yield from path.lines(side.records, folder)
    files = list(side.files.items())
    room = max(output.whole_columns() - 10, 20)
    for name, action in files[:FILES_SHOWN_MAX]:
        yield f"  {output.style(action, fg='magenta')} {output.one_line(path_in(name, folder), room)}"
    if len(files) > FILES_SHOWN_MAX:
        yield f"  (+{len(files) - FILES_SHOWN_MAX} more files; --json has all)"


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
