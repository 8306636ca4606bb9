"""Completes what a prompt asks for from the settings and the session's last turn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backstory import agents
from backstory.conversation.board import NO_OFFER
from backstory.conversation.tree import Point, get_ancestry
from backstory.model import Permissions
from backstory.runs.runner import Request
from backstory.runs.stream import is_installed

if TYPE_CHECKING:
    from backstory.store import Session, Store
    from backstory.store.tables.queue import Options
    from backstory.workspace.place import Place


def request_for(
    place: Place,
    store: Store,
    session: Session | None,
    prompt: str,
    options: Options,
    turn_uid: str | None = None,
) -> Request:
    """A prompt with all that its run needs. ``session`` is None for a new one, ``turn_uid`` for one not queued."""
    settings = place.config.settings
    after = Point(*options.after) if options.after else None
    cwd = Path(options.cwd) if options.cwd else place.folder
    agent = options.agent or settings.run.agent or usual_agent(place, store, session, after)
    return Request(
        agent=agent,
        prompt=prompt,
        cwd=cwd,
        model=options.model,
        permissions=Permissions(options.permissions) if options.permissions else settings.run.permissions,
        executable=settings.program_of(agent) or None,
        context_chars=settings.run.context_chars,
        after=after,
        silence_s=settings.run.silence_s,
        turn_uid=turn_uid,
        offer=NO_OFFER if options.no_board else place.offer(prompt, cwd),
    )


def usual_agent(place: Place, store: Store, session: Session | None, after: Point | None) -> str:
    """The agent of the turn that is followed; for a new session the first one whose program is on this machine."""
    if session is not None:
        after = after or store.leaf(session)
        path = get_ancestry(store.turns(session), after.uid) if after is not None else []
        known = [turn.agent for turn in path if turn.agent in agents.names()]
        if known:
            return known[-1]
    able = [name for name in agents.names() if agents.load(name).run is not None]
    settings, environ = place.config.settings, place.environ
    return next((name for name in able if is_installed(name, settings.program_of(name), environ)), able[0])
