"""Finds the session that asks for history, so that it is kept out of the answers.

It is known by the variable that our runner sets for an agent, else by what the agent itself says, else it is the
session of the folder whose log grew last, if that was within a minute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory import agents
from backstory.agents.contract import Asker
from backstory.ask import scoped
from backstory.errors import AgentUnusable, BackstoryError, SessionNotFound
from backstory.runs import process
from backstory.runs.process import MARKER
from backstory.runs.spool import SPOOLS, Spool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from backstory.agents.contract import AskingPart
    from backstory.workspace.workspace import Workspace

GREW_WITHIN_MS = 60_000
"""A log that grew within this time may be of the session that asks."""


class Surroundings(Struct, frozen=True, kw_only=True):
    """The process that started a server; it stays while that runs. ``run``: the turn's uid of the run it belongs to."""

    run: str | None
    processes: Sequence[tuple[int, str]]


def look_around(environ: Mapping[str, str]) -> Surroundings:
    """The processes that a server was started by, and the run that they are of.

    Some agents pass no variables on to the servers that they start, so those of the processes above count, too.
    """
    return Surroundings(run=environ.get(MARKER) or process.variable_above(MARKER), processes=process.above())


def asking_session(workspace: Workspace, around: Surroundings, said: Mapping[str, Any], user_home: Path) -> str | None:
    """The uid of the session that asks, at the top of its subagents; None where nothing says.

    ``said``: what came with the question.
    """
    candidates = (_of_run(workspace, around), *_of_agents(workspace, around, said, user_home))
    for words in (each for each in candidates if each):
        try:
            return _top(workspace, words)
        except SessionNotFound:
            # It is so young that no store has it.
            return None
    return workspace.home_store.ask_or(None, scoped.grown_in, str(workspace.folder), workspace.now() - GREW_WITHIN_MS)


def _of_run(workspace: Workspace, around: Surroundings) -> str | None:
    if not (around.run or "").isalnum():
        return None
    run = Spool(workspace.home / SPOOLS / str(around.run)).run
    return run.session_uid if run is not None else None


def _of_agents(
    workspace: Workspace, around: Surroundings, said: Mapping[str, Any], user_home: Path
) -> Iterator[str | None]:
    parts = [part for name in agents.names() if (part := _part(name)) is not None]
    # An agent may have been started by another one: what comes with the question is of the one that asks it.
    nothing: tuple[Mapping[str, str], Sequence[tuple[int, str]]] = ({}, ())
    for environ, processes in (nothing, (workspace.environ, around.processes)):
        asker = Asker(environ=environ, processes=processes, said=said, home=user_home)
        yield from (part.native_id(asker) for part in parts)


def _part(name: str) -> AskingPart | None:
    try:
        return agents.load(name).asking
    except AgentUnusable:
        return None


def _top(workspace: Workspace, words: str) -> str:
    store = workspace.home_store
    session, seen = store.session(words), set[str]()
    while session.relation == "subagent" and session.parent_uid and session.uid not in seen:
        seen.add(session.uid)
        try:
            session = store.session(session.parent_uid)
        except BackstoryError:
            break
    return session.uid
