"""One reader that is shared by several threads."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from backstory.store import open_store
from backstory.store.file import connection
from backstory.workspace.history.searching import SearchQuery
from backstory.workspace.history.sessions import END, Page, SessionFilter
from backstory.workspace.located import LocatedSession
from backstory.workspace.reader import Reader
from tests.support.two_stores import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.clock import Clock

THREADS, ROUNDS = 4, 5
EVERYWHERE = SessionFilter(everywhere=True)


@pytest.fixture
def place(tmp_path: Path, clock: Clock) -> Iterator[Place]:
    made = Place(tmp_path, clock)
    other = made.store_of("other")
    for n in range(6):
        made.talk(made.project_store, f"ours {n}", "and then")
        made.talk(other, f"theirs {n}")
    made.replicate(made.project_store, other)
    interval = sys.getswitchinterval()
    # Threads take turns more often than questions end.
    sys.setswitchinterval(1e-5)
    yield made
    sys.setswitchinterval(interval)
    made.close()


def questions(place: Place, reader: Reader) -> list[Callable[[], object]]:
    """One question of every kind that a face asks."""
    store = place.project_store
    located = LocatedSession(store, store.session("S1"))
    return [
        lambda: reader.sessions(EVERYWHERE, Page(limit=5)),
        lambda: reader.sessions(SessionFilter(title="ours"), Page(limit=4, before=END)),
        lambda: reader.sessions(EVERYWHERE, Page(limit=3, sort="cost")).sessions,
        lambda: reader.count(EVERYWHERE),
        lambda: reader.search(SearchQuery(text="theirs")).findings.total,
        lambda: [each.event for each in reader.events(located, form="full")],
        lambda: store.read_log(store.logs(located.session)[0].id, 0, 1 << 20),
        lambda: reader.labels([located.session.uid]),
        lambda: reader.turns(located),
    ]


def test_four_threads_get_the_answers_of_one(place: Place) -> None:
    one = [ask() for ask in questions(place, Reader(place))]
    shared, begin = questions(place, Reader(place)), threading.Barrier(THREADS)

    def ask_all(first: int) -> list[list[object]]:
        begin.wait()
        turned = shared[first:] + shared[:first]
        return [[ask() for ask in turned] for _ in range(ROUNDS)]

    with ThreadPoolExecutor(THREADS) as pool:
        answers = [pool.submit(ask_all, first) for first in range(THREADS)]
        for first, each in enumerate(answers):
            for answered in each.result():
                for number, answer in enumerate(answered):
                    assert answer == one[(first + number) % len(one)]


def test_every_thread_sees_what_another_process_changes(place: Place) -> None:
    reader = Reader(place)
    with ThreadPoolExecutor(THREADS) as pool, open_store(place.project_store.path) as another:
        for held in (6, 7, 8):
            begin = threading.Barrier(THREADS)

            def count(begin: threading.Barrier = begin) -> int:
                begin.wait()
                return reader.count()

            assert [each.result() for each in [pool.submit(count) for _ in range(THREADS)]] == [held] * THREADS
            another.create_session()


def test_with_the_place_the_connections_of_all_threads_are_closed(place: Place) -> None:
    reader, path = Reader(place), place.home_store.path
    with ThreadPoolExecutor(THREADS) as pool:
        begin = threading.Barrier(THREADS)
        for each in [pool.submit(lambda: (begin.wait(), reader.count(EVERYWHERE))) for _ in range(THREADS)]:
            each.result()
        assert any(each.exists() for each in connection.side_files(path))
        # The threads are still there, and have let go of nothing.
        place.close()
        assert not any(each.exists() for each in connection.side_files(path))
