"""Sessions that a search finds, by repository, each with the command that continues it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.ask.query import match_expression
from backstory.bounds import counted, iso, local
from backstory.chronicle.explain import quoted, sessions_with_subagents
from backstory.chronicle.progress import goes_on
from backstory.chronicle.report import Cell, Report, ReportRow, Section, Tone, facts, row
from backstory.ids import session_keys
from backstory.store.intake.coverage import Coverage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backstory.search.query import Excerpt
    from backstory.workspace.history.searching import SearchAnswer, SearchQuery
    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.reader import Reader

RULE = """\
The sessions are those of `backstory search` with the same words and filters, the best of them, as many as --limit says.
They are grouped by repository (by project, where there is none), the last active first. Of each the best hit is shown;
what subagents said counts for the session that began them."""


class FoundSession(Struct, frozen=True, kw_only=True):
    """A session with its best hit. ``near``: it has the words in another way only. ``hits``: 0 where nobody counted.

    ``holder``: the handle of the session that holds the record ``seq``; another one where a subagent's is.
    ``holder_uid``: its uid.
    """

    session: ListedSession
    holder: str
    holder_uid: str
    seq: int
    scope: str
    snippet: str
    near: bool
    hits: int
    command: tuple[str, ...]
    """The words of the command that continues it."""


class FoundPlace(Struct, frozen=True, kw_only=True):
    """A repository, or a project that has none, with what was found there."""

    name: str
    project: str | None
    found: tuple[FoundSession, ...]


class SearchReport(Struct, frozen=True, kw_only=True):
    """The report. ``total``: number of sessions with the words as typed; ``near``: number more in another way.

    ``truncated``: there are more than are here; ``relaxed``: no session has all words; ``instead``: words that stand
    nowhere, each with what was looked for in its place.
    """

    query: SearchQuery
    places: tuple[FoundPlace, ...]
    total: int
    near: int
    truncated: bool
    relaxed: bool
    instead: tuple[tuple[str, str], ...]
    coverage: Coverage = Coverage()


def search_report(reader: Reader, query: SearchQuery) -> SearchReport:
    """Search, and group what was found."""
    result = reader.search(query)
    places: dict[str, list[FoundSession]] = {}
    for found in _sessions(reader, result):
        places.setdefault(found.session.repository_key, []).append(found)
    findings = result.findings
    return SearchReport(
        query=query,
        places=tuple(_place(each) for each in places.values()),
        total=findings.sessions,
        near=findings.near,
        truncated=findings.truncated,
        relaxed=findings.relaxed,
        instead=findings.instead,
        coverage=result.coverage,
    )


def _place(found: Sequence[FoundSession]) -> FoundPlace:
    first = found[0].session
    return FoundPlace(name=first.project_name, project=first.main_project, found=tuple(found))


def _sessions(reader: Reader, result: SearchAnswer) -> list[FoundSession]:
    """Return the sessions found, the last active first; a subagent's hit counts for the session that began it."""
    best: dict[str, Excerpt] = {}
    for each in result.findings.excerpts:
        best.setdefault(each.shown.uid, each)
    listed = sorted(reader.sessions_of(list(best)), key=lambda each: each.last_active or 0, reverse=True)
    return [_found(each, best[each.uid], result.labels) for each in listed]


def _found(session: ListedSession, hit: Excerpt, labels: Mapping[str, str]) -> FoundSession:
    return FoundSession(
        session=session, holder=labels[hit.session.uid], holder_uid=hit.session.uid, seq=hit.stored.seq,
        scope=hit.scope, snippet=hit.snippet, near=hit.near, hits=hit.events, command=goes_on(session),
    )  # fmt: skip


def report(found: SearchReport) -> Report:
    """Draw each repository with its sessions: of each its best hit, and the command that continues it."""
    near = f", {found.near:,} similar" if found.near else ""
    relaxed = "; none has all of the words" if found.relaxed else ""
    return Report(
        title=f'Sessions with "{found.query.text}": {counted(found.total, "session")}{near}{relaxed}',
        sections=tuple(
            Section(title=place.name or "no repository", rows=tuple(map(_row, place.found))) for place in found.places
        ),
    )


def _row(each: FoundSession) -> ReportRow:
    session = each.session
    hits = "near" if each.near else counted(each.hits, "hit") if each.hits else ""
    holder = "" if each.holder == session.label else f"{each.holder} "
    return row(
        Cell(session.label, Tone.REF), Cell(session.heading or session.label, Tone.NAME),
        below=(
            row(facts((local(session.last_active), ", ".join(session.agents), session.branch, hits))),
            row(f"{holder}@{each.seq} {each.scope.replace('_', ' ')}: {each.snippet}"),
            row(Cell(shlex.join(each.command), Tone.CODE)),
        ),
    )  # fmt: skip


def queries(found: SearchReport) -> dict[str, str]:
    """Return SQL for each number of a report, by the number's name."""
    words = quoted(match_expression(found.query.text) or '""')
    filters = ", whatever the filters are" if found.query.here or any(found.query.shared.values()) else ""
    return {
        f"sessions that have the words as typed in one event{filters}": (
            f"{sessions_with_subagents()}\nselect count(distinct l.uid) as sessions, count(*) as hits\n"
            f"from search_index f join l on l.id = f.session_id where search_index match {words}"
        )
    }


def as_json(found: SearchReport) -> dict[str, Any]:
    """A report as ``report search --json`` prints it."""
    return {
        "query": found.query.text,
        "since": iso(found.query.since),
        "until": iso(found.query.until),
        "session_count": found.total,
        "near_sessions": found.near,
        "truncated": found.truncated,
        "relaxed": found.relaxed,
        "instead": dict(found.instead),
        "not_covered": found.coverage.uncovered,
        "outdated": found.coverage.is_outdated,
        "places": [
            {
                "repository": place.name or None,
                "project": place.project,
                "sessions": [_found_as_json(each) for each in place.found],
            }
            for place in found.places
        ],
    }


def _found_as_json(found: FoundSession) -> dict[str, Any]:
    session = found.session
    return {
        **session_keys(session.uid, session.label),
        "title": session.heading or None,
        "agents": session.agents,
        "branch": session.branch,
        "last_active": iso(session.last_active),
        "hit_count": found.hits,
        "near": found.near,
        "holder_uid": found.holder_uid,
        "holder_label": found.holder,
        "seq": found.seq,
        "scope": found.scope,
        "snippet": found.snippet,
        "command": found.command,
    }
