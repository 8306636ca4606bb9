"""A search as a page has it: hits by session, each with its place and the words that it was found by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup
from msgspec import Struct

from backstory.bounds import counted
from backstory.derive.moments import when
from backstory.derive.naming import NO_PROMPT
from backstory.web.markup import marked, plain
from backstory.web.reading import place_of
from backstory.workspace import questions
from backstory.workspace.history.searching import SearchQuery, left_out, nothing_found

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from backstory.search.query import Excerpt
    from backstory.workspace.reader import Reader

WORDS = "q"
HITS = 20


class ShownHit(Struct, frozen=True, kw_only=True):
    """A hit. ``where``: its address; ``kind``: who said it, or what it is; ``is_near``: by other forms of the words."""

    heading: str
    where: str
    about: str
    kind: str
    snippet: Markup
    is_near: bool


class FoundPage(Struct, frozen=True, kw_only=True):
    """The answer to a search. ``said``: in a sentence; ``notes``: what it leaves out."""

    hits: tuple[ShownHit, ...]
    said: str
    notes: tuple[str, ...] = ()


def found(reader: Reader, typed: Mapping[str, str], home: Path, now: int, today: datetime) -> FoundPage:
    """Search for what was typed. Raises BadTime, UnknownValue, IndexOff."""
    text = typed.get(WORDS, "").strip()
    chosen = questions.read(typed, home=home, now=today)
    if not text and not chosen:
        return FoundPage(hits=(), said="")
    role = typed.get("role") or None
    chosen.pop("role", None)
    query = SearchQuery(text=text, role=role, limit=HITS, **chosen)
    answer = reader.search(query)
    findings = answer.findings
    if not findings.excerpts:
        return FoundPage(hits=(), said=plain(nothing_found(text)), notes=tuple(left_out(answer.coverage)))
    least = "at least " if findings.at_least else ""
    said = f"{least}{counted(findings.events, 'hit')} in {counted(findings.sessions, 'session')}"
    notes = [*left_out(answer.coverage)]
    if findings.relaxed:
        notes.append("No text has all of these words; these have some.")
    return FoundPage(hits=tuple(_hit(each, now) for each in findings.excerpts), said=said, notes=tuple(notes))


def _hit(excerpt: Excerpt, now: int) -> ShownHit:
    session, shown, stored = excerpt.session, excerpt.shown, excerpt.stored
    place = place_of((stored.seq, stored.part))
    about = [", ".join(session.agents), session.shown_project, session.branch or "", when(stored.at, now)]
    return ShownHit(
        heading=plain(shown.shown_title or session.shown_title) or NO_PROMPT,
        where=f"/s/{session.uid}/{place}",
        about=plain(" · ".join(each for each in about if each)),
        kind=plain(excerpt.scope),
        snippet=marked(excerpt.snippet, excerpt.marks),
        is_near=excerpt.near,
    )
