"""A search of an organisation's history: the turns that have all words, those of the newest sessions first.

What is asked is read as a search here reads it. The index has prompts, answers and the beginnings of tools' inputs, and
is filled beside the answers: each says how many sessions it does not have as they are now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from psycopg.errors import QueryCanceled

from backstory.ask.query import LETTER_WEIGHT, TERMS_MAX, Term, asked, terms
from backstory.bounds import iso
from backstory.ids import session_keys
from backstory.search.snippet import places_of, snippet
from backstory.server.deriving import month_of
from backstory.server.reading import NOWHERE, TeamFilter, TeamPlace, TeamReading, sessions_of
from backstory.server.refusals import Refused
from backstory.server.turn_words import (
    INPUT_CHARS,
    WEIGHTS,
    WORD_BYTES_MAX,
    SaidText,
    agent_label,
    place_label,
    repository_label,
    sign_of,
    words_of,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Cursor

    from backstory.server.database import TeamDatabase
    from backstory.server.people import Caller
    from backstory.server.reading import SessionKey

LIMIT_MAX = 100
WORDS_CHARS_MAX = 2_000
SECONDS_MAX = 5.0
"""A search ends after this long."""
LOOKED_AT_CHARS = 200_000
"""The most characters of a turn in which the place is looked for that an excerpt shows."""
SEARCHED = f"prompts, answers and the first {INPUT_CHARS} characters of tool inputs; tool output is not searched here"


class TeamSearch(TeamFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A search. ``words``: as they are typed for a search; ``scope``: names, with commas between.

    ``session``: only this one, by what names it; ``all_hits``: all hits of each copy, not the newest alone; without
    ``near`` only the words as they were typed, no parts of identifiers; ``after``: the ``end`` of the page before.
    """

    words: str
    scope: str = ""
    session: str | None = None
    all_hits: bool = False
    near: bool = True
    limit: int = 20
    after: str | None = None


class TeamHit(Struct, frozen=True):
    """A turn that was found. ``hits``: how many its session has; ``is_typed``: as typed, not in another way only."""

    person: int
    session: str
    machine: str
    number: int
    at: Any
    hits: int
    is_typed: bool

    @property
    def key(self) -> SessionKey:
        """The session, as a machine of a person has it."""
        return self.person, self.session, self.machine


class TeamSearching:
    """Searches what a caller may see."""

    def __init__(self, database: TeamDatabase, reading: TeamReading) -> None:
        self._database, self._reading = database, reading

    def search(self, caller: Caller, wanted: TeamSearch) -> dict[str, Any]:
        """Return a page of hits as ``search --json`` has them, each with its person and machine. Raises Refused."""
        scopes = _scopes(wanted.scope)
        found = _terms(wanted.words)
        sign = sign_of(caller.tenant)
        query = tsquery(found, sign, scopes, in_any_way=wanted.near), tsquery(found, sign, scopes)
        limit = min(max(wanted.limit, 1), LIMIT_MAX)
        if wanted.all_hits and wanted.session is None:
            raise Refused(400, "request_wrong", "All hits are listed of one session alone: name it.")
        uid = None if wanted.session is None else self._meant(caller, wanted.session)
        place = None if wanted.after is None else TeamPlace.read(wanted.after)
        with self._database.of(caller.tenant) as rows:
            asked = self._reading.conditions(rows, caller, wanted)
            _, among, _, agent, repository, *_ = asked
            of = labelled(sign, among, agent, repository)
            behind = NOWHERE if place is None else place.behind
            most = limit + 1 if wanted.all_hits else 1, limit + 1
            values = (*asked[:2], f"{query[0]}{of}", query[1], uid, *asked[2:], *behind, *most)
            hits = _within(rows, _FOUND, values) if query[0] and among != [] else []
            ((waiting,),) = rows.execute("select sessions_waiting(%s, %s)", (caller.tenant, caller.among)).fetchall()
            has_more, every, hits = len(hits) > limit, hits, hits[:limit]
            shown = self._shown(rows, caller, hits, wanted.words, scopes)
        of_each = {each.key: each for each in (every if wanted.all_hits else hits)}
        total, near = sum(each.hits for each in of_each.values()), sum(not each.is_typed for each in of_each.values())
        is_cut = place is not None or (has_more and not wanted.all_hits)
        last = hits[-1] if hits and not wanted.all_hits else None
        return {
            "query": wanted.words, "total": total, "truncated": has_more, "relaxed": False, "stopped": False,
            "not_covered": 0, "outdated": False, "instead": {},
            "totals": {"session_count": len(of_each) - near, "hit_count": total, "near_sessions": near,
                       "at_least": is_cut},
            "hits": shown, "searched": SEARCHED, "waiting_sessions": waiting,
            "end": None if last is None else str(
                TeamPlace(last.at.timestamp(), last.session, last.person, last.machine)
            ),
        }  # fmt: skip

    def _meant(self, caller: Caller, words: str) -> str:
        found = self._reading.resolve(caller, words)
        if len(found) > 1:
            labels = ", ".join(str(each["label"]) for each in found)
            raise Refused(409, "session_ambiguous", f"Several sessions may be meant: {labels}")
        return str(found[0]["uid"])

    def _shown(
        self, rows: Cursor[Any], caller: Caller, hits: list[TeamHit], words: str, scopes: tuple[str, ...]
    ) -> list[dict[str, Any]]:
        listed = sessions_of(rows, caller, list({each.key: each for each in hits}))
        found = list[dict[str, Any]]()
        for each in hits:
            # One after the other: a turn may have a million characters.
            place = (caller.tenant, *each.key, each.number, month_of(each.at))
            said = rows.execute(_SAID, place).fetchone()
            # What is erased meanwhile is no hit.
            if said is not None and each.key in listed:
                text = best_text(msgspec.convert(said[0], list[SaidText]), words, scopes)
                found.append(_hit(each, listed[each.key], text, words))
        return found


# what is asked --------------------------------------------------------------------------------------------------------


def tsquery(found: list[Term], sign: str, scopes: tuple[str, ...] = (), *, in_any_way: bool = False) -> str:
    """Terms as a query of PostgreSQL, all of them wanted; '' for none. In any way: also as parts of identifiers.

    ``sign``: of the organisation.
    """
    weights = "".join(WEIGHTS[each] for each in scopes)
    ways = [
        [each.literal, *(other for other, weight in each.others if in_any_way and weight != LETTER_WEIGHT)]
        for each in found
    ]  # fmt: skip
    return " & ".join(f"({' | '.join(_phrase(each, sign, weights) for each in way)})" for way in ways)


def labelled(sign: str, among: list[str] | None, agent: str | None, repository: str | None) -> str:
    """The labels that a query has besides its words, so that nothing else is walked. ``among``: any of these."""
    wanted = [
        [] if among is None else [repository_label(each) for each in among],
        [] if agent is None else [agent_label(agent)],
        [] if repository is None or (found := place_label(repository)) is None else [found],
    ]
    return "".join(f" & ({' | '.join(f'{chr(39)}{sign}{each}{chr(39)}' for each in ways)})" for ways in wanted if ways)


def _phrase(literal: str, sign: str, weights: str) -> str:
    """A phrase of FTS5 as one of PostgreSQL: the words of the index, one behind the other."""
    words = list(words_of(literal.removesuffix("*")[1:-1].replace('""', '"')))
    if any(len(each.encode()) > WORD_BYTES_MAX for each in words):
        raise Refused(400, "request_wrong", f"A word has at most {WORD_BYTES_MAX:,} bytes.")
    begins = "*" if literal.endswith("*") else ""
    marks = [f":{each}" if each else "" for each in (*[weights] * (len(words) - 1), begins + weights)]
    return f"({' <-> '.join(f'{chr(39)}{sign}{word}{chr(39)}{mark}' for word, mark in zip(words, marks, strict=True))})"


def _terms(words: str) -> list[Term]:
    """Read what is looked for. Raises Refused for more than is answered."""
    if len(words) > WORDS_CHARS_MAX:
        raise Refused(400, "request_wrong", f"A search has at most {WORDS_CHARS_MAX:,} characters.")
    if len(set(terms(words))) > TERMS_MAX:
        raise Refused(400, "request_wrong", f"A search has at most {TERMS_MAX} words.")
    return [each for each in asked(words, with_forms=False) if any(words_of(each.literal))]


def _scopes(names: str) -> tuple[str, ...]:
    """The scopes that are searched; none for all. Raises Refused."""
    found = tuple(dict.fromkeys(filter(None, names.split(","))))
    if unknown := [each for each in found if each not in WEIGHTS]:
        known = ", ".join(sorted(WEIGHTS))
        raise Refused(400, "scope_not_searched", f"{unknown[0]!r:.100} is not searched here; these are: {known}")
    return found


def _within(rows: Cursor[Any], statement: str, values: tuple[Any, ...]) -> list[TeamHit]:
    """The hits. Raises Refused when the time is up."""
    rows.execute("select set_config('statement_timeout', %s, true)", (str(int(SECONDS_MAX * 1_000)),))
    try:
        return [TeamHit(*each) for each in rows.execute(statement.encode(), values).fetchall()]
    except QueryCanceled as refused:
        raise Refused(
            422, "search_too_long", f"The search was ended after {SECONDS_MAX:g} s. Narrow it: rarer words, or since."
        ) from refused


_FOUND = """
select * from sessions_with(%s, %s, %s::tsquery, %s::tsquery, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_SAID = """
select said from turn_text where tenant = %s and person = %s and session = %s and machine = %s and number = %s
  and month = %s
"""


# what is shown --------------------------------------------------------------------------------------------------------


def best_text(texts: Sequence[SaidText], words: str, scopes: tuple[str, ...] = ()) -> SaidText:
    """Return that text of a turn in which most of the words come together; its first, if what has them is not kept."""
    room, looked_at, at, begins = LOOKED_AT_CHARS, list[SaidText](), 0, list[int]()
    for each in texts:
        if room > 0 and (not scopes or each.scope in scopes):
            looked_at.append(each)
            begins.append(at)
            room, at = room - len(each.text), at + len(each.text) + 1
    _, best = places_of("\n".join(each.text for each in looked_at)[:LOOKED_AT_CHARS], words)
    found = [each for each, begin in zip(looked_at, begins, strict=True) if begin <= best]
    return found[-1] if found else texts[0]


def _hit(each: TeamHit, listed: dict[str, Any], text: SaidText, words: str) -> dict[str, Any]:
    excerpt, marks = snippet(text.text, words)
    return {
        **session_keys(listed["uid"], listed["label"]),
        "number": None, "name": listed.get("name"), "title": listed["title"], "agents": listed["agents"],
        "project": listed.get("project"), "repository": listed["repository"], "branch": listed["branch"],
        "parent_uid": listed["parent_uid"], "at": iso(round(each.at.timestamp() * 1_000)), "seq": text.seq,
        "part": text.part, "kind": text.kind, "file": None, "scope": text.scope, "near": not each.is_typed, "words": [],
        "copy": False, "snippet": excerpt, "marks": marks, "score": 0.0, "from_elsewhere": False,
        "native_id": listed.get("native_id"), "resume_command": None, "person": listed["person"],
        "machine": listed["machine"], "session_hits": each.hits,
    }  # fmt: skip
