"""The sessions as a page has them: a form from the fields of every question, rows, and addresses of the next ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from msgspec import Struct

from backstory.bounds import duration
from backstory.derive.moments import OUTCOMES, RUNNING, when
from backstory.derive.naming import NO_PROMPT
from backstory.store.file import migrate
from backstory.web.markup import plain
from backstory.workspace import questions
from backstory.workspace.history.sessions import Page, SessionFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from backstory.store import Store
    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.reader import Reader

ROWS = 50
AFTER = "after"


class FormField(NamedTuple):
    """A field of the filter with what was typed."""

    name: str
    hint: str
    value: str
    choices: tuple[str, ...]


class SessionRow(Struct, frozen=True, kw_only=True):
    """A session in the list. ``mark`` and ``state``: how its last turn ended, as a sign and in a word.

    ``where``: its address; ``person``: whose it is, '' where all are of one.
    """

    uid: str
    where: str
    heading: str
    mark: str
    state: str
    agents: str
    project: str
    branch: str
    turns: int
    active: str
    lasted: str
    cost: str
    label: str
    person: str = ""


class List(Struct, frozen=True, kw_only=True):
    """A part of the list. ``more``: the address of the next part; '' if there is none."""

    rows: tuple[SessionRow, ...]
    total: int | None
    more: str


def form(typed: Mapping[str, str], *, of_events: bool = False) -> list[FormField]:
    """The fields that choose sessions, or for a search also those that choose events, with what was typed."""
    return [
        FormField(each.name, each.hint, typed.get(each.name, ""), each.choices)
        for each in questions.fields(of_events=of_events)
    ]


def chips(typed: Mapping[str, str], path: str, form: Sequence[FormField]) -> list[tuple[str, str]]:
    """The fields of a form that were filled, and the address of the page without each."""
    asked = {name: value for name, value in typed.items() if value and name != AFTER}
    known = {each.name for each in form}
    return [
        (f"{name}: {plain(value)}", address(path, {each: text for each, text in asked.items() if each != name}))
        for name, value in asked.items()
        if name in known
    ]


def address(path: str, asked: Mapping[str, str]) -> str:
    """A path with what is asked."""
    return f"{path}?{urlencode(asked)}" if asked else path


def listed(
    reader: Reader, typed: Mapping[str, str], home: Path, now: int, today: datetime,
    count: Callable[[SessionFilter], int],
) -> List:  # fmt: skip
    """Read a part of the list. ``count``: of all of it. Raises BadTime, UnknownValue, CursorUnknown."""
    after = typed.get(AFTER) or None
    wanted = SessionFilter(**questions.read(typed, home=home, now=today), everywhere=True)
    page = reader.sessions(wanted, Page(limit=ROWS, after=after, counts=False))
    asked = {name: value for name, value in typed.items() if value and name != AFTER}
    more = address("/sessions", {**asked, AFTER: page.end}) if page.has_more and page.end else ""
    return List(
        rows=tuple(row(each, now) for each in page.sessions), total=count(wanted) if after is None else None, more=more
    )


def state_of(store: Store) -> tuple[str, str]:
    """The state of the home store in words, and the command that helps; '' and '' where nothing is to be said."""
    if not store.exists:
        return f"Nothing was imported yet: there is no store at {plain(str(store.path))}.", "backstory ingest"
    if not store.ask_or(True, migrate.is_derived):
        words = "An earlier version worked out what is here. New logs are not looked for, and sums may change."
        return words, "backstory ingest"
    return "", ""


def row(session: ListedSession, now: int) -> SessionRow:
    """A session in the list."""
    state = RUNNING if session.is_running else session.outcome or ""
    return SessionRow(
        uid=session.uid,
        where=f"/s/{session.uid}",
        heading=plain(f"{session.origin_mark}{session.pruned_mark}{session.heading}") or NO_PROMPT,
        mark=OUTCOMES.get(state, ("", ""))[0],
        state=state,
        agents=plain(", ".join(session.agents)),
        project=plain(session.project_name),
        branch=plain(session.branch or ""),
        turns=session.turns,
        active=when(session.last_active, now),
        lasted=duration(session.duration_ms),
        cost=session.cost.known,
        label=session.label,
    )
