"""Two branches or two sessions side by side, as ``backstory diff`` compares them: prompts, files, cost, time, edits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backstory import model
from backstory.bounds import UNKNOWN, counted, duration
from backstory.derive.essence import changed_lines, path_in
from backstory.derive.moments import outcome_mark, when
from backstory.derive.naming import NO_PROMPT
from backstory.errors import UnknownValue
from backstory.web.diffs import written
from backstory.web.listing import address
from backstory.web.markup import plain
from backstory.web.reading import CHARS_SHOWN, LINES_CHANGED
from backstory.workspace.history.targets import current_target, resolve_target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backstory.workspace.history.targets import Branch, Target
    from backstory.workspace.history.trees import ComparedBranch
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.reader import Reader
    from backstory.workspace.workspace import Workspace

PATH, SIDES = "/compare", ("one", "two")
TURNS_MOST, FILES_MOST, RECORDS_MOST = 200, 300, 2_000
"""The most turns of a side on the page, files of both, and calls of a side whose edits are read."""


class ComparedTurn(NamedTuple):
    """A turn of a side: its address, its words, and the sign and the word for how it ended."""

    where: str
    prompt: str
    answer: str
    mark: str
    outcome: str
    when: str


class ShownSide(NamedTuple):
    """One of two. ``left_out``: the number of turns that are not on the page."""

    heading: str
    where: str
    facts: list[tuple[str, str]]
    turns: list[ComparedTurn]
    left_out: int


class ChangedLine(NamedTuple):
    """A changed line: ``-``, ``+``, or '' for the number of those that are not shown."""

    sign: str
    text: str


class ComparedFile(NamedTuple):
    """A file, what was done to it on each side, and the lines that were changed there; ``is_same``: equal ones."""

    path: str
    actions: tuple[str, str]
    edits: tuple[Sequence[ChangedLine], Sequence[ChangedLine]]
    is_same: bool


class ComparedPage(NamedTuple):
    """Both sides. ``fork``: the last record that both have, in words, and its address; None where there is none."""

    sides: tuple[ShownSide, ShownSide]
    fork: tuple[str, str] | None
    files: list[ComparedFile]
    files_left_out: int
    other_way: str


class BranchChoice(NamedTuple):
    """A branch to compare with; ``where``: the address that does."""

    words: str
    where: str
    is_current: bool


class ChoicePage(NamedTuple):
    """One side, and what it may be compared with. ``words``: of that side in an address; None: no side is known yet."""

    heading: str
    words: str | None
    branches: list[BranchChoice]


def asked(typed: Mapping[str, str], several: Sequence[str]) -> tuple[str | None, str | None]:
    """The words of both sides that an address names: ``a`` and ``b``, or ``s`` twice as the list has it."""
    named = [text for text in (typed.get("a", ""), typed.get("b", ""), *several) if text]
    if len(named) > len(SIDES):
        raise UnknownValue("s", f"{len(named)} sessions", SIDES)
    return named[0] if named else None, named[1] if len(named) > 1 else None


def target_of(workspace: Workspace, words: str) -> Target:
    """The record that words name: a session, where it stands, or SESSION@N. Raises what a look for these does."""
    uid, sign, seq = words.partition("@")
    located = workspace.resolve(uid)
    return resolve_target(located, f"@{seq}") if sign else current_target(located)


def choices(workspace: Workspace, words: str | None) -> ChoicePage:
    """The branches of its session, which one side may be compared with."""
    if words is None:
        return ChoicePage(heading="", words=None, branches=[])
    located = workspace.resolve(words.partition("@")[0])
    uid = located.session.uid
    found = [
        BranchChoice(_branch_words(each), address(PATH, {"a": words, "b": f"{uid}@{each.seq}"}), each.is_current)
        for each in workspace.reader.branches(located)
    ]
    return ChoicePage(heading=_heading(workspace.reader, located), words=words, branches=found)


def _branch_words(branch: Branch) -> str:
    name = ", ".join(branch.names) or ("" if branch.number is None else f"branch {branch.number}")
    return plain(f"{name or 'record'} @{branch.seq} · {branch.turn.prompt[:200] or NO_PROMPT}")


def compared(workspace: Workspace, left: str, right: str, now: int) -> ComparedPage:
    """Compare two. Raises what a look for them does."""
    reader, words = workspace.reader, (left, right)
    comparison = reader.diff(*(target_of(workspace, each) for each in words))
    sides = (comparison.left, comparison.right)
    files, edits = [_files(each) for each in sides], [_edits(reader, each) for each in sides]
    paths = [*dict.fromkeys([*files[0], *files[1], *edits[0], *edits[1]])]
    shown = [_file(path, files, edits) for path in paths[:FILES_MOST]]
    fork = comparison.fork
    uid = comparison.left.target.located.session.uid
    return ComparedPage(
        sides=(_side(reader, sides[0], now), _side(reader, sides[1], now)),
        fork=None if fork is None else (
            plain(f"@{fork.seq} {comparison.fork_prompt[:200]}"), f"/s/{uid}/{fork.seq}"
        ),
        files=sorted(shown, key=lambda each: each.is_same),
        files_left_out=max(len(paths) - FILES_MOST, 0),
        other_way=address(PATH, {"a": right, "b": left}),
    )  # fmt: skip


def _side(reader: Reader, side: ComparedBranch, now: int) -> ShownSide:
    located = side.target.located
    uid, own = located.session.uid, {turn.uid for turn in side.turns}
    lasted = sum(each.turn.duration_ms or 0 for each in reader.turns(located) if each.turn.uid in own)
    facts = [
        ("Up to", f"@{side.target.point.seq}"),
        ("Turns", f"{len(side.turns):,}"),
        ("Files", f"{len(side.files):,}"),
        ("Cost", side.cost.shown),
        ("Time", duration(lasted) or UNKNOWN),
        ("Agents", plain(", ".join(dict.fromkeys(turn.agent for turn in side.turns)) or UNKNOWN)),
    ]
    turns = [
        ComparedTurn(
            f"/s/{uid}/{turn.first_seq}", plain(turn.prompt[:CHARS_SHOWN]) or NO_PROMPT,
            plain(turn.answer[:CHARS_SHOWN]), outcome_mark(turn.outcome)[0], turn.outcome or "",
            when(turn.started, now),
        )
        for turn in side.turns[:TURNS_MOST]
    ]  # fmt: skip
    return ShownSide(_heading(reader, located), f"/s/{uid}", facts, turns, max(len(side.turns) - TURNS_MOST, 0))


def _heading(reader: Reader, located: LocatedSession) -> str:
    return plain(reader.session(located.store, located.session).heading) or NO_PROMPT


def _files(side: ComparedBranch) -> dict[str, str]:
    """The files of a side by their paths in its folder: two sessions may have the same ones in two worktrees."""
    folder = side.target.located.session.said_folder
    return {path_in(path, folder): action for path, action in side.files.items()}


def _edits(reader: Reader, side: ComparedBranch) -> dict[str, list[tuple[str, str]]]:
    """The lines that each file's edits took away and put there on a side, in their order."""
    found: dict[str, list[tuple[str, str]]] = {}
    folder = side.target.located.session.said_folder
    calls = [(each.seq, each.part) for each in side.records if each.kind == model.ToolCall.__name__][:RECORDS_MOST]
    wanted = set(calls)
    for entry in reader.entries(side.target.located, list(dict.fromkeys(seq for seq, _ in calls))):
        if isinstance(entry.event, model.ToolCall) and (entry.outline.seq, entry.outline.part) in wanted:
            for path, line in _lines_by_file(entry.event):
                found.setdefault(path_in(path, folder), []).append(line)
    return found


def _lines_by_file(call: model.ToolCall) -> Iterator[tuple[str, tuple[str, str]]]:
    path = call.file_path or ""
    for sign, text in list(changed_lines(call)) or written(call):
        if not sign:
            path = text
        elif path:
            yield path, (sign, text)


def _file(
    path: str, files: Sequence[Mapping[str, str]], edits: Sequence[Mapping[str, Sequence[tuple[str, str]]]]
) -> ComparedFile:
    left, right = (each.get(path, ()) for each in edits)
    actions = (files[0].get(path, ""), files[1].get(path, ""))
    return ComparedFile(plain(path), actions, (_shown(left), _shown(right)), left == right)


def _shown(lines: Sequence[tuple[str, str]]) -> list[ChangedLine]:
    shown = [ChangedLine(sign, plain(text)) for sign, text in lines[:LINES_CHANGED]]
    more = len(lines) - len(shown)
    return [*shown, ChangedLine("", f"{counted(more, 'line')} more")] if more > 0 else shown
