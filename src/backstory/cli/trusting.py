"""The check before every acting command: a store from elsewhere is changed only after a person trusted it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.errors import NotConfirmed, StoreIsMachines
from backstory.workspace.runs.writable import ensure_ours, ensure_writable_session
from backstory.workspace.stores.up_to_date import HOME_OFF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.cli.app import App
    from backstory.conversation.tree import Point
    from backstory.store import Session, Store
    from backstory.workspace.decisions import Late
    from backstory.workspace.located import LocatedSession


def _take_trust(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        ctx.obj.trusts = True


trust_option = click.option(
    "--trust",
    is_flag=True,
    expose_value=False,
    callback=_take_trust,
    help="Trust this project's store although it came from elsewhere; needed once.",
)


def is_agreed(what: str, question: str, *, yes: bool) -> bool:
    """Ask a person to confirm what cannot be undone; prints "Kept." if they refuse. ``yes``: confirmed already.

    Raises NotConfirmed if no person can be asked.
    """
    if yes or output.confirm(question):
        return True
    if not output.can_ask():
        raise NotConfirmed(what)
    output.talk("Kept.")
    return False


def goes_on(question: str) -> bool:
    """Ask a person at the terminal to continue or cancel; without one the answer is to cancel."""
    if not output.can_ask():
        return False
    answers = click.Choice(["Continue", "Cancel"], case_sensitive=False)
    output.talk(question)
    return output.asked("Continue or Cancel", type=answers, default="Cancel", show_choices=False) == "Continue"


def may_act(app: App, acted_in: Store | None = None) -> None:
    """Check that a command may change this project's store, or the named one.

    ``acted_in``: the store that it changes, if known: the home store needs no trust. The location of one of ours is
    recorded. For one from elsewhere a person is asked, once. Raises NotTrusted, StoreIsMachines, and what
    reading the store raises.
    """
    if acted_in is not None and acted_in is app.machine_store:
        app.has_acted = True
        return
    app.has_acted = True
    try:
        ensure_ours(app.workspace, lambda store: app.trusts or _is_trusted(store), output.talk)
    except StoreIsMachines:
        app.has_acted = False
        raise


def _is_trusted(store: Store) -> bool:
    """Ask the person at the terminal, if there is one, whether to trust a store."""
    path = output.one_liner(str(store.path))
    return output.confirm(f"{path} came from elsewhere: it was not created here. Trust it from now on?")


# acting ---------------------------------------------------------------------------------------------------------------
# A session that this project may add to, and the remarks on how it came to be.


def writable_session(app: App, located: LocatedSession, holding: Point | None = None) -> Session:
    """The session of this project that continues the one given; itself where that is the project's own.

    ``holding``: it has this record.
    """
    writable = ensure_writable_session(app.workspace, located, holding)
    for sentence in writable.sentences(app.project_store.path):
        output.talk(sentence)
    return writable.session


# deciding -------------------------------------------------------------------------------------------------------------
# Shared by commands that write a person's decisions: where they are written, and which stores are late.


def copy_decisions(app: App, found: LocatedSession, done: str) -> None:
    """Copy a session's decisions to the other stores that hold it, and name those that are late."""
    talk_late(done, app.workspace.decisions.copy(found.store, found.session.uid))


def talk_late(done: str, late: Sequence[Late]) -> None:
    """Print a line for each store that could not be written now."""
    for each in late:
        output.talk(f"{done}; {each}.")


# home off -------------------------------------------------------------------------------------------------------------
# The message of commands that fill the home store if the settings have it off.


def says_off(app: App, *, as_json: bool) -> bool:
    """Return True if the home store is off, so that nothing is done; then that is printed."""
    if app.workspace.keeps_home:
        return False
    if as_json:
        output.json({"off": "store.enabled"})
    output.talk(HOME_OFF)
    return True
