"""A search as people read it: by words, by the literal spelling, or by a regular expression.

The index knows words only, so for the latter two it is the text that decides.
"""

from __future__ import annotations

import re
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.ask.query import terms
from backstory.ask.search import BY_SCORE
from backstory.conversation.compact import uncut_event
from backstory.derive.index_text import char_len, index_text, searchable
from backstory.errors import BadPattern, SessionNotFound
from backstory.lazy import lazy_module, lazy_regex
from backstory.search.snippet import AROUND_CHARS, PLACES_MAX, excerpt_of, fold, looks_of, snippet, words_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from backstory.ask.search import Hit
    from backstory.export.full_form import FullForms
    from backstory.model import Event
    from backstory.store import Filter, SearchResult, Session, Store, StoredEvent
    from backstory.store.tables import side_texts
else:
    side_texts = lazy_module("backstory.store.tables.side_texts")

LITERAL_SESSIONS = 30
"""For a query with signs in it, the number of best sessions searched for it as typed,"""
LITERAL_HITS = 2
"""the number of hits searched in each, the best ones,"""
LITERAL_READS_MAX = 5
"""and the most of these hits that are read again from their bytes."""
EXACT_HITS_MAX = 2_000
"""The most hits of a literal text's words that are looked at."""
PATTERN_HITS_MAX = 200_000
"""The most events that have a regular expression's words that are looked at."""
PATTERN_SECONDS_MAX = 10.0
"""A search by literal text or regular expression ends after this long with what it has."""
EVENTS_AT_ONCE = 500
WINDOW_BYTES = 4 * 1024 * 1024
"""Consecutive records are read at once, up to this size, if every event is looked at."""


class Excerpt(Struct, frozen=True, kw_only=True):
    """One event that was found, and the place in it. ``marks`` are (start, end) in ``snippet``, in characters.

    ``session`` holds the event; ``shown`` is the session that it counts for: of a subagent's event its parent.
    ``events``: how many hits that session has; 0: nobody counted. ``words``: of a near hit the words of the query that
    its text has, if these are not all of them.
    """

    session: Session
    shown: Session
    stored: StoredEvent
    scope: str
    score: float
    snippet: str
    marks: list[tuple[int, int]]
    near: bool = False
    copied: bool = False
    events: int = 0
    words: tuple[str, ...] = ()
    file: str | None = None
    """The name of a file beside the session's log, if it is one."""


class Findings(Struct, frozen=True, kw_only=True):
    """Results of a search: the number of matching events, whether there are more, and the best of them.

    ``relaxed``: no event has every word. ``stopped``: the time was up before everything was looked at. ``sessions``,
    ``events``, ``near``, ``at_least``, ``instead``: as in ``SearchResult``.
    """

    total: int
    truncated: bool
    excerpts: list[Excerpt]
    relaxed: bool = False
    stopped: bool = False
    sessions: int = 0
    events: int = 0
    near: int = 0
    at_least: bool = False
    instead: tuple[tuple[str, str], ...] = ()


def find(
    store: Store, query: str, wanted: Filter, *, limit: int, hits_per_session: int | None = 1, near: bool = True,
    sort: str = BY_SCORE, counts: bool = True,
) -> Findings:  # fmt: skip
    """The best hits of a query. Where it has signs in it, hits that have what was typed before others.

    ``near``, ``sort`` and ``counts``: as ``Store.search`` takes them.
    """
    signs = [term.casefold() for term in terms(query) if not term.replace("_", "").rstrip("*").isalnum()]
    texts, in_full = _Texts(store), set[int]()
    if not signs or hits_per_session is None or sort != BY_SCORE:
        found = store.search(
            query, wanted, limit=limit, hits_per_session=hits_per_session, near=near, sort=sort, counts=counts
        )
    else:
        most = LITERAL_HITS * max(limit + 1, LITERAL_SESSIONS)
        found = store.search(query, wanted, limit=most, hits_per_session=LITERAL_HITS, near=near, counts=counts)
        looked_at = found.hits[: LITERAL_SESSIONS * LITERAL_HITS]
        hits, in_full = _literal_first(texts, looked_at, signs)
        hits = _best_of_each([*hits, *found.hits[len(looked_at) :]], hits_per_session)
        truncated = found.truncated or len(hits) > limit
        found = msgspec.structs.replace(found, truncated=truncated, hits=hits[:limit])
    return _findings(texts, found, query, in_full)


def whole_texts(store: Store) -> Callable[[StoredEvent], str]:
    """Returns all of the searchable text of an event, read from its bytes where the compact form has less."""
    return _Texts(store).whole


def find_listed(store: Store, wanted: Filter, *, limit: int) -> Findings:
    """The sessions that a filter lets through, the last active first: where each names the ref that is asked for."""
    found = store.sessions_named(wanted, limit=limit)
    return _findings(_Texts(store), found, " ".join(terms(wanted.ref or "")[-1:]).rpartition("/")[2], set())


def find_exact(
    store: Store, literal: str, wanted: Filter, *, limit: int, hits_per_session: int | None = 1,
    seconds: float = PATTERN_SECONDS_MAX, sort: str = BY_SCORE,
) -> Findings:  # fmt: skip
    """Events whose text holds ``literal`` to the letter, best first. Its first and last word are whole words."""
    if not terms(literal):
        pattern = re.escape(literal)
        return find_pattern(
            store, pattern, wanted, limit=limit, hits_per_session=hits_per_session, seconds=seconds
        )  # fmt: skip
    phrase = '"{}"'.format(literal.replace('"', " "))
    hits = _best_then_all(store, phrase, wanted) if sort == BY_SCORE else _newest_first(store, phrase, wanted)
    return _looked_through(store, hits, re.compile(re.escape(literal)), limit, hits_per_session, seconds)


def _newest_first(store: Store, query: str, wanted: Filter) -> Iterator[Hit]:
    return iter(store.search(query, wanted, limit=PATTERN_HITS_MAX, ranked=False).hits)


def _best_then_all(store: Store, query: str, wanted: Filter) -> Iterator[Hit]:
    """The best hits of a query, then all others."""
    found = store.search(query, wanted, limit=EXACT_HITS_MAX, hits_per_session=None, near=False)
    yield from found.hits
    if found.truncated:
        known = {hit.event_id for hit in found.hits}
        yield from (hit for hit in _newest_first(store, query, wanted) if hit.event_id not in known)


def find_pattern(
    store: Store, pattern: str, wanted: Filter, *, limit: int, hits_per_session: int | None = 1,
    seconds: float = PATTERN_SECONDS_MAX,
) -> Findings:  # fmt: skip
    """Events whose text a regular expression matches, the newest sessions first; raises BadPattern.

    ``^`` and ``$`` are a line's; upper and lower case are one unless the pattern has a capital letter.
    """
    compiled = compile_pattern(pattern)
    words = words_of_pattern(pattern)
    if words:
        hits = _newest_first(store, words, wanted)
        return _looked_through(store, hits, compiled, limit, hits_per_session, seconds)
    return _looked_through(store, None, compiled, limit, hits_per_session, seconds, wanted)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A regular expression as ``find_pattern`` takes it; raises BadPattern."""
    has_capital = any(letter.isupper() for letter in re.sub(r"\\.", "", pattern, flags=re.DOTALL))
    try:
        return re.compile(pattern, re.MULTILINE | (0 if has_capital else re.IGNORECASE))
    except (re.error, RecursionError, OverflowError) as refused:
        raise BadPattern(pattern, str(refused)) from refused


def words_of_pattern(pattern: str) -> str:
    """A query for words that every match of a regular expression has; '' if it has none for sure.

    >>> words_of_pattern(r"\\brate limit(ed|s)? of \\d+")
    'rate limit* of'
    """
    from re import _parser  # type: ignore[attr-defined]

    try:
        text = f"{_OPEN}{_literals(_parser.parse(pattern, re.MULTILINE))}{_OPEN}"
    except (re.error, RecursionError, OverflowError):
        return ""
    words = []
    for found in _TOKEN.finditer(index_text(text)):
        word, before, after = found.group(), found.string[found.start() - 1], found.string[found.end()]
        if before == _OPEN or not (word.isascii() or index_text(word) != word):
            continue
        if after != _OPEN:
            words.append(word)
        elif len(word) > 2:
            words.append(f"{word}*")
    return " ".join(words)


_OPEN = "\x01"
_TOKEN = lazy_regex(r"[^\W_]+")


def _literals(parsed: Any) -> str:
    """Return text that every match has, in order: letters, a space at a certain end of a word, _OPEN for the rest."""
    pieces = []
    for kind, value in parsed:
        name = str(kind)
        if name == "LITERAL":
            pieces.append(chr(value) if value > 1 else _OPEN)
        elif name == "AT" or (name == "IN" and [str(part) for _, part in value] in (["CATEGORY_SPACE"],)):
            pieces.append(" " if str(value) != "AT_NON_BOUNDARY" else _OPEN)
        elif name == "SUBPATTERN" and not value[1] and not value[2]:
            pieces.append(_literals(value[3]))
        elif name == "MAX_REPEAT" and value[0] > 0 and _literals(value[2]) == " ":
            pieces.append(" ")
        else:
            pieces.append(_OPEN)
    return "".join(pieces)


def _findings(texts: _Texts, found: SearchResult, query: str, in_full: set[int]) -> Findings:
    """Hits with their excerpts; ``in_full``: events whose compact form is known not to show why they were found."""
    for typed, searched in found.instead:
        query = query.replace(typed, searched)
    sessions, is_seen = _Sessions(texts.store), _TermSeen(query)
    sessions.read({each for hit in found.hits for each in (hit.session_id, hit.shown_id or hit.session_id)})
    excerpts = []
    for hit in found.hits:
        stored = texts.event(hit.event_id)
        if stored is not None:
            text = texts.whole(stored) if hit.event_id in in_full else texts.near(stored, is_seen)
            words = words_in(text, query) if hit.near else ()
            excerpts.append(_excerpt(sessions, stored, hit, snippet(text, query), words))
    kept = [each for each in excerpts if each is not None]
    return Findings(
        total=found.total, truncated=found.truncated, excerpts=kept, relaxed=found.relaxed, sessions=found.sessions,
        events=found.events, near=found.near, at_least=found.at_least, instead=found.instead,
    )  # fmt: skip


def _excerpt(
    sessions: _Sessions,
    stored: StoredEvent,
    hit: Hit,
    line: tuple[str, list[tuple[int, int]]],
    words: tuple[str, ...] = (),
) -> Excerpt | None:
    session, shown = sessions.get(hit.session_id), sessions.get(hit.shown_id or hit.session_id)
    if session is None:
        return None
    return Excerpt(
        session=session, shown=shown or session, stored=stored, scope=hit.scope, score=hit.score, snippet=line[0],
        marks=line[1], near=hit.near, copied=hit.copied, events=hit.events, words=words, file=sessions.file_of(stored),
    )  # fmt: skip


def _literal_first(texts: _Texts, hits: list[Hit], signs: list[str]) -> tuple[list[Hit], set[int]]:
    """Hits that have what was typed, then those that were not looked at, then those that have only its words.

    With them the ids of those whose compact form does not have what was typed, though their bytes do.
    """
    reads = LITERAL_READS_MAX
    # Between two words of a phrase there is a sign anyhow; at its ends there may be none.
    is_doubtful = any(not (sign[0].isalnum() and sign.rstrip("*")[-1:].isalnum()) for sign in signs)
    as_typed: list[Hit] = []
    unseen: list[Hit] = []
    others: list[Hit] = []
    in_full: set[int] = set()
    for hit in hits:
        stored = texts.event(hit.event_id)
        if stored is None:
            continue
        text, is_whole = texts.at_hand(stored)
        if _has_all(text, signs) or not (is_whole or is_doubtful):
            as_typed.append(hit)
        elif is_whole:
            others.append(hit)
        elif not reads:
            unseen.append(hit)
        else:
            reads -= 1
            is_there = texts.has_in_record(stored, signs)
            (as_typed if is_there else others).append(hit)
            if is_there:
                in_full.add(hit.event_id)
    # What is near comes last, but for prompts that the search put before words as typed.
    exact = [n for n, hit in enumerate(hits) if not hit.near]
    last = {hit.event_id for hit in hits[exact[-1] if exact else 0 :] if hit.near}
    return sorted([*as_typed, *unseen, *others], key=lambda hit: hit.event_id in last), in_full


def _best_of_each(hits: list[Hit], hits_per_session: int) -> list[Hit]:
    kept: dict[int, list[Hit]] = {}
    for hit in hits:
        kept.setdefault(hit.shown_id, []).append(hit)
    return [hit for hit in hits if hit in kept[hit.shown_id][:hits_per_session]]


def _looked_through(
    store: Store, found: Iterator[Hit] | None, pattern: re.Pattern[str], limit: int, hits_per_session: int | None,
    seconds: float, wanted: Filter | None = None,
) -> Findings:  # fmt: skip
    """The hits (None: all events) whose text a pattern matches, in their order, until there are enough."""
    deadline = time.monotonic() + seconds
    texts, sessions = _Texts(store, WINDOW_BYTES if found is None else 0), _Sessions(store)
    excerpts: list[Excerpt] = []
    shown: dict[int, int] = {}
    stopped = truncated = False
    for hit, stored in _everything(store, wanted) if found is None else _stored(store, found):
        if len(excerpts) >= limit:
            truncated = True
            break
        if hits_per_session is not None and shown.get(hit.shown_id, 0) >= hits_per_session:
            continue
        if time.monotonic() > deadline:
            stopped = True
            break
        text = texts.whole(stored)
        try:
            places = _interruptible(lambda text=text: _first_places(pattern, text), deadline)  # type: ignore[misc]
        except _TimeUp:
            stopped = True
            break
        if places and (excerpt := _excerpt(sessions, stored, hit, excerpt_of(text, places, AROUND_CHARS))) is not None:
            shown[hit.shown_id] = shown.get(hit.shown_id, 0) + 1
            excerpts.append(excerpt)
    count = len(excerpts)
    return Findings(
        total=count, truncated=truncated or stopped, excerpts=excerpts, stopped=stopped, sessions=len(shown),
        events=count, at_least=truncated or stopped or hits_per_session is not None,
    )  # fmt: skip


def _stored(store: Store, hits: Iterator[Hit]) -> Iterator[tuple[Hit, StoredEvent]]:
    return ((hit, stored) for hit in hits if (stored := store.event(hit.event_id)) is not None)


def _everything(store: Store, wanted: Filter | None) -> Iterator[tuple[Hit, StoredEvent]]:
    """Every event that a filter lets through, a session at a time, the last active first."""
    from backstory.store import Filter

    asked = wanted or Filter()
    for session in store.sessions(subagents=True, project=asked.project, folder=asked.folder, agent=asked.agent):
        if asked.session_id in (None, session.id):
            of_session = msgspec.structs.replace(asked, session_id=session.id)
            hits = {hit.event_id: hit for hit in store.search(None, of_session, limit=PATTERN_HITS_MAX).hits}
            yield from _stored(store, (hit for hit in hits.values() if hit.event_id < 0))
            after = (0, -1)
            while hits and (page := store.events(session, after=after, limit=EVENTS_AT_ONCE)):
                yield from ((hits[stored.id], stored) for stored in page if stored.id in hits)
                after = (page[-1].seq, page[-1].part)


def _first_places(pattern: re.Pattern[str], text: str) -> list[tuple[int, int, int]]:
    return [(*found.span(), 0) for found in islice(pattern.finditer(text), PLACES_MAX) if found.end() > found.start()]


class _TimeUp(Exception):
    """Raised inside a match that takes too long."""


def _interruptible(match: Callable[[], list[tuple[int, int, int]]], deadline: float) -> list[tuple[int, int, int]]:
    """Return the result of ``match``, unless the deadline comes first: a pattern can need years for one text."""
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return match()

    def up(_number: int, _frame: object) -> None:
        raise _TimeUp

    before = signal.signal(signal.SIGALRM, up)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(deadline - time.monotonic(), 0.001))
        return match()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Sessions:
    """Sessions by id, each read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[int, Session | None] = {}

    def read(self, session_ids: Collection[int]) -> None:
        """Read these at once, which is far quicker than each by itself."""
        self._known |= {session.id: session for session in self._store.several_sessions(list(session_ids))}

    def file_of(self, stored: StoredEvent) -> str | None:
        """The name of the file that was found, if it is one."""
        return self._store.ask(side_texts.name, stored.id) if stored.id < 0 else None

    def get(self, session_id: int) -> Session | None:
        """The session, if it is still there."""
        if session_id not in self._known:
            try:
                self._known[session_id] = self._store.session(session_id)
            except SessionNotFound:
                self._known[session_id] = None
        return self._known[session_id]


class _TermSeen:
    """True if a text has a place for every term of a query; where it has not, its full form may."""

    def __init__(self, query: str) -> None:
        self._looks = looks_of(query)

    def __call__(self, text: str) -> bool:
        folded = fold(text)
        return all(look.places(text, folded) for look in self._looks)


class _Texts:
    """The searchable texts of events: of the compact form if it is whole, else of the record."""

    def __init__(self, store: Store, window_bytes: int = 0) -> None:
        self.store, self._window_bytes = store, window_bytes
        self._window: tuple[int, int, bytes] = (-1, 0, b"")
        self._events: dict[int, StoredEvent | None] = {}
        self._records: dict[int, bytes] = {}
        self._forms: FullForms | None = None

    def event(self, event_id: int) -> StoredEvent | None:
        """The event, read once, if it is still there."""
        if event_id not in self._events:
            self._events[event_id] = self.store.event(event_id)
        return self._events[event_id]

    def at_hand(self, stored: StoredEvent) -> tuple[str, bool]:
        """The text of the compact form, and whether that is all of it."""
        return _text(stored.event), char_len(stored.event) >= stored.char_len

    def near(self, stored: StoredEvent, is_enough: Callable[[str], bool]) -> str:
        """The text of the compact form if it is whole or enough, else of the full form."""
        text, is_whole = self.at_hand(stored)
        return text if is_whole or is_enough(text) else self.whole(stored)

    def whole(self, stored: StoredEvent) -> str:
        """All of the text."""
        text, is_whole = self.at_hand(stored)
        return text if is_whole else _text(self._full(stored)) or text

    def has_in_record(self, stored: StoredEvent, signs: list[str]) -> bool:
        """Return True if the bytes of an event's record hold all signs; quicker than reading the event."""
        # Kept, because what is found is shown next; there are few.
        self._records[stored.id] = record = self._bytes(stored)
        text = record.decode("utf-8", "replace").casefold()
        return all(any(form in text for form in _in_json(sign)) for sign in signs)

    def _full(self, stored: StoredEvent) -> Event:
        if found := uncut_event(stored.event, stored.char_len, self._bytes(stored)):
            return found
        if self._forms is None:
            from backstory.export.full_form import FullForms

            self._forms = FullForms(self.store, record=self._bytes)
        return self._forms.expand(stored)

    def _bytes(self, stored: StoredEvent) -> bytes:
        if stored.id in self._records:
            return self._records[stored.id]
        if stored.log_id is None or stored.position is None or stored.length is None:
            return b""
        log_id, start, data = self._window
        at = stored.position - start
        if log_id != stored.log_id or at < 0 or at + stored.length > len(data):
            length = max(stored.length, self._window_bytes if log_id == stored.log_id else 0)
            data, at = self.store.read_log(stored.log_id, stored.position, length, checked=False), 0
            self._window = (stored.log_id, stored.position, data)
        return data[at : at + stored.length]


def _in_json(sign: str) -> tuple[str, str]:
    import json  # few queries have signs

    return json.dumps(sign, ensure_ascii=False)[1:-1], json.dumps(sign)[1:-1]


def _text(event: Event) -> str:
    found = searchable(event)
    return found[1] if found else ""


def _has_all(text: str, signs: list[str]) -> bool:
    folded = text.casefold() if signs else ""
    return all(sign in folded for sign in signs)
