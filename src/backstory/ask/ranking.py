"""The order of sessions that hold something, and the hits shown of each. Reads only.

bm25 reads each hit that it scores. While there are few all are; else so many of each of the likeliest sessions.
"""

from __future__ import annotations

import math
from itertools import accumulate
from operator import attrgetter, mul
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct

from backstory.ask.query import Matches, Member, Reach, Row, SessionRank, term_of
from backstory.derive import word_forms
from backstory.derive.index_text import Scope
from backstory.lazy import lazy_regex
from backstory.model import Relation
from backstory.store import codec, schema
from backstory.store.intake import written

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import apsw

    from backstory.ask.query import Expression, Term
    from backstory.store.tables.session_filter import Filter


RANKED_HITS_MAX = 2_000
"""With more hits than this only some of each session are ranked:"""
HITS_OF_SESSION = 16
"""so many of the newest, and so many prompts,"""
LISTED_HITS_MAX = 10_000
"""Up to this many hits are looked through for those at once, and not session by session;"""
SESSIONS_RANKED = 30
"""of so many sessions at least, and of twice as many as are wanted,"""
TWICE_WANTED_MAX = 200
"""unless more than this are wanted."""
HALF_LIFE_MS = 90 * 24 * 3600 * 1000
"""After this long a hit counts three quarters of what it counted when new, and never less than half."""
MORE_HITS = 0.05
"""The share that a session's second-best hit adds to its best; the third adds this share of that, and so on."""
MORE_HITS_MAX = 4
PROMPTS_RANKED_MAX = 1_000
"""The most prompts with other forms of the words that are ranked, the newest."""

SCOPE_WEIGHT: dict[str, float] = {
    Scope.PROMPT: 2.0,
    Scope.ANSWER: 1.3,
    Scope.SYSTEM: 0.8,
    Scope.COMMAND: 0.8,
    Scope.THINKING: 0.8,
    Scope.TOOL_INPUT: 0.9,
    Scope.TOOL_OUTPUT: 0.6,
    Scope.FILE: 0.7,
}
_WEIGHT_OF = {str(scope): weight for scope, weight in SCOPE_WEIGHT.items()}
RELEVANCE = "relevance"
"""The name of the function in SQL: ``relevance(search_index)``. The best fit has the highest value."""
_RANK = f"{RELEVANCE}(search_index)"


class Scored(Struct, frozen=True, gc=False):
    """A hit and what it counts, all considered."""

    row: Row
    score: float


class Family(Struct):
    """A session that is shown, with the hits of its own and of its subagents, the best first."""

    shown_id: int
    last_active: int
    hits: list[Scored]
    is_named: bool = False
    """It names a number that was asked for."""
    events: int = 0
    """The number of its hits; ``hits`` holds only the likeliest of many."""
    is_near: bool = False
    """It has what was asked for in another way only."""
    least: float = 0.0
    """The lowest score that it may have,"""
    most: float = math.inf
    """and the highest."""

    @property
    def score(self) -> float:
        """The score of its best hits together, within its limits."""
        return min(max(_together(self.hits), self.least), self.most)


def _together(hits: Sequence[Scored]) -> float:
    return sum(each.score * MORE_HITS**n for n, each in enumerate(hits[:MORE_HITS_MAX]))


class Held(Struct):
    """The sessions that hold an expression, or the likeliest of them; how many there are, with how many hits."""

    families: list[Family]
    sessions: int
    events: int
    at_least: bool = False


NOTHING = Held([], 0, 0)


class Ranker:
    """Ranks what one search finds, each session once; or each event once, where ``every_hit`` is wanted.

    ``room``: so many of them are wanted. ``by_time``: the sessions that were last active come first.
    Without ``counts`` those that are not wanted need not be counted.
    """

    def __init__(
        self, db: apsw.Connection, wanted: Filter, reach: Reach, *, now: int, room: int, every_hit: bool, by_time: bool,
        counts: bool = True,
    ) -> None:  # fmt: skip
        self._db, self._wanted, self._reach, self._now, self._counted_all = db, wanted, reach, now, counts
        self._room, self._every_hit, self._by_time = room, every_hit, by_time
        self._seen = set[int]()
        self._counts = for_connection(db).counts_of(db)
        self._places: dict[int, SessionRank] = {}

    def count(self, expression: str) -> int:
        """Return the number of events that hold an expression, wanted or not."""
        if expression not in self._counts:
            self._counts[expression] = self._reach.count(expression)
        return self._counts[expression]

    def held(
        self, expression: Expression, terms: list[str], *, of: set[int] | None = None, likely: Collection[int] = ()
    ) -> Held:
        """Return holders of an expression that were not found before. ``of``: only these sessions.

        ``likely``: sessions that are ranked if they hold it, also where only some are.
        """
        hits = self.count(expression.text)
        if hits == 0:
            return NOTHING
        for_connection(self._db).ask(expression.phrases, [self.count(term) for term in terms])
        found = self._few(expression, of) if hits <= RANKED_HITS_MAX else self._many(expression, hits, of, likely)
        for family in found.families:
            self._seen |= {each.row.event_id for each in family.hits} if self._every_hit else {family.shown_id}
        return found

    def in_prompts(self, expression: Expression, terms: list[str]) -> list[Family]:
        """The best sessions whose prompts hold an expression, as many as are wanted and one more."""
        for_connection(self._db).ask(expression.phrases, [self.count(term) for term in terms])
        rows = self._reach.rows(expression.text, rank=_RANK, scope=Scope.PROMPT, newest=PROMPTS_RANKED_MAX)
        families = sorted(self._families(rows, None), key=attrgetter("score"), reverse=True)
        return families[: self._room + 1]

    def with_prompts(self, held: Held, prompts: list[Family]) -> list[Held]:
        """The same with sessions whose prompts have other forms of the words, and the number of these by itself.

        They come before words that only tools printed, and after words that are as typed in a prompt.
        """
        if not prompts:
            return [held]
        # In their order, which those keep that get the same score.
        exact = sorted(held.families, key=attrgetter("score"), reverse=True)
        known = {family.shown_id for family in exact}
        near = [family for family in prompts if family.shown_id not in known]
        _place_around(prompts, exact)
        for family in near:
            family.is_near = True
            self._seen.add(family.shown_id)
        forms = Held([], len(near), sum(family.events for family in near))
        return [Held([*exact, *near], held.sessions, held.events, held.at_least), forms]

    def with_named(self, held: Held, naming: list[Row], *, is_enough: bool) -> Held:
        """The same with the sessions first that name what is asked for.

        ``naming``: where they do; ``is_enough``: also if they have no event that has the words.
        """
        places = self._places_of(naming)
        known = {family.shown_id: family for family in held.families}
        families, added = list(held.families), 0
        for row in naming:
            if (place := places.get(row.session_id)) is None:
                continue
            family = known.get(place.shown_id)
            if family is None and is_enough:
                family = known[place.shown_id] = Family(place.shown_id, place.last_active or 0, [], events=1)
                families.append(family)
                # Of many sessions only the likeliest are here; the others are counted.
                added += len(held.families) == held.sessions
                self._seen.add(row.event_id if self._every_hit else place.shown_id)
            if family is not None and not family.is_named:
                others = [each for each in family.hits if each.row.event_id != row.event_id]
                best = family.hits[0].score if family.hits else 0.0
                family.hits, family.is_named = [Scored(row, best), *others], True
        return Held(families, held.sessions + added, held.events + added, held.at_least)

    def in_order(self, families: list[Family]) -> Iterator[tuple[Family, list[Scored]]]:
        """Sessions with their hits, the best first; where every hit is wanted, hit by hit."""
        order = sorted(families, key=attrgetter("last_active" if self._by_time else "score"), reverse=True)
        order.sort(key=attrgetter("is_named"), reverse=True)
        if not self._every_hit:
            yield from ((family, family.hits) for family in order)
            return
        each_hit = [(family, hit) for family in order for hit in family.hits]
        if not self._by_time:
            each_hit.sort(key=lambda each: (each[0].is_named, each[1].score), reverse=True)
        yield from ((family, [hit]) for family, hit in each_hit)

    # few hits, or many ------------------------------------------------------------------------------------------

    def _few(self, expression: Expression, of: set[int] | None) -> Held:
        """Every hit is ranked."""
        families = self._families(self._reach.rows(expression.text, rank=_RANK), of)
        return Held(families, len(families), sum(len(family.hits) for family in families))

    def _many(self, expression: Expression, hits: int, of: set[int] | None, likely: Collection[int]) -> Held:
        """Hits of the likeliest sessions are ranked, of as many as are wanted."""
        newest = self._room + len(self._seen) + 1 if of is None else -1
        members = self._reach.holding(expression.text, hits, newest=newest, counts=self._counted_all)
        known = members.known
        if likely and not members.are_all:
            listed = {member.session_id for member in known}
            known = known + self._reach.members_among(expression.text, [each for each in likely if each not in listed])
        gathered: dict[int, list[Member]] = {}
        for member in known:
            shown_id = member.place.shown_id
            if (of is None or shown_id in of) and (self._every_hit or shown_id not in self._seen):
                gathered.setdefault(shown_id, []).append(member)
        order = list(gathered.values())
        if not self._by_time:
            order.sort(key=lambda family: (family[0].place.shown_id in likely, self._promise(family)), reverse=True)
        if self._wanted.tool is not None:
            return self._of_tool(expression, order)
        families = self._families(self._rows_of(expression, order[: self._enough(order)]), of)
        for family in families:
            family.events = sum(member.hits for member in gathered[family.shown_id])
        return self._counted(families, members, gathered)

    def _counted(self, families: list[Family], members: Matches, gathered: dict[int, list[Member]]) -> Held:
        if not members.are_all:
            # None of them was seen before, or these would not be asked for.
            return Held(families, members.sessions, members.hits, at_least=members.at_least or bool(self._seen))
        events = sum(member.hits for family in gathered.values() for member in family)
        if self._every_hit:
            return Held(families, len(gathered), max(events - len(self._seen), 0))
        return Held(families, len(gathered), events)

    def _enough(self, order: list[list[Member]]) -> int:
        """Return the number of sessions, in this order, whose hits are ranked."""
        if self._every_hit:
            sums = accumulate(sum(member.hits for member in family) for family in order)
            full = next((n for n, hits in enumerate(sums, 1) if hits > self._room + len(self._seen)), len(order))
            return max(full, SESSIONS_RANKED)
        return max(SESSIONS_RANKED, self._room + min(self._room, TWICE_WANTED_MAX))

    def _rows_of(self, expression: Expression, families: list[list[Member]]) -> list[Row]:
        """The best hits of each session, ranked."""
        members = [member for family in families for member in family]
        most = self._room + len(self._seen) + 1 if self._every_hit else HITS_OF_SESSION
        if "*" in expression.text or self.count(expression.text) <= LISTED_HITS_MAX:
            # The beginning of a word always: it is looked up anew for every range, and that may take as long.
            listed = self._reach.rows(expression.text, members=members)
            some = _some_of_each(listed, most)
            return self._reach.rows(expression.text, rank=_RANK, among=some)
        found: dict[int, Row] = {}
        for member in members:
            between, of = (member.first_id, member.last_id), (member.session_id,)
            rows = self._reach.rows(expression.text, rank=_RANK, between=between, of=of, newest=most)
            if member.in_prompt and len(rows) == most:
                rows += self._reach.rows(
                    expression.text, rank=_RANK, between=between, of=of, scope=Scope.PROMPT, newest=most
                )
            found |= {row.event_id: row for row in rows}
        return [found[event_id] for event_id in sorted(found)]

    def _of_tool(self, expression: Expression, order: list[list[Member]]) -> Held:
        """The name of a tool is only in the event: so it is looked for session by session, until there are enough."""
        families = list[Family]()
        events = 0
        for n, members in enumerate(order, 1):
            of = {member.session_id for member in members}
            found = self._families(self._reach.rows(expression.text, rank=_RANK, of=of), None)
            families += found
            events += sum(len(family.hits) for family in found)
            if (events if self._every_hit else len(families)) > self._room:
                return Held(families, len(families), events, at_least=n < len(order))
        return Held(families, len(families), events)

    def _promise(self, family: list[Member]) -> float:
        """Return the highest score that a session may reach."""
        return max(
            _recency(member.place.last_active, self._now) * (2.0 if member.in_prompt else 1.0) for member in family
        )

    # sessions with their hits -----------------------------------------------------------------------------------

    def _families(self, rows: list[Row], of: set[int] | None) -> list[Family]:
        """Hits by the session that they count for, those that were found before left out."""
        places = self._places_of(rows)
        gathered: dict[int, Family] = {}
        recencies: dict[int, float] = {}
        for row in rows:
            place = places.get(row.session_id)
            if place is None or (of is not None and place.shown_id not in of):
                continue
            if (row.event_id if self._every_hit else place.shown_id) in self._seen:
                continue
            if self._wanted.tool is not None and not self._is_of_tool(row):
                continue
            if (family := gathered.get(place.shown_id)) is None:
                family = gathered[place.shown_id] = Family(place.shown_id, 0, [])
            if (recency := recencies.get(row.session_id)) is None:
                recency = recencies[row.session_id] = _recency(place.last_active, self._now)
                family.last_active = max(family.last_active, place.last_active or 0)
            family.hits.append(Scored(row, row.relevance * _WEIGHT_OF.get(row.scope, 1.0) * recency))
        for family in gathered.values():
            # Rows come in the order of their ids, so that of equals the older is first.
            family.hits.sort(key=attrgetter("score"), reverse=True)
            family.events = len(family.hits)
        return list(gathered.values())

    def _places_of(self, rows: Iterable[Row]) -> dict[int, SessionRank]:
        ids = {row.session_id for row in rows}
        if new := ids - self._places.keys():
            self._places |= self._reach.places(new)
        return self._places

    def is_original(self, row: Row) -> bool:
        """Return True if a hit is not in a copy of a turn that an older session, which is wanted too, has itself."""
        if row.event_id < schema.FILE_ROWS:
            return True
        if row.event_id < 0:
            return not self._reach.places(self._older_with_summary(-row.event_id))
        found: Any = self._db.execute(
            "select t.uid, exists (select 1 from turns o where o.uid = t.uid and o.id <> t.id) "
            "from events e join turns t on t.id = e.turn_id where e.id = ?",
            (row.event_id,),
        ).fetchone()
        return found is None or not found[1] or not self._reach.places(self._older(row.event_id, found[0]))

    def _older(self, event_id: int, turn_uid: str) -> list[int]:
        """The older sessions that have the same event, as part of the same turn."""
        rows: list[tuple[Any, ...]] = self._db.execute(
            "select o.session_id from events e join sessions s on s.id = e.session_id "
            "join turns m on m.id = e.turn_id, turns t "
            f"join sessions os on os.id = t.session_id and {written.precedes('t', 'os', 'm', 's')} "
            "join events o on o.session_id = t.session_id and o.turn_id = t.id "
            "where e.id = ? and t.uid = ? and o.kind = e.kind "
            f"and (o.at is e.at and o.data = e.data or s.relation is '{Relation.RETOLD}')",
            (event_id, turn_uid),
        ).fetchall()
        return [session_id for (session_id,) in rows]

    def _older_with_summary(self, row_id: int) -> list[int]:
        """The older sessions that have the same summary: one that continues them has a copy."""
        rows: list[tuple[Any, ...]] = self._db.execute(
            "select o.session_id from compactions c join sessions s on s.id = c.session_id join compactions o "
            "on o.after_seq = c.after_seq and o.created = c.created and o.summary = c.summary and o.undone = 0 "
            "join sessions os on os.id = o.session_id and os.uid < s.uid where c.id = ?",
            (row_id,),
        ).fetchall()
        return [session_id for (session_id,) in rows]

    # tools ------------------------------------------------------------------------------------------------------

    def _is_of_tool(self, row: Row) -> bool:
        wanted = (self._wanted.tool or "").casefold()
        return any(name.casefold() == wanted for name in self._tool_names(row.event_id))

    def _tool_names(self, event_id: int) -> tuple[str, str]:
        data = self._db.execute("select data from events where id = ?", (event_id,)).get
        if data is None:
            return "", ""
        for names in msgspec.json.decode(self._unpacked(data), type=dict[str, _ToolNames]).values():
            return names.tool_name, names.tool
        return "", ""

    def _unpacked(self, data: Any) -> bytes:

        if not hasattr(self, "_codecs"):
            self._codecs: dict[int, codec.EventCodec] = {}
        return codec.unpack_event(self._db, self._codecs, data)


class _ToolNames(Struct, frozen=True):
    """A tool's call or result as kept, reduced to the tool's name."""

    tool_name: str = ""
    tool: str = ""


def _place_around(prompts: list[Family], families: list[Family]) -> None:
    """Limit the scores of sessions that have the words as typed by those of prompts with other forms."""
    scores = {family.shown_id: family.score for family in prompts}
    above = math.nextafter(max(scores.values()), math.inf)
    below = math.nextafter(min(scores.values()), -math.inf)
    for family in families:
        if any(each.row.scope == Scope.PROMPT for each in family.hits):
            family.least = above
        elif family.shown_id in scores:
            family.least = scores[family.shown_id]
        else:
            said = [each for each in family.hits if each.row.scope != Scope.TOOL_OUTPUT]
            family.most = max(_together(said), below)


def _some_of_each(rows: list[Row], most: int) -> Collection[int]:
    """The ids of so many of the newest hits of each session, and of as many prompts."""
    gathered: dict[tuple[int, bool], list[int]] = {}
    for row in rows:
        gathered.setdefault((row.session_id, row.scope == Scope.PROMPT), []).append(row.event_id)
    return {event_id for ids in gathered.values() for event_id in ids[-most:]}


def _recency(at: int | None, now: int) -> float:
    age = HALF_LIFE_MS if at is None else max(now - at, 0)
    return float(0.5 + 0.5 * 0.5 ** (age / HALF_LIFE_MS))


# how relevant a hit is ------------------------------------------------------------------------------------------------


SATURATION = 1.2
"""bm25's k1: how soon more places of a term in one text count no more."""
LENGTH_WEIGHT = 0.9
"""bm25's b: how much a long text needs more of them."""
COUNTS_KEPT_MAX = 1_000
_NEEDED_LEAST = SATURATION * (1 - LENGTH_WEIGHT)

_known: WeakKeyDictionary[apsw.Connection, Relevance] = WeakKeyDictionary()


def for_connection(db: apsw.Connection) -> Relevance:
    """The function of a connection. It is registered once, because FTS5 keeps every one that it was given."""
    if (found := _known.get(db)) is None:
        found = _known[db] = Relevance()
        db.register_fts5_function(RELEVANCE, found)
    return found


class Relevance:
    """The function that SQL calls, and what it is asked at the moment."""

    def __init__(self) -> None:
        self.ask([], [])
        self._counts: dict[str, int] = {}
        self._counted_at: tuple[int, int] | None = None

    def counts_of(self, db: apsw.Connection) -> dict[str, int]:
        """Return how many events hold what, as far as that was counted since anybody changed the store.

        What is counted is added to it: who types asks the same words again, with others.
        """
        now = (db.data_version(), db.total_changes())
        if self._counted_at != now or len(self._counts) > COUNTS_KEPT_MAX:
            self._counted_at, self._counts = now, {}
        return self._counts

    def ask(self, phrases: Sequence[tuple[int, float]], hits: Sequence[int]) -> None:
        """Set what the rows of the next statement are measured by.

        ``phrases``: of each phrase of the expression in order the number of its term, and what it counts if none of
        the term's phrases before it is there. ``hits``: of each term how many rows have it.
        """
        self._phrases = phrases
        self._hits = hits
        self._rarities: list[float] = []
        self._per_word = 0.0

    def __call__(self, api: apsw.FTS5ExtensionApi, *_: object) -> float:
        if not self._per_word:
            self._begin(api.row_count, api.column_total_size())
        needed = _NEEDED_LEAST + self._per_word * api.column_size()
        if len(self._phrases) == 1:
            return self._rarities[0] * self._phrases[0][1] * (places := api.inst_count) / (places + needed)
        if len(self._rarities) == 1:
            for number, (_term, weight) in enumerate(self._phrases):
                if places := len(api.phrase_locations(number)[0]):
                    return self._rarities[0] * weight * places / (places + needed)
            return 0.0
        fits = [0.0] * len(self._rarities)
        for phrase, (term, weight) in enumerate(self._phrases):
            if not fits[term] and (places := len(api.phrase_locations(phrase)[0])):
                fits[term] = weight * places / (places + needed)
        return math.fsum(map(mul, self._rarities, fits))

    def _begin(self, rows: int, words: int) -> None:
        self._per_word = SATURATION * LENGTH_WEIGHT * rows / max(words, 1)
        self._rarities = [math.log(1 + (max(rows - hits, 0) + 0.5) / (hits + 0.5)) for hits in self._hits]


# suggestions for words that nothing holds -----------------------------------------------------------------------------


LETTERS_LEAST = 3
"""A shorter beginning may begin anything."""
EDITED_LEAST = 4
"""A shorter word with one letter changed is any other word."""
BEGUN_AND_EDITED_LEAST = 6
"""A shorter beginning with one letter changed may begin anything."""
_WORD = lazy_regex(r"[A-Za-z]+")
_PARTS = lazy_regex(r"[A-Za-z0-9]+")


def meant(count: Callable[[str], int], asked: list[Term]) -> tuple[list[Term], tuple[tuple[str, str], ...]]:
    """The terms, each that occurs nowhere exchanged for the nearest that does; and what was exchanged.

    ``count`` returns how many events hold an expression.
    """
    terms: list[Term] = []
    instead: list[tuple[str, str]] = []
    for term in asked:
        nearest = [] if count(term.any) else _nearest(count, term.typed)
        terms += nearest or [term]
        if nearest:
            instead.append((term.typed, " ".join(each.typed for each in nearest)))
    return terms, tuple(instead)


def _nearest(count: Callable[[str], int], typed: str) -> list[Term]:
    """The words of a name by themselves; what a word is the beginning of, or would be but for a slip of a finger."""
    words = _PARTS.findall(typed)
    if len(words) > 1:
        if " " in typed:
            # Who puts words together in quotes means them together.
            return []
        alone = [term_of(word) for word in dict.fromkeys(words)]
        return alone if all(count(term.any) for term in alone) else []
    word = words[0] if words else ""
    if len(word) < LETTERS_LEAST or not _WORD.fullmatch(word):
        return []
    begun = term_of(f"{word}*")
    if count(begun.any):
        return [begun]
    found = _edited(count, word, "") if len(word) >= EDITED_LEAST else None
    if found is None and len(word) >= BEGUN_AND_EDITED_LEAST:
        found = _edited(count, word, "*")
    return [] if found is None else [found]


def _edited(count: Callable[[str], int], word: str, ending: str) -> Term | None:
    """The most frequent word that one slip of a finger makes of this one; with "*" as its ending, that begins so."""
    hits, best = max((count(f'"{each}"{ending}'), each) for each in word_forms.edited(word) or [word])
    return term_of(f"{best}{ending}") if hits else None
