"""The gate before every acting command: a store from elsewhere is acted in when a person has said that it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.errors import BackstoryError, NotConfirmed, NotTrusted, StoreIsMachines
from backstory.ids import session_identity
from backstory.projects.trust import Verdict
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
    help="Act in this project's store, though it came from elsewhere; said once.",
)


def is_agreed(what: str, question: str, *, yes: bool) -> bool:
    """Whether a person agrees to what cannot be undone; "Kept." where they do not. ``yes``: they said so before.

    Raises NotConfirmed where there is nobody to ask.
    """
    if yes or output.confirm(question):
        return True
    if not output.can_ask():
        raise NotConfirmed(what)
    output.talk("Kept.")
    return False


def may_act(app: App, acted_in: Store | None = None) -> None:
    """Let an acting command go on in this project's store, or the one that was named.

    ``acted_in``: where it acts, if that is not always so: the machine's own store needs no trust. One of ours is
    noted as it lies now. For one from elsewhere a person is asked, once. Raises NotTrusted, StoreIsMachines, and what
    reading the store raises.
    """
    if acted_in is not None and acted_in is app.machine_store:
        return
    store, verdict = app.project_store, app.workspace.verdict()
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
    """Whether the person at the terminal, if one is there, trusts a store."""
    path = output.one_liner(str(store.path))
    return output.confirm(f"{path} came from elsewhere: it was not made here. Act in it, and trust it from now on?")


def _trust(app: App, store: Store) -> None:
    """Have a store from elsewhere be ours. What is queued in it waits until a person releases it."""
    held = hold_queue(store)
    if store.exists:
        dropped = store.disarm()
        store.close()
        app.workspace.known_projects.remember(store)
    else:
        dropped = []
        app.workspace.known_projects.begin(store)
    app.workspace.believe(store)
    output.talk(f"{store.path} is trusted from now on.")
    if dropped:
        output.talk(f"Taken out of it, because it acts by itself: {', '.join(dropped)}.")
    if held:
        output.talk(f"{held} queued with it wait until you release them: backstory queue list")
    _tell_home(app, store)


def _tell_home(app: App, store: Store) -> None:
    """Have the machine's store hold what a store holds that is ours now, marked as what came from elsewhere."""
    home = app.machine_store
    try:
        uids = store.uids() if store.exists else []
        known = home.origins(uids)
        if not uids:
            return
        try:
            home.pull_sessions(store)
        finally:
            home.mark_elsewhere([uid for uid in uids if session_identity(uid) not in known], str(store.path))
    except BackstoryError as refused:
        output.talk(f"The machine's store does not have all of it: {refused}")
