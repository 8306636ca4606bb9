"""A session as it is shared with other people: without removed branches, and without secrets where that is asked."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import model
from backstory.export import outline
from backstory.export.full_form import words_form
from backstory.export.shared import OutlinePoint, SharedEvent, SharedRef, SharedSession, SharedTurn
from backstory.store.intake import derived_tables
from backstory.store.tables import turns as stored_turns
from backstory.workspace.history.entries import entries_of, events_behind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.derive.secrets import Redactor
    from backstory.workspace.history.entries import Form, SessionEntry
    from backstory.workspace.history.transcript import ListedTurn, Transcript
    from backstory.workspace.located import LocatedSession

RESULTS_WITHIN = 200
"""Among so many events behind a call its result is looked for."""


class Shared(Struct, frozen=True, kw_only=True):
    """A session, and its events, which are read once as they are asked for."""

    session: SharedSession
    events: Iterator[SharedEvent]


def shared(transcript: Transcript, redactor: Redactor | None, *, full: bool) -> Shared:
    """A session as it is shared. ``full``: with all that tools were given and returned.

    With a ``redactor`` everything is read twice: what only its name tells to be a secret has to be known everywhere.
    """
    session = _session(transcript)
    if redactor is None:
        return Shared(session=session, events=_events(transcript, "full" if full else "words"))
    for each in _events(transcript, "full"):
        redactor.learn(each.event)
    masked: SharedSession = redactor.value(session)
    events = (_masked(each, redactor, full=full) for each in _events(transcript, "full"))
    return Shared(session=masked, events=events)


def outlined(transcript: Transcript, redactor: Redactor | None) -> tuple[SharedSession, Iterator[OutlinePoint]]:
    """The outline of a session: its prompts, decisions and commits."""
    whole = shared(transcript, redactor, full=False)
    made = _commits(transcript)
    commits = {seq: redactor.value(each) for seq, each in made.items()} if redactor is not None else made
    return whole.session, outline.points(whole.events, commits)


def _masked(each: SharedEvent, redactor: Redactor, *, full: bool) -> SharedEvent:
    event = redactor.value(each.event)
    # Masked before it is made short: of half a secret nobody could tell what it is.
    short = event if full else words_form(event)
    return SharedEvent(seq=each.seq, turn=each.turn, event=short, at=each.at)


def _shown(transcript: Transcript) -> dict[int, ListedTurn]:
    """The turns that are shared, by their numbers: those of removed branches are not."""
    return {each.number: each for each in transcript.turns if each.removed is None}


def _events(transcript: Transcript, form: Form) -> Iterator[SharedEvent]:
    shown = _shown(transcript)
    stored = {number for number, each in shown.items() if each.live is None and each.shown_in is None}
    found = events_behind(transcript.located, (0, -1), form, stored)
    entries = (
        SharedEvent(seq=each.outline.seq, turn=each.outline.turn, event=each.event, at=each.outline.at)
        for each in found
    )
    live = (
        SharedEvent(seq=None, turn=number, event=event if form == "full" else words_form(event))
        for number, run in transcript.live.items()
        for event in run.events()
    )
    return chain(entries, live)


def _session(transcript: Transcript) -> SharedSession:
    session, turns = transcript.session, _shown(transcript)
    located = transcript.located
    numbers = located.store.ask(stored_turns.numbers, located.session.id)
    refs = [
        each
        for each in located.store.ask(derived_tables.refs_of, [located.session.id]).get(located.session.id, [])
        if numbers.get(each.turn_id or 0, 1) in turns
    ]
    return SharedSession(
        uid=session.uid,
        title=session.heading,
        agents=session.agents,
        project=session.project_name or None,
        branch=session.branch,
        started=min((each.turn.started for each in turns.values() if each.turn.started is not None), default=None),
        turns=tuple(_turn(each) for each in turns.values()),
        refs=tuple(
            SharedRef(type=each.type, value=each.value, host=each.host, repository=each.repository, seq=each.seq)
            for each in refs
        ),
        cost=session.cost,
        pruned=session.pruned,
    )


def _turn(listed: ListedTurn) -> SharedTurn:
    turn = listed.turn
    return SharedTurn(
        number=listed.number, agent=turn.agent, model=turn.model, started=turn.started, duration_ms=turn.duration_ms,
        outcome=turn.outcome, is_rewound=listed.is_rewound, cost=listed.cost,
    )  # fmt: skip


def _commits(transcript: Transcript) -> dict[int, list[OutlinePoint]]:
    """The commits that were made, by the records in which git says so."""
    located = transcript.located
    made: dict[int, list[OutlinePoint]] = {}
    calls = dict.fromkeys(each.seq for each in _session(transcript).refs if each.type == "commit")
    for seq in calls:
        for entry in _results_of(located, seq):
            at, number = entry.outline, entry.outline.seq
            text = entry.event.content if isinstance(entry.event, model.ToolResult) else ""
            points = [
                OutlinePoint(kind=outline.COMMIT, seq=number, turn=at.turn, at=at.at, text=outline.shortened(words))
                for words in outline.commits_in(text)
            ]
            if points:
                made[number] = points
    return made


def _results_of(located: LocatedSession, seq: int) -> list[SessionEntry]:
    """The results of the calls in a record, in full, as far as they come soon."""
    calls = {
        each.event.tool_use_id
        for each in entries_of(located, [seq], "compact")
        if isinstance(each.event, model.ToolCall)
    }
    behind = events_behind(located, (seq, -1), "compact", None, RESULTS_WITHIN)
    results = [each for each in behind if isinstance(each.event, model.ToolResult) and each.event.tool_use_id in calls]
    found = entries_of(located, sorted({each.outline.seq for each in results}), "full")
    places = {(each.outline.seq, each.outline.part) for each in results}
    return [each for each in found if (each.outline.seq, each.outline.part) in places]
