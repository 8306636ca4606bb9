"""What lists are filtered and sorted by, as kept with the sessions: never other than what their rows say."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory.ask import cost_bounds, costs
from backstory.exchange import replication
from backstory.model import AssistantText, Tokens, Tool, ToolCall, UserMessage
from backstory.store import open_store
from backstory.store.tables import compactions, sessions
from backstory.store.tables.compactions import NewCompaction
from backstory.store.tables.session_filter import HEADING, ListFilter
from backstory.store.tables.sessions import Part
from tests.support.two_stores import Place

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backstory.store import Session, Store
    from tests.support.clock import Clock

PRICES = """
[[price]]
models = ["m"]
input = {}
output = 5
"""
WORDS = ("Ärger", "two  spaces", "PLAIN", "[x]*?", "")


@pytest.fixture
def place(tmp_path: Path, clock: Clock) -> Place:
    made = Place(tmp_path, clock)
    for store in (made.home_store, made.project_store):
        store.prices_file = tmp_path / "prices.toml"
    return made


def titled(store: Store, title: str) -> list[str]:
    return [each.uid for each in store.list_sessions(ListFilter(title=title), limit=50)]


def test_a_title_is_found_whatever_the_case_of_its_letters(place: Place) -> None:
    uid = place.talk(place.project_store, "Ärger mit Schlüsseln")
    for typed in ("ärger", "ÄRGER", "SCHLÜSSELN"):
        assert titled(place.project_store, typed) == [uid]


def test_a_title_is_found_by_its_words_as_a_list_shows_them(place: Place) -> None:
    uid = place.talk(place.project_store, "mend  the\n\ttest")
    assert titled(place.project_store, "mend the test") == titled(place.project_store, " the   test") == [uid]


# never other than what the rows say -----------------------------------------------------------------------------------


def used(db: apsw.Connection, session: Session, chance: random.Random) -> None:
    """Let a turn have used some tokens of a model, as what a log says of it."""
    db.execute(
        "update turns set model = ?, input_tokens = ?, output_tokens = 7, started = 1 "
        "where id = (select max(id) from turns where session_id = ?)",
        (chance.choice(("m", "claude-opus-4-6", "unknown")), chance.randrange(10**6), session.id),
    )


def begin(place: Place, store: Store, chance: random.Random) -> None:
    prompts = [f"{chance.choice(WORDS)} {n}" for n in range(chance.randrange(3))]
    place.talk(store, *prompts, name=chance.choice(("", "", f"Called {chance.choice(WORDS)}")))


def go_on(place: Place, store: Store, chance: random.Random) -> None:
    place.go_on(store, a_session(store, chance).uid, chance.choice(WORDS) or "more")


def spend(_: Place, store: Store, chance: random.Random) -> None:
    store.change(used, a_session(store, chance), chance)


def rename(_: Place, store: Store, chance: random.Random) -> None:
    store.decide(sessions.rename, a_session(store, chance).id, chance.choice(WORDS))


def end(_: Place, store: Store, chance: random.Random) -> None:
    store.mark_completed(a_session(store, chance), 5, chance.choice((None, 0.25, 3.0)))


def remove(_: Place, store: Store, chance: random.Random) -> None:
    store.remove(a_session(store, chance))


def remove_turn(_: Place, store: Store, chance: random.Random) -> None:
    session = a_session(store, chance)
    if turns := store.turns(session):
        store.remove_turns(session, [chance.choice(turns).uid])


def compact(_: Place, store: Store, chance: random.Random) -> None:
    summary = NewCompaction(after_seq=1, summary="What was. " * 200, agent="a", model="m", duration_ms=1, cost_usd=0.5,
                            tokens=Tokens())  # fmt: skip
    store.decide(compactions.add, a_session(store, chance).id, summary)


def replicate(place: Place, _store: Store, _chance: random.Random) -> None:
    if place.project_store.exists:
        place.replicate(place.project_store)


def merge(place: Place, store: Store, chance: random.Random) -> None:
    other = place.store_of(f"other {chance.randrange(3)}")
    place.talk(other, chance.choice(WORDS) or "go")
    if store is place.project_store:
        for uid in other.uids():
            replication.merge(store, other, uid, is_trusted=True, elsewhere=None, owns=True)


def reprice(_: Place, store: Store, chance: random.Random) -> None:
    assert store.prices_file is not None
    store.prices_file.write_text(PRICES.format(chance.randrange(1, 4)))


def settle(_: Place, store: Store, _chance: random.Random) -> None:
    if store.exists:
        store.change(cost_bounds.fill, costs.price_table(store.prices_file), 3)


CHANGES: tuple[Callable[[Place, Store, random.Random], None], ...] = (
    begin, begin, go_on, spend, rename, end, remove, remove_turn, compact, replicate, merge, reprice, settle, settle,
)  # fmt: skip


def a_session(store: Store, chance: random.Random) -> Session:
    if not (uids := store.uids() if store.exists else []):
        store.append_events(store.create_session(""), [UserMessage(content="go"), AssistantText(text="ok")])
        uids = store.uids()
    return store.session(chance.choice(uids))


def rows(store: Store, sql: str) -> list[Any]:
    found: list[Any] = store.reader().execute(sql).fetchall()
    return found


def check(store: Store) -> int:
    """Every key that counts is what the rows say, and lists are the same without; returns how many keys count."""
    prices = costs.price_table(store.prices_file)
    kept = rows(store, "select session_id, heading, most_usd from list_keys where heading >= ''")
    headings: dict[Any, Any] = dict(rows(store, f"select s.id, {HEADING} from sessions s"))
    assert len(headings) == len(rows(store, "select 1 from list_keys"))
    assert {each: heading for each, heading, _ in kept} == {each: headings[each] for each, _, _ in kept}
    of_all, _ = store.ask(cost_bounds.beside_keys, prices)
    if kept and not of_all:
        own = store.ask(cost_bounds._own, prices, list(headings))
        assert [usd for _, _, usd in kept] == [own.get(each) for each, _, _ in kept]
    with open_store(store.path) as without:
        db = without.reader()
        db.execute("pragma query_only = 0")
        db.execute("create temp view list_keys as select id session_id, null most_usd, null heading from main.sessions")
        assert lists(store, store.prices_file) == lists(without, store.prices_file)
    return len(kept)


def lists(store: Store, prices_file: Path | None) -> list[list[tuple[str, float | None]]]:
    part = Part(sort="cost", bounds=store.ask(cost_bounds.beside_keys, costs.price_table(prices_file)))
    found = [store.ask(sessions.listed, ListFilter(), part)]
    found += [
        store.ask(sessions.listed, ListFilter(title=each), Part(limit=9))
        for each in ("ÄRGER", "[x]*?", "two spaces", "")
    ]
    return [[(each.uid, at.value) for at, each in listed] for listed in found]


@pytest.mark.parametrize("seed", range(6))
def test_keys_are_what_the_rows_say_after_any_changes(place: Place, seed: int) -> None:
    chance, counted = random.Random(seed), 0
    for _ in range(40):
        store = chance.choice((place.project_store, place.project_store, place.home_store))
        chance.choice(CHANGES)(place, store, chance)
        counted += sum(check(each) for each in (place.project_store, place.home_store) if each.exists)
    assert counted > 10


def test_an_ingest_fills_open_keys_only_where_they_are_many(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = place.project_store
    for _ in range(3):
        place.talk(store, "go")
    cost_bounds.settle(store)
    assert check(store) == 0
    monkeypatch.setattr(cost_bounds, "OPEN_MAX", 2)
    cost_bounds.settle(store)
    assert check(store) == 3


def test_a_title_that_names_what_was_worked_on_follows_calls_that_come_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = place.project_store
    monkeypatch.setattr(cost_bounds, "OPEN_MAX", 0)
    session = store.create_session()
    store.append_events(session, [UserMessage(content="ls")])
    cost_bounds.settle(store)
    assert (check(store), titled(store, "app.py")) == (1, [])
    store.append_events(session, [ToolCall(tool_name="Read", tool=Tool.READ, file_path="/w/src/app.py")])
    assert titled(store, "ls · /w/src/app.py") == [session.uid]
    cost_bounds.settle(store)
    assert (check(store), titled(store, "app.py")) == (1, [session.uid])


def test_a_store_that_owns_no_session_is_known_as_such_without_a_look_at_all_of_them(place: Place) -> None:
    plan = "explain query plan select 1 from sessions where owner is not null"
    place.talk(place.home_store, "one")
    (step,) = place.home_store.ask(lambda db: db.execute(plan).fetchall())
    assert "idx_sessions_owned" in str(step)


# stores of earlier versions -------------------------------------------------------------------------------------------


def forget_keys(store: Store) -> None:
    """Make a store what an earlier version made."""
    store.close()
    with apsw.Connection(str(store.path)) as db:
        names = db.execute("select name from sqlite_schema where type = 'trigger' and name like 'list_key%'").fetchall()
        for (name,) in names:
            db.execute(f"drop trigger {name}")
        db.execute("drop table list_keys; update meta set value = '12' where key = 'derived_version'")
    db.close()


def test_a_store_without_keys_is_filtered_and_sorted_and_stays_as_it_is(place: Place) -> None:
    store = place.project_store
    uids = [place.talk(store, "Ärger  hier"), place.talk(store, "other")]
    for uid, usd in zip(uids, (0.5, 0.25), strict=True):
        store.mark_completed(store.session(uid), 1, usd)
    forget_keys(store)
    before = hashlib.sha256(store.path.read_bytes()).digest()
    assert titled(store, "ärger hier") == uids[:1]
    by_cost, *_ = lists(store, None)
    assert by_cost == [(uids[0], 0.5), (uids[1], 0.25)]
    store.close()
    assert hashlib.sha256(store.path.read_bytes()).digest() == before


def test_a_store_without_keys_gets_them_when_it_is_written(place: Place) -> None:
    place.talk(place.project_store, "one")
    forget_keys(place.project_store)
    place.talk(place.project_store, "two")
    place.project_store.change(cost_bounds.fill, costs.price_table())
    assert check(place.project_store) == 2
