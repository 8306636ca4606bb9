"""Shared by ``mcp install`` and ``skill install``: the place, the changes of each file, and the report of them.

As JSON: ``agent``, ``scope``, ``file``, ``action`` (``add``, ``update``, ``remove`` or ``none``), ``written``,
``edits`` (each with its ``line``, the lines ``removed`` and those ``added``) and ``remarks``. `mcp install` adds
``command`` and ``env``: what the agent starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.workspace.clients.settings_change import ADD, NONE, REMOVE, SCOPES, UPDATE, USER

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.workspace.clients.settings_change import SettingsChange

scope_option = click.option(
    "--scope", type=click.Choice(SCOPES), default=USER, show_default=True,
    help="For you in every folder, or for everybody in this project.",
)  # fmt: skip
dry_run_option = click.option("--dry-run", is_flag=True, help="Show the change; write nothing.")
DONE = {ADD: "Written", UPDATE: "Brought up to date", REMOVE: "Removed"}


def show_and_write(
    change: SettingsChange, perform: Callable[[SettingsChange], None], *, dry_run: bool, as_json: bool,
    more: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Print a change, then make it, unless it is a dry run."""
    if not as_json:
        _print_change(change)
    is_written = change.action != NONE and not dry_run
    if is_written:
        perform(change)
    if as_json:
        output.json(_as_json(change, is_written=is_written) | (more or {}))
        return
    for remark in change.remarks:
        output.talk(output.one_liner(remark))
    if change.action == NONE:
        output.talk(output.one_liner(f"Nothing to do: it is in {change.path} already."))
    elif not is_written:
        output.talk("Nothing was written.")
    else:
        output.talk(output.one_liner(f"{DONE[change.action]}: {change.path}"))


def _print_change(change: SettingsChange) -> None:
    """The lines that go and come, and where."""
    for edit in change.edits:
        output.data(output.style(output.one_liner(f"{change.path}, line {edit.line}:"), bold=True))
        for line in edit.removed:
            output.data(output.style(f"- {output.clean(line)}", fg="red"))
        for line in edit.added:
            output.data(output.style(f"+ {output.clean(line)}", fg="green"))


def _as_json(change: SettingsChange, *, is_written: bool) -> dict[str, Any]:
    return {
        "agent": change.agent,
        "scope": change.scope,
        "file": str(change.path),
        "action": change.action,
        "written": is_written,
        "edits": [{"line": each.line, "removed": each.removed, "added": each.added} for each in change.edits],
        "remarks": change.remarks,
    }
