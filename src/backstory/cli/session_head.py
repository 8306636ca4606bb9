"""What stands above a session: what it is about, when and where it was, how much, and how to go back in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.amounts import amount
from backstory.cli.layout import flowing_facts, page_columns
from backstory.cli.marks import meter_words, origin_mark
from backstory.cli.moments import stretch
from backstory.derive.naming import NO_PROMPT, short_model
from backstory.model import Relation
from backstory.workspace.resume_command import is_resumable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.store import Session
    from backstory.workspace.sessions import ListedSession
    from backstory.workspace.transcript import ListedTurn, Transcript

MODELS_NAMED_MAX = 3
RETOLD = "calls and results: only what the program showed of them"
"""Of a session whose file has no more than that, also of its full form."""


def head_lines(transcript: Transcript, home: str, now: int) -> Iterator[str]:
    """The lines above a session's turns. ``home``: the person's home folder, which paths are shortened by."""
    session = transcript.session
    called = f"{session.number or ''} {session.heading or NO_PROMPT}".strip()
    yield output.style(output.one_line(called, page_columns()), bold=True)
    agent = ", ".join(session.agents)
    facts = [agent, *models(session.agents, transcript.turns), _when(transcript.turns, now), _where(session, home)]
    facts += [output.counted(session.turns, "turn"), *_how_much(session)]
    yield from (
        output.style(line, dim=True) for line in flowing_facts([output.one_liner(each) for each in facts if each])
    )
    if mark := origin_mark(session.elsewhere, is_conflict=session.is_conflict):
        yield output.style(output.one_liner(f"{mark}{session.elsewhere}"), bold=True)
    yield from (output.style(line, dim=True) for line in flowing_facts(_way_back(session)))
    if session.parent_uid:
        yield output.style(f"{session.relation} of {session.parent_uid}", dim=True)
    if session.relation == Relation.RETOLD:
        yield output.style(RETOLD, dim=True)
    yield from _child_lines(transcript.children)


def models(agents: Iterable[str], turns: Iterable[ListedTurn]) -> list[str]:
    """The models that answered, the first first, without what the agents' names say; at most a few, as one fact."""
    named = list(dict.fromkeys(short_model(each.turn.model, agents) for each in turns if each.turn.model))
    more = [f"{len(named) - MODELS_NAMED_MAX} more"] if len(named) > MODELS_NAMED_MAX else []
    return [", ".join([*named[:MODELS_NAMED_MAX], *more])] if named else []


def _when(turns: Iterable[ListedTurn], now: int) -> str:
    """From the first turn's beginning to the last one's end."""
    times = [ms for each in turns for ms in (each.turn.started, each.turn.ended) if ms is not None]
    return stretch(min(times), max(times), now) if times else ""


def _where(session: ListedSession, home: str) -> str:
    folder = session.cwd or session.project or ""
    if home and (folder == home or folder.startswith(f"{home}/")):
        folder = f"~{folder.removeprefix(home)}"
    branch = f"({session.branch})" if session.branch else ""
    return f"{folder} {branch}".strip()


def _how_much(session: ListedSession) -> list[str]:
    least = "≥ " if session.partial_tokens else ""
    tokens = [f"{least}{amount(session.tokens)} tokens"] if session.tokens else []
    full, _ = meter_words(session.meter)
    context = [f"context {full}"] if full else []
    return tokens + ([output.money(session.cost)] if session.cost.low_usd is not None else []) + context


def _way_back(session: ListedSession) -> list[str]:
    """The command that goes on with a session in its own agent, and the agent's id of it; else its id here."""
    if session.elsewhere is None and is_resumable(session.agents, session.native_id, session.number):
        # The agent's own command is in --json: naming it here would import the agent.
        own = f"{', '.join(session.agents)} {session.native_id}"
        return [f"resume: backstory resume {session.label}", output.one_liner(own)]
    return [f"id: {session.uid}"]


def _child_lines(children: Iterable[Session]) -> Iterator[str]:
    room = page_columns()
    for child in children:
        line = f"  └ {child.relation} {child.uid[:12]} ({output.counted(child.turns, 'turn')}) {child.shown_title}"
        yield output.style(output.one_line(line.rstrip(), room), dim=True)
