"""Sessions that a search finds, by repository, each with the command that continues it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.ask.query import match_expression
from backstory.bounds import iso
from backstory.chronicle.explain import quoted, sessions_with_subagents
from backstory.store.intake.coverage import Coverage
from backstory.workspace.history.sessions import is_resumable

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
    """

    session: ListedSession
    holder: str
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
        session=session, holder=labels[hit.session.uid], seq=hit.stored.seq, scope=hit.scope, snippet=hit.snippet,
        near=hit.near, hits=hit.events, command=_command(session),
    )  # fmt: skip


def _command(session: ListedSession) -> tuple[str, ...]:
    """The command of ours that continues a session: in its agent's own client, else in a run."""
    if is_resumable(session.agents, session.native_id, session.number):
        return ("backstory", "resume", session.label)
    return ("backstory", "run", "--session", session.label)


def queries(report: SearchReport) -> dict[str, str]:
    """Return SQL for each number of a report, by the number's name."""
    words = quoted(match_expression(report.query.text) or '""')
    filters = ", whatever the filters are" if report.query.here or any(report.query.shared.values()) else ""
    return {
        f"sessions that have the words as typed in one event{filters}": (
            f"{sessions_with_subagents()}\nselect count(distinct l.uid) as sessions, count(*) as hits\n"
            f"from search_index f join l on l.id = f.session_id where search_index match {words}"
        )
    }


def as_json(report: SearchReport) -> dict[str, Any]:
    """A report as ``report search --json`` prints it."""
    return {
        "query": report.query.text,
        "since": iso(report.query.since),
        "until": iso(report.query.until),
        "sessions": report.total,
        "near_sessions": report.near,
        "truncated": report.truncated,
        "relaxed": report.relaxed,
        "instead": dict(report.instead),
        "not_covered": report.coverage.uncovered,
        "outdated": report.coverage.is_outdated,
        "places": [
            {
                "repository": place.name or None,
                "project": place.project,
                "found": [_found_as_json(each) for each in place.found],
            }
            for place in report.places
        ],
    }


def _found_as_json(found: FoundSession) -> dict[str, Any]:
    session = found.session
    return {
        "session": session.uid,
        "title": session.heading,
        "agents": session.agents,
        "branch": session.branch,
        "last_active": iso(session.last_active),
        "hits": found.hits,
        "near": found.near,
        "holder": found.holder,
        "seq": found.seq,
        "scope": found.scope,
        "snippet": found.snippet,
        "command": found.command,
    }
