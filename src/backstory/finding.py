"""Search results as people read them: each hit with the words around it, and what was typed preferred to the letter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.extract import searchable
from backstory.fullform import FullForms
from backstory.snippet import snippet
from backstory.store.search import terms

if TYPE_CHECKING:
    from backstory.store import Filter, Session, Store, StoredEvent

LITERAL_CANDIDATES = 40
"""For a query with signs in it, so many of the best sessions are looked through for it as it was typed."""


NOT_LITERAL = 4
"""A hit that has only the words of such a query counts a quarter."""


class Excerpt(Struct, frozen=True, kw_only=True):
    """A session that was found: its best event, and the place in it. ``marks`` are (start, end) in ``snippet``."""

    session: Session
    stored: StoredEvent
    scope: str
    score: float
    snippet: str
    marks: list[tuple[int, int]]


class Findings(Struct, frozen=True, kw_only=True):
    """What a search gave: matching events in all, whether there is more, and the best event of each session."""

    total: int
    truncated: bool
    excerpts: list[Excerpt]


def find(store: Store, query: str, wanted: Filter, *, limit: int) -> Findings:
    """Search a store. The index knows words only, so of C++ and C it is the text that tells which was meant."""
    signs = [term.casefold() for term in terms(query) if not term.replace("_", "").rstrip("*").isalnum()]
    found = store.search(query, wanted, limit=max(limit, LITERAL_CANDIDATES) if signs else limit)
    forms = FullForms(store)
    excerpts = []
    for hit in found.hits:
        stored = store.event(hit.event_id)
        if stored is None:
            continue
        session = store.session(hit.session_id)
        text = _text(forms, stored, query, signs)
        excerpt, marks = snippet(text, query)
        score = hit.score if _has_all(text, signs) else hit.score / NOT_LITERAL
        excerpts.append(
            Excerpt(session=session, stored=stored, scope=hit.scope, score=score, snippet=excerpt, marks=marks)
        )
    if signs:
        excerpts.sort(key=lambda each: -each.score)
    return Findings(total=found.total, truncated=found.truncated or len(excerpts) > limit, excerpts=excerpts[:limit])


def _text(forms: FullForms, stored: StoredEvent, query: str, signs: list[str]) -> str:
    """The searchable text of an event: of its compact form if what was typed is in that, else of its record."""
    _, text = searchable(stored.event) or ("", "")
    is_whole = len(text) >= stored.char_len
    if is_whole or (_has_all(text, signs) and snippet(text, query)[1]):
        return text
    _, text = searchable(forms.of(stored)) or ("", "")
    return text


def _has_all(text: str, signs: list[str]) -> bool:
    folded = text.casefold() if signs else ""
    return all(sign in folded for sign in signs)
