"""One session in short: what was asked, what came of it, the summaries where they stand, how it ended, what is open."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.bounds import counted, iso, local
from backstory.chronicle.progress import (
    FILES_SHOWN,
    MARKS,
    REFS_SHOWN,
    Progress,
    Results,
    Status,
    check_words,
    goes_on,
    line,
    names,
    progress_of,
    ref_as_json,
    ref_words,
    results_as_json,
    results_of,
)
from backstory.chronicle.report import Cell, Report, ReportRow, Section, Tone, facts, row, rows
from backstory.derive.check_programs import DeedKind
from backstory.derive.checkpoints import SECTIONS
from backstory.derive.naming import NO_PROMPT
from backstory.derive.pricing import cost_as_json
from backstory.derive.pruning import MARK
from backstory.ids import session_keys
from backstory.model import Relation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.store.intake.derived_tables import StoredCheckpoint, StoredRef
    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.history.transcript import ListedTurn, Transcript
    from backstory.workspace.history.work import HandCommits, SessionWork
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.reader import Reader
    from backstory.workspace.team_reader import Whose

NOTHING_TYPED = "(nothing was typed)"
SHORT_CHARS = 120
_KEPT = (DeedKind.COMMIT, DeedKind.PULL_REQUEST)


class Prompt(Struct, frozen=True, kw_only=True):
    """A prompt. ``seq``: its record, None while no store has it; ``at``: ms since 1970; ``state``: of a live run."""

    number: int
    seq: int | None
    at: int | None
    text: str
    agent: str
    outcome: str | None
    state: str | None
    is_rewound: bool
    shown_in: str | None
    """The session that shows its turn, of which this one holds a copy."""


class Delivered(Struct, frozen=True, kw_only=True):
    """A commit that was made, or a pull request that was opened: its hash and subject, or address, and its command."""

    kind: DeedKind
    seq: int
    at: int | None
    name: str
    """'' where no output says it."""
    command: str


class SummaryNote(Struct, frozen=True, kw_only=True):
    """A summary where it stands: behind the record ``seq``, None where only its time is known.

    ``by``: the agent that wrote it; ``is_ours``: made by ``compact``, not by an agent in the place of its own history.
    """

    seq: int | None
    at: str | None
    is_ours: bool
    by: str | None
    title: str | None
    texts: dict[str, str]
    """Its sections; all of one that has none is ``overview``."""


class Subagent(Struct, frozen=True, kw_only=True):
    """A session that this one started."""

    uid: str
    title: str
    turns: int
    outcome: str | None


class Recap(Struct, frozen=True, kw_only=True):
    """The report. ``progress`` is None where nothing was asked; ``answer``: the last thing the model said.

    ``goes_on``: the words of the command that continues it; none of one that is not here. ``whose``: of a team.
    """

    session: ListedSession
    prompts: tuple[Prompt, ...]
    summaries: tuple[SummaryNote, ...]
    results: Results
    kept: tuple[Delivered, ...]
    refs: tuple[StoredRef, ...]
    progress: Progress | None
    answer: str
    subagents: tuple[Subagent, ...]
    goes_on: tuple[str, ...]
    whose: Whose | None = None


def recap(reader: Reader, located: LocatedSession) -> Recap:
    """A session in short, as far as it has come."""
    transcript, work = reader.transcript(located), reader.work_of(located)
    turns = [each for each in transcript.turns if each.removed is None]
    return Recap(
        session=transcript.session,
        prompts=tuple(map(_prompt, turns)),
        summaries=tuple(_summaries(reader, transcript)),
        results=results_of(work),
        kept=tuple(
            Delivered(kind=each.kind, seq=each.seq, at=each.at, name=line(each.made), command=line(each.text))
            for each in work.deeds
            if each.kind in _KEPT and each.ok
        ),
        refs=work.refs,
        progress=_progress(transcript, work, reader.commits_by_hand()),
        answer=line(work.turns[-1].answer) if work.turns else "",
        subagents=tuple(
            Subagent(uid=each.uid, title=each.shown_title, turns=each.turns, outcome=each.outcome)
            for each in transcript.children
            if each.relation == Relation.SUBAGENT
        ),
        goes_on=goes_on(transcript.session),
    )


def _prompt(listed: ListedTurn) -> Prompt:
    turn = listed.turn
    return Prompt(
        number=listed.number,
        seq=turn.first_seq if listed.live is None else None,
        at=turn.started,
        text=turn.prompt,
        agent=turn.agent,
        outcome=turn.outcome,
        state=listed.live,
        is_rewound=listed.is_rewound,
        shown_in=listed.shown_in,
    )


def _summaries(reader: Reader, transcript: Transcript) -> Iterator[SummaryNote]:
    """Agents' checkpoints and the summaries that were made here, in the order of their places."""
    agents = ", ".join(transcript.session.agents)
    found = [_of_agent(each, agents) for each in reader.checkpoints(transcript.located)]
    found += [
        SummaryNote(
            seq=each.after_seq, at=each.created, is_ours=True, by=each.agent, title=None,
            texts={"overview": each.summary},
        )
        for each in transcript.summaries
    ]  # fmt: skip
    yield from sorted(found, key=lambda each: (each.seq is None, each.seq or 0, each.at or ""))


def _of_agent(checkpoint: StoredCheckpoint, agent: str) -> SummaryNote:
    texts = {name: text for name in SECTIONS if (text := getattr(checkpoint, name))}
    return SummaryNote(
        seq=checkpoint.seq, at=iso(checkpoint.created_at), is_ours=False, by=agent, title=checkpoint.title, texts=texts
    )


def _progress(transcript: Transcript, work: SessionWork, by_hand: HandCommits) -> Progress | None:
    live = next(reversed(transcript.live.values()), None)
    if live is not None:
        state = "a run is going on" if live.is_running else "its last run is over and not stored yet"
        return Progress(status=Status.IN_PROGRESS, reason=state, open=f"the last prompt: {line(live.turn.prompt)}")
    return progress_of(work, by_hand) if work.turns else None


def report(found: Recap) -> Report:
    """Draw a recap: a section for each part that has something."""
    session = found.session
    where = session.project_name
    first = next((each.at for each in found.prompts if each.at is not None), None)
    lead = facts((
        found.whose and found.whose.person, session.label, ", ".join(session.agents),
        f"{where} ({session.branch})" if where and session.branch else where or session.branch,
        local(first), counted(len(found.prompts), "turn"),
        session.cost.known, session.pruned_words,
    ))  # fmt: skip
    return Report(title=session.heading or NO_PROMPT, lead=lead, sections=tuple(_sections(found)))


def _sections(found: Recap) -> Iterator[Section]:
    if not found.prompts:
        yield Section(title="Nothing was asked in this session.")
        return
    named: Iterable[tuple[str, tuple[ReportRow, ...]]] = (
        ("Asked", rows(_asked(found))),
        ("What came of it", rows(_results(found))),
        ("How it ended", tuple(_ended(found))),
        ("Subagents", rows(map(_subagent_words, found.subagents))),
        ("Go on with it", (row(Cell(shlex.join(found.goes_on), Tone.CODE)),) if found.goes_on else ()),
    )
    yield from (Section(title=name, rows=shown) for name, shown in named if shown)


def _asked(found: Recap) -> Iterator[str]:
    """Each prompt in a line, with the summaries where they stand."""
    notes = list(found.summaries)
    for prompt in found.prompts:
        while notes and notes[0].seq is not None and prompt.seq is not None and notes[0].seq < prompt.seq:
            yield _note_words(notes.pop(0))
        yield _prompt_words(prompt)
    yield from map(_note_words, notes)


def _prompt_words(prompt: Prompt) -> str:
    place = f"@{prompt.seq}" if prompt.seq is not None else f"turn {prompt.number}"
    ended = prompt.outcome if prompt.outcome != "completed" else ""
    shown_in = f"shown in {prompt.shown_in[:12]}" if prompt.shown_in else ""
    how = ", ".join(filter(None, (ended, prompt.state, "rewound" if prompt.is_rewound else "", shown_in)))
    text = line(prompt.text) or NOTHING_TYPED
    return " ".join(filter(None, (place, local(prompt.at), text, f"({how})" if how else "")))


def _note_words(note: SummaryNote) -> str:
    place = f"@{note.seq}" if note.seq is not None else (note.at or "")[:10]
    text = note.texts.get("overview") or next(iter(note.texts.values()), "")
    words = ": ".join(filter(None, (note.title, line(text))))
    by = f" by {note.by}" if note.by else ""
    return f"≡ {place} {'Summary' if note.is_ours else 'Checkpoint'}{by}: {words}"


def _results(found: Recap) -> Iterator[str]:
    results = found.results
    if results.files:
        yield f"{counted(len(results.files), 'file')}: {names(results.files, FILES_SHOWN)}"
    if results.elsewhere:
        yield f"Elsewhere: {names(results.elsewhere, FILES_SHOWN)}"
    yield from (f"@{each.seq} {each.kind}: {line(each.name or each.command, SHORT_CHARS)}" for each in found.kept)
    yield from (f"{check_words(each)}: {line(each.command, SHORT_CHARS)}" for each in results.checks)
    said = " ".join(each.name for each in found.kept)
    if named := [ref_words(each) for each in found.refs if each.type != "commit" or each.value not in said]:
        yield f"Named: {names(named, REFS_SHOWN)}"


def _ended(found: Recap) -> Iterator[ReportRow]:
    progress = found.progress
    if progress is None:
        return
    yield row(MARKS[progress.status], f"{progress.status.capitalize()}: {progress.reason}")
    if found.answer and progress.open != f"asked: {found.answer}":
        yield row("Its last answer was pruned." if found.answer == MARK else f"Last answer: {found.answer}")
    if progress.open:
        yield row(f"Open: {progress.open}")


def _subagent_words(each: Subagent) -> str:
    ended = f", {each.outcome}" if each.outcome not in (None, "completed") else ""
    return f"{each.uid[:12]} {line(each.title, SHORT_CHARS)} ({counted(each.turns, 'turn')}{ended})"


def as_json(found: Recap) -> dict[str, Any]:
    """A report as ``report recap --json`` prints it."""
    session, progress = found.session, found.progress
    return {
        **session_keys(session.uid, session.label),
        **({} if found.whose is None else found.whose._asdict()),
        "title": session.heading or None,
        "agents": session.agents,
        "repository": session.repository,
        "project": session.project,
        "branch": session.branch,
        "created": session.created,
        "last_active": iso(session.last_active),
        "prompts": [_prompt_as_json(each) for each in found.prompts],
        "summaries": [
            {"seq": each.seq, "at": each.at, "ours": each.is_ours, "agent": each.by, "title": each.title, **each.texts}
            for each in found.summaries
        ],
        **results_as_json(found.results),
        "results": [
            {"kind": each.kind, "seq": each.seq, "at": iso(each.at), "text": each.name, "command_line": each.command}
            for each in found.kept
        ],
        "refs": [ref_as_json(each) for each in found.refs],
        **cost_as_json(session.cost),
        "status": progress.status if progress else None,
        "reason": progress.reason if progress else None,
        "open": progress.open if progress else None,
        "answer": found.answer,
        "subagents": [
            session_keys(each.uid) | {"title": each.title, "turn_count": each.turns, "outcome": each.outcome}
            for each in found.subagents
        ],
        "command": found.goes_on,
    }


def _prompt_as_json(prompt: Prompt) -> dict[str, Any]:
    return {
        "turn": prompt.number, "seq": prompt.seq, "at": iso(prompt.at), "prompt": prompt.text, "agent": prompt.agent,
        "outcome": prompt.outcome, "live": prompt.state, "rewound": prompt.is_rewound, "shown_in": prompt.shown_in,
    }  # fmt: skip
