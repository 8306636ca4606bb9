"""``backstory rm``: delete sessions for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import removal_words
from backstory.cli.options import sessions_argument, store_option
from backstory.cli.trusting import may_act, trust_option
from backstory.workspace.unsent import drop_unsent

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("rm")
@sessions_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--copies", is_flag=True, help="Also delete the sessions that hold copies of its turns, each as a whole.")
@trust_option
@store_option
@click.pass_obj
def command(app: App, sessions: tuple[str, ...], yes: bool, copies: bool) -> None:
    """Delete sessions, with their subagents', and all their bytes from the store (the agents' own logs stay).

    `ingest` brings them back only with --forgotten. Their numbers are not reused. Continuations and forks hold copies
    of the turns: they are listed, and deleted only with --copies.
    """
    if not sessions:
        raise click.UsageError("Name at least one SESSION.")
    found = [app.find(each) for each in sessions]
    for store in {id(each.store): each.store for each in found}.values():
        may_act(app, store)
    removal = removal_words.removal_of(app, found)
    if not removal_words.is_agreed_to(found, removal, yes=yes, copies=copies):
        return
    if copies:
        removal.include_copies()
    removed = removal.perform(app.home, removal_words.report)
    removal_words.talk(removal, removed, drop_unsent(app.home, removal.uids))
