"""A search of everything that is stored: which events are asked for, what was found, and how it is ended early."""

from __future__ import annotations

from contextlib import contextmanager
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from backstory.ask.search import BY_SCORE, ROLES
from backstory.bounds import counted, iso
from backstory.errors import IndexOff
from backstory.ids import session_keys
from backstory.lazy import lazy_module
from backstory.search.query import Findings, find, find_exact, find_listed, find_pattern
from backstory.store import Filter
from backstory.store.file import readers
from backstory.store.intake import coverage as stored_coverage
from backstory.store.intake.coverage import Coverage
from backstory.store.tables.session_filter import Selection
from backstory.workspace.history.sessions import resume_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backstory.ask import topics
    from backstory.search.query import Excerpt
    from backstory.store import Store
    from backstory.workspace.history.listing import Listing
    from backstory.workspace.history.sessions import SessionFilter
    from backstory.workspace.place import Place
else:
    topics = lazy_module("backstory.ask.topics")


class Mode(Enum):
    """The way in which the text of a search is read."""

    WORDS = "words"
    EXACT = "exact"
    """To the letter."""
    REGEX = "regex"
    """As a regular expression of Python's."""


class SearchQuery(Selection, frozen=True, kw_only=True):
    """The text to find, and the sessions to look in. Without ``text`` those sessions are listed."""

    text: str = ""
    mode: Mode = Mode.WORDS
    here: bool = False
    """Only this project's sessions."""
    role: str | None = None
    """One of the keys of ``ROLES``."""
    scopes: tuple[str, ...] = ()
    session: str | None = None
    """Only this session, as a person names it."""
    without: tuple[str, ...] = ()
    """Not these sessions."""
    asking_run: str | None = None
    """The turn's uid of the run that asks: the words of its session are no answer."""
    near: bool = True
    """Also what has the words in other forms."""
    sort: str = BY_SCORE
    all_hits: bool = False
    """Every hit, not ``per_session`` of each."""
    per_session: int = 1
    limit: int = 20
    counts: bool = True
    """False: the number of all that is found is not wanted, and may be too low. That takes less time."""


class SearchAnswer(Struct, frozen=True, kw_only=True):
    """The hits. ``labels``: the label of each session that commands take in any folder, by uid."""

    query: SearchQuery
    findings: Findings
    labels: dict[str, str]
    coverage: Coverage = Coverage()
    missing_store: Path | None = None
    """The path of the home store, if nothing was imported yet."""


def left_out(coverage: Coverage) -> Iterator[str]:
    """Name the gaps of the index, and how to close them."""
    if count := coverage.uncovered:
        what = f"{count:,} {'session is' if count == 1 else 'sessions are'} not covered"
        yield f"{what} by index.repositories. To change that: backstory config set index.repositories NAMES"
    if coverage.is_outdated:
        yield "The index is not as its settings say now, so hits may be missing or too many. Next: backstory reindex"


def nothing_found(words: str, sessions: int | None = None) -> str:
    """Return the sentence of every face for a search without a hit, with what to try.

    ``sessions``: the number of those that were searched, None where nobody counted.
    """
    where = "" if sessions is None else f" in {counted(sessions, 'session')}"
    return f"Nothing found for {words!r:.200}{where}. Try fewer or other words."


class Cancellation:
    """Ends a question that is being asked, from any thread: that one raises Cancelled within milliseconds.

    It stays cancelled: what is asked with it later ends at once.
    """

    def __init__(self) -> None:
        self._interrupt: Callable[[], None] | None = None
        self.is_cancelled = False

    def cancel(self) -> None:
        """End the question."""
        self.is_cancelled = True
        # Another thread may end the question meanwhile.
        if (interrupt := self._interrupt) is not None:
            interrupt()

    @contextmanager
    def ending(self, store: Store) -> Iterator[None]:
        """Let what this thread asks a store while this lasts be ended."""
        with readers.cancellable(store.reader(), lambda: self.is_cancelled) as self._interrupt:
            try:
                yield
            finally:
                self._interrupt = None


def search(place: Place, query: SearchQuery, cancellation: Cancellation | None) -> Findings:
    """Search the home store. A filter that cannot be read is refused also if there is no store yet."""
    store, wanted = place.home_store, filter_of(place, query)
    if not store.exists:
        return Findings(total=0, truncated=False, excerpts=[])
    if not store.ask(stored_coverage.state, store.index_rule and store.index_rule()).is_on:
        raise IndexOff
    if cancellation is None:
        return _found_with(store, query, wanted)
    with cancellation.ending(store):
        return _found_with(store, query, wanted)


def _found_with(store: Store, query: SearchQuery, wanted: Filter) -> Findings:
    """Search. Raises UnknownTool where nothing is found by a tool that was never called."""
    found = _found(store, query, wanted)
    if query.tool is not None and not found.excerpts:
        from backstory.workspace.history.unknown_values import check_tool

        check_tool([store], query.tool)
    return found


def _found(store: Store, query: SearchQuery, wanted: Filter) -> Findings:
    most, each = query.limit, None if query.all_hits else query.per_session
    if not query.text:
        return find_listed(store, wanted, limit=most)
    if query.mode is Mode.REGEX:
        return find_pattern(store, query.text, wanted, limit=most, hits_per_session=each)
    if query.mode is Mode.EXACT:
        return find_exact(store, query.text, wanted, limit=most, hits_per_session=each, sort=query.sort)
    return find(
        store, query.text, wanted, limit=most, hits_per_session=each, near=query.near, sort=query.sort,
        counts=query.counts,
    )  # fmt: skip


def about(listing: Listing, words: str, wanted: SessionFilter) -> SessionFilter:
    """The same filter for the sessions of a list that are about something, as any of its stores says."""
    stores = listing.stores(everywhere=wanted.everywhere)
    found = (
        store.ask_or([], topics.about, words, store.as_recorded(Filter(**listing.filter_of(store, wanted).shared)))
        for store in stores
    )
    return replace(wanted, about=words, uids=tuple(dict.fromkeys(chain.from_iterable(found))))


def filter_of(place: Place, query: SearchQuery) -> Filter:
    """The events that are asked for. Raises SessionNotFound, SessionAmbiguous, StoreNotFound, UnknownAgent."""
    home = place.home_store
    if query.agent is not None:
        from backstory.workspace.history.unknown_values import check_agent  # few searches ask for one

        check_agent([home], query.agent)
    if query.in_project or query.status:
        from backstory.workspace.history.listing import resolved  # likewise

        query = resolved(place, home, query, is_of_events=True)
    of_project: dict[str, Any] = {}
    if query.here:
        from backstory.workspace.history.listing import project_id  # few searches ask whose a store is

        of_project = {"project": place.project_key, "folder": str(place.project_folder), "owner": project_id(place)}
    return Filter(
        **{**query.shared, **of_project},
        session_id=None if query.session is None else home.session(query.session).id,
        without=(*(home.session(each).id for each in query.without), *_own(place.home, home, query)),
        scopes=_scopes(query.role, query.scopes),
    )


def _scopes(role: str | None, scopes: tuple[str, ...]) -> tuple[str, ...]:
    if role is None:
        return scopes
    return tuple(each for each in ROLES[role] if not scopes or each in scopes) or ("none",)


def _own(folder: Path, home: Store, query: SearchQuery) -> tuple[int, ...]:
    """The session whose run asks; none where a session is named."""
    if query.session is not None or not (query.asking_run or "").isalnum() or not home.exists:
        return ()
    from backstory.runs.spool import SPOOLS, Spool

    run = Spool(folder / SPOOLS / str(query.asking_run)).run
    return (home.session(run.session_uid).id,) if run is not None and home.has(run.session_uid) else ()


def as_json(result: SearchAnswer) -> dict[str, Any]:
    """Return the hits as ``search --json`` prints them."""
    findings = result.findings
    return {
        "query": result.query.text,
        "total": findings.total,
        "truncated": findings.truncated,
        "relaxed": findings.relaxed,
        "stopped": findings.stopped,
        "not_covered": result.coverage.uncovered,
        "outdated": result.coverage.is_outdated,
        "instead": dict(findings.instead),
        "totals": {
            "session_count": findings.sessions,
            "hit_count": findings.events,
            "near_sessions": findings.near,
            "at_least": findings.at_least,
        },
        "hits": [hit_as_json(excerpt, result.labels) for excerpt in findings.excerpts],
    }


def hit_as_json(found: Excerpt, labels: dict[str, str]) -> dict[str, Any]:
    """One hit, likewise."""
    session = found.session
    return {
        **session_keys(session.uid, labels[session.uid]),
        "number": session.shown_number,
        "name": session.name or None,
        "title": found.shown.shown_title or session.shown_title,
        "agents": session.agents,
        "project": session.project,
        "repository": session.repository,
        "branch": session.branch,
        "parent_uid": found.shown.uid if found.shown.uid != session.uid else None,
        "at": iso(found.stored.at),
        "seq": found.stored.seq,
        "part": found.stored.part,
        "kind": found.stored.kind,
        "file": found.file,
        "scope": found.scope,
        "near": found.near,
        "words": found.words,
        "copy": found.copied,
        "snippet": found.snippet,
        "marks": found.marks,
        "score": round(found.score, 4),
        "from_elsewhere": session.elsewhere is not None,
        "pruned": (session.pruned or "").split() or None,
        "native_id": session.native_id,
        "resume_command": None
        if session.elsewhere
        else resume_command(session.agents, session.native_id, session.shown_number),
    }
