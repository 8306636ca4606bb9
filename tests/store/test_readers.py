"""Who reads a store changes nothing in it, whatever statement is run by mistake: its connection refuses to write."""

from __future__ import annotations

import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest

from backstory.errors import StoreTooNew
from backstory.model import UserMessage
from backstory.store import Store, open_store
from tests.support.clock import NOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def opened() -> Iterator[list[apsw.Connection]]:
    """The connections that were opened, the first one first."""
    found: list[apsw.Connection] = []
    apsw.connection_hooks.append(found.append)
    yield found
    apsw.connection_hooks.remove(found.append)


def verify(store: Store) -> None:
    assert store.verify().problems == []


def list_sessions(store: Store) -> None:
    assert [session.name for session in store.sessions()] == ["one"]


def search(store: Store) -> None:
    assert store.search("heron").sessions == 1


def back_up(store: Store) -> None:
    store.backup(store.path.with_name("copy.bks"))


def is_open(db: apsw.Connection) -> bool:
    return refusal(db, "select 1") is None


def test_a_store_that_nobody_has_any_more_holds_no_file_open(store_path: Path) -> None:
    known = list[weakref.ref[apsw.Connection]]()
    note = lambda db: known.append(weakref.ref(db))  # noqa: E731
    apsw.connection_hooks.append(note)
    open_store(store_path).create_session("one")
    list_sessions(open_store(store_path))
    apsw.connection_hooks.remove(note)
    assert known
    assert [each for each in known if each() is not None] == []


def test_a_store_in_the_place_of_another_one_is_read_by_every_thread(tmp_path: Path) -> None:
    one, other = tmp_path / "one.bks", tmp_path / "other.bks"
    with open_store(one) as store, open_store(other) as replacing, ThreadPoolExecutor(1) as thread:
        store.create_session("one")
        replacing.create_session("another")
        replacing.close()
        store.close()
        token = store.change_token()
        list_sessions(store)
        thread.submit(list_sessions, store).result()
        other.replace(one)
        assert store.change_token() != token
        for names in (names_in(store), thread.submit(names_in, store).result()):
            assert names == ["another"]


def names_in(store: Store) -> list[str]:
    return [session.name for session in store.sessions()]


def test_a_store_that_a_newer_version_takes_over_while_it_is_open_is_read_no_more(store_path: Path) -> None:
    open_store(store_path).create_session("one")
    set_to = "update meta set value = value {} where key = 'schema_version'"
    with open_store(store_path) as store, closing(apsw.Connection(str(store_path))) as newer:
        token = store.change_token()
        list_sessions(store)
        newer.execute(set_to.format("+ 90"))
        assert (taken_over := store.change_token()) != token
        with pytest.raises(StoreTooNew):
            store.sessions()
        newer.execute(set_to.format("- 90"))
        assert store.change_token() not in (token, taken_over)
        list_sessions(store)


def refusal(db: apsw.Connection, statement: str) -> type[Exception] | None:
    """What a connection raises when it is to write."""
    try:
        db.execute(statement)
    except apsw.Error as refused:
        return type(refused)
    return None


@pytest.mark.parametrize("shared", [False, True], ids=["project", "home"])
@pytest.mark.parametrize("read", [list_sessions, search, verify, back_up])
def test_a_connection_that_reads_refuses_to_write(
    tmp_path: Path, opened: list[apsw.Connection], read: Callable[[Store], None], shared: bool
) -> None:
    path = tmp_path / "sessions.bks"
    with open_store(path, shared=shared, now=lambda: NOW) as store:
        store.append_events(store.create_session("one"), [UserMessage(content="a heron")])
    opened.clear()
    with open_store(path, shared=shared, now=lambda: NOW) as store:
        list_sessions(store)
        read(store)
        list_sessions(store)
        reading = [db for db in opened if is_open(db)]
        assert reading != []
        for statement in ("delete from sessions", "create table more(x)", "update meta set value = ''"):
            assert [refusal(db, statement) for db in reading] == [apsw.ReadOnlyError] * len(reading)
