"""Search over the index: what a person types is a query, never FTS syntax by accident. Reads only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.extract import Scope, index_text
from backstory.store import claims, sessions

if TYPE_CHECKING:
    import apsw

CANDIDATES_MAX = 400
"""So many of the best-ranked hits are looked at to find the best of each session."""
RANKED_HITS_MAX = 20_000
"""With more hits than this only the newest NEWEST_HITS are ranked: bm25 reads every hit it scores."""
NEWEST_HITS = 5_000
HALF_LIFE_MS = 90 * 24 * 3600 * 1000
"""After this long a hit counts three quarters of what it counted when new, and never less than half."""

SCOPE_WEIGHT: dict[str, float] = {
    Scope.PROMPT: 1.6,
    Scope.ANSWER: 1.3,
    Scope.SYSTEM: 0.8,
    Scope.THINKING: 0.8,
    Scope.TOOL_INPUT: 0.9,
    Scope.TOOL_OUTPUT: 0.6,
}

_WORDS = re.compile(r'"([^"]*)"|(\S+)')
_LETTERS = re.compile(r"[^\W_]", re.UNICODE)


class Hit(Struct, frozen=True, kw_only=True):
    """One event that was found."""

    event_id: int
    session_id: int
    scope: str
    score: float


class Found(Struct, frozen=True, kw_only=True):
    """What a search gave: how many events match, the best of them, and whether there is more."""

    total: int
    truncated: bool
    hits: list[Hit]


class Filter(Struct, frozen=True, kw_only=True):
    """Which events are asked for. None asks for all; times in ms since 1970; ``folder`` is a path."""

    agent: str | None = None
    project: str | None = None
    folder: str | None = None
    since: int | None = None
    session_id: int | None = None
    without: tuple[int, ...] = ()
    """Sessions that are passed over."""


def terms(query: str) -> list[str]:
    """The words and quoted phrases of a query that have letters or digits to look for."""
    # What is no text, such as half a surrogate pair, is nothing to look for.
    readable = query.encode("utf-8", "replace").decode().replace("\0", " ")
    found = (phrase or word for phrase, word in _WORDS.findall(readable))
    return [term for term in found if _LETTERS.search(term)]


def match_expression(query: str) -> str | None:
    """The FTS5 expression for what was typed: every term as a phrase, all of them wanted; None for no term.

    >>> match_expression('C++ "rate limit" log*')
    '"C++" "rate limit" "log"*'
    """
    phrases = []
    for term in terms(query):
        text = index_text(term).replace('"', '""')
        prefix = term.endswith("*") and term[:-1].isalnum()
        phrases.append(f'"{text.removesuffix("*") if prefix else text}"{"*" if prefix else ""}')
    return " ".join(phrases) or None


def search(db: apsw.Connection, query: str, wanted: Filter, *, now: int, limit: int) -> Found:
    """The best hit of each session, best first; ``limit`` sessions at most. A query without a term finds nothing."""
    expression = match_expression(query)
    if expression is None:
        return Found(total=0, truncated=False, hits=[])
    matching = int(db.execute("select count(*) from search_index where search_index match ?", (expression,)).get)
    newest_only = matching > RANKED_HITS_MAX
    wanted = msgspec.structs.replace(wanted, without=(*wanted.without, *claims.all_claimed(db)))
    rows = _ranked(db, expression, wanted, newest_only=newest_only)
    hits = _best_of_each_session(_without_copies(db, rows), now)
    total = len(rows) if len(rows) < CANDIDATES_MAX and not newest_only else _total(db, expression, wanted)
    return Found(
        total=total, truncated=len(hits) > limit or newest_only or len(rows) == CANDIDATES_MAX, hits=hits[:limit]
    )


def _ranked(
    db: apsw.Connection, expression: str, wanted: Filter, *, newest_only: bool
) -> list[tuple[int, int, str, float, int | None]]:
    conditions, values = _conditions(wanted)
    if newest_only:
        conditions.append(
            "f.rowid >= (select rowid from search_index where search_index match ? "
            "order by rowid desc limit 1 offset ?)"
        )
        values += [expression, NEWEST_HITS]
    rows: list[tuple[Any, ...]] = db.execute(
        "select f.rowid, f.session_id, f.scope, f.rank, e.at "
        "from search_index f join events e on e.id = f.rowid join sessions s on s.id = e.session_id "
        f"where search_index match ? {''.join(f'and {each} ' for each in conditions)}"
        "order by f.rank limit ?",
        (expression, *values, CANDIDATES_MAX),
    ).fetchall()
    return [(event_id, session_id, scope, rank, at) for event_id, session_id, scope, rank, at in rows]


def _total(db: apsw.Connection, expression: str, wanted: Filter) -> int:
    conditions, values = _conditions(wanted)
    return int(
        db.execute(
            "select count(*) from search_index f "
            "join events e on e.id = f.rowid join sessions s on s.id = e.session_id "
            f"where search_index match ? {''.join(f'and {each} ' for each in conditions)}",
            (expression, *values),
        ).get
    )


def _conditions(wanted: Filter) -> tuple[list[str], list[object]]:
    conditions, values = sessions.of_kind(project=wanted.project, folder=wanted.folder, agent=wanted.agent)
    if wanted.without:
        conditions.append(f"s.id not in ({', '.join(map(str, wanted.without))})")
    if wanted.since is not None:
        conditions.append("coalesce(e.at, s.last_active) >= ?")
        values.append(wanted.since)
    if wanted.session_id is not None:
        conditions.append("s.id = ?")
        values.append(wanted.session_id)
    return conditions, values


def _without_copies(
    db: apsw.Connection, rows: list[tuple[int, int, str, float, int | None]]
) -> list[tuple[int, int, str, float, int | None]]:
    """Of one event in several copies of a turn only that of the oldest session stays."""
    originals: dict[tuple[object, ...], tuple[str, int]] = {}
    copies = set()
    for event_id, *_ in rows:
        told: tuple[Any, ...] = db.execute(
            "select t.uid, s.uid, e.kind, e.at, e.data from events e join sessions s on s.id = e.session_id "
            "left join turns t on t.id = e.turn_id where e.id = ?",
            (event_id,),
        ).get
        turn_uid, uid, *key = told
        if turn_uid is None:
            continue
        known = originals.setdefault((turn_uid, *key), (uid, event_id))
        if known[0] != uid:
            first, second = sorted([known, (uid, event_id)])
            originals[(turn_uid, *key)] = first
            copies.add(second[1])
    return [row for row in rows if row[0] not in copies]


def _best_of_each_session(rows: list[tuple[int, int, str, float, int | None]], now: int) -> list[Hit]:
    best: dict[int, Hit] = {}
    for event_id, session_id, scope, rank, at in rows:
        score = -rank * SCOPE_WEIGHT.get(scope, 1.0) * _recency(at, now)
        if session_id not in best or score > best[session_id].score:
            best[session_id] = Hit(event_id=event_id, session_id=session_id, scope=scope, score=score)
    return sorted(best.values(), key=lambda hit: (-hit.score, hit.event_id))


def _recency(at: int | None, now: int) -> float:
    age = HALF_LIFE_MS if at is None else max(now - at, 0)
    return float(0.5 + 0.5 * 0.5 ** (age / HALF_LIFE_MS))
