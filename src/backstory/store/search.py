"""Search over the index: what a person types is a query, never FTS syntax by accident. Reads only.

Every hit of a word is ranked while there are few; of a common word only hits in the newest sessions are, because
bm25 reads each hit that it scores. Rows of the index whose event is gone are passed over.
"""

from __future__ import annotations

import json
import re
from functools import cached_property
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.extract import Scope, as_parts, identifier_parts, index_text, signed_words
from backstory.model import Relation
from backstory.store import branches, claims, codec, relevance, session_filter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import apsw

RANKED_HITS_MAX = 2_000
"""With more hits than this only some are ranked."""
ENOUGH_HITS = 200
"""With more hits than this of the words themselves, words in identifiers are not looked for."""
NEWEST_HITS = 400
"""So many of the newest hits are, whatever their session,"""
CANDIDATES_MAX = 1_000
"""and so many with those of the newest sessions,"""
RANGES_MAX = 16
"""of which so many are looked through."""
BEGINNINGS_MAX = 50_000
"""Of the beginning of words so many of the newest hits are looked at."""
RELAXED_TERMS_MAX = 8
"""Where no event has every word, so many of the rarest are looked for."""
TERMS_MAX = 64
"""So many different words of a query count: an event that has them is the one that was meant."""
PHRASE_CHARS_MAX = 2_000
OTHER_WEIGHT = 0.3
"""What a term counts in a text that has it in another way only: in the parts of an identifier, say."""
LETTER_WEIGHT = 0.1
"""What C++ counts in a text that has only the C."""
PARTS_MAX = 8
"""So many words of a phrase may be the parts of an identifier."""
HALF_LIFE_MS = 90 * 24 * 3600 * 1000
"""After this long a hit counts three quarters of what it counted when new, and never less than half."""
MORE_HITS = 0.05
"""What a session's second-best hit adds to its best; the third adds this much of that, and so on."""
MORE_HITS_MAX = 4

SCOPE_WEIGHT: dict[str, float] = {
    Scope.PROMPT: 2.0,
    Scope.ANSWER: 1.3,
    Scope.SYSTEM: 0.8,
    Scope.THINKING: 0.8,
    Scope.TOOL_INPUT: 0.9,
    Scope.TOOL_OUTPUT: 0.6,
}
_WEIGHT_OF = {str(scope): weight for scope, weight in SCOPE_WEIGHT.items()}
ROLES: dict[str, tuple[str, ...]] = {
    "user": (Scope.PROMPT,),
    "assistant": (Scope.ANSWER, Scope.THINKING),
    "tool": (Scope.TOOL_INPUT, Scope.TOOL_OUTPUT),
    "system": (Scope.SYSTEM,),
}
"""Whose words stand in which scopes."""

_WORDS = re.compile(r'"([^"]*)"|([^\s"]+)')
_LETTERS = re.compile(r"[^\W_]", re.UNICODE)
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")
_LIKE_PARTS = re.compile(r"[A-Za-z0-9]+(?:[ _-]+[A-Za-z0-9]+)*")


class Hit(Struct, frozen=True, kw_only=True):
    """One event that was found. ``shown_id``: the session it counts for, of a helper's event that of its parent."""

    event_id: int
    session_id: int
    scope: str
    score: float
    shown_id: int = 0


class Found(Struct, frozen=True, kw_only=True):
    """What a search gave: how many events match, the best of them, and whether there is more.

    ``total`` counts at least the events that were looked at; of a common word with a filter there may be more.
    ``relaxed``: no event has every word, so these have some of them.
    """

    total: int
    truncated: bool
    hits: list[Hit]
    relaxed: bool = False


class Filter(Struct, frozen=True, kw_only=True):
    """Which events are asked for. None asks for all; times in ms since 1970; ``folder`` is a path."""

    agent: str | None = None
    project: str | None = None
    folder: str | None = None
    repository: str | None = None
    """owner/name, a name, or a project's key; upper and lower case are one."""
    branch: str | None = None
    """A branch's name, or a pattern with ``*``."""
    path: str | None = None
    """A file or folder that the session read or wrote: absolute, the end of a path, or a pattern with ``*``."""
    ref: str | None = None
    """A pull request, issue or commit that the session names: 12, #12, owner/repo#12, the start of a hash, a URL."""
    since: int | None = None
    until: int | None = None
    """The first moment that is too late."""
    session_id: int | None = None
    without: tuple[int, ...] = ()
    """Sessions that are passed over, with their helpers'."""
    scopes: tuple[str, ...] = ()
    tool: str | None = None
    """The agent's name of a tool, or ours of its kind; upper and lower case are one."""


class _Row(Struct, frozen=True, gc=False):
    """A hit before its session is known to be wanted."""

    event_id: int
    session_id: int
    scope: str
    relevance: float
    at: int | None


class _Place(Struct, frozen=True):
    """A session that may be shown: when it was last active, what that counts, the session that its hits count for."""

    last_active: int | None
    shown_id: int
    recency: float


# what was typed ---------------------------------------------------------------------------------------------


def terms(query: str) -> list[str]:
    """The words and quoted phrases of a query that have letters or digits to look for; an open quote is no sign."""
    # What is no text, such as half a surrogate pair, is nothing to look for.
    readable = query.encode("utf-8", "replace").decode().replace("\0", " ")
    found = (phrase or word for phrase, word in _WORDS.findall(readable))
    return [term for term in found if _LETTERS.search(term)]


def match_expression(query: str) -> str | None:
    """The FTS5 expression for what was typed: every term as a phrase, all of them wanted; None for no term.

    >>> match_expression('C++ "rate limit" log* userName')
    '"Cplusplus" AND "rate limit" AND "log"* AND "userName"'
    """
    return " AND ".join(term.literal for term in _terms(query)) or None


class _Term(Struct, frozen=True):
    """One thing to look for: the FTS5 phrase for it as it was typed, and phrases for other ways to write it."""

    literal: str
    others: tuple[str, ...] = ()
    others_weight: float = OTHER_WEIGHT

    @property
    def any(self) -> str:
        """An expression for it in whatever way it is written."""
        return f"({' OR '.join((self.literal, *self.others))})" if self.others else self.literal


def _terms(query: str) -> list[_Term]:
    different = dict.fromkeys(map(_cut, terms(query)))
    return [_term(term) for term in islice(different, TERMS_MAX)]


def _cut(term: str) -> str:
    """The beginning of a long term, without a word that would be cut in two."""
    if len(term) <= PHRASE_CHARS_MAX:
        return term
    return re.sub(r"[^\W_]+$", "", term[:PHRASE_CHARS_MAX]) or term


def _term(term: str) -> _Term:
    text = index_text(term).replace('"', '""')
    if term.endswith("*") and term[:-1].isalnum():
        begin = text.removesuffix("*")
        return _Term(f'"{begin}"*', (f'"{as_parts([begin])}"*',) if begin.isascii() else ())
    words = _ASCII_WORD.findall(term)
    if len(words) == 1 and (signed := signed_words(term)):
        # The letter alone is what an older index has of it.
        return _Term(f'"{signed[0]}"', (f'"{text}"',), LETTER_WEIGHT)
    if parts := identifier_parts(term) if term.isalnum() else []:
        # An identifier is also meant where it is written with other signs between its parts.
        return _Term(f'"{text}"', (f'"{" ".join(parts)}"', f'"{as_parts(parts)}"'))
    is_like_parts = len(words) <= PARTS_MAX and _LIKE_PARTS.fullmatch(term)
    return _Term(f'"{text}"', (f'"{as_parts(words)}"',) if is_like_parts else ())


class _Expression(Struct, frozen=True):
    """An FTS5 expression; ``phrases``: of each the number of its term, and what it counts."""

    text: str
    phrases: list[tuple[int, float]]


def _expression(terms: list[_Term], joined: str = " AND ", *, in_any_way: bool = False) -> _Expression:
    if not in_any_way:
        return _Expression(joined.join(term.literal for term in terms), [(n, 1.0) for n in range(len(terms))])
    weights = [(1.0, *[term.others_weight] * len(term.others)) for term in terms]
    phrases = [(n, weight) for n, each in enumerate(weights) for weight in each]
    return _Expression(joined.join(term.any for term in terms), phrases)


# searching --------------------------------------------------------------------------------------------------


def search(
    db: apsw.Connection, query: str, wanted: Filter, *, now: int, limit: int, hits_per_session: int | None = 1
) -> Found:
    """The best hits, best first: of each session so many (None: all), ``limit`` at most.

    A query without a term finds nothing. Where no event has every word, events that have some of the rarest.
    """
    asked = _terms(query)
    if not asked:
        return Found(total=0, truncated=False, hits=[])
    search = _Search(db, wanted, now, asked)
    found = search.best(limit, hits_per_session)
    if found.hits or len(asked) == 1 or not (some := search.rarest()):
        return found
    return msgspec.structs.replace(search.best_of_any(some, limit, hits_per_session), relaxed=True)


def every(db: apsw.Connection, query: str | None, wanted: Filter, *, limit: int) -> Found:
    """Every event that has the words (None: every event that has a text), of the newest sessions first, not ranked."""
    expression = None if query is None else match_expression(query)
    if query is not None and expression is None:
        return Found(total=0, truncated=False, hits=[])
    search = _Search(db, wanted, 0, [])
    rows = search.rows(expression, most=limit + 1)
    places = search.places({row.session_id for row in rows})
    rows.sort(key=lambda row: (-_newest(places, row), row.session_id, row.event_id))
    hits = [_hit(row, places[row.session_id], 0.0) for row in search.fitting(rows, places)]
    return Found(total=len(hits), truncated=len(rows) > limit, hits=hits[:limit])


def _newest(places: dict[int, _Place], row: _Row) -> int:
    place = places.get(row.session_id)
    return 0 if place is None else place.last_active or 0


def _hit(row: _Row, place: _Place, score: float) -> Hit:
    return Hit(event_id=row.event_id, session_id=row.session_id, scope=row.scope, score=score, shown_id=place.shown_id)


class _Search:
    """One search: what it asks for, and what it has learnt of sessions on the way."""

    def __init__(self, db: apsw.Connection, wanted: Filter, now: int, asked: list[_Term]) -> None:
        self._db, self._wanted, self._now, self._asked = db, wanted, now, asked
        self._claimed = claims.all_claimed(db)
        self._scopes = _scopes(wanted)

    def best(self, limit: int, hits_per_session: int | None) -> Found:
        """The best hits that have all terms, as they were typed or, unless those are many already, in other ways."""
        typed = _expression(self._asked)
        hits = [self._count(term.literal) for term in self._asked]
        total = hits[0] if len(hits) == 1 else self._count(typed.text)
        if is_cut := total > RANKED_HITS_MAX:
            rows = self._newest(typed, hits)
        elif total > ENOUGH_HITS:
            rows = self.ranked(typed, hits)
        else:
            any_way = _expression(self._asked, in_any_way=True)
            rows = self.ranked(any_way, hits, most=RANKED_HITS_MAX + 1)
            if is_cut := len(rows) > RANKED_HITS_MAX:
                rows = _each_once([*self.ranked(typed, hits), *self._newest(any_way, hits)])
                total = self._count(any_way.text)
        return self._found(rows, total if is_cut else None, limit, hits_per_session)

    def best_of_any(self, terms: list[_Term], limit: int, hits_per_session: int | None) -> Found:
        """The best hits that have any of some rare terms."""
        asked = _expression(terms, " OR ", in_any_way=True)
        rows = self.ranked(asked, [self._count(term.any) for term in terms])
        return self._found(rows, None, limit, hits_per_session)

    def _found(self, rows: list[_Row], most: int | None, limit: int, hits_per_session: int | None) -> Found:
        """The best of the rows; ``most``: how many there are if these are not all."""
        places = self.places({row.session_id for row in rows})
        scored = [(row, _score(row, places[row.session_id])) for row in self.fitting(rows, places)]
        # Rows come in the order of their ids, so that of equals the older is first.
        scored.sort(key=itemgetter(1), reverse=True)
        if self._wanted.tool is not None:
            scored = [each for each in scored if self._is_of_tool(each[0])]
        originals = _Originals(self._db, {row.event_id for row, _ in scored})
        hits = _chosen(scored, places, originals, limit + 1, hits_per_session)
        total = len(scored) if most is None or self._wanted != Filter() else most
        truncated = most is not None or len(hits) > limit
        return Found(total=total - originals.gone, truncated=truncated, hits=hits[:limit])

    def rarest(self) -> list[_Term]:
        """The rarest of the terms that occur anywhere."""
        counted = sorted((self._count(term.any, RANKED_HITS_MAX), n) for n, term in enumerate(self._asked))
        room, kept = RANKED_HITS_MAX, list[_Term]()
        for count, n in counted:
            if 0 < count <= room and len(kept) < RELAXED_TERMS_MAX:
                kept.append(self._asked[n])
                room -= count
        return kept

    def ranked(self, expression: _Expression, hits: list[int], **which: Any) -> list[_Row]:
        """Hits with their relevance, as ``rows`` takes them; ``hits``: how many each term has.

        Their events may be gone: looking at each would cost as much as ranking it.
        """
        relevance.of(self._db).ask(expression.phrases, hits)
        return self.rows(expression.text, is_ranked=True, **which)

    def rows(
        self,
        expression: str | None,
        *,
        is_ranked: bool = False,
        among: str | None = None,
        between: tuple[int, int] | None = None,
        most: int = -1,
    ) -> list[_Row]:
        """Hits in the order of their ids, so many at ``most``, of ranked ones the last; with the time if it matters.

        ``among``: a JSON list of the event ids that are looked at; ``between``: the least and the greatest id.
        """
        conditions, values = list[str](), list[object]()
        if expression is not None:
            conditions.append("search_index match ?")
            values.append(expression)
        if among is not None:
            # The plus keeps FTS5 from looking up each id by itself, and looking at all hits anew for each.
            conditions.append("+f.rowid in (select value from json_each(?))")
            values.append(among)
        if between is None and self._wanted.session_id is not None:
            between = self._range(self._wanted.session_id)
        if between is not None:
            conditions.append("f.rowid between ? and ?")
            values += between
        if self._scopes is not None:
            conditions.append(f"f.scope in ({', '.join('?' * len(self._scopes))})")
            values += self._scopes
        timed = not is_ranked or self._wanted.since is not None or self._wanted.until is not None
        found: list[tuple[Any, ...]] = self._db.execute(
            f"select f.rowid, f.session_id, f.scope, {f'{relevance.NAME}(search_index)' if is_ranked else '0'}, "
            f"{'e.at' if timed else 'null'} from search_index f "
            f"{'cross join events e on e.id = f.rowid ' if timed else ''}"
            f"{'where ' if conditions else ''}{' and '.join(conditions)} "
            f"{'order by f.rowid desc ' if is_ranked else ''}limit ?",
            (*values, most),
        ).fetchall()
        return [_Row(*row) for row in (reversed(found) if is_ranked else found)]

    def places(self, ids: Iterable[int] | None) -> dict[int, _Place]:
        """Of these sessions (None: of all) those that are wanted, the last active first."""
        conditions, values = session_filter.conditions(self._wanted)
        if ids is not None:
            conditions.append("s.id in (select value from json_each(?))")
            values.append(json.dumps(sorted(ids)))
        found: list[tuple[Any, ...]] = self._db.execute(
            "select s.id, s.last_active, case when s.relation = ? then s.parent_id end from sessions s "
            f"{'where ' if conditions else ''}{' and '.join(conditions)} order by s.last_active desc, s.id desc",
            (Relation.SUBAGENT, *values),
        ).fetchall()
        # Sessions that repeat what a run's own session tells are not shown.
        hidden = {*self._claimed, *self._wanted.without}
        places = {}
        for session_id, last_active, parent_id in found:
            if session_id not in hidden:
                shown_id = session_id if parent_id is None else self._shown(parent_id)
                if shown_id not in self._wanted.without:
                    places[session_id] = _Place(last_active, shown_id, _recency(last_active, self._now))
        return places

    def fitting(self, rows: list[_Row], places: dict[int, _Place]) -> list[_Row]:
        """The rows in wanted sessions, of the wanted time, but for those of removed branches."""
        since, until = self._wanted.since, self._wanted.until
        fitting = [row for row in rows if row.session_id in places and row.event_id not in self._removed]
        if since is None and until is None:
            return fitting
        times = ((row, row.at if row.at is not None else places[row.session_id].last_active or 0) for row in fitting)
        return [row for row, at in times if (since is None or at >= since) and (until is None or at < until)]

    @cached_property
    def _removed(self) -> frozenset[int]:
        """The events of removed branches; mostly there are none."""
        rows: list[Any] = self._db.execute(
            # In this order, because hardly any turn is removed and there are many events.
            "select e.id from turns t cross join events e on e.session_id = t.session_id and e.turn_id = t.id "
            f"where {branches.removed_mark(self._db, 't.')} is not null"
        ).fetchall()
        return frozenset(event_id for (event_id,) in rows)

    def _count(self, expression: str, most: int = -1) -> int:
        return int(
            self._db.execute(
                "select count(*) from (select 1 from search_index where search_index match ? limit ?)",
                (expression, most),
            ).get
        )

    def _newest(self, expression: _Expression, hits: list[int]) -> list[_Row]:
        """Of too many hits the newest, and those in the wanted sessions that were last active."""
        if "*" in expression.text:
            # The beginning of a word is looked up anew for every range, and that may take as long as all of them.
            return self.ranked(expression, hits, among=self._newest_ids(expression.text))
        is_any = self._wanted == Filter()
        found = self.ranked(expression, hits, most=NEWEST_HITS) if is_any else []
        for session_id in islice(self.places(None), RANGES_MAX if is_any else 2 * RANGES_MAX):
            if (room := CANDIDATES_MAX - len(found)) <= 0:
                break
            found += self.ranked(expression, hits, between=self._range(session_id), most=room)
        return _each_once(found)

    def _newest_ids(self, expression: str) -> str:
        """The same, as a JSON list of their ids, with the expression looked up once."""
        in_scope, scopes = self._in_scope()
        found: list[tuple[Any, ...]] = self._db.execute(
            f"select rowid, session_id from search_index where search_index match ? {in_scope}"
            "order by rowid desc limit ?",
            (expression, *scopes, BEGINNINGS_MAX),
        ).fetchall()
        gathered: dict[int, list[int]] = {}
        for event_id, session_id in found:
            gathered.setdefault(session_id, []).append(event_id)
        newest = (event_id for session_id in self.places(gathered) for event_id in gathered[session_id])
        return json.dumps(sorted(islice(newest, CANDIDATES_MAX)))

    def _in_scope(self) -> tuple[str, tuple[str, ...]]:
        scopes = self._scopes or ()
        return f"and scope in ({', '.join('?' * len(scopes))}) " if scopes else "", scopes

    def _range(self, session_id: int) -> tuple[int, int]:
        """The least and the greatest id of a session's events; those of others may lie between."""
        # A record that was read again has a new id, so the first and the last record do not tell.
        found: Any = self._db.execute(
            "select min(id), max(id) from events where session_id = ?", (session_id,)
        ).fetchone()
        return (0, -1) if found[0] is None else (found[0], found[1])

    def _shown(self, parent_id: int) -> int:
        """The session that a helper's hits count for."""
        seen = set[int]()
        while parent_id not in seen:
            seen.add(parent_id)
            above = self._db.execute(
                "select parent_id from sessions where id = ? and relation = ?", (parent_id, Relation.SUBAGENT)
            ).get
            parent_id = parent_id if above is None else int(above)
        return claims.shown_as(self._db, parent_id) if parent_id in self._claimed else parent_id

    def _is_of_tool(self, row: _Row) -> bool:
        wanted = (self._wanted.tool or "").casefold()
        return any(name.casefold() == wanted for name in self._tool_names(row.event_id))

    def _tool_names(self, event_id: int) -> tuple[str, str]:
        data = self._db.execute("select data from events where id = ?", (event_id,)).get
        if data is None:
            return "", ""
        for told in msgspec.json.decode(self._unpacked(data), type=dict[str, _ToolNames]).values():
            return told.tool_name, told.tool
        return "", ""

    def _unpacked(self, data: Any) -> bytes:
        from backstory.store import turns

        if not hasattr(self, "_codecs"):
            self._codecs: dict[int, codec.EventCodec] = {}
        return turns.unpack_event(self._db, self._codecs, data)


class _ToolNames(Struct, frozen=True):
    """Of a tool's call or result as kept, only what the tool is called."""

    tool_name: str = ""
    tool: str = ""


class _Originals:
    """Tells hits that count from those in copies of a turn that was found in an older session too.

    ``gone`` counts the rows of the index that were met whose event is not there any more.
    """

    def __init__(self, db: apsw.Connection, found: set[int]) -> None:
        self._db, self._found = db, found
        self.gone = 0

    def has(self, row: _Row) -> bool:
        """Whether the event is there, and was not found in an older session too."""
        told: Any = self._db.execute(
            "select t.uid, exists (select 1 from turns o where o.uid = t.uid and o.id <> t.id) "
            "from events e left join turns t on t.id = e.turn_id where e.id = ?",
            (row.event_id,),
        ).fetchone()
        if told is None:
            self.gone += 1
            return False
        uid, is_shared = told
        return not is_shared or not any(twin in self._found for twin in self._older(row.event_id, uid))

    def _older(self, event_id: int, turn_uid: str) -> Iterator[int]:
        rows: list[tuple[Any, ...]] = self._db.execute(
            "select o.id from events e join sessions s on s.id = e.session_id, turns t "
            "join sessions os on os.id = t.session_id and os.uid < s.uid "
            "join events o on o.session_id = t.session_id and o.turn_id = t.id "
            "where e.id = ? and t.uid = ? and o.kind = e.kind and o.at is e.at and o.data = e.data",
            (event_id, turn_uid),
        ).fetchall()
        return (row[0] for row in rows)


def _each_once(rows: list[_Row]) -> list[_Row]:
    """The rows, each event's once, in the order of their ids."""
    known = {row.event_id: row for row in rows}
    return [known[event_id] for event_id in sorted(known)]


def _score(row: _Row, place: _Place) -> float:
    return row.relevance * _WEIGHT_OF.get(row.scope, 1.0) * place.recency


def _session_score(rows: list[tuple[_Row, float]]) -> float:
    return sum(score * MORE_HITS**n for n, (_, score) in enumerate(rows[:MORE_HITS_MAX]))


def _chosen(
    scored: list[tuple[_Row, float]],
    places: dict[int, _Place],
    originals: _Originals,
    most: int,
    hits_per_session: int | None,
) -> list[Hit]:
    """The best hits of each session, the session with the best first; a copied turn counts in one session."""
    if hits_per_session is None:
        kept = (each for each in scored if originals.has(each[0]))
        return [_hit(row, places[row.session_id], score) for row, score in islice(kept, most)]
    gathered: dict[int, list[tuple[_Row, float]]] = {}
    for row, score in scored:
        gathered.setdefault(places[row.session_id].shown_id, []).append((row, score))
    hits: list[Hit] = []
    for rows in sorted(gathered.values(), key=_session_score, reverse=True):
        score = _session_score(rows)
        own = islice((row for row, _ in rows if originals.has(row)), hits_per_session)
        hits += [_hit(row, places[row.session_id], score) for row in own]
        if len(hits) >= most:
            break
    return hits


def _recency(at: int | None, now: int) -> float:
    age = HALF_LIFE_MS if at is None else max(now - at, 0)
    return float(0.5 + 0.5 * 0.5 ** (age / HALF_LIFE_MS))


def _scopes(wanted: Filter) -> tuple[str, ...] | None:
    """The scopes that may hold what is wanted; None for any."""
    if wanted.tool is None:
        return wanted.scopes or None
    scopes = wanted.scopes or (Scope.TOOL_INPUT, Scope.TOOL_OUTPUT)
    return tuple(str(each) for each in scopes if each in (Scope.TOOL_INPUT, Scope.TOOL_OUTPUT)) or ("none",)
