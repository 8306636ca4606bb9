"""The words of a search: their terms in the index, never FTS5 syntax by accident, and the sessions that have them.

A term has one spelling that was typed, and others that may have been meant: word forms, parts of identifiers.
"""

from __future__ import annotations

import math
import re
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from backstory.derive import word_forms
from backstory.derive.index_text import Scope, as_parts, identifier_parts, index_text, signed_words
from backstory.lazy import lazy_regex
from backstory.model import Relation
from backstory.store import schema
from backstory.store.intake import claims
from backstory.store.tables import session_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    import apsw

    from backstory.store.tables.session_filter import Filter


TERMS_MAX = 64
"""The most words of a query that count: an event that has them is the one that was meant."""
FORMS_TERMS_MAX = 8
"""The most terms of a query whose other word forms are looked for: a longer one was pasted."""
PHRASE_CHARS_MAX = 2_000
PARTS_MAX = 8
"""The most words of a phrase that may be the parts of an identifier."""
PARTS_WEIGHT = 0.3
"""The weight of a term in a text that has it in another way only: in the parts of an identifier, say."""
FORM_WEIGHT = 0.7
"""The weight of another form of the word."""
LETTER_WEIGHT = 0.1
"""The weight of C++ in a text that has only the C."""

_WORDS = lazy_regex(r'"([^"]*)"|([^\s"]+)')
_LETTERS = lazy_regex(r"[^\W_]", re.UNICODE)
_ASCII_WORD = lazy_regex(r"[A-Za-z0-9]+")
_LIKE_PARTS = lazy_regex(r"[A-Za-z0-9]+(?:[ _-]+[A-Za-z0-9]+)*")
HASH = lazy_regex(r"(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{7,40}")
_NUMBER = lazy_regex(r"(?:[\w.-]+/[\w.-]+)?[#!][1-9][0-9]{0,8}|[A-Za-z][A-Za-z0-9]{1,9}-[1-9][0-9]{0,5}")


class Term(Struct, frozen=True):
    """One thing to look for: what was typed, the FTS5 phrase for it, phrases for other ways to write it."""

    typed: str
    literal: str
    others: tuple[tuple[str, float], ...] = ()
    """Each with what it counts beside one as it was typed."""
    forms: tuple[str, ...] = ()
    """Those of the others that are the same word in another form; of what was put in quotes none."""

    @property
    def any(self) -> str:
        """An expression for it in whatever way it is written."""
        return _either((self.literal, *(other for other, _ in self.others))) if self.others else self.literal

    @property
    def is_telling(self) -> bool:
        """True if it says what is looked for, and not only that something is."""
        return self.typed.lower().replace("'", "").replace("\u2019", "") not in word_forms.FUNCTION_WORDS

    @property
    def is_number(self) -> bool:
        """True if it is written as pull requests and issues are."""
        return _NUMBER.fullmatch(self.typed) is not None


class Expression(Struct, frozen=True):
    """An FTS5 expression; ``phrases``: of each the number of its term, and what it counts."""

    text: str
    phrases: list[tuple[int, float]]


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
    return " AND ".join(term.literal for term in asked(query)) or None


def asked(query: str, *, with_forms: bool = True) -> list[Term]:
    """The different terms of a query."""
    different = list(islice(dict.fromkeys(map(_cut, terms(query))), TERMS_MAX))
    quoted = {phrase for phrase, _ in _WORDS.findall(query)} if '"' in query else ()
    found = [term_of(term, with_forms=with_forms and len(different) <= FORMS_TERMS_MAX) for term in different]
    return [structs.replace(term, forms=()) if term.typed in quoted else term for term in found]


def term_of(typed: str, *, with_forms: bool = True) -> Term:
    """Return the term that a word or phrase is looked for as."""
    text = index_text(typed).replace('"', '""')
    if typed.endswith("*") and typed[:-1].isalnum():
        begin = text.removesuffix("*")
        parts = ((f'"{as_parts([begin])}"*', PARTS_WEIGHT),) if begin.isascii() else ()
        return Term(typed, f'"{begin}"*', parts)
    words = _ASCII_WORD.findall(typed)
    if len(words) == 1 and (signed := signed_words(typed)):
        # The letter alone is what an older index has of it.
        return Term(typed, f'"{signed[0]}"', ((f'"{text}"', LETTER_WEIGHT),))
    if HASH.fullmatch(typed):
        # Git and people print as much of a hash as they like. A number may be a hash, but mostly is a number.
        beginning = f'"{text}"*'
        return Term(typed, f'"{text}"', ((beginning, 1.0),)) if typed.isdigit() else Term(typed, beginning)
    forms = tuple(f'"{other}"' for other in other_forms(typed)) if with_forms else ()
    others = [(form, FORM_WEIGHT) for form in forms]
    if parts_of_one := identifier_parts(typed) if typed.isalnum() else []:
        # An identifier is also meant where it is written with other signs between its parts.
        others += [(f'"{" ".join(parts_of_one)}"', PARTS_WEIGHT), (f'"{as_parts(parts_of_one)}"', PARTS_WEIGHT)]
    elif len(words) <= PARTS_MAX and _LIKE_PARTS.fullmatch(typed):
        others.append((f'"{as_parts(words)}"', PARTS_WEIGHT))
    return Term(typed, f'"{text}"', tuple(others), forms)


def _cut(term: str) -> str:
    """The beginning of a long term, without a word that would be cut in two."""
    if len(term) <= PHRASE_CHARS_MAX:
        return term
    return re.sub(r"[^\W_]+$", "", term[:PHRASE_CHARS_MAX]) or term


def other_forms(typed: str) -> list[str]:
    """A word in its other forms; of a phrase its last word."""
    if (other := word_forms.respelt(typed)) is not None:
        return [other]
    head, space, last = typed.rpartition(" ")
    if space and not all(word.isalnum() for word in head.split()):
        return []
    return [f"{head}{space}{form}" for form in word_forms.forms(last)]


def expression(wanted: list[Term], joined: str = " AND ", *, in_any_way: bool = False) -> Expression:
    """Terms as one expression, as they were typed or in any way."""
    if not in_any_way:
        return Expression(joined.join(term.literal for term in wanted), [(n, 1.0) for n in range(len(wanted))])
    weights = [(1.0, *(weight for _, weight in term.others)) for term in wanted]
    phrases = [(n, weight) for n, each in enumerate(weights) for weight in each]
    return Expression(joined.join(term.any for term in wanted), phrases)


def otherwise(wanted: Term, is_held: Callable[[str], bool]) -> Expression:
    """A term in any way but as it was typed, which may be everywhere; ways that no text has are left out."""
    others = [(other, weight) for other, weight in wanted.others if is_held(other)]
    return Expression(" OR ".join(other for other, _ in others), [(0, weight) for _, weight in others])


def in_another_form(wanted: list[Term], is_held: Callable[[str], bool]) -> Expression | None:
    """All terms in one text, one of them at least in another form; None if no text has such a form."""
    ways = [[(term.literal, 1.0), *((form, FORM_WEIGHT) for form in term.forms if is_held(form))] for term in wanted]
    forms = [(form, n) for n, way in enumerate(ways) for form, _ in way[1:]]
    if not forms:
        return None
    any_form = _either(form for form, _ in forms)
    if len(ways) == 1:
        return Expression(any_form, [(0, FORM_WEIGHT)] * len(forms))
    # The forms come first, because mostly they are the rarest, and count nothing there: a term may be as typed, too.
    phrases = [(n, 0.0) for _, n in forms] + [(n, weight) for n, way in enumerate(ways) for _, weight in way]
    return Expression(" AND ".join((any_form, *(_either(each for each, _ in way) for way in ways))), phrases)


def _either(phrases: Iterable[str]) -> str:
    return f"({' OR '.join(phrases)})"


# which records have the words -----------------------------------------------------------------------------------------


GROUPED_SESSIONS_MAX = 20_000
"""In a store with more sessions only the newest are listed, and how many there are."""
NEWEST_SESSIONS = 200
"""The fewest of these."""
LOOKED_INTO_IDS = 200_000
"""The newest sessions are looked into one by one while the ids of their events span no more than this,"""
LOOK_IDS = 100
"""and each look costs as much as so many ids."""
LOOKED_INTO_TIMES = 1.5
"""The sessions that are looked into at once, as a multiple of those that should be enough."""
NEAR_IDS = 500
"""Hits among so few ids are put in order by SQLite: FTS5 takes up to a hundred times longer to go backwards."""
TOLD_BY_PROMPT_HITS_MAX = 50_000
"""The most hits of a word for which the sessions are looked for that have it in their prompts."""
_JOINED = "search_index f join search_index_content c on c.id = f.rowid"


_OF_REMOVED = (
    "select c.id from turns t cross join compactions c on c.session_id = t.session_id "
    "and c.after_seq between t.first_seq and t.last_seq where t.removed is not null"
)
"""The summaries that end in a removed turn."""


class Row(Struct, frozen=True, gc=False):
    """A hit: an event, its session, where in it, and how well it fits."""

    event_id: int
    session_id: int
    scope: str
    relevance: float


class SessionRank(Struct, frozen=True, gc=False):
    """A session that may be shown: when it was last active, and the session that its hits count for."""

    last_active: int | None
    shown_id: int


class Member(Struct, frozen=True, gc=False):
    """A session that holds what is looked for: in how many events, between which ids, whether in a prompt."""

    session_id: int
    place: SessionRank
    hits: int
    first_id: int
    last_id: int
    in_prompt: bool


class Matches(Struct, frozen=True):
    """The sessions that hold something, all or the newest; how many are shown for all of them, with how many hits.

    ``at_least``: nobody counted them, and there may be more.
    """

    known: list[Member]
    sessions: int
    hits: int
    are_all: bool = True
    at_least: bool = False


_NEWEST = (
    "select s.id, s.last_active, (select min(id) from events where session_id = s.id), "
    "(select max(id) from events where session_id = s.id) from sessions s indexed by idx_sessions_active"
)


EVENTS_OF_BYTE = 16
_IS_NEAR = f"(f.rowid < 0 or substr(?, f.rowid / {EVENTS_OF_BYTE} + 1, 1) = x'01')"
"""The condition of a hit that is no event, or lies near the events of some sessions; see ``_near``."""


def _near(members: Collection[Member]) -> bytes:
    """Return a byte for each so many events (from id 0): 1 where these sessions may have some. A look-up is slower."""
    ranges = [(max(each.first_id, 0) // EVENTS_OF_BYTE, max(each.last_id // EVENTS_OF_BYTE + 1, 0)) for each in members]
    near = bytearray(max((end for _, end in ranges), default=0))
    for first, end in ranges:
        near[first:end] = b"\1" * (end - first)
    return bytes(near)


def _newest_member(session_id: int, at: int | None, first_id: int | None, last_id: int | None) -> Member:
    return Member(session_id, SessionRank(at, session_id), 0, first_id or 0, last_id or -1, in_prompt=False)


class Reach:
    """The sessions and events that a filter lets through; and those of them that hold something."""

    def __init__(self, db: apsw.Connection, wanted: Filter, scopes: tuple[str, ...] | None) -> None:
        self._db, self._wanted, self._scopes = db, wanted, scopes
        self._held = dict[str, bool]()
        self._not_shown = claims.all_hidden(db)
        self._hidden = {*self._not_shown, *wanted.without}
        self._of_session, self._values = session_filter.conditions(wanted)
        if wanted.session_id is not None:
            self._of_session.append("s.id = ?")
            self._values.append(wanted.session_id)

    # sessions ---------------------------------------------------------------------------------------------------

    def places(self, ids: Iterable[int] | None = None) -> dict[int, SessionRank]:
        """Return the wanted ones among these sessions (None: among all), the last active first."""
        conditions, values = list(self._of_session), list(self._values)
        if ids is not None:
            conditions.append("s.id in (select value from json_each(?))")
            values.append(schema.json_list(sorted(ids)))
        found: list[tuple[Any, ...]] = self._db.execute(
            f"select s.id, s.last_active from sessions s {_where(conditions)} order by s.last_active desc, s.id desc",
            values,
        ).fetchall()
        return {session_id: place for session_id, at in found if (place := self._place(session_id, at)) is not None}

    def _place(self, session_id: int, last_active: int | None) -> SessionRank | None:
        """Return the place where a wanted session is shown; sessions that repeat others have none."""
        shown_id = self._shown.get(session_id, session_id)
        if session_id in self._hidden or shown_id in self._wanted.without:
            return None
        return SessionRank(last_active, shown_id)

    @cached_property
    def _shown(self) -> dict[int, int]:
        """Map each subagent to the session that its hits count for."""
        rows: list[Any] = self._db.execute(
            # Greater than nothing, and not only there, because for that the index would not be asked.
            "select id, parent_id from sessions where parent_id > 0 and relation = ?",
            (Relation.SUBAGENT,),
        ).fetchall()
        parents: dict[int, int] = dict(rows)
        return {subagent: self._top(subagent, parents) for subagent in parents}

    def _top(self, subagent: int, parents: dict[int, int]) -> int:
        above, seen = parents[subagent], {subagent}
        while above in parents and above not in seen:
            seen.add(above)
            above = parents[above]
        if above in seen:
            # Parents that go in a circle: one of them is as good as another, if it is always the same.
            return min(seen)
        return claims.shown_as(self._db, above) if above in self._not_shown else above

    @property
    def asks_events(self) -> bool:
        """True if the filter is about events too, and not about sessions alone."""
        return bool(self._scopes is not None or self._timed or self._removed)

    @property
    def has_prompts(self) -> bool:
        """True if the filter lets prompts through."""
        return self._wanted.tool is None and (self._scopes is None or Scope.PROMPT in self._scopes)

    # events -----------------------------------------------------------------------------------------------------

    @cached_property
    def _others(self) -> tuple[str, str]:
        """The rows of a session that are no events', and the condition that what such a row is of is there."""
        # A store of an earlier version, which is read as it is, has rows of summaries only.
        if self._db.execute("select exists (select 1 from sqlite_schema where name = 'side_texts')").get:
            return schema.OTHER_ROWS, schema.IS_THERE
        return schema.SUMMARY_ROWS, schema.SUMMARY_IS_THERE

    @cached_property
    def _timed(self) -> str:
        """The session ``t`` of a hit ``c``, joined if times are asked for."""
        is_timed = self._wanted.since is not None or self._wanted.until is not None
        return " cross join sessions t on t.id = c.c1" if is_timed else ""

    @cached_property
    def _removed(self) -> str | None:
        """The events of removed branches, and of turns shown elsewhere, as a JSON list; mostly there are none."""
        rows: list[Any] = self._db.execute(
            # In this order, because hardly any turn is removed and there are many events.
            "select e.id from turns t cross join events e on e.session_id = t.session_id and e.turn_id = t.id "
            "where t.removed is not null"
        ).fetchall()
        hidden = [event_id for (event_id,) in rows] + claims.events_shown_elsewhere(self._db, self._not_shown)
        summaries: list[Any] = self._db.execute(_OF_REMOVED).fetchall()
        hidden += [-row_id for (row_id,) in summaries]
        return schema.json_list(hidden) if hidden else None

    def _of_event(self) -> tuple[list[str], list[object]]:
        """Conditions on a hit ``c``, with their values."""
        conditions, values = list[str](), list[object]()
        if self._scopes is not None:
            conditions.append(f"c.c4 in ({', '.join('?' * len(self._scopes))})")
            values += self._scopes
        if self._wanted.session_id is not None:
            conditions.append("c.c1 = ?")
            values.append(self._wanted.session_id)
        if self._timed:
            # A record without a time is as old as its session. Mostly that is enough for all its events.
            at = "coalesce((select at from events where id = c.id), t.last_active, 0)"
            if self._wanted.since is not None:
                conditions += ["t.last_active >= ?", f"{at} >= ?"]
                values += [self._wanted.since] * 2
            if self._wanted.until is not None:
                conditions.append(f"(t.last_active < ? or {at} < ?)")
                values += [self._wanted.until] * 2
        if self._removed is not None:
            conditions.append("c.id not in (select value from json_each(?))")
            values.append(self._removed)
        return conditions, values

    def _source(self, *, with_events: bool = False) -> str:
        return _JOINED + self._timed + (" left join events e on e.id = c.id" if with_events else "")

    def rows(
        self,
        expression: str,
        *,
        rank: str = "0.0",
        between: tuple[int, int] | None = None,
        of: Collection[int] | None = None,
        among: Collection[int] | None = None,
        scope: str | None = None,
        newest: int = -1,
        members: Collection[Member] | None = None,
    ) -> list[Row]:
        """Hits whose events are there, so many of the newest, in the order of their ids; ``rank``: in SQL.

        ``between``: the least and the greatest event id; ``of``, ``members``: the sessions; ``among``: the events.
        """
        conditions, values = self._of_event()
        conditions[:0] = ["search_index match ?", f"(e.id is not null or (c.id < 0 and {self._others[1]}))"]
        values.insert(0, expression)
        if between is not None:
            conditions.append("f.rowid between ? and ?")
            values += between
        if members is not None:
            # What else holds it is not looked up.
            of = {each.session_id for each in members}
            conditions.append(_IS_NEAR)
            values.append(_near(members))
        for ids, column in ((of, "c.c1"), (among, "+f.rowid")):
            if ids is not None:
                # The plus keeps FTS5 from looking up each id by itself, and looking at all hits anew for each.
                conditions.append(f"{column} in (select value from json_each(?))")
                values.append(schema.json_list(sorted(ids)))
        if scope is not None:
            conditions.append("c.c4 = ?")
            values.append(scope)
        near = "+" if between is not None and between[1] - between[0] <= NEAR_IDS else ""
        found: list[tuple[Any, ...]] = self._db.execute(
            f"select f.rowid, c.c1, c.c4, {rank} from {self._source(with_events=True)} {_where(conditions)} "
            f"{f'order by {near}f.rowid desc ' if newest >= 0 else ''}limit ?",
            (*values, newest),
        ).fetchall()
        rows = [Row(*each) for each in found]
        return rows[::-1] if newest >= 0 else rows

    def texts(self, session_id: int, newest: int) -> list[Row]:
        """A session's summaries and files, and so many of its newest events with a text, in the order of their ids."""
        conditions, values = self._of_event()
        found: list[tuple[Any, ...]] = self._db.execute(
            "select c.id, c.c1, c.c4, 0.0 from events e cross join search_index_content c on c.id = e.id"
            f"{self._timed} {_where(['e.session_id = ?', 'c.c1 = e.session_id', *conditions])} "
            "order by c.id desc limit ?",
            (session_id, *values, newest),
        ).fetchall()
        others: list[tuple[Any, ...]] = self._db.execute(
            f"with k(id) as ({self._others[0]}) select c.id, c.c1, c.c4, 0.0 from k "
            f"cross join search_index_content c on c.id = k.id{self._timed} {_where([self._others[1], *conditions])}",
            (session_id, *values),
        ).fetchall()
        return [Row(*each) for each in (*others, *reversed(found))]

    # what they hold ---------------------------------------------------------------------------------------------

    def count(self, expression: str) -> int:
        """Return the number of events that hold something, wanted or not."""
        return int(self._db.execute("select count(*) from search_index where search_index match ?", (expression,)).get)

    def is_held(self, expression: str) -> bool:
        """Return True if any event holds something, wanted or not."""
        if expression not in self._held:
            first = self._db.execute("select 1 from search_index where search_index match ? limit 1", (expression,)).get
            self._held[expression] = first is not None
        return self._held[expression]

    def holding(self, expression: str, hits: int, *, newest: int = -1, counts: bool = True) -> Matches:
        """The wanted sessions that hold something, the last active first; ``hits``: so many events do, wanted or not.

        ``newest``: so many are enough where there are very many; without ``counts`` the others need not be counted.
        """
        conditions, values = self._of_event()
        conditions.insert(0, "search_index match ?")
        grouped = f"from {self._source()} {_where(conditions)}"
        is_plain = newest >= 0 and not self._of_session and not self._hidden and not self._shown
        sessions = int(self._db.execute("select count(*) from sessions").get) if is_plain else 0
        if sessions > GROUPED_SESSIONS_MAX:
            # The hits of the beginning of a word would be gathered anew for each session.
            most, values = max(newest, NEWEST_SESSIONS), [expression, *values]
            look = self._looked_over if "*" in expression else self._looked_into
            known = look(grouped, values, most, hits, sessions)
            return self._newest_holding(grouped, values, known, most, counts=counts)
        in_prompt = f"max(c.c4 = '{Scope.PROMPT}')" if hits <= TOLD_BY_PROMPT_HITS_MAX else "0"
        found: list[tuple[Any, ...]] = self._db.execute(
            "select h.session_id, s.last_active, h.hits, h.first_id, h.last_id, h.in_prompt from ("
            "select c.c1 as session_id, count(*) as hits, min(f.rowid) as first_id, max(f.rowid) as last_id, "
            f"{in_prompt} as in_prompt {grouped} group by c.c1) h cross join sessions s on s.id = h.session_id "
            f"{_where(self._of_session)} order by s.last_active desc, s.id desc",
            (expression, *values, *self._values),
        ).fetchall()
        known = [
            Member(session_id, place, count, first_id, last_id, bool(is_prompt))
            for session_id, at, count, first_id, last_id, is_prompt in found
            if (place := self._place(session_id, at)) is not None
        ]
        return Matches(known, len({member.place.shown_id for member in known}), sum(each.hits for each in known))

    def _newest_holding(
        self, grouped: str, values: list[object], known: list[Member] | None, most: int, *, counts: bool
    ) -> Matches:
        """The same where there are very many sessions and each counts for itself: only the newest of them."""
        if known is None:
            newest = self._db.execute(
                f"{_NEWEST} where s.id in (select c.c1 {grouped}) order by s.last_active desc, s.id desc limit ?",
                (*values, most),
            )
            known = [_newest_member(*each) for each in newest]
        if not counts and len(known) == most:
            return Matches(known, most, most, are_all=False, at_least=True)
        counted: Any = self._db.execute(f"select count(distinct c.c1), count(*) {grouped}", values).fetchone()
        # Also if these are all: how many hits each of them has is not known.
        return Matches(known, counted[0], counted[1], are_all=False)

    def _looked_into(self, grouped: str, values: list[object], most: int, hits: int, _of: int) -> list[Member] | None:
        """The newest sessions that hold something, looked into one after the other, so that all hits need not be read.

        None if the events of these sessions span too many ids, more where there are more hits.
        """
        known, left = list[Member](), LOOKED_INTO_IDS + hits
        holds = f"select 1 {grouped} and f.rowid between ? and ? and c.c1 = ? limit 1"
        for each in self._db.execute(f"{_NEWEST} order by s.last_active desc, s.id desc"):
            member = _newest_member(*each)
            left -= max(member.last_id - member.first_id, 0) + LOOK_IDS
            if left < 0:
                return None
            if self._db.execute(holds, (*values, member.first_id, member.last_id, member.session_id)).get:
                known.append(member)
                if len(known) == most:
                    return known
        return known

    def _looked_over(self, grouped: str, values: list[object], most: int, hits: int, of: int) -> list[Member] | None:
        """The same where it takes long to gather all hits: once. None if too few of the newest sessions hold it."""
        # This many should be enough, if so many hits fell on so many sessions by chance.
        enough = LOOKED_INTO_TIMES * most / -math.expm1(-hits / of)
        newest = f"{_NEWEST} order by s.last_active desc, s.id desc limit ?"
        members = [_newest_member(*each) for each in self._db.execute(newest, (math.ceil(enough),))]
        near = self._db.execute(f"select distinct c.c1 {grouped} and {_IS_NEAR}", (*values, _near(members)))
        holding = {session_id for (session_id,) in near}
        known = [each for each in members if each.session_id in holding][:most]
        return known if len(known) == most else None

    def members_among(self, expression: str, ids: Iterable[int]) -> list[Member]:
        """Return those of few sessions that hold something, without how many hits each has."""
        places, found = self.places(ids), list[Member]()
        for session_id, place in places.items():
            first_id, last_id = self._db.execute(
                "select min(id), max(id) from events where session_id = ?", (session_id,)
            ).fetchone() or (None, None)
            between = (first_id or 0, last_id or -1)
            if self.rows(expression, between=between, of=(session_id,), newest=1):
                found.append(Member(session_id, place, 0, *between, in_prompt=False))
        return found

    def those_holding(self, expression: str, shown: list[int]) -> list[int]:
        """Return those of the shown sessions that hold something, by themselves or by their subagents."""
        family = set(shown) | {subagent for subagent, top in self._shown.items() if top in set(shown)}
        conditions, values = self._of_event()
        rows: list[Any] = self._db.execute(
            f"select distinct c.c1 from {self._source()} "
            f"{_where(['search_index match ?', *conditions, 'c.c1 in (select value from json_each(?))'])}",
            (expression, *values, schema.json_list(sorted(family))),
        ).fetchall()
        held = {self._shown.get(session_id, session_id) for (session_id,) in rows}
        return [each for each in shown if each in held]

    # what they are known by -------------------------------------------------------------------------------------

    def naming(self, typed: str) -> list[Row]:
        """Return where wanted sessions first name a pull request, issue or commit, if there is a text; newest first."""
        condition, bound = session_filter.of_ref(typed)
        conditions, values = self._of_event()
        rows: list[tuple[Any, ...]] = self._db.execute(
            "select c.id, c.c1, c.c4, 0.0 from session_refs r "
            "cross join events e on e.session_id = r.session_id and e.seq = r.seq "
            f"cross join search_index_content c on c.id = e.id{self._timed} {_where([condition, *conditions])} "
            "order by r.session_id desc, e.part",
            (*bound, *values),
        ).fetchall()
        return [Row(*each) for each in rows]

    def opening(self, session_id: int) -> Row | None:
        """The first prompt of a session, or the first event that has a text."""
        conditions, values = self._of_event()
        found: Any = self._db.execute(
            "select c.id, c.c1, c.c4, 0.0 from events e cross join search_index_content c on c.id = e.id"
            f"{self._timed} {_where(['e.session_id = ?', *conditions])} order by c.c4 <> ?, e.seq, e.part limit 1",
            (session_id, *values, Scope.PROMPT),
        ).fetchone()
        return None if found is None else Row(*found)


def _where(conditions: list[str]) -> str:
    return f"where {' and '.join(conditions)}" if conditions else ""
