"""Pages of a list, forwards and backwards, by title and sorted, against a plain full listing of random small stores."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from backstory.ask import cost_bounds, costs
from backstory.derive.naming import folded, says_enough
from backstory.errors import CursorUnknown, UnknownValue
from backstory.store.tables.session_filter import ListFilter
from backstory.workspace.history.sessions import END, Page, SessionFilter
from backstory.workspace.reader import Reader
from tests.support.two_stores import Place

if TYPE_CHECKING:
    from pathlib import Path

    import apsw

    from backstory.store.tables.sessions import Sort
    from backstory.workspace.history.sessions import ListedSession, SessionPage
    from tests.support.clock import Clock

EVERYWHERE = SessionFilter(everywhere=True)
WORDS = ("alpha", "Beta", "50%", "a_b", "  two\nlines ", "ÄRGER", "")
WRITTEN = "00000000-0000-5000-8000-{:012}"
"""The id of a turn in a log that we wrote."""


@pytest.fixture
def place(tmp_path: Path, clock: Clock) -> Place:
    return Place(tmp_path, clock)


def fill(place: Place, seed: int) -> None:
    """Two projects' sessions in three stores, of which some are of odd kinds, removed or renamed."""
    chance, other = random.Random(seed), place.store_of("other")
    for n in range(chance.randrange(8, 14)):
        store = chance.choice((place.project_store, other))
        prompts = [f"{chance.choice(WORDS)} {chance.choice(WORDS)} {n}" for _ in range(chance.randrange(3))]
        uid = place.talk(store, *prompts, name=chance.choice(("", "", f"called {chance.choice(WORDS)} {n}")))
        if prompts:
            store.mark_completed(store.session(uid), chance.choice((None, 5, n)), chance.choice((None, 0.5, n / 8)))
        if chance.random() < 0.2:
            place.clock.ms -= 1_000
    place.replicate(place.project_store, other)
    place.home_store.write(make_odd, chance)
    for store in (place.project_store, place.home_store):
        for each in store.list_sessions(ListFilter()):
            if chance.random() < 0.1:
                store.remove(each)
    if seed % 2:
        for store in (place.project_store, place.home_store):
            store.change(cost_bounds.fill, costs.price_table())
            assert store.ask(lambda db: db.execute("select min(heading) is not null from list_keys").get)
    place.talk(other, "Beta that the home store does not know")


def make_odd(db: apsw.Connection, chance: random.Random) -> None:
    """Make some sessions of the home store what logs would be: of runs, written by us, told twice, of subagents."""
    ids = [int(str(each)) for (each,) in db.execute("select id from sessions order by id")]
    runs = [str(uid) for (uid,) in db.execute("select uid from turns order by id")]
    for n, each in enumerate(ids):
        relation = chance.choice((None, None, "continuation", "retold", "unread", "subagent", "fork"))
        db.execute("update sessions set last_active = null where id = ? and ? < 0.1", (each, chance.random()))
        if chance.random() < 0.4:
            db.execute(
                "update sessions set owner = null, number = null, native_id = ?, relation = ?, title = ? where id = ?",
                (f"native {n}", relation, chance.choice((None, "  ", "The alpha title")), each),
            )
            native = chance.choice((None, f"native {n}", WRITTEN.format(n)))
            db.execute("update turns set native_id = ? where session_id = ?", (native, each))
        elif runs and chance.random() < 0.4:
            db.execute("update turns set native_id = ? where session_id = ?", (f"native {chance.choice(ids)}", each))
        if runs and chance.random() < 0.3:
            db.execute(
                "update or ignore turns set uid = ? where id = (select max(id) from turns where session_id = ?)",
                (chance.choice(runs), each),
            )


def forwards(reader: Reader, wanted: SessionFilter, sort: Sort | None, limit: int) -> list[SessionPage]:
    pages = [reader.sessions(wanted, Page(limit=limit, sort=sort))]
    while pages[-1].has_more:
        pages.append(reader.sessions(wanted, Page(limit=limit, sort=sort, after=pages[-1].end)))
    return pages


def backwards(reader: Reader, wanted: SessionFilter, sort: Sort | None, limit: int) -> list[SessionPage]:
    pages = [reader.sessions(wanted, Page(limit=limit, sort=sort, before=END))]
    while pages[0].has_earlier:
        pages.insert(0, reader.sessions(wanted, Page(limit=limit, sort=sort, before=pages[0].start)))
    return pages


def uids(pages: list[SessionPage]) -> list[str]:
    return [each.uid for page in pages for each in page.sessions]


def every_session(place: Place) -> list[ListedSession]:
    """Every session of every store, once; those of a better store come first."""
    found: dict[str, ListedSession] = {}
    reader = Reader(place)
    stores = reader._listing.stores(everywhere=True)
    held = [{each.uid for each in store.list_sessions(ListFilter(subagents=True, unread=True))} for store in stores]
    for number, store in enumerate(stores):
        present = set[str]().union(*(set(each.uids()) for each in stores[:number]), *held[:number])
        for each in store.list_sessions(ListFilter()):
            if each.uid not in present:
                found[each.uid] = reader.session(store, each)
    return list(found.values())


def expected(everything: list[ListedSession], title: str | None, sort: Sort | None) -> list[str]:
    """The uids of a list as one reads it: chosen and sorted here."""
    listed = [*everything]
    if sort is None:
        listed.sort(key=lambda each: (-1 if each.last_active is None else each.last_active, each.uid), reverse=True)
    else:
        # Among equals those of a better store come first.
        listed.sort(key=lambda each: -1.0 if (value := sorted_by(each, sort)) is None else value, reverse=True)
    return [each.uid for each in listed if title is None or folded(title) in folded(called(each))]


def prompt_of(each: ListedSession) -> str:
    return each.first_prompt if says_enough(each.first_prompt or "") and each.first_prompt else each.heading


def called(each: ListedSession) -> str:
    return each.name or ((each.title or "").strip(" ") and str(each.title)) or prompt_of(each)


def sorted_by(each: ListedSession, sort: Sort) -> float | None:
    return {"cost": each.cost.low_usd, "turns": each.turns, "time": each.duration_ms, "tokens": each.tokens}[sort]


@pytest.mark.parametrize("seed", range(4))
def test_pages_of_every_kind_are_the_whole_list(place: Place, seed: int) -> None:
    fill(place, seed)
    reader, everything = Reader(place), every_session(place)
    sorts: tuple[Sort | None, ...] = (None, "cost", "turns", "time", "tokens")
    for sort in sorts:
        for title in (None, "beta", "0%", "ärger", "Two lines") if sort in (None, "turns") else (None,):
            wanted, whole = SessionFilter(everywhere=True, title=title), expected(everything, title, sort)
            for limit in (0, 3):
                assert uids(forwards(reader, wanted, sort, limit)) == whole, (sort, title, limit)
            assert uids(backwards(reader, wanted, sort, 3)) == whole, (sort, title)


def test_a_cursor_is_a_place_also_when_sessions_come_and_go(place: Place) -> None:
    names = [place.talk(place.project_store, f"number {n}") for n in range(6)][::-1]
    reader = Reader(place)
    first = reader.sessions(EVERYWHERE, Page(limit=2))
    place.project_store.remove(place.project_store.session(names[1]))
    newest = place.talk(place.project_store, "newest")
    following = reader.sessions(EVERYWHERE, Page(limit=2, after=first.end))
    assert uids([following]) == names[2:4]
    before = reader.sessions(EVERYWHERE, Page(limit=9, before=following.start))
    assert (uids([before]), before.has_more, before.has_earlier) == ([newest, names[0]], True, False)
    assert reader.sessions(EVERYWHERE, Page(limit=2, before=END)).total == 6


@pytest.mark.parametrize(
    "cursor", ["", "end", "no cursor", "ÄÖ", "W10", "WyJjb3N0IixudWxsLG51bGwsIlgiXQ", "W251bGwsbnVsbCwxZTk5LCJYIl0"]
)
def test_what_is_no_cursor_of_the_list_is_refused(place: Place, cursor: str) -> None:
    place.talk(place.project_store, "one")
    with pytest.raises(CursorUnknown, match="no place in this list"):
        Reader(place).sessions(EVERYWHERE, Page(after=cursor))


@pytest.mark.parametrize("limit", [-1, -(1 << 70), (1 << 63) - 2, (1 << 63) - 1, 1 << 63])
@pytest.mark.parametrize("sort", [None, "turns", "cost"])
def test_a_limit_below_zero_or_beyond_every_count_is_no_limit(place: Place, limit: int, sort: Sort | None) -> None:
    names = [place.talk(place.project_store, f"number {n}") for n in range(3)][::-1]
    page = Reader(place).sessions(EVERYWHERE, Page(limit=limit, sort=sort))
    assert (uids([page]), page.total, page.has_more) == (names, 3, False)


def test_a_sort_that_there_is_not_is_refused_with_those_that_there_are(place: Place) -> None:
    place.talk(place.project_store, "one")
    with pytest.raises(UnknownValue, match=r"sort cannot be 'nope'.*cost, turns, time, tokens"):
        Reader(place).sessions(EVERYWHERE, Page(sort="nope"))  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [5, 50])
def test_a_page_is_read_in_the_order_of_the_index_however_small_it_is(place: Place, limit: int) -> None:
    place.talk(place.home_store, "one")
    db, asked = place.home_store.reader(), list[tuple[str, Any]]()

    def noted(_: apsw.Cursor, sql: str, values: Any) -> bool:
        asked.append((sql, values))
        return True

    db.exec_trace = noted
    Reader(place).sessions(EVERYWHERE, Page(limit=limit))
    db.exec_trace = None
    ((sql, values),) = [each for each in asked if each[0].startswith("with keyed")]
    plan = [str(row[3]) for row in db.execute(f"explain query plan {sql}", values)]
    assert "SCAN s USING INDEX idx_sessions_active" in plan


def test_a_page_whose_list_is_not_to_be_counted_is_the_same_page(place: Place) -> None:
    for n in range(4):
        place.talk(place.project_store, f"number {n}")
    counted, other = (Reader(place).sessions(EVERYWHERE, Page(limit=2, counts=each)) for each in (True, False))
    assert (counted.total, other.total) == (4, 2)
    assert replace(other, total=4) == counted
