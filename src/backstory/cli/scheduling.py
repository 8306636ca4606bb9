"""Shared by ``ingest`` and ``uninstall``: the timer that has logs imported, shown and then written."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.installing import edits_as_json, ingest_program, print_change
from backstory.workspace.clients.settings_change import ADD, NONE, REMOVE, UPDATE
from backstory.workspace.clients.timers import UserTimers

if TYPE_CHECKING:
    from backstory.cli.app import App

DONE = {ADD: "Scheduled", UPDATE: "Brought up to date", REMOVE: "Taken out"}
LATER = "It takes effect when you log in next."


def change_timer(app: App, *, is_going: bool, dry_run: bool, as_json: bool) -> None:
    """Show the files of the timer, or its line, then write them or take them out, unless it is a dry run."""
    timers = timers_of(app)
    program = ingest_program(app, is_checked=not is_going)
    plan = timers.plan_unschedule(program) if is_going else timers.plan_schedule(program)
    if not as_json:
        for change in plan.changes:
            print_change(change)
    is_written = plan.action != NONE and not dry_run
    refused = timers.perform(plan) if is_written else []
    if as_json:
        output.json(
            {
                "timer": plan.kind, "action": plan.action, "written": is_written,
                "changes": [edits_as_json(each) for each in plan.changes], "remarks": refused,
            }
        )  # fmt: skip
        return
    for said in refused:
        output.talk(output.one_liner(f"{said}. {LATER}"))
    if plan.action == NONE:
        output.talk(f"Nothing to do: {plan.kind} starts an import every hour already.")
    elif not is_written:
        output.talk("Nothing was written.")
    else:
        output.talk(f"{DONE[plan.action]}: a timer of {plan.kind} that starts an import every hour.")


def timers_of(app: App) -> UserTimers:
    """The timers of the person who runs this."""
    return UserTimers(app.home, app.environ, app.user_home, sys.platform)
