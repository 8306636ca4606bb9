"""The check before every acting command: a store from elsewhere is changed only after a person trusted it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.errors import BackstoryError, NotConfirmed, NotTrusted, StoreIsMachines
from backstory.exchange import replication
from backstory.ids import session_identity
from backstory.projects.trust import Verdict
from backstory.store import sessions
from backstory.workspace.writable import hold_queue

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.store import Store


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


def may_act(app: App, acted_in: Store | None = None) -> None:
    """Check that a command may change this project's store, or the named one.

    ``acted_in``: the store that it changes, if known: the home store needs no trust. The location of one of ours is
    recorded. For one from elsewhere a person is asked, once. Raises NotTrusted, StoreIsMachines, and what
    reading the store raises.
    """
    if acted_in is not None and acted_in is app.machine_store:
        app.has_acted = True
        return
    store, verdict = app.project_store, app.workspace.verdict()
    app.has_acted = verdict != Verdict.MACHINE
    if verdict == Verdict.MACHINE:
        raise StoreIsMachines(store.path)
    if verdict == Verdict.ELSEWHERE:
        if not (app.trusts or _is_trusted(store)):
            raise NotTrusted(store.path)
        _trust(app, store)
    elif verdict == Verdict.OURS:
        app.workspace.believe(store)
        if store.path != app.machine_store.path:
            app.workspace.known_projects.remember(store)


def _is_trusted(store: Store) -> bool:
    """Ask the person at the terminal, if there is one, whether to trust a store."""
    path = output.one_liner(str(store.path))
    return output.confirm(f"{path} came from elsewhere: it was not created here. Trust it from now on?")


def _trust(app: App, store: Store) -> None:
    """Make a store from elsewhere one of ours. Its queued prompts wait until a person releases them."""
    held = hold_queue(store)
    if store.exists:
        dropped = store.disarm()
        store.close()
        app.workspace.believe(store)
        app.workspace.known_projects.remember(store)
    else:
        dropped = []
        app.workspace.known_projects.begin(store)
        app.workspace.believe(store)
    output.talk(f"{store.path} is trusted from now on.")
    if dropped:
        output.talk(f"Removed from it, because it would run by itself: {', '.join(dropped)}.")
    if held:
        output.talk(f"{held} prompts in its queue wait until you release them: backstory queue list")
    _pull_into_home(app, store)


def _pull_into_home(app: App, store: Store) -> None:
    """Copy the sessions of a newly trusted store into the home store, marked as from elsewhere."""
    from backstory.workspace.up_to_date import HOME_OFF

    home = app.machine_store
    if not app.config.settings.store.is_enabled:
        output.talk(HOME_OFF)
        return
    try:
        uids = store.uids() if store.exists else []
        known = home.ask_or({}, sessions.origins, uids)
        if not uids:
            return
        try:
            replication.pull_sessions(home, store, is_one_of_several=app.workspace.known_projects.has_copies(store.id))
        finally:
            home.change(
                sessions.mark_elsewhere, [uid for uid in uids if session_identity(uid) not in known], str(store.path)
            )
    except BackstoryError as refused:
        output.talk(f"The home store does not have all of its sessions: {refused}")
