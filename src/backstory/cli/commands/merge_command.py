"""``backstory merge``: another copy of a store, or another store, becomes part of this one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import json_option, store_option
from backstory.cli.trusting import may_act
from backstory.workspace.stores.merging import as_json as merged_as_json
from backstory.workspace.stores.merging import merge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.cli.app import App
    from backstory.exchange.merge_session import MergedSession
    from backstory.workspace.stores.merging import Merged

PROMPT_CHARS = 60


@click.command("merge")
@click.argument("other", metavar="OTHER", type=click.Path(path_type=Path))
@click.option("--trust", is_flag=True, help="Names, checkouts and removals of OTHER count; trust this project's store.")
@click.option("--foreign", is_flag=True, help="Also merge a store of another project.")
@json_option
@store_option
@click.pass_obj
def command(app: App, other: Path, trust: bool, foreign: bool, as_json: bool) -> None:
    """Merge another copy of this project's store into it. OTHER: the store file, or the folder that holds .backstory/.

    Work in both copies becomes branches of one tree; the later name wins. OTHER is not changed; its queued prompts
    are listed, and stay there. A merge that was stopped is finished by the next one.
    """
    app.trusts |= trust
    may_act(app)
    merged = merge(
        app.workspace, Path(os.path.normpath(app.cwd / other.expanduser())), trusts=trust, is_foreign=foreign,
        report=output.talk, progress=output.progress,
    )  # fmt: skip
    if as_json:
        output.json(merged_as_json(merged))
    else:
        for line in _lines(merged):
            output.data(output.one_liner(line))
    for remark in _remarks(merged):
        output.talk(output.one_liner(remark))


def _lines(merged: Merged) -> Iterator[str]:
    """Yield the changes here: in all, and of each session."""
    if not (merged.sessions or merged.removed or merged.board_items):
        yield f"Nothing to merge: all of {merged.other} is here."
        return
    new = sum(each.is_new for each in merged.sessions)
    turns = sum(each.turns_new + each.turns_replaced for each in merged.sessions)
    counts = (
        (new, "new session"), (len(merged.sessions) - new, "changed session"), (turns, "turn"),
        (len(merged.removed), "removed session"), (merged.board_items, "board item"),
    )  # fmt: skip
    yield f"Merged: {', '.join(output.counted(count, word) for count, word in counts if count)}."
    for each in merged.sessions:
        yield f"{_label(each)}: {', '.join(_of_session(each))}"


def _label(session: MergedSession) -> str:
    return f"S{session.number}" if session.number is not None else session.uid


def _of_session(session: MergedSession) -> Iterator[str]:
    if session.is_new:
        there = session.their_number
        is_other = there is not None and there != session.number
        yield f"new, S{there} there" if is_other else "new"
    if session.turns_new:
        yield output.counted(session.turns_new, "new turn")
    if session.turns_replaced:
        yield f"{output.counted(session.turns_replaced, 'turn')} of which more was there"
    if session.turns_removed:
        yield f"{output.counted(session.turns_removed, 'turn')} removed for good there"
    for each in session.moved:
        last = each.here + each.last - each.first
        yield f"@{each.first}-@{each.last} there is @{each.here}-@{last} here"
    if not (session.is_new or session.turns_new or session.turns_replaced or session.turns_removed):
        yield "names, places or facts that were decided or known there"


def _remarks(merged: Merged) -> Iterator[str]:
    """Yield other remarks on a merge."""
    if not merged.is_trusted:
        left_out = "its names, checkouts, removals and board items were left out"
        yield f"{merged.other} is not trusted: {left_out}. Add --trust to take them."
    for uid in merged.plan.went_on:
        yield f"Session {uid} was removed here and went on there since: it stays."
    for uid in merged.plan.stay:
        yield f"Session {uid} was removed there and went on here since: it stays."
    for uid in merged.removed:
        yield f"Session {uid} was removed there and not touched here since: it is removed."
    if count := len(merged.plan.left_out):
        yield f"{output.counted(count, 'session')} of it {'was' if count == 1 else 'were'} removed here, and left out."
    if merged.queued:
        yield f"Queued there, and not merged ({len(merged.queued)}):"
    for prompt in merged.queued:
        text = " ".join(prompt.content.split())
        yield f"  {prompt.session_uid}: {text[:PROMPT_CHARS]}{'…' if len(text) > PROMPT_CHARS else ''}"
    yield from merged.problems
