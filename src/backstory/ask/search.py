"""Search over the index: every session that holds what was asked for, the best first. Reads only.

Who holds it is exact. How high a session comes may be a little wrong for a word that is everywhere, because bm25 reads
each hit that it scores: then so many hits of each of the likeliest sessions are scored. What fits only nearly (another
form of a word, the parts of an identifier, words that stand apart) comes after what fits, and says so; but another form
in a prompt comes before words that only tools printed, of which there may be very many.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.ask import query, ranking
from backstory.ask.query import Reach, Term, match_expression, terms
from backstory.ask.ranking import NOTHING, RANKED_HITS_MAX, SCOPE_WEIGHT, Held, Ranker, Scored
from backstory.derive.index_text import Scope

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import apsw

    from backstory.ask.query import Row, SessionRank
    from backstory.ask.ranking import Family
    from backstory.store.tables.session_filter import Filter

__all__ = ["SCOPE_WEIGHT", "Hit", "SearchResult", "every", "listed", "match_expression", "search", "terms"]

FEW_SESSIONS = 10
"""The number of sessions with all words below which those with the distinctive words are looked for, too."""
APART_HITS_MAX = 20_000
"""Words that stand apart are looked for if the rarest of them has no more hits than this;"""
APART_RANKED_MAX = 5_000
"""such sessions are ranked by those words that have no more than this."""
RELAXED_TERMS_MAX = 8
"""The number of rarest words that are looked for where no event has every word."""
BY_SCORE, BY_TIME = "score", "time"

ROLES: dict[str, tuple[str, ...]] = {
    "user": (Scope.PROMPT, Scope.COMMAND),
    "assistant": (Scope.ANSWER, Scope.THINKING),
    "tool": (Scope.TOOL_INPUT, Scope.TOOL_OUTPUT),
    "system": (Scope.SYSTEM,),
}
"""The scopes that hold the words of each role."""


class Hit(Struct, frozen=True, kw_only=True):
    """One event that was found. ``shown_id``: the session it counts for, of a subagent's event that of its parent.

    ``near``: it has what was asked for in another way only. ``copied``: it is a copy of an event that was found too.
    ``events``: how many hits its session has, with those that are not among these; 0: nobody counted.
    """

    event_id: int
    session_id: int
    scope: str
    score: float
    shown_id: int = 0
    near: bool = False
    copied: bool = False
    events: int = 0


class SearchResult(Struct, frozen=True, kw_only=True):
    """The result of a search: the best hits, and the number of all.

    ``sessions`` hold what was asked for, in ``events``; ``near`` more have it in another way only. ``total`` are the
    events of both. ``at_least``: these figures may be too low. ``truncated``: there is more than ``hits``.
    ``relaxed``: no event has every word, so these have some of them. ``instead``: words that occur nowhere, each with
    what was looked for in its place.
    """

    total: int
    truncated: bool
    hits: list[Hit]
    relaxed: bool = False
    sessions: int = 0
    events: int = 0
    near: int = 0
    at_least: bool = False
    instead: tuple[tuple[str, str], ...] = ()


def search(
    db: apsw.Connection,
    text: str,
    wanted: Filter,
    *,
    now: int,
    limit: int,
    hits_per_session: int | None = 1,
    near: bool = True,
    sort: str = BY_SCORE,
    counts: bool = True,
) -> SearchResult:
    """The best hits, best first: of each session so many (None: all), ``limit`` at most.

    A query without a term finds nothing. ``near``: also what fits nearly. ``sort``: BY_TIME gives the
    sessions that were last active first. Without ``counts`` the number of all may be too low.
    """
    asked = query.asked(text)
    if not asked:
        return SearchResult(total=0, truncated=False, hits=[])
    every_hit = hits_per_session is None
    room = limit if hits_per_session is None else -(-limit // hits_per_session)
    reach = Reach(db, wanted, _scopes(wanted))
    ranker = Ranker(db, wanted, reach, now=now, room=room, every_hit=every_hit, by_time=sort == BY_TIME, counts=counts)
    one = _Search(reach, ranker, every_hit=every_hit, room=room)
    in_prompts = one.in_prompts(asked) if near and not every_hit and sort == BY_SCORE else []
    held = one.exactly(asked, in_prompts, with_refs=wanted.ref is None)
    instead, is_relaxed = tuple[tuple[str, str], ...](), False
    if near and not one.is_full(held[:1]):
        meant, instead = ranking.meant(ranker.count, asked)
        is_relaxed = one.nearly(meant, held)
    hits = _chosen(ranker, held, hits_per_session, limit + 1)
    more = len(hits) > limit or one.is_full(held)
    return SearchResult(
        total=sum(each.events for each in held), truncated=more, hits=hits[:limit], relaxed=is_relaxed,
        sessions=held[0].sessions, events=held[0].events, near=sum(each.sessions for each in held[1:]),
        at_least=any(each.at_least for each in held), instead=instead,
    )  # fmt: skip


def every(db: apsw.Connection, text: str | None, wanted: Filter, *, limit: int) -> SearchResult:
    """Every event that has the words (None: every event that has a text), of the newest sessions first, not ranked."""
    expression = None if text is None else match_expression(text)
    if text is not None and expression is None:
        return SearchResult(total=0, truncated=False, hits=[])
    reach = Reach(db, wanted, _scopes(wanted))
    hits = list[Hit]()
    for place, rows in _session_by_session(reach, expression, limit + 1):
        hits += [_hit(Scored(row, 0.0), place.shown_id) for row in rows]
        if len(hits) > limit:
            break
    return SearchResult(total=len(hits), truncated=len(hits) > limit, hits=hits[:limit])


def _session_by_session(reach: Reach, expression: str | None, most: int) -> Iterator[tuple[SessionRank, list[Row]]]:
    if expression is None:
        for session_id, place in reach.places().items():
            yield place, reach.texts(session_id, most)
        return
    gathered: dict[int, list[Row]] = {}
    for row in reach.rows(expression):
        gathered.setdefault(row.session_id, []).append(row)
    for session_id, place in reach.places(gathered).items():
        yield place, gathered[session_id]


def listed(db: apsw.Connection, wanted: Filter, *, limit: int) -> SearchResult:
    """The sessions that a filter lets through, the last active first: of each where it names the ref that is asked for.

    Of a session that is not asked for by a ref, or names it in no text, the first prompt or other text.
    """
    reach = Reach(db, wanted, _scopes(wanted))
    named = {row.session_id: row for row in reversed(reach.naming(wanted.ref))} if wanted.ref is not None else {}
    places, hits = reach.places(), dict[int, Hit]()
    for session_id, place in places.items():
        if len(hits) > limit and not reach.asks_events:
            break
        if place.shown_id not in hits and (row := named.get(session_id) or reach.opening(session_id)) is not None:
            hits[place.shown_id] = _hit(Scored(row, 0.0), place.shown_id)
    found = list(hits.values())
    shown = found if len(hits) <= limit or reach.asks_events else {place.shown_id for place in places.values()}
    count = len(shown)
    return SearchResult(total=count, truncated=count > limit, hits=found[:limit], sessions=count, events=count)


class _Search:
    """One search, from what fits to what fits nearly. ``room``: so many sessions, or hits, are wanted."""

    def __init__(self, reach: Reach, ranker: Ranker, *, every_hit: bool, room: int) -> None:
        self._reach, self._ranker, self._every_hit, self._room = reach, ranker, every_hit, room
        self._typed: list[Term] = []

    def is_full(self, held: list[Held]) -> bool:
        """Return True if there is more than is wanted."""
        return sum(each.events if self._every_hit else each.sessions for each in held) > self._room

    def in_prompts(self, asked: list[Term]) -> list[Family]:
        """Find prompts with other forms of the terms, of which there are few, if any event has the terms as typed."""
        is_there = self._reach.has_prompts and any(term.forms for term in asked)
        if not is_there or not self._ranker.count(query.expression(asked).text):
            return []
        found = query.in_another_form(asked, self._reach.is_held)
        return [] if found is None else self._ranker.in_prompts(found, [term.literal for term in asked])

    def exactly(self, asked: list[Term], in_prompts: list[Family], *, with_refs: bool) -> list[Held]:
        """Find events with all terms as they were typed; first those that name a number that is asked for.

        ``in_prompts``: sessions that are put among them, and are counted by themselves.
        """
        self._typed = asked
        numbers = [term for term in asked if term.is_number] if with_refs else []
        naming = [row for term in numbers for row in self._reach.naming(term.typed)]
        found = self._all(asked, likely={family.shown_id for family in in_prompts})
        found = self._ranker.with_named(found, naming, is_enough=len(asked) == 1)
        return self._ranker.with_prompts(found, in_prompts)

    def nearly(self, asked: list[Term], held: list[Held]) -> bool:
        """Add what has the terms in other ways, has the distinctive ones, has them apart; at last what has only some.

        Whether there was nothing but that.
        """
        distinctive = [term for term in asked if term.is_telling] or asked
        held.append(self._all(asked, in_any_way=True))
        if len(distinctive) < len(asked) and sum(each.sessions for each in held) < FEW_SESSIONS:
            held.append(self._all(distinctive, in_any_way=True))
        in_one_event = any(each.sessions for each in held)
        # Of words that stand apart it is the session that is found, not each of their many events.
        if len(distinctive) > 1 and not self._every_hit and not self.is_full(held):
            held.append(self._apart(distinctive))
        if in_one_event or len(asked) == 1 or not (some := self._rarest(asked)):
            return False
        is_relaxed = not any(each.sessions for each in held)
        held.append(self._any(some))
        return is_relaxed

    def _all(self, asked: list[Term], *, in_any_way: bool = False, likely: Collection[int] = ()) -> Held:
        if in_any_way and len(asked) == 1 and asked == self._typed:
            # What has it as it was typed is found already.
            others = query.otherwise(asked[0], self._reach.is_held)
            return self._ranker.held(others, [others.text]) if others.phrases else NOTHING
        expression = query.expression(asked, in_any_way=in_any_way)
        terms = [term.any if in_any_way else term.literal for term in asked]
        return self._ranker.held(expression, terms, likely=likely)

    def _any(self, asked: list[Term], of: set[int] | None = None) -> Held:
        expression = query.expression(asked, " OR ", in_any_way=True)
        return self._ranker.held(expression, [term.any for term in asked], of=of)

    def _apart(self, distinctive: list[Term]) -> Held:
        """Sessions that have all terms in any way, but in no one event."""
        by_count = sorted((self._ranker.count(term.any), n) for n, term in enumerate(distinctive))
        rarest = distinctive[by_count[0][1]]
        if not 0 < by_count[0][0] <= APART_HITS_MAX:
            return NOTHING
        members = self._reach.holding(rarest.any, by_count[0][0]).known
        shown = list(dict.fromkeys(each.place.shown_id for each in members))
        for _, n in by_count[1:]:
            shown = self._reach.those_holding(distinctive[n].any, shown)
        ranked = [distinctive[n] for count, n in by_count if count <= APART_RANKED_MAX] or [rarest]
        return self._any(ranked, of=set(shown)) if shown else NOTHING

    def _rarest(self, asked: list[Term]) -> list[Term]:
        """The rarest of the terms that occur anywhere, distinctive ones first."""
        counted = sorted((not term.is_telling, self._ranker.count(term.any), n) for n, term in enumerate(asked))
        room, kept = RANKED_HITS_MAX, list[Term]()
        for _, count, n in counted:
            if 0 < count <= room and len(kept) < RELAXED_TERMS_MAX:
                kept.append(asked[n])
                room -= count
        return kept


def _chosen(ranker: Ranker, held: list[Held], hits_per_session: int | None, most: int) -> list[Hit]:
    """The best hits of each session, what fits before what fits nearly; a copied turn counts in one session.

    A session that has nothing but copies comes after the others of its kind.
    """
    hits = list[Hit]()
    for n, each in enumerate(held):
        copies = list[Hit]()
        for family, scored in ranker.in_order(each.families):
            if len(hits) >= most:
                return hits
            own = islice((hit for hit in scored if ranker.is_original(hit.row)), hits_per_session)
            near = n > 0 or family.is_near
            found = [_hit(hit, family.shown_id, near=near, score=family.score, events=family.events) for hit in own]
            if not found and hits_per_session is not None:
                copies.append(_hit(scored[0], family.shown_id, near=near, copied=True, events=family.events))
            hits += found
        hits += copies
    return hits


def _hit(
    each: Scored, shown_id: int, *, near: bool = False, copied: bool = False, score: float | None = None,
    events: int = 0,
) -> Hit:  # fmt: skip
    row = each.row
    return Hit(
        event_id=row.event_id, session_id=row.session_id, scope=row.scope, near=near, copied=copied,
        score=each.score if score is None else score, shown_id=shown_id, events=events,
    )  # fmt: skip


def _scopes(wanted: Filter) -> tuple[str, ...] | None:
    """The scopes that may hold what is wanted; None for any."""
    if wanted.tool is None:
        return wanted.scopes or None
    scopes = wanted.scopes or (Scope.TOOL_INPUT, Scope.TOOL_OUTPUT)
    return tuple(str(each) for each in scopes if each in (Scope.TOOL_INPUT, Scope.TOOL_OUTPUT)) or ("none",)
