"""A store that is made for the bench of the screen is like one that is ingested."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import apsw
import pytest

from backstory.agents import load
from backstory.ingest.ingest import ingest
from backstory.workspace.history.sessions import Page, SessionFilter
from backstory.workspace.located import LocatedSession
from backstory.workspace.reader import Reader
from bench.homes import WORKED, Working
from bench.multiplied import multiply
from tests.support.clock import NOW, Clock
from tests.support.two_stores import Place

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.store import Store

pytestmark = pytest.mark.slow
SESSIONS, EVENTS, COPIES = 3, 40, 2
EVERYWHERE = SessionFilter(everywhere=True)


class Made(NamedTuple):
    """A store with every session twice more, and the tables that had rows before."""

    store: Store
    reader: Reader
    filled: set[str]


def tables(path: Path) -> set[str]:
    """The tables that hold anything."""
    db = apsw.Connection(str(path))
    named = [str(name) for (name,) in db.execute("select name from sqlite_master where type = 'table'")]
    found = {each for each in named if db.execute(f"select 1 from {each} limit 1").fetchall()}
    db.close()
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    root = tmp_path_factory.mktemp("multiplied")
    place = Place(root, Clock())
    Working(root / "user").sessions(SESSIONS, EVENTS)
    ingest(place.home_store, [load("claude")], environ={}, home=root / "user", now=NOW)
    filled = tables(place.home_store.path)
    place.home_store.close()
    multiply(place.home_store.path, COPIES)
    return Made(place.home_store, Reader(place), filled)


def test_the_same_tables_have_rows(made: Made) -> None:
    assert tables(made.store.path) == made.filled
    assert {"events", "turns", "chunks", "session_files", "call_results", "search_index_data"} <= made.filled


def test_nothing_is_wrong_with_it(made: Made) -> None:
    found = made.store.verify()
    assert found.problems == []
    assert found.checked["events"] == SESSIONS * EVENTS * (COPIES + 1)


def test_a_copy_is_listed_older_with_the_same_title(made: Made) -> None:
    listed = made.reader.sessions(EVERYWHERE, Page(limit=0)).sessions
    assert len({each.uid for each in listed}) == SESSIONS * (COPIES + 1)
    assert set(Counter(each.heading for each in listed).values()) == {COPIES + 1}


def test_a_copy_shows_the_same(made: Made) -> None:
    def shown(number: int) -> list[tuple[object, ...]]:
        session = made.store.sessions()[number]
        entries = made.reader.events(LocatedSession(made.store, session))
        return [(each.outline.seq, each.outline.kind, each.outline.turn, each.event) for each in entries]

    stored = made.store.sessions()
    first = min(stored, key=lambda each: each.id)
    copy = next(each for each in stored if each.id == first.id + SESSIONS)
    assert shown(stored.index(first)) == shown(stored.index(copy))
    assert len(shown(stored.index(copy))) == EVENTS


def test_words_are_found_in_every_copy(made: Made) -> None:
    word = made.store.turns(made.store.sessions()[0])[0].prompt.split()[1]
    found = {hit.session_id for hit in made.store.search(word, limit=1_000).hits}
    of_first = {each.id for each in made.store.sessions() if each.id <= SESSIONS} & found
    assert of_first
    assert len(found) == len(of_first) * (COPIES + 1)


def test_of_twenty_events_ten_are_of_tools_and_six_answers(made: Made) -> None:
    counted = Counter(WORKED)
    assert (counted["C"] + counted["R"], counted["A"], counted["P"], counted["T"]) == (10, 6, 2, 2)
