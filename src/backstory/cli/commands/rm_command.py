"""``backstory rm``: delete sessions for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output, removing
from backstory.cli.options import json_option, sessions_argument, store_option
from backstory.cli.trusting import may_act, trust_option
from backstory.ids import session_keys
from backstory.workspace.runs.unsent import drop_unsent

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("rm")
@sessions_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--copies", is_flag=True, help="Also delete the sessions that hold copies of its turns, each as a whole.")
@json_option
@trust_option
@store_option
@click.pass_obj
def command(app: App, sessions: tuple[str, ...], yes: bool, copies: bool, as_json: bool) -> None:
    """Delete sessions, with their subagents', and all their bytes from the store (the agents' own logs stay).

    `ingest` brings them back only with --forgotten. Their numbers are not reused. Continuations and forks hold copies
    of the turns: they are listed, and deleted only with --copies.
    """
    if not sessions:
        raise click.UsageError("Name at least one SESSION.")
    found = [app.workspace.resolve(each) for each in sessions]
    for store in {id(each.store): each.store for each in found}.values():
        may_act(app, store)
    removal = removing.removal_of(app, found)
    if not removing.is_agreed_to(found, removal, yes=yes, copies=copies):
        return
    if copies:
        removal.include_copies()
    removed = removal.perform(app.home, removing.report)
    unsent = drop_unsent(app.home, removal.uids)
    if as_json:
        left = [session_keys(each.uid, each.label) | {"turn_count": each.shared} for each in removal.remaining]
        output.json({"uids": list(removal.uids), "dropped_prompts": removed.prompts, "copies": left})
    removing.talk(removal, removed, unsent)
