"""The check before every acting command: a store from elsewhere is changed only after a person trusted it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.errors import NotConfirmed, StoreIsMachines
from backstory.workspace.runs.writable import ensure_ours

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
