"""Shared by ``resume`` and ``restore --in-place``: the plan, the trust it needs, the words on restored files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.trusting import may_act
from backstory.errors import SessionNotTrusted
from backstory.workspace.clients.resuming import Resuming

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.cli.app import App
    from backstory.workspace.clients.resuming import PutBack, Resumption
    from backstory.workspace.located import LocatedSession


def resuming(app: App) -> Resuming:
    """Return the object that hands sessions over to their agents' clients."""
    return Resuming(app.workspace, app.user_home)


def planned(app: App, at_work: Resuming, located: LocatedSession, cwd: Path | None) -> Resumption:
    """Return the plan to resume a session. One from elsewhere first needs trust in its store: a person, or --trust."""
    folder = None if cwd is None else app.cwd / cwd
    try:
        return at_work.plan(located, folder)
    except SessionNotTrusted:
        if not app.trusts and not output.can_ask():
            raise
    may_act(app)
    return at_work.plan(app.workspace.resolve(located.session.uid), folder)


def talk_put_back(done: PutBack, resumption: Resumption) -> None:
    """Print what was put back, if anything was."""
    if done.files:
        beside = len(done.files) - sum(each.path == str(resumption.log) for each in done.files)
        more = f", with {output.counted(beside, 'file')} beside it" if beside else ""
        did = "Put back" if resumption.written is None else "Written"
        output.talk(output.one_liner(f"{did}: {resumption.log}{more}"))
    if done.index is not None:
        output.talk(output.one_liner(f"{done.index} leads to it now; a copy of what it was is kept."))
