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
SESSIONS, OF_EACH = 20, 3
"""The most sessions that are shown, and the most hits of each."""


class ShownHit(Struct, frozen=True, kw_only=True):
    """A hit. ``where``: its address; ``kind``: who said it, or what it is; ``is_near``: by other forms of the words."""

    where: str
    kind: str
    when: str
    snippet: Markup
    is_near: bool


class SessionHits(Struct, frozen=True, kw_only=True):
    """A session with its best hits, the best first. ``more``: how many it has besides; 0 where nobody counted."""

    heading: str
    about: str
    hits: tuple[ShownHit, ...]
    more: int


class FoundPage(Struct, frozen=True, kw_only=True):
    """The answer to a search. ``said``: in a sentence; ``notes``: what it leaves out."""

    sessions: tuple[SessionHits, ...]
    said: str
    notes: tuple[str, ...] = ()


def found(reader: Reader, typed: Mapping[str, str], home: Path, now: int, today: datetime) -> FoundPage:
    """Search for what was typed. Raises BadTime, UnknownValue, IndexOff."""
    text = typed.get(WORDS, "").strip()
    chosen = questions.read(typed, home=home, now=today)
    if not text and not chosen:
        return FoundPage(sessions=(), said="")
    role = typed.get("role") or None
    chosen.pop("role", None)
    # While it is typed nobody waits until all hits of very many sessions are counted.
    query = SearchQuery(
        text=text, role=role, limit=SESSIONS * OF_EACH, per_session=OF_EACH, counts="part" not in typed, **chosen
    )
    answer = reader.search(query)
    findings = answer.findings
    if not findings.excerpts:
        return FoundPage(sessions=(), said=plain(nothing_found(text)), notes=tuple(left_out(answer.coverage)))
    least = "at least " if findings.at_least else ""
    said = f"{least}{counted(findings.events, 'hit')} in {counted(findings.sessions, 'session')}"
    notes = [*left_out(answer.coverage)]
    if findings.relaxed:
        notes.append("No text has all of these words; these have some.")
    by_session: dict[str, list[Excerpt]] = {}
    for each in findings.excerpts:
        by_session.setdefault(each.shown.uid, []).append(each)
    sessions = tuple(_session(each, now) for each in list(by_session.values())[:SESSIONS])
    return FoundPage(sessions=sessions, said=said, notes=tuple(notes))


def _session(excerpts: list[Excerpt], now: int) -> SessionHits:
    first = excerpts[0]
    session, shown = first.session, first.shown
    about = [", ".join(session.agents), session.shown_project, session.branch or "", session.pruned_fact]
    return SessionHits(
        heading=plain(shown.shown_title or session.shown_title) or NO_PROMPT,
        about=plain(" · ".join(each for each in about if each)),
        hits=tuple(_hit(each, now) for each in excerpts), more=max(first.events - len(excerpts), 0),
    )  # fmt: skip


def _hit(excerpt: Excerpt, now: int) -> ShownHit:
    stored = excerpt.stored
    return ShownHit(
        where=f"/s/{excerpt.session.uid}/{place_of((stored.seq, stored.part))}",
        kind=plain(excerpt.scope),
        when=when(stored.at, now),
        snippet=marked(excerpt.snippet, excerpt.marks),
        is_near=excerpt.near,
    )
