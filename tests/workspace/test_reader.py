"""Sessions of several stores as one list: in pages, each session once, by the store that knows it best."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from backstory.errors import RecordNotFound
from backstory.model import AssistantText, ToolCall, ToolResult, UserMessage
from backstory.store import Store, Workplace, codec, open_store
from backstory.store.file import connection
from backstory.store.tables import sessions
from backstory.store.tables.queue import Queue, QueuedKind, QueuedPrompt
from backstory.workspace.history import entries
from backstory.workspace.history.listing import Listing
from backstory.workspace.history.sessions import ListedSession, Page, SessionFilter, as_json
from backstory.workspace.located import LocatedSession
from backstory.workspace.reader import Reader
from tests.support.two_stores import Place

if TYPE_CHECKING:
    from pathlib import Path

    import apsw

    from tests.support.clock import Clock

EVERYWHERE = SessionFilter(everywhere=True)


@pytest.fixture
def place(tmp_path: Path, clock: Clock) -> Place:
    return Place(tmp_path, clock)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of stores whose reading connections are opened from now on."""
    asked = list[str]()
    opened = connection.open_reader

    def note(_cursor: apsw.Cursor, statement: str, _values: Any) -> bool:
        asked.append(statement)
        return True

    def traced(path: Path) -> apsw.Connection:
        db = opened(path)
        db.exec_trace = note
        return db

    monkeypatch.setattr(connection, "open_reader", traced)
    return asked


def uids(listed: tuple[ListedSession, ...]) -> list[str]:
    return [each.uid for each in listed]


def test_sessions_of_two_stores_are_one_list_with_each_once(place: Place) -> None:
    ours, also_ours = place.talk(place.project_store, "one"), place.talk(place.project_store, "two")
    other = place.store_of("other")
    theirs = place.talk(other, "three")
    place.replicate(place.project_store, other)
    assert uids(Reader(place).sessions().sessions) == [also_ours, ours]
    page = Reader(place).sessions(EVERYWHERE)
    assert uids(page.sessions) == [theirs, also_ours, ours]
    assert (page.total, page.has_more) == (3, False)


def test_pages_follow_each_other_without_a_gap_or_a_repetition(place: Place) -> None:
    other = place.store_of("other")
    for n in range(5):
        place.talk(place.project_store, f"ours {n}")
        place.talk(other, f"theirs {n}")
    # Two that have the same time, and one in each store that begins without any.
    place.replicate(place.project_store, other)
    with place.home_store as home:
        home._write(lambda db: db.execute("update sessions set last_active = null where number = 2"))
    reader = Reader(place)
    whole = uids(reader.sessions(EVERYWHERE, Page(limit=0)).sessions)
    found, after = list[str](), None
    while True:
        page = reader.sessions(EVERYWHERE, Page(limit=3, after=after))
        found += uids(page.sessions)
        assert page.total == 10
        if not page.has_more:
            break
        after = page.end
    assert found == whole
    assert len(set(found)) == 10


def test_a_projects_store_that_has_newer_turns_wins_from_everywhere(place: Place) -> None:
    other = place.store_of("other")
    uid = place.talk(other, "one")
    place.replicate(other)
    place.go_on(other, uid, "two")
    (listed,) = Reader(place).sessions(EVERYWHERE).sessions
    assert (listed.uid, listed.turns) == (uid, 2)
    assert place.home_store.session(uid).turns == 1


def test_a_session_that_the_home_store_does_not_have_yet_is_listed(place: Place) -> None:
    other = place.store_of("other")
    place.talk(other, "one")
    place.replicate(other)
    new = place.talk(other, "two")
    page = Reader(place).sessions(EVERYWHERE)
    assert uids(page.sessions)[0] == new
    assert page.total == 2


def test_no_store_is_opened_of_which_the_home_store_has_all(place: Place, statements: list[str]) -> None:
    others = [place.store_of(f"other{n}") for n in range(3)]
    for store in others:
        place.talk(store, "one")
        store.close()
    place.replicate(*others)
    place.home_store.close()
    statements.clear()
    assert len(Reader(place).sessions(EVERYWHERE).sessions) == 3
    few = len(statements)
    place.talk(others[0], "two")
    others[0].close()
    place.home_store.close()
    statements.clear()
    assert len(Reader(place).sessions(EVERYWHERE).sessions) == 4
    assert len(statements) > few


@pytest.mark.parametrize("limit", [10, 0])
def test_the_number_of_statements_does_not_depend_on_the_number_of_sessions(
    place: Place, statements: list[str], limit: int
) -> None:
    def asked() -> int:
        place.replicate(place.project_store)
        for store in place.stores:
            store.close()
        statements.clear()
        assert Reader(place).sessions(EVERYWHERE, Page(limit=limit)).sessions
        return len(statements)

    for n in range(12):
        place.talk(place.project_store, f"prompt {n}")
    few = asked()
    for n in range(60):
        place.talk(place.project_store, f"prompt {n}")
    assert asked() == few


def test_a_number_names_a_session_in_its_own_project_only(place: Place) -> None:
    other = place.store_of("other")
    ours, theirs = place.talk(place.project_store, "one"), place.talk(other, "two")
    place.replicate(place.project_store, other)
    reader = Reader(place)
    assert [each.label for each in reader.sessions().sessions] == ["S1"]
    assert {each.uid: each.label for each in reader.sessions(EVERYWHERE).sessions} == {
        ours: ours[:12], theirs: theirs[:12]
    }  # fmt: skip


def test_a_session_of_a_project_inside_this_one_is_not_called_by_its_number(place: Place) -> None:
    inner = open_store(place.project_folder / "inner" / ".backstory" / "sessions.bks", now=place.clock)
    ours, theirs = place.talk(place.project_store, "one"), place.talk(inner, "two")
    with inner as store:
        store.change(sessions.place, store.session(theirs).id, Workplace(cwd=str(place.project_folder / "inner")))
    place.replicate(place.project_store, inner)
    labels = {each.uid: each.label for each in Reader(place).sessions().sessions}
    assert labels == {ours: "S1", theirs: theirs[:12]}


def test_a_label_is_longer_where_another_uid_begins_alike(place: Place) -> None:
    store = place.home_store
    one = store.create_session("one").uid
    alike = f"{one[:12]}{'0' * 14}"
    with store:
        store._write(lambda db: db.execute("insert into sessions(uid) values (?)", (alike,)))
    assert Reader(place).labels([one, alike]) == {one: one, alike: alike}
    assert Reader(place).labels([place.talk(store, "x")]).popitem()[1] == store.sessions()[0].uid[:12]


def test_the_total_is_what_a_list_without_an_end_shows(place: Place) -> None:
    for n in range(4):
        place.talk(place.project_store, f"prompt {n}")
    place.replicate(place.project_store)
    only_home = place.talk(place.home_store, "at home")
    reader = Reader(place)
    whole = reader.sessions(EVERYWHERE, Page(limit=0))
    assert reader.sessions(EVERYWHERE, Page(limit=2)).total == len(whole.sessions) == reader.count(EVERYWHERE) == 5
    assert only_home in uids(whole.sessions)


def test_the_places_of_sessions_are_those_that_a_list_shows_and_in_its_order(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        place.talk(place.project_store, f"prompt {n}")
    place.replicate(place.project_store)
    place.talk(place.home_store, "at home")
    listing = Listing(place)
    monkeypatch.setattr("backstory.workspace.history.listing.LARGE_PAGE", 2)
    found = [
        (each.uid, each.shown(listing.project_names(), store.moves).key, each.branch)
        for store, each in listing.each_place(listing.stores(everywhere=True), EVERYWHERE)
    ]
    shown = listing.sessions(EVERYWHERE, Page(limit=0)).sessions
    assert found == [(each.uid, each.repository_key, each.branch) for each in shown]
    assert len(found) == 4


def test_nothing_at_all_is_an_empty_page(place: Place) -> None:
    place.home_store.create_session("x")
    page = Reader(place).sessions(SessionFilter(repository="nobody"))
    assert (page.sessions, page.total, page.has_more) == ((), 0, False)


def test_a_listed_session_is_a_value_and_json(place: Place) -> None:
    uid = place.talk(place.project_store, "Fix the build", name="builds")
    (listed,) = Reader(place).sessions().sessions
    with pytest.raises(AttributeError):
        listed.turns = 3  # type: ignore[misc]
    told = json.loads(json.dumps(as_json(listed), default=str))
    assert (told["uid"], told["number"], told["name"], told["turn_count"]) == (uid, "S1", "builds", 1)
    assert (told["outcome"], told["completed"], told["conflict"]) == ("completed", True, False)


def located_in(store: Store, uid: str) -> LocatedSession:
    """A session in a store."""
    return LocatedSession(store, store.session(uid))


def test_the_change_token_differs_after_any_change_and_is_the_same_without(place: Place) -> None:
    uid = place.talk(place.project_store, "one")
    place.replicate(place.project_store)
    reader = Reader(place)
    tokens = [reader.change_token()]
    assert reader.change_token() == tokens[0]
    with open_store(place.project_store.path) as another:
        another.rename(another.session(uid), "renamed by another process")
    tokens.append(reader.change_token())
    place.project_store.rename(place.project_store.session(uid), "renamed by ours")
    tokens.append(reader.change_token())
    place.go_on(place.home_store, place.home_store.session(uid).uid, "two")
    tokens.append(reader.change_token())
    assert reader.change_token() == tokens[-1]
    assert len(set(tokens)) == len(tokens)


def test_the_change_token_sees_runs_and_queues(place: Place) -> None:
    uid = place.talk(place.project_store, "one")
    reader, folder = Reader(place), place.home / "spool" / "RUN"
    tokens = [reader.change_token()]
    folder.mkdir(parents=True)
    tokens.append(reader.change_token())
    (folder / "stdout").write_bytes(b"begun")
    tokens.append(reader.change_token())
    (folder / "stdout").write_bytes(b"begun and going on")
    tokens.append(reader.change_token())
    with Queue(place.project_store.path) as queue:
        queue.add([QueuedPrompt(uid="T", session_uid=uid, kind=QueuedKind.FOLLOWUP, content="then", queued=1)])
        tokens.append(reader.change_token())
        assert reader.change_token() == tokens[-1]
    assert len(set(tokens)) == len(tokens)


def test_the_change_token_is_the_same_in_every_thread_and_differs_in_none(place: Place) -> None:
    place.talk(place.project_store, "one")
    reader = Reader(place)
    with ThreadPoolExecutor(1) as pool:
        before = reader.change_token()
        assert pool.submit(reader.change_token).result() == before
        # A thread whose connection is opened only now has seen no commit before.
        place.talk(place.project_store, "two")
        after = pool.submit(reader.change_token).result()
        assert (after == before, reader.change_token() == after) == (False, True)


def test_a_token_of_a_snapshot_shows_what_was_changed_since_it_began(place: Place) -> None:
    place.talk(place.home_store, "one")
    reader = Reader(place)
    with open_store(place.home_store.path, shared=True) as another, reader.snapshot():
        another.create_session("two")
        held = reader.change_token()
    assert reader.change_token() != held


def test_an_outline_has_every_entry_and_unpacks_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = place.talk(place.project_store, "one", "twice as long")
    located = located_in(place.project_store, uid)
    stored = place.project_store.events(located.session)
    monkeypatch.setattr("backstory.store.codec.unpack_event", lambda *_: pytest.fail("unpacked"))
    outline = Reader(place).outline(located)
    assert [(each.seq, each.part, each.kind, each.chars) for each in outline] == [
        (each.seq, each.part, each.kind, each.char_len) for each in stored
    ]
    assert [each.turn for each in outline] == [1, 1, 1, 2, 2, 2]
    assert entries.as_json(outline[0])["char_len"] == outline[0].chars


@pytest.mark.slow
@pytest.mark.parametrize("events", [10, 50_000])
def test_an_outline_of_any_length_asks_twice_and_unpacks_nothing(
    place: Place, statements: list[str], monkeypatch: pytest.MonkeyPatch, events: int
) -> None:
    session = place.project_store.create_session("long")
    said = (AssistantText(text=f"word {n}") for n in range(events - 1))
    place.project_store.append_events(session, [UserMessage(content="go"), *said])
    reader, located = Reader(place), located_in(place.project_store, session.uid)
    monkeypatch.setattr("backstory.store.codec.unpack_event", lambda *_: pytest.fail("unpacked"))
    assert reader.outline(located)[-1].seq == events
    statements.clear()
    assert len(reader.outline(located)) == events
    assert len(statements) == 2


def test_entries_of_a_long_session_are_read_without_the_others(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = place.talk(place.project_store, *(f"prompt {n}" for n in range(20)))
    unpacked = list[object]()
    unpack = codec.unpack_event

    def counted(*given: Any) -> Any:
        unpacked.append(given)
        return unpack(*given)

    monkeypatch.setattr(codec, "unpack_event", counted)
    Reader(place).entries(located_in(place.project_store, uid), [31, 4])
    assert len(unpacked) == 2


def test_events_are_read_from_a_place_on_and_so_many_as_are_wanted(place: Place) -> None:
    uid = place.talk(place.project_store, "one", "two", "three")
    reader, located = Reader(place), located_in(place.project_store, uid)
    whole = [(each.outline.seq, each.outline.part) for each in reader.events(located)]
    assert len(whole) == 9
    found = reader.events(located, whole[2], limit=3)
    assert [(each.outline.seq, each.outline.part) for each in found] == whole[3:6]
    assert [each.outline.turn for each in reader.events(located, turns={2})] == [2, 2, 2]
    assert list(reader.events(located, turns=set[int | None]())) == []


def test_what_is_stored_after_events_were_asked_for_is_left_for_the_next_time(place: Place) -> None:
    uid = place.talk(place.project_store, "one")
    reader, located = Reader(place), located_in(place.project_store, uid)
    events = reader.events(located)
    place.go_on(place.project_store, uid, "two")
    assert {each.outline.turn for each in events} == {1}
    assert {each.outline.turn for each in reader.events(located)} == {1, 2}


def test_a_full_event_has_what_its_compact_form_lacks(place: Place) -> None:
    session = place.project_store.create_session("long")
    whole = ToolResult(tool_use_id="t", tool_name="Bash", tool="SHELL", content="\n".join(map(str, range(500))))
    place.project_store.append_events(
        session, [UserMessage(content="go"), ToolCall(tool_use_id="t", tool_name="Bash"), whole]
    )
    reader, located = Reader(place), located_in(place.project_store, session.uid)
    entry = list(reader.events(located))[-1]
    assert entry.event != whole
    assert reader.full(located, entry.outline) == whole
    assert [each.event for each in reader.record(located, entry.outline.seq)] == [whole]
    assert [each.event for each in reader.events(located, form="full")][-1] == whole
    with pytest.raises(RecordNotFound):
        reader.record(located, 99)


def test_entries_are_those_of_the_records_asked_for(place: Place) -> None:
    uid = place.talk(place.project_store, "one", "two")
    found = Reader(place).entries(located_in(place.project_store, uid), [4, 1, 99])
    assert [(each.outline.seq, each.outline.turn, each.event) for each in found] == [
        (1, 1, UserMessage(content="one")), (4, 2, UserMessage(content="two"))
    ]  # fmt: skip


def test_what_was_counted_holds_until_anybody_changes_the_store(place: Place, statements: list[str]) -> None:
    uid = place.talk(place.project_store, "one")
    place.talk(place.project_store, "two")
    reader = Reader(place)

    def counted() -> tuple[int, int]:
        statements.clear()
        return reader.count(), sum("count(*) from sessions s" in each for each in statements)

    assert [counted(), counted()] == [(2, 1), (2, 0)]
    # A title's count is another one.
    assert (reader.count(SessionFilter(title="two")), counted()) == (1, (2, 0))
    with open_store(place.project_store.path) as another:
        another.remove(another.session(uid))
        assert counted() == (1, 1)
        another.create_session("three")
        assert [counted(), counted()] == [(2, 1), (2, 0)]
    place.project_store.rename(place.project_store.session("S2"), "three and two")
    assert reader.count(SessionFilter(title="three")) == 2


def test_letters_of_a_title_are_counted_among_sessions_that_were_looked_at_once(
    place: Place, statements: list[str]
) -> None:
    for prompt in ("tube", "tuba", "bat"):
        place.talk(place.project_store, prompt)
    # One of another project, and one that no list has.
    place.talk(place.home_store, "tub")
    reader = Reader(place)
    place.project_store.write(lambda db: db.execute("update sessions set relation = 'unread' where number = 2"))
    counts = []
    for typed in ("t", "tu", "tub", "tube", "tubes"):
        statements.clear()
        counts.append((reader.count(SessionFilter(title=typed)), sum("s.owner" in each for each in statements)))
    # Once in each of the two stores.
    assert counts == [(2, 2), (1, 0), (1, 0), (1, 0), (0, 0)]
