"""Sessions that a command deletes: what is asked before, and what is said afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.trusting import is_agreed, talk_late
from backstory.workspace.stores.removing import Removal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from backstory.cli.app import App
    from backstory.store.tables.copies import CopyHolder
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.stores.removing import Removed


PROMPT_COLUMNS = 60
report = output.talk


def removal_of(app: App, found: Sequence[LocatedSession]) -> Removal:
    """The removal of these sessions, wherever they are."""
    project = None if app.project_store.is_elsewhere else app.project_store
    return Removal(app.workspace.decisions, [(each.store, each.session.uid) for each in found], project)


def is_agreed_to(
    found: Sequence[LocatedSession], removal: Removal, *, yes: bool, copies: bool, has_titles: bool = True
) -> bool:
    """List what is deleted, and what holds copies of it; whether a person agrees. Raises as ``is_agreed``."""
    what = f"Removing {', '.join(_shown(each) if has_titles else output.clean(each.label) for each in found)}"
    if removal.copies:
        stay = "They are deleted too" if copies else "They stay; --copies deletes them too"
        output.talk(f"Copies of its turns are in {_named(removal.copies)}. {stay}.")
    return is_agreed(what, f"{what} from {found[0].store.path}?", yes=yes)


def talk(
    removal: Removal, removed: Removed, unsent: Sequence[Path], masked: Callable[[str], str] = lambda text: text
) -> None:
    """Print what was deleted, which stores are late, and where copies remain. Raises the last of the problems."""
    output.talk(f"Removed {', '.join(uid[:12] for uid in removal.uids)}.")
    for prompt in removed.prompts:
        output.talk(f"Deleted its queued prompt: {output.one_line(prompt, PROMPT_COLUMNS)}")
    talk_late("Removed", removed.late)
    if removal.remaining:
        output.talk(f"Copies of its turns remain in {_named(removal.remaining)}.")
    output.talk(f"Not erased: data {masked(', '.join(_not_erased(removal, removed, unsent)))}.")
    for each in removed.problems[:-1]:
        output.talk(str(each))
    if removed.problems:
        raise removed.problems[-1]


def _not_erased(removal: Removal, removed: Removed, unsent: Sequence[Path]) -> list[str]:
    """The places that are not erased: the agents' own logs, running runs, texts of unknown sessions, backups."""
    logs = sorted({str(path) for paths in removal.uids.values() for path in paths if path.exists()})
    own = [f"in {logs[0]}{f' and {len(logs) - 1} more logs' * (len(logs) > 1)}"] if logs else []
    spools = [f"in {each}, until that run ends" for each in removed.running]
    return [*own, *spools, *([f"in {unsent[0].parent}"] if unsent else []), "in earlier backups"]


def _shown(found: LocatedSession) -> str:
    turns = found.session.turns
    title = output.one_line(found.session.shown_title, PROMPT_COLUMNS)
    return f"{found.label} {title!r} ({turns} turn{'s' * (turns != 1)})"


def _named(holders: Sequence[CopyHolder]) -> str:
    shared = ((each, output.counted(each.shared, "turn")) for each in holders)
    return ", ".join(f"{output.clean(each.label)} ({each.uid[:12]}, {turns})" for each, turns in shared)
